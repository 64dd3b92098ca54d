import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeValue } from '../../src/codec/canonical.ts';
import { type ChunkId, chunkId } from '../../src/codec/chunk.ts';
import type { Value } from '../../src/codec/value.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { type State, saveState, stateTops, unsavedStateBytes } from '../../src/state/state.ts';
import { encodeNode, type Leaf, memoryBytes } from '../../src/tree/node.ts';
import { NodeCache } from '../../src/tree/node-cache.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { propertyRuns } from '../support/property-runs.ts';

const LARGE = 'large '.repeat(1000);

/** Counts requests, and lets a test decide when the next ones end, and whether they fail. */
class CountedChunks extends MemoryChunks {
  readonly requests: ChunkId[] = [];
  gate: Promise<void> = Promise.resolve();

  constructor(like?: MemoryChunks) {
    super();
    for (const [id, stored] of like?.stored ?? []) this.stored.set(id, stored);
  }

  override async get(id: ChunkId): Promise<Uint8Array | undefined> {
    this.requests.push(id);
    await this.gate;
    return super.get(id);
  }
}

/** A saved state with a tree of several levels, and large values. */
async function savedState() {
  const chunks = new MemoryChunks();
  const store = nodeStore({ shape: SMALL_SHAPE }, chunks);
  const draft = new Draft(store);
  const map = draft.map('items', 'number');
  for (let i = 0; i < 300; i++) map.put(i, i % 50 === 0 ? `${i} ${LARGE}` : `item ${i}`);
  const state = await draft.state();
  await saveState(store, state);
  return { state, chunks: new CountedChunks(chunks) };
}

function reader(chunks: CountedChunks, cache: NodeCache): NodeStore {
  return nodeStore({ shape: SMALL_SHAPE, cache }, chunks);
}

async function readAll(store: NodeStore, state: State): Promise<unknown[]> {
  const frozen = new FrozenState(store, state);
  return Array.fromAsync(frozen.mapNames, (name) => Array.fromAsync(frozen.map(name).range()));
}

describe('a cache that stores share', () => {
  test('a chunk that one store read is not fetched by another', async () => {
    const { state, chunks } = await savedState();
    const cache = new NodeCache();
    const [first, second] = [reader(chunks, cache), reader(chunks, cache)];
    const items = await readAll(first, state);
    expect(await readAll(second, state)).toEqual(items);
    expect(await readAll(first, state)).toEqual(items);
    expect(chunks.requests.toSorted()).toEqual([...chunks.stored.keys()].sort());
    expect([first.counts.read, second.counts.read]).toEqual([chunks.stored.size, 0]);
  });

  test('readers at the same time share one request', async () => {
    const { state, chunks } = await savedState();
    const cache = new NodeCache();
    const stores = [1, 2, 3].map(() => reader(chunks, cache));
    const [items, ...others] = await Promise.all([...stores, ...stores].map((store) => readAll(store, state)));
    for (const other of others) expect(other).toEqual(items);
    expect(chunks.requests.toSorted()).toEqual([...chunks.stored.keys()].sort());
    expect(stores.reduce((total, { counts }) => total + counts.read, 0)).toBe(chunks.stored.size);
  });

  test('a failed request is not remembered', async () => {
    const { state, chunks } = await savedState();
    const store = reader(chunks, new NodeCache());
    chunks.gate = Promise.reject(new Error('no answer'));
    const map = new FrozenState(store, state).map('items');
    const failed = await Promise.allSettled([map.get(7), map.get(7)]);
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(chunks.requests).toHaveLength(1);
    chunks.gate = Promise.resolve();
    expect(await map.get(7)).toBe('item 7');
  });

  test('a failed request of one store does not fail the readers of another', async () => {
    const { state, chunks } = await savedState();
    const cache = new NodeCache();
    const empty = new CountedChunks();
    const [failing, working] = [reader(empty, cache), reader(chunks, cache)];
    const reads = [failing, working].map((store) => new FrozenState(store, state).map('items').get(100));
    const [missing, found] = await Promise.allSettled(reads);
    expect(missing).toMatchObject({ reason: { code: 'CHUNK_MISSING' } });
    expect(found).toMatchObject({ value: `100 ${LARGE}` });
  });

  test('a large value whose bytes are also a node is read as both', async () => {
    const bytes = encodeValue(LARGE);
    const leaf: Leaf = {
      level: 0,
      keys: [1],
      bytes,
      ends: Uint32Array.of(bytes.length),
      weights: undefined,
      count: 1,
      weight: 1,
    };
    const value: Value = [0, [1], [LARGE]];
    const store = nodeStore();
    const id = chunkId(store.platform, encodeValue(value));
    expect(id).toBe(chunkId(store.platform, encodeNode(leaf)));
    const cache = new NodeCache();
    cache.addValue(id, encodeValue(value));
    expect(cache.node(id)).toBeUndefined();
    cache.addNode(id, leaf);
    const unused = () => Promise.reject(new Error('a cached chunk was requested'));
    expect(await cache.loadValue(id, store, unused)).toEqual(encodeValue(value));
    expect(await cache.loadNode(id, store, unused)).toBe(leaf);
  });
});

test('a cache stays within its bound and keeps what was used last', () => {
  const leaf = (bytes: number): Leaf => ({
    level: 0,
    keys: [1],
    bytes: new Uint8Array(bytes),
    ends: Uint32Array.of(bytes),
    weights: undefined,
    count: 1,
    weight: 1,
  });
  const ids = Array.from({ length: 20 }, (_, i) => chunkId(nodeStore().platform, encodeValue(i)));
  const use = fc.record({ id: fc.constantFrom(...ids), bytes: fc.nat({ max: 500 }), adds: fc.boolean() });
  fc.assert(
    fc.property(fc.array(use, { maxLength: 60, size: 'max' }), fc.nat({ max: 2000 }), (uses, maxBytes) => {
      const cache = new NodeCache(maxBytes);
      // The model: ids with their sizes, the last used one at the end.
      let model: { id: ChunkId; bytes: number }[] = [];
      for (const { id, bytes, adds } of uses) {
        const known = model.find((each) => each.id === id);
        if (!adds) {
          expect(cache.node(id) !== undefined).toBe(known !== undefined);
          if (known !== undefined) model = [...model.filter((each) => each !== known), known];
          continue;
        }
        const node = leaf(bytes);
        cache.addNode(id, node);
        if (memoryBytes(node) > maxBytes) continue;
        model = [...model.filter((each) => each !== known), { id, bytes: memoryBytes(node) }];
        while (model.reduce((total, each) => total + each.bytes, 0) > maxBytes) model.shift();
        expect(cache.bytes).toBe(model.reduce((total, each) => total + each.bytes, 0));
      }
    }),
    { numRuns: propertyRuns(200) },
  );
});

describe('a state that was folded locally', () => {
  const edit = fc.record({
    key: fc.nat({ max: 400 }),
    value: fc.oneof(
      { weight: 8, arbitrary: fc.string({ maxLength: 20 }) },
      { weight: 3, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.integer({ min: 4090, max: 4110 }).map((length) => 'x'.repeat(length)) },
    ),
  });
  const batches = fc.array(fc.array(edit, { minLength: 1, maxLength: 200, size: 'max' }), {
    minLength: 1,
    maxLength: 6,
  });

  type Batches = readonly (readonly { readonly key: number; readonly value: Value }[])[];

  /** Folds edits into a map that does not buffer; saves after each batch if asked. */
  async function folded(store: NodeStore, edits: Batches, saves = false): Promise<State> {
    const draft = new Draft(store);
    for (const batch of edits) {
      const map = draft.map('items', 'number');
      for (const { key, value } of batch) {
        if (value === null) map.delete(key);
        else map.put(key, value);
      }
      if (saves) await saveState(store, await draft.state());
    }
    return draft.state();
  }

  test('its reader fetches nothing from the equal snapshot of another process', async () => {
    await fc.assert(
      fc.asyncProperty(batches, async (edits) => {
        const chunks = new CountedChunks();
        const snapshot = await folded(nodeStore({ shape: SMALL_SHAPE }, chunks), edits, true);
        const cache = new NodeCache();
        const local = reader(chunks, cache);
        const mine = await folded(local, edits);
        const before = { bytes: unsavedStateBytes(mine), requests: chunks.requests.length };
        local.remember(stateTops(mine));
        // The local state is unchanged, and nothing was written.
        expect(unsavedStateBytes(mine)).toBe(before.bytes);
        expect(local.counts.written).toBe(0);
        const other = reader(chunks, cache);
        expect(await readAll(other, snapshot)).toEqual(await readAll(nodeStore({}, chunks), snapshot));
        expect(other.counts.read).toBe(0);
        expect(await readAll(local, mine)).toEqual(await readAll(other, snapshot));
      }),
      { numRuns: propertyRuns(60) },
    );
  });

  test('its memory counts until it is saved', async () => {
    const store = nodeStore({ shape: SMALL_SHAPE });
    const state = await folded(store, [Array.from({ length: 400 }, (_, key) => ({ key, value: 'x'.repeat(50) }))]);
    expect(unsavedStateBytes(state)).toBeGreaterThan(400 * 50);
    await saveState(store, state);
    expect(unsavedStateBytes(state)).toBe(0);
  });
});

test('the bound counts the texts of keys, which take more memory than short values', () => {
  const chunks = Array.from({ length: 20 }, (_, i) => {
    const keys = Array.from({ length: 100 }, (_, j) => `customer ${String(100 * i + j).padStart(6, '0')}`);
    const leaf: Leaf = {
      level: 0,
      keys,
      bytes: new Uint8Array(100),
      ends: Uint32Array.from(keys, (_, j) => j + 1),
      weights: undefined,
      count: 100,
      weight: 100,
    };
    return { id: chunkId(nodeStore().platform, encodeNode(leaf)), leaf };
  });
  const cache = new NodeCache(40_000);
  for (const { id, leaf } of chunks) cache.addNode(id, leaf);
  const held = chunks.filter(({ id }) => cache.node(id) !== undefined).length;
  expect(held).toBeGreaterThan(1);
  // Each key is 15 characters, as a text and in the bytes of its chunk.
  expect(held * 100 * 2 * 15).toBeLessThanOrEqual(40_000);
});
