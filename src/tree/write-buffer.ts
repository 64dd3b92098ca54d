import { ByteWriter } from '../codec/bytes.ts';
import { float64At, keyAt, NumberColumn, uint32At } from './array.ts';
import { type BufferedTree, isFlushed, isTombstone, TOMBSTONE, withoutBuffer } from './buffered-tree.ts';
import { itemBytes, meanNodeBytes, type NodeShape } from './chunk-boundary.ts';
import { childIndex, LevelCursor } from './cursor.ts';
import { EDITS_AT_ONCE, type EditOptions, editTree, type LeafEdits } from './edit.ts';
import type { Key } from './key.ts';
import { lowerBound } from './key.ts';
import { isLeaf } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { type LeafSlice, rangeSlices } from './read.ts';
import type { Tree } from './tree.ts';

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
export function flushThresholdBytes(shape: NodeShape): number {
  return Math.sqrt(2 * TYPICAL_SHARE) * meanNodeBytes(shape);
}

/** The edits of one leaf's range, `from` up to but not including `to`. */
interface LeafGroup extends Span {
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
export async function bufferEdits(
  store: NodeStore,
  map: BufferedTree,
  edits: LeafEdits,
  options?: EditOptions,
): Promise<BufferedTree> {
  if (edits.keys.length === 0) return map;
  if (isSmall(map)) return withoutBuffer(await editTree(store, map.tree, edits, options));
  const enough = flushThresholdBytes(store.shape);
  const arena = new EditArena(edits);
  const decisions: Decision[] = [];
  for await (const group of leafGroups(store, map, edits)) {
    const older = await bufferedEdits(store, map.buffer, group, arena);
    const waits = (older?.size ?? 0) + editBytes(edits, group) < enough;
    decisions.push({ group, older, waits });
  }
  // So it is while a large log is folded for the first time, when copies of all edits would be missed most.
  const plain = decisions.every(({ older, waits }) => !waits && older === undefined);
  const split = plain ? { written: edits, waiting: undefined } : splitEdits(edits, arena, decisions);
  const deferred = {
    kind: map.kind,
    tree: await editTree(store, map.tree, split.written, options),
    buffer: split.waiting === undefined ? map.buffer : await editTree(store, map.buffer, split.waiting, options),
  };
  return flushSmall(store, deferred, options);
}

export interface ApplyOptions extends EditOptions {
  /** Lets edits wait; see {@link bufferEdits}. */
  readonly buffers?: boolean | undefined;
}

/** A map with edits applied: some of them may wait if the options allow it, otherwise nothing waits afterwards. */
export async function applyEdits(
  store: NodeStore,
  map: BufferedTree,
  edits: LeafEdits,
  options: ApplyOptions = {},
): Promise<BufferedTree> {
  if (options.buffers === true) return bufferEdits(store, map, edits, options);
  const { tree } = await flush(store, map, options);
  return withoutBuffer(await editTree(store, tree, edits, options));
}

/** What happens to the edits of one leaf. */
interface Decision {
  readonly group: LeafGroup;
  /** What waited for this leaf before. */
  readonly older: EditList | undefined;
  readonly waits: boolean;
}

/** The edits to be written now, and those of the tree of waiting edits: some more wait, some wait no longer. */
function splitEdits(
  edits: LeafEdits,
  arena: EditArena,
  decisions: readonly Decision[],
): { readonly written: LeafEdits; readonly waiting: LeafEdits } {
  const written = new EditList(arena);
  const waiting = new EditList(arena);
  for (const { group, older, waits } of decisions) {
    if (waits) waiting.addToBuffer(edits, group);
    else if (older === undefined) written.add(edits, group);
    else {
      written.addMerged(older, edits, group);
      waiting.addDeletions(older.keys);
    }
  }
  return { written: written.edits(), waiting: waiting.edits() };
}

/** How much edits take while they wait, as {@link itemBytes} counts. */
function editBytes(edits: LeafEdits, { from, to }: Span): number {
  let bytes = 0;
  for (let i = from; i < to; i++) {
    const length = float64At(edits.ends, i) - float64At(edits.starts, i);
    bytes += itemBytes(keyAt(edits.keys, i), length === 0 ? TOMBSTONE.length : length);
  }
  return bytes;
}

/** Whether a map has no leaf below its top, in which case nothing waits. */
function isSmall({ tree: { top } }: BufferedTree): boolean {
  return top === undefined || isLeaf(top);
}

/** A map without waiting edits if its tree is small enough for that, otherwise the map as it is. */
export async function flushSmall(store: NodeStore, map: BufferedTree, options?: EditOptions): Promise<BufferedTree> {
  return isSmall(map) ? flush(store, map, options) : map;
}

/** A map with all waiting edits written: the tree that a build from nothing gives. */
export async function flush(store: NodeStore, map: BufferedTree, options?: EditOptions): Promise<BufferedTree> {
  if (isFlushed(map)) return map;
  const atOnce = options?.editsAtOnce ?? EDITS_AT_ONCE;
  let { tree } = map;
  let part = new EditList(new EditArena());
  for await (const slice of rangeSlices(store, map.buffer)) {
    part.addFromBuffer(slice);
    if (part.keys.length < atOnce) continue;
    tree = await editTree(store, tree, part.edits(), options);
    part = new EditList(new EditArena());
  }
  return withoutBuffer(await editTree(store, tree, part.edits(), options));
}

/** Groups edits by the leaf of the tree that they fall into. Reads inner nodes only. */
async function* leafGroups(store: NodeStore, { tree }: BufferedTree, edits: LeafEdits): AsyncGenerator<LeafGroup> {
  if (tree.top === undefined) return;
  const cursor = new LevelCursor(store, tree.top, 1);
  let place = await cursor.seek(keyAt(edits.keys, 0));
  const first = tree.top.keys[0];
  for (let from = 0; from < edits.keys.length; ) {
    const key = keyAt(edits.keys, from);
    const nextNode = cursor.nextKey();
    if (nextNode !== undefined && nextNode <= key) place = await cursor.seek(key);
    const node = place.node;
    if (isLeaf(node)) throw new Error('a level cursor at level 1 stands on a leaf');
    const index = childIndex(node, key);
    const start = keyAt(node.keys, index);
    const end = node.keys[index + 1] ?? cursor.nextKey();
    const to = end === undefined ? edits.keys.length : lowerBound(edits.keys, end);
    yield { from, to, start: start === first ? undefined : start, end };
    from = to;
  }
}

/** What waits in a range of keys; undefined where nothing does. */
async function bufferedEdits(
  store: NodeStore,
  buffer: Tree,
  range: { readonly start?: Key | undefined; readonly end?: Key | undefined },
  arena: EditArena,
): Promise<EditList | undefined> {
  if (buffer.top === undefined) return undefined;
  const list = new EditList(arena);
  for await (const slice of rangeSlices(store, buffer, { from: range.start, to: range.end })) list.addFromBuffer(slice);
  return list.keys.length === 0 ? undefined : list;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** The bytes that several lists of edits point into: those of the edits that came, with others behind them. */
class EditArena {
  readonly #writer: ByteWriter;
  #tombstone: number | undefined;

  constructor(edits?: LeafEdits) {
    this.#writer = new ByteWriter(edits?.bytes ?? 1024);
  }

  get bytes(): Uint8Array {
    return this.#writer.bytes;
  }

  /** Where the bytes start once they are in. */
  add(bytes: Uint8Array): number {
    const start = this.#writer.length;
    this.#writer.append(bytes);
    return start;
  }

  tombstone(): number {
    this.#tombstone ??= this.add(TOMBSTONE);
    return this.#tombstone;
  }
}

/** Edits in order of key, put together from several sources. */
class EditList {
  readonly keys: Key[] = [];
  /** As {@link itemBytes} counts. */
  size = 0;
  readonly #arena: EditArena;
  readonly #starts = new NumberColumn();
  readonly #ends = new NumberColumn();

  constructor(arena: EditArena) {
    this.#arena = arena;
  }

  /** Adds edits that came, as they are. */
  add(edits: LeafEdits, { from, to }: Span): void {
    for (let i = from; i < to; i++)
      this.#push(keyAt(edits.keys, i), float64At(edits.starts, i), float64At(edits.ends, i));
  }

  /** Adds edits that came, deletions as tombstones, which is how they wait. */
  addToBuffer(edits: LeafEdits, { from, to }: Span): void {
    for (let i = from; i < to; i++) {
      const [start, end] = [float64At(edits.starts, i), float64At(edits.ends, i)];
      if (start !== end) this.#push(keyAt(edits.keys, i), start, end);
      else {
        const tombstone = this.#arena.tombstone();
        this.#push(keyAt(edits.keys, i), tombstone, tombstone + TOMBSTONE.length);
      }
    }
  }

  /** Adds edits that have waited, tombstones as deletions again. */
  addFromBuffer({ leaf, from, to }: LeafSlice): void {
    const first = from === 0 ? 0 : uint32At(leaf.ends, from - 1);
    const base = this.#arena.add(leaf.bytes.subarray(first, uint32At(leaf.ends, to - 1))) - first;
    for (let i = from, start = first; i < to; i++) {
      const end = uint32At(leaf.ends, i);
      const length = isTombstone(leaf.bytes.subarray(start, end)) ? 0 : end - start;
      this.#push(keyAt(leaf.keys, i), base + start, base + start + length);
      this.size += itemBytes(keyAt(leaf.keys, i), end - start);
      start = end;
    }
  }

  /** Adds older edits and newer ones, of which the newer win. */
  addMerged(older: EditList, newer: LeafEdits, { from, to }: Span): void {
    const old = older.edits();
    let next = 0;
    for (let i = from; i < to; i++) {
      const upTo = lowerBound(older.keys, keyAt(newer.keys, i));
      this.add(old, { from: next, to: upTo });
      next = older.keys[upTo] === newer.keys[i] ? upTo + 1 : upTo;
      this.add(newer, { from: i, to: i + 1 });
    }
    this.add(old, { from: next, to: older.keys.length });
  }

  addDeletions(keys: readonly Key[]): void {
    for (const key of keys) this.#push(key, 0, 0);
  }

  edits(): LeafEdits {
    const [starts, ends] = [this.#starts.view(), this.#ends.view()];
    return { keys: this.keys, bytes: this.#arena.bytes, starts, ends, weights: undefined };
  }

  #push(key: Key, start: number, end: number): void {
    this.keys.push(key);
    this.#starts.push(start);
    this.#ends.push(end);
  }
}
