import { KeyInvalidError, StateUnsupportedError } from '../errors.ts';
import { EditBatch } from '../tree/batch.ts';
import { type BufferedTree, emptyBufferedTree, mapTops, mergedItems } from '../tree/buffered-tree.ts';
import type { EditOptions, LeafEdits } from '../tree/edit.ts';
import type { KeyKind } from '../tree/key.ts';
import { type Tree, treeCount, treeWeight, unsavedBytes } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { removeSets } from '../tree/range-delete.ts';
import { type ApplyOptions, applyEdits, flush } from '../tree/write-buffer.ts';
import { HISTORY_MAP, MAX_HISTORY_KEY_LENGTH } from './state.ts';

/**
 * The limit for the sum of all weights of a map: 2^52, so that every sum is exact. Keys that are
 * put without a weight count too, but their number can never come near the limit.
 */
export const MAX_MAP_WEIGHT = 2 ** 52;
/** Sums up to this are not checked: items without a weight can never make up the rest. */
const UNCHECKED_WEIGHT = MAX_MAP_WEIGHT / 2;

/** Approximate memory of a map with unapplied edits, in addition to the edits, in bytes. */
const MAP_BYTES = 2048;

/** How a reducer uses a map. */
export interface MapUse {
  readonly kind: KeyKind;
  readonly buffers: boolean;
}

/**
 * One map of a draft: the map as applied so far, and a batch of unapplied edits. All edits of a
 * batch are applied together. Writes nothing to the store.
 */
export class EditedMap {
  readonly name: string;
  readonly store: NodeStore;
  /** The maps of the draft to check at the end of the entry. */
  readonly #unchecked: Set<EditedMap>;
  #map: BufferedTree;
  #batch: EditBatch;
  /** The last map whose nodes were all saved. */
  #saved: BufferedTree | undefined;
  readonly #queued: EditBatch[] = [];
  #use: MapUse | undefined;
  #applied: Promise<void> = Promise.resolve();
  /** An upper bound of the sum of explicit weights. */
  #weightBound: number;

  constructor(name: string, map: BufferedTree, store: NodeStore, unchecked: Set<EditedMap>) {
    this.name = name;
    this.store = store;
    this.#unchecked = unchecked;
    this.#map = map;
    this.#batch = this.#newBatch(map.kind);
    this.#weightBound = treeWeight(map.tree);
  }

  #newBatch(kind: KeyKind, before?: EditBatch): EditBatch {
    return new EditBatch(kind, this.name === HISTORY_MAP ? MAX_HISTORY_KEY_LENGTH : undefined, before);
  }

  /** Approximate memory of unapplied edits and unsaved nodes, in bytes. */
  get heldBytes(): number {
    return this.#unsavedBytes() + (this.#batch.isEmpty ? 0 : this.#batch.heldBytes + MAP_BYTES);
  }

  /** Remembers that a map was saved, so that checks of many maps are fast. */
  #unsavedBytes(): number {
    if (this.#map === this.#saved) return 0;
    const bytes = mapTops(this.#map).reduce((total, top) => total + unsavedBytes(top), 0);
    if (bytes === 0) this.#saved = this.#map;
    return bytes;
  }

  /**
   * The batch for edits and reads of one use. Accepts keys of the other kind if the map is empty,
   * since an empty map equals no map. If it is not empty, {@link check} and every read fail.
   */
  batch(use: MapUse): EditBatch {
    if (use !== this.#use) this.#changeUse(use);
    return this.#batch;
  }

  #changeUse(use: MapUse): void {
    const { kind } = use;
    if (kind !== this.#batch.kind) this.#changeKind(kind);
    this.#use = use;
  }

  #changeKind(kind: KeyKind): void {
    this.#applyLater(undefined);
    this.#batch = this.#newBatch(kind, this.#batch);
    this.#chain(async () => {
      if (!(await isEmpty(this.store, this.#map))) {
        throw new KeyInvalidError(`map '${this.name}' has ${this.#map.kind} keys, not ${kind} keys`, {
          advice:
            'Correct the reducer so that it empties the map before it uses other keys, raise its version, and deploy it',
        });
      }
      this.#map = emptyBufferedTree(kind);
    });
    this.#unchecked.add(this);
  }

  /** Adds the weight of a put to the bound. */
  addWeight(weight: number): void {
    this.#weightBound += weight;
    if (this.#weightBound > UNCHECKED_WEIGHT) this.#unchecked.add(this);
  }

  /**
   * Runs the checks that edits could not make immediately.
   * @throws KeyInvalidError if edits used keys of the other kind while the map had items
   * @throws StateUnsupportedError if the sum of weights exceeds {@link MAX_MAP_WEIGHT}
   */
  async check(): Promise<void> {
    await this.#applied;
    if (this.#weightBound > UNCHECKED_WEIGHT) await this.exact();
  }

  /**
   * Evaluates the late values of the batch.
   * @throws the errors of {@link EditBatch.evaluate}
   */
  evaluate(): void {
    this.#batch.evaluate();
  }

  /** Whether the map has no items. */
  async isEmpty(): Promise<boolean> {
    return isEmpty(this.store, await this.apply());
  }

  /**
   * Applies the edits of the batch.
   * @returns the map; only in memory, unless the options save it early
   */
  async apply(options?: EditOptions): Promise<BufferedTree> {
    this.#applyLater(options);
    await this.#applied;
    return this.#map;
  }

  /** The map without the edits in the batch. */
  async applied(): Promise<BufferedTree> {
    await this.#applied;
    return this.#map;
  }

  /** The tree with all edits applied and flushed. */
  async exact(): Promise<Tree> {
    const tree = await this.#tree(await this.apply());
    const weight = treeWeight(tree);
    if (weight > MAX_MAP_WEIGHT) {
      throw new StateUnsupportedError(`the weights of map '${this.name}' add up to more than ${MAX_MAP_WEIGHT}`, {
        advice: 'Correct the reducer so that it gives items smaller weights, raise its version, and deploy it',
      });
    }
    if (this.#batch.isEmpty) this.#weightBound = weight;
    return tree;
  }

  async #tree(map: BufferedTree): Promise<Tree> {
    const tree = await flush(this.store, map);
    if (this.#map === map) this.#map = tree;
    return tree.tree;
  }

  // Concurrent readers queue up. If one batch fails, all later ones fail too: its edits are neither
  // in the batch nor in the map any more.
  #applyLater(options: EditOptions | undefined): void {
    if (this.#batch.isEmpty) return;
    // Now, because the reducer may go on before the batch is applied.
    this.#batch.evaluate();
    this.#queued.push(this.#batch);
    this.#batch = this.#newBatch(this.#batch.kind, this.#batch);
    const buffers = this.#use?.buffers === true;
    this.#chain(async () => {
      const edits = await this.#takeEdits({ ...options, buffers });
      this.#map = await applyEdits(this.store, this.#map, edits.edits, edits.options);
    });
  }

  /**
   * Takes the next batch, removes its ranges from the map, and returns its edits of single keys.
   * The batch is released here, since the rest of the work needs the memory.
   */
  async #takeEdits(requested: ApplyOptions): Promise<{ readonly edits: LeafEdits; readonly options: ApplyOptions }> {
    const batch = this.#queued.shift();
    if (batch === undefined) throw new Error(`map '${this.name}' has no batch to apply`);
    // Buffered edits have no weights.
    const weighted = batch.hasWeights || treeWeight(this.#map.tree) !== treeCount(this.#map.tree);
    const options = { ...requested, buffers: requested.buffers === true && !weighted };
    const { map, rest } = await removeSets(this.store, this.#map, batch.deletedSets, options);
    this.#map = map;
    return { edits: batch.resolve(this.store, rest), options };
  }

  #chain(step: () => Promise<void>): void {
    this.#applied = this.#applied.then(step);
    // Reads of the map and the end of the entry await the chain and get the failure.
    this.#applied.catch(() => undefined);
  }
}

/** Whether a map has no items, including buffered edits. */
async function isEmpty(store: NodeStore, map: BufferedTree): Promise<boolean> {
  for await (const _ of mergedItems(store, map)) return false;
  return true;
}
