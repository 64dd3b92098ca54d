import { describe, expect, test } from 'vitest';
import type { ChunkId } from '../../src/codec/chunk.ts';
import { LogNotFoundError, SegmentStateError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import { rootOf } from '../../src/log/entry.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { readWhole } from '../../src/snapshot/snapshots.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { chunkKey, chunkPrefix, progressPrefix, rootKey, rootPrefix } from '../../src/store/keys.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import type { RebuildJob } from '../../src/workers/jobs/job.ts';
import { expireSegment } from '../../src/workers/retention/expire-segment.ts';
import { undoExpiry } from '../../src/workers/retention/undo-expiry.ts';
import { type RebuildDeps, type RebuildResult, rebuildLog } from '../../src/workers/snapshot/rebuild-log.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { DAMAGED_ROOT, withByte } from '../support/damage.ts';
import { deathsOf, dieDuring } from '../support/die-at.ts';
import { collect, collectAfterEachGrace, refill } from '../support/gc-scenario.ts';
import { newLogId } from '../support/logs.ts';
import { FAULTY, versionedSheet } from '../support/models/versioned-sheet.ts';
import { type Contents, interceptDeps, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

const TTL: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'ttl', graceSeconds: 0 };

function rebuild(
  sheet: SheetLog,
  deps: Partial<RebuildDeps> = {},
  job: Partial<RebuildJob> = {},
): Promise<RebuildResult> {
  return rebuildLog({ ...sheet.deps, ...deps }, { kind: 'rebuild', log: sheet.log, ...job });
}

/** Creates a log of two segments and four snapshots. Small nodes give each several chunks. */
async function builtSheet(): Promise<{ readonly sheet: SheetLog; readonly positions: readonly Position[] }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  const start = { segment: 0, entry: 0 };
  await sheet.complete(start);
  await sheet.fill(60, 3);
  const first = await sheet.completed();
  await sheet.edit({ type: 'Insert Rows', position: 3, count: 2 }, set(4, 0, 'between'));
  const second = await sheet.covered();
  await sheet.fill(10, 1);
  const third = await sheet.completed();
  return { sheet, positions: [start, first, second, third] };
}

function hashes(sheet: SheetLog, positions: readonly Position[]): Promise<string[]> {
  return Promise.all(positions.map((position) => sheet.stateHash(position)));
}

async function expectWhole(sheet: SheetLog): Promise<void> {
  expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  expect((await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log)).equal).toBe(true);
}

test('a continuation that comes late, after the snapshot of the previous run was collected, starts over and stops no log', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  for (const text of ['a', 'b', 'c']) {
    await refill(sheet, text);
    await sheet.completed();
  }
  let job: Partial<RebuildJob> = {};
  for (let run = 1; (job.after?.entry ?? 0) === 0; run++) {
    const result = await rebuild(sheet, { rangeEntries: 1, deadline: sheet.nowMs }, job);
    if (result.outcome !== 'progress') throw new Error('it has an end before its first snapshot');
    job = { after: result.after, continuation: run };
  }
  await collectAfterEachGrace(sheet, 6, { keepSnapshots: 'last' });
  expect(await rebuild(sheet, {}, job)).toMatchObject({ outcome: 'rebuilt', snapshots: 4 });
  expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  await expectWhole(sheet);
});

describe('a rebuilt log', () => {
  test('it is the same as before, byte for byte, if nothing was wrong', async () => {
    const { sheet, positions } = await builtSheet();
    const before = await sheet.contents();
    const result = await rebuild(sheet);
    expect(result).toEqual({
      outcome: 'rebuilt',
      snapshots: 4,
      replaced: 0,
      differed: [],
      entries: 8,
      newest: positions[3],
      flushDue: undefined,
    });
    expect(await sheet.contents()).toEqual(before);
  });

  test('its states are equal if its snapshots were built in another order or flushed', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    const positions: Position[] = [];
    for (let i = 0; i < 4; i++) {
      for (let row = 0; row < 10; row++) await sheet.edit(set(row * 4, i, `value ${i}`));
      positions.push(await sheet.snapshot());
    }
    for (const position of positions.toReversed()) await sheet.complete(position);
    const last = positions.at(-1) ?? { segment: 0, entry: 0 };
    await sheet.flush(last);
    const before = await hashes(sheet, positions);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', snapshots: 5, differed: [] });
    expect(await hashes(sheet, positions)).toEqual(before);
    await expectWhole(sheet);
    const again = await sheet.contents();
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0 });
    expect(await sheet.contents()).toEqual(again);
  });

  test('all of its snapshots are complete, and Last Snapshot is right', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const [first, last] = [await sheet.snapshot(), await sheet.snapshot()];
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', snapshots: 3, replaced: 0 });
    expect(await sheet.lastSnapshot()).toBe(last.entry);
    expect([await sheet.rows(first), await sheet.rows(last)]).toEqual([[['a']], [['a']]]);
    // The root is written, but Last Snapshot has not moved.
    const late = await sheet.snapshot();
    const dies: Interceptor = (name, effect) =>
      name === 'advanceLastSnapshot' ? Promise.reject(new Error('the process died')) : effect();
    await expect(sheet.complete(late, interceptDeps(sheet, dies))).rejects.toThrow('the process died');
    await rebuild(sheet);
    expect(await sheet.lastSnapshot()).toBe(late.entry);
  });

  test('it uses no progress of unfinished builds', async () => {
    const { sheet } = await builtSheet();
    for (let i = 0; i < 10; i++) await sheet.edit(set(i, 0, `late ${i}`));
    const position = await sheet.snapshot();
    const stray = await sheet.complete(position, { deadline: sheet.nowMs, rangeEntries: 2, reducer: fickle('wrong') });
    expect(stray).toMatchObject({ outcome: 'progress' });
    expect(await sheet.keys(progressPrefix(sheet.log))).toHaveLength(1);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', differed: [] });
    expect(await sheet.keys(progressPrefix(sheet.log))).toEqual([]);
    expect((await sheet.rows(position))[9]?.[0]).toBe('late 9');
    await expectWhole(sheet);
  });

  test('a rebuild of a log that does not exist fails', async () => {
    const { sheet } = await builtSheet();
    const before = await sheet.contents();
    const log = newLogId();
    const rebuilding = rebuild(sheet, {}, { log });
    await expect(rebuilding).rejects.toThrow(LogNotFoundError);
    await expect(rebuilding).rejects.toMatchObject({ log });
    expect(await sheet.contents()).toEqual(before);
  });
});

/** Returns the sheet's reducer with another value for each cell. */
function fickle(text: string): Reducer {
  const sheet = versionedSheet(1);
  return {
    ...sheet,
    fold: (draft, entry) => sheet.fold(draft, entry.type === 'Set' ? { ...entry, body: [[0, 0, text]] } : entry),
  };
}

describe('a rebuild repairs', () => {
  test.each([
    ['is lost', undefined],
    ['is damaged', (bytes: Uint8Array) => withByte(bytes, bytes.length >> 1, (bytes[bytes.length >> 1] ?? 0) ^ 1)],
    ['is cut off', (bytes: Uint8Array) => bytes.slice(0, 3)],
  ])('it repairs a snapshot if any one of its objects %s', async (_, damage) => {
    const { sheet } = await builtSheet();
    const before = await sheet.contents();
    const keys = await sheet.keys(chunkPrefix(sheet.log));
    expect(keys.length).toBeGreaterThan(5);
    for (const key of keys) {
      const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
      if (damage === undefined) await sheet.blobs.delete([key]);
      else await sheet.blobs.put(key, damage(bytes));
      expect((await verify(sheet.deps, sheet.log)).problems).not.toEqual([]);
      expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0, differed: [] });
      expect(await sheet.contents()).toEqual(before);
    }
  });

  test('it writes a missing or damaged root object again', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const position = await sheet.completed();
    await sheet.complete({ segment: 0, entry: 0 });
    const before = await sheet.contents();
    const [key = ''] = await sheet.keys(rootPrefix(sheet.log));
    await sheet.blobs.delete([key]);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0 });
    expect(await sheet.contents()).toEqual(before);
    await sheet.blobs.put(key, Uint8Array.of(1, 2, 3));
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0 });
    expect(await sheet.contents()).toEqual(before);
    expect(await sheet.ref(position)).toEqual({ key });
  });

  test('it replaces a damaged root in an entry, and one that names an unknown object', async () => {
    const { sheet, positions } = await builtSheet();
    const before = await sheet.contents();
    const position = positions[1] ?? { segment: 0, entry: 0 };
    for (const wrong of [{ inline: DAMAGED_ROOT }, { key: rootKey(sheet.log, position, '0'.repeat(64)) }]) {
      const right = await sheet.ref(position);
      if (right === undefined) throw new Error('no root');
      expect(await sheet.tables.replaceRoot(sheet.log, position, right, wrong)).toBe(true);
      expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', snapshots: 4, replaced: 1, differed: [] });
      expect(await sheet.contents()).toEqual(before);
    }
  });

  test('it replaces a snapshot that has another state than its log, and reports it', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'right'));
    const wrong = await sheet.completed({ reducer: fickle('wrong') });
    await sheet.edit(set(0, 1, 'right'));
    const onTop = await sheet.completed();
    expect(await sheet.rows(onTop)).toEqual([['wrong', 'right']]);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 2, differed: [wrong, onTop] });
    expect([await sheet.rows(wrong), await sheet.rows(onTop)]).toEqual([[['right']], [['right', 'right']]]);
    await expectWhole(sheet);
    // Readers of the replaced roots can still read them.
    expect(await sheet.keys(rootPrefix(sheet.log))).toHaveLength(2);
    expect(await rebuild(sheet)).toMatchObject({ replaced: 0, differed: [] });
  });

  test('it completes the snapshots of a stopped log that can be folded now', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const [item] = (await sheet.items()).slice(1);
    await sheet.tables.putItems([{ ...item, T: { S: FAULTY } }]);
    const position = await sheet.completed();
    expect(await readStop(sheet.blobs, sheet.log)).toMatchObject({ code: 'FOLD_FAILED' });
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'stopped', stop: { code: 'FOLD_FAILED', entry: 1 } });
    await sheet.tables.putItems([{ ...item }]);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', snapshots: 2 });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.rows(position)).toEqual([['a']]);
  });

  test('it stops a log that lacks an entry, and its snapshots stay', async () => {
    const { sheet, positions } = await builtSheet();
    const before = await hashes(sheet, positions);
    await sheet.tables.deleteEntries(sheet.log, 0, [1]);
    expect(await rebuild(sheet)).toMatchObject({
      outcome: 'stopped',
      stop: { code: 'ENTRY_GAP', segment: 0, entry: 1, message: expect.stringContaining(sheet.log) },
    });
    expect(await hashes(sheet, positions)).toEqual(before);
  });
});

test('a new version of the reducer replaces all snapshots and reports none as wrong', async () => {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'));
  const first = await sheet.completed();
  await sheet.edit(set(0, 1, 'b'));
  const second = await sheet.covered();
  const reducer = versionedSheet(2);
  expect(await rebuild(sheet, { reducer })).toMatchObject({ outcome: 'rebuilt', replaced: 2, differed: [] });
  expect([await sheet.rows(first), await sheet.rows(second)]).toEqual([[['A']], [['A', 'B']]]);
  expect((await sheet.root(first)).reducer).toMatchObject({ version: 2 });
});

describe('a log with archived segments', () => {
  test.each(['in the table too', 'in their archives only'])('it is rebuilt if its entries are %s', async (where) => {
    const { sheet, positions } = await builtSheet();
    const before = await hashes(sheet, positions);
    await sheet.archive(0);
    if (where !== 'in the table too') {
      await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, TTL);
      expect(sheet.tables.expireNow(sheet.nowMs / 1000)).toHaveLength(6);
    }
    const contents = await sheet.contents();
    for (const key of await sheet.keys(chunkPrefix(sheet.log))) await sheet.blobs.delete([key]);
    const result = await rebuild(sheet);
    expect(result).toMatchObject({ outcome: 'rebuilt', snapshots: 3, replaced: 0, differed: [] });
    expect(await hashes(sheet, positions.slice(2))).toEqual(before.slice(2));
    const after = await sheet.contents();
    expect([after.entries, after.segments]).toEqual([contents.entries, contents.segments]);
    await expectWhole(sheet);
  });

  test('their roots stay unchanged, with a new reducer too', async () => {
    const { sheet, positions } = await builtSheet();
    await sheet.archive(0);
    const before = await sheet.items(0);
    expect(await rebuild(sheet, { reducer: versionedSheet(2) })).toMatchObject({ snapshots: 3, replaced: 2 });
    expect(await sheet.items(0)).toEqual(before);
    const versions = positions.map(async (position) => (await sheet.root(position)).reducer.version);
    expect(await Promise.all(versions)).toEqual([1, 1, 2, 2]);
  });

  test('it is stopped if an archive is missing and its entries have expired', async () => {
    const { sheet } = await builtSheet();
    const { key } = await sheet.archive(0);
    await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, TTL);
    sheet.tables.expireNow(sheet.nowMs / 1000);
    await sheet.blobs.delete([key]);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'stopped', stop: { code: 'ARCHIVE_MISSING', segment: 0 } });
  });
});

describe('a lost part of an archived segment', () => {
  const GONE = 'entries only in the archive';
  const where = ['entries in the table too', GONE] as const;

  /**
   * Creates a log whose first segment is archived with a snapshot of this kind.
   * @returns also the keys of the objects that only this snapshot reaches, as `own`
   */
  async function archivedSheet(
    entries: (typeof where)[number],
    kind: 'settled' | 'waiting' | 'older reducer' = 'settled',
  ): Promise<{ readonly sheet: SheetLog; readonly own: readonly string[]; readonly last: Position }> {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await refill(sheet, 'a');
    await sheet.completed();
    if (kind !== 'settled') {
      await refill(sheet, 'b', 150);
      await sheet.completed();
      // Each leaf gets few edits, so they are buffered. A rebuild builds from another base.
      for (let i = 0; i < 6; i++) await sheet.edit(set(i * 20, 1, `late ${i}`));
      await sheet.snapshot();
      for (let i = 0; i < 6; i++) await sheet.edit(set(i * 20 + 7, 1, `later ${i}`));
    }
    const reducer = kind === 'older reducer' ? sheet.deps.reducer : versionedSheet(1);
    const last = await sheet.completed({ reducer });
    if (kind === 'waiting') expect((await sheet.root(last)).stateHash).toBeUndefined();
    await refill(sheet, 'c', 150);
    await sheet.covered();
    await sheet.archive();
    await collectAfterEachGrace(sheet, 3);
    if (entries === GONE) {
      await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, TTL);
      sheet.tables.expireNow(sheet.nowMs / 1000);
      expect(await sheet.items(0)).toEqual([]);
    }
    const newest = new Set(await reachedBy(sheet, { segment: 1, entry: 0 }));
    const own = (await reachedBy(sheet, last)).filter((key) => !newest.has(key));
    expect(own.length).toBeGreaterThan(2);
    return { sheet, own, last };
  }

  /** Returns the keys of a snapshot's objects. */
  async function reachedBy(sheet: SheetLog, position: Position): Promise<string[]> {
    const entry = await sheet.deps.store.getEntry(sheet.log, position, { consistent: true });
    const ref = entry && rootOf(entry);
    if (ref === undefined) throw new Error('there is no snapshot');
    const seen = new Set<ChunkId>();
    await readWhole(sheet.deps, { log: sheet.log, position }, ref, seen);
    return [...seen].map((id) => chunkKey(sheet.log, id)).concat('key' in ref ? [ref.key] : []);
  }

  /** Expects that the log is whole and stays whole after collections. */
  async function expectMended(sheet: SheetLog): Promise<void> {
    await expectWhole(sheet);
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0 });
    await collectAfterEachGrace(sheet, 3);
    await expectWhole(sheet);
    for (const { archive } of await Array.fromAsync(sheet.tables.segments(sheet.log))) {
      if (archive !== undefined) expect(await sheet.blobs.get(archive.key)).toBeDefined();
    }
  }

  test.each(where)(
    'it is written again byte for byte if a build gives the same bytes (%s)',
    { tags: ['I2'] },
    async (entries) => {
      const { sheet, own } = await archivedSheet(entries);
      const before = await sheet.contents();
      for (const key of own) {
        await sheet.blobs.delete([key]);
        expect((await verify(sheet.deps, sheet.log)).problems.length).toBeGreaterThan(0);
        await expect(collect(sheet)).rejects.toMatchObject({ code: 'CHUNK_MISSING' });
        expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', differed: [] });
        const { objects, ...tables } = await sheet.contents();
        expect(tables).toEqual({ entries: before.entries, segments: before.segments });
        expect(objects[key]).toBe(before.objects[key]);
        await expectWhole(sheet);
      }
      await expectMended(sheet);
    },
  );

  test.each(where)(
    'a lost chunk of a snapshot with buffered edits is replaced with a new archive (%s)',
    { tags: ['I2'] },
    async (entries) => {
      const { sheet, own, last } = await archivedSheet(entries, 'waiting');
      const state = await replayedAt(sheet, last);
      const archive = (await sheet.segmentItem()).archive?.key;
      for (const key of own.slice(0, 3)) await sheet.blobs.delete([key]);
      expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 1, differed: [] });
      expect((await sheet.segmentItem()).archive?.key).not.toBe(archive);
      expect((await sheet.segmentItem()).lastSnapshot?.position).toEqual(last);
      expect(await sheet.items(0)).toHaveLength(entries === GONE ? 0 : (await sheet.items(0)).length);
      expect(await replayedAt(sheet, last)).toEqual(state);
      await expectMended(sheet);
    },
  );

  test.each(where)(
    'a lost chunk of a snapshot of an older reducer is replaced with a new archive (%s)',
    async (entries) => {
      const { sheet, own, last } = await archivedSheet(entries, 'older reducer');
      await sheet.blobs.delete([own[0] ?? '']);
      const reducer = versionedSheet(2);
      expect(await rebuild(sheet, { reducer })).toMatchObject({ outcome: 'rebuilt', differed: [] });
      expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
      const replaying = replay({ ...sheet.deps, reducer, scratch: new MemoryChunks() }, sheet.log, { at: last });
      expect(await replaying).toMatchObject({ equal: true, snapshot: last });
      await collectAfterEachGrace(sheet, 3);
      expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
    },
  );

  test.each(['removed', 'damaged'])(
    'an archive that was %s is written again if all entries are in the table',
    async (how) => {
      const { sheet } = await archivedSheet(where[0]);
      const archive = (await sheet.segmentItem()).archive?.key ?? '';
      const bytes = (await sheet.blobs.get(archive)) ?? Uint8Array.of();
      if (how === 'removed') await sheet.blobs.delete([archive]);
      else await sheet.blobs.put(archive, withByte(bytes, 20, (bytes[20] ?? 0) ^ 1));
      expect((await verify(sheet.deps, sheet.log)).problems).toMatchObject([{ part: 'archive' }]);
      expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', replaced: 0 });
      await expectMended(sheet);
    },
  );

  test('a rebuild stops if an external body or the archive of expired entries is missing', async () => {
    const { sheet } = await archivedSheet(GONE);
    const archive = (await sheet.segmentItem()).archive?.key ?? '';
    await sheet.blobs.delete([archive]);
    const result = await rebuild(sheet);
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'ARCHIVE_MISSING', segment: 0 } });

    const other = await archivedSheet(where[0]);
    const position = await other.sheet.fill(1, 1, 20_000);
    const body = (await other.sheet.tables.getEntry(sheet.log, position))?.external ?? '';
    await other.sheet.completed();
    await other.sheet.blobs.delete([body]);
    const stopped = await rebuild(other.sheet);
    expect(stopped).toMatchObject({ outcome: 'stopped', stop: { code: 'EXTERNAL_MISSING', ...position } });
  });

  test('a rebuild repairs it after an earlier rebuild died, at any write', async () => {
    const prepared = async (): Promise<SheetLog> => {
      const { sheet, own } = await archivedSheet(where[0], 'waiting');
      for (const key of own.slice(0, 3)) await sheet.blobs.delete([key]);
      return sheet;
    };
    for (const { death, operation } of deathsDuringRearchiving()) {
      const sheet = await prepared();
      await expect(rebuild(sheet, interceptDeps(sheet, death))).rejects.toThrow('died');
      expect(await rebuild(sheet), operation).toMatchObject({ outcome: 'rebuilt' });
      await expectWhole(sheet);
      await collectAfterEachGrace(sheet, 3);
      await expectWhole(sheet);
    }
  });

  /** Returns a death before and after each write that replaces the archive of a segment. */
  function deathsDuringRearchiving(): { readonly death: Interceptor; readonly operation: string }[] {
    return ['putStream', 'replaceArchive'].flatMap((operation) => [
      {
        operation: `before ${operation}`,
        death: (name, effect) => (name === operation ? Promise.reject(new Error('it died')) : effect()),
      },
      {
        operation: `after ${operation}`,
        death: async (name, effect) => {
          const answer = await effect();
          if (name === operation) throw new Error('it died');
          return answer;
        },
      },
    ]);
  }

  /** Replays to a position. @returns the state hashes of the stored snapshot and of the fold */
  async function replayedAt(sheet: SheetLog, at: Position): Promise<unknown> {
    const { replayed, stored, equal } = await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log, { at });
    expect(equal).toBe(true);
    return { replayed, stored };
  }

  test('a rebuild in runs of one page each ends, with archived segments too', async () => {
    const { sheet, own } = await archivedSheet(GONE, 'waiting');
    await sheet.blobs.delete([own[0] ?? '']);
    let job: Partial<RebuildJob> = {};
    for (let run = 1; ; run++) {
      expect(run).toBeLessThan(60);
      const result = await rebuild(sheet, { rangeEntries: 2, deadline: sheet.nowMs }, job);
      if (result.outcome === 'rebuilt') break;
      if (result.outcome !== 'progress') throw new Error(result.outcome);
      job = { after: result.after, continuation: run };
    }
    await expectMended(sheet);
  });
});

describe('a log with segments that expire without an archive', () => {
  const policy: RetentionPolicy = { ...TTL, archive: false, keepDays: 1 };

  async function leaving(): Promise<SheetLog> {
    const { sheet } = await builtSheet();
    sheet.nowMs += 24 * 3600 * 1000;
    await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, policy);
    return sheet;
  }

  test('its rebuild is refused with a reason and changes nothing, and its snapshots go on', async () => {
    const sheet = await leaving();
    sheet.tables.expireNow(sheet.nowMs / 1000);
    expect(await sheet.items(0)).toEqual([]);
    const before = await sheet.contents();
    for (const reducer of [versionedSheet(1), versionedSheet(2)]) {
      const rebuilding = rebuild(sheet, { reducer });
      await expect(rebuilding).rejects.toThrow(SegmentStateError);
      await expect(rebuilding).rejects.toThrow('without an archive');
      await expect(rebuilding).rejects.toMatchObject({ log: sheet.log, segment: 0, stopsLog: false });
      expect(await sheet.contents()).toEqual(before);
    }
    await sheet.edit(set(0, 0, 'later'));
    const position = await sheet.snapshot();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'built' });
  });

  test('it is rebuilt after the expiry was undone', async () => {
    const sheet = await leaving();
    await expect(rebuild(sheet)).rejects.toThrow("0 --undo'");
    await undoExpiry(sheet.deps, { log: sheet.log, segment: 0 });
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt', snapshots: 4, replaced: 0 });
    await expectWhole(sheet);
  });
});

describe('a rebuild in several runs', () => {
  test('it has the same result, and each run gets a page further', async () => {
    const { sheet } = await builtSheet();
    const before = await sheet.contents();
    const deps = { deadline: sheet.nowMs, rangeEntries: 1 };
    const places: string[] = [];
    let job: Partial<RebuildJob> = {};
    for (let runs = 0; ; runs++) {
      const result = await rebuild(sheet, deps, job);
      if (result.outcome !== 'progress') {
        expect(result).toMatchObject({ outcome: 'rebuilt', differed: [] });
        break;
      }
      places.push(`${result.reached.segment}/${result.reached.entry}`);
      job = { after: result.after, continuation: runs + 1 };
    }
    expect(places).toEqual(['0/1', '0/3', '0/4', '0/5', '1/1']);
    expect(await sheet.contents()).toEqual(before);
  });

  test('it continues from a rebuilt snapshot, also with a reducer that was deployed in the meantime', async () => {
    const { sheet, positions } = await builtSheet();
    const deps = { deadline: sheet.nowMs, rangeEntries: 1 };
    await rebuild(sheet, deps);
    const [, first] = positions;
    const reducer = versionedSheet(2);
    expect(await rebuild(sheet, { reducer }, { after: first, continuation: 1 })).toMatchObject({ outcome: 'rebuilt' });
    const versions = positions.map(async (position) => (await sheet.root(position)).reducer.version);
    expect(await Promise.all(versions)).toEqual([1, 1, 2, 2]);
  });
});

/** Creates a log with every kind of damage that a rebuild repairs. */
async function brokenSheet(): Promise<SheetLog> {
  const { sheet, positions } = await builtSheet();
  for (let row = 0; row < 5; row++) await sheet.edit(set(row, 1, 'more'));
  await sheet.completed({ reducer: fickle('wrong') });
  await sheet.snapshot();
  const [lost = '', damaged = ''] = await sheet.keys(chunkPrefix(sheet.log));
  await sheet.blobs.delete([lost]);
  await sheet.blobs.put(damaged, Uint8Array.of(1));
  const position = positions[1] ?? { segment: 0, entry: 0 };
  const right = await sheet.ref(position);
  if (right === undefined) throw new Error('no root');
  await sheet.tables.replaceRoot(sheet.log, position, right, { inline: DAMAGED_ROOT });
  return sheet;
}

test('a rebuild has the same result after an earlier rebuild died, at any operation', async () => {
  const reference = await brokenSheet();
  const run = (sheet: SheetLog) => (deps: SheetLog['deps']) => rebuild(sheet, deps);
  const deaths = await deathsOf(reference, run(reference));
  const whole: Contents = await reference.contents();
  await expectWhole(reference);
  const names = new Set(deaths.map(({ name }) => name));
  for (const name of [
    'segments',
    'entries',
    'items',
    'put',
    'completeSnapshot',
    'replaceRoot',
    'advanceLastSnapshot',
  ]) {
    expect(names).toContain(name);
  }
  for (const death of deaths) {
    const sheet = await brokenSheet();
    await dieDuring(sheet, death, run(sheet));
    expect(await rebuild(sheet)).toMatchObject({ outcome: 'rebuilt' });
    expect(await sheet.contents(), `died ${death.when} ${death.name} (${death.operation})`).toEqual(whole);
  }
});

describe('beside a rebuild', () => {
  test('another rebuild may run', async () => {
    const reference = await brokenSheet();
    await rebuild(reference);
    const sheet = await brokenSheet();
    const results = await Promise.all([rebuild(sheet), rebuild(sheet), rebuild(sheet)]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['rebuilt', 'rebuilt', 'rebuilt']);
    expect(await sheet.contents()).toEqual(await reference.contents());
  });

  test.each(['completeSnapshot', 'replaceRoot', 'put', 'items'])(
    'a snapshot may be completed, and a segment archived, right before %s',
    async (operation) => {
      const sheet = await brokenSheet();
      const late = await sheet.snapshot();
      let done = false;
      const interceptor: Interceptor = async (name, effect) => {
        if (name === operation && !done) {
          done = true;
          await sheet.complete(late);
          await sheet.archive(0);
        }
        return effect();
      };
      expect(await rebuild(sheet, interceptDeps(sheet, interceptor))).toMatchObject({ outcome: 'rebuilt' });
      expect(done).toBe(true);
      const problems = (await verify(sheet.deps, sheet.log)).problems.filter(({ snapshot }) => snapshot.segment > 0);
      expect(problems).toEqual([]);
      expect((await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log)).equal).toBe(true);
    },
  );
});
