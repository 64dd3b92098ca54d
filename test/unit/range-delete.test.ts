import { expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { KeyInvalidError } from '../../src/errors.ts';
import { Draft } from '../../src/state/draft.ts';
import { cellKey, MAX_ROWS } from '../../src/state/spreadsheet/cell-key.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { flushState, type State, saveState, stateHash } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { sheetEntry } from '../support/models/sheet-model.ts';

const shape = SMALL_SHAPE;

/** A saved state with one map that has these keys. */
async function saved(store: NodeStore, keys: Iterable<number>, value: Value = 'value'): Promise<State> {
  const draft = new Draft(store);
  const map = draft.map('cells', 'number', { buffers: true });
  for (const key of keys) map.put(key, value);
  const state = await draft.state();
  await saveState(store, state);
  return state;
}

async function flushedHash(store: NodeStore, draft: Draft): Promise<string> {
  const state = await flushState(store, await draft.state());
  await saveState(store, state);
  return stateHash(store.platform, state) ?? '';
}

const KEYS = 20_000;
const all = (): number[] => Array.from({ length: KEYS }, (_, key) => key);

test('deleting a range of a thousand leaves reads a few nodes per level and gives a canonical tree', async () => {
  const chunks = new MemoryChunks();
  const state = await saved(nodeStore({ shape }, chunks), all());
  expect(chunks.stored.size).toBeGreaterThan(500);
  const levels = (state.maps.get('cells')?.tree.top?.level ?? 0) + 1;
  const store = nodeStore({ shape }, chunks);
  const draft = new Draft(store, state);
  draft.map('cells', 'number', { buffers: true }).deleteRange({ from: 1001, to: KEYS - 1001 });
  await draft.state();
  // Two nodes at the borders, and the nodes after them up to an old chunk boundary.
  expect(store.counts.read).toBeLessThanOrEqual(6 * levels);

  const fresh = nodeStore({ shape });
  const rest = all().filter((key) => key < 1001 || key >= KEYS - 1001);
  expect(await flushedHash(store, draft)).toBe(await flushedHash(fresh, new Draft(fresh, await saved(fresh, rest))));
});

test('deleting a whole map reads one node per level, and needs no removed node', async () => {
  const chunks = new MemoryChunks();
  const state = await saved(nodeStore({ shape }, chunks), all());
  const levels = state.maps.get('cells')?.tree.top?.level ?? 0;
  const store = nodeStore({ shape }, chunks);
  const draft = new Draft(store, state);
  const map = draft.map('cells', 'number', { buffers: true });
  map.deleteRange({ from: 0, to: Number.POSITIVE_INFINITY });
  expect((await draft.state()).maps.size).toBe(0);
  expect(store.counts.read).toBe(levels);

  const [first] = chunks.stored.keys();
  if (first !== undefined) chunks.stored.delete(first);
  const again = new Draft(nodeStore({ shape }, chunks), state);
  again.map('cells', 'number', { buffers: true }).deleteRange({ from: 0, to: Number.POSITIVE_INFINITY });
  expect((await again.state()).maps.size).toBe(0);
});

test('a range delete removes buffered edits in its range and leaves no tombstones', async () => {
  const store = nodeStore({ shape });
  const draft = new Draft(
    store,
    await saved(
      store,
      all().map((key) => key * 2),
    ),
  );
  const map = draft.map('cells', 'number', { buffers: true });
  for (let key = 1; key < 2 * KEYS; key += 500) map.put(key, 'buffered');
  expect((await draft.state()).maps.get('cells')?.buffer.top?.count).toBe(80);
  map.deleteRange({ from: 0, to: 2 * KEYS - 1000 });
  const cells = (await draft.state()).maps.get('cells');
  expect(cells?.buffer.top?.count).toBeLessThanOrEqual(2);
  expect(cells?.tree.top?.count).toBeLessThanOrEqual(502);
  expect(await Array.fromAsync(map.items())).toHaveLength(502);
});

test('deleting rows of a sheet takes one range for any number of stripes', async () => {
  const chunks = new MemoryChunks();
  const stripes = 2000;
  const state = await saved(
    nodeStore({ shape }, chunks),
    Array.from({ length: stripes }, (_, stripe) => cellKey(7, stripe * 128)),
  );
  const store = nodeStore({ shape }, chunks);
  const draft = new Draft(store, state);
  const before = draft.heldBytes;
  for (let i = 0; i < 100; i++) {
    await spreadsheet.fold(draft, sheetEntry({ type: 'Insert Rows', position: 3, count: 1 }));
  }
  expect(store.counts.read).toBe(0);
  expect(draft.heldBytes - before).toBeLessThan(50_000);
  expect((await sheetOf(draft).usedRange()).rows).toBe(108);
});

test('deleting a column of all rows holds few keys at a time, and deletes may overlap', async () => {
  const store = nodeStore();
  const state = await saved(
    store,
    Array.from({ length: 250_000 }, (_, row) => cellKey(row, row % 2)),
  );
  const draft = new Draft(store, state);
  await spreadsheet.fold(draft, sheetEntry({ type: 'Delete Columns', position: 0, count: 1 }));
  await spreadsheet.fold(draft, sheetEntry({ type: 'Delete Rows', position: 0, count: 100_000 }));
  const fresh = nodeStore();
  const rest = Array.from({ length: 75_000 }, (_, i) => cellKey(100_001 + 2 * i, 1));
  const left = await flushState(store, await draft.state());
  const expected = await saved(fresh, rest);
  await saveState(store, left);
  expect(left.maps.get('cells')?.tree.top?.count).toBe(75_000);
  const cellsOnly = (state: State): State => ({
    meta: {},
    maps: new Map([...state.maps].filter(([name]) => name === 'cells')),
  });
  expect(stateHash(store.platform, cellsOnly(left))).toBe(stateHash(fresh.platform, expected));
});

test('a batch counts the memory of its ranges, and a long batch is applied before a lookup', async () => {
  const store = nodeStore({ shape });
  const draft = new Draft(store, await saved(store, all()));
  const map = draft.map('cells', 'number', { buffers: true });
  for (let i = 0; i < 10_000; i++) map.deleteRange({ from: 2 * i, to: 2 * i + 1 });
  expect(draft.heldBytes).toBeGreaterThan(10_000 * 64);
  expect(await map.get(4)).toBeUndefined();
  expect(await map.get(5)).toBe('value');
  await saveState(store, await draft.state());
  expect(draft.heldBytes).toBe(0);
});

test('a draft counts unsaved nodes and large values after a read by order has applied its edits', async () => {
  const store = nodeStore({ shape });
  const draft = new Draft(store);
  const map = draft.map('cells', 'number', { buffers: true });
  for (let key = 0; key < 1000; key++) map.put(key, 'x'.repeat(100));
  expect(await map.firstKey(0)).toBe(0);
  expect(draft.heldBytes).toBeGreaterThan(90_000);
  map.put(7, 'x'.repeat(1_000_000));
  expect(await map.firstKey(0)).toBe(0);
  expect(draft.heldBytes).toBeGreaterThan(1_000_000);
  await saveState(store, await draft.state());
  expect(draft.heldBytes).toBe(0);
});

test('a batch counts the length of deleted keys', () => {
  const draft = new Draft(nodeStore());
  const map = draft.map('texts', 'string');
  for (let i = 0; i < 1000; i++) map.delete(`${i}`.padEnd(1000));
  expect(draft.heldBytes).toBeGreaterThan(1_000_000);
});

test('a range with wrong bounds or a wrong period is refused', () => {
  const draft = new Draft(nodeStore());
  const numbers = draft.map('numbers', 'number');
  const texts = draft.map('texts', 'string');
  expect(() => numbers.deleteRange({ from: 'a', to: 'b' })).toThrow(KeyInvalidError);
  expect(() => numbers.deleteRange({ from: 0, to: Number.NaN })).toThrow(KeyInvalidError);
  expect(() => texts.deleteRange({ from: 0, to: 1 })).toThrow(KeyInvalidError);
  for (const every of [
    { period: 0, from: 0, to: 0 },
    { period: 2.5, from: 0, to: 1 },
    { period: 4, from: 0, to: 5 },
  ]) {
    expect(() => numbers.deleteRange({ from: 0, to: MAX_ROWS, every })).toThrow(KeyInvalidError);
  }
  expect(() => texts.deleteRange({ from: 'a', to: 'b', every: { period: 2, from: 0, to: 1 } })).toThrow(
    KeyInvalidError,
  );
  expect(draft.heldBytes).toBe(0);
});
