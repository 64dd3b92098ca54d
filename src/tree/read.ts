import { toHex } from '../codec/bytes.ts';
import { VALUE_REF_BYTES, VALUE_REF_TYPE } from '../codec/canonical.ts';
import type { ChunkId } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { at } from './array.ts';
import { childIndex, LevelCursor } from './cursor.ts';
import { type Key, lowerBound } from './key.ts';
import { isLeaf, itemWeight, type Leaf, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import type { Tree } from './tree.ts';

export interface Item {
  readonly key: Key;
  readonly value: Value;
}

/** An item found by weight. */
export interface WeighedItem extends Item {
  readonly weight: number;
  /** Sum of the weights of all items before this one. */
  readonly start: number;
}

/** Part of a leaf: the items `from` up to but not including `to`. */
export interface LeafSlice {
  readonly leaf: Leaf;
  readonly from: number;
  readonly to: number;
}

/** From `from` up to but not including `to`. A missing bound leaves the range open. */
export interface KeyRange {
  readonly from?: Key | undefined;
  readonly to?: Key | undefined;
}

/** A range, and how much of it to request before it is read. */
export interface RangeRead extends KeyRange {
  /**
   * The most leaves to request ahead of the current leaf, and the most large values ahead of the
   * current item. 0 by default, so that memory is least.
   */
  readonly ahead?: number | undefined;
  /** The number of items that the reader wants at most. Nothing after them is requested ahead. */
  readonly wanted?: number | undefined;
}

/** The usual {@link RangeRead.ahead} of a reader that waits for a network. */
export const READ_AHEAD = 8;

/** The leaf and index of a key, if the tree has it. */
export async function findItem(
  store: NodeStore,
  tree: Tree,
  key: Key,
): Promise<{ readonly leaf: Leaf; readonly index: number } | undefined> {
  let node = tree.top;
  while (node !== undefined && !isLeaf(node)) node = await store.load(at(node.children, childIndex(node, key)));
  if (node === undefined) return undefined;
  const index = lowerBound(node.keys, key);
  return node.keys[index] === key ? { leaf: node, index } : undefined;
}

/** The value at an index of a leaf. Fetches a large value from its chunk. */
export async function leafValue(store: NodeStore, leaf: Leaf, index: number): Promise<Value> {
  const encoded = valueBytes(leaf, index);
  const id = referencedId(encoded);
  return id === undefined ? decodeValue(encoded) : store.loadValue(id);
}

/** The value at an index of a leaf; undefined if it is large, so that it is a separate chunk. */
export function inlineValue(leaf: Leaf, index: number): Value | undefined {
  const encoded = valueBytes(leaf, index);
  return referencedId(encoded) === undefined ? decodeValue(encoded) : undefined;
}

/** The id of the value chunk if an encoded value is a reference to one. */
export function referencedId(encoded: Uint8Array): ChunkId | undefined {
  const refers = encoded.length === VALUE_REF_BYTES && encoded[0] === 0xc7 && encoded[2] === VALUE_REF_TYPE;
  return refers ? (toHex(encoded.subarray(3)) as ChunkId) : undefined;
}

/**
 * The items of a range in order of key, as slices of leaves. Holds one leaf at a time, and the
 * leaves that are requested ahead.
 */
export async function* rangeSlices(store: NodeStore, tree: Tree, range: RangeRead = {}): AsyncGenerator<LeafSlice> {
  if (tree.top === undefined) return;
  const cursor = new LevelCursor(store, tree.top, 0);
  const { ahead = 0 } = range;
  let wanted = range.wanted ?? Number.POSITIVE_INFINITY;
  let place = await cursor.seek(
    range.from ?? (tree.kind === 'number' ? 0 : ''),
    ahead > 0 ? { nodes: ahead, to: range.to, items: wanted } : undefined,
  );
  for (;;) {
    const leaf = place.node;
    if (!isLeaf(leaf)) throw new Error('a level cursor at level 0 stands on an inner node');
    const from = range.from === undefined ? 0 : lowerBound(leaf.keys, range.from);
    const to = range.to === undefined ? leaf.keys.length : lowerBound(leaf.keys, range.to);
    wanted -= to - from;
    if (ahead > 0) cursor.requestAhead({ nodes: ahead, to: range.to, items: wanted });
    if (from < to) yield { leaf, from, to };
    const nextKey = cursor.nextKey();
    if (nextKey === undefined || (range.to !== undefined && nextKey >= range.to)) return;
    const next = await cursor.next();
    if (next === undefined) return;
    place = next;
  }
}

/**
 * The item that covers an offset in the sum of weights: the last item that starts at or before
 * `offset`.
 */
export async function itemAtOffset(store: NodeStore, tree: Tree, offset: number): Promise<WeighedItem | undefined> {
  let node = tree.top;
  if (node === undefined || offset < 0 || offset >= node.weight) return undefined;
  let start = 0;
  while (!isLeaf(node)) {
    let index = 0;
    for (; start + at(node.children, index).weight <= offset; index++) start += at(node.children, index).weight;
    node = await store.load(at(node.children, index));
  }
  let index = 0;
  for (; start + itemWeight(node, index) <= offset; index++) start += itemWeight(node, index);
  const value = await leafValue(store, node, index);
  return { key: at(node.keys, index), value, weight: itemWeight(node, index), start };
}

/**
 * The results of work for each item, in the order of the items. The work for the next few items is
 * begun before the caller asks for it. When the caller stops early or work fails, the work that was
 * begun ends before the iteration does.
 */
export async function* inAdvance<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  ahead: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R, undefined> {
  const begun: Promise<R>[] = [];
  try {
    for await (const item of items) {
      const result = work(item);
      // Awaited later. A failure must not count as unhandled.
      result.catch(() => undefined);
      begun.push(result);
      if (begun.length > ahead) for (const ready of begun.splice(0, begun.length - ahead)) yield await ready;
    }
    for (const result of begun) yield await result;
  } finally {
    await Promise.allSettled(begun);
  }
}
