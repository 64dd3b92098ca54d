import type { Value } from '../log/value.ts';
import { at } from './array.ts';
import { ByteWriter, fromHex } from './bytes.ts';
import { writeValue } from './canonical.ts';
import { decodeValue, VALUE_REF_TYPE } from './canonical-reader.ts';
import type { LeafEdits } from './edit.ts';
import { checkKey, type Key, type KeyKind, lowerBound } from './key.ts';
import type { NodeStore } from './node-store.ts';
import { rangeSlices } from './read.ts';
import type { Tree } from './tree.ts';

/** Values whose encoding is longer than this, in bytes, lie in chunks of their own. */
export const LARGE_VALUE_BYTES = 4096;
const DELETED = -1;

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
  readonly #kind: KeyKind;
  #keys: Key[] = [];
  #starts: number[] = [];
  #ends: number[] = [];
  #weights: number[] = [];
  #weighted = false;
  #ascending = true;
  #ranges: PlacedRangeDelete[] = [];
  #bytes = new ByteWriter(1024);
  /** The newest edit of each key; made when it is first asked for. */
  #newest: Map<Key, number> | undefined;

  constructor(kind: KeyKind) {
    this.#kind = kind;
  }

  get isEmpty(): boolean {
    return this.#keys.length === 0 && this.#ranges.length === 0;
  }

  /** About how much memory the edits take, in bytes. */
  get heldBytes(): number {
    return this.#bytes.length + (this.#keys.length + this.#ranges.length) * 48;
  }

  /** @throws KeyInvalidError, ValueUnsupportedError; the batch is then as it was */
  put(key: Key, value: Value, weight: number): void {
    checkKey(key, this.#kind);
    const start = this.#bytes.length;
    try {
      writeValue(this.#bytes, value);
    } catch (error) {
      this.#bytes.length = start;
      throw error;
    }
    this.#push(key, start, weight);
  }

  /** @throws KeyInvalidError */
  delete(key: Key): void {
    checkKey(key, this.#kind);
    this.#push(key, DELETED, 1);
  }

  deleteRange(range: RangeDelete): void {
    this.#ranges.push({ ...range, after: this.#keys.length });
  }

  #push(key: Key, start: number, weight: number): void {
    const index = this.#keys.length;
    if (index > 0 && !(at(this.#keys, index - 1) < key)) this.#ascending = false;
    this.#keys.push(key);
    this.#starts.push(start);
    this.#ends.push(this.#bytes.length);
    this.#weights.push(weight);
    if (weight !== 1) this.#weighted = true;
    this.#newest?.set(key, index);
  }

  /** What a reader of the map must know of a key before it looks into the tree. */
  get(key: Key): BatchAnswer {
    this.#newest ??= new Map(this.#keys.map((each, index) => [each, index]));
    const index = this.#newest.get(key) ?? DELETED;
    const outdone = this.#ranges.some((range) => range.after > index && covers(range, key));
    if (outdone) return 'deleted';
    if (index === DELETED) return 'unknown';
    const start = at(this.#starts, index);
    if (start === DELETED) return 'deleted';
    return { put: decodeValue(this.#bytes.bytes.subarray(start, at(this.#ends, index))) };
  }

  /**
   * The edits that lead from a tree to the tree with this batch applied: the newest edit of each key, in order of key,
   * with deletions of ranges spelled out. Large values are handed to the store.
   */
  async resolve(store: NodeStore, tree: Tree): Promise<LeafEdits> {
    const order = this.#newestInOrder();
    const sorted = order.map((index) => at(this.#keys, index));
    const starts = order.map((index) => at(this.#starts, index));
    const ends = order.map((index) => at(this.#ends, index));
    const weights = this.#weighted ? order.map((index) => at(this.#weights, index)) : undefined;
    const edits = { keys: sorted, starts, ends, weights };
    const extra = new Set<Key>();
    for (const range of this.#ranges) {
      for (let i = lowerBound(sorted, range.from); i < sorted.length && at(sorted, i) < range.to; i++) {
        if (at(order, i) < range.after && covers(range, at(sorted, i))) starts[i] = DELETED;
      }
      for await (const { leaf, from, to } of rangeSlices(store, tree, range)) {
        for (let i = from; i < to; i++) if (covers(range, at(leaf.keys, i))) extra.add(at(leaf.keys, i));
      }
    }
    this.#moveLargeValues(store, starts, ends);
    return { ...withDeletions(edits, extra), bytes: this.#bytes.bytes };
  }

  /** Indexes of the newest edit of each key, in order of key. */
  #newestInOrder(): readonly number[] {
    const order = Array.from(this.#keys, (_, index) => index);
    if (this.#ascending) return order;
    const keys = this.#keys;
    order.sort((a, b) => {
      const [left, right] = [at(keys, a), at(keys, b)];
      return left < right ? -1 : left > right ? 1 : a - b;
    });
    return order.filter((index, i) => i + 1 === order.length || at(keys, index) !== at(keys, at(order, i + 1)));
  }

  #moveLargeValues(store: NodeStore, starts: number[], ends: number[]): void {
    for (let i = 0; i < starts.length; i++) {
      const [start, end] = [at(starts, i), at(ends, i)];
      if (start === DELETED || end - start <= LARGE_VALUE_BYTES) continue;
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

type Columns = Omit<LeafEdits, 'bytes'>;

/** The edits with a deletion for each extra key that they do not name themselves. */
function withDeletions(edits: Columns, extra: ReadonlySet<Key>): Columns {
  const deletions = [...extra].filter((key) => edits.keys[lowerBound(edits.keys, key)] !== key);
  if (deletions.length === 0) return edits;
  // Ranges may come in any order, but within each the keys ascend.
  deletions.sort((a, b) => (a < b ? -1 : 1));
  const merged: { keys: Key[]; starts: number[]; ends: number[]; weights: number[] } = {
    keys: [],
    starts: [],
    ends: [],
    weights: [],
  };
  let next = 0;
  const deleteBefore = (key: Key | undefined): void => {
    for (; next < deletions.length && (key === undefined || at(deletions, next) < key); next++) {
      merged.keys.push(at(deletions, next));
      merged.starts.push(DELETED);
      merged.ends.push(DELETED);
      merged.weights.push(1);
    }
  };
  for (const [i, key] of edits.keys.entries()) {
    deleteBefore(key);
    merged.keys.push(key);
    merged.starts.push(at(edits.starts, i));
    merged.ends.push(at(edits.ends, i));
    merged.weights.push(edits.weights?.[i] ?? 1);
  }
  deleteBefore(undefined);
  return { ...merged, weights: edits.weights === undefined ? undefined : merged.weights };
}
