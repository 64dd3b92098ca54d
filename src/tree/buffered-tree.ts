import { equalBytes } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { at } from './array.ts';
import { type DifferentPlaces, diffPlaces, type LeafPlace } from './diff.ts';
import type { Key, KeyKind } from './key.ts';
import { emptyTree, itemWeight, type Leaf, type Node, type Tree, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import {
  findItem,
  inAdvance,
  inlineValue,
  leafValue,
  type MapItem,
  type RangeRead,
  READ_AHEAD,
  rangeSlices,
} from './read.ts';

/**
 * A map as it is stored: a tree and a write buffer. The buffer holds edits until enough of them
 * fall into one leaf to be worth writing the leaf. It is a second tree from key to value or
 * tombstone. So a read of a key or a short range fetches one chunk of it, even if it is large.
 */
export interface BufferedTree {
  readonly kind: KeyKind;
  readonly tree: Tree;
  readonly buffer: Tree;
}

/**
 * A deletion in the write buffer: an empty MessagePack extension of type 2. No value has this
 * encoding.
 */
export const TOMBSTONE = new Uint8Array([0xc7, 0x00, 0x02]);

function isTombstone(encoded: Uint8Array): boolean {
  return isTombstoneAt(encoded, 0, encoded.length);
}

/** Whether the bytes from `start` up to but not including `end` are a tombstone. */
export function isTombstoneAt(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start !== TOMBSTONE.length) return false;
  return bytes[start] === TOMBSTONE[0] && bytes[start + 1] === TOMBSTONE[1] && bytes[start + 2] === TOMBSTONE[2];
}

export function emptyBufferedTree(kind: KeyKind): BufferedTree {
  return { kind, tree: emptyTree(kind), buffer: emptyTree(kind) };
}

/** A map with an empty write buffer. */
export function withoutBuffer(tree: Tree): BufferedTree {
  return { kind: tree.kind, tree, buffer: emptyTree(tree.kind) };
}

export function isFlushed({ buffer }: BufferedTree): boolean {
  return buffer.top === undefined;
}

/** The top nodes of a map: of its tree, and of its write buffer. An empty tree has none. */
export function mapTops({ tree, buffer }: BufferedTree): Node[] {
  return [tree.top, buffer.top].filter((top) => top !== undefined);
}

/** An item of a map, still encoded. */
export interface EncodedItem {
  readonly key: Key;
  readonly leaf: Leaf;
  readonly index: number;
}

/** The item under a key, including buffered edits. */
export async function findMerged(store: NodeStore, map: BufferedTree, key: Key): Promise<EncodedItem | undefined> {
  const found = (await findItem(store, map.buffer, key)) ?? (await findItem(store, map.tree, key));
  if (found === undefined || isTombstone(valueBytes(found.leaf, found.index))) return undefined;
  return { key, ...found };
}

/** The value under a key, including buffered edits. */
export async function getMerged(store: NodeStore, map: BufferedTree, key: Key): Promise<Value | undefined> {
  const found = await findMerged(store, map, key);
  return found === undefined ? undefined : leafValue(store, found.leaf, found.index);
}

/**
 * The encoded items of a range in order of key, or in reverse, including buffered edits. Ignores
 * the limit.
 */
export async function* mergedItems(
  store: NodeStore,
  map: BufferedTree,
  range: RangeRead = {},
): AsyncGenerator<EncodedItem> {
  const slices = rangeSlices(store, map.tree, range);
  const tree = (range.ahead ?? 0) > 0 ? started(slices) : slices;
  const edits = encodedItems(store, map.buffer, range);
  const { reverse = false } = range;
  const isBefore = reverse ? (a: Key, b: Key) => a > b : (a: Key, b: Key) => a < b;
  let edit = (await edits.next()).value;
  for await (const { leaf, from, to } of tree) {
    for (let i = from; i < to; i++) {
      const index = reverse ? from + to - 1 - i : i;
      const key = at(leaf.keys, index);
      for (; edit !== undefined && isBefore(edit.key, key); edit = (await edits.next()).value) {
        if (!isDeletion(edit)) yield edit;
      }
      if (edit?.key !== key) yield { key, leaf, index };
      else {
        if (!isDeletion(edit)) yield edit;
        edit = (await edits.next()).value;
      }
    }
  }
  for (; edit !== undefined; edit = (await edits.next()).value) if (!isDeletion(edit)) yield edit;
}

/** The same steps. The first one begins before the caller asks for it. */
function started<T>(steps: AsyncGenerator<T>): AsyncGenerator<T> {
  const first = steps.next();
  first.catch(() => undefined);
  return (async function* () {
    try {
      for (let step = await first; step.done !== true; step = await steps.next()) yield step.value;
    } finally {
      await steps.return(undefined);
    }
  })();
}

/** Length of the arrays that {@link mergedKeys} yields. */
const KEYS_AT_ONCE = 1000;

/** All keys in order, including buffered edits, as arrays of limited length. */
export async function* mergedKeys(store: NodeStore, map: BufferedTree): AsyncGenerator<Key[]> {
  let keys: Key[] = [];
  for await (const { key } of mergedItems(store, map)) {
    if (keys.push(key) < KEYS_AT_ONCE) continue;
    yield keys;
    keys = [];
  }
  yield keys;
}

/** The items of a range in order of key, or in reverse, including buffered edits. */
export async function* mergedValues(
  store: NodeStore,
  map: BufferedTree,
  range: RangeRead = {},
): AsyncGenerator<MapItem> {
  const { ahead = 0, limit = Number.POSITIVE_INFINITY, wanted = limit } = range;
  if (limit === 0) return;
  const loading: Promise<MapItem>[] = [];
  let count = 0;
  for await (const encoded of mergedItems(store, map, { ...range, wanted })) {
    count++;
    const { key, leaf, index } = encoded;
    const value = inlineValue(leaf, index);
    if (value !== undefined && loading.length === 0) {
      yield { key, value };
      if (count >= limit) return;
      continue;
    }
    const item = value === undefined ? toItem(store, encoded) : Promise.resolve({ key, value });
    // Awaited later or never. A failure must not count as unhandled.
    item.catch(() => undefined);
    loading.push(item);
    const held = count < wanted ? ahead : 0;
    if (loading.length > held) for (const ready of loading.splice(0, loading.length - held)) yield await ready;
    if (count >= limit) return;
  }
  for (const item of loading) yield await item;
}

/** A version of a map, and the store that has its nodes. */
export interface StoredMap {
  readonly store: NodeStore;
  readonly map: BufferedTree;
}

/**
 * One key whose value differs. `before` is absent if the item was added, `after` if it was removed.
 */
export interface MapDifference {
  readonly key: Key;
  readonly before?: Value;
  readonly after?: Value;
}

/** The most keys whose items are looked up ahead. The items of most keys are in few leaves. */
const KEYS_AHEAD = 64;

/**
 * The differences between two versions of a map with keys of one kind, in order of key. Reads only
 * the chunks that the versions do not share, and the leaves of the items that differ. Ignores
 * weights.
 */
export async function* diffMerged(before: StoredMap, after: StoredMap): AsyncGenerator<MapDifference, undefined> {
  const different = inAdvance(differentKeys(before, after), KEYS_AHEAD, (places) => effectiveItems(before, places));
  async function* changed(): AsyncGenerator<EffectiveItems> {
    for await (const items of different) if (!isSameValue(items.before, items.after)) yield items;
  }
  yield* inAdvance(changed(), READ_AHEAD, async ({ key, before: old, after: now }) => ({
    key,
    ...(old && { before: await leafValue(before.store, old.leaf, old.index) }),
    ...(now && { after: await leafValue(after.store, now.leaf, now.index) }),
  }));
}

/**
 * Whether two versions of a map have the same items and weights. Reads what {@link diffMerged}
 * reads for the first difference.
 */
export async function isSameMap(before: StoredMap, after: StoredMap): Promise<boolean> {
  for await (const places of differentKeys(before, after)) {
    const { before: old, after: now } = await effectiveItems(before, places);
    const isSameWeight = old === undefined || now === undefined || weightOf(old) === weightOf(now);
    if (!isSameValue(old, now) || !isSameWeight) return false;
  }
  return true;
}

/** A key under which the trees or the write buffers differ. An undefined part does not differ. */
interface DifferentKey {
  readonly key: Key;
  readonly tree: DifferentPlaces | undefined;
  readonly buffer: DifferentPlaces | undefined;
}

/**
 * The keys, in order, under which the trees or the write buffers differ. All differences of the
 * maps are among them.
 */
async function* differentKeys(before: StoredMap, after: StoredMap): AsyncGenerator<DifferentKey> {
  const part = ({ store, map }: StoredMap, name: 'tree' | 'buffer') => ({ store, tree: map[name] });
  const trees = diffPlaces(part(before, 'tree'), part(after, 'tree'));
  const buffers = diffPlaces(part(before, 'buffer'), part(after, 'buffer'));
  const [firstOfTrees, firstOfBuffers] = await Promise.all([trees.next(), buffers.next()]);
  let [a, b] = [firstOfTrees.value, firstOfBuffers.value];
  while (a !== undefined || b !== undefined) {
    const key = a === undefined || (b !== undefined && b.key < a.key) ? b?.key : a.key;
    if (key === undefined) return;
    const [tree, buffer] = [a?.key === key ? a : undefined, b?.key === key ? b : undefined];
    yield { key, tree, buffer };
    if (tree !== undefined) a = (await trees.next()).value;
    if (buffer !== undefined) b = (await buffers.next()).value;
  }
}

/** The items of both versions under a key, as readers see them. */
interface EffectiveItems {
  readonly key: Key;
  readonly before: EncodedItem | undefined;
  readonly after: EncodedItem | undefined;
}

/** @param either one of the versions: a part without a difference is the same in both */
async function effectiveItems(
  { store, map: either }: StoredMap,
  { key, tree, buffer }: DifferentKey,
): Promise<EffectiveItems> {
  const buffered = buffer ?? both(await findItem(store, either.buffer, key));
  const isHidden = buffered.before !== undefined && buffered.after !== undefined;
  const written = isHidden ? {} : (tree ?? both(await findItem(store, either.tree, key)));
  const visible = (place: LeafPlace | undefined): EncodedItem | undefined =>
    place === undefined || isTombstone(valueBytes(place.leaf, place.index)) ? undefined : { key, ...place };
  return { key, before: visible(buffered.before ?? written.before), after: visible(buffered.after ?? written.after) };
}

function both(place: LeafPlace | undefined): Omit<DifferentPlaces, 'key'> {
  return { before: place, after: place };
}

async function toItem(store: NodeStore, { key, leaf, index }: EncodedItem): Promise<MapItem> {
  return { key, value: await leafValue(store, leaf, index) };
}

function isSameValue(a: EncodedItem | undefined, b: EncodedItem | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return equalBytes(valueBytes(a.leaf, a.index), valueBytes(b.leaf, b.index));
}

function weightOf({ leaf, index }: EncodedItem): number {
  return itemWeight(leaf, index);
}

function isDeletion({ leaf, index }: EncodedItem): boolean {
  return isTombstone(valueBytes(leaf, index));
}

async function* encodedItems(store: NodeStore, tree: Tree, range: RangeRead): AsyncGenerator<EncodedItem, undefined> {
  const { reverse = false } = range;
  for await (const { leaf, from, to } of rangeSlices(store, tree, range)) {
    for (let i = from; i < to; i++) {
      const index = reverse ? from + to - 1 - i : i;
      yield { key: at(leaf.keys, index), leaf, index };
    }
  }
}
