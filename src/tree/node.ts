import { ByteWriter, fromHex, toHex } from '../codec/bytes.ts';
import { writeArrayHeader, writeInteger, writeValue } from '../codec/canonical.ts';
import { type ChunkId, type ChunkPlatform, chunkId } from '../codec/chunk.ts';
import { ByteReader, readArrayHeader, readValue, skipValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { ChunkCorruptError } from '../errors.ts';
import { keyAt } from './array.ts';
import type { Key, KeyKind } from './key.ts';

/**
 * A node that holds items. Values stay encoded: an edit of a leaf copies bytes and decodes nothing.
 */
export interface Leaf {
  readonly level: 0;
  readonly keys: readonly Key[];
  /** The concatenated canonical encodings of the values. */
  readonly bytes: Uint8Array;
  /** The end of each value in `bytes`. */
  readonly ends: Uint32Array;
  /** Absent if every item weighs 1. */
  readonly weights: readonly number[] | undefined;
  readonly count: number;
  readonly weight: number;
}

/** A node that holds references to nodes of the level below. */
export interface Inner {
  /** Distance from the leaves, 1 or more. */
  readonly level: number;
  /** The first key of each child. */
  readonly keys: readonly Key[];
  readonly children: readonly NodeRef[];
  /** Items in the leaves below. */
  readonly count: number;
  /** Sum of the weights of these items. */
  readonly weight: number;
}

export type Node = Leaf | Inner;

export function isLeaf(node: Node): node is Leaf {
  return node.level === 0;
}

/** The canonical encoding of the value at an index, as a view. */
export function valueBytes(leaf: Leaf, index: number): Uint8Array {
  return leaf.bytes.subarray(index === 0 ? 0 : leaf.ends[index - 1], leaf.ends[index]);
}

export function itemWeight(leaf: Leaf, index: number): number {
  return leaf.weights === undefined ? 1 : (leaf.weights[index] ?? 1);
}

/**
 * A node's canonical bytes, in MessagePack. Children must have ids.
 *
 * - A leaf is `[0, keys, values]`, with a fourth array of weights unless all weights are 1.
 * - An inner node is `[level, keys, ids, counts]`, with a fifth array of weights unless they equal
 *   the counts.
 * - Number keys are the first key, then the difference of each key to the previous one.
 */
export function encodeNode(node: Node): Uint8Array {
  const writer = new ByteWriter(
    isLeaf(node) ? node.bytes.length + node.keys.length * 2 + 64 : node.keys.length * 48 + 64,
  );
  const extra = isLeaf(node) ? node.weights !== undefined : node.children.some((child) => child.weight !== child.count);
  writeArrayHeader(writer, (isLeaf(node) ? 3 : 4) + (extra ? 1 : 0));
  writeInteger(writer, node.level);
  writeKeys(writer, node.keys);
  if (isLeaf(node)) {
    writeArrayHeader(writer, node.keys.length);
    writer.append(node.bytes);
    if (node.weights !== undefined) writeIntegers(writer, node.weights);
    return writer.bytes.subarray(0, writer.length);
  }
  writeValue(writer, joinIds(node.children));
  writeIntegers(
    writer,
    node.children.map((child) => child.count),
  );
  if (extra)
    writeIntegers(
      writer,
      node.children.map((child) => child.weight),
    );
  return writer.bytes.subarray(0, writer.length);
}

function writeKeys(writer: ByteWriter, keys: readonly Key[]): void {
  writeArrayHeader(writer, keys.length);
  let previous = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keyAt(keys, i);
    if (typeof key === 'number') {
      writeInteger(writer, key - previous);
      previous = key;
    } else writeValue(writer, key);
  }
}

function writeIntegers(writer: ByteWriter, numbers: readonly number[]): void {
  writeArrayHeader(writer, numbers.length);
  for (const number of numbers) writeInteger(writer, number);
}

function joinIds(children: readonly NodeRef[]): Uint8Array {
  const bytes = new Uint8Array(children.length * 32);
  for (const [i, child] of children.entries()) {
    if (child.hash === undefined) throw new Error('a child of the node has no id yet');
    bytes.set(child.hash, i * 32);
  }
  return bytes;
}

/**
 * The inverse of {@link encodeNode}.
 * @throws ChunkCorruptError if the bytes are not a node
 */
export function decodeNode(canonical: Uint8Array): Node {
  const reader = new ByteReader(canonical);
  const parts = readArrayHeader(reader);
  const level = readInteger(reader);
  const keys = readNodeKeys(reader);
  const plain = level === 0 ? 3 : 4;
  if (parts !== plain && parts !== plain + 1) throw notANode(`it has ${parts} parts`);
  const weighted = parts > plain;
  const node = level === 0 ? readLeaf(reader, keys, weighted) : readInner(reader, level, keys, weighted);
  if (reader.offset !== canonical.length) throw notANode('bytes follow its end');
  return node;
}

/** No value begins with this byte. */
const NO_TAG = 0xc1;

function readLeaf(reader: ByteReader, keys: Key[], weighted: boolean): Leaf {
  expectLength(readArrayHeader(reader), keys.length);
  const start = reader.offset;
  const ends = new Uint32Array(keys.length);
  const { bytes: all } = reader;
  let end = start;
  for (let i = 0; i < ends.length; i++) {
    const tag = all[end] ?? NO_TAG;
    // Short strings and small whole numbers, which most values are.
    if (tag < 0x80) end++;
    else if (tag >= 0xa0 && tag < 0xc0) end += tag - 0x9f;
    else if (tag === 0xcc) end += 2;
    else if (tag === 0xcd) end += 3;
    else {
      reader.offset = end;
      skipValue(reader);
      end = reader.offset;
    }
    ends[i] = end - start;
  }
  reader.offset = start;
  reader.advance(end - start);
  const bytes = reader.bytes.subarray(start, reader.offset);
  const weights = weighted ? readIntegers(reader, keys.length) : undefined;
  return { level: 0, keys, bytes, ends, weights, count: keys.length, weight: weights ? sum(weights) : keys.length };
}

function readInner(reader: ByteReader, level: number, keys: Key[], weighted: boolean): Inner {
  const ids = readValue(reader);
  if (!(ids instanceof Uint8Array)) throw notANode('it has no ids');
  expectLength(ids.length, keys.length * 32);
  const counts = readIntegers(reader, keys.length);
  const weights = weighted ? readIntegers(reader, keys.length) : counts;
  const children = counts.map((count, i) =>
    NodeRef.stored(ids.subarray(i * 32, i * 32 + 32), { count, weight: weights[i] ?? count }),
  );
  return { level, keys, children, count: sum(counts), weight: sum(weights) };
}

/** The keys of a node: at least one, all of one kind, strictly ascending. */
function readNodeKeys(reader: ByteReader): Key[] {
  const length = readArrayHeader(reader);
  const keys: Key[] = [];
  let previous: Key | undefined;
  while (keys.length < length) {
    const read = readValue(reader);
    const key = typeof read === 'number' && typeof previous === 'number' ? previous + read : read;
    if (!isKey(key)) throw notANode('a key is neither a whole number nor a string');
    if (previous !== undefined && (typeof key !== typeof previous || key <= previous)) {
      throw notANode('its keys do not ascend');
    }
    keys.push(key);
    previous = typeof key === 'number' ? readNearKeys(reader, keys, key, length) : key;
  }
  if (length === 0) throw notANode('it has no keys');
  return keys;
}

/**
 * Reads number keys as long as their difference to the previous one is a single byte. Most
 * differences are.
 * @returns the last key
 */
function readNearKeys(reader: ByteReader, keys: Key[], last: number, length: number): number {
  const { bytes } = reader;
  let { offset } = reader;
  let key = last;
  while (keys.length < length) {
    const difference = bytes[offset] ?? 0;
    if (difference === 0 || difference >= 0x80 || key + difference > Number.MAX_SAFE_INTEGER) break;
    offset++;
    key += difference;
    keys.push(key);
  }
  reader.offset = offset;
  return key;
}

function isKey(value: Value): value is Key {
  return typeof value === 'string' || (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0);
}

function readIntegers(reader: ByteReader, length: number): number[] {
  expectLength(readArrayHeader(reader), length);
  const numbers: number[] = [];
  for (let i = 0; i < length; i++) numbers.push(readInteger(reader));
  return numbers;
}

function readInteger(reader: ByteReader): number {
  const value = readValue(reader);
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw notANode('a count is not a whole number');
  return value;
}

function expectLength(found: number, expected: number): void {
  if (found !== expected) throw notANode(`a column has ${found} items instead of ${expected}`);
}

function notANode(reason: string): ChunkCorruptError {
  return new ChunkCorruptError(`the bytes are not a node of a tree: ${reason}`);
}

/** Approximate memory of the unsaved nodes below a node, in bytes. */
export function unsavedBytes(node: Node): number {
  if (isLeaf(node)) return 0;
  let bytes = 0;
  for (const { node: child } of node.children) {
    if (child !== undefined) bytes += memoryBytes(child) + unsavedBytes(child);
  }
  return bytes;
}

/** Approximate memory of a node, in bytes. */
export function memoryBytes(node: Node): number {
  return isLeaf(node) ? node.bytes.length + node.keys.length * 12 : node.keys.length * 120;
}

/** The sum of whole numbers. */
export function sum(numbers: readonly number[]): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

/**
 * A parent's reference to a node. A stored node has an id. A node that is only in memory has
 * `node`, and gets its id when the tree is saved.
 */
export class NodeRef {
  node: Node | undefined;
  /** Items in the leaves below. */
  readonly count: number;
  /** Sum of their weights. */
  readonly weight: number;
  #hash: Uint8Array | undefined;
  #id: ChunkId | undefined;

  private constructor(hash: Uint8Array | undefined, node: Node | undefined, count: number, weight: number) {
    this.#hash = hash;
    this.node = node;
    this.count = count;
    this.weight = weight;
  }

  /** A reference to a node in memory. */
  static to(node: Node): NodeRef {
    return new NodeRef(undefined, node, node.count, node.weight);
  }

  /** A reference to a node in the store, by the 32 bytes of its hash. */
  static stored(hash: Uint8Array, sums: { readonly count: number; readonly weight: number }): NodeRef {
    return new NodeRef(hash, undefined, sums.count, sums.weight);
  }

  /** The 32 bytes of the id; undefined as long as the node is only in memory. */
  get hash(): Uint8Array | undefined {
    return this.#hash;
  }

  // Formatted on demand: most of the hundreds of children of a node are neither read nor written.
  get id(): ChunkId | undefined {
    if (this.#id === undefined && this.#hash !== undefined) this.#id = toHex(this.#hash) as ChunkId;
    return this.#id;
  }

  /** Records that the node is stored under this id. The reference then drops the node. */
  wasSaved(id: ChunkId): void {
    this.#id = id;
    this.#hash = fromHex(id);
    this.node = undefined;
  }
}

/**
 * One map as an immutable tree. Later versions share its nodes. `top` is the highest node, in
 * memory; undefined if the map is empty.
 */
export interface Tree {
  readonly kind: KeyKind;
  readonly top: Node | undefined;
}

export function emptyTree(kind: KeyKind): Tree {
  return { kind, top: undefined };
}

/** Number of items. */
export function treeCount(tree: Tree): number {
  return tree.top?.count ?? 0;
}

/** The sum of the items' weights. */
export function treeWeight(tree: Tree): number {
  return tree.top?.weight ?? 0;
}

/** The id of a saved tree's top. Two maps have equal ids if and only if they are equal. */
export function treeId(platform: ChunkPlatform, top: Node): ChunkId {
  return chunkId(platform, encodeNode(top));
}
