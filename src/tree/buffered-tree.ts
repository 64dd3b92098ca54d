import { equalBytes } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { at } from './array.ts';
import { type Difference, diffPlaces } from './diff.ts';
import type { Key, KeyKind } from './key.ts';
import { type Leaf, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { findItem, type Item, type KeyRange, leafValue, rangeSlices } from './read.ts';
import { emptyTree, type Tree } from './tree.ts';

/**
 * A map as it is stored: a tree, and edits that wait until enough of them share a leaf of it to be worth writing that
 * leaf. Waiting edits are a tree of their own, from key to value or tombstone, so that however many there are, reading
 * a key or a short range fetches one chunk of them.
 */
export interface LayeredTree {
  readonly kind: KeyKind;
  readonly settled: Tree;
  readonly pending: Tree;
}

/** How a deletion stands among waiting edits: an empty extension of type 2, which no value is encoded as. */
export const TOMBSTONE = new Uint8Array([0xc7, 0x00, 0x02]);

export function isTombstone(encoded: Uint8Array): boolean {
  return equalBytes(encoded, TOMBSTONE);
}

export function emptyLayers(kind: KeyKind): LayeredTree {
  return { kind, settled: emptyTree(kind), pending: emptyTree(kind) };
}

/** A map without waiting edits. */
export function settledLayers(settled: Tree): LayeredTree {
  return { kind: settled.kind, settled, pending: emptyTree(settled.kind) };
}

export function isSettled({ pending }: LayeredTree): boolean {
  return pending.top === undefined;
}

/** An item of a map, still encoded. */
export interface EncodedItem {
  readonly key: Key;
  readonly leaf: Leaf;
  readonly index: number;
}

/** The item under a key, waiting edits considered. */
export async function findLayered(store: NodeStore, map: LayeredTree, key: Key): Promise<EncodedItem | undefined> {
  const waiting = await findItem(store, map.pending, key);
  const found = waiting ?? (await findItem(store, map.settled, key));
  if (found === undefined || isTombstone(valueBytes(found.leaf, found.index))) return undefined;
  return { key, ...found };
}

/** The value under a key, waiting edits considered. */
export async function getLayered(store: NodeStore, map: LayeredTree, key: Key): Promise<Value | undefined> {
  const found = await findLayered(store, map, key);
  return found === undefined ? undefined : leafValue(store, found.leaf, found.index);
}

/** The items of a range in order of key, still encoded, waiting edits considered. */
export async function* layeredItems(
  store: NodeStore,
  map: LayeredTree,
  range: KeyRange = {},
): AsyncGenerator<EncodedItem> {
  const waiting = encodedItems(store, map.pending, range);
  let edit = (await waiting.next()).value;
  for await (const { leaf, from, to } of rangeSlices(store, map.settled, range)) {
    for (let index = from; index < to; index++) {
      const key = at(leaf.keys, index);
      for (; edit !== undefined && edit.key < key; edit = (await waiting.next()).value)
        if (!isDeletion(edit)) yield edit;
      if (edit?.key !== key) yield { key, leaf, index };
      else {
        if (!isDeletion(edit)) yield edit;
        edit = (await waiting.next()).value;
      }
    }
  }
  for (; edit !== undefined; edit = (await waiting.next()).value) if (!isDeletion(edit)) yield edit;
}

/** How many keys {@link layeredKeys} yields at once. */
const KEYS_AT_ONCE = 1000;

/** All keys in order, waiting edits considered, a part at a time. */
export async function* layeredKeys(store: NodeStore, map: LayeredTree): AsyncGenerator<Key[]> {
  let keys: Key[] = [];
  for await (const { key } of layeredItems(store, map)) {
    if (keys.push(key) < KEYS_AT_ONCE) continue;
    yield keys;
    keys = [];
  }
  yield keys;
}

/** The items of a range in order of key, waiting edits considered. */
export async function* layeredValues(store: NodeStore, map: LayeredTree, range: KeyRange = {}): AsyncGenerator<Item> {
  for await (const { key, leaf, index } of layeredItems(store, map, range)) {
    yield { key, value: await leafValue(store, leaf, index) };
  }
}

/**
 * Where two versions of a map differ, in order of key. Only chunks that the two do not share are read, and what one of
 * them has waiting. Both must be saved.
 */
export async function* diffLayered(
  store: NodeStore,
  before: LayeredTree,
  after: LayeredTree,
): AsyncGenerator<Difference> {
  for await (const key of differingKeys(store, before, after)) {
    const [left, right] = [await findLayered(store, before, key), await findLayered(store, after, key)];
    if (left === undefined && right === undefined) continue;
    if (left !== undefined && right !== undefined && sameValue(left, right)) continue;
    yield { key, before: left && (await toItem(store, left)), after: right && (await toItem(store, right)) };
  }
}

/** The keys, in order, under which either the trees or the waiting edits differ: nowhere else can the maps. */
async function* differingKeys(store: NodeStore, before: LayeredTree, after: LayeredTree): AsyncGenerator<Key> {
  const settled = diffPlaces(store, before.settled, after.settled);
  const pending = diffPlaces(store, before.pending, after.pending);
  let [a, b] = [(await settled.next()).value, (await pending.next()).value];
  while (a !== undefined || b !== undefined) {
    const key = a === undefined || (b !== undefined && b.key < a.key) ? b?.key : a.key;
    if (key === undefined) return;
    yield key;
    if (a?.key === key) a = (await settled.next()).value;
    if (b?.key === key) b = (await pending.next()).value;
  }
}

async function toItem(store: NodeStore, { key, leaf, index }: EncodedItem): Promise<Item> {
  return { key, value: await leafValue(store, leaf, index) };
}

function sameValue(a: EncodedItem, b: EncodedItem): boolean {
  return equalBytes(valueBytes(a.leaf, a.index), valueBytes(b.leaf, b.index));
}

function isDeletion({ leaf, index }: EncodedItem): boolean {
  return isTombstone(valueBytes(leaf, index));
}

async function* encodedItems(store: NodeStore, tree: Tree, range: KeyRange): AsyncGenerator<EncodedItem, undefined> {
  for await (const { leaf, from, to } of rangeSlices(store, tree, range)) {
    for (let index = from; index < to; index++) yield { key: at(leaf.keys, index), leaf, index };
  }
}
