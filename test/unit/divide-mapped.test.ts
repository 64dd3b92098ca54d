import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { ItemInvalidError } from '../../src/errors.ts';
import { reportEvent } from '../../src/functions/function-event.ts';
import { fromLambdaRecord } from '../../src/functions/stream-function.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Item } from '../../src/log/attribute.ts';
import type { DivisionSettings } from '../../src/log/division-policy.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { mappedDivisionOf } from '../../src/mapping/item-division.ts';
import type { SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { route, type StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { JobRunner } from '../../src/workers/dispatch/sweep-runner.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import type { SweepResult } from '../../src/workers/sweep/sweep.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { toLambdaRecord } from '../support/deployed/lambda-records.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { MappedLogs, ORDERS, orderItem } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Ten items a segment, with a Snapshot entry after every fifth. */
const TENS: DivisionSettings = { snapshotEveryEntries: 5, segmentEveryEntries: 10 };

/** Counts the entries of each type. */
const counting: Reducer = {
  name: 'counting',
  version: 1,
  async fold(draft, { type }) {
    const counts = draft.map('counts', 'string');
    counts.put(type, Number((await counts.get(type)) ?? 0) + 1);
  },
};

/** Mapped logs with workers and a sweep. */
class DividedOrders extends MappedLogs {
  readonly blobs = new MemoryBlobStore();
  nowMs = NOON * 1000;
  readonly deps: Omit<JobDeps, 'queue'>;

  constructor(settings: DivisionSettings = TENS, mapping: SchemaMapping = ORDERS) {
    super(mapping);
    const { blobs, store: tables } = this;
    const division = mappedDivisionOf(settings);
    const stores = { tables, scheduler: tables, blobs };
    this.deps = testDeployment({ ...stores, types: VIRTUAL_TYPES, reducer: counting, now: () => this.nowMs, division });
  }

  async divide(log: LogId): Promise<JobResult['outcome'][]> {
    return this.run([{ kind: 'divide', log }]);
  }

  async run(jobs: readonly Job[]): Promise<JobResult['outcome'][]> {
    const outcomes: JobResult['outcome'][] = [];
    const runner = new JobRunner(this.deps, (_, { outcome }) => outcomes.push(outcome));
    for (const job of jobs) await runner.run(job);
    return outcomes;
  }

  async sweep(youngSeconds = 0): Promise<Job[]> {
    return (await this.swept(youngSeconds)).sent;
  }

  async swept(youngSeconds = 0): Promise<SweepResult & { readonly sent: Job[] }> {
    const sent: Job[] = [];
    const result = await sweep(
      {
        ...this.deps,
        policyOf: () => DEFAULT_POLICY,
        send: async (job) => void sent.push(job),
        onFailure: (_, error) => {
          throw error;
        },
      },
      { youngSeconds },
    );
    return { ...result, sent };
  }

  /** The last snapshots of all recorded segments. */
  async lastSnapshots(log: LogId): Promise<(number | undefined)[]> {
    return (await Array.fromAsync(this.books.segments(log))).map(({ lastSnapshot }) => lastSnapshot?.position.entry);
  }

  async isReplayed(log: LogId): Promise<boolean | null> {
    return (await replay({ ...this.deps, scratch: new MemoryChunks() }, log)).equal;
  }
}

function recordOf(keys: Item, change: Partial<StreamRecord> = {}): StreamRecord {
  return { eventId: '1', eventName: 'INSERT', sequenceNumber: '1', keys, ...change };
}

async function asking(records: readonly StreamRecord[], settings: DivisionSettings = TENS) {
  const jobs: Job[] = [];
  const errors: unknown[] = [];
  const { batchItemFailures } = await route(
    {
      queue: { send: async ({ body }) => void jobs.push(decodeJob(body)) },
      types: VIRTUAL_TYPES,
      mapping: ORDERS,
      division: mappedDivisionOf(settings),
      report: (_, error) => errors.push(error),
    },
    records.map((record) => fromLambdaRecord(toLambdaRecord(record))),
  );
  return { jobs, errors, batchItemFailures };
}

function keysOf(log: LogId, index: number): Item {
  const { pk = { S: '' }, sk = { N: '' } } = orderItem(log, index);
  return { pk, sk };
}

describe('the router of a mapped table', () => {
  test('the first item of a log asks, and the last one before each Snapshot entry', async () => {
    const log = newLogId();
    const asked: number[] = [];
    for (let index = 0; index < 22; index++) {
      if ((await asking([recordOf(keysOf(log, index))])).jobs.length > 0) asked.push(index);
    }
    expect(asked).toEqual([0, 4, 9, 14, 19]);
  });

  test('sends one job per log, and ignores items of other things', async () => {
    const [a, b] = [newLogId(), newLogId()];
    const others = [
      { pk: { S: 'customer#7' }, sk: { N: '0' } },
      { pk: { S: 'order' }, sk: { N: '4' } },
    ];
    const records = [...others, keysOf(a, 0), keysOf(b, 4), keysOf(a, 4)].map((keys) => recordOf(keys));
    const result = await asking([...records, recordOf(keysOf(a, 9), { eventName: 'MODIFY' })]);
    expect(result.jobs.map(({ log }) => log)).toEqual([a, b]);
    expect(result.errors).toEqual([]);
  });

  test('reports an item whose number is none, and goes on without another delivery', async () => {
    const log = newLogId();
    const { pk = { S: '' } } = orderItem(log, 0);
    const { jobs, errors, batchItemFailures } = await asking([
      recordOf({ pk, sk: { N: '1.5' } }),
      recordOf(keysOf(log, 4)),
    ]);
    expect(errors).toEqual([expect.any(ItemInvalidError)]);
    expect(String(errors[0])).toContain('1.5');
    expect(batchItemFailures).toEqual([]);
    expect(jobs).toEqual([{ kind: 'divide', log }]);
    const record = recordOf({ pk, sk: { N: '1.5' } });
    expect(reportEvent({ kind: 'record', record, error: errors[0], isSkipped: true })).toMatchObject({
      level: 'error',
      message: 'a stream record was skipped, because its item does not fit the mapping',
    });
  });
});

describe('a divide job of a mapped log', () => {
  test('registers the log, and later its segments, and builds the newest snapshot', async () => {
    const orders = new DividedOrders();
    const log = newLogId();
    await orders.append(log, 1);
    expect(await orders.divide(log)).toEqual(['registered']);
    expect(await orders.divide(log)).toEqual(['undivided']);
    await orders.append(log, 4);
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    expect(await orders.divide(log)).toEqual(['undivided']);
    expect(await orders.lastSnapshots(log)).toEqual([6]);
    await orders.append(log, 22);
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    expect(await orders.lastSnapshots(log)).toEqual([6, undefined, 6]);
    expect(await orders.isReplayed(log)).toBe(true);
  });

  test('an item that does not fit stops its log with a note that names it, and fails no job', async () => {
    const orders = new DividedOrders();
    const log = newLogId();
    await orders.append(log, 7);
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    const unfit = orderItem(log, 7, { ts: { S: 'yesterday' } });
    orders.items.insert(unfit);
    await orders.append(log, 1);
    expect(await orders.divide(log)).toEqual(['stopped']);
    expect(await readStop(orders.blobs, log)).toMatchObject({ code: 'ITEM_INVALID', segment: 0, entry: 9 });
    await orders.append(log, 1);
    expect(await orders.divide(log)).toEqual(['undivided']);
    orders.items.delete(unfit);
    orders.items.insert(orderItem(log, 7));
    expect(await orders.run(await orders.sweep())).toEqual(['built']);
    expect(await readStop(orders.blobs, log)).toBeUndefined();
    await orders.append(log, 5);
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    expect(await orders.isReplayed(log)).toBe(true);
  });

  test('does nothing for a log without items', async () => {
    expect(await new DividedOrders().divide(newLogId())).toEqual(['undivided']);
  });

  test('completes snapshots by bytes or minutes if the policy has no entries', async () => {
    const orders = new DividedOrders({ snapshotEveryBytes: 5_000, snapshotEveryMinutes: 60 });
    const log = newLogId();
    await orders.append(log, 12);
    expect(await orders.divide(log)).toEqual(['registered']);
    await orders.append(log, 40);
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    expect(await orders.lastSnapshots(log)).toEqual([55]);
    await orders.append(log, 10);
    expect(await orders.divide(log)).toEqual(['undivided']);
    orders.nowMs += 3_700_000;
    expect(await orders.divide(log)).toEqual(['divided', 'built']);
    expect(await orders.lastSnapshots(log)).toEqual([66]);
  });
});

describe('a sweep over mapped logs', () => {
  test('finds snapshots and segments that nothing asked for', async () => {
    const orders = new DividedOrders();
    const log = newLogId();
    await orders.append(log, 1);
    await orders.divide(log);
    expect(await orders.sweep()).toEqual([]);
    await orders.append(log, 36);
    for (let rounds = 0; rounds < 5; rounds++) await orders.run(await orders.sweep());
    expect(await orders.sweep()).toEqual([]);
    // The newest snapshot covers all segments before.
    expect(await orders.lastSnapshots(log)).toEqual([6, undefined, undefined, 6]);
    expect(await orders.isReplayed(log)).toBe(true);
  });

  test('leaves young Snapshot entries to the stream', async () => {
    const orders = new DividedOrders();
    const log = newLogId();
    await orders.append(log, 6);
    await orders.store.register(log, { items: 10, snapshotEvery: 5 });
    expect(await orders.sweep(900)).toEqual([]);
    orders.nowMs += 3_600_000;
    expect(await orders.sweep(900)).toEqual([
      { kind: 'snapshot', log, position: { segment: 0, entry: 6 }, force: true },
    ]);
  });
});

test('a rebuild of a mapped log replaces its snapshots and adds the newest, and no others', async () => {
  const orders = new DividedOrders();
  const log = newLogId();
  await orders.append(log, 26);
  await orders.divide(log);
  await orders.append(log, 10);
  const queue = { send: async () => undefined };
  const rebuilt = await runJob({ ...orders.deps, queue }, { kind: 'rebuild', log });
  expect(rebuilt).toMatchObject({ outcome: 'rebuilt', snapshots: 2, newest: { segment: 3, entry: 6 } });
  expect(await orders.lastSnapshots(log)).toEqual([undefined, undefined, 6, 6]);
  const fresh = newLogId();
  await orders.append(fresh, 1);
  await orders.divide(fresh);
  expect(await runJob({ ...orders.deps, queue }, { kind: 'rebuild', log: fresh })).toMatchObject({ snapshots: 0 });
});

test.each([
  ['counts as missed by the stream, if it asks', TENS, 1],
  ['is not missed by the stream, if only sweeps look at the policy', { snapshotEveryMinutes: 60 }, 0],
])('a pending snapshot of a mapped log %s', async (_, settings, missed) => {
  const orders = new DividedOrders(settings);
  await orders.create(12, { items: 1000, snapshotEvery: 10 });
  orders.nowMs += 7_200_000;
  expect(await orders.swept(900)).toMatchObject({ jobs: 1, missed });
});

describe('the age of a pending snapshot of a mapped log', () => {
  test.each([
    ['counts from its entry if the policy has entries', TENS, NOON + 9],
    ['counts from the end of the minutes if it has minutes', { snapshotEveryMinutes: 60 }, NOON + 3_600],
    ['is unknown if items have no time', TENS, undefined],
  ])('%s', async (_, settings, oldest) => {
    const orders = new DividedOrders(settings, oldest === undefined ? { ...ORDERS, time: undefined } : ORDERS);
    const log = newLogId();
    await orders.append(log, 12);
    await orders.store.register(log, { items: 1000, snapshotEvery: 10 });
    orders.nowMs += 86_400_000;
    const swept = await orders.swept();
    expect(swept.sent).toMatchObject([{ kind: 'snapshot', position: { segment: 0, entry: 11 } }]);
    expect(swept.oldest).toBe(oldest);
  });
});

test('a snapshot job of a mapped log that is asked for twice is built once', async () => {
  const orders = new DividedOrders();
  const log = newLogId();
  await orders.append(log, 5);
  await orders.store.register(log, { items: 10, snapshotEvery: 5 });
  const queue = { send: async () => undefined };
  const job: Job = { kind: 'snapshot', log, position: { segment: 0, entry: 6 } };
  const results = [await runJob({ ...orders.deps, queue }, job), await runJob({ ...orders.deps, queue }, job)];
  expect(results.map(({ outcome }) => outcome)).toEqual(['built', 'present']);
});
