import { ByteWriter } from '../codec/bytes.ts';
import { at, keyAt, uint32At } from './array.ts';
import type { Key } from './key.ts';
import { type Inner, itemWeight, type Leaf, type Node, NodeRef, sum } from './node.ts';

/** The size of an inner node's item without its key: an id, a count and a weight, in bytes. */
const REF_BYTES = 40;

/**
 * Takes items in order of key and cuts them into nodes. `open` is false exactly when a node has
 * just ended.
 */
export interface NodeBuilder<Source extends Node> {
  readonly open: boolean;
  /** Adds the items `from` up to but not including `to` of a node. */
  copy(source: Source, from: number, to: number): void;
  /** Ends the last node if it is open. */
  finish(): void;
}

/** Receives each finished node with its first key. */
export type EmitNode = (key: Key, ref: NodeRef) => void;

/** Builds leaves: see {@link NodeBuilder}. */
export class LeafBuilder implements NodeBuilder<Leaf> {
  readonly #splitter: NodeSplitter;
  readonly #emit: EmitNode;
  /** The keys of the node are the first `#count`. The array stays, so that it grows only once. */
  readonly #keys: Key[] = [];
  #count = 0;
  #ends = new Uint32Array(1024);
  readonly #bytes = new ByteWriter(4 * 1024);
  /** Absent as long as every item weighs 1. */
  #weights: number[] | undefined;

  constructor(shape: NodeShape, emit: EmitNode) {
    this.#splitter = new NodeSplitter(shape, 0);
    this.#emit = emit;
  }

  get open(): boolean {
    return this.#count > 0;
  }

  /** Adds one item whose value is encoded in `bytes` from `start` to `end`. */
  add(key: Key, bytes: Uint8Array, start: number, end: number, weight: number): void {
    const index = this.#count++;
    this.#makeRoom(0);
    this.#keys[index] = key;
    this.#bytes.appendPart(bytes, start, end);
    this.#ends[index] = this.#bytes.length;
    this.#weigh(index, weight);
    if (this.#splitter.endsAfter(key, end - start)) this.finish();
  }

  // A single loop on local variables: most items of a snapshot's edited leaves pass here.
  copy(source: Leaf, from: number, to: number): void {
    if (from === to) return;
    this.#makeRoom(to - from);
    const { keys, bytes, ends } = source;
    const splitter = this.#splitter;
    const weighs = source.weights !== undefined || this.#weights !== undefined;
    const ownEnds = this.#ends;
    const own = this.#keys;
    let count = this.#count;
    let { size } = splitter;
    let start = from === 0 ? 0 : uint32At(ends, from - 1);
    // Copy bytes in runs up to the end of a node.
    let runStart = start;
    let moved = this.#bytes.length - start;
    for (let i = from; i < to; i++) {
      const key = keyAt(keys, i);
      const end = uint32At(ends, i);
      const length = treeItemBytes(key, end - start);
      start = end;
      if (weighs) this.#weigh(count, itemWeight(source, i));
      ownEnds[count] = end + moved;
      own[count++] = key;
      size += length;
      if (size < splitter.shape.minBytes || !splitter.endsAt(size, key, length)) continue;
      this.#bytes.appendPart(bytes, runStart, end);
      this.#count = count;
      this.finish();
      count = 0;
      size = 0;
      runStart = end;
      moved = -end;
    }
    this.#bytes.appendPart(bytes, runStart, start);
    splitter.size = size;
    this.#count = count;
  }

  /** Makes room for the ends of more items. */
  #makeRoom(items: number): void {
    const needed = this.#count + items;
    if (needed <= this.#ends.length) return;
    const wider = new Uint32Array(Math.max(needed, 2 * this.#ends.length));
    wider.set(this.#ends);
    this.#ends = wider;
  }

  /** Notes the weight of the item at an index. */
  #weigh(index: number, weight: number): void {
    if (weight !== 1) this.#weights ??= Array.from({ length: index }, () => 1);
    this.#weights?.push(weight);
  }

  finish(): void {
    if (this.#count === 0) return;
    const keys = this.#keys.slice(0, this.#count);
    const weights = this.#weights;
    const leaf: Leaf = {
      level: 0,
      keys,
      bytes: this.#bytes.take(),
      ends: this.#ends.slice(0, keys.length),
      weights,
      count: keys.length,
      weight: weights === undefined ? keys.length : sum(weights),
    };
    this.#count = 0;
    this.#weights = undefined;
    this.#bytes.length = 0;
    this.#splitter.reset();
    this.#emit(keyAt(keys, 0), NodeRef.to(leaf));
  }
}

/** Builds inner nodes of one level: see {@link NodeBuilder}. */
export class InnerBuilder implements NodeBuilder<Inner> {
  readonly #level: number;
  readonly #splitter: NodeSplitter;
  readonly #emit: EmitNode;
  #keys: Key[] = [];
  #children: NodeRef[] = [];

  constructor(shape: NodeShape, level: number, emit: EmitNode) {
    this.#splitter = new NodeSplitter(shape, level);
    this.#level = level;
    this.#emit = emit;
  }

  get open(): boolean {
    return this.#keys.length > 0;
  }

  add(key: Key, child: NodeRef): void {
    this.#keys.push(key);
    this.#children.push(child);
    if (this.#splitter.endsAfter(key, REF_BYTES)) this.finish();
  }

  copy(source: Inner, from: number, to: number): void {
    for (let i = from; i < to; i++) this.add(keyAt(source.keys, i), at(source.children, i));
  }

  finish(): void {
    const first = this.#keys[0];
    if (first === undefined) return;
    const children = this.#children;
    const node: Inner = {
      level: this.#level,
      keys: this.#keys,
      children,
      count: sum(children.map((child) => child.count)),
      weight: sum(children.map((child) => child.weight)),
    };
    this.#keys = [];
    this.#children = [];
    this.#splitter.reset();
    this.#emit(first, NodeRef.to(node));
  }
}

/** The size of nodes, in bytes as {@link treeItemBytes} counts them. */
export interface NodeShape {
  /** A node has at least this many bytes, except for the last node of a level. */
  readonly minBytes: number;
  /** A node ends when it has this many bytes. */
  readonly maxBytes: number;
  /** Sizes beyond the minimum follow a Rayleigh distribution with this scale. */
  readonly spreadBytes: number;
}

/**
 * The shape of every stored tree: nodes of 80 KiB on average, few near the maximum. The shape is
 * part of the format: equal contents give equal chunks only if they are cut alike. Tests use other
 * shapes to get many small nodes.
 */
export const NODE_SHAPE: NodeShape = { minBytes: 48 * 1024, maxBytes: 128 * 1024, spreadBytes: 26 * 1024 };

/** Average size of a node, in bytes. */
export function meanNodeBytes({ minBytes, spreadBytes }: NodeShape): number {
  return minBytes + spreadBytes * Math.sqrt(Math.PI / 2);
}

/**
 * The size of an item within its node, in bytes. Depends on the item alone, so edit history has no
 * influence.
 */
export function treeItemBytes(key: Key, payloadBytes: number): number {
  return (typeof key === 'number' ? 2 : key.length + 1) + payloadBytes;
}

/**
 * Decides where the nodes of a level end. The decision depends on the item's key and the node's
 * size so far, never on edit history: equal contents are cut in equal places.
 *
 * The probability grows in proportion to the size beyond the minimum and to the item's own size,
 * which keeps the sizes of nodes close together. Dolt's prolly trees do the same with a Weibull
 * distribution. This is the case with shape 2, written as plain multiplication so that every
 * machine computes the same.
 */
export class NodeSplitter {
  readonly shape: NodeShape;
  /** The size of the node so far, in bytes as {@link treeItemBytes} counts them. */
  size = 0;
  readonly #level: number;
  readonly #chance: number;

  constructor(shape: NodeShape, level: number) {
    this.shape = shape;
    this.#level = level;
    this.#chance = 2 ** 32 / shape.spreadBytes ** 2;
  }

  /**
   * Counts the next item of a node.
   * @returns whether the node ends after it
   */
  endsAfter(key: Key, payloadBytes: number): boolean {
    const bytes = treeItemBytes(key, payloadBytes);
    this.size += bytes;
    const ends = this.size >= this.shape.minBytes && this.endsAt(this.size, key, bytes);
    if (ends) this.size = 0;
    return ends;
  }

  /**
   * Whether a node ends after an item of this many bytes. Counts nothing.
   * @param size the size of the node with that item, not below the minimum
   */
  endsAt(size: number, key: Key, bytes: number): boolean {
    const { minBytes, maxBytes } = this.shape;
    return size >= maxBytes || hashKey(key, this.#level) < bytes * (size - minBytes) * this.#chance;
  }

  /** Forgets the items counted so far, at the end of a level. */
  reset(): void {
    this.size = 0;
  }
}

/**
 * A 32-bit hash of a key. Each level has its own hash, so that its cuts do not depend on the hashes
 * of other levels.
 */
export function hashKey(key: Key, level: number): number {
  const salt = Math.imul(level + 1, 0x9e3779b1);
  // Bitwise operators use a number modulo 2^32.
  if (typeof key === 'number') return mix(mix(salt ^ (key / 2 ** 32)) ^ key);
  // FNV-1a over UTF-16 code units.
  let hash = 0x811c9dc5 ^ salt;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The finalizer of MurmurHash3: every input bit reaches every output bit. */
function mix(value: number): number {
  let hash = value;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
