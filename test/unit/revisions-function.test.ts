import { expect, test } from 'vitest';
import { DeploymentInvalidError } from '../../src/errors.ts';
import type { RevisionsEvent } from '../../src/functions/function-event.ts';
import { revisionsFunction } from '../../src/functions/revisions-function.ts';
import type { CompareResult } from '../../src/workers/revisions/compare-table.ts';
import { StreamedTable } from '../support/stores/streamed-table.ts';

const RESULT: CompareResult = {
  ...{ items: 3, gaps: 1, failed: 0, waiting: 0 },
  ...{ continued: false, complete: true, incompleteSeconds: 0 },
};
const INVOCATION = { awsRequestId: 'run', getRemainingTimeInMillis: () => 900_000 };

test('a comparison reports that the stream is off, and goes on', async () => {
  const events: RevisionsEvent[] = [];
  const off = new DeploymentInvalidError('RevisionsStreamArn', 'is off', { advice: 'Turn it on' });
  const handler = revisionsFunction({
    logs: async () => new StreamedTable().recorder(),
    checkStream: async () => Promise.reject(off),
    compare: async () => RESULT,
    now: () => 0,
    report: (event) => void events.push(event),
  });
  expect(await handler({ compare: true }, INVOCATION)).toEqual(RESULT);
  expect(events).toMatchObject([
    { kind: 'uncompared', log: undefined, error: off },
    { kind: 'compared', result: RESULT },
  ]);
});
