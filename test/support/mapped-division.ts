import type { LogId } from '../../src/ids/log-id.ts';
import { mappedLayout } from '../../src/log/division-policy.ts';
import { indexOfKey, logOfKey } from '../../src/mapping/key-pattern.ts';
import type { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import type { JobQueue } from '../../src/store/job-queue.ts';
import type { StreamBatchResponse, StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { encodeJob, type Job } from '../../src/workers/jobs/job.ts';
import type { MappedTables } from './mapped-tables.ts';
import type { World } from './world.ts';

/** The router of mapped logs: asks for a divide job at the first item and behind each block. */
export async function routeMapped(
  { division }: World,
  { mapping }: MappedTables,
  { queue, records }: { readonly queue: Pick<JobQueue, 'send'>; readonly records: readonly StreamRecord[] },
): Promise<StreamBatchResponse> {
  const { items, snapshotEvery } = mappedLayout(division);
  for (const { eventName, keys, sequenceNumber } of records) {
    const log = eventName === 'INSERT' ? logOfKey(mapping, keys) : undefined;
    if (log === undefined) continue;
    const count = indexOfKey(mapping, keys) + 1;
    if (count !== 1 && count % snapshotEvery !== 0 && count % items !== 0) continue;
    const job: Job = { kind: 'divide', log };
    try {
      await queue.send({ group: log, deduplicationId: `stream:divide:${log}:${count}`, body: encodeJob(job) });
    } catch {
      return { batchItemFailures: [{ itemIdentifier: sequenceNumber }] };
    }
  }
  return { batchItemFailures: [] };
}

/** Registers the segments of a mapped log, and asks for the snapshot of its newest Snapshot entry. */
export async function divideMapped(
  { division, types }: World,
  { tables, queue }: { readonly tables: MappedLogStore; readonly queue: JobQueue },
  log: LogId,
): Promise<{ readonly outcome: 'divided' }> {
  await tables.register(log, mappedLayout(division));
  for (const { segment, lastSnapshot } of await tables.newestSegments(log, 2, { consistent: true })) {
    const range = { segment, from: 0, to: Number.MAX_SAFE_INTEGER };
    const items = (await Array.fromAsync(tables.items(log, range, { consistent: true }))).flat();
    const newest = items.findLast(({ T }) => T?.S === types.snapshot)?.N?.N;
    if (newest === undefined) continue;
    const job: Job = { kind: 'snapshot', log, position: { segment, entry: Number(newest) } };
    const deduplicationId = `stream:snapshot:${log}:${segment}:${newest}`;
    if (lastSnapshot !== Number(newest)) await queue.send({ group: log, deduplicationId, body: encodeJob(job) });
    break;
  }
  return { outcome: 'divided' };
}
