import { describe, expect, test } from 'vitest';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { ChunkId } from '../../src/codec/chunk.ts';
import type { Position } from '../../src/ids/position.ts';
import { INLINE_ROOT_BYTES, nodeStore } from '../../src/snapshot/snapshots.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { parseKey } from '../../src/store/keys.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import { isLeaf } from '../../src/tree/node.ts';
import { NodeCache } from '../../src/tree/node-cache.ts';
import { KEPT_NODE_BYTES } from '../../src/workers/snapshot/build-snapshot.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { interceptPorts, SheetLog, type SheetPorts, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

describe('a snapshot', () => {
  test('the snapshot of a new log has the empty state', async () => {
    const sheet = await SheetLog.create();
    const start = { segment: 0, entry: 0 };
    expect(await sheet.complete(start)).toMatchObject({ outcome: 'built', base: undefined, entries: 0 });
    expect(await sheet.rows(start)).toEqual([]);
    expect(await sheet.lastSnapshot()).toBe(0);
  });

  test('it holds the entries before its own, and none after', { tags: ['I1'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'), set(1, 1, 'b'));
    const position = await sheet.snapshot();
    await sheet.edit(set(0, 0, 'late'));
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'built', base: undefined, entries: 3 });
    expect(await sheet.rows(position)).toEqual([['a'], ['', 'b']]);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });

  test('it is built from the previous snapshot and only the later entries', { tags: ['I1'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'), { type: 'Insert Rows', position: 0, count: 1 });
    const first = await sheet.completed();
    await sheet.edit({ type: 'Insert Rows', position: 0, count: 1 }, set(0, 0, 'b'));
    const second = await sheet.snapshot();
    expect(await sheet.complete(second)).toMatchObject({ outcome: 'built', base: first, entries: 3 });
    expect(await sheet.rows(second)).toEqual([['b'], [], ['a']]);
  });

  test('the first snapshot of a segment is built from the last one of the previous segment', {
    tags: ['I1'],
  }, async () => {
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

  test('it has the same state whether it is built in order or after later ones', { tags: ['I1'] }, async () => {
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
      states.push(await Promise.all(positions.map((position) => sheet.stateHash(position))));
    }
    expect(new Set(states.flat()).size).toBe(3);
    expect(states[1]).toEqual(states[0]);
    expect(states[2]).toEqual(states[0]);
  });

  test('its state does not depend on the memory limit of batches', { tags: ['I1'] }, async () => {
    const hashes: string[] = [];
    for (const batchBytes of [undefined, 1]) {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      // More than two pages of entries.
      for (let i = 0; i < 1_100; i++) await sheet.edit(set(i % 40, i % 7, `value ${i}`));
      const position = await sheet.completed({ batchBytes });
      expect((await sheet.rows(position))[39]?.[1]).toBe('value 1079');
      hashes.push(await sheet.stateHash(position));
    }
    expect(hashes[1]).toBe(hashes[0]);
  });

  test('its entry holds the root if it is small, and an object if it is not', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const small = await sheet.completed();
    await sheet.fill(1_000, 1);
    const large = await sheet.completed();
    const [inline, object] = [(await sheet.ref(small)) ?? fail(), (await sheet.ref(large)) ?? fail()];
    expect('inline' in inline && inline.inline.length).toBeLessThanOrEqual(INLINE_ROOT_BYTES);
    const key = 'key' in object ? object.key : '';
    expect(parseKey(key)).toMatchObject({ kind: 'root', name: sheet.log, position: large });
    expect((await sheet.contents()).objects).toHaveProperty([key]);
  });

  test('it writes chunks, then the root, then the entry, then Last Snapshot', {
    tags: ['I2'],
  }, async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(30, 1, 300);
    await sheet.fill(3, 1, 5_000);
    const position = await sheet.snapshot();
    const events: string[] = [];
    const writes = new Set(['put', 'completeSnapshot', 'advanceLastSnapshot']);
    const interceptor: Interceptor = async (name, effect) => {
      if (!writes.has(name)) return effect();
      events.push(`${name} begins`);
      // Give each later write the time to overtake this one.
      for (let turns = 0; turns < 100; turns++) await Promise.resolve();
      const answer = await effect();
      events.push(`${name} ends`);
      return answer;
    };
    await sheet.complete(position, interceptPorts(sheet, interceptor));
    expect(events).toEqual([
      ...['put begins', 'put begins', 'put begins', 'put ends', 'put ends', 'put ends'],
      ...['put begins', 'put ends'],
      ...['completeSnapshot begins', 'completeSnapshot ends'],
      ...['advanceLastSnapshot begins', 'advanceLastSnapshot ends'],
    ]);
    expect(await sheet.ref(position)).toHaveProperty('key');
  });

  test('it shares every chunk that no edit since the previous snapshot changed', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 60; i++)
      await sheet.fill(1_000, 1).then(() => sheet.edit({ type: 'Insert Rows', position: 0, count: 1_000 }));
    const first = await sheet.completed();
    for (let i = 0; i < 1_500; i++) await sheet.edit(set(20_000 + i, 0, 'changed'));
    const second = await sheet.snapshot();
    const result = await sheet.complete(second);

    const [before, after] = [await leaves(sheet, first), await leaves(sheet, second)];
    const touched = new Set<string | undefined>();
    for (const key of await keysOf(sheet, second, 'changed')) {
      touched.add(before.findLast(({ firstKey }) => firstKey <= key)?.id);
    }
    const untouched = before.flatMap(({ id }) => (touched.has(id) ? [] : [id]));
    expect(untouched.length).toBeGreaterThan(5);
    // New values of equal length keep the chunk boundaries.
    const shared = new Set(after.map(({ id }) => id));
    expect(untouched.filter((id) => !shared.has(id))).toEqual([]);
    expect(result).toMatchObject({
      chunksWritten: after.filter(({ id }) => touched.has(id)).length === 0 ? touched.size : 1,
    });
  });
});

/** The leaves of a snapshot's cells, which are a tree of two levels. */
async function leaves(sheet: SheetLog, position: Position): Promise<{ id: ChunkId; firstKey: number }[]> {
  const top = (await sheet.root(position)).state.maps.get('cells')?.tree.top;
  if (top === undefined || isLeaf(top) || top.level !== 1) throw new Error('the cells are not a tree of two levels');
  return top.children.map(({ id }, i) => ({ id: id ?? fail(), firstKey: Number(top.keys[i]) }));
}

async function keysOf(sheet: SheetLog, position: Position, value: string): Promise<number[]> {
  const tree = (await sheet.root(position)).state.maps.get('cells') ?? fail();
  const items = await Array.fromAsync(mergedValues(nodeStore(sheet.deps, sheet.log), tree));
  return items.filter((item) => item.value === value).map(({ key }) => Number(key));
}

function fail(): never {
  throw new Error('there is no such thing');
}

describe('a new version of the reducer', () => {
  test('it builds from the beginning of the log, and says so', { tags: ['I1'] }, async () => {
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

  test('it keeps a snapshot that the old version completed during its build', {
    tags: ['I5'],
  }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const position = await sheet.snapshot();
    const ports = besideDuplicate(sheet, () => sheet.complete(position));
    expect(await sheet.complete(position, { ...ports, reducer: versionedSheet(2) })).toMatchObject({
      outcome: 'present',
    });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.rows(position)).toEqual([['a']]);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });
});

/** Returns ports that run a duplicate of the whole job just before a root is written. */
function besideDuplicate(sheet: SheetLog, duplicate: () => Promise<unknown>): SheetPorts {
  return interceptPorts(sheet, async (name, effect) => {
    if (name === 'completeSnapshot') await duplicate();
    return effect();
  });
}

describe('a faster duplicate', () => {
  test('the build agrees with it if it built the same state', { tags: ['I5'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(10, 2);
    const position = await sheet.snapshot();
    const ports = besideDuplicate(sheet, () => sheet.complete(position));
    const result = await sheet.complete(position, ports);
    expect(result).toMatchObject({ stateHash: (await sheet.root(position)).stateHash });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test('the log is stopped if the duplicate built another state', { tags: ['I7'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const position = await sheet.snapshot();
    let folds = 0;
    const reducer: Reducer = {
      ...spreadsheet,
      fold: (draft, entry) => spreadsheet.fold(draft, { ...entry, body: [[0, 0, ++folds]] }),
    };
    const ports = besideDuplicate(sheet, () => sheet.complete(position, { reducer }));
    const result = await sheet.complete(position, { ...ports, reducer });
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'SNAPSHOT_MISMATCH', ...position } });
    const stateHash = await sheet.stateHash(position);
    expect(result).toMatchObject({ stop: { message: expect.stringContaining(stateHash) } });
  });
});

test('the counts of a result equal what was written', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(40, 3);
  const blobs = new MeteredBlobStore(sheet.blobs);
  const result = await sheet.complete(await sheet.snapshot(), { blobs, platform: nativePlatform });
  const { puts, bytesWritten } = blobs.usage();
  expect(puts).toBeGreaterThan(3);
  expect(result).toMatchObject({ chunksWritten: puts, bytesWritten });
});

test('jobs with common kept nodes fetch no chunk that an earlier job read or wrote', async () => {
  /** The GETs of two snapshot jobs after the first, and all objects at the end. */
  const later = async (keptNodes?: NodeCache) => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    const blobs = new MeteredBlobStore(sheet.blobs);
    const deps = { blobs, keptNodes };
    await sheet.fill(60, 3);
    await sheet.complete(await sheet.snapshot(), deps);
    const { gets } = blobs.usage();
    for (const length of [5, 6]) {
      await sheet.fill(30, 3, length);
      await sheet.complete(await sheet.snapshot(), deps);
    }
    return { gets: blobs.usage().gets - gets, stored: (await sheet.contents()).objects };
  };
  const [alone, together] = [await later(), await later(new NodeCache(KEPT_NODE_BYTES))];
  // Each job looks for a stop note. The roots are in their entries.
  expect(together.gets).toBe(2);
  expect(alone.gets).toBeGreaterThan(5);
  expect(together.stored).toEqual(alone.stored);
});

test('a snapshot job writes each new chunk, also if it is among the kept nodes', async () => {
  const keptNodes = new NodeCache(KEPT_NODE_BYTES);
  const [first, second] = [
    await SheetLog.create({ shape: SMALL_SHAPE }),
    await SheetLog.create({ shape: SMALL_SHAPE }),
  ];
  for (const sheet of [first, second]) {
    await sheet.fill(40, 3);
    await sheet.complete(await sheet.snapshot(), { keptNodes });
  }
  expect((await second.contents()).objects).toEqual((await first.contents()).objects);
});
