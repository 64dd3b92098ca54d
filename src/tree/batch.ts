import { ByteWriter, fromHex } from '../codec/bytes.ts';
import { VALUE_REF_TYPE, writeValue } from '../codec/canonical.ts';
import { MAX_CHUNK_BYTES } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import { checkValue, type Value } from '../codec/value.ts';
import { ValueUnsupportedError } from '../errors.ts';
import { at, float64At, keyAt, NumberColumn, uint32At } from './array.ts';
import type { LeafEdits } from './edit.ts';
import { ascendingOrder, checkKey, type Key, type KeyKind, lowerBound, MAX_STRING_KEY_LENGTH } from './key.ts';
import type { KeySet } from './key-set.ts';
import type { NodeStore } from './node-store.ts';
import { type RangeDelete, RangeDeletes } from './range-delete.ts';

/** A value whose encoding is longer than this, in bytes, becomes a separate chunk. */
const LARGE_VALUE_BYTES = 4096;
/**
 * Approximate memory of an edit without its value, and of its entry among the newest edits, in
 * bytes.
 */
const EDIT_BYTES = 32;
const NEWEST_BYTES = 40;

/**
 * Estimated memory of a late value until one of the map has been evaluated, in bytes. A value that
 * is much smaller is hardly put late.
 */
const LATE_BYTES = 64 * 1024;

/** A lookup of one key is slow in a batch with more edits or more ranges than these. */
const LONG_EDITS = 2 ** 20;
const LONG_RANGES = 256;

/** A batch's answer to a lookup of one key. */
export type BatchAnswer = { readonly put: Value } | 'deleted' | 'unknown';

/** Evaluates a late value and gives it to `write`. */
export type LateWrite = (write: (value: Value) => void) => void;

/** A put whose value is not evaluated yet. */
interface LateEdit {
  readonly index: number;
  readonly weight: number;
  readonly evaluate: LateWrite;
}

/**
 * Encoded edits of one map in the order of their arrival. They are applied to the map's tree
 * together.
 */
export class EditBatch {
  readonly kind: KeyKind;
  readonly #longestKey: number;
  #keys: Key[] = [];
  /**
   * The end of each value in the bytes; it starts at the end of the previous value. A deletion has
   * no bytes.
   */
  readonly #ends = new NumberColumn(16);
  /** Absent as long as every item weighs 1. */
  #weights: number[] | undefined;
  #ascending = true;
  #hasLargeValues = false;
  readonly #ranges: RangeDeletes;
  #bytes = new ByteWriter(64);
  /** Memory of string keys, in bytes. */
  #textBytes = 0;
  /** The newest edit of each key; built by the first lookup. */
  #newest: Map<Key, number> | undefined;
  /** The newest edits of their keys that are not evaluated. Their places have no bytes. */
  #late: Map<Key, LateEdit> | undefined;
  /** The size of the largest late value that was evaluated. Undefined if there is none. */
  #largestLate: number | undefined;

  /**
   * @param longestKey the most UTF-16 code units of a string key
   * @param before the batch of the map before this one, which knows how large late values are
   */
  constructor(kind: KeyKind, longestKey = MAX_STRING_KEY_LENGTH, before?: EditBatch) {
    this.kind = kind;
    if (before !== undefined) this.#largestLate = before.#largestLate;
    this.#longestKey = longestKey;
    this.#ranges = new RangeDeletes(kind);
  }

  get isEmpty(): boolean {
    return this.#keys.length === 0 && this.#ranges.length === 0;
  }

  /** Whether an edit has another weight than 1. */
  get hasWeights(): boolean {
    return this.#weights !== undefined;
  }

  /** Whether applying the batch is faster than looking up a key in it. */
  get isLong(): boolean {
    return this.#keys.length > LONG_EDITS || this.#ranges.length > LONG_RANGES;
  }

  /** Approximate memory of the edits, in bytes. */
  get heldBytes(): number {
    const edits = this.#keys.length * EDIT_BYTES + (this.#newest?.size ?? 0) * NEWEST_BYTES;
    const late = (this.#late?.size ?? 0) * (this.#largestLate ?? LATE_BYTES);
    return edits + this.#bytes.length + this.#textBytes + this.#ranges.heldBytes + late;
  }

  /** The sets of keys that the range deletes remove. */
  get deletedSets(): readonly KeySet[] {
    return this.#ranges.sets;
  }

  /** @throws KeyInvalidError, ValueUnsupportedError; the batch is then unchanged */
  put(key: Key, value: Value, weight: number): void {
    checkKey(key, this.kind, this.#longestKey);
    const start = this.#bytes.length;
    try {
      writeValue(this.#bytes, value);
    } catch (error) {
      this.#bytes.length = start;
      checkValue(value); // names the part that cannot be stored
      throw error;
    }
    const length = this.#bytes.length - start;
    if (length > LARGE_VALUE_BYTES) {
      this.#hasLargeValues = true;
      if (length > MAX_CHUNK_BYTES) this.#refuse(start, length);
    }
    this.#push(key, weight);
  }

  /**
   * Like {@link put}. The value is evaluated at most once, and not if a later edit replaces it
   * first.
   * @throws KeyInvalidError; the batch is then unchanged
   */
  putLate(key: Key, evaluate: LateWrite, weight: number): void {
    checkKey(key, this.kind, this.#longestKey);
    const index = this.#keys.length;
    this.#push(key, weight);
    this.#late ??= new Map();
    this.#late.set(key, { index, weight, evaluate });
  }

  /**
   * Evaluates the late values that are still in effect.
   * @throws ValueUnsupportedError, and the errors of their functions
   */
  evaluate(): void {
    if (this.#late === undefined) return;
    for (const [key, late] of this.#late) this.#evaluate(key, late);
    this.#late = undefined;
  }

  /** The value becomes the newest edit of its key, unless a range delete followed the put. */
  #evaluate(key: Key, { index, weight, evaluate }: LateEdit): void {
    if (this.#ranges.deletes(key, index + 1)) return;
    evaluate((value) => {
      const start = this.#bytes.length;
      this.put(key, value, weight);
      this.#largestLate = Math.max(this.#largestLate ?? 0, this.#bytes.length - start);
    });
  }

  #refuse(start: number, length: number): never {
    this.#bytes.length = start;
    throw new ValueUnsupportedError(`a value of ${length} bytes exceeds the limit of ${MAX_CHUNK_BYTES}`, {
      advice: 'Split the value, or store it elsewhere and put a reference to it',
    });
  }

  /** @throws KeyInvalidError */
  delete(key: Key): void {
    checkKey(key, this.kind, this.#longestKey);
    this.#push(key, 1);
  }

  /** @throws KeyInvalidError */
  deleteRange(range: RangeDelete): void {
    this.#ranges.add(range, this.#keys.length);
  }

  #push(key: Key, weight: number): void {
    const index = this.#keys.length;
    if (index > 0 && !(keyAt(this.#keys, index - 1) < key)) this.#ascending = false;
    if (weight !== 1) this.#weights ??= Array.from({ length: index }, () => 1);
    this.#keys.push(key);
    this.#ends.push(this.#bytes.length);
    this.#weights?.push(weight);
    if (typeof key === 'string') this.#textBytes += 2 * key.length;
    this.#newest?.set(key, index);
    this.#late?.delete(key);
  }

  #start(index: number): number {
    return index === 0 ? 0 : this.#ends.at(index - 1);
  }

  /**
   * Looks up a key, and evaluates its late value. If the answer is 'unknown', the reader looks into
   * the tree.
   * @throws the errors of {@link evaluate}
   */
  get(key: Key): BatchAnswer {
    const late = this.#late?.get(key);
    if (late !== undefined) this.#evaluate(key, late);
    this.#newest ??= new Map(this.#keys.map((each, index) => [each, index]));
    const index = this.#newest.get(key);
    if (this.#ranges.deletes(key, (index ?? -1) + 1)) return 'deleted';
    if (index === undefined) return 'unknown';
    const [start, end] = [this.#start(index), this.#ends.at(index)];
    return start === end ? 'deleted' : { put: decodeValue(this.#bytes.bytes.subarray(start, end)) };
  }

  /**
   * The newest edit of each key, in order of key, without edits that a later range deletes. The
   * ranges themselves are not included. Large values go to the store.
   * @param more more keys to delete, in ascending order and unique; an edit of the same key wins
   */
  resolve(store: NodeStore, more: readonly Key[] = []): LeafEdits {
    this.evaluate();
    const order = this.#remainingInOrder();
    const edits: Columns = order === undefined ? this.#columns() : this.#columnsIn(order);
    if (this.#hasLargeValues) this.#moveLargeValues(store, edits.starts, edits.ends);
    return { ...withDeletions(edits, more), bytes: this.#bytes.bytes.subarray(0, this.#bytes.length) };
  }

  #columns(): Columns {
    const ends = this.#ends.view().slice();
    const starts = new Float64Array(ends.length);
    if (ends.length > 1) starts.set(ends.subarray(0, -1), 1);
    return { keys: this.#keys, starts, ends, weights: this.#weights };
  }

  #columnsIn(order: Uint32Array): Columns {
    const keys: Key[] = [];
    const starts = new Float64Array(order.length);
    const ends = new Float64Array(order.length);
    for (let i = 0; i < order.length; i++) {
      const index = uint32At(order, i);
      keys.push(keyAt(this.#keys, index));
      starts[i] = this.#start(index);
      ends[i] = this.#ends.at(index);
    }
    const weights = this.#weights;
    return { keys, starts, ends, weights: weights && Array.from(order, (index) => at(weights, index)) };
  }

  /**
   * Indexes of the edits that take effect, in order of key; undefined if all edits do and they
   * arrived in order.
   */
  #remainingInOrder(): Uint32Array | undefined {
    if (this.#ascending && this.#ranges.length === 0) return undefined;
    const keys = this.#keys;
    const newest = withoutRepeats(keys, ascendingOrder(keys));
    if (this.#ranges.length === 0) return newest;
    const inOrder = Array.from(newest, (index) => keyAt(keys, index));
    const deleted = this.#ranges.mark(inOrder, (i) => uint32At(newest, i));
    return newest.filter((_, i) => deleted[i] === 0);
  }

  #moveLargeValues(store: NodeStore, starts: Float64Array, ends: Float64Array): void {
    for (let i = 0; i < starts.length; i++) {
      const [start, end] = [float64At(starts, i), float64At(ends, i)];
      if (end - start <= LARGE_VALUE_BYTES) continue;
      const id = store.addValue(this.#bytes.bytes.slice(start, end));
      const reference = new Uint8Array([0xc7, 32, VALUE_REF_TYPE, ...fromHex(id)]);
      starts[i] = this.#bytes.length;
      this.#bytes.append(reference);
      ends[i] = this.#bytes.length;
    }
  }
}

interface Columns {
  readonly keys: readonly Key[];
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly weights: ArrayLike<number> | undefined;
}

/** The last index of each key, from indexes in order of key. Changes `order`. */
function withoutRepeats(keys: readonly Key[], order: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  let length = 0;
  for (let i = 0; i < order.length; i++) {
    const index = uint32At(order, i);
    // The next edit of the same key is newer.
    if (i + 1 < order.length && keyAt(keys, index) === keyAt(keys, uint32At(order, i + 1))) continue;
    order[length++] = index;
  }
  return order.subarray(0, length);
}

/** Adds a deletion for each key that no edit names. */
function withDeletions(edits: Columns, more: readonly Key[]): Omit<LeafEdits, 'bytes'> {
  const deletions = more.filter((key) => edits.keys[lowerBound(edits.keys, key)] !== key);
  if (deletions.length === 0) return edits;
  const keys: Key[] = [];
  const [starts, ends, weights] = [new NumberColumn(), new NumberColumn(), new NumberColumn()];
  const push = (key: Key, start: number, end: number, weight: number): void => {
    keys.push(key);
    starts.push(start);
    ends.push(end);
    weights.push(weight);
  };
  let next = 0;
  const deleteBefore = (key: Key | undefined): void => {
    for (; next < deletions.length && (key === undefined || at(deletions, next) < key); next++) {
      push(at(deletions, next), 0, 0, 1);
    }
  };
  for (const [i, key] of edits.keys.entries()) {
    deleteBefore(key);
    push(key, float64At(edits.starts, i), float64At(edits.ends, i), edits.weights?.[i] ?? 1);
  }
  deleteBefore(undefined);
  const weighted = edits.weights === undefined ? undefined : weights.view();
  return { keys, starts: starts.view(), ends: ends.view(), weights: weighted };
}
