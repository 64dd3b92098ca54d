import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbGroupStore } from '../../src/adapters/dynamodb/group-store.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { FeedItem } from '../../src/client/feed.ts';
import { Logs } from '../../src/client/logs.ts';
import { positionOfCheckpoint } from '../../src/feed/checkpoint.ts';
import { FEED_LOG, feedOr } from '../../src/feed/feed-log.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { DivisionPolicy } from '../../src/log/division-policy.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import type { NewMessage } from '../../src/store/job-queue.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { divideLog } from '../../src/workers/divide/divide-log.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { feedEntries } from '../support/feed.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const LOGS = 30;
/** Epochs of 40 entries, with a snapshot after each tenth. */
const DIVISION: DivisionPolicy = { snapshotEvery: { entries: 10 }, segmentEvery: { entries: 40 } };
const POLICY: RetentionPolicy = {
  ...DEFAULT_POLICY,
  keepSegments: 1,
  keepDays: 0,
  expire: 'delete',
  graceSeconds: 3600,
};

/** Counts entries. */
const counting: Reducer = {
  name: 'counting',
  version: 1,
  fold({ meta }) {
    meta.set('entries', Number(meta.get('entries') ?? 0) + 1);
  },
};

let engine: TestEngine;
let clockMs = NOON * 1000;
let random: Random;
let feedTable: string;
let tables: LogStore;
let deps: JobDeps;
/** Jobs that follow from others. */
let queued: Job[];
/** The entries of each log, as its client appended them. */
let written: Map<LogId, string[]>;
let client: Logs;

beforeAll(async () => {
  engine = await startTestEngine();
  random = new Random(17);
  queued = [];
  written = new Map();
  feedTable = (await engine.createTables()).entryTable;
  const own = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) });
  const feed = new DynamoDbLogStore({ client: engine.client, entryTable: feedTable, segmentTable: feedTable });
  tables = withFeed(own, feed);
  const blobs = new MemoryBlobStore(() => clockMs);
  deps = testDeployment({
    ...{ tables, blobs, reducer: counting, division: DIVISION },
    now: () => clockMs,
    random: () => random.next(),
    policyOf: () => POLICY,
    queue: { send: async ({ body }: NewMessage) => void queued.push(decodeJob(body)) },
  });
  client = newClient();
});
afterAll(() => engine.stop());

/** Another process, which shares no cache with the others. */
function newClient(): Logs {
  return new Logs({
    ...deps,
    feedGroups: new DynamoDbGroupStore({ client: engine.client, feedTable }),
    sleep: async (ms) => {
      clockMs += ms;
    },
    newLogId,
  });
}

/** A writer of the feed in another process. */
function newWriter(): FeedWriter {
  const sleep = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return new FeedWriter({ logs: newClient(), sleep, random: () => random.next() });
}

/** Runs a job and those that follow from it. */
async function run(job: Job): Promise<void> {
  queued.push(job);
  for (let next = queued.shift(); next !== undefined; next = queued.shift()) await runJob(deps, next);
}

/** Gives a log the Snapshot entry or the segment that is due, and its snapshot. */
async function divide(log: LogId): Promise<void> {
  const result = await divideLog({ ...feedOr(log, deps), division: DIVISION }, { kind: 'divide', log });
  if (result.outcome === 'divided') await run({ kind: 'snapshot', log, position: result.position });
}

/** Appends to some logs; the ends that the stream shows. */
async function appendSome(): Promise<{ readonly log: LogId; readonly position: Position }[]> {
  clockMs += 1_000;
  const ids = [...written.keys()];
  const ends = [];
  for (let i = 0; i < 6; i++) {
    // The first logs get most entries, and so several segments.
    const log = ids[random.below(random.below(ids.length) + 1)] ?? FEED_LOG;
    const body = random.text(8);
    const { position } = await client.client.addEntry(log, { type: 'Set', version: 1, body });
    written.get(log)?.push(`${formatPosition(position)} ${body}`);
    ends.push({ log, position });
  }
  return ends;
}

/** Archives the closed segments of a log, and deletes their entries. */
async function archive(log: LogId): Promise<number> {
  const [newest] = await tables.newestSegments(log, 1, { consistent: true });
  const closed = Array.from({ length: newest?.segment ?? 0 }, (_, segment) => segment);
  for (const segment of closed) await run({ kind: 'archive', log, segment });
  // The first job announces the expiry, and the second one deletes.
  for (const _ of ['announced', 'deleted']) {
    for (const segment of closed) await run({ kind: 'expire', log, segment });
    clockMs += POLICY.graceSeconds * 1000 + 1_000;
  }
  return closed.length;
}

/** The entries of the application among items, as they were appended, by log. */
async function byLog(items: readonly FeedItem[]): Promise<Map<LogId, string[]>> {
  const found = new Map<LogId, string[]>([...written.keys()].map((log) => [log, []]));
  for (const { log, entry, body } of items) {
    if (entry.type === 'Set') found.get(log)?.push(`${formatPosition(entry.position)} ${String(await body())}`);
  }
  return found;
}

async function read(options: { readonly from?: number; readonly limit?: number } = {}): Promise<FeedItem[]> {
  return Array.fromAsync(newClient().feed.read(options));
}

// Each test continues where the one before it ended.
describe('the feed on the engine', () => {
  /** Items that one reader has read so far, over all tests. */
  const seen: FeedItem[] = [];

  test('has the entries of all logs, however its writers take turns', { tags: ['I10'] }, async () => {
    for (let i = 0; i < LOGS; i++) written.set(await client.create(), []);
    const writers = [newWriter(), newWriter()];
    for (let batch = 0; batch < 150; batch++) {
      const ends = await appendSome();
      await Promise.all(writers.map((writer, i) => writer.add(batch % 3 === i ? ends.slice(2) : ends)));
      if (batch % 5 === 4) for (const log of [FEED_LOG, ...[...written.keys()].slice(0, 3)]) await divide(log);
    }
    const newest = await tables.newestSegments(FEED_LOG, 1, { consistent: true });
    expect(newest[0]?.segment).toBeGreaterThanOrEqual(3);
    expect(await byLog(await read())).toEqual(written);
    seen.push(...(await read({ limit: 150 })));
  });

  test('is whole after its epochs left the table', { tags: ['I10'] }, async () => {
    const before = await feedEntries(deps.store);
    const epochs = await archive(FEED_LOG);
    expect(epochs).toBeGreaterThanOrEqual(3);
    for (let segment = 0; segment < epochs; segment++) {
      expect(await tables.getSegment(FEED_LOG, segment, { consistent: true })).toMatchObject({
        expiry: { state: 'expired' },
      });
      expect(await tables.newestEntry(FEED_LOG, segment, { consistent: true })).toBeUndefined();
    }
    expect(await feedEntries(deps.store)).toEqual(before);
    expect(await byLog(await read())).toEqual(written);
  });

  test('shows entries whose logs are archived too', { tags: ['I10'] }, async () => {
    const logs = [...written.keys()].slice(0, 3);
    for (const log of logs) await archive(log);
    const segments = await Promise.all(logs.map((log) => tables.getSegment(log, 0, { consistent: true })));
    expect(segments.map((segment) => segment?.expiry?.state)).toContain('expired');
    expect(await byLog(await read())).toEqual(written);
  });

  test('goes on after its archived epochs, for writers and for a reader in the middle', {
    tags: ['I10'],
  }, async () => {
    const writer = newWriter();
    for (let batch = 0; batch < 30; batch++) {
      await writer.add(await appendSome());
      if (batch % 5 === 4) await divide(FEED_LOG);
    }
    const last = seen.at(-1)?.checkpoint ?? 0;
    expect(positionOfCheckpoint(last).segment).toBe(0);
    const rest = await read({ from: last });
    const placeOf = ({ log, entry }: FeedItem): string => `${log} ${formatPosition(entry.position)}`;
    const places = new Set(rest.map(placeOf));
    // Items of the last entry of the feed come again, unless all of them were read.
    const again = seen.filter((item) => places.has(placeOf(item)));
    expect(again.filter(({ checkpoint }) => checkpoint !== last)).toEqual([]);
    seen.splice(seen.length - again.length);
    seen.push(...rest);
    expect(await byLog(seen)).toEqual(written);
    const checkpoints = seen.map(({ checkpoint }) => checkpoint);
    expect(checkpoints).toEqual(checkpoints.toSorted((a, b) => a - b));
  });

  test('can be verified and replayed as any log', async () => {
    expect((await verify(deps, FEED_LOG)).problems).toEqual([]);
    expect(await replay({ ...feedOr(FEED_LOG, deps), scratch: new MemoryChunks() }, FEED_LOG)).toMatchObject({
      equal: true,
    });
  });

  test('has the same entries after it began again', { tags: ['I10'] }, async () => {
    const restart = await newWriter().restart();
    const writer = newWriter();
    const newest = [...written].map(async ([log]) => {
      const [segment] = await tables.newestSegments(log, 1, { consistent: true });
      const entry = await tables.newestEntry(log, segment?.segment ?? 0, { consistent: true });
      return { log, position: entry?.position ?? { segment: 0, entry: 0 } };
    });
    await writer.add(await Promise.all(newest));
    expect(await byLog(await read({ from: restart }))).toEqual(written);
  });
});
