import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { keyOfProgress, listProgress, type Progress } from '../../src/snapshot/progress.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { chunkPrefix, logPrefix, parseKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import {
  continuationDeduplicationId,
  decodeJob,
  encodeJob,
  type Job,
  type SnapshotJob,
} from '../../src/workers/jobs/job.ts';
import type { SnapshotDeps } from '../../src/workers/snapshot/build-snapshot.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { dieAt } from '../support/die-at.ts';
import { LOG, NOON } from '../support/logs.ts';
import { flushedHash } from '../support/models/flushed-hash.ts';
import { Random } from '../support/models/random.ts';
import { NOTE, versionedSheet } from '../support/models/versioned-sheet.ts';
import { interceptPorts, SheetLog, set } from '../support/sheet-log.ts';
import { type Interceptor, interceptJobQueue } from '../support/stores/interceptor.ts';

/** Makes each run fold one page of ten entries: its deadline is over before it begins. */
const ONE_PAGE = { rangeEntries: 10, deadline: 0 };

/** A log and its job queue. Each run of a job does the least possible work. */
class StepwiseLog {
  nowMs = NOON * 1000;
  readonly sheet: SheetLog;
  readonly queue = new MemoryJobQueue({ now: () => this.nowMs });

  private constructor(sheet: SheetLog) {
    this.sheet = sheet;
  }

  static async create(): Promise<StepwiseLog> {
    return new StepwiseLog(await SheetLog.create({ shape: SMALL_SHAPE }));
  }

  /** Appends edits of all kinds. */
  async edits(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const cells = Array.from({ length: 4 }, (_, j) => [(i * 7 + j * 3) % 40, (i + j) % 5, `${i} and ${j}`] as const);
      if (i % 6 === 5) await this.sheet.edit({ type: 'Insert Rows', position: i % 9, count: 1 });
      else await this.sheet.edit({ type: 'Set', cells });
    }
  }

  /** Appends a Snapshot entry, unless a position is given, and sends the snapshot job. */
  async requestSnapshot(position?: Position): Promise<Position> {
    const target = position ?? (await this.sheet.snapshot());
    const job: Job = { kind: 'snapshot', log: LOG, position: target };
    await this.queue.send({ group: LOG, deduplicationId: `${target.segment}/${target.entry}`, body: encodeJob(job) });
    return target;
  }

  /** Runs the next job once; undefined if the queue is empty. */
  async runNext(deps: Partial<JobDeps> = {}): Promise<JobResult | undefined> {
    const [message] = await this.queue.receive({ max: 1, visibilityMs: 1_000 });
    if (message === undefined) return undefined;
    const job = decodeJob(message.body);
    const result = await runJob({ ...this.sheet.deps, ...ONE_PAGE, queue: this.queue, ...deps }, job);
    await this.queue.delete(message.receipt);
    return result;
  }

  /** Runs jobs until the queue is empty. */
  async drain(deps?: Partial<JobDeps>): Promise<JobResult[]> {
    const results: JobResult[] = [];
    for (let result = await this.runNext(deps); result !== undefined; result = await this.runNext(deps)) {
      results.push(result);
      if (results.length > 200) throw new Error('the jobs do not end after 200 runs');
    }
    return results;
  }

  /** Like {@link drain}, with an interceptor for each operation of a port. */
  drainIntercepted(intercept: Interceptor): Promise<JobResult[]> {
    return this.drain({ ...interceptPorts(this.sheet, intercept), queue: interceptJobQueue(this.queue, intercept) });
  }

  progress(): Promise<Progress[]> {
    return listProgress(this.sheet.blobs, LOG);
  }

  /**
   * Expects that a snapshot equals a build from the beginning in one run, and that no progress
   * objects are left.
   */
  async expectRight(position: Position, deps?: Partial<SnapshotDeps>): Promise<void> {
    const chunks = new MemoryChunks();
    const alone = { ...this.sheet.deps, ...deps, chunks };
    const { root } = await buildState(alone, LOG, { at: position, only: 'beginning' });
    expect(await this.sheet.stateHash(position)).toBe(await flushedHash(chunks, root.state, alone.nodes));
    expect((await verify(this.sheet.deps, LOG)).problems).toEqual([]);
    expect(await this.progress()).toEqual([]);
  }
}

/** The first and last entry of each run of a snapshot job. */
function steps(results: readonly JobResult[], target: Position): (readonly [from: number, to: number])[] {
  return results.flatMap((result) => {
    if (!('position' in result) || comparePositions(result.position, target) !== 0) return [];
    if (result.outcome === 'progress') return [[result.base?.entry ?? 0, result.reached.entry] as const];
    return result.outcome === 'built' ? [[result.base?.entry ?? 0, target.entry] as const] : [];
  });
}

describe('a build whose time is always up', () => {
  test('each run gets a page further, and the last ends with the state of a single run', {
    tags: ['I1'],
  }, async () => {
    const log = await StepwiseLog.create();
    await log.edits(44);
    const target = await log.requestSnapshot();
    const results: JobResult[] = [];
    for (let result = await log.runNext(); result !== undefined; result = await log.runNext()) {
      results.push(result);
      const left = await log.progress();
      expect(left).toMatchObject(result.outcome === 'progress' ? [{ target, reached: result.reached }] : []);
      if (result.outcome === 'progress') expect(await log.sheet.lastSnapshot()).toBeUndefined();
    }
    expect(results.map(({ outcome }) => outcome).slice(0, 5)).toEqual([...Array(4).fill('progress'), 'built']);
    expect(steps(results, target)).toEqual([
      [0, 10],
      [10, 20],
      [20, 30],
      [30, 40],
      [40, 45],
    ]);
    expect(await log.sheet.lastSnapshot()).toBe(target.entry);
    await log.expectRight(target);
  });

  test('it continues across segments', async () => {
    const log = await StepwiseLog.create();
    await log.requestSnapshot({ segment: 0, entry: 0 });
    await log.drain();
    await log.edits(17);
    const first = await log.sheet.segment();
    await log.edits(14);
    const target = await log.requestSnapshot();
    expect(target).toEqual({ segment: 1, entry: 15 });
    const reached = (await log.drain()).flatMap((result) => (result.outcome === 'progress' ? [result.reached] : []));
    // The End Segment entry is the last of the first segment's second page.
    expect(reached).toEqual([{ segment: 0, entry: 10 }, first, { segment: 1, entry: 10 }]);
    await log.expectRight(target);
  });

  test('it takes one run if there is one page, and does not look for progress', async () => {
    const log = await StepwiseLog.create();
    await log.edits(9);
    const operations: string[] = [];
    const interceptor: Interceptor = (name, effect) => {
      operations.push(name);
      return effect();
    };
    const target = await log.requestSnapshot();
    expect(await log.runNext(interceptPorts(log.sheet, interceptor))).toMatchObject({ outcome: 'built', entries: 10 });
    expect(operations).not.toContain('list');
    expect(operations).not.toContain('delete');
    await log.expectRight(target);
  });

  test('it has the same result, wherever a run died', { tags: ['I5'] }, async () => {
    const prepared = async (): Promise<{ log: StepwiseLog; target: Position }> => {
      const log = await StepwiseLog.create();
      await log.edits(29);
      await log.sheet.fill(3, 1, 5_000);
      return { log, target: await log.requestSnapshot() };
    };
    const reference = await prepared();
    const operations: string[] = [];
    await reference.log.drainIntercepted(async (name, effect) => {
      operations.push(name);
      return effect();
    });
    const { entries, segments } = await reference.log.sheet.contents();
    await reference.log.expectRight(reference.target);
    for (const name of ['list', 'get', 'put', 'delete', 'send', 'entries', 'completeSnapshot']) {
      expect(operations).toContain(name);
    }
    for (const when of ['before', 'after'] as const) {
      for (let dies = 1; dies <= operations.length; dies++) {
        const { log, target } = await prepared();
        await dieAt(log.sheet, { operation: dies, when }, (_, interceptor) => log.drainIntercepted(interceptor));
        log.nowMs += 2_000;
        await log.drain();
        const at = `died ${when} operation ${dies}, ${operations[dies - 1]}`;
        expect(await log.sheet.lastSnapshot(), at).toBe(target.entry);
        expect(await log.progress(), at).toEqual([]);
        expect(await log.sheet.contents(), at).toMatchObject({ entries, segments });
        expect((await verify(log.sheet.deps, LOG)).problems, at).toEqual([]);
      }
    }
  });

  test('it removes the progress of a run after it saved the next', { tags: ['I4'] }, async () => {
    const log = await StepwiseLog.create();
    await log.edits(34);
    const target = await log.requestSnapshot();
    const events: string[] = [];
    const note = (what: string, key: string): void => {
      const parsed = parseKey(key);
      if (parsed?.kind === 'progress') events.push(`${what} ${parsed.reached.entry}`);
    };
    const writing = interceptPorts(log.sheet, (_, effect) => effect()).blobs;
    const put: BlobStore['put'] = async (key, bytes) => {
      await writing.put(key, bytes);
      note('put', key);
    };
    const remove: BlobStore['delete'] = async (keys) => {
      for (const key of keys) note('delete', key);
      await writing.delete(keys);
    };
    await log.drain({ blobs: { ...writing, put, delete: remove } });
    expect(events).toEqual(['put 10', 'put 20', 'delete 10', 'put 30', 'delete 20', 'delete 30']);
    await log.expectRight(target);
  });

  test('it sends one continuation, however often the previous run is delivered', async () => {
    const log = await StepwiseLog.create();
    await log.edits(25);
    const position = await log.sheet.snapshot();
    const job: SnapshotJob = { kind: 'snapshot', log: LOG, position };
    const deps = { ...log.sheet.deps, ...ONE_PAGE, queue: log.queue };
    const results = await Promise.all([runJob(deps, job), runJob(deps, job)]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['progress', 'progress']);
    expect(log.queue.stats()).toMatchObject({ waiting: 1 });
    await log.drain();
    await log.expectRight(position);
  });

  test('the next job for the same snapshot removes the progress of a slow duplicate', async () => {
    const log = await StepwiseLog.create();
    await log.edits(25);
    const position = await log.requestSnapshot();
    const job: SnapshotJob = { kind: 'snapshot', log: LOG, position };
    const slow: Interceptor = async (name, effect) => {
      if (name === 'put') await log.drain();
      return effect();
    };
    const result = await runJob(
      { ...log.sheet.deps, ...ONE_PAGE, ...interceptPorts(log.sheet, slow), queue: log.queue },
      job,
    );
    expect(result).toMatchObject({ outcome: 'progress' });
    expect(await log.progress()).toHaveLength(1);
    expect(await log.sheet.complete(position)).toMatchObject({ outcome: 'present' });
    await log.expectRight(position);
  });
});

describe('progress', () => {
  test('builds of later snapshots use it, and do not set back an earlier one', async () => {
    const log = await StepwiseLog.create();
    await log.edits(44);
    const earlier = await log.requestSnapshot();
    await log.edits(30);
    const later = await log.requestSnapshot();
    const results = await log.drain();
    expect(steps(results, earlier)).toEqual([
      [0, 10],
      [20, 30],
      [40, 45],
    ]);
    expect(steps(results, later)).toEqual([
      [10, 20],
      [30, 40],
      [45, 55],
      [55, 65],
      [65, 75],
      [75, 76],
    ]);
    await log.expectRight(later);
    await log.expectRight(earlier);
  });

  test('no snapshot takes more runs than its log has pages, in any order of jobs', {
    tags: ['I5'],
  }, async () => {
    for (let seed = 1; seed <= 25; seed++) {
      const random = new Random(seed);
      const log = await StepwiseLog.create();
      const targets: Position[] = [];
      for (let i = 0; i < 4; i++) {
        await log.edits(random.integer(5, 25));
        targets.push(await log.sheet.snapshot());
      }
      const shuffled = [...targets].sort(() => random.next() - 0.5);
      for (const target of shuffled) await log.requestSnapshot(target);
      const results = await log.drain({ rangeEntries: random.integer(3, 12) });
      for (const target of targets) {
        const own = steps(results, target);
        const reached = own.map(([, to]) => to);
        expect(reached, `seed ${seed}`).toEqual([...new Set(reached)].sort((a, b) => a - b));
        expect(reached.at(-1)).toBe(target.entry);
        await log.expectRight(target);
      }
    }
  });

  test('an earlier snapshot is not set back if each of its runs is followed by one of a later snapshot', async () => {
    const log = await StepwiseLog.create();
    await log.edits(29);
    const earlier = await log.requestSnapshot();
    await log.edits(60);
    const later = await log.requestSnapshot();
    const results: JobResult[] = [];
    // A later snapshot that gets two pages further in each run overtakes the earlier one.
    for (let runs = 0; runs < 100; runs++) {
      let calls = 0;
      const isLater = runs % 2 === 1;
      const result = await log.runNext({ now: () => (isLater && ++calls < 3 ? -1 : 1) });
      if (result === undefined) break;
      results.push(result);
    }
    expect(steps(results, earlier).length).toBeLessThanOrEqual(3);
    await log.expectRight(earlier);
    await log.expectRight(later);
  });

  test('progress of another version of the reducer is ignored, and the result says so', { tags: ['I1'] }, async () => {
    const log = await StepwiseLog.create();
    await log.edits(34);
    const target = await log.requestSnapshot();
    await log.runNext();
    await log.runNext();
    const reducer = versionedSheet(2);
    const results = await log.drain({ reducer });
    expect(steps(results, target)).toEqual([
      [0, 10],
      [10, 20],
      [20, 30],
      [30, 35],
    ]);
    const reason = 'the snapshot was made by reducer spreadsheet 1, and this is spreadsheet 2';
    expect(results[0]).toMatchObject({ outcome: 'progress', ignored: [reason] });
    await log.expectRight(target, { reducer });
  });

  test.each<readonly [string, string, (log: StepwiseLog, progress: Progress) => Promise<void>]>([
    [
      'is cut off',
      'the stored bytes are damaged',
      async ({ sheet }, progress) => {
        const stored = (await sheet.blobs.get(keyOfProgress(progress))) ?? new Uint8Array();
        await sheet.blobs.put(keyOfProgress(progress), stored.subarray(0, 40));
      },
    ],
    [
      'has foreign bytes',
      'the stored bytes are damaged',
      ({ sheet }, progress) => sheet.blobs.put(keyOfProgress(progress), Uint8Array.of(1, 2, 3)),
    ],
    [
      'has the key of another position',
      'the root belongs to log',
      async ({ sheet }, progress) => {
        const stored = (await sheet.blobs.get(keyOfProgress(progress))) ?? new Uint8Array();
        await sheet.blobs.delete([keyOfProgress(progress)]);
        const moved = { ...progress, reached: { segment: 0, entry: progress.reached.entry + 1 } };
        await sheet.blobs.put(keyOfProgress(moved), stored);
      },
    ],
    [
      'refers to missing chunks',
      'is not in the',
      async ({ sheet }) => {
        const keys = await Array.fromAsync(sheet.blobs.list(chunkPrefix(LOG)));
        await sheet.blobs.delete(keys.map(({ key }) => key));
      },
    ],
  ])('progress that %s stops no log: it is ignored and removed', { tags: ['I5'] }, async (_, reason, damage) => {
    const log = await StepwiseLog.create();
    await log.edits(44);
    const target = await log.requestSnapshot();
    await log.runNext();
    await log.runNext();
    const [progress] = await log.progress();
    await damage(log, progress ?? fail());
    const result = await log.runNext();
    expect(result).toMatchObject({ outcome: 'progress', base: undefined, reached: { segment: 0, entry: 10 } });
    expect(result).toMatchObject({ ignored: [expect.stringContaining(reason)] });
    expect(await log.progress()).toMatchObject([{ reached: { segment: 0, entry: 10 } }]);
    // No time has passed, so the queue still remembers a continuation from this position.
    const results = await log.drain();
    expect(results.at(-1)).toMatchObject({ outcome: 'built' });
    expect(await readStop(log.sheet.blobs, LOG)).toBeUndefined();
    await log.expectRight(target);
  });

  test.each([
    ['is another entry', 44],
    ['is missing', 34],
  ])('progress of a history before a restore of the tables, whose Snapshot entry %s, is ignored', async (_, edits) => {
    const lost = await StepwiseLog.create();
    await lost.edits(44);
    await lost.requestSnapshot();
    await lost.runNext();
    await lost.runNext();
    // The tables are restored to the start of the log, the bucket is not, and the log gets other
    // entries.
    const log = await StepwiseLog.create();
    for await (const { key } of lost.sheet.blobs.list(logPrefix(LOG))) {
      await log.sheet.blobs.put(key, (await lost.sheet.blobs.get(key)) ?? fail());
    }
    log.sheet.nowMs += 24 * 3_600_000;
    for (let i = 0; i < edits; i++) await log.sheet.edit(set(i, 0, 'of another day'));
    const target = await log.requestSnapshot();
    const results = await log.drain();
    expect(results[0]).toMatchObject({
      base: undefined,
      reached: { segment: 0, entry: 10 },
      ignored: ['the snapshot that it was for is not in the log'],
    });
    await log.expectRight(target);
  });

  test('progress is kept if the store does not answer', { tags: ['I5'] }, async () => {
    const log = await StepwiseLog.create();
    await log.edits(24);
    await log.requestSnapshot();
    await log.runNext();
    const before = await log.progress();
    const get: BlobStore['get'] = (key) =>
      parseKey(key)?.kind === 'progress' ? Promise.reject(new Error('no answer')) : log.sheet.blobs.get(key);
    const { blobs } = interceptPorts(log.sheet, (_, effect) => effect());
    await expect(log.runNext({ blobs: { ...blobs, get } })).rejects.toThrow('no answer');
    expect(await log.progress()).toEqual(before);
  });

  test('it clears a stop only when it contains the entry that stopped the log', { tags: ['I7'] }, async () => {
    const log = await StepwiseLog.create();
    await log.edits(24);
    await log.sheet.append({ type: NOTE, version: 1 });
    await log.sheet.edit(set(0, 0, 'after'));
    const target = await log.requestSnapshot();
    const results = await log.drain();
    expect(results.map(({ outcome }) => outcome)).toEqual(['progress', 'progress', 'stopped']);
    // The fixed version builds the next snapshot from the beginning of the log.
    const next = await log.requestSnapshot();
    const reducer = versionedSheet(2);
    for (const reached of [10, 20]) {
      expect(await log.runNext({ reducer })).toMatchObject({ outcome: 'progress', reached: { entry: reached } });
      expect(await readStop(log.sheet.blobs, LOG)).toMatchObject({ code: 'ENTRY_TYPE_UNKNOWN' });
    }
    expect((await log.drain({ reducer }))[0]).toMatchObject({ outcome: 'built', position: next });
    expect(await readStop(log.sheet.blobs, LOG)).toBeUndefined();
    // Progress of the old version is removed with its snapshot.
    expect(await log.progress()).toMatchObject([{ target }]);
    expect(await log.sheet.complete(target, { reducer, ...ONE_PAGE })).toMatchObject({ outcome: 'progress' });
  });
});

test("a continuation's id differs from the stream's, has position and count, and fits into a message", () => {
  const largest = { segment: 2 ** 32 - 1, entry: 2 ** 32 - 1 };
  const id = continuationDeduplicationId({ kind: 'snapshot', log: LOG, position: largest, continuation: 1e6 }, largest);
  expect(id).toBe(`continuation:snapshot:${LOG}:4294967295/4294967295:1000000:4294967295/4294967295`);
  expect(id.length).toBeLessThanOrEqual(128);
});

function fail(): never {
  throw new Error('there is no such thing');
}
