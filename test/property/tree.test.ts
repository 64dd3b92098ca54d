import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { at } from '../../src/tree/array.ts';
import { EditBatch } from '../../src/tree/batch.ts';
import { withoutBuffer } from '../../src/tree/buffered-tree.ts';
import { diffPlaces, type LeafPlace } from '../../src/tree/diff.ts';
import { editTree } from '../../src/tree/edit.ts';
import type { Key, KeyKind } from '../../src/tree/key.ts';
import { decodeNode, emptyTree, encodeNode, type Tree, treeId, treeWeight } from '../../src/tree/node.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { type RangeDelete, removeSets } from '../../src/tree/range-delete.ts';
import { findItem, itemAtOffset, leafValue, type MapItem, type RangeRead, rangeSlices } from '../../src/tree/read.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { isInRange, rangeDelete } from '../support/models/range-deletes.ts';
import { propertyRuns } from '../support/property-runs.ts';

type Edit =
  | { readonly put: Key; readonly value: Value; readonly weight: number }
  | { readonly delete: Key }
  | RangeDelete;

const numberKey = fc.oneof(fc.nat({ max: 400 }), fc.maxSafeNat());
const stringKey = fc.oneof(fc.string({ maxLength: 2 }), fc.string({ unit: 'grapheme', maxLength: 12 }));
const value: fc.Arbitrary<Value> = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constant(null),
  fc.integer({ min: 4000, max: 5000 }).map((length) => 'x'.repeat(length)),
);

function edits(kind: KeyKind): fc.Arbitrary<Edit[]> {
  const key: fc.Arbitrary<Key> = kind === 'number' ? numberKey : stringKey;
  return fc.array(
    fc.oneof(
      { weight: 12, arbitrary: fc.record({ put: key, value, weight: fc.constantFrom(1, 1, 1, 2, 70_000) }) },
      { weight: 3, arbitrary: fc.record({ delete: key }) },
      { weight: 1, arbitrary: rangeDelete(key, kind) },
    ),
    { maxLength: 300, size: 'max' },
  );
}

type Model = Map<Key, { readonly value: Value; readonly weight: number }>;

function applyToModel(model: Model, edit: Edit): void {
  if ('put' in edit) model.set(edit.put, { value: edit.value, weight: edit.weight });
  else if ('delete' in edit) model.delete(edit.delete);
  else for (const key of [...model.keys()]) if (isInRange(edit, key)) model.delete(key);
}

async function apply(store: NodeStore, tree: Tree, list: readonly Edit[]): Promise<Tree> {
  const batch = new EditBatch(tree.kind);
  for (const edit of list) {
    if ('put' in edit) batch.put(edit.put, edit.value, edit.weight);
    else if ('delete' in edit) batch.delete(edit.delete);
    else batch.deleteRange(edit);
  }
  const { map, rest } = await removeSets(store, withoutBuffer(tree), batch.deletedSets, { editsAtOnce: 20 });
  return editTree(store, map.tree, batch.resolve(store, rest));
}

async function save(store: NodeStore, tree: Tree): Promise<Tree> {
  if (tree.top === undefined) return tree;
  await store.save([tree.top]);
  return { kind: tree.kind, top: decodeNode(encodeNode(tree.top)) };
}

function sorted(model: Model): { key: Key; value: Value }[] {
  return [...model].map(([key, item]) => ({ key, value: item.value })).sort((a, b) => (a.key < b.key ? -1 : 1));
}

async function itemsOf(store: NodeStore, tree: Tree, range: RangeRead = {}): Promise<MapItem[]> {
  const items: MapItem[] = [];
  for await (const { leaf, from, to } of rangeSlices(store, tree, range)) {
    const slice: MapItem[] = [];
    for (let i = from; i < to; i++) slice.push({ key: at(leaf.keys, i), value: await leafValue(store, leaf, i) });
    items.push(...(range.reverse === true ? slice.toReversed() : slice));
  }
  return items;
}

const id = (store: NodeStore, tree: Tree): string | undefined => tree.top && treeId(store.platform, tree.top);

describe.each(['number', 'string'] as const)('a tree with %s keys', (kind) => {
  test('a tree has the items of a Map and equals a tree built from them, regardless of the grouping of edits', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(edits(kind), fc.boolean()), { maxLength: 5 }), async (groups) => {
        const store = nodeStore({ shape: SMALL_SHAPE });
        const model: Model = new Map();
        let tree = emptyTree(kind);
        for (const [group, saves] of groups) {
          for (const edit of group) applyToModel(model, edit);
          tree = await apply(store, tree, group);
          if (saves) tree = await save(store, tree);
        }
        tree = await save(store, tree);
        expect(await itemsOf(store, tree)).toEqual(sorted(model));
        const puts = [...model].map(([put, item]) => ({ put, ...item }));
        const fresh = nodeStore({ shape: SMALL_SHAPE });
        const rebuilt = await save(fresh, await apply(fresh, emptyTree(kind), puts));
        expect(id(store, tree)).toBe(id(fresh, rebuilt));
        expect(treeWeight(tree)).toBe([...model.values()].reduce((total, item) => total + item.weight, 0));
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('lookups by key, range and offset agree with a sorted list', async () => {
    const key: fc.Arbitrary<Key> = kind === 'number' ? numberKey : stringKey;
    await fc.assert(
      fc.asyncProperty(edits(kind), key, key, fc.double({ min: 0, max: 1, noNaN: true }), async (list, a, b, part) => {
        const store = nodeStore({ shape: SMALL_SHAPE, cacheBytes: 2000 });
        const model: Model = new Map();
        for (const edit of list) applyToModel(model, edit);
        const tree = await save(store, await apply(store, emptyTree(kind), list));
        const all = sorted(model);
        const found = await findItem(store, tree, a);
        expect(found && (await leafValue(store, found.leaf, found.index))).toEqual(model.get(a)?.value);
        const [from, to] = a < b ? [a, b] : [b, a];
        const inside = all.filter((item) => item.key >= from && item.key < to);
        expect(await itemsOf(store, tree, { from, to })).toEqual(inside);
        expect(await itemsOf(store, tree, { from, to, reverse: true })).toEqual(inside.toReversed());
        expect(await itemsOf(store, tree, { reverse: true, ahead: 2 })).toEqual(all.toReversed());
        const offset = Math.floor(part * treeWeight(tree));
        let start = 0;
        const covering = all.find((item) => {
          const weight = model.get(item.key)?.weight ?? 0;
          start += weight;
          return start > offset;
        });
        expect((await itemAtOffset(store, tree, offset))?.key).toEqual(covering?.key);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('the differences of two trees are those of two Maps', async () => {
    await fc.assert(
      fc.asyncProperty(edits(kind), edits(kind), fc.boolean(), async (first, second, unrelated) => {
        const store = nodeStore({ shape: SMALL_SHAPE });
        const before: Model = new Map();
        const after: Model = new Map();
        for (const edit of first) applyToModel(before, edit);
        for (const edit of unrelated ? second : [...first, ...second]) applyToModel(after, edit);
        const left = await save(store, await apply(store, emptyTree(kind), first));
        const right = await save(store, await apply(store, unrelated ? emptyTree(kind) : left, second));
        const keys = new Set([...before.keys(), ...after.keys()]);
        const expected = [...keys].filter((each) => {
          const [a, b] = [before.get(each), after.get(each)];
          return !(a !== undefined && b !== undefined && Object.is(a.value, b.value) && a.weight === b.weight);
        });
        const found = await Array.fromAsync(diffPlaces({ store, tree: left }, { store, tree: right }));
        expect(found.map((difference) => difference.key)).toEqual(expected.sort((a, b) => (a < b ? -1 : 1)));
        for (const difference of found) {
          const valueAt = (place: LeafPlace | undefined) => place && leafValue(store, place.leaf, place.index);
          expect(await valueAt(difference.before)).toEqual(before.get(difference.key)?.value);
          expect(await valueAt(difference.after)).toEqual(after.get(difference.key)?.value);
        }
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

describe('a saved tree', () => {
  test('a saved tree reaches all of its chunks, and an edit writes no chunk of its base', {
    tags: ['I4'],
  }, async () => {
    const chunks = new MemoryChunks();
    const store = nodeStore({}, chunks);
    const puts = Array.from({ length: 60_000 }, (_, i) => ({ put: i, value: `value ${i * 7919}`, weight: 1 }));
    const base = await save(store, await apply(store, emptyTree('number'), puts));
    const reached = async (tree: Tree): Promise<Set<string>> => {
      const ids = new Set<string>();
      if (tree.top) for await (const chunk of walkChunks(store, tree.top, { values: true })) ids.add(chunk.id);
      return ids;
    };
    expect(await reached(base)).toEqual(new Set(chunks.stored.keys()));
    const written = store.counts.written;
    const edited = await save(store, await apply(store, base, [{ put: 31_000, value: 'another', weight: 1 }]));
    expect(store.counts.written - written).toBe(1);
    const [before, after] = [await reached(base), await reached(edited)];
    expect([...after].filter((each) => !before.has(each))).toHaveLength(1);
  });

  test('a comparison of versions that differ in one item reads two leaves', async () => {
    const chunks = new MemoryChunks();
    const writer = nodeStore({}, chunks);
    const puts = Array.from({ length: 60_000 }, (_, i) => ({ put: i, value: `value ${i * 7919}`, weight: 1 }));
    const base = await save(writer, await apply(writer, emptyTree('number'), puts));
    const edited = await save(writer, await apply(writer, base, [{ put: 31_000, value: 'another', weight: 1 }]));
    const reader = nodeStore({}, chunks);
    expect(
      await Array.fromAsync(diffPlaces({ store: reader, tree: base }, { store: reader, tree: edited })),
    ).toHaveLength(1);
    expect(reader.counts.read).toBe(2);
  });
});
