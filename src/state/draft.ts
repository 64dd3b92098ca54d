import type { Value } from '../codec/value.ts';
import { KeyInvalidError, StateUnsupportedError } from '../errors.ts';
import {
  type BufferedTree,
  emptyBufferedTree,
  getMerged,
  mergedItems,
  mergedKeys,
  mergedValues,
} from '../tree/buffered-tree.ts';
import type { EditOptions } from '../tree/edit.ts';
import { describeKey, type Key, type KeyKind, MAX_STRING_KEY_LENGTH } from '../tree/key.ts';
import { type KeySet, keysInSet } from '../tree/key-set.ts';
import type { NodeStore } from '../tree/node-store.ts';
import type { RangeDelete } from '../tree/range-delete.ts';
import { type Item, itemAtOffset, type KeyRange, type RangeRead, type WeighedItem } from '../tree/read.ts';
import { treeCount, treeWeight } from '../tree/tree.ts';
import { DraftUse } from './draft-use.ts';
import { EditedMap, type MapUse } from './edited-map.ts';
import { DraftMeta } from './meta.ts';
import { EMPTY_STATE, MUTATIONS_MAP, type State } from './state.ts';

/**
 * A map of a draft, as a reducer uses it. Puts and deletes reach the tree together later, but every
 * read sees them immediately. `put` copies the value and reads return new objects, always in
 * canonical form. So an object that a reducer changes later has no effect on the map.
 */
export class DraftMap implements MapUse {
  readonly kind: KeyKind;
  /** Whether edits are buffered; see {@link DraftOptions.buffers}. */
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
   * @param weight a whole number from 1 on; see {@link DraftMap.atOffset}. Must be 1 in a map that
   * buffers
   * @throws KeyInvalidError, ValueUnsupportedError, StateUnsupportedError; then the map is
   * unchanged
   */
  put(key: Key, value: Value, weight = 1): void {
    if (!this.#use.allowsEdit()) return;
    if (weight !== 1) this.#checkWeight(weight);
    this.#map.batch(this).put(key, value, weight);
    if (weight !== 1) this.#map.addWeight(weight);
  }

  /**
   * Removes a key. A missing key is no error.
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
   */
  async *items(range: RangeRead = {}): AsyncGenerator<Item> {
    this.#checkBounds(range);
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

  #checkWeight(weight: number): void {
    if (!Number.isSafeInteger(weight) || weight < 1) {
      throw new StateUnsupportedError(`${String(weight)} cannot be a weight in map '${this.#map.name}'`, {
        advice: 'Correct the reducer so that weights are whole numbers from 1 on, raise its version, and deploy it',
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

/** How a reducer wants to use a map. */
export interface DraftOptions {
  /**
   * Buffers edits until enough of them fall into one leaf to be worth writing it. Reads by key and
   * by order are not affected, but the map has no counts, weights and offsets. False by default.
   */
  readonly buffers?: boolean;
}

/** The most maps of a state. The root contains the top node of each map. */
export const MAX_MAPS = 10_000;

interface UsedMap {
  readonly edited: EditedMap;
  readonly uses: DraftMap[];
}

/**
 * A mutable state into which entries are folded. A reducer cannot tell a draft that has folded
 * entries from a draft that was loaded from a snapshot of the same state.
 */
export class Draft {
  /** The metadata record: few and small values. */
  readonly meta: DraftMeta;
  /** Controls who may use the draft: everyone, or only the reducer. */
  readonly use = new DraftUse();
  readonly #store: NodeStore;
  /** Lets a fold use the map of mutations beside the reducer. */
  readonly #mutationsUse = new DraftUse();
  readonly #maps = new Map<string, UsedMap>();
  readonly #unchecked = new Set<EditedMap>();

  constructor(store: NodeStore, state: State = EMPTY_STATE) {
    this.#store = store;
    this.meta = new DraftMeta(this.use, state.meta);
    for (const [name, map] of state.maps) this.#addMap(name, map);
  }

  /**
   * The map with a name; a new map is empty. An empty map accepts keys of either kind. If the map
   * has items with keys of the other kind, every read of it fails, and so does the entry.
   * @throws StateUnsupportedError if the name or the kind of keys is invalid, or the name is
   * reserved
   */
  map(name: string, kind: KeyKind, options: DraftOptions = {}): DraftMap {
    if (name === MUTATIONS_MAP) {
      throw new StateUnsupportedError(`the map '${name}' is reserved for logfold`, {
        advice: 'Correct the reducer so that it gives its map another name, raise its version, and deploy it',
      });
    }
    return this.#use(name, kind, { buffers: options.buffers === true, use: this.use });
  }

  /** The highest applied mutation of each client. Not for reducers. */
  get mutations(): DraftMap {
    return this.#use(MUTATIONS_MAP, 'string', { buffers: true, use: this.#mutationsUse });
  }

  #use(name: string, kind: KeyKind, how: { readonly buffers: boolean; readonly use: DraftUse }): DraftMap {
    const { buffers } = how;
    const { edited, uses } = this.#maps.get(name) ?? this.#newMap(name, kind);
    const known = uses.find((use) => use.kind === kind && use.buffers === buffers);
    if (known !== undefined) return known;
    checkKind(kind);
    const use = new DraftMap(edited, how.use, { kind, buffers });
    uses.push(use);
    return use;
  }

  /**
   * Checks at the end of an entry that a snapshot can hold the state.
   * @returns undefined if there is nothing to check
   * @throws KeyInvalidError, StateUnsupportedError if no snapshot can hold the state
   */
  checkEntry(): Promise<void> | undefined {
    return this.hasUnchecked ? this.use.run(() => this.#checkMaps()) : undefined;
  }

  /** Whether {@link checkEntry} has something to check. */
  get hasUnchecked(): boolean {
    return this.#unchecked.size > 0 || this.#maps.size > MAX_MAPS;
  }

  /** Approximate memory of edits, nodes and large values until the draft is saved, in bytes. */
  get heldBytes(): number {
    let total = this.#store.heldValueBytes;
    for (const { edited } of this.#maps.values()) total += edited.heldBytes;
    return total;
  }

  /**
   * The state with all edits so far. New nodes are only in memory, unless the options save them
   * early.
   */
  async state(options?: EditOptions): Promise<State> {
    await this.#checkMaps();
    const maps: [string, BufferedTree][] = [];
    for (const [name, { edited }] of this.#maps) {
      const applied = await edited.apply(options);
      // An empty map equals no map, so that equal contents are equal states.
      if (applied.tree.top !== undefined) maps.push([name, applied]);
    }
    maps.sort(([a], [b]) => (a < b ? -1 : 1));
    return { meta: Object.fromEntries(this.meta), maps: new Map(maps) };
  }

  #newMap(name: string, kind: KeyKind): UsedMap {
    if (typeof name !== 'string' || !name.isWellFormed() || name.length > MAX_STRING_KEY_LENGTH) {
      throw new StateUnsupportedError(`${describeKey(name)} cannot be the name of a map`, {
        advice: `Correct the reducer so that it uses well-formed strings of at most ${MAX_STRING_KEY_LENGTH} UTF-16 code units, raise its version, and deploy it`,
      });
    }
    checkKind(kind);
    return this.#addMap(name, emptyBufferedTree(kind));
  }

  #addMap(name: string, map: BufferedTree): UsedMap {
    const used: UsedMap = { edited: new EditedMap(name, map, this.#store, this.#unchecked), uses: [] };
    this.#maps.set(name, used);
    return used;
  }

  async #checkMaps(): Promise<void> {
    for (const map of this.#unchecked) await map.check();
    this.#unchecked.clear();
    if (this.#maps.size <= MAX_MAPS) return;
    // Empty maps are not part of the state, and a reducer does not know of the mutations.
    let count = 0;
    for (const [name, { edited }] of this.#maps) {
      if (name !== MUTATIONS_MAP && !(await edited.isEmpty())) count++;
    }
    if (count <= MAX_MAPS) return;
    throw new StateUnsupportedError(`the state has ${count} maps and exceeds the limit of ${MAX_MAPS}`, {
      advice:
        'Correct the reducer so that it puts the items of several maps into one, under keys that begin with the old name; then raise its version, and deploy it',
    });
  }
}

function checkKind(kind: unknown): void {
  if (kind === 'number' || kind === 'string') return;
  throw new StateUnsupportedError(`${describeKey(kind)} is not a kind of keys`, {
    advice: "Correct the reducer so that it uses 'number' or 'string', raise its version, and deploy it",
  });
}
