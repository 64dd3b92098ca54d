import { equalBytes } from '../codec/bytes.ts';
import { at } from './array.ts';
import type { Key } from './key.ts';
import { isLeaf, itemWeight, type Leaf, type Node, NodeRef, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { type Item, leafValue } from './read.ts';
import type { Tree } from './tree.ts';

/**
 * One key whose item differs. `before` is absent if the item was added, `after` if it was removed.
 */
export interface Difference {
  readonly key: Key;
  readonly before?: Item | undefined;
  readonly after?: Item | undefined;
}

interface Placed {
  readonly key: Key;
  readonly ref: NodeRef;
}

/** One key whose item differs, with the places of the encoded items. */
export interface DifferentPlaces {
  readonly key: Key;
  readonly before?: Place | undefined;
  readonly after?: Place | undefined;
}

/** The place of an item. */
export interface Place {
  readonly leaf: Leaf;
  readonly index: number;
}

/** The differences between two trees, in order of key, with values: see {@link diffPlaces}. */
export async function* diffTrees(store: NodeStore, before: Tree, after: Tree): AsyncGenerator<Difference> {
  const item = async (place: Place | undefined): Promise<Item | undefined> =>
    place && { key: keyOf(place), value: await leafValue(store, place.leaf, place.index) };
  for await (const { key, before: old, after: now } of diffPlaces(store, before, after)) {
    yield { key, before: await item(old), after: await item(now) };
  }
}

/**
 * The differences between two trees, in order of key. Skips shared subtrees without reading them,
 * so the time is proportional to the difference, not to the size of the trees. Both trees must be
 * saved.
 */
export async function* diffPlaces(store: NodeStore, before: Tree, after: Tree): AsyncGenerator<DifferentPlaces> {
  let [left, right] = [topOf(before), topOf(after)];
  let level = Math.max(before.top?.level ?? 0, after.top?.level ?? 0);
  // The lower tree stays closed until the other tree is opened down to its level.
  for (; level > 0 && (isLower(left, level) || isLower(right, level)); level--) {
    left = await open(store, left, level);
    right = await open(store, right, level);
  }
  yield* diffLevel(store, left, right, level);
}

function topOf(tree: Tree): Placed[] {
  return tree.top === undefined ? [] : [{ key: at(tree.top.keys, 0), ref: NodeRef.to(tree.top) }];
}

function isLower(places: readonly Placed[], level: number): boolean {
  return places.some(({ ref }) => ref.node !== undefined && ref.node.level < level);
}

/** Replaces the nodes of a level by their children. Lower nodes stay as they are. */
async function open(store: NodeStore, places: readonly Placed[], level: number): Promise<Placed[]> {
  const opened: Placed[] = [];
  for (const place of places) {
    const node = await store.load(place.ref);
    if (isLeaf(node) || node.level < level) opened.push(place);
    else for (const [i, ref] of node.children.entries()) opened.push({ key: at(node.keys, i), ref });
  }
  return opened;
}

/** Compares runs of nodes of one level that cover the same range of keys. */
async function* diffLevel(
  store: NodeStore,
  left: readonly Placed[],
  right: readonly Placed[],
  level: number,
): AsyncGenerator<DifferentPlaces> {
  for (const [before, after] of differingRuns(left, right)) {
    if (level === 0) yield* diffLeaves(await loadAll(store, before), await loadAll(store, after));
    else yield* diffLevel(store, await open(store, before, level), await open(store, after, level), level - 1);
  }
}

async function loadAll(store: NodeStore, places: readonly Placed[]): Promise<Node[]> {
  return Promise.all(places.map(({ ref }) => store.load(ref)));
}

/**
 * Pairs of the shortest runs that start at the same key on both sides, without pairs of identical
 * nodes.
 */
function* differingRuns(left: readonly Placed[], right: readonly Placed[]): Generator<[Placed[], Placed[]]> {
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const before = left.slice(i, i + 1);
    const after = right.slice(j, j + 1);
    [i, j] = [i + before.length, j + after.length];
    for (;;) {
      const [a, b] = [left[i], right[j]];
      if (a !== undefined && b !== undefined && a.key === b.key) break;
      if (a !== undefined && (b === undefined || a.key < b.key)) before.push(at(left, i++));
      else if (b !== undefined) after.push(at(right, j++));
      else break;
    }
    const same = before.length === 1 && after.length === 1 && before[0]?.ref.id !== undefined;
    if (!(same && before[0]?.ref.id === after[0]?.ref.id)) yield [before, after];
  }
}

function* diffLeaves(before: readonly Node[], after: readonly Node[]): Generator<DifferentPlaces> {
  const [left, right] = [leafItems(before), leafItems(after)];
  let [a, b] = [left.next().value, right.next().value];
  while (a !== undefined || b !== undefined) {
    const [aKey, bKey] = [a === undefined ? undefined : keyOf(a), b === undefined ? undefined : keyOf(b)];
    if (aKey !== undefined && (bKey === undefined || aKey < bKey)) {
      yield { key: aKey, before: a };
      a = left.next().value;
    } else if (bKey !== undefined && (aKey === undefined || bKey < aKey)) {
      yield { key: bKey, after: b };
      b = right.next().value;
    } else if (a !== undefined && b !== undefined) {
      if (!sameItem(a, b)) yield { key: keyOf(a), before: a, after: b };
      [a, b] = [left.next().value, right.next().value];
    }
  }
}

function keyOf({ leaf, index }: Place): Key {
  return at(leaf.keys, index);
}

function sameItem(a: Place, b: Place): boolean {
  return (
    equalBytes(valueBytes(a.leaf, a.index), valueBytes(b.leaf, b.index)) &&
    itemWeight(a.leaf, a.index) === itemWeight(b.leaf, b.index)
  );
}

function* leafItems(nodes: readonly Node[]): Generator<Place, undefined> {
  for (const leaf of nodes) {
    if (!isLeaf(leaf)) throw new Error('diffLeaves got an inner node');
    for (let index = 0; index < leaf.keys.length; index++) yield { leaf, index };
  }
}
