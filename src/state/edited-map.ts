import { KeyInvalidError, StateUnsupportedError } from '../errors.ts';
import { EditBatch } from '../tree/batch.ts';
import { type BufferedTree, emptyBufferedTree, mergedItems } from '../tree/buffered-tree.ts';
import type { EditOptions, LeafEdits } from '../tree/edit.ts';
import type { KeyKind } from '../tree/key.ts';
import { type NodeStore, unsavedBytes } from '../tree/node-store.ts';
import { removeSets } from '../tree/range-removal.ts';
import { type Tree, treeCount, treeWeight } from '../tree/tree.ts';
import { type ApplyOptions, applyEdits, flush } from '../tree/write-buffer.ts';

/**
 * The most that all items of a map may weigh together, so that every sum of weights is exact: 2^52. Keys that are put
 * without a weight count too, but there can never be so many of them that their number matters.
 */
export const MAX_MAP_WEIGHT = 2 ** 52;
/** Up to here weights are not looked at: items without a weight can never make up the rest. */
const UNCHECKED_WEIGHT = MAX_MAP_WEIGHT / 2;

/** About what a map with waiting edits takes in memory beside them, in bytes. */
const MAP_BYTES = 2048;

/** How a reducer uses a map. */
export interface MapUse {
  readonly kind: KeyKind;
  readonly buffers: boolean;
}

/**
 * One map of a draft: its tree, and the edits that are not in the tree yet. All edits of a batch reach the tree
 * together. Nothing is written to the store.
 */
export class EditedMap {
  readonly name: string;
  readonly store: NodeStore;
  /** The maps of the draft that the end of the entry has to check. */
  readonly #unchecked: Set<EditedMap>;
  #map: BufferedTree;
  #batch: EditBatch;
  /** The map as it was when all of its nodes were found saved. */
  #saved: BufferedTree | undefined;
  /** Batches whose turn to be applied has not come. */
  readonly #waiting: EditBatch[] = [];
  #use: MapUse | undefined;
  #applied: Promise<void> = Promise.resolve();
  /** At least what all items with a weight weigh together. */
  #weightBound: number;

  constructor(name: string, map: BufferedTree, store: NodeStore, unchecked: Set<EditedMap>) {
    this.name = name;
    this.store = store;
    this.#unchecked = unchecked;
    this.#map = map;
    this.#batch = new EditBatch(map.kind);
    this.#weightBound = treeWeight(map.tree);
  }

  /** About how much memory the waiting edits take, and the nodes that applied edits made and nobody saved, in bytes. */
  get heldBytes(): number {
    return this.#unsavedBytes() + (this.#batch.isEmpty ? 0 : this.#batch.heldBytes + MAP_BYTES);
  }

  /** A map that was found saved stays so until edits are applied, so that a look at many maps is fast. */
  #unsavedBytes(): number {
    if (this.#map === this.#saved) return 0;
    const tops = [this.#map.tree.top, this.#map.buffer.top].filter((top) => top !== undefined);
    const bytes = tops.reduce((total, top) => total + unsavedBytes(top), 0);
    if (bytes === 0) this.#saved = this.#map;
    return bytes;
  }

  /**
   * The batch for edits and reads of one use. Keys of another kind than the map's are taken as long as the map is
   * empty, since an empty map is the same as none: {@link check} and every read fail if it is not.
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
    this.#batch = new EditBatch(kind);
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

  /** Counts a weight that is being put. */
  addWeight(weight: number): void {
    this.#weightBound += weight;
    if (this.#weightBound > UNCHECKED_WEIGHT) this.#unchecked.add(this);
  }

  /**
   * Finds out what could not be known while edits were made.
   * @throws KeyInvalidError if keys of another kind came while the map had items
   * @throws StateUnsupportedError if the items weigh too much together
   */
  async check(): Promise<void> {
    await this.#applied;
    if (this.#weightBound > UNCHECKED_WEIGHT) await this.exact();
  }

  /** Whether the map has no items. */
  async isEmpty(): Promise<boolean> {
    return isEmpty(this.store, await this.apply());
  }

  /** Brings the edits of the batch into the map and returns it; in memory, unless the options have it saved early. */
  async apply(options?: EditOptions): Promise<BufferedTree> {
    this.#applyLater(options);
    await this.#applied;
    return this.#map;
  }

  /** The map without the edits that are still in the batch. */
  async applied(): Promise<BufferedTree> {
    await this.#applied;
    return this.#map;
  }

  /** The tree with all edits in it. */
  async exact(): Promise<Tree> {
    const tree = await this.#tree(await this.apply());
    const weight = treeWeight(tree);
    if (weight > MAX_MAP_WEIGHT) {
      throw new StateUnsupportedError(
        `the items of map '${this.name}' weigh more than ${MAX_MAP_WEIGHT} together, which sums cannot say exactly`,
        { advice: 'Correct the reducer so that it puts smaller weights, raise its version, and deploy it' },
      );
    }
    if (this.#batch.isEmpty) this.#weightBound = weight;
    return tree;
  }

  async #tree(map: BufferedTree): Promise<Tree> {
    const tree = await flush(this.store, map);
    if (this.#map === map) this.#map = tree;
    return tree.tree;
  }

  // One after the other, if several readers ask at the same time. If one fails, so does all that follows: its edits are
  // neither in the batch nor in the map any more.
  #applyLater(options: EditOptions | undefined): void {
    if (this.#batch.isEmpty) return;
    this.#waiting.push(this.#batch);
    this.#batch = new EditBatch(this.#batch.kind);
    const buffers = this.#use?.buffers === true;
    this.#chain(async () => {
      const edits = await this.#takeEdits({ ...options, buffers });
      this.#map = await applyEdits(this.store, this.#map, edits.edits, edits.options);
    });
  }

  /**
   * The edits of single keys of the next batch; its ranges are removed from the map already. The batch itself is let go
   * before the long part, which needs the memory.
   */
  async #takeEdits(asked: ApplyOptions): Promise<{ readonly edits: LeafEdits; readonly options: ApplyOptions }> {
    const batch = this.#waiting.shift();
    if (batch === undefined) throw new Error(`map '${this.name}' has no batch to apply`);
    // Waiting edits have no weights.
    const weighted = batch.hasWeights || treeWeight(this.#map.tree) !== treeCount(this.#map.tree);
    const options = { ...asked, buffers: asked.buffers === true && !weighted };
    const { map, rest } = await removeSets(this.store, this.#map, batch.deletedSets, options);
    this.#map = map;
    return { edits: batch.resolve(this.store, rest), options };
  }

  #chain(step: () => Promise<void>): void {
    this.#applied = this.#applied.then(step);
    // Whoever reads the map is told of a failure, and so is the end of the entry.
    this.#applied.catch(() => undefined);
  }
}

/** Whether a map has no items, waiting edits considered. */
async function isEmpty(store: NodeStore, map: BufferedTree): Promise<boolean> {
  for await (const _ of mergedItems(store, map)) return false;
  return true;
}
