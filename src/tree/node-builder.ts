import { ByteWriter } from '../codec/bytes.ts';
import { at, byteAt, keyAt, NumberColumn, uint32At } from './array.ts';
import { type NodeShape, NodeSplitter } from './chunk-boundary.ts';
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
  #keys: Key[] = [];
  #ends = new NumberColumn();
  #bytes = new ByteWriter(64 * 1024);
  /** Absent as long as every item weighs 1. */
  #weights: number[] | undefined;

  constructor(shape: NodeShape, emit: EmitNode) {
    this.#splitter = new NodeSplitter(shape, 0);
    this.#emit = emit;
  }

  get open(): boolean {
    return this.#keys.length > 0;
  }

  /** Adds one item whose value is encoded in `bytes` from `start` to `end`. */
  add(key: Key, bytes: Uint8Array, start: number, end: number, weight: number): void {
    const length = end - start;
    const offset = this.#bytes.grow(length);
    const target = this.#bytes.bytes;
    // For values of a few bytes a loop is faster than copying from a new view.
    if (length < 32) for (let i = 0; i < length; i++) target[offset + i] = byteAt(bytes, start + i);
    else target.set(bytes.subarray(start, end), offset);
    this.#add(key, length, weight);
  }

  copy(source: Leaf, from: number, to: number): void {
    if (from === to) return;
    const { keys, bytes, ends } = source;
    let start = from === 0 ? 0 : uint32At(ends, from - 1);
    // Copy bytes in runs up to the end of a node.
    let runStart = start;
    for (let i = from; i < to; i++) {
      const end = uint32At(ends, i);
      const key = keyAt(keys, i);
      const length = end - start;
      start = end;
      this.#keys.push(key);
      this.#ends.push(this.#bytes.length + end - runStart);
      this.#weigh(itemWeight(source, i));
      if (this.#splitter.endsAfter(key, length)) {
        this.#bytes.append(bytes.subarray(runStart, end));
        runStart = end;
        this.finish();
      }
    }
    this.#bytes.append(bytes.subarray(runStart, start));
  }

  #add(key: Key, length: number, weight: number): void {
    this.#keys.push(key);
    this.#ends.push(this.#bytes.length);
    this.#weigh(weight);
    if (this.#splitter.endsAfter(key, length)) this.finish();
  }

  #weigh(weight: number): void {
    // The key has been pushed already.
    if (weight !== 1) this.#weights ??= Array.from({ length: this.#keys.length - 1 }, () => 1);
    this.#weights?.push(weight);
  }

  finish(): void {
    const keys = this.#keys;
    const first = keys[0];
    if (first === undefined) return;
    const weights = this.#weights;
    const leaf: Leaf = {
      level: 0,
      keys,
      bytes: this.#bytes.take(),
      ends: new Uint32Array(this.#ends.view()),
      weights,
      count: keys.length,
      weight: weights === undefined ? keys.length : sum(weights),
    };
    this.#keys = [];
    this.#ends.length = 0;
    this.#weights = undefined;
    this.#bytes.length = 0;
    this.#splitter.reset();
    this.#emit(first, NodeRef.to(leaf));
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
