import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { LogNotFoundError, SegmentWithoutSnapshotError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import { ReservedTypes, rootOf } from '../../src/log/entry.ts';
import { encodeSegment } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import type { ScanPart } from '../../src/log/log-store.ts';
import { mayLackEntries, type Segment } from '../../src/log/segment.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { loadRoot, nodeStore } from '../../src/snapshot/snapshots.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { Draft } from '../../src/state/draft.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { archiveKey, bodyKey, chunkKey, condemnedKey, logPrefix, parseKey } from '../../src/store/keys.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import type { Job } from '../../src/workers/jobs/job.ts';
import { undoExpiry } from '../../src/workers/retention/undo-expiry.ts';
import { dueRetention } from '../../src/workers/sweep/due-retention.ts';
import type { DueJob } from '../../src/workers/sweep/finder.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { beginUpload } from '../support/gc-scenario.ts';
import { NOON, newLogId, recordRequests } from '../support/logs.ts';
import { sheetEdits } from '../support/models/sheet-model.ts';
import { FAULTY, foldPlainly, NOTE, readRows, versionedSheet } from '../support/models/versioned-sheet.ts';
import { expiring } from '../support/segments.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Seconds. */
const GRACE = 3600;
const DAY = 24 * 3600;
const STRICT: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, graceSeconds: GRACE };
const TTL: RetentionPolicy = { ...STRICT, expire: 'ttl' };
const DELETE: RetentionPolicy = { ...STRICT, expire: 'delete' };
const START = { segment: 0, entry: 0 };

function cell(row: number, value: string): SheetEdit {
  return { type: 'Set', cells: [[row, 0, value]] };
}

/** Returns the job that a sweep sends for a pending snapshot. */
function snapshotJob(log: LogId, position: Position): Job {
  return { kind: 'snapshot', log, position, force: true };
}

/** Ends the process right before an operation of this name. */
function dieBefore(name: string): Interceptor {
  return (operation, effect) => (operation === name ? Promise.reject(new Error('the process died')) : effect());
}

describe('running the jobs of a sweep', () => {
  test.each([
    ['archives', STRICT],
    ['expires segments without archives', { ...STRICT, keepDays: 1, archive: false, expire: 'delete' as const }],
  ])('the number of requests is proportional to the due segments: %s', async (_what, policy) => {
    const requestsFor = async (due: number): Promise<number> => {
      const sheets = new SheetLogs();
      await sheets.atRest(due + 1);
      sheets.policy = policy;
      sheets.nowMs += 2 * DAY * 1000;
      let requests = 0;
      const count: Interceptor = (name, effect) => {
        // One request to DynamoDB returns thousands of segments.
        if (name !== 'segments') requests++;
        return effect();
      };
      const deps = {
        ...sheets.deps,
        tables: interceptLogStore(sheets.tables, count),
        blobs: interceptBlobStore(sheets.blobs, count),
      };
      for (let pass = 0; pass < 3; pass++) {
        const { sent } = await sheets.sweep();
        await sheets.runWith(deps, sent);
        sheets.nowMs += DAY * 1000;
      }
      expect((await sheets.sweep()).sent).toEqual([]);
      return requests;
    };
    const [few, more, most] = [await requestsFor(10), await requestsFor(20), await requestsFor(40)];
    // Twice as many more segments cost twice as many more requests. The factor would be 4 if the
    // cost were quadratic.
    expect((most - more) / (more - few)).toBeLessThan(2.2);
  });
});

describe('a sweep requests nothing', () => {
  test('it requests and writes nothing if every log is at rest', async () => {
    const sheets = new SheetLogs();
    await sheets.atRest();
    const busy = await sheets.atRest();
    await sheets.edit(busy, cell(0, 'a'));
    await sheets.edit(busy, cell(1, 'b'));
    await sheets.atRest(3);
    const before = await sheets.contents();
    expect(await sheets.sweep()).toEqual({
      logs: 3,
      jobs: 0,
      waiting: 0,
      failed: 0,
      stopped: 0,
      missed: 0,
      sent: [],
      why: [],
      failures: [],
    });
    expect(await sheets.contents()).toEqual(before);
  });

  test.each([
    ['absent', STRICT, 0],
    ['archived', STRICT, 1],
    ['stamped with their expiry', TTL, 1],
    ['due for deletion', DELETE, 1],
  ])('it requests nothing if old segments are %s', async (_, policy, logs) => {
    const sheets = new SheetLogs();
    sheets.policy = policy;
    for (let i = 0; i < logs; i++) await sheets.atRest(3);
    await sheets.sweepToRest();
    const before = await sheets.contents();
    expect(await sheets.sweep()).toMatchObject({ logs, jobs: 0, failed: 0, sent: [] });
    expect(await sheets.contents()).toEqual(before);
  });
});

describe('a sweep finds a pending snapshot', () => {
  test('it finds one of a new log, at its end, and of a new segment', async () => {
    const sheets = new SheetLogs();
    const fresh = await sheets.client.createLog();
    const later = await sheets.atRest();
    const missed: Position[] = [];
    for (let i = 0; i < 3; i++) {
      await sheets.edit(later, cell(i, 'x'));
      missed.push(await sheets.snapshot(later));
    }
    const next = await sheets.atRest(2);
    const opened = await sheets.segment(next);
    const { sent, why, logs, jobs } = await sheets.sweep();
    expect(sent.filter(({ log }) => log === fresh)).toEqual([snapshotJob(fresh, START)]);
    expect(sent.filter(({ log }) => log === later)).toEqual(missed.map((position) => snapshotJob(later, position)));
    expect(sent.filter(({ log }) => log === next)).toEqual([snapshotJob(next, opened)]);
    expect([logs, jobs, new Set(why)]).toEqual([3, 5, new Set(['the snapshot is pending'])]);
    await sheets.run(...sent);
    expect(await sheets.sweep()).toMatchObject({ logs: 3, jobs: 0 });
  });

  test('it finds one of several in a row, whichever of them is complete', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const positions = [await sheets.snapshot(log), await sheets.snapshot(log), await sheets.snapshot(log)];
    await sheets.complete(log, positions[1] ?? START);
    expect((await sheets.sweep()).sent).toEqual([snapshotJob(log, positions[2] ?? START)]);
  });

  test('it finds one whose root was written when the process died, so that Last Snapshot is too old', {
    tags: ['I5'],
  }, async () => {
    const sheets = new SheetLogs();
    const log = await sheets.client.createLog();
    for (const position of [START, { segment: 0, entry: 2 }]) {
      if (position.entry > 0) await sheets.edit(log, cell(0, 'a')).then(() => sheets.snapshot(log));
      const tables = interceptLogStore(sheets.tables, dieBefore('advanceLastSnapshot'));
      await expect(sheets.complete(log, position, { tables })).rejects.toThrow('the process died');
      const { sent } = await sheets.sweep();
      expect(sent).toEqual([snapshotJob(log, position)]);
      expect(await sheets.run(...sent)).toMatchObject([{ outcome: 'present' }]);
      expect((await sheets.tables.getSegment(log, 0))?.lastSnapshot?.position).toEqual(position);
      expect((await sheets.sweep()).sent).toEqual([]);
    }
  });

  test('it leaves young ones to the stream', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const old = await sheets.snapshot(log);
    sheets.nowMs += 30_000;
    const young = await sheets.snapshot(log);
    sheets.nowMs += 30_000;
    expect((await sheets.sweep({ youngSeconds: 61 })).sent).toEqual([]);
    expect((await sheets.sweep({ youngSeconds: 60 })).sent).toEqual([snapshotJob(log, old)]);
    expect((await sheets.sweep({ youngSeconds: 30 })).sent).toEqual([snapshotJob(log, old), snapshotJob(log, young)]);
  });

  test('it treats none as young, by any clock, if all are requested', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const position = await sheets.snapshot(log);
    sheets.nowMs -= 3_600_000;
    expect((await sheets.sweep()).sent).toEqual([snapshotJob(log, position)]);
  });

  test('it finds one far in the future, which comes from a wrong clock, and none whose time is about now', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const position = await sheets.snapshot(log);
    sheets.nowMs -= 365 * 24 * 3_600_000;
    expect((await sheets.sweep({ youngSeconds: 900 })).sent).toEqual([snapshotJob(log, position)]);
    sheets.nowMs += 365 * 24 * 3_600_000;
    for (const ms of [-899_000, 899_000]) {
      sheets.nowMs += ms;
      expect((await sheets.sweep({ youngSeconds: 900 })).sent).toEqual([]);
      sheets.nowMs -= ms;
    }
  });

  test('it uses the reserved types of the log', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const position = (await sheets.client.addEntry(log, { type: 'Checkpoint', version: 1, body: undefined })).position;
    await sheets.snapshot(log);
    const types = new ReservedTypes({ snapshot: 'Checkpoint', endSegment: 'The End' });
    expect((await sheets.sweep({}, { types })).sent).toEqual([snapshotJob(log, position)]);
  });
});

describe('a sweep since a day', () => {
  /**
   * Creates a log of three segments, one for each day. Each has a pending snapshot before a
   * complete one.
   */
  async function holed(): Promise<{ sheets: SheetLogs; log: LogId; holes: Position[] }> {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const holes: Position[] = [];
    for (let day = 0; day < 3; day++) {
      if (day > 0) await sheets.complete(log, await sheets.segment(log));
      holes.push(await sheets.snapshot(log));
      await sheets.complete(log, await sheets.snapshot(log));
      sheets.nowMs += DAY * 1000;
    }
    return { sheets, log, holes };
  }

  test('it finds pending snapshots before Last Snapshot, in segments that were open since', async () => {
    const { sheets, log, holes } = await holed();
    const found = async (since?: number): Promise<readonly Job[]> => (await sheets.sweep({ since })).sent;
    const jobs = holes.map((position) => snapshotJob(log, position));
    expect(await found()).toEqual([]);
    expect(await found(0)).toEqual(jobs);
    expect(await found(NOON + DAY)).toEqual(jobs);
    expect(await found(NOON + DAY + 1)).toEqual(jobs.slice(1));
    expect(await found(NOON + 2 * DAY + 1)).toEqual(jobs.slice(2));
    expect(await found(NOON + 100 * DAY)).toEqual(jobs.slice(2));
    await sheets.run(...jobs);
    expect(await found(0)).toEqual([]);
  });

  test('it skips segments whose entries are archived or expiring', async () => {
    const { sheets, log, holes } = await holed();
    sheets.policy = STRICT;
    await sheets.run({ kind: 'archive', log, segment: 0 });
    const [, segment] = await Array.fromAsync(sheets.tables.segments(log));
    if (segment === undefined) throw new Error('no segment');
    await sheets.tables.setExpiration(segment, expiring(NOON));
    sheets.policy = { ...DEFAULT_POLICY, keepDays: 365 };
    expect((await sheets.sweep({ since: 0 })).sent).toEqual([snapshotJob(log, holes[2] ?? START)]);
  });
});

describe('a sweep finds due jobs of the policy', () => {
  test('it archives segments that are closed, covered, and neither among the newest nor young', async () => {
    const sheets = new SheetLogs();
    sheets.policy = { ...STRICT, keepSegments: 2, keepDays: 1 };
    const log = await sheets.atRest(2);
    sheets.nowMs += DAY * 1000;
    await sheets.complete(log, await sheets.segment(log));
    const uncovered = await sheets.atRest(2);
    const missing = await sheets.segment(uncovered);
    sheets.own.set(uncovered, { keepSegments: 1, keepDays: 0 });
    const { sent } = await sheets.sweep();
    expect(sent.filter((job) => job.log === log)).toEqual([{ kind: 'archive', log, segment: 0 }]);
    expect(sent.filter((job) => job.log === uncovered)).toEqual([
      snapshotJob(uncovered, missing),
      { kind: 'archive', log: uncovered, segment: 0 },
    ]);
    sheets.nowMs += DAY * 1000;
    expect((await sheets.sweep({ log })).sent).toEqual([{ kind: 'archive', log, segment: 0 }]);
    sheets.own.set(log, { keepSegments: 1 });
    const both = [0, 1].map((segment) => ({ kind: 'archive', log, segment }));
    expect((await sheets.sweep({ log })).sent).toEqual(both);
  });

  test('it sends no job of a log before it has looked at all segments with due jobs', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest(3);
    sheets.policy = STRICT;
    const segments = await Array.fromAsync(sheets.tables.segments(log));
    const sent: unknown[] = [];
    let asked = 0;
    const tables = interceptLogStore(sheets.tables, async (name, effect) => {
      if (name === 'getEntry' && ++asked === 3) throw new Error('lost');
      return effect();
    });
    const swept = {
      ...{ log, segments, isStopped: undefined, passOver: () => {}, fail: () => {}, countTail: () => {} },
      send: async (due: DueJob) => void sent.push(due),
    };
    const finder = dueRetention(swept, { tables, policyOf: () => STRICT, now: () => sheets.nowMs });
    await expect(finder.find()).rejects.toThrow('lost');
    expect(sent).toEqual([]);
    await finder.find();
    expect(sent).toHaveLength(2);
  });

  test('it expires archived segments once', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest(2);
    sheets.policy = STRICT;
    await sheets.sweepToRest();
    expect((await sheets.sweep()).sent).toEqual([]);
    sheets.policy = TTL;
    const { sent, why } = await sheets.sweep();
    expect([sent, why]).toEqual([[{ kind: 'expire', log, segment: 0 }], ['the retention policy expires the segment']]);
    await sheets.run(...sent);
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  test('it expires segments without an archive', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest(2);
    sheets.policy = { ...TTL, archive: false, keepDays: 1 };
    expect((await sheets.sweep()).sent).toEqual([]);
    sheets.nowMs += DAY * 1000;
    const { sent } = await sheets.sweep();
    expect(sent).toEqual([{ kind: 'expire', log, segment: 0 }]);
    await sheets.run(...sent);
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  test('it announces segments for deletion first, then deletes them a grace period later', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest(2);
    sheets.policy = DELETE;
    const items = (): Promise<unknown[]> =>
      Array.fromAsync(sheets.tables.items(log, { segment: 0, from: 0, to: 100 })).then((pages) => pages.flat());
    await sheets.sweepToRest();
    expect(await items()).toHaveLength(3);
    sheets.nowMs += GRACE * 1000 - 1;
    expect((await sheets.sweep()).sent.filter(({ kind }) => kind === 'expire')).toEqual([]);
    sheets.nowMs += 1;
    expect((await sheets.sweep()).sent).toContainEqual({ kind: 'expire', log, segment: 0 });
    await sheets.sweepToRest();
    expect(await items()).toEqual([]);
    expect((await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).equal).toBe(true);
  });

  test('it reports segments that were announced without an archive if the policy archives', async () => {
    const sheets = new SheetLogs();
    const [log] = [await sheets.atRest(2), await sheets.atRest()];
    sheets.policy = { ...DELETE, archive: false, keepDays: 1 };
    sheets.nowMs += DAY * 1000;
    await sheets.sweepToRest();
    expect(await sheets.sweep()).toMatchObject({ logs: 2, sent: [], failed: 0 });
    for (const policy of [DELETE, STRICT, DEFAULT_POLICY]) {
      sheets.policy = policy;
      const { failures, ...found } = await sheets.sweep();
      expect(found).toMatchObject({ logs: 2, sent: [], failed: 1 });
      expect(failures).toMatchObject([{ log, error: { code: 'SEGMENT_STATE', log, segment: 0 } }]);
      expect(failures[0]?.error.advice).toContain(`logfold expire ${log} 0 --undo`);
    }
    sheets.policy = STRICT;
    await undoExpiry(sheets.deps, { log, segment: 0 });
    expect(await sheets.sweep()).toMatchObject({ sent: [{ kind: 'archive', log, segment: 0 }], failures: [] });
  });

  test('it uses the current segments, not those of the scan', async () => {
    const sheets = new SheetLogs();
    await sheets.atRest(3);
    sheets.policy = STRICT;
    let stale = await Array.fromAsync(sheets.tables.allSegments());
    await sheets.sweepToRest();
    const tables = interceptLogStore(sheets.tables, (_, effect) => effect());
    tables.allSegments = async function* ({ index } = { index: 0, of: 1 }) {
      if (index === 0) yield* stale;
    };
    expect(await sheets.sweep({}, { tables })).toMatchObject({ logs: 1, sent: [], failed: 0 });
    stale = stale.map((segment) => ({ ...segment, expiry: expiring(NOON) }));
    expect(await sheets.sweep({}, { tables })).toMatchObject({ logs: 1, sent: [], failed: 0 });
  });
});

describe('a sweep finds gc candidates', () => {
  const orphan = async (sheets: SheetLogs, log: LogId): Promise<string> => {
    const key = archiveKey(log, 0, 'a'.repeat(32));
    await sheets.blobs.put(key, Uint8Array.of(1));
    return key;
  };

  test('it finds objects that were condemned a grace period ago', async () => {
    const sheets = new SheetLogs();
    const [log, clean] = [await sheets.atRest(), await sheets.atRest()];
    sheets.policy = STRICT;
    const key = await orphan(sheets, log);
    sheets.nowMs += GRACE * 1000;
    expect((await sheets.sweep()).sent).toEqual([]);
    await sheets.run({ kind: 'collect', log }, { kind: 'collect', log: clean });
    sheets.nowMs += GRACE * 1000 - 1;
    expect((await sheets.sweep()).sent).toEqual([]);
    sheets.nowMs += 1;
    const { sent, why } = await sheets.sweep();
    expect([sent, why]).toEqual([[{ kind: 'collect', log }], ['an earlier collection requested this one']]);
    expect(await sheets.run(...sent)).toMatchObject([{ outcome: 'collected', removed: { objects: 1 } }]);
    expect(await sheets.blobs.get(key)).toBeUndefined();
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  describe('objects that were too young when their log was collected', () => {
    const NAME = 'ab'.repeat(32);

    /**
     * Sweeps once each grace period and runs the requested jobs, until a sweep requests none.
     * @returns the number of sweeps with jobs
     */
    async function graces(sheets: SheetLogs, log: LogId): Promise<number> {
      for (let times = 0; times < 8; times++) {
        sheets.nowMs += GRACE * 1000 - 1;
        expect((await sheets.sweep()).sent).toEqual([]);
        sheets.nowMs += 1;
        const { sent, why } = await sheets.sweep();
        if (sent.length === 0) return times;
        expect([sent, why]).toEqual([[{ kind: 'collect', log }], ['an earlier collection requested this one']]);
        await sheets.run(...sent);
      }
      throw new Error('a log at rest is collected again and again');
    }

    test.each([
      ['an archive', (log: LogId) => archiveKey(log, 0, NAME.slice(0, 32))],
      ['a chunk', (log: LogId) => chunkKey(log, NAME)],
      ['an external body', (log: LogId) => bodyKey(log, NAME, NAME.slice(0, 12))],
    ])('%s that was too young is found', async (_, keyOf) => {
      const sheets = new SheetLogs();
      const log = await sheets.atRest();
      sheets.policy = STRICT;
      await sheets.run({ kind: 'collect', log });
      expect(await graces(sheets, log)).toBe(0);
      await sheets.blobs.put(keyOf(log), Uint8Array.of(1));
      sheets.nowMs += GRACE * 1000 - 1;
      await sheets.run({ kind: 'collect', log });
      // The first collection condemns the object, the second removes it.
      expect(await graces(sheets, log)).toBe(2);
      expect(await sheets.blobs.get(keyOf(log))).toBeUndefined();
      expect(await Array.fromAsync(sheets.blobs.list(condemnedKey(log)))).toEqual([]);
    });

    test('an upload that finished after the collection is found', async () => {
      const sheets = new SheetLogs();
      const log = await sheets.atRest();
      sheets.policy = STRICT;
      const [key, end] = [archiveKey(log, 0, NAME.slice(0, 32)), Promise.withResolvers<void>()];
      const uploading = sheets.blobs.putStream(
        key,
        (async function* () {
          yield Uint8Array.of(1);
          await end.promise;
        })(),
      );
      await sheets.run({ kind: 'collect', log });
      end.resolve();
      await uploading;
      expect(await graces(sheets, log)).toBe(2);
      expect(await sheets.blobs.get(key)).toBeUndefined();
    });

    test('an abandoned build is found, and then the objects that only it reached', async () => {
      const sheets = new SheetLogs(undefined, { shape: SMALL_SHAPE });
      const log = await sheets.atRest();
      sheets.policy = STRICT;
      const kinds = async (): Promise<Set<string | undefined>> => {
        const blobs = await Array.fromAsync(sheets.blobs.list(logPrefix(log)));
        return new Set(blobs.map(({ key }) => parseKey(key)?.kind));
      };
      await sheets.edit(log, cell(0, 'large'.repeat(10_000)));
      await sheets.edit(log, cell(1, 'a'));
      const position = await sheets.snapshot(log);
      await sheets.complete(log, position, { rangeEntries: 2, deadline: 0 });
      // Without its Snapshot entry, no job continues the build.
      await sheets.tables.deleteEntries(log, 0, [position.entry]);
      expect(await kinds()).toEqual(new Set(['body', 'chunk', 'progress']));
      await sheets.run({ kind: 'collect', log });
      // The collections condemn the build, remove it, condemn the chunks that only it reached, and
      // remove those chunks.
      expect(await graces(sheets, log)).toBe(4);
      expect(await kinds()).toEqual(new Set(['body', 'collected']));
    });
  });

  test('each log has its own grace period', async () => {
    const sheets = new SheetLogs();
    const [short, long] = [await sheets.atRest(), await sheets.atRest()];
    sheets.policy = STRICT;
    sheets.own.set(long, { graceSeconds: 3 * GRACE });
    for (const log of [short, long]) await orphan(sheets, log);
    sheets.nowMs += 3 * GRACE * 1000;
    await sheets.run({ kind: 'collect', log: short }, { kind: 'collect', log: long });
    sheets.nowMs += GRACE * 1000;
    expect((await sheets.sweep()).sent).toEqual([{ kind: 'collect', log: short }]);
    sheets.nowMs += 2 * GRACE * 1000;
    expect((await sheets.sweep()).sent).toEqual([short, long].map((log) => ({ kind: 'collect', log })));
    expect((await sheets.sweep({ log: long })).sent).toEqual([{ kind: 'collect', log: long }]);
  });

  test.each([
    ['a day old', GRACE, DAY],
    ['older than a grace period of more than a day', 3 * DAY, 3 * DAY],
  ])('it finds unfinished uploads that are %s', async (_, graceSeconds, age) => {
    const sheets = new SheetLogs();
    const [log] = [await sheets.atRest(), await sheets.atRest()];
    sheets.policy = { ...STRICT, graceSeconds };
    const key = archiveKey(log, 0, 'b'.repeat(32));
    const unfinished = sheets.blobs.putStream(
      key,
      (async function* () {
        yield Uint8Array.of(1);
        await new Promise(() => undefined);
      })(),
    );
    unfinished.catch(() => undefined);
    sheets.nowMs += age * 1000 - 1;
    expect((await sheets.sweep()).sent).toEqual([]);
    sheets.nowMs += 1;
    const { sent, why } = await sheets.sweep();
    expect([sent, why]).toEqual([[{ kind: 'collect', log }], ['an upload was never finished']]);
    expect(await sheets.run(...sent)).toMatchObject([{ outcome: 'collected', aborted: 1 }]);
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  test('it reports logs that no table has, instead of sending jobs that fail', async () => {
    const sheets = new SheetLogs();
    const [condemned, uploading, there] = [newLogId(), newLogId(), await sheets.atRest()];
    for (const log of [condemned, there]) await sheets.blobs.put(condemnedKey(log), Uint8Array.of(1));
    beginUpload(sheets.blobs, archiveKey(uploading, 0, 'd'.repeat(32)));
    sheets.nowMs += 100 * DAY * 1000;
    const before = await sheets.contents();
    const { sent, failed, failures } = await sheets.sweep();
    expect([sent, failed]).toEqual([[{ kind: 'collect', log: there }], 2]);
    expect(failures.map(({ log }) => log)).toEqual([condemned, uploading]);
    for (const { log, error } of failures) {
      if (log === undefined) throw new Error('a failure without its log');
      expect(error).toBeInstanceOf(LogNotFoundError);
      expect(error.log).toBe(log);
      for (const where of [logPrefix(log), condemnedKey(log)]) expect(error.advice).toContain(`'${where}'`);
    }
    // A sweep of only this log reports the failure once, although the log is also a gc candidate.
    expect(await sheets.sweep({ log: condemned })).toMatchObject({
      sent: [],
      failed: 1,
      failures: [{ log: condemned }],
    });
    expect(await sheets.contents()).toEqual(before);
    await sheets.blobs.delete([condemnedKey(condemned)]);
    expect((await sheets.sweep()).failures).toMatchObject([{ log: uploading }]);
  });

  test('it skips objects of no log', async () => {
    const sheets = new SheetLogs();
    await sheets.blobs.put(`${condemnedKey(newLogId())}.bak`, Uint8Array.of(1));
    await sheets.blobs.put(`${logPrefix(newLogId())}foreign`, Uint8Array.of(1));
    sheets.nowMs += 100 * DAY * 1000;
    expect(await sheets.sweep()).toMatchObject({ jobs: 0, sent: [] });
  });
});

describe('a log that was stopped by an error', () => {
  test('it continues after a sweep if the cause is fixed', { tags: ['I5'] }, async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    const faulty = await sheets.edit(log, cell(0, 'a'));
    const [item] = (await Array.fromAsync(sheets.tables.items(log, { segment: 0, from: 1, to: 2 }))).flat();
    await sheets.tables.putItems([{ ...item, T: { S: FAULTY } }]);
    const position = await sheets.snapshot(log);
    const job = { kind: 'snapshot', log, position } as const;
    expect(await sheets.run(job)).toMatchObject([{ outcome: 'stopped', stop: { ...faulty, code: 'FOLD_FAILED' } }]);
    const { sent } = await sheets.sweep();
    expect(sent).toEqual([snapshotJob(log, position)]);
    expect(await sheets.run(...sent)).toMatchObject([{ outcome: 'stopped' }]);
    await sheets.tables.putItems([{ ...item }]);
    // Without `force` the job obeys the stop.
    expect(await sheets.run(job)).toMatchObject([{ outcome: 'stopped' }]);
    expect(await sheets.run(...sent)).toMatchObject([{ outcome: 'built' }]);
    expect(await readStop(sheets.blobs, log)).toBeUndefined();
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  test('it continues after a sweep with a reducer that can fold it', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    await sheets.client.addEntry(log, { type: NOTE, version: 1, body: 'a remark' });
    const position = await sheets.snapshot(log);
    await sheets.run({ kind: 'snapshot', log, position });
    expect(await readStop(sheets.blobs, log)).toMatchObject({ code: 'ENTRY_TYPE_UNKNOWN' });
    const { sent } = await sheets.sweep();
    await sheets.complete(log, position, { reducer: versionedSheet(2) });
    expect(sent).toEqual([snapshotJob(log, position)]);
    expect((await sheets.sweep()).sent).toEqual([]);
  });
});

describe('a sweep with options', () => {
  test('it reads only the given log', async () => {
    const sheets = new SheetLogs();
    const [one, other] = [await sheets.client.createLog(), await sheets.client.createLog()];
    expect(await sheets.sweep({ log: one })).toMatchObject({ logs: 1, sent: [snapshotJob(one, START)] });
    expect(await sheets.sweep({ log: other })).toMatchObject({ logs: 1, sent: [snapshotJob(other, START)] });
  });

  test.each([{}, { rebuild: true }, { collect: true }])(
    'it fails if the log does not exist, with %o',
    async (options) => {
      const sheets = new SheetLogs();
      await sheets.atRest();
      const log = newLogId();
      const { sent, failed, failures } = await sheets.sweep({ log, ...options });
      expect([sent, failed]).toEqual([[], 1]);
      expect(failures).toMatchObject([{ log, error: { code: 'LOG_NOT_FOUND', log } }]);
      expect(failures[0]?.error).toBeInstanceOf(LogNotFoundError);
    },
  );

  test('it rebuilds every log, and requests nothing else', async () => {
    const sheets = new SheetLogs();
    sheets.policy = STRICT;
    const logs = [await sheets.atRest(2), await sheets.client.createLog()];
    await sheets.blobs.put(condemnedKey(logs[0] ?? newLogId()), Uint8Array.of(1));
    sheets.nowMs += DAY * 1000;
    const { sent } = await sheets.sweep({ rebuild: true });
    expect(new Set(sent)).toEqual(new Set(logs.map((log) => ({ kind: 'rebuild', log }))));
    expect(sent).toHaveLength(2);
  });

  test('it collects every log once, after the other due jobs', async () => {
    const sheets = new SheetLogs();
    sheets.policy = STRICT;
    const [due, clean] = [await sheets.atRest(2), await sheets.atRest()];
    await sheets.blobs.put(condemnedKey(due), Uint8Array.of(1));
    sheets.nowMs += DAY * 1000;
    const { sent } = await sheets.sweep({ collect: true });
    expect(sent.filter(({ log }) => log === due)).toEqual([
      { kind: 'archive', log: due, segment: 0 },
      { kind: 'collect', log: due },
    ]);
    expect(sent.filter(({ log }) => log === clean)).toEqual([{ kind: 'collect', log: clean }]);
  });

  test('it reports its progress', async () => {
    const sheets = new SheetLogs();
    for (let i = 0; i < 20; i++) await sheets.atRest();
    const told: number[] = [];
    await sheets.sweep({}, { onProgress: (logs) => told.push(logs) });
    expect(told).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });
});

describe('one broken log', () => {
  /** Creates logs with a pending snapshot each: so many that parts of the scan have several. */
  async function many(sheets: SheetLogs): Promise<LogId[]> {
    const logs: LogId[] = [];
    for (let i = 0; i < 24; i++) {
      const log = await sheets.atRest(2);
      await sheets.snapshot(log);
      logs.push(log);
    }
    return logs;
  }

  test.each(Array.from({ length: 3 }, (_, i) => i * 11))(
    'a malformed Snapshot entry is reported, and the sweep handles all other logs (%i)',
    async (i) => {
      const sheets = new SheetLogs();
      const logs = await many(sheets);
      const log = logs[i] ?? newLogId();
      const [item] = (await Array.fromAsync(sheets.tables.items(log, { segment: 1, from: 1, to: 2 }))).flat();
      await sheets.tables.putItems([{ ...item, C: { S: 'yesterday' } }]);
      const { sent, failures, ...result } = await sheets.sweep();
      expect(result).toMatchObject({ logs: 24, jobs: 23, failed: 1 });
      expect(failures).toMatchObject([{ log, error: { code: 'ITEM_INVALID', log, segment: 1, entry: 1 } }]);
      expect(new Set(sent.map((job) => job.log))).toEqual(new Set(logs).difference(new Set([log])));
    },
  );

  test('a log with a contradictory policy gets its snapshots but no archive', async () => {
    const sheets = new SheetLogs();
    const logs = await many(sheets);
    sheets.policy = TTL;
    const log = logs[7] ?? newLogId();
    sheets.own.set(log, { archive: false });
    await sheets.blobs.put(condemnedKey(log), Uint8Array.of(1));
    sheets.nowMs += DAY * 1000;
    const { sent, failures, failed } = await sheets.sweep();
    expect(failures).toMatchObject([{ log, error: { code: 'POLICY_INVALID', log } }]);
    expect(failed).toBe(1);
    expect(sent.filter((job) => job.log === log)).toEqual([snapshotJob(log, { segment: 1, entry: 1 })]);
    for (const other of logs)
      if (other !== log) expect(sent).toContainEqual({ kind: 'archive', log: other, segment: 0 });
    // Without a grace period, an upload of this log may still be running and stays.
    const upload = { key: archiveKey(log, 0, 'c'.repeat(32)), id: '1', started: 0 };
    const blobs = interceptBlobStore(sheets.blobs, (_, effect) => effect());
    blobs.uploads = async function* () {
      yield upload;
    };
    expect((await sheets.sweep({}, { blobs })).sent.filter(({ kind }) => kind === 'collect')).toEqual([]);
  });

  test('a malformed segment is reported, and the sweep handles all other logs', { tags: ['I6'] }, async () => {
    const sheets = new SheetLogs();
    const logs = await many(sheets);
    const [log, left] = [newLogId(), logs[0] ?? newLogId()];
    await sheets.tables.putSegment({ log, segment: 0, created: -1 });
    await sheets.blobs.put(condemnedKey(left), Uint8Array.of(1));
    sheets.nowMs += DAY * 1000;
    const { sent, failures } = await sheets.sweep();
    expect(failures).toMatchObject([{ log, error: { code: 'ITEM_INVALID', log, segment: 0 } }]);
    expect(new Set(sent.map((job) => job.log))).toEqual(new Set(logs));
    expect(sent).toContainEqual({ kind: 'collect', log: left });
    // A sweep of only this log reports the segment too.
    expect((await sheets.sweep({ log })).failures).toMatchObject([{ log, error: { code: 'ITEM_INVALID' } }]);
  });

  test('an error of a store fails the sweep, after its running work has ended', async () => {
    const sheets = new SheetLogs();
    await many(sheets);
    let underWay = 0;
    let left = 3;
    const tables = interceptLogStore(sheets.tables, async (name, effect) => {
      underWay++;
      await new Promise((resolve) => setImmediate(resolve));
      underWay--;
      if (name === 'items' && --left === 0) throw new Error('no answer');
      return effect();
    });
    await expect(sheets.sweep({}, { tables })).rejects.toThrow('no answer');
    expect(underWay).toBe(0);
  });
});

/** A store whose scan returns the segments of a part in any order, with logs split over parts. */
class TornLogStore extends MemoryLogStore {
  order: (segments: readonly Segment[]) => readonly Segment[] = (segments) => segments;
  partOf: ((segment: Segment) => number) | undefined;

  override async *allSegments(part: ScanPart = { index: 0, of: 1 }): AsyncGenerator<Segment> {
    const all = await Array.fromAsync(super.allSegments(this.partOf === undefined ? part : undefined));
    const own =
      this.partOf === undefined ? all : all.filter((each) => (this.partOf?.(each) ?? 0) % part.of === part.index);
    yield* this.order(own);
  }
}

describe('a scan', () => {
  test('it may return segments in any order, and of any log in any part', async () => {
    const tables = new TornLogStore();
    const sheets = new SheetLogs(tables);
    const logs = [await sheets.atRest(4), await sheets.atRest(1), await sheets.atRest(3), await sheets.atRest(2)];
    for (const log of logs) await sheets.snapshot(log);
    sheets.policy = STRICT;
    const names = (jobs: readonly Job[]): Set<string> => new Set(jobs.map((job) => JSON.stringify(job)));
    const whole = names((await sheets.sweep()).sent);
    expect(whole.size).toBe(4 + 3 + 2 + 1);
    const all = await Array.fromAsync(tables.allSegments());
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(all, { minLength: all.length }),
        fc.option(fc.array(fc.nat({ max: 7 }), { minLength: all.length, maxLength: all.length }), { nil: undefined }),
        async (shuffled, parts) => {
          const rank = (segment: Segment): number =>
            shuffled.findIndex((each) => each.log === segment.log && each.segment === segment.segment);
          tables.order = (segments) => segments.toSorted((a, b) => rank(a) - rank(b));
          tables.partOf = parts && ((segment) => parts[rank(segment)] ?? 0);
          const { sent, failures } = await sheets.sweep();
          expect(names(sent)).toEqual(whole);
          expect(failures).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('if it returns a log without its first segments, the log is queried', async () => {
    const tables = new TornLogStore();
    const sheets = new SheetLogs(tables);
    const log = await sheets.atRest(3);
    const missed = await sheets.snapshot(log);
    tables.order = (segments) => segments.slice(2);
    expect(await sheets.sweep()).toMatchObject({ logs: 1, sent: [snapshotJob(log, missed)] });
  });
});

describe('the cost of a sweep over logs at rest', () => {
  /** Counts the requests of each kind that a sweep sends. */
  async function requestsOf(sheets: SheetLogs): Promise<Record<string, number>> {
    const requests: string[] = [];
    const blobs = new MeteredBlobStore(sheets.blobs);
    const tables = recordRequests(sheets.tables, requests);
    expect((await sheets.sweep({}, { tables, blobs })).sent).toEqual([]);
    const { lists, gets, puts, deletes } = blobs.usage();
    const counts: Record<string, number> = { lists };
    if (gets + puts + deletes > 0) throw new Error('a sweep reads or writes objects');
    for (const name of requests) counts[name] = (counts[name] ?? 0) + 1;
    return counts;
  }

  test('a sweep makes a scan in eight parts, one query for each log, and two listings', async () => {
    const sheets = new SheetLogs();
    expect(await requestsOf(sheets)).toEqual({ allSegments: 8, lists: 2 });
    for (let i = 0; i < 30; i++) await sheets.atRest();
    for (let i = 0; i < 30; i++) await sheets.edit(await sheets.atRest(2), cell(0, 'a'));
    for (let i = 0; i < 30; i++) await sheets.atRest(3);
    expect(await requestsOf(sheets)).toEqual({ allSegments: 8, items: 90, lists: 2 });
    sheets.policy = TTL;
    await sheets.sweepToRest();
    expect(await requestsOf(sheets)).toEqual({ allSegments: 8, items: 90, lists: 2 });
  });

  test('a query costs half a read unit, and so do 4 KB of segments', async () => {
    const sheets = new SheetLogs();
    const log = await sheets.atRest();
    for await (const segment of sheets.tables.segments(log)) {
      // Key, number, time of creation and Last Snapshot: more than a hundred items fit into 4 KB.
      expect(itemBytes(encodeSegment(segment))).toBe(17 + 3 + 7 + 3);
    }
    // No entry follows the last snapshot, so the query is empty and costs the minimum.
    const following = await Array.fromAsync(sheets.tables.items(log, { segment: 0, from: 1, to: 1e9 }));
    expect(following).toEqual([]);
  });
});

/** The fate of a Snapshot entry's stream record: its job is done, lost, or dies at an operation. */
type Fate = 'done' | 'lost' | number;
type Step =
  | { readonly do: 'edit'; readonly edits: readonly SheetEdit[] }
  | { readonly do: 'snapshot' | 'segment'; readonly fate: Fate };

const someSteps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: sheetEdits(3).map((edits): Step => ({ do: 'edit', edits })) },
    {
      weight: 4,
      arbitrary: fc.record<Step & { readonly do: 'snapshot' | 'segment' }>({
        do: fc.constantFrom('snapshot', 'segment'),
        fate: fc.oneof(fc.constantFrom<Fate>('done', 'done', 'lost'), fc.integer({ min: 1, max: 14 })),
      }),
    },
  ),
  { maxLength: 14, size: 'max' },
);
const somePolicy = fc.record({
  keepSegments: fc.integer({ min: 1, max: 2 }),
  archive: fc.boolean(),
  expire: fc.constantFrom<RetentionPolicy['expire']>('never', 'ttl', 'delete'),
  keepSnapshots: fc.constantFrom<RetentionPolicy['keepSnapshots']>('all', 'last'),
});

/** Performs one step in the life of a log. */
async function live(sheets: SheetLogs, log: LogId, written: Map<Position, SheetEdit>, step: Step): Promise<void> {
  if (step.do === 'edit') {
    for (const edit of step.edits) written.set(await sheets.edit(log, edit), edit);
    return;
  }
  const position = await askFor(sheets, log, step.do);
  if (position === undefined || step.fate === 'lost') return;
  const { fate } = step;
  let operations = 0;
  const interceptor: Interceptor = (_, effect) =>
    ++operations >= Number(fate) ? Promise.reject(new Error('the process died')) : effect();
  const tables = interceptLogStore(sheets.tables, interceptor);
  const blobs = interceptBlobStore(sheets.blobs, interceptor);
  const { store } = testDeployment({ tables, blobs });
  try {
    await sheets.complete(log, position, fate === 'done' ? {} : { store, tables, blobs });
  } catch (error) {
    if (operations < Number(fate)) throw error;
  }
}

async function askFor(sheets: SheetLogs, log: LogId, what: 'snapshot' | 'segment'): Promise<Position | undefined> {
  if (what === 'snapshot') return sheets.snapshot(log);
  try {
    return await sheets.segment(log);
  } catch (error) {
    if (error instanceof SegmentWithoutSnapshotError) return undefined;
    throw error;
  }
}

/** Expects that each kept snapshot is complete and equals the plain fold of the entries before. */
async function expectWhole(sheets: SheetLogs, log: LogId, written: Map<Position, SheetEdit>): Promise<void> {
  const segments = await Array.fromAsync(sheets.tables.segments(log));
  for (const item of segments) {
    const { segment, lastSnapshot, archive } = item;
    expect(lastSnapshot).toBeDefined();
    if (mayLackEntries(item)) continue;
    const range = { segment, from: 0, to: 1e9 };
    for await (const page of sheets.deps.store.entries(log, range, { consistent: true })) {
      for (const entry of page) {
        if (
          entry.type !== 'Snapshot' ||
          (archive !== undefined && entry.position.entry !== lastSnapshot?.position.entry)
        )
          continue;
        if (sheets.policy.keepSnapshots === 'last' && entry.position.entry !== lastSnapshot?.position.entry) continue;
        const ref = rootOf(entry);
        if (ref === undefined) throw new Error('a Snapshot entry without a root');
        const { state } = await loadRoot(sheets.deps, { log, position: entry.position }, ref);
        const before = [...written].filter(([position]) => comparePositions(position, entry.position) < 0);
        expect(await readRows(new Draft(nodeStore(sheets.deps, log), state))).toEqual(
          foldPlainly(
            before.map(([, edit]) => edit),
            1,
          ),
        );
      }
    }
  }
  const { keepSnapshots } = sheets.policy;
  expect((await verify({ ...sheets.deps, keepSnapshots }, log)).problems).toEqual([]);
  expect(await readStop(sheets.blobs, log)).toBeUndefined();
  if (segments.some(mayLackEntries)) return;
  expect(await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
}

test('sweeps and their jobs bring every log to rest after any loss of stream records', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(someSteps, { minLength: 1, maxLength: 3 }), somePolicy, async (lives, policy) => {
      const sheets = new SheetLogs(new MemoryLogStore({ pageItems: 5 }), { shape: SMALL_SHAPE });
      sheets.policy = { ...STRICT, ...policy, keepDays: policy.archive ? 0 : 0.01 };
      const logs = new Map<LogId, Map<Position, SheetEdit>>();
      for (const steps of lives) {
        const [log, written] = [await sheets.client.createLog(), new Map<Position, SheetEdit>()];
        logs.set(log, written);
        for (const step of steps) await live(sheets, log, written, step);
      }
      await sheets.sweepToRest({ since: 0 });
      for (const [log, written] of logs) await expectWhole(sheets, log, written);
      // Six days end all grace periods. Afterwards sweeps request no more jobs.
      for (let days = 0; days < 6; days++) {
        sheets.nowMs += DAY * 1000;
        sheets.tables.expireNow(sheets.nowMs / 1000);
        await sheets.sweepToRest();
        for (const [log, written] of logs) await expectWhole(sheets, log, written);
      }
      sheets.nowMs += 100 * DAY * 1000;
      // A log that drops snapshots is collected again while the table has their roots.
      const sent = (await sheets.sweep()).sent.filter(
        ({ kind }) => kind !== 'collect' || policy.keepSnapshots === 'all',
      );
      expect(sent).toEqual([]);
    }),
    { numRuns: 40 },
  );
});
