import { equalBytes } from '../codec/bytes.ts';
import { at } from './array.ts';
import type { Key } from './key.ts';
import { isLeaf, itemWeight, type Leaf, NodeRef, type Tree, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { inAdvance, READ_AHEAD } from './read.ts';

/** A version of a tree, and the store that has its nodes. */
export interface StoredTree {
  readonly store: NodeStore;
  readonly tree: Tree;
}

export interface LeafPlace {
  readonly leaf: Leaf;
  readonly index: number;
}

/**
 * One key whose item differs, with the places of the encoded items. `before` is absent if the item
 * was added, `after` if it was removed.
 */
export interface DifferentPlaces {
  readonly key: Key;
  readonly before?: LeafPlace | undefined;
  readonly after?: LeafPlace | undefined;
}

interface Placed {
  readonly key: Key;
  readonly ref: NodeRef;
}

/**
 * The differences between two trees with keys of one kind, in order of key. Skips shared subtrees
 * without reading them, so the time is proportional to the difference, not to the size of the
 * trees. Reads all inner nodes that differ first, then the leaves, a few of them ahead.
 */
export async function* diffPlaces(before: StoredTree, after: StoredTree): AsyncGenerator<DifferentPlaces, undefined> {
  let [left, right] = unshared(topOf(before.tree), topOf(after.tree));
  // The lower tree stays closed until the other tree is opened down to its level.
  for (let level = Math.max(before.tree.top?.level ?? 0, after.tree.top?.level ?? 0); level > 0; level--) {
    const opened = await Promise.all([open(before.store, left, level), open(after.store, right, level)]);
    [left, right] = unshared(...opened);
  }
  yield* mergeItems(leafItems(before.store, left), leafItems(after.store, right));
}

function topOf({ top }: Tree): Placed[] {
  return top === undefined ? [] : [{ key: at(top.keys, 0), ref: NodeRef.to(top) }];
}

/** Replaces the nodes of a level with their children. Lower nodes stay as they are. */
async function open(store: NodeStore, places: readonly Placed[], level: number): Promise<Placed[]> {
  const nodes = await Promise.all(places.map(({ ref }) => store.load(ref)));
  return nodes.flatMap((node, i) => {
    if (isLeaf(node) || node.level < level) return [at(places, i)];
    return node.children.map((ref, child) => ({ key: at(node.keys, child), ref }));
  });
}

/** Two lists of nodes without those that are in both: these hold the same items. */
function unshared(left: readonly Placed[], right: readonly Placed[]): [Placed[], Placed[]] {
  const [before, after]: [Placed[], Placed[]] = [[], []];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    const [a, b] = [at(left, i), at(right, j)];
    const isShared = a.key === b.key && isSame(a.ref, b.ref);
    if (a.key <= b.key) {
      if (!isShared) before.push(a);
      i++;
    }
    if (b.key <= a.key) {
      if (!isShared) after.push(b);
      j++;
    }
  }
  return [before.concat(left.slice(i)), after.concat(right.slice(j))];
}

/** Whether two references lead to the same node, in the store or in memory. */
function isSame(a: NodeRef, b: NodeRef): boolean {
  return a.id === undefined ? a.node !== undefined && a.node === b.node : a.id === b.id;
}

async function* mergeItems(left: Items, right: Items): AsyncGenerator<DifferentPlaces, undefined> {
  let [a, b] = [(await left.next()).value, (await right.next()).value];
  while (a !== undefined || b !== undefined) {
    const [aKey, bKey] = [a === undefined ? undefined : keyInLeaf(a), b === undefined ? undefined : keyInLeaf(b)];
    if (aKey !== undefined && (bKey === undefined || aKey < bKey)) {
      yield { key: aKey, before: a };
      a = (await left.next()).value;
    } else if (bKey !== undefined && (aKey === undefined || bKey < aKey)) {
      yield { key: bKey, after: b };
      b = (await right.next()).value;
    } else if (a !== undefined && b !== undefined) {
      if (!isSameItem(a, b)) yield { key: keyInLeaf(a), before: a, after: b };
      [a, b] = [(await left.next()).value, (await right.next()).value];
    }
  }
}

function keyInLeaf({ leaf, index }: LeafPlace): Key {
  return at(leaf.keys, index);
}

function isSameItem(a: LeafPlace, b: LeafPlace): boolean {
  return (
    equalBytes(valueBytes(a.leaf, a.index), valueBytes(b.leaf, b.index)) &&
    itemWeight(a.leaf, a.index) === itemWeight(b.leaf, b.index)
  );
}

type Items = AsyncGenerator<LeafPlace, undefined>;

async function* leafItems(store: NodeStore, places: readonly Placed[]): Items {
  for await (const leaf of inAdvance(places, READ_AHEAD, ({ ref }) => store.load(ref))) {
    if (!isLeaf(leaf)) throw new Error('leafItems got an inner node');
    for (let index = 0; index < leaf.keys.length; index++) yield { leaf, index };
  }
}
