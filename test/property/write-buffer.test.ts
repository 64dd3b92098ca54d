import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { ChunkMissingError } from '../../src/errors.ts';
import { Draft } from '../../src/state/draft.ts';
import { saveState } from '../../src/state/state.ts';
import { EditBatch } from '../../src/tree/batch.ts';
import {
  type BufferedTree,
  diffMerged,
  emptyBufferedTree,
  getMerged,
  isFlushed,
  mergedValues,
  withoutBuffer,
} from '../../src/tree/buffered-tree.ts';
import { editTree } from '../../src/tree/edit.ts';
import type { Key, KeyKind } from '../../src/tree/key.ts';
import { decodeNode, emptyTree, encodeNode, type Tree, treeCount, treeId } from '../../src/tree/node.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { type RangeDelete, removeSets } from '../../src/tree/range-delete.ts';
import { bufferEdits, flush, flushThresholdBytes } from '../../src/tree/write-buffer.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { isInRange, rangeDelete } from '../support/models/range-deletes.ts';
import { propertyRuns } from '../support/property-runs.ts';

type Edit = { readonly put: Key; readonly value: Value } | { readonly delete: Key } | RangeDelete;

interface Step {
  readonly edits: readonly Edit[];
  readonly then: 'nothing' | 'save' | 'flush';
}

type Model = ReadonlyMap<Key, Value>;

const value: fc.Arbitrary<Value> = fc.oneof(
  { weight: 8, arbitrary: fc.string({ maxLength: 20 }) },
  { weight: 2, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.integer({ min: 4090, max: 4110 }).map((length) => 'x'.repeat(length)) },
);

/**
 * A map of a few hundred items, then small groups of edits. Most groups are too small to write a
 * leaf.
 */
function histories(kind: KeyKind): fc.Arbitrary<Step[]> {
  const key: fc.Arbitrary<Key> = kind === 'number' ? fc.nat({ max: 500 }) : fc.string({ maxLength: 3 });
  const put = fc.record({ put: key, value });
  const edit = fc.oneof<fc.WeightedArbitrary<Edit>[]>(
    { weight: 12, arbitrary: put },
    { weight: 4, arbitrary: fc.record({ delete: key }) },
    { weight: 1, arbitrary: rangeDelete(key, kind) },
  );
  const then = fc.constantFrom<Step['then'][]>('nothing', 'save', 'save', 'flush');
  const first = fc.record({ edits: fc.array<Edit>(put, { minLength: 100, maxLength: 400, size: 'max' }), then });
  const later = fc.record({ edits: fc.array(edit, { maxLength: 12, size: 'max' }), then });
  return fc.tuple(first, fc.array(later, { maxLength: 12, size: 'max' })).map(([head, tail]) => [head, ...tail]);
}

function applyToModel(model: Model, edits: readonly Edit[]): Model {
  const next = new Map(model);
  for (const edit of edits) {
    if ('put' in edit) next.set(edit.put, edit.value);
    else if ('delete' in edit) next.delete(edit.delete);
    else for (const key of [...next.keys()]) if (isInRange(edit, key)) next.delete(key);
  }
  return next;
}

async function apply(store: NodeStore, map: BufferedTree, edits: readonly Edit[]): Promise<BufferedTree> {
  const batch = new EditBatch(map.kind);
  for (const edit of edits) {
    if ('put' in edit) batch.put(edit.put, edit.value, 1);
    else if ('delete' in edit) batch.delete(edit.delete);
    else batch.deleteRange(edit);
  }
  const { map: remaining, rest } = await removeSets(store, map, batch.deletedSets, { buffers: true, editsAtOnce: 20 });
  return bufferEdits(store, remaining, batch.resolve(store, rest));
}

async function save(store: NodeStore, map: BufferedTree): Promise<BufferedTree> {
  await store.save([map.tree.top, map.buffer.top].filter((top) => top !== undefined));
  const again = ({ kind, top }: Tree): Tree => ({ kind, top: top && decodeNode(encodeNode(top)) });
  return { kind: map.kind, tree: again(map.tree), buffer: again(map.buffer) };
}

async function run(
  store: NodeStore,
  kind: KeyKind,
  steps: readonly Step[],
  from: { readonly map: BufferedTree; readonly model: Model } = { map: emptyBufferedTree(kind), model: new Map() },
) {
  let { map, model } = from;
  for (const { edits, then } of steps) {
    map = await apply(store, map, edits);
    model = applyToModel(model, edits);
    if (then === 'flush') map = await flush(store, map, { editsAtOnce: 20 });
    if (then !== 'nothing') map = await save(store, map);
  }
  return { map, model };
}

function sorted(model: Model): { key: Key; value: Value }[] {
  return [...model].map(([key, each]) => ({ key, value: each })).sort((a, b) => (a.key < b.key ? -1 : 1));
}

async function idOf(store: NodeStore, map: BufferedTree): Promise<string | undefined> {
  const { tree } = await save(store, map);
  return tree.top && treeId(store.platform, tree.top);
}

describe.each(['number', 'string'] as const)('a map with %s keys that buffers edits', (kind) => {
  test('reads agree with a Map, and a flush gives the tree built from its items', async () => {
    await fc.assert(
      fc.asyncProperty(histories(kind), fc.nat({ max: 500 }), fc.nat({ max: 500 }), async (steps, a, b) => {
        const store = nodeStore({ shape: SMALL_SHAPE, cacheBytes: 5000 });
        const { map, model } = await run(store, kind, steps);
        const all = sorted(model);
        expect(await Array.fromAsync(mergedValues(store, map))).toEqual(all);
        const [low, high] = a < b ? [a, b] : [b, a];
        const [from, to] = kind === 'number' ? [low, high] : [String(low), String(high)].sort();
        const inside = all.filter(({ key }) => from !== undefined && to !== undefined && key >= from && key < to);
        expect(await Array.fromAsync(mergedValues(store, map, { from, to }))).toEqual(inside);
        const key = kind === 'number' ? a : String(a);
        expect(await getMerged(store, map, key)).toEqual(model.get(key));
        const buffered = treeCount(map.buffer);
        expect(Math.abs(treeCount(map.tree) - model.size)).toBeLessThanOrEqual(buffered);

        const fresh = nodeStore({ shape: SMALL_SHAPE });
        const batch = new EditBatch(kind);
        for (const [each, put] of model) batch.put(each, put, 1);
        const edits = batch.resolve(fresh);
        const rebuilt = withoutBuffer(await editTree(fresh, emptyTree(kind), edits));
        expect(await idOf(store, await flush(store, map))).toBe(await idOf(fresh, rebuilt));
      }),
      { numRuns: propertyRuns(400) },
    );
  });

  test('the differences of two versions are those of two Maps', async () => {
    await fc.assert(
      fc.asyncProperty(histories(kind), histories(kind), fc.boolean(), async (steps, [, ...more], saves) => {
        const store = nodeStore({ shape: SMALL_SHAPE });
        const before = await run(store, kind, steps);
        const after = await run(store, kind, more, before);
        const [left, right] = saves
          ? [await save(store, before.map), await save(store, after.map)]
          : [before.map, after.map];
        const keys = [...new Set([...before.model.keys(), ...after.model.keys()])];
        const expected = keys.filter((key) => !Object.is(before.model.get(key), after.model.get(key)));
        const found = await Array.fromAsync(diffMerged({ store, map: left }, { store, map: right }));
        expect(found.map(({ key }) => key)).toEqual(expected.sort((a, b) => (a < b ? -1 : 1)));
        for (const { key, before: old, after: now } of found) {
          expect(old).toEqual(before.model.get(key));
          expect(now).toEqual(after.model.get(key));
        }
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

describe('edits of a map of several leaves', () => {
  const put = (key: number): Edit => ({ put: key, value: `value ${key}` });
  const filled = async (store: NodeStore): Promise<BufferedTree> =>
    save(
      store,
      await apply(
        store,
        emptyBufferedTree('number'),
        Array.from({ length: 60_000 }, (_, i) => put(i * 3)),
      ),
    );

  test('scattered edits are buffered together and write nothing', async () => {
    const store = nodeStore();
    const map = await filled(store);
    const [read, written] = [store.counts.read, store.counts.written];
    const edited = await save(
      store,
      await apply(
        store,
        map,
        Array.from({ length: 100 }, (_, i) => put(i * 1_700 + 1)),
      ),
    );
    expect(treeCount(edited.buffer)).toBe(100);
    expect([store.counts.read - read, store.counts.written - written]).toEqual([0, 0]);
  });

  test('enough edits for a leaf are written with the buffered edits of that leaf', async () => {
    const store = nodeStore();
    const map = await apply(store, await filled(store), [put(1), put(100_000)]);
    const enough = Math.ceil(flushThresholdBytes(store.shape) / 10);
    const edited = await apply(
      store,
      map,
      Array.from({ length: enough }, (_, i) => put(2 + i * 3)),
    );
    expect(await Array.fromAsync(mergedValues(store, edited, { from: 0, to: 3 }))).toEqual([
      { key: 0, value: 'value 0' },
      { key: 1, value: 'value 1' },
      { key: 2, value: 'value 2' },
    ]);
    expect(treeCount(edited.buffer)).toBe(1);
    expect(isFlushed(await flush(store, edited))).toBe(true);
  });
});

test('concurrent reads apply the edits of a map once, and a failure stays', async () => {
  const chunks = new MemoryChunks();
  const writer = nodeStore({ shape: SMALL_SHAPE }, chunks);
  const draft = new Draft(writer);
  for (let key = 0; key < 200; key++) draft.map('cells', 'number').put(key, `value ${key}`);
  const state = await draft.state();
  await saveState(writer, state);

  const map = new Draft(nodeStore({ shape: SMALL_SHAPE }, chunks), state).map('cells', 'number');
  map.put(7, 'another');
  const read = await Promise.all([1, 2, 3].map(() => Array.fromAsync(map.items({ from: 7, to: 8 }))));
  expect(read).toEqual([1, 2, 3].map(() => [{ key: 7, value: 'another' }]));

  chunks.stored.clear();
  const broken = new Draft(nodeStore({ shape: SMALL_SHAPE }, chunks), state);
  broken.map('cells', 'number').put(7, 'another');
  await expect(broken.state()).rejects.toThrow(ChunkMissingError);
  await expect(broken.state()).rejects.toThrow(ChunkMissingError);
});

test('a read during the application of an edit sees the edit', async () => {
  const chunks = new MemoryChunks();
  const writer = nodeStore({ shape: SMALL_SHAPE }, chunks);
  const draft = new Draft(writer);
  for (let key = 0; key < 200; key++) draft.map('cells', 'number').put(key, `value ${key}`);
  const state = await draft.state();
  await saveState(writer, state);
  const loaded = new Draft(nodeStore({ shape: SMALL_SHAPE }, chunks), state);
  const map = loaded.map('cells', 'number');
  map.put(7, 'another');
  const applied = loaded.state();
  await Promise.resolve();
  expect(await map.get(7)).toBe('another');
  await applied;
});

test('a deletion of a missing key is buffered as a tombstone, and a flush removes it', async () => {
  const store = nodeStore({ shape: SMALL_SHAPE });
  const puts = Array.from({ length: 300 }, (_, i): Edit => ({ put: i * 2, value: `value ${i}` }));
  const map = await apply(store, emptyBufferedTree('number'), puts);
  const buffered = await apply(store, map, [{ delete: 301 }]);
  expect(treeCount(buffered.buffer)).toBe(1);
  expect(await getMerged(store, buffered, 301)).toBeUndefined();
  expect(await Array.fromAsync(mergedValues(store, buffered))).toEqual(await Array.fromAsync(mergedValues(store, map)));
  expect(await idOf(store, await flush(store, buffered))).toBe(await idOf(store, map));
});
