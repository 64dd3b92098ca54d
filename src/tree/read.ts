import { toHex } from '../codec/bytes.ts';
import { VALUE_REF_BYTES, VALUE_REF_TYPE } from '../codec/canonical.ts';
import type { ChunkId } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { UsageError } from '../errors.ts';
import { at, keyAt } from './array.ts';
import { type Key, lowerBound, lowerBoundFrom } from './key.ts';
import { type Inner, isLeaf, itemWeight, type Leaf, type Node, type NodeRef, type Tree, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';

export interface MapItem {
  readonly key: Key;
  readonly value: Value;
}

/** An item found by weight. */
export interface WeighedItem extends MapItem {
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

/** A range, the most items of it, and its direction. */
export interface LimitedRange extends KeyRange {
  /** No limit if absent. */
  readonly limit?: number | undefined;
  /** From the last item of the range to the first. */
  readonly reverse?: boolean | undefined;
}

/** @throws UsageError if the limit of a range is not a whole number of at least 0 */
export function checkLimit({ limit = Number.POSITIVE_INFINITY }: LimitedRange): void {
  if (limit >= 0 && (Number.isInteger(limit) || limit === Number.POSITIVE_INFINITY)) return;
  throw new UsageError(`${String(limit)} cannot limit a range: it is not a whole number of at least 0`);
}

/** A range, and how much of it to request before it is read. */
export interface RangeRead extends LimitedRange {
  /**
   * The most leaves to request ahead of the current leaf, and the most large values ahead of the
   * current item. 0 by default, so that memory is least.
   */
  readonly ahead?: number | undefined;
  /**
   * The number of items that the reader wants at most, by default the limit. Nothing after them is
   * requested ahead.
   */
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
 * The items of a range in order of key, as slices of leaves. In reverse, the last slice comes
 * first. Holds one leaf at a time, and the leaves that are requested ahead. Ignores the limit.
 */
export async function* rangeSlices(store: NodeStore, tree: Tree, range: RangeRead = {}): AsyncGenerator<LeafSlice> {
  if (tree.top === undefined) return;
  const cursor = new LevelCursor(store, tree.top, 0);
  const { from, to, ahead = 0, reverse = false } = range;
  let wanted = range.wanted ?? Number.POSITIVE_INFINITY;
  const further = (): NodesAhead | undefined =>
    ahead > 0 ? { nodes: ahead, from, to, reverse, items: wanted } : undefined;
  let place: NodePlace | undefined = reverse
    ? await cursor.seekBefore(to, further())
    : await cursor.seek(from ?? (tree.kind === 'number' ? 0 : ''), further());
  while (place !== undefined) {
    const leaf = place.node;
    if (!isLeaf(leaf)) throw new Error('a level cursor at level 0 is at an inner node');
    const first = from === undefined ? 0 : lowerBound(leaf.keys, from);
    const end = to === undefined ? leaf.keys.length : lowerBound(leaf.keys, to);
    wanted -= end - first;
    const next = further();
    if (next !== undefined) cursor.requestAhead(next);
    if (first < end) yield { leaf, from: first, to: end };
    if (reverse) {
      if (from !== undefined && place.key <= from) return;
      place = await cursor.previous();
    } else {
      const nextKey = cursor.nextKey();
      if (nextKey === undefined || (to !== undefined && nextKey >= to)) return;
      place = await cursor.next();
    }
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

interface Step {
  readonly node: Inner;
  index: number;
}

/** The place of a node among the nodes of its level. */
export interface NodePlace {
  /** The node's key in its parent; the first key of the node if it is the top. */
  readonly key: Key;
  readonly node: Node;
}

/** The nodes of a range to request ahead of a cursor, in the direction of the read. */
export interface NodesAhead extends Pick<RangeRead, 'from' | 'to' | 'reverse'> {
  /** The most nodes. */
  readonly nodes: number;
  /** No node after this many items. */
  readonly items: number;
}

/**
 * Walks the nodes of one level of a tree in order of key. Loads only nodes on its path, and nodes
 * that the caller requests ahead.
 */
export class LevelCursor {
  readonly #store: NodeStore;
  readonly #top: Node;
  readonly #level: number;
  #path: Step[] = [];
  /** The cursor holds requested nodes, since the cache may evict them before they are read. */
  readonly #requested = new Map<NodeRef, Promise<Node>>();

  constructor(store: NodeStore, top: Node, level: number) {
    this.#store = store;
    this.#top = top;
    this.#level = level;
  }

  /**
   * Goes to the last node that starts at or before the key, or else to the first node.
   * @param ahead nodes to request together with this one; its items count as if all were wanted
   */
  seek(key: Key, ahead?: NodesAhead): Promise<NodePlace> {
    return this.#descend((node) => childIndex(node, key), ahead);
  }

  /**
   * Goes to the last node that starts before the key, or else to the first node. Without a key,
   * goes to the last node.
   * @param ahead as in {@link seek}
   */
  seekBefore(key: Key | undefined, ahead?: NodesAhead): Promise<NodePlace> {
    const before = ({ keys }: Inner) => (key === undefined ? keys.length : lowerBound(keys, key));
    return this.#descend((node) => Math.max(0, before(node) - 1), ahead);
  }

  async #descend(choose: (node: Inner) => number, ahead: NodesAhead | undefined): Promise<NodePlace> {
    this.#path = [];
    let node = this.#top;
    while (node.level > this.#level && !isLeaf(node)) {
      const index = choose(node);
      this.#path.push({ node, index });
      const child = at(node.children, index);
      const loading = this.#load(child);
      if (ahead !== undefined && node.level === this.#level + 1) {
        this.requestAhead({ ...ahead, items: ahead.items - child.count });
      }
      node = await loading;
    }
    return this.#place(node);
  }

  /**
   * Goes to the next node of the level.
   * @returns undefined at the end
   */
  next(): Promise<NodePlace | undefined> {
    return this.#move(1);
  }

  /**
   * Goes to the node of the level before the current one.
   * @returns undefined at the beginning
   */
  previous(): Promise<NodePlace | undefined> {
    return this.#move(-1);
  }

  async #move(by: 1 | -1): Promise<NodePlace | undefined> {
    let step = this.#path.pop();
    while (step !== undefined && step.node.children[step.index + by] === undefined) step = this.#path.pop();
    if (step === undefined) return undefined;
    step.index += by;
    this.#path.push(step);
    let node = await this.#load(at(step.node.children, step.index));
    while (node.level > this.#level && !isLeaf(node)) {
      const index = by === 1 ? 0 : node.children.length - 1;
      this.#path.push({ node, index });
      node = await this.#load(at(node.children, index));
    }
    return this.#place(node);
  }

  /**
   * The first key of the node after the current one; undefined at the end of the level. Loads
   * nothing.
   */
  nextKey(): Key | undefined {
    return this.#nextKey(this.#path.length - 1);
  }

  #nextKey(deepest: number): Key | undefined {
    for (let depth = deepest; depth >= 0; depth--) {
      const { node, index } = at(this.#path, depth);
      if (index + 1 < node.keys.length) return at(node.keys, index + 1);
    }
    return undefined;
  }

  /**
   * Requests the next nodes of the level, as far as their parents are in memory. Otherwise requests
   * the next parent, so that a later call finds it.
   */
  requestAhead({ from, to, reverse = false, ...ahead }: NodesAhead): void {
    let { nodes, items } = ahead;
    const by = reverse ? -1 : 1;
    const isOutside = ({ keys }: Inner, i: number): boolean => {
      const bound = reverse ? from : to;
      const key = reverse ? keys[i + 1] : keys[i];
      return bound !== undefined && key !== undefined && (reverse ? key <= bound : key >= bound);
    };
    /** Requests nodes below the children from an index onward. Returns whether more are wanted. */
    const request = (parent: Inner, start: number): boolean => {
      for (let i = start; i >= 0 && i < parent.children.length; i += by) {
        if (nodes <= 0 || items <= 0 || isOutside(parent, i)) return false;
        const child = at(parent.children, i);
        const inner = parent.level > this.#level + 1 ? this.#store.peek(child) : undefined;
        if (inner !== undefined && !isLeaf(inner)) {
          if (!request(inner, reverse ? inner.children.length - 1 : 0)) return false;
          continue;
        }
        this.#request(child);
        if (parent.level > this.#level + 1) return false;
        nodes--;
        items -= child.count;
      }
      return true;
    };
    for (const { node, index } of this.#path.toReversed()) if (!request(node, index + by)) return;
  }

  /**
   * Requests the next nodes into whose ranges keys fall, as far as they have the same parent as the
   * current node. The caller must go to each of them.
   * @param keys ascending; those from index `from` on count
   */
  requestFor(keys: readonly Key[], from: number, nodes: number): void {
    const parent = this.#path.at(-1)?.node;
    if (parent === undefined) return;
    const parentEnd = this.#nextKey(this.#path.length - 2);
    for (let i = from, left = nodes; i < keys.length && left > 0; left--) {
      const key = keyAt(keys, i);
      if (parentEnd !== undefined && key >= parentEnd) return;
      const index = childIndex(parent, key);
      this.#request(at(parent.children, index));
      const end = parent.keys[index + 1];
      if (end === undefined) return;
      i = lowerBoundFrom(keys, end, i);
    }
  }

  #request(ref: NodeRef): void {
    if (this.#requested.has(ref)) return;
    const loading = this.#store.load(ref);
    // A failure of a node that is never read must not count as unhandled.
    loading.catch(() => undefined);
    this.#requested.set(ref, loading);
  }

  #load(ref: NodeRef): Promise<Node> {
    const loading = this.#requested.get(ref) ?? this.#store.load(ref);
    this.#requested.delete(ref);
    return loading;
  }

  #place(node: Node): NodePlace {
    const parent = this.#path.at(-1);
    return { key: parent === undefined ? at(node.keys, 0) : at(parent.node.keys, parent.index), node };
  }
}

/** Index of the child whose range contains a key. */
export function childIndex(node: Inner, key: Key): number {
  const index = lowerBound(node.keys, key);
  return node.keys[index] === key ? index : Math.max(0, index - 1);
}
