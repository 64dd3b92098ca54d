import { decodeValue } from '../log/message-pack.ts';
import type { Value } from '../log/value.ts';
import { at, float64At, keyAt, uint32At } from './array.ts';
import { ByteWriter, fromHex } from './bytes.ts';
import { VALUE_REF_TYPE, writeValue } from './canonical.ts';
import { NumberColumn } from './column.ts';
import type { LeafEdits } from './edit.ts';
import { checkKey, type Key, type KeyKind, lowerBound } from './key.ts';
import { ascendingOrder } from './key-order.ts';
import type { LayeredTree } from './layered.ts';
import type { NodeStore } from './node-store.ts';
import { rangeSlices } from './read.ts';

/** Values whose encoding is longer than this, in bytes, lie in chunks of their own. */
export const LARGE_VALUE_BYTES = 4096;
/** About what an edit takes in memory beside its value, in bytes. */
const EDIT_BYTES = 32;

/** Deletes the keys from `from` up to but not including `to`, or those of them that `matches` accepts. */
export interface RangeDelete {
  readonly from: Key;
  readonly to: Key;
  readonly matches?: ((key: Key) => boolean) | undefined;
}

interface PlacedRangeDelete extends RangeDelete {
  /** How many edits came before: those it outdoes, later ones outdo it. */
  readonly after: number;
}

/** What a batch says of one key. */
export type BatchAnswer = { readonly put: Value } | 'deleted' | 'unknown';

/** Edits of one map in the order in which they came, held encoded until they are applied to its tree together. */
export class EditBatch {
  readonly kind: KeyKind;
  #keys: Key[] = [];
  /** Where each value ends in the bytes; it starts where the one before ends. A deletion has no bytes. */
  readonly #ends = new NumberColumn();
  /** Absent as long as every item weighs 1. */
  #weights: number[] | undefined;
  #ascending = true;
  #hasLargeValues = false;
  #ranges: PlacedRangeDelete[] = [];
  #bytes = new ByteWriter(1024);
  /** The newest edit of each key; made when it is first asked for. */
  #newest: Map<Key, number> | undefined;

  constructor(kind: KeyKind) {
    this.kind = kind;
  }

  get isEmpty(): boolean {
    return this.#keys.length === 0 && this.#ranges.length === 0;
  }

  /** About how much memory the edits take, in bytes. */
  get heldBytes(): number {
    return this.#bytes.length + (this.#keys.length + this.#ranges.length) * EDIT_BYTES;
  }

  /** @throws KeyInvalidError, ValueUnsupportedError; the batch is then as it was */
  put(key: Key, value: Value, weight: number): void {
    checkKey(key, this.kind);
    const start = this.#bytes.length;
    try {
      writeValue(this.#bytes, value);
    } catch (error) {
      this.#bytes.length = start;
      throw error;
    }
    if (this.#bytes.length - start > LARGE_VALUE_BYTES) this.#hasLargeValues = true;
    this.#push(key, weight);
  }

  /** @throws KeyInvalidError */
  delete(key: Key): void {
    checkKey(key, this.kind);
    this.#push(key, 1);
  }

  deleteRange(range: RangeDelete): void {
    this.#ranges.push({ ...range, after: this.#keys.length });
  }

  #push(key: Key, weight: number): void {
    const index = this.#keys.length;
    if (index > 0 && !(keyAt(this.#keys, index - 1) < key)) this.#ascending = false;
    if (weight !== 1) this.#weights ??= Array.from({ length: index }, () => 1);
    this.#keys.push(key);
    this.#ends.push(this.#bytes.length);
    this.#weights?.push(weight);
    this.#newest?.set(key, index);
  }

  #start(index: number): number {
    return index === 0 ? 0 : this.#ends.at(index - 1);
  }

  /** What a reader of the map must know of a key before it looks into the tree. */
  get(key: Key): BatchAnswer {
    this.#newest ??= new Map(this.#keys.map((each, index) => [each, index]));
    const index = this.#newest.get(key);
    const outdone = this.#ranges.some((range) => range.after > (index ?? -1) && covers(range, key));
    if (outdone) return 'deleted';
    if (index === undefined) return 'unknown';
    const [start, end] = [this.#start(index), this.#ends.at(index)];
    return start === end ? 'deleted' : { put: decodeValue(this.#bytes.bytes.subarray(start, end)) };
  }

  /**
   * The edits that lead from a map to the map with this batch applied: the newest edit of each key, in order of key,
   * with deletions of ranges spelled out. Large values are handed to the store.
   */
  async resolve(store: NodeStore, map: LayeredTree): Promise<LeafEdits> {
    const order = this.#newestInOrder();
    const edits: Columns = order === undefined ? this.#columns() : this.#columnsIn(order);
    const { keys, starts, ends } = edits;
    const extra = new Set<Key>();
    for (const range of this.#ranges) {
      for (let i = lowerBound(keys, range.from); i < keys.length && keyAt(keys, i) < range.to; i++) {
        const index = order === undefined ? i : uint32At(order, i);
        if (index < range.after && covers(range, keyAt(keys, i))) ends[i] = float64At(starts, i);
      }
      for (const tree of [map.settled, map.pending]) {
        for await (const { leaf, from, to } of rangeSlices(store, tree, range)) {
          for (let i = from; i < to; i++) if (covers(range, keyAt(leaf.keys, i))) extra.add(keyAt(leaf.keys, i));
        }
      }
    }
    if (this.#hasLargeValues) this.#moveLargeValues(store, starts, ends);
    return { ...withDeletions(edits, extra), bytes: this.#bytes.bytes.subarray(0, this.#bytes.length) };
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

  /** Indexes of the newest edit of each key, in order of key; undefined where that is just the order they came in. */
  #newestInOrder(): Uint32Array | undefined {
    if (this.#ascending) return undefined;
    const keys = this.#keys;
    const order = ascendingOrder(keys);
    return order.filter((index, i) => i + 1 === order.length || keys[index] !== keys[uint32At(order, i + 1)]);
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

function covers(range: RangeDelete, key: Key): boolean {
  return key >= range.from && key < range.to && (range.matches?.(key) ?? true);
}

interface Columns {
  readonly keys: readonly Key[];
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly weights: ArrayLike<number> | undefined;
}

/** The edits with a deletion for each extra key that they do not name themselves. */
function withDeletions(edits: Columns, extra: ReadonlySet<Key>): Omit<LeafEdits, 'bytes'> {
  const deletions = [...extra].filter((key) => edits.keys[lowerBound(edits.keys, key)] !== key);
  if (deletions.length === 0) return edits;
  // Ranges may come in any order, but within each the keys ascend.
  deletions.sort((a, b) => (a < b ? -1 : 1));
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
