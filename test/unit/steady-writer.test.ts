import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { divisionOf } from '../../src/log/division-policy.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { mappedDivisionOf } from '../../src/mapping/item-division.ts';
import { LogRegistrar } from '../../src/mapping/log-registrar.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import type { Job } from '../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { undoExpiry } from '../../src/workers/retention/undo-expiry.ts';
import { recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { writeSweepNote } from '../../src/workers/sweep/sweep-note.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { FedLogs } from '../support/fed-logs.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';
import {
  type Interceptor,
  interceptBlobStore,
  interceptLogStore,
  interceptMappedItems,
} from '../support/stores/interceptor.ts';
import { MappedLogs, ORDERS, orderItem } from '../support/stores/mapped-logs.ts';
import { StreamedTable } from '../support/stores/streamed-table.ts';
import { testDeployment } from '../support/test-deployment.ts';

// Every conditional write of a worker, while an application appends to the log before each of its
// requests. It must take effect, with as many requests as alongside a quiet application.

const ARCHIVED: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, graceSeconds: 3600 };

/** Creates a log with a closed segment and an open one. */
async function closedSheet(): Promise<SheetLog> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(20, 3);
  await sheet.completed();
  await sheet.edit(set(0, 0, 'edit'));
  await sheet.covered();
  return sheet;
}

interface Case {
  readonly name: string;
  /** The conditional writes that must be sent. */
  readonly writes: readonly string[];
  readonly prepare?: (sheet: SheetLog) => Promise<void>;
  readonly run: (deps: JobDeps, sheet: SheetLog) => Promise<unknown>;
  readonly outcome: unknown;
}

const run =
  (job: (log: LogId) => Job) =>
  async (deps: JobDeps, { log }: SheetLog): Promise<JobResult> =>
    runJob(deps, job(log));

const policyOf = (policy: Partial<RetentionPolicy>) => () => ({ ...ARCHIVED, ...policy });
const expire =
  (policy: Partial<RetentionPolicy>) =>
  async (deps: JobDeps, { log }: SheetLog) =>
    runJob({ ...deps, policyOf: policyOf(policy) }, { kind: 'expire', log, segment: 0 });
const expired = (policy: Partial<RetentionPolicy>) => async (sheet: SheetLog) => {
  if (policy.archive !== false) await sheet.archive(0);
  await expire(policy)({ ...sheet.deps, queue: { send: async () => undefined } }, sheet);
};
const announcedDeletion = async (sheet: SheetLog) => {
  await expired({ expire: 'delete' })(sheet);
  sheet.nowMs += 2 * 3_600_000;
};

const CASES: readonly Case[] = [
  {
    name: 'a snapshot job publishes its root and moves Last Snapshot',
    writes: ['completeSnapshot', 'advanceLastSnapshot'],
    prepare: async (sheet) => {
      await sheet.edit(set(1, 1, 'new'));
      await sheet.snapshot();
    },
    run: run((log) => ({ kind: 'snapshot', log, position: { segment: 1, entry: 2 } })),
    outcome: { outcome: 'built' },
  },
  {
    name: 'a snapshot job moves Last Snapshot to the root of a worker that died',
    writes: ['advanceLastSnapshot'],
    prepare: async (sheet) => {
      const position = await sheet.snapshot();
      const tables = {
        ...interceptDeps(sheet, async (_, effect) => effect()).tables,
        advanceLastSnapshot: async () => true,
      };
      await sheet.complete(position, { tables });
    },
    run: run((log) => ({ kind: 'snapshot', log, position: { segment: 1, entry: 1 } })),
    outcome: { outcome: 'present' },
  },
  {
    name: 'a flush job replaces the root',
    writes: ['replaceRoot'],
    prepare: async (sheet) => {
      await sheet.fill(100, 5);
      await sheet.fill(2, 1, 5_000);
      await sheet.completed();
      for (let i = 0; i < 3; i++) await sheet.edit(set(7 + i * 31, i, `edit ${i}`));
      await sheet.completed();
    },
    run: async (deps, { log }) => {
      const [newest] = await deps.tables.newestSegments(log, 1, { consistent: true });
      return runJob(deps, {
        kind: 'flush',
        log,
        position: { segment: 1, entry: newest?.lastSnapshot?.position.entry ?? 0 },
      });
    },
    outcome: { outcome: 'flushed' },
  },
  {
    name: 'an archive job names its archive',
    writes: ['setArchive'],
    run: run((log) => ({ kind: 'archive', log, segment: 0 })),
    outcome: { outcome: 'archived' },
  },
  {
    name: 'an expire job stamps archived entries',
    writes: ['setExpiration', 'setEntryExpiry'],
    prepare: async (sheet) => void (await sheet.archive(0)),
    run: expire({ expire: 'ttl' }),
    outcome: { outcome: 'expired' },
  },
  {
    name: 'an expire job deletes archived entries',
    writes: ['setExpiration', 'deleteEntries'],
    prepare: announcedDeletion,
    run: expire({ expire: 'delete' }),
    outcome: { outcome: 'expired' },
  },
  {
    name: 'an expire job stamps entries without an archive',
    writes: ['setExpiration', 'expireEntries'],
    run: expire({ expire: 'ttl', archive: false }),
    outcome: { outcome: 'expired' },
  },
  {
    name: 'an operator undoes an expiry',
    writes: ['setExpiration', 'unexpireEntries'],
    prepare: expired({ expire: 'ttl', archive: false }),
    run: async (deps, { log }) => undoExpiry(deps, { log, segment: 0 }),
    outcome: { segment: 0, entries: 5 },
  },
  {
    name: 'an operator restores a segment',
    writes: ['putSegment', 'setExpiration', 'putItems'],
    prepare: async (sheet) => {
      await announcedDeletion(sheet);
      await expire({ expire: 'delete' })({ ...sheet.deps, queue: { send: async () => undefined } }, sheet);
    },
    run: async (deps, { log }) => restoreSegment(deps, { log, segment: 0 }, { holdSeconds: 3600 }),
    outcome: { restored: 5 },
  },
  {
    name: 'a collect job removes garbage and keeps its record',
    writes: ['delete', 'put'],
    prepare: async (sheet) => {
      await sheet.archive(0);
      sheet.nowMs += 48 * 3_600_000;
      await runJob({ ...sheet.deps, queue: { send: async () => undefined } }, { kind: 'collect', log: sheet.log });
      sheet.nowMs += 48 * 3_600_000;
    },
    run: run((log) => ({ kind: 'collect', log })),
    outcome: { outcome: 'collected' },
  },
  {
    name: 'a rebuild job completes every snapshot again',
    writes: ['completeSnapshot'],
    run: run((log) => ({ kind: 'rebuild', log })),
    outcome: { outcome: 'rebuilt' },
  },
  {
    name: 'a job writes a stop note',
    writes: ['put'],
    prepare: async (sheet) => {
      await sheet.append({ type: 'Unknown', version: 1, body: 1 });
      await sheet.snapshot();
    },
    run: run((log) => ({ kind: 'snapshot', log, position: { segment: 1, entry: 2 } })),
    outcome: { outcome: 'stopped' },
  },
  {
    name: 'a sweep leaves its note to the next one',
    writes: ['update'],
    prepare: async (sheet) => void (await sheet.edit(set(1, 1, 'new'))),
    run: async (deps) => {
      const jobs: Job[] = [];
      const send = async (job: Job): Promise<void> => void jobs.push(job);
      const onFailure = (_: LogId | undefined, error: unknown): void => {
        throw error;
      };
      const { failed } = await sweep({ ...deps, policyOf: policyOf({}), send, onFailure });
      await writeSweepNote(deps.blobs, undefined, {
        rest: undefined,
        requested: [{ queue: 'snapshot', at: 1, jobs: ['a'] }],
      });
      return { failed, kinds: jobs.map(({ kind }) => kind) };
    },
    outcome: { failed: 0, kinds: ['archive'] },
  },
];

describe('beside an application that appends before each of its requests', () => {
  test.each(CASES)('$name', async ({ prepare, run, writes, outcome }) => {
    const requests: string[][] = [];
    for (const isBusy of [false, true]) {
      const sheet = await closedSheet();
      await prepare?.(sheet);
      const sent: string[] = [];
      requests.push(sent);
      const deps = interceptDeps(sheet, async (operation, effect) => {
        sent.push(operation);
        if (isBusy) await sheet.edit(set(9, 9, `request ${sent.length}`));
        return effect();
      });
      const queue = { send: async () => undefined };
      expect(await run({ ...deps, queue, division: divisionOf({}) }, sheet)).toMatchObject({ ...Object(outcome) });
      if (String(Object(outcome).outcome) === 'stopped') expect(await readStop(sheet.blobs, sheet.log)).toBeDefined();
    }
    const [quiet = [], busy = []] = requests;
    expect(busy).toEqual(expect.arrayContaining([...writes]));
    expect(counted(busy)).toEqual(counted(quiet));
  });

  test('a divide job registers a mapped log, and its snapshot is completed', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(12);
    const blobs = new MemoryBlobStore();
    let requests = 0;
    let next = 12;
    const intercept: Interceptor = async (_, effect) => {
      requests++;
      logs.items.insert(orderItem(log, next++));
      return effect();
    };
    const items = interceptMappedItems(logs.items, intercept);
    const books = interceptLogStore(logs.books, intercept);
    const tables = new MappedLogStore({ items, books, mapping: ORDERS, now: () => 0 });
    const watched = interceptBlobStore(blobs, intercept);
    const mapped = new LogRegistrar({ store: tables, blobs: watched, table: 'orders', mapping: ORDERS });
    const sizes = { items: 10, snapshotEvery: 5 };
    expect(await mapped.register(log, sizes)).toBeGreaterThanOrEqual(0);
    const deps: JobDeps = {
      ...(await SheetLog.create()).deps,
      tables,
      store: testDeployment({ tables, blobs: watched }).store,
      blobs: watched,
      types: VIRTUAL_TYPES,
      scheduler: mapped,
      division: mappedDivisionOf({ snapshotEveryEntries: 5, segmentEveryEntries: 10 }),
      queue: { send: async () => undefined },
    };
    const divided = await runJob(deps, { kind: 'divide', log });
    if (divided.outcome !== 'divided') throw new Error(`the log was not divided: ${divided.outcome}`);
    expect(await runJob(deps, { kind: 'snapshot', log, position: divided.position })).toMatchObject({
      outcome: 'built',
    });
    expect(
      (await logs.store.getSegment(log, divided.position.segment, { consistent: true }))?.lastSnapshot?.position.entry,
    ).toBe(divided.position.entry);
    expect(requests).toBeLessThan(150);
  });

  test('the feed writer and a divide job of the feed', async () => {
    const fed = new FedLogs();
    const log = await fed.create();
    let requests = 0;
    let isFed = false;
    const intercept: Interceptor = async (_, effect) => {
      requests++;
      await fed.append(log, 1);
      // The other writer of the feed never pauses alongside the divide job.
      if (isFed) await fed.feed(log);
      return effect();
    };
    const tables = interceptLogStore(fed.tables, intercept);
    const logs = fed.open(0, tables);
    const writer = new FeedWriter({ logs, sleep: async () => undefined, random: Math.random });
    const fedSpans = await writer.add([{ log, position: { segment: 0, entry: 0 } }]);
    expect(fedSpans).toMatchObject({ spans: 1 });
    expect(requests).toBeLessThan(12);
    for (let i = 0; i < 1_000; i++) {
      await fed.append(log, 1);
      await fed.feed(log);
    }
    isFed = true;
    const deps = {
      ...(await SheetLog.create()).deps,
      tables,
      blobs: fed.blobs,
      queue: { send: async () => undefined },
    };
    expect(await runJob(deps, { kind: 'divide', log: FEED_LOG })).toMatchObject({ outcome: 'divided' });
  });

  test('the writer of revisions', async () => {
    const table = new StreamedTable();
    const keys = { id: { S: 'a' }, part: { S: '1' } };
    let n = 0;
    const busy = interceptLogStore(table.deployment.tables, async (_, effect) => {
      table.put({ ...keys, n: { N: String(n++) } });
      return effect();
    });
    const recorder = table.recorder(busy);
    for (let round = 0; round < 3; round++) {
      table.put({ ...keys, n: { N: String(n++) } });
      const changes = [...table.records];
      const { failed } = await recordRevisions({ logs: recorder }, changes);
      expect(failed).toEqual([]);
    }
  });
});

/** How often each operation was sent. */
function counted(operations: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(operations, (operation) => operation)].map(([name, all]) => [name, all.length] as const).sort(),
  );
}
