import { KeyInvalidError } from '../errors.ts';
import type { Value } from '../log/value.ts';
import { EditBatch } from '../tree/batch.ts';
import { type ApplyOptions, applyEdits, settle } from '../tree/defer.ts';
import type { EditOptions, LeafEdits } from '../tree/edit.ts';
import type { Key, KeyKind } from '../tree/key.ts';
import { type KeySet, keysInSet } from '../tree/key-set.ts';
import {
  emptyLayers,
  getLayered,
  type LayeredTree,
  layeredItems,
  layeredKeys,
  layeredValues,
} from '../tree/layered.ts';
import { type NodeStore, unsavedBytes } from '../tree/node-store.ts';
import type { RangeDelete } from '../tree/range-delete.ts';
import { removeSets } from '../tree/range-removal.ts';
import { type Item, itemAtOffset, type KeyRange, type WeighedItem } from '../tree/read.ts';
import { type Tree, treeCount, treeWeight } from '../tree/tree.ts';
import { DraftMeta, DraftUse } from './draft-use.ts';
import { EMPTY_STATE, type State } from './state.ts';

/** A state has no more maps than this: its root carries the top node of each. */
export const MAX_MAPS = 10_000;
/** About what a map with waiting edits takes in memory beside them, in bytes. */
const MAP_BYTES = 2048;

/**
 * A map that is being changed. Puts and deletes are held in a batch and reach the tree together; what reads by key sees
 * them at once, and what reads by order applies them first. Nothing is written to the store.
 */
export class DraftMap {
  readonly #store: NodeStore;
  #map: LayeredTree;
  #batch: EditBatch;
  /** The map as it was when all of its nodes were found saved. */
  #saved: LayeredTree | undefined;
  #defers = false;
  #applied: Promise<void> = Promise.resolve();
  readonly #use: DraftUse;

  constructor(store: NodeStore, map: LayeredTree, use: DraftUse) {
    this.#use = use;
    this.#store = store;
    this.#map = map;
    this.#batch = new EditBatch(map.kind);
  }

  get kind(): KeyKind {
    return this.#map.kind;
  }

  /** From now on edits may wait where too few of them share a leaf; see {@link DraftOptions.defers}. */
  defer(): void {
    this.#defers = true;
  }

  /** About how much memory the waiting edits take, and the nodes that applied edits made and nobody saved, in bytes. */
  get heldBytes(): number {
    return this.#unsavedBytes() + (this.#batch.isEmpty ? 0 : this.#batch.heldBytes + MAP_BYTES);
  }

  /** A map that was found saved stays so until edits are applied, so that a look at many maps is fast. */
  #unsavedBytes(): number {
    if (this.#map === this.#saved) return 0;
    const tops = [this.#map.settled.top, this.#map.pending.top].filter((top) => top !== undefined);
    const bytes = tops.reduce((total, top) => total + unsavedBytes(top), 0);
    if (bytes === 0) this.#saved = this.#map;
    return bytes;
  }

  /**
   * Sets the value under a key.
   * @param weight a whole number, 1 or more; see {@link DraftMap.atOffset}
   * @throws KeyInvalidError, ValueUnsupportedError
   */
  put(key: Key, value: Value, weight = 1): void {
    if (this.#use.allowsEdit()) this.#batch.put(key, value, weight);
  }

  /** Removes a key; one that is not there is no error. */
  delete(key: Key): void {
    if (this.#use.allowsEdit()) this.#batch.delete(key);
  }

  /**
   * Removes the keys of a range, or those that its `every` selects. However many there are, it takes little memory.
   * @throws KeyInvalidError
   */
  deleteRange(range: RangeDelete): void {
    if (this.#use.allowsEdit()) this.#batch.deleteRange(range);
  }

  get(key: Key): Promise<Value | undefined> {
    return this.#use.run(() => this.#get(key));
  }

  async #get(key: Key): Promise<Value | undefined> {
    if (this.#batch.isLong) await this.apply();
    const answer = this.#batch.get(key);
    if (answer === 'deleted') return undefined;
    if (answer === 'unknown') {
      // What is just being applied is in neither of the two until it is done.
      await this.#applied;
      return getLayered(this.#store, this.#map, key);
    }
    return answer.put;
  }

  /** How many items there are. Not for a map that defers. */
  count(): Promise<number> {
    return this.#use.run(async () => treeCount(await this.#exact()));
  }

  /** The sum of the items' weights. Not for a map that defers. */
  weight(): Promise<number> {
    return this.#use.run(async () => treeWeight(await this.#exact()));
  }

  /** The item that covers a place in the sum of weights; undefined past its end. Not for a map that defers. */
  atOffset(offset: number): Promise<WeighedItem | undefined> {
    return this.#use.run(async () => itemAtOffset(this.#store, await this.#exact(), offset));
  }

  /**
   * Between which numbers the count lies: the same one twice where nothing waits, since a put that waits does not know
   * whether it replaces.
   */
  countBounds(): Promise<{ readonly least: number; readonly most: number }> {
    return this.#use.run(async () => {
      const { settled, pending } = await this.apply();
      const waiting = treeCount(pending);
      return { least: Math.max(0, treeCount(settled) - waiting), most: treeCount(settled) + waiting };
    });
  }

  /** The items of a range in order of key. */
  async *items(range: KeyRange = {}): AsyncGenerator<Item> {
    const items = await this.#use.run(async () => layeredValues(this.#store, await this.apply(), range));
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

  /** The keys of a map in order, a part at a time. No value is decoded or fetched. */
  async *keys(): AsyncGenerator<Key[]> {
    const parts = await this.#use.run(async () => layeredKeys(this.#store, await this.apply()));
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

  /** The first key at or after the given one. */
  firstKey(from: Key): Promise<Key | undefined> {
    return this.#use.run(async () => {
      for await (const { key } of layeredItems(this.#store, await this.apply(), { from })) return key;
      return undefined;
    });
  }

  /**
   * The first key in each span of a set, in no promised order. Passes over spans that hold no key, however many they
   * are. May tell a key that is deleted, or more than one key of a span, as long as edits wait.
   */
  firstKeys(set: KeySet): Promise<Key[]> {
    return this.#use.run(async () => {
      const { settled, pending } = await this.apply();
      const found: Key[] = [];
      for (const tree of [settled, pending]) {
        for await (const keys of keysInSet(this.#store, tree, set, { firsts: true })) {
          for (const key of keys) found.push(key);
        }
      }
      return found;
    });
  }

  /** Brings the edits of the batch into the map and returns it; in memory, unless the options have it saved early. */
  async apply(options?: EditOptions): Promise<LayeredTree> {
    // One after the other, where several readers ask at once. Where one fails, so does all that follows: its edits are
    // neither in the batch nor in the map any more.
    if (!this.#batch.isEmpty) this.#applied = this.#applied.then(() => this.#applyBatch(options));
    await this.#applied;
    return this.#map;
  }

  async #applyBatch(options: EditOptions | undefined): Promise<void> {
    if (this.#batch.isEmpty) return;
    const applying = { ...options, defers: this.#defers };
    const edits = await this.#takeEdits(applying);
    this.#map = await applyEdits(this.#store, this.#map, edits, applying);
  }

  /**
   * The batch's edits of single keys; its ranges are removed from the map already. The batch itself is let go before
   * the long part, which needs the memory.
   */
  async #takeEdits(options: ApplyOptions): Promise<LeafEdits> {
    const batch = this.#batch;
    this.#batch = new EditBatch(batch.kind);
    const { map, rest } = await removeSets(this.#store, this.#map, batch.deletedSets, options);
    this.#map = map;
    return batch.resolve(this.#store, rest);
  }

  async #exact(): Promise<Tree> {
    if (this.#defers) throw new Error('a map that defers edits has no exact count');
    await this.apply();
    return this.#exactTree();
  }

  async #exactTree(): Promise<Tree> {
    this.#map = await settle(this.#store, this.#map);
    return this.#map.settled;
  }
}

/** What a reducer says of a map. */
export interface DraftOptions {
  /**
   * Lets edits wait where too few of them share a leaf to be worth writing it. Reading by key and by order is as ever,
   * but counts are bounds and weights are not for such a map. False by default.
   */
  readonly defers?: boolean;
}

/** A state that is being changed by folding entries into it. */
export class Draft {
  /** The metadata record: few and small values. */
  readonly meta: Map<string, Value>;
  /** Who may use the draft: everybody, or a reducer. */
  readonly use = new DraftUse();
  readonly #store: NodeStore;
  readonly #maps = new Map<string, DraftMap>();

  constructor(store: NodeStore, state: State = EMPTY_STATE) {
    this.#store = store;
    this.meta = new DraftMeta(this.use, Object.entries(state.meta));
    for (const [name, map] of state.maps) this.#maps.set(name, new DraftMap(store, map, this.use));
  }

  /**
   * The map of a name, empty if it is new.
   * @throws KeyInvalidError if the map exists with keys of the other kind, or there are {@link MAX_MAPS} others
   */
  map(name: string, kind: KeyKind, options: DraftOptions = {}): DraftMap {
    const known = this.#maps.get(name);
    if (known === undefined && this.#maps.size >= MAX_MAPS) {
      throw new KeyInvalidError(`a state has at most ${MAX_MAPS} maps, and map '${name}' is one more`, {
        advice: 'Put the items of several maps into one, under keys that begin with what was the name',
      });
    }
    const map = known ?? new DraftMap(this.#store, emptyLayers(kind), this.use);
    if (map.kind !== kind) throw new KeyInvalidError(`map '${name}' has ${map.kind} keys, not ${kind} keys`);
    if (options.defers === true) map.defer();
    this.#maps.set(name, map);
    return map;
  }

  /** About how much memory edits, nodes and large values take until the draft is saved, in bytes. */
  get heldBytes(): number {
    let total = this.#store.heldValueBytes;
    for (const map of this.#maps.values()) total += map.heldBytes;
    return total;
  }

  /**
   * The state with everything folded so far. Nodes that are new are in memory only, unless the options have them saved
   * early.
   */
  async state(options?: EditOptions): Promise<State> {
    const maps: [string, LayeredTree][] = [];
    for (const [name, map] of this.#maps) {
      const applied = await map.apply(options);
      // An empty map is the same as none, so that equal contents are equal states.
      if (applied.settled.top !== undefined) maps.push([name, applied]);
    }
    maps.sort(([a], [b]) => (a < b ? -1 : 1));
    return { meta: Object.fromEntries(this.meta), maps: new Map(maps) };
  }
}
