import { expect, test } from 'vitest';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { LogClient } from '../../src/log/client.ts';
import { divisionOf } from '../../src/log/division-policy.ts';
import { type EntryHead, RESERVED_TYPES } from '../../src/log/entry.ts';
import { decodeEntryHead, encodeEntry } from '../../src/log/item-codec.ts';
import { route, type StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import { unarchived } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { interceptBlobStore, interceptLogStore } from '../support/stores/interceptor.ts';

/** Entries that each of the two writers appends. */
const ENTRIES = 10_000;
/** Two reads, the stop note, and for each of 20 tries a write and a read, which has two pages. */
const MAX_REQUESTS = 2 + 1 + 20 * 3;

interface Count {
  readonly job: Job;
  readonly result: JobResult;
  /** Entries since the newest Snapshot entry when the job began, and those that came during it. */
  readonly waiting: number;
  readonly during: number;
  readonly requests: number;
}

/**
 * Fills a log with two writers that never pause, alongside a pipeline that runs one job after the
 * other. Each request of writers and jobs takes one pass of the event loop.
 */
async function fill(every: number) {
  const sheets = new SheetLogs();
  const log = await sheets.client.createLog();
  const division = divisionOf({ snapshotEveryEntries: every });
  let records: StreamRecord[] = [];
  const jobs: Job[] = [{ kind: 'snapshot', log, position: { segment: 0, entry: 0 } }];
  const counts: Count[] = [];
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  let [requests, newest, lastSnapshot] = [0, 0, 0];
  const slow = interceptLogStore(sheets.tables, async (_, effect) => {
    await turn();
    return effect();
  });
  const tables = {
    ...slow,
    putEntries: async (entries: Parameters<typeof slow.putEntries>[0]): Promise<void> => {
      await slow.putEntries(entries);
      for (const entry of entries) {
        newest = entry.position.entry;
        const newImage = encodeEntry(entry);
        const { S = { NULL: true }, N = { NULL: true } } = newImage;
        const name = String(newest);
        records.push({ eventId: name, eventName: 'INSERT', sequenceNumber: name, keys: { S, N }, newImage });
      }
    },
  };
  let writing = 2;
  const write = async (column: number): Promise<void> => {
    const client = new LogClient({
      ...sheets.deps,
      store: unarchived(tables),
      tables,
      sleep: async () => undefined,
      newLogId: () => log,
      retries: { attempts: 10_000, baseMs: 0, capMs: 0 },
    });
    for (let i = 0; i < ENTRIES; i++) {
      await client.addEntry(log, { type: 'Set', version: 1, body: [[i % 50, column, `entry ${i}`]] });
    }
    writing--;
  };
  const work = async (): Promise<void> => {
    const send = async ({ body }: { readonly body: string }) => {
      const job = decodeJob(body);
      // The stream asks for the snapshot that a divide job has asked for already.
      if (!jobs.some((other) => JSON.stringify(other) === JSON.stringify(job))) jobs.push(job);
    };
    const counted = interceptLogStore({ ...tables, isRetryable: () => false }, async (_, effect) => {
      requests++;
      return effect();
    });
    const blobs = interceptBlobStore(sheets.blobs, async (_, effect) => {
      requests++;
      await turn();
      return effect();
    });
    while (writing > 0 || records.length > 0 || jobs.length > 0) {
      const batch = records;
      records = [];
      const report = (_: StreamRecord, error: unknown): void => {
        throw error;
      };
      await route({ queue: { send }, types: RESERVED_TYPES, division, report }, batch);
      const job = jobs.shift();
      if (job === undefined) {
        await turn();
        continue;
      }
      const [waiting, before] = [newest - lastSnapshot, newest];
      requests = 0;
      const deps = { ...sheets.deps, tables: counted, store: unarchived(counted), blobs, division, queue: { send } };
      const result = await runJob(deps, job);
      if (result.outcome === 'divided') lastSnapshot = result.position.entry;
      counts.push({ job, result, waiting, during: newest - before, requests });
    }
  };
  await Promise.all([write(0), write(1), work()]);
  const heads: EntryHead[] = [];
  for await (const page of sheets.tables.items(log, { segment: 0, from: 0, to: MAX_NUMBER + 1 }))
    heads.push(...page.map(decodeEntryHead));
  return { heads, counts };
}

test.each([20, 100])(
  'two writers that never pause get a Snapshot entry every %i entries, and those on the way',
  async (every) => {
    const { heads, counts } = await fill(every);
    const snapshots = heads
      .filter(({ type }) => type === RESERVED_TYPES.snapshot)
      .map(({ position }) => position.entry);
    expect(heads.length - snapshots.length).toBe(2 * ENTRIES);
    const divides = counts.filter(({ job }) => job.kind === 'divide');
    const divided = divides.filter(({ result }) => result.outcome === 'divided');
    expect(divides.filter(({ result }) => result.outcome === 'undivided' && result.reason === 'busy')).toEqual([]);
    expect(divided).toHaveLength(snapshots.length - 1);
    expect(Math.max(...divides.map(({ requests }) => requests))).toBeLessThanOrEqual(MAX_REQUESTS);
    // Those on the way come between the look at the stream and the new Snapshot entry.
    for (const [i, entry] of snapshots.slice(1).entries()) {
      const { waiting = 0, during = 0 } = divided[i] ?? {};
      expect(waiting).toBeLessThanOrEqual(1.5 * every);
      // The distance counts the Snapshot entry too.
      expect(entry - (snapshots[i] ?? 0)).toBeLessThanOrEqual(waiting + during + 1);
    }
    const builds = counts.filter(({ job, result }) => job.kind === 'snapshot' && result.outcome === 'built');
    expect(builds).toHaveLength(snapshots.length);
  },
);
