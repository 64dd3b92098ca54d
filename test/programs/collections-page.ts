import { collections, collectionsOf } from '../../src/exports/collections.ts';
import { openLogs, type SendLogRequest } from '../../src/exports/logfold.ts';

/** Shows a collection as the page of an application does. A test bundles this module. */
export async function show(send: SendLogRequest, log: string): Promise<readonly unknown[]> {
  const logs = await openLogs({ urlOf: (key) => `/object?key=${encodeURIComponent(key)}`, send });
  const document = await logs.open(log, { reducer: collections });
  return Array.fromAsync(collectionsOf(document.state).collection('charts').items());
}
