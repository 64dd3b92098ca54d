import type { Value } from '../codec/value.ts';
import { KeyInvalidError, StateUnsupportedError } from '../errors.ts';
import type { LateWrite } from '../tree/batch.ts';
import { type BufferedTree, getMerged, mergedItems, mergedKeys, mergedValues } from '../tree/buffered-tree.ts';
import { describeKey, type Key, type KeyKind } from '../tree/key.ts';
import { type KeySet, keysInSet } from '../tree/key-set.ts';
import { treeCount, treeWeight } from '../tree/node.ts';
import type { RangeDelete } from '../tree/range-delete.ts';
import {
  checkLimit,
  itemAtOffset,
  type KeyRange,
  type MapItem,
  type RangeRead,
  type WeighedItem,
} from '../tree/read.ts';
import type { DraftUse } from './draft-use.ts';
import type { EditedMap, MapUse } from './edited-map.ts';

/**
 * A value that is evaluated only if a snapshot, a read or a limit of memory needs it; see
 * {@link EditableMap.put}.
 */
export type LateValue<V extends Value = Value> = () => V;

/**
 * A map of a draft, as a reducer uses it. Puts and deletes reach the tree together later, but every
 * read sees them immediately. `put` copies the value and reads return new objects, always in
 * canonical form. So an object that a reducer changes later has no effect on the map.
 */
export class EditableMap implements MapUse {
  readonly kind: KeyKind;
  /** Whether edits are buffered; see `DraftOptions.buffers`. */
  readonly buffers: boolean;
  readonly #map: EditedMap;
  readonly #use: DraftUse;

  constructor(map: EditedMap, use: DraftUse, { kind, buffers }: MapUse) {
    this.#map = map;
    this.#use = use;
    this.kind = kind;
    this.buffers = buffers;
  }

  /**
   * Sets the value under a key.
   *
   * A function is a late value: it is called at most once, when a snapshot, a reader of the state
   * or a limit of memory needs the value. It is never called if a later put or delete of the key
   * comes first. So an object that takes long to encode, and changes with each entry, is encoded
   * once per snapshot. The rule: **until the key is put or deleted again, the function gives the
   * same value whenever it is called.** A snapshot may follow any entry, so it gives what it would
   * have given right after its entry. An entry that changes an object which the function captured
   * must put the key again after the change.
   *
   * The function uses no draft and returns no promise. If it throws, or gives a value that cannot
   * be stored, the log stops at the entry that put it. In a map whose history is kept, it is called
   * immediately.
   * @param weight a whole number of at least 1; see {@link EditableMap.atOffset}. Must be 1 in a
   * map that buffers
   * @throws KeyInvalidError, ValueUnsupportedError, StateUnsupportedError; then the map is
   * unchanged
   */
  put(key: Key, value: Value | LateValue, weight = 1): void {
    if (!this.#use.allowsEdit()) return;
    if (weight !== 1) this.#checkWeight(weight);
    const batch = this.#map.batch(this);
    if (typeof value === 'function') batch.putLate(key, this.#late(key, value), weight);
    else batch.put(key, value, weight);
    if (weight !== 1) this.#map.addWeight(weight);
  }

  /**
   * Removes a key. A missing key is not an error.
   * @throws KeyInvalidError
   */
  delete(key: Key): void {
    if (this.#use.allowsEdit()) this.#map.batch(this).delete(key);
  }

  /**
   * Removes the keys of a range, or the keys that its `every` selects. Takes little memory for any
   * number of keys.
   * @throws KeyInvalidError
   */
  deleteRange(range: RangeDelete): void {
    if (this.#use.allowsEdit()) this.#map.batch(this).deleteRange(range);
  }

  /** The value under a key. */
  get(key: Key): Promise<Value | undefined> {
    return this.#use.run(async () => {
      if (this.#map.batch(this).isLong) await this.#map.apply();
      const answer = this.#map.batch(this).get(key);
      if (answer === 'deleted') return undefined;
      if (answer === 'unknown') return getMerged(this.#map.store, await this.#map.applied(), key);
      return answer.put;
    });
  }

  /** Number of items. Throws for a map that buffers. */
  count(): Promise<number> {
    return this.#use.run(async () => treeCount(await this.#exact()));
  }

  /** The sum of the items' weights. Throws for a map that buffers. */
  weight(): Promise<number> {
    return this.#use.run(async () => treeWeight(await this.#exact()));
  }

  /**
   * The item that covers an offset in the sum of weights; undefined past the end. Throws for a map
   * that buffers.
   */
  atOffset(offset: number): Promise<WeighedItem | undefined> {
    return this.#use.run(async () => itemAtOffset(this.#map.store, await this.#exact(), offset));
  }

  /**
   * The items of a range in order of key, as they are at the first call of `next`.
   * @throws KeyInvalidError if a bound has the other kind of keys
   * @throws UsageError if the limit is not a whole number of at least 0
   */
  async *items(range: RangeRead = {}): AsyncGenerator<MapItem> {
    this.#checkBounds(range);
    checkLimit(range);
    const items = await this.#use.run(async () => mergedValues(this.#map.store, await this.#applied(), range));
    try {
      for (;;) {
        const step = await this.#use.run(() => items.next());
        if (step.done === true) return;
        yield step.value;
      }
    } finally {
      await items.return(undefined);
    }
  }

  /** The first key at or after the given one. */
  async firstKey(from: Key): Promise<Key | undefined> {
    this.#checkBounds({ from });
    return this.#use.run(async () => {
      for await (const { key } of mergedItems(this.#map.store, await this.#applied(), { from })) return key;
      return undefined;
    });
  }

  /**
   * The keys of a map in order, as arrays of limited length. Decodes and fetches no value. Not for
   * reducers: the lengths of the arrays depend on the write buffer.
   */
  async *keys(): AsyncGenerator<Key[]> {
    const parts = await this.#use.run(async () => mergedKeys(this.#map.store, await this.#applied()));
    try {
      for (;;) {
        const step = await this.#use.run(() => parts.next());
        if (step.done === true) return;
        yield step.value;
      }
    } finally {
      await parts.return(undefined);
    }
  }

  /**
   * The first key in each span of a set, in no promised order. Skips any number of spans without a
   * key. May return deleted keys, or several keys of a span, as long as edits are buffered. So it
   * is not for reducers.
   */
  firstKeys(set: KeySet): Promise<Key[]> {
    return this.#use.run(async () => {
      const { tree, buffer } = await this.#applied();
      const found: Key[] = [];
      for (const part of [tree, buffer]) {
        for await (const keys of keysInSet(this.#map.store, part, set, { firsts: true })) {
          for (const key of keys) found.push(key);
        }
      }
      return found;
    });
  }

  /** The map with all edits applied. */
  #applied(): Promise<BufferedTree> {
    this.#map.batch(this);
    return this.#map.apply();
  }

  #exact(): ReturnType<EditedMap['exact']> {
    if (this.buffers) throw new Error('a map that buffers edits has no exact count');
    this.#map.batch(this);
    return this.#map.exact();
  }

  #late(key: Key, value: LateValue): LateWrite {
    return this.#use.late(value, () => `the late value of ${describeKey(key)} in map '${this.#map.name}'`);
  }

  #checkWeight(weight: number): void {
    if (!Number.isSafeInteger(weight) || weight < 1) {
      throw new StateUnsupportedError(`${String(weight)} cannot be a weight in map '${this.#map.name}'`, {
        advice: 'Correct the reducer so that weights are whole numbers of at least 1, raise its version, and deploy it',
      });
    }
    if (!this.buffers) return;
    throw new StateUnsupportedError(`map '${this.#map.name}' buffers edits, so its items cannot have weights`, {
      advice: 'Correct the reducer so that it uses only one of the two, raise its version, and deploy it',
    });
  }

  #checkBounds(range: KeyRange): void {
    for (const bound of [range.from, range.to]) {
      if (bound === undefined || (typeof bound === this.kind && !Number.isNaN(bound))) continue;
      throw new KeyInvalidError(`${describeKey(bound)} cannot bound a range of map '${this.#map.name}'`, {
        advice: `Correct the reducer so that it uses ${this.kind}s, raise its version, and deploy it`,
      });
    }
  }
}

/** A map of a draft. An interface, so that a draft can be wrapped. */
export type DraftMap = Pick<EditableMap, keyof EditableMap>;
