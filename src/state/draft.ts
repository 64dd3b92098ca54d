import { KeyInvalidError } from '../errors.ts';
import type { Value } from '../log/value.ts';
import { at } from '../tree/array.ts';
import { EditBatch, type RangeDelete } from '../tree/batch.ts';
import { editTree } from '../tree/edit.ts';
import type { Key, KeyKind } from '../tree/key.ts';
import type { NodeStore } from '../tree/node-store.ts';
import {
  getValue,
  type Item,
  itemAtOffset,
  type KeyRange,
  rangeItems,
  rangeSlices,
  type WeighedItem,
} from '../tree/read.ts';
import { emptyTree, type Tree, treeCount, treeWeight } from '../tree/tree.ts';
import { EMPTY_STATE, type State } from './state.ts';

/**
 * A map that is being changed. Puts and deletes are held in a batch and reach the tree together; what reads by key sees
 * them at once, and what reads by order applies them first. Nothing is written to the store.
 */
export class DraftMap {
  readonly #store: NodeStore;
  #tree: Tree;
  #batch: EditBatch;

  constructor(store: NodeStore, tree: Tree) {
    this.#store = store;
    this.#tree = tree;
    this.#batch = new EditBatch(tree.kind);
  }

  /** About how much memory the waiting edits take, in bytes. */
  get heldBytes(): number {
    return this.#batch.heldBytes;
  }

  /**
   * Sets the value under a key.
   * @param weight a whole number, 1 or more; see {@link DraftMap.atOffset}
   * @throws KeyInvalidError, ValueUnsupportedError
   */
  put(key: Key, value: Value, weight = 1): void {
    this.#batch.put(key, value, weight);
  }

  /** Removes a key; one that is not there is no error. */
  delete(key: Key): void {
    this.#batch.delete(key);
  }

  /** Removes the keys of a range, or those of them that `matches` accepts. */
  deleteRange(range: RangeDelete): void {
    this.#batch.deleteRange(range);
  }

  async get(key: Key): Promise<Value | undefined> {
    const answer = this.#batch.get(key);
    if (answer === 'deleted') return undefined;
    if (answer === 'unknown') return getValue(this.#store, this.#tree, key);
    return answer.put;
  }

  /** How many items there are. */
  async count(): Promise<number> {
    return treeCount(await this.apply());
  }

  /** The sum of the items' weights. */
  async weight(): Promise<number> {
    return treeWeight(await this.apply());
  }

  /** The item that covers a place in the sum of weights; undefined past its end. */
  async atOffset(offset: number): Promise<WeighedItem | undefined> {
    return itemAtOffset(this.#store, await this.apply(), offset);
  }

  /** The items of a range in order of key. */
  async *items(range: KeyRange = {}): AsyncGenerator<Item> {
    yield* rangeItems(this.#store, await this.apply(), range);
  }

  /** The first key at or after the given one. */
  async firstKey(from: Key): Promise<Key | undefined> {
    for await (const slice of rangeSlices(this.#store, await this.apply(), { from }))
      return at(slice.leaf.keys, slice.from);
    return undefined;
  }

  /** Brings the waiting edits into the tree, in memory, and returns it. */
  async apply(): Promise<Tree> {
    if (this.#batch.isEmpty) return this.#tree;
    const edits = await this.#batch.resolve(this.#store, this.#tree);
    this.#tree = await editTree(this.#store, this.#tree, edits);
    this.#batch = new EditBatch(this.#tree.kind);
    return this.#tree;
  }
}

/** A state that is being changed by folding entries into it. */
export class Draft {
  /** The metadata record: few and small values. */
  readonly meta: Map<string, Value>;
  readonly #store: NodeStore;
  readonly #maps = new Map<string, { readonly kind: KeyKind; readonly map: DraftMap }>();

  constructor(store: NodeStore, state: State = EMPTY_STATE) {
    this.#store = store;
    this.meta = new Map(Object.entries(state.meta));
    for (const [name, tree] of state.maps) this.#maps.set(name, { kind: tree.kind, map: new DraftMap(store, tree) });
  }

  /**
   * The map of a name, empty if it is new.
   * @throws KeyInvalidError where the map exists with keys of the other kind
   */
  map(name: string, kind: KeyKind): DraftMap {
    const known = this.#maps.get(name);
    if (known === undefined) {
      const map = new DraftMap(this.#store, emptyTree(kind));
      this.#maps.set(name, { kind, map });
      return map;
    }
    if (known.kind !== kind) throw new KeyInvalidError(`map '${name}' has ${known.kind} keys, not ${kind} keys`);
    return known.map;
  }

  /** About how much memory the waiting edits take, in bytes. */
  get heldBytes(): number {
    let total = 0;
    for (const { map } of this.#maps.values()) total += map.heldBytes;
    return total;
  }

  /** The state with everything folded so far. Nodes that are new are in memory only. */
  async state(): Promise<State> {
    const maps: [string, Tree][] = [];
    for (const [name, { map }] of this.#maps) {
      const tree = await map.apply();
      // An empty map is the same as none, so that equal contents are equal states.
      if (tree.top !== undefined) maps.push([name, tree]);
    }
    maps.sort(([a], [b]) => (a < b ? -1 : 1));
    return { meta: Object.fromEntries(this.meta), maps: new Map(maps) };
  }
}
