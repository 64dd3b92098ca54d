import { at } from './array.ts';
import { itemBytes, meanNodeBytes, type NodeShape } from './boundary.ts';
import { ByteWriter } from './bytes.ts';
import { NumberColumn } from './column.ts';
import { childIndex, LevelCursor } from './cursor.ts';
import { editTree, type LeafEdits } from './edit.ts';
import type { Key } from './key.ts';
import { lowerBound } from './key.ts';
import { isTombstone, type LayeredTree, settledLayers, TOMBSTONE } from './layered.ts';
import { isLeaf, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { rangeSlices } from './read.ts';

/**
 * Edits for one leaf that a snapshot typically brings where they are scattered, as a share of the leaf: 10,000 of them
 * in a million cells are this many.
 */
const TYPICAL_SHARE = 0.01;

/**
 * From how many bytes of waiting edits on (as {@link itemBytes} counts) it is worth writing a leaf.
 *
 * A chunk costs a PUT and, until the collector takes the one it replaces, storage: with S3's list prices of us-east-1
 * $0.000005 and, for 45 kB over a month, $0.000001. Writing a leaf costs one chunk, once. Letting edits wait costs, with
 * every snapshot, their share of the chunks of waiting edits, which are rewritten. Since both are chunks the price of
 * one cancels out: where every snapshot brings e bytes for a leaf of c bytes, waiting for k snapshots costs
 * e/c + 2e/c + … + ke/c, about k²e/2c chunks, and is even with writing at k = √(2c/e). By then k·e = √(2ce) bytes wait.
 * To wait until waiting has cost what acting costs is never more than twice as dear as the best one could have done (the
 * ski rental problem). The root keeps the answer from depending much on e, so one typical share does for all.
 */
export function writeEditsBytes(shape: NodeShape): number {
  return Math.sqrt(2 * TYPICAL_SHARE) * meanNodeBytes(shape);
}

/** The edits of one leaf's range, `from` up to but not including `to`. */
interface LeafGroup {
  readonly from: number;
  readonly to: number;
  /** First key of the leaf's range; undefined where the range has no beginning. */
  readonly start: Key | undefined;
  /** First key past the leaf's range; undefined where it has no end. */
  readonly end: Key | undefined;
}

/**
 * A map with edits applied. Those of which enough share a leaf are written into it, with what waits there already; the
 * others wait. A map of one leaf lets nothing wait, since that leaf travels in the root anyway.
 * @param edits of which every item weighs 1
 */
export async function deferEdits(store: NodeStore, map: LayeredTree, edits: LeafEdits): Promise<LayeredTree> {
  if (edits.keys.length === 0) return map;
  if (isSmall(map)) return settledLayers(await editTree(store, map.settled, edits));
  const enough = writeEditsBytes(store.shape);
  const written = new EditList();
  const waiting = new EditList();
  for await (const group of leafGroups(store, map, edits)) {
    const older = await waitingEdits(store, map, group);
    if (older.size + editBytes(edits, group) < enough) waiting.addEdits(edits, group, { tombstones: true });
    else {
      written.merge(older, edits, group);
      for (const key of older.keys) waiting.add(key, EMPTY, 0, 0);
    }
  }
  const deferred = {
    kind: map.kind,
    settled: await editTree(store, map.settled, written.edits()),
    pending: await editTree(store, map.pending, waiting.edits()),
  };
  return isSmall(deferred) ? settle(store, deferred) : deferred;
}

/** How much edits take while they wait, as {@link itemBytes} counts. */
function editBytes(edits: LeafEdits, { from, to }: LeafGroup): number {
  let bytes = 0;
  for (let i = from; i < to; i++) {
    const length = at(edits.ends, i) - at(edits.starts, i);
    bytes += itemBytes(at(edits.keys, i), length === 0 ? TOMBSTONE.length : length);
  }
  return bytes;
}

/** Whether a map has no leaf below its top, in which case nothing waits. */
function isSmall({ settled: { top } }: LayeredTree): boolean {
  return top === undefined || isLeaf(top);
}

/** A map with all waiting edits written: the tree that a build from nothing gives. */
export async function settle(store: NodeStore, map: LayeredTree): Promise<LayeredTree> {
  if (map.pending.top === undefined) return map;
  const all = await waitingEdits(store, map, { start: undefined, end: undefined });
  const settled = new EditList();
  settled.merge(all, NO_EDITS, { from: 0, to: 0 });
  return settledLayers(await editTree(store, map.settled, settled.edits()));
}

const EMPTY = new Uint8Array(0);
const NO_EDITS: LeafEdits = { keys: [], bytes: EMPTY, starts: [], ends: [], weights: undefined };

/** Groups edits by the leaf of the settled tree that they fall into. Reads inner nodes only. */
async function* leafGroups(store: NodeStore, { settled }: LayeredTree, edits: LeafEdits): AsyncGenerator<LeafGroup> {
  if (settled.top === undefined) return;
  const cursor = new LevelCursor(store, settled.top, 1);
  let place = await cursor.seek(at(edits.keys, 0));
  const first = settled.top.keys[0];
  for (let from = 0; from < edits.keys.length; ) {
    const key = at(edits.keys, from);
    const nextNode = cursor.nextKey();
    if (nextNode !== undefined && nextNode <= key) place = await cursor.seek(key);
    const node = place.node;
    if (isLeaf(node)) throw new Error('a level cursor at level 1 stands on a leaf');
    const index = childIndex(node, key);
    const start = at(node.keys, index);
    const end = node.keys[index + 1] ?? cursor.nextKey();
    const to = end === undefined ? edits.keys.length : lowerBound(edits.keys, end);
    yield { from, to, start: start === first ? undefined : start, end };
    from = to;
  }
}

/** What waits in a range of keys. */
async function waitingEdits(
  store: NodeStore,
  map: LayeredTree,
  range: { readonly start: Key | undefined; readonly end: Key | undefined },
): Promise<EditList> {
  const list = new EditList();
  for await (const { leaf, from, to } of rangeSlices(store, map.pending, { from: range.start, to: range.end })) {
    for (let i = from; i < to; i++) {
      const encoded = valueBytes(leaf, i);
      list.add(at(leaf.keys, i), encoded, 0, isTombstone(encoded) ? 0 : encoded.length);
    }
  }
  return list;
}

/** Edits in order of key, put together from several sources. */
class EditList {
  readonly keys: Key[] = [];
  /** As {@link itemBytes} counts. */
  size = 0;
  readonly #bytes = new ByteWriter(4096);
  readonly #starts = new NumberColumn();
  readonly #ends = new NumberColumn();

  /** Adds an edit whose value is encoded in `bytes` from `start` to `end`; a deletion where these are equal. */
  add(key: Key, bytes: Uint8Array, start: number, end: number): void {
    this.keys.push(key);
    this.#starts.push(this.#bytes.length);
    this.#bytes.append(bytes.subarray(start, end));
    this.#ends.push(this.#bytes.length);
    this.size += itemBytes(key, end - start);
  }

  /** Adds some of other edits; with `tombstones`, their deletions as tombstones, which is how they wait. */
  addEdits(
    edits: LeafEdits,
    { from, to }: { readonly from: number; readonly to: number },
    { tombstones }: { readonly tombstones: boolean },
  ): void {
    for (let i = from; i < to; i++) {
      const [start, end] = [at(edits.starts, i), at(edits.ends, i)];
      if (start === end && tombstones) this.add(at(edits.keys, i), TOMBSTONE, 0, TOMBSTONE.length);
      else this.add(at(edits.keys, i), edits.bytes, start, end);
    }
  }

  /** Adds older edits and newer ones, of which the newer win. */
  merge(older: EditList, newer: LeafEdits, { from, to }: { readonly from: number; readonly to: number }): void {
    const old = older.edits();
    let next = 0;
    for (let i = from; i < to; i++) {
      const upTo = lowerBound(older.keys, at(newer.keys, i));
      this.addEdits(old, { from: next, to: upTo }, { tombstones: false });
      next = older.keys[upTo] === newer.keys[i] ? upTo + 1 : upTo;
      this.addEdits(newer, { from: i, to: i + 1 }, { tombstones: false });
    }
    this.addEdits(old, { from: next, to: older.keys.length }, { tombstones: false });
  }

  edits(): LeafEdits {
    return {
      keys: this.keys,
      bytes: this.#bytes.bytes,
      starts: this.#starts.view(),
      ends: this.#ends.view(),
      weights: undefined,
    };
  }
}
