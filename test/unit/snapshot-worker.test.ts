import { describe, expect, test } from 'vitest';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/native-platform.ts';
import { EntryNotFoundError, MessageInvalidError } from '../../src/errors.ts';
import type { Position } from '../../src/log/position.ts';
import { INLINE_ROOT_BYTES, nodeStore } from '../../src/snapshot/snapshots.ts';
import { clearStop, readStop } from '../../src/snapshot/stop.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { chunkKey, parseKey } from '../../src/store/keys.ts';
import type { ChunkId } from '../../src/tree/chunk.ts';
import { isLeaf } from '../../src/tree/node.ts';
import { rangeItems } from '../../src/tree/read.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { type Around, aroundBlobStore, aroundLogStore } from '../support/around.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { type Contents, SheetLog } from '../support/sheet-log.ts';
import { FAULTY, NOTE, versionedSheet } from '../support/versioned-sheet.ts';

const set = (row: number, column: number, value: string) => ({ type: 'Set', cells: [[row, column, value]] }) as const;

/** Names of the operations that write, in the order in which they took effect. */
function recordWrites(sheet: SheetLog): {
  readonly writes: string[];
  readonly ports: Pick<SheetLog, 'store' | 'blobs'>;
} {
  const writes: string[] = [];
  const around: Around = async (name, effect) => {
    const answer = await effect();
    if (name === 'put' || name === 'delete' || name === 'completeSnapshot') writes.push(name);
    if (name === 'advanceLastSnapshot' && answer === true) writes.push(name);
    return answer;
  };
  return { writes, ports: portsAround(sheet, around) };
}

function portsAround(sheet: SheetLog, around: Around): Pick<SheetLog, 'store' | 'blobs'> {
  return { store: aroundLogStore(sheet.store, around), blobs: aroundBlobStore(sheet.blobs, around) };
}

describe('a snapshot', () => {
  test('of a new log is that of the empty state', async () => {
    const sheet = await SheetLog.create();
    const start = { segment: 0, entry: 0 };
    expect(await sheet.complete(start)).toMatchObject({ outcome: 'built', base: undefined, entries: 0 });
    expect(await sheet.rows(start)).toEqual([]);
    expect(await sheet.lastSnapshot()).toBe(0);
  });

  test('holds the entries before its own, and none after', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'), set(1, 1, 'b'));
    const position = await sheet.snapshot();
    await sheet.edit(set(0, 0, 'late'));
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'built', base: undefined, entries: 3 });
    expect(await sheet.rows(position)).toEqual([['a'], ['', 'b']]);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });

  test('is built from the one before it and only the entries since', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'), { type: 'Insert Rows', position: 0, count: 1 });
    const first = await sheet.completed();
    await sheet.edit({ type: 'Insert Rows', position: 0, count: 1 }, set(0, 0, 'b'));
    const second = await sheet.snapshot();
    expect(await sheet.complete(second)).toMatchObject({ outcome: 'built', base: first, entries: 3 });
    expect(await sheet.rows(second)).toEqual([['b'], [], ['a']]);
  });

  test('of a new segment is built from the last one of the segment before', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const first = await sheet.completed();
    await sheet.edit(set(0, 1, 'b'));
    const second = await sheet.segment();
    // The Snapshot entry, the edit and the End Segment entry.
    expect(await sheet.complete(second)).toMatchObject({ outcome: 'built', base: first, entries: 3 });
    expect(await sheet.rows(second)).toEqual([['a', 'b']]);
    expect([await sheet.lastSnapshot(0), await sheet.lastSnapshot(1)]).toEqual([first.entry, 0]);
  });

  test('has the same state whether it is built in order or after later ones', async () => {
    const states: string[][] = [];
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ]) {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      const positions: Position[] = [];
      for (let i = 0; i < 3; i++) {
        await sheet.fill(20, 3);
        await sheet.edit({ type: 'Insert Rows', position: 1, count: 2 });
        positions.push(await sheet.snapshot());
      }
      for (const i of order) expect(await sheet.complete(positions[i] ?? fail())).toMatchObject({ outcome: 'built' });
      expect(await sheet.lastSnapshot()).toBe(positions[2]?.entry);
      states.push(await Promise.all(positions.map(async (position) => (await sheet.root(position)).stateHash)));
    }
    expect(new Set(states.flat()).size).toBe(3);
    expect(states[1]).toEqual(states[0]);
    expect(states[2]).toEqual(states[0]);
  });

  test('has the same state however little memory its batches are given', async () => {
    const hashes: string[] = [];
    for (const batchBytes of [undefined, 1]) {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      // More than two pages of entries.
      for (let i = 0; i < 1_100; i++) await sheet.edit(set(i % 40, i % 7, `value ${i}`));
      const position = await sheet.completed({ batchBytes });
      expect((await sheet.rows(position))[39]?.[1]).toBe('value 1079');
      hashes.push((await sheet.root(position)).stateHash);
    }
    expect(hashes[1]).toBe(hashes[0]);
  });

  test('travels in its entry while it is small, and in an object once it is not', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const small = await sheet.completed();
    await sheet.fill(1_000, 1);
    const large = await sheet.completed();
    const [inline, object] = [(await sheet.ref(small)) ?? fail(), (await sheet.ref(large)) ?? fail()];
    expect('inline' in inline && inline.inline.length).toBeLessThanOrEqual(INLINE_ROOT_BYTES);
    const key = 'key' in object ? object.key : '';
    expect(parseKey(key)).toMatchObject({ kind: 'root', log: sheet.log, position: large });
    expect((await sheet.contents()).objects).toHaveProperty([key]);
  });

  test('shares every chunk that the edits since the one before did not touch', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 60; i++)
      await sheet.fill(1_000, 1).then(() => sheet.edit({ type: 'Insert Rows', position: 0, count: 1_000 }));
    const first = await sheet.completed();
    for (let i = 0; i < 200; i++) await sheet.edit(set(20_000 + i, 0, 'changed'));
    const second = await sheet.snapshot();
    const result = await sheet.complete(second);

    const [before, after] = [await leaves(sheet, first), await leaves(sheet, second)];
    const touched = new Set<string | undefined>();
    for (const key of await keysOf(sheet, second, 'changed')) {
      touched.add(before.findLast(({ firstKey }) => firstKey <= key)?.id);
    }
    const untouched = before.flatMap(({ id }) => (touched.has(id) ? [] : [id]));
    expect(untouched.length).toBeGreaterThan(5);
    // Values as long as those that they replace leave the cuts between leaves where they were.
    expect(after.map(({ id }) => id)).toEqual(expect.arrayContaining(untouched));
    expect(result).toMatchObject({ chunksWritten: touched.size });
  });
});

/** The leaves of a snapshot's cells, which are a tree of two levels. */
async function leaves(sheet: SheetLog, position: Position): Promise<{ id: ChunkId; firstKey: number }[]> {
  const top = (await sheet.root(position)).state.maps.get('cells')?.top;
  if (top === undefined || isLeaf(top) || top.level !== 1) throw new Error('the cells are not a tree of two levels');
  return top.children.map(({ id }, i) => ({ id: id ?? fail(), firstKey: Number(top.keys[i]) }));
}

async function keysOf(sheet: SheetLog, position: Position, value: string): Promise<number[]> {
  const tree = (await sheet.root(position)).state.maps.get('cells') ?? fail();
  const items = await Array.fromAsync(rangeItems(nodeStore(sheet.deps, sheet.log), tree));
  return items.filter((item) => item.value === value).map(({ key }) => Number(key));
}

function fail(): never {
  throw new Error('there is no such thing');
}

describe('a job that comes again', () => {
  test('writes nothing where its snapshot is complete', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const position = await sheet.completed();
    const before = await sheet.contents();
    const { writes, ports } = recordWrites(sheet);
    expect(await sheet.complete(position, ports)).toEqual({ outcome: 'present', position });
    expect(writes).toEqual([]);
    expect(await sheet.contents()).toEqual(before);
  });

  test('does not move Last Snapshot back where a newer one is complete', async () => {
    const sheet = await SheetLog.create();
    const first = await sheet.completed();
    const second = await sheet.completed();
    await sheet.complete(first);
    expect(await sheet.lastSnapshot()).toBe(second.entry);
  });

  test('moves Last Snapshot and nothing else where the root is on the entry already', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const position = await sheet.snapshot();
    const stranded: Around = async (name, effect) => {
      if (name === 'advanceLastSnapshot') throw new Error('the connection is lost');
      return effect();
    };
    await expect(sheet.complete(position, portsAround(sheet, stranded))).rejects.toThrow('the connection is lost');
    expect(await sheet.lastSnapshot()).toBeUndefined();
    const { writes, ports } = recordWrites(sheet);
    expect(await sheet.complete(position, ports)).toEqual({ outcome: 'present', position });
    expect(writes).toEqual(['advanceLastSnapshot']);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });

  test('ends as the first time would have, wherever that one died', async () => {
    const prepared = async (): Promise<{ sheet: SheetLog; position: Position }> => {
      const sheet = await SheetLog.create();
      await sheet.fill(5, 5);
      await sheet.completed();
      await sheet.fill(30, 1, 300);
      await sheet.fill(3, 1, 5_000);
      return { sheet, position: await sheet.snapshot() };
    };
    const reference = await prepared();
    const operations: string[] = [];
    const whole = await sheetAfter(reference, async (name, effect) => {
      operations.push(name);
      return effect();
    });
    for (const name of ['getEntry', 'entries', 'get', 'put', 'completeSnapshot', 'advanceLastSnapshot']) {
      expect(operations).toContain(name);
    }
    for (const when of ['before', 'after'] as const) {
      for (let dies = 1; dies <= operations.length; dies++) {
        const again = await prepared();
        await dieAt(again.sheet, again.position, { operation: dies, when });
        const carried = await again.sheet.ref(again.position);
        // Last Snapshot never runs ahead of what the entry carries.
        if ((await again.sheet.lastSnapshot()) === again.position.entry) expect(carried).toBeDefined();
        expect(await sheetAfter(again), `died ${when} operation ${dies}`).toEqual(whole);
      }
    }
  });
});

async function sheetAfter(
  { sheet, position }: { readonly sheet: SheetLog; readonly position: Position },
  around: Around = (_, effect) => effect(),
): Promise<Contents> {
  await sheet.complete(position, portsAround(sheet, around));
  return sheet.contents();
}

/** Runs a job whose process dies at its nth operation: from then on it never hears of anything again. */
async function dieAt(
  sheet: SheetLog,
  position: Position,
  death: { readonly operation: number; readonly when: 'before' | 'after' },
): Promise<void> {
  let count = 0;
  await new Promise<void>((died, survived) => {
    const around: Around = async <T>(_: string, effect: () => Promise<T>): Promise<T> => {
      const operation = ++count;
      if (operation < death.operation) return effect();
      if (operation === death.operation) {
        if (death.when === 'after') await effect();
        died();
      }
      return new Promise<T>(() => undefined);
    };
    sheet.complete(position, portsAround(sheet, around)).then(() => survived(new Error('nobody died')), survived);
  });
}

describe('a job that cannot be done', () => {
  test('fails where its entry does not exist, and stops nothing', async () => {
    const sheet = await SheetLog.create();
    await expect(sheet.complete({ segment: 0, entry: 7 })).rejects.toThrow(EntryNotFoundError);
    await expect(sheet.complete({ segment: 3, entry: 0 })).rejects.toMatchObject({ segment: 3, entry: 0 });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test('fails where its entry is of another type, and leaves that one alone', async () => {
    const sheet = await SheetLog.create();
    const position = await sheet.edit(set(0, 0, 'a'));
    const before = await sheet.contents();
    await expect(sheet.complete(position)).rejects.toThrow(MessageInvalidError);
    expect(await sheet.contents()).toEqual(before);
  });

  test('fails, to be tried again, where a store does not answer', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await sheet.fill(40, 3);
    await sheet.completed();
    await sheet.edit({ type: 'Delete Rows', position: 3, count: 9 });
    const position = await sheet.snapshot();
    for (const failing of [
      'get',
      'put',
      'getEntry',
      'getSegment',
      'entries',
      'completeSnapshot',
      'advanceLastSnapshot',
    ]) {
      const around: Around = (name, effect) => (name === failing ? Promise.reject(new Error('no answer')) : effect());
      await expect(sheet.complete(position, portsAround(sheet, around)), failing).rejects.toThrow('no answer');
    }
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.complete(position)).toMatchObject({ position });
    expect(await sheet.rows(position)).toHaveLength(31);
  });
});

describe('an entry that cannot be folded', () => {
  test('stops its log with its place and the reason, until a person has it go on', async () => {
    const sheet = await SheetLog.create();
    const good = await sheet.completed();
    const poison = await sheet.append({ type: 'Pivot', version: 1 });
    const position = await sheet.snapshot();
    const stop = {
      code: 'ENTRY_TYPE_UNKNOWN',
      segment: 0,
      entry: poison.entry,
      reducer: { name: 'spreadsheet', version: 1 },
    };
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'stopped', position, stop });
    const note = await readStop(sheet.blobs, sheet.log);
    expect(note).toMatchObject(stop);
    expect(note?.message).toContain(`log ${sheet.log}, segment 0, entry ${poison.entry}`);
    expect(note?.message).toContain("'Pivot'");
    expect(await sheet.lastSnapshot()).toBe(good.entry);

    const { writes, ports } = recordWrites(sheet);
    const later = await sheet.snapshot();
    expect(await sheet.complete(later, ports)).toMatchObject({ outcome: 'stopped', position: later, stop });
    expect(writes).toEqual([]);

    await clearStop(sheet.blobs, sheet.log);
    expect(await sheet.complete(later, ports)).toMatchObject({ outcome: 'stopped', stop });
    expect(writes).toEqual(['put']);
  });

  test('is folded once a version of the reducer is deployed that knows it, and the stop is lifted', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    await sheet.append({ type: NOTE, version: 1 });
    const position = await sheet.snapshot();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'stopped' });
    expect(await sheet.complete(position, { reducer: versionedSheet(2) })).toMatchObject({ outcome: 'built' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.rows(position)).toEqual([['A']]);
  });

  test('stops its log where the reducer fails with an error of its own', async () => {
    const sheet = await SheetLog.create();
    const poison = await sheet.append({ type: FAULTY, version: 1 });
    const result = await sheet.complete(await sheet.snapshot());
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'FOLD_FAILED', ...poison } });
    expect(result).toMatchObject({ stop: { message: expect.stringContaining('Cannot read properties of undefined') } });
  });

  test.each([
    ['a body that does not decode', { body: { format: 'bytes', bytes: Uint8Array.of(0xc1, 0) } }, 'BODY_UNDECODABLE'],
    ['a body that says nothing of the kind', { body: { format: 'json', text: '{"a":1}' } }, 'BODY_INVALID'],
    ['a version that nobody knows', { version: 9 }, 'ENTRY_VERSION_UNKNOWN'],
    ['a missing object', { external: 'logs/x/bodies/y' }, 'EXTERNAL_MISSING'],
    ['a cell outside of the sheet', { body: { format: 'json', text: '[[4294967296,0,"a"]]' } }, 'SHEET_LIMIT'],
  ] as const)('stops its log: %s', async (_, changes, code) => {
    const sheet = await SheetLog.create();
    const position = { segment: 0, entry: 1 };
    await sheet.store.putEntries([{ log: sheet.log, position, created: 1, type: 'Set', version: 1, ...changes }]);
    const result = await sheet.complete(await sheet.snapshot());
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code, ...position } });
    expect(result).toMatchObject({ stop: { message: expect.stringContaining(sheet.log) } });
  });

  test('stops its log where it is not there at all', async () => {
    const sheet = await SheetLog.create();
    const [missing, position] = [
      { segment: 0, entry: 1 },
      { segment: 0, entry: 3 },
    ];
    await sheet.store.putEntries([
      { log: sheet.log, created: 1, type: 'Set', version: 1, position: { segment: 0, entry: 2 } },
      { log: sheet.log, created: 1, type: 'Snapshot', version: 1, position },
    ]);
    const result = await sheet.complete(position);
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'ENTRY_GAP', ...missing } });
  });
});

describe('a new version of the reducer', () => {
  test('starts again from the log, and says so', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    await sheet.edit(set(0, 1, 'b'));
    const position = await sheet.snapshot();
    expect(await sheet.complete(position, { reducer: versionedSheet(2) })).toMatchObject({
      outcome: 'built',
      base: undefined,
      rebuiltBecause: 'the snapshot was made by reducer spreadsheet 1, and this is spreadsheet 2',
      entries: 4,
    });
    expect(await sheet.rows(position)).toEqual([['A', 'B']]);
  });

  test('leaves a snapshot alone that the old one completed while it was building the same', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const position = await sheet.snapshot();
    const ports = besideTwin(sheet, () => sheet.complete(position));
    expect(await sheet.complete(position, { ...ports, reducer: versionedSheet(2) })).toMatchObject({
      outcome: 'present',
    });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.rows(position)).toEqual([['a']]);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });
});

/** Ports on which, just before a root is written onto its entry, a twin does the whole job. */
function besideTwin(sheet: SheetLog, twin: () => Promise<unknown>): Pick<SheetLog, 'store' | 'blobs'> {
  return portsAround(sheet, async (name, effect) => {
    if (name === 'completeSnapshot') await twin();
    return effect();
  });
}

describe('a twin that was faster', () => {
  test('is agreed with where it built the same state', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(10, 2);
    const position = await sheet.snapshot();
    const ports = besideTwin(sheet, () => sheet.complete(position));
    const result = await sheet.complete(position, ports);
    expect(result).toMatchObject({ stateHash: (await sheet.root(position)).stateHash });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test('stops the log where the reducer gave it another state', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const position = await sheet.snapshot();
    let folds = 0;
    const reducer: Reducer = {
      ...spreadsheet,
      fold: (draft, entry) => spreadsheet.fold(draft, { ...entry, body: [[0, 0, ++folds]] }),
    };
    const ports = besideTwin(sheet, () => sheet.complete(position, { reducer }));
    const result = await sheet.complete(position, { ...ports, reducer });
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'SNAPSHOT_MISMATCH', ...position } });
    const { stateHash } = await sheet.root(position);
    expect(result).toMatchObject({ stop: { message: expect.stringContaining(stateHash) } });
  });
});

test('a chunk that is missing below the snapshot to start from stops the log, and is named', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(40, 3);
  const base = await sheet.root(await sheet.completed());
  const top = base.state.maps.get('cells')?.top ?? fail();
  const reached = await Array.fromAsync(walkChunks(nodeStore(sheet.deps, sheet.log), top, { values: false }));
  const lost = reached.find(({ holds }) => holds === 'leaf')?.id ?? fail();
  await sheet.blobs.delete([chunkKey(sheet.log, lost)]);
  await sheet.edit({ type: 'Delete Columns', position: 1, count: 1 });
  const result = await sheet.complete(await sheet.snapshot());
  expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'CHUNK_MISSING' } });
  expect(result).toMatchObject({ stop: { message: expect.stringContaining(lost) } });
});

test('the counts of a result are what was written', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(40, 3);
  const blobs = new MeteredBlobStore(sheet.blobs);
  const result = await sheet.complete(await sheet.snapshot(), { blobs, platform: nativePlatform });
  const { puts, bytesWritten } = blobs.usage();
  expect(puts).toBeGreaterThan(3);
  expect(result).toMatchObject({ chunksWritten: puts, bytesWritten });
});
