import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { ItemInvalidError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { divisionOf } from '../../src/log/division-policy.ts';
import { type Entry, RESERVED_TYPES, ReservedTypes } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import type { JobQueue } from '../../src/store/job-queue.ts';
import type { StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { type RouteDeps, route } from '../../src/workers/dispatch/route-stream-records.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';

const A = parseLogId('0190b5a0-7e1c-7000-8000-00000000000a');
const B = parseLogId('0190b5a0-7e1c-7000-8000-00000000000b');

let sequence = 100;

function record(entry: Partial<Entry>, changes: Partial<StreamRecord> = {}): StreamRecord {
  const whole: Entry = {
    log: A,
    position: { segment: 0, entry: 0 },
    created: 1,
    type: 'Snapshot',
    version: 1,
    ...entry,
  };
  const sequenceNumber = String(++sequence);
  return {
    eventId: `event-${sequenceNumber}`,
    eventName: 'INSERT',
    sequenceNumber,
    keys: entryKey(whole.log, whole.position),
    newImage: encodeEntry(whole),
    ...changes,
  };
}

const snapshot = (segment: number, entry: number, log = A): StreamRecord =>
  record({ log, position: { segment, entry } });

async function jobsIn(queue: JobQueue): Promise<{ group: string; job: Job }[]> {
  const jobs: { group: string; job: Job }[] = [];
  for (;;) {
    const messages = await queue.receive({ max: 10, visibilityMs: 60_000 });
    if (messages.length === 0) return jobs;
    for (const message of messages) {
      jobs.push({ group: message.group, job: decodeJob(message.body) });
      await queue.delete(message.receipt);
    }
  }
}

function open(
  options: Partial<RouteDeps> & { queue?: JobQueue } = {},
): RouteDeps & { queue: JobQueue; reported: [StreamRecord, unknown][] } {
  const reported: [StreamRecord, unknown][] = [];
  return {
    queue: new MemoryJobQueue(),
    types: RESERVED_TYPES,
    reported,
    report: (failed, error) => reported.push([failed, error]),
    ...options,
  };
}

const job = (segment: number, entry: number, log = A) => ({
  group: log,
  job: { kind: 'snapshot', log, position: { segment, entry } },
});

describe('route', () => {
  test('the insertion of a Snapshot entry becomes a job of its log, in order', async () => {
    const deps = open();
    const records = [snapshot(0, 0), snapshot(0, 7), snapshot(1, 0), snapshot(3, 5, B)];
    expect(await route(deps, records)).toEqual({ batchItemFailures: [] });
    expect(await jobsIn(deps.queue)).toEqual([job(0, 0), job(0, 7), job(1, 0), job(3, 5, B)]);
  });

  test('any other record makes no job and is not an error', async () => {
    const deps = open();
    const records = [
      record({ type: 'Set', body: { format: 'json', text: '{}' } }),
      record({ type: 'End Segment' }),
      record({ external: 'logs/x/roots/y' }, { eventName: 'MODIFY' }),
      { ...record({}), eventName: 'REMOVE' as const, newImage: undefined },
      // An entry of some other type is never looked at closely.
      record({ type: 'Set' }, { keys: {} }),
    ];
    expect(await route(deps, records)).toEqual({ batchItemFailures: [] });
    expect(await jobsIn(deps.queue)).toEqual([]);
    expect(deps.reported).toEqual([]);
  });

  test('a Snapshot entry with other faults is routed, because its own log reports them', async () => {
    const deps = open();
    const { newImage, ...rest } = snapshot(0, 7);
    expect(await route(deps, [{ ...rest, newImage: { T: newImage?.T ?? { S: '' } } }])).toEqual({
      batchItemFailures: [],
    });
    expect(await jobsIn(deps.queue)).toEqual([job(0, 7)]);
  });

  test('reserved types can have other names', async () => {
    const deps = open({ types: new ReservedTypes({ snapshot: 'Checkpoint', endSegment: 'Fin' }) });
    await route(deps, [snapshot(0, 0), record({ type: 'Checkpoint', position: { segment: 0, entry: 9 } })]);
    expect(await jobsIn(deps.queue)).toEqual([job(0, 9)]);
  });

  test('copies of a record make one job', { tags: ['I5'] }, async () => {
    const deps = open();
    const records = [snapshot(0, 0), snapshot(0, 7)];
    await route(deps, records);
    await route(deps, [...records].reverse());
    expect(await jobsIn(deps.queue)).toEqual([job(0, 0), job(0, 7)]);
  });

  test.each<[string, Partial<StreamRecord>]>([
    ['no keys', { keys: {} }],
    ['a segment id of another type', { keys: { S: { S: 'text' }, N: { N: '1' } } }],
    ['a segment id of another length', { keys: { S: { B: new Uint8Array(16) }, N: { N: '1' } } }],
    ['a segment id that begins with no UUID', { keys: { S: { B: new Uint8Array(20).fill(7) }, N: { N: '1' } } }],
    ['no entry number', { keys: { S: entryKey(A, { segment: 0, entry: 0 }).S ?? { S: '' } } }],
    ['an entry number that is none', { keys: { ...entryKey(A, { segment: 0, entry: 0 }), N: { N: '1.5' } } }],
    ['an entry number of another type', { keys: { ...entryKey(A, { segment: 0, entry: 0 }), N: { S: '1' } } }],
    ['no image', { newImage: undefined }],
    ['no type', { newImage: {} }],
    ['a type of another type', { newImage: { T: { N: '1' } } }],
    ['an End Segment without keys', { keys: {}, newImage: { T: { S: 'End Segment' } } }],
  ])('a record with %s fails, and those around it are routed', async (_name, changes) => {
    const deps = open();
    const bad = record({}, changes);
    const records = [snapshot(0, 1), bad, snapshot(0, 2), snapshot(0, 3, B)];
    expect(await route(deps, records)).toEqual({ batchItemFailures: [{ itemIdentifier: bad.sequenceNumber }] });
    expect(deps.reported).toEqual([[bad, expect.any(ItemInvalidError)]]);
    expect(await jobsIn(deps.queue)).toEqual([job(0, 1), job(0, 2), job(0, 3, B)]);
  });

  test('if sending fails, that record is the first failure; after another delivery, nothing is lost or duplicated', {
    tags: ['I5'],
  }, async () => {
    const outage = new Error('queue unreachable');
    const queue = new MemoryJobQueue();
    let sends = 0;
    const flaky: JobQueue = {
      send: (message) => (++sends === 3 ? Promise.reject(outage) : queue.send(message)),
      receive: (options) => queue.receive(options),
      depth: () => queue.depth(),
      delete: (receipt) => queue.delete(receipt),
      changeVisibility: (receipt, visibilityMs) => queue.changeVisibility(receipt, visibilityMs),
    };
    const deps = open({ queue: flaky });
    const records = [snapshot(0, 1), snapshot(0, 2), snapshot(0, 3), snapshot(0, 4)];
    const third = records[2]?.sequenceNumber;
    expect(await route(deps, records)).toEqual({ batchItemFailures: [{ itemIdentifier: third }] });
    expect(deps.reported).toEqual([[records[2], outage]]);
    expect(queue.stats().waiting).toBe(2);
    // A whole batch may come again, and not just what failed.
    expect(await route(deps, records)).toEqual({ batchItemFailures: [] });
    expect(await jobsIn(queue)).toEqual([job(0, 1), job(0, 2), job(0, 3), job(0, 4)]);
  });

  test('an empty batch succeeds', async () => {
    expect(await route(open(), [])).toEqual({ batchItemFailures: [] });
  });
});

describe('with a division policy', () => {
  const division = divisionOf({ snapshotEveryEntries: 5, segmentEveryEntries: 12 });
  const set = (entry: number, log = A, changes: Partial<StreamRecord> = {}): StreamRecord =>
    record({ log, type: 'Set', position: { segment: 2, entry } }, changes);
  const divide = (log = A) => ({ group: log, job: { kind: 'divide', log } });

  test('entries at multiples of the policy ask for a divide job, and Snapshot entries for theirs', async () => {
    const deps = open({ division });
    for (let entry = 1; entry <= 11; entry++) {
      const records = entry === 6 ? [snapshot(2, 6)] : [set(entry)];
      expect(await route(deps, records)).toEqual({ batchItemFailures: [] });
    }
    expect(await jobsIn(deps.queue)).toEqual([divide(), job(2, 6), divide()]);
    expect(deps.reported).toEqual([]);
  });

  test('a batch asks at most once for each log', async () => {
    const deps = open({ division });
    await route(deps, [set(5), set(10), set(5, B), set(12), set(15, B)]);
    expect(await jobsIn(deps.queue)).toEqual([divide(), divide(B)]);
  });

  test('copies of a record ask once', { tags: ['I5'] }, async () => {
    const deps = open({ division });
    await route(deps, [set(5)]);
    await route(deps, [set(5)]);
    expect(await jobsIn(deps.queue)).toEqual([divide()]);
  });

  test('items of other programs are ignored, whatever they have', async () => {
    const deps = open({ division: divisionOf({ snapshotEveryEntries: 1 }) });
    const { S } = entryKey(A, { segment: 0, entry: 0 });
    const keys = [
      {},
      { pk: { S: 'customer' } },
      { S: { S: 'text' }, N: { N: '5' } },
      { S, N: { N: '1.5' } },
      { S, N: { S: '5' } },
      { S: { B: new Uint8Array(20).fill(7) }, N: { N: '5' } },
    ];
    const images = [undefined, {}, { T: { N: '1' } }, { T: { S: 'Customer' } }];
    const records = keys.flatMap((each) => images.map((newImage) => record({}, { keys: each, newImage })));
    expect(await route(deps, records)).toEqual({ batchItemFailures: [] });
    expect([await jobsIn(deps.queue), deps.reported]).toEqual([[], []]);
  });

  test('a malformed Snapshot entry still fails', async () => {
    const deps = open({ division });
    const bad = record({}, { keys: {} });
    expect(await route(deps, [bad, set(5)])).toEqual({ batchItemFailures: [{ itemIdentifier: bad.sequenceNumber }] });
    expect(await jobsIn(deps.queue)).toEqual([divide()]);
  });

  test('by bytes, about four entries ask for each share of the policy, and copies agree', async () => {
    const deps = open({ division: divisionOf({ snapshotEveryBytes: 100_000 }) });
    const records = Array.from({ length: 10_000 }, (_, entry) => set(entry, A, { bytes: 1_000 }));
    let asked = 0;
    for (const each of records) {
      const queue = new MemoryJobQueue();
      await route({ ...deps, queue }, [each]);
      const jobs = await jobsIn(queue);
      await route(
        { ...deps, queue: new MemoryJobQueue(), onSent: (_, sent) => void jobs.push({ group: A, job: sent }) },
        [{ ...each }],
      );
      expect(jobs.length % 2).toBe(0);
      asked += jobs.length / 2;
    }
    // 10 MB are 100 shares of the policy.
    expect(asked).toBeGreaterThan(330);
    expect(asked).toBeLessThan(470);
  });
});
