import { ByteWriter } from '../codec/bytes.ts';
import { float64At, keyAt, NumberColumn, uint32At } from './array.ts';
import { type BufferedTree, isFlushed, isTombstoneAt, TOMBSTONE, withoutBuffer } from './buffered-tree.ts';
import { EDITS_AT_ONCE, type EditOptions, editTree, type LeafEdits } from './edit.ts';
import { type Key, lowerBound } from './key.ts';
import { isLeaf, type Tree } from './node.ts';
import { meanNodeBytes, type NodeShape, treeItemBytes } from './node-builder.ts';
import type { NodeStore } from './node-store.ts';
import { childIndex, type LeafSlice, LevelCursor, rangeSlices } from './read.ts';

/**
 * The share of a leaf that the edits of one snapshot typically change if they are scattered: 10,000
 * edits in a million cells.
 */
const TYPICAL_SHARE = 0.01;

/**
 * The number of buffered bytes (as {@link treeItemBytes} counts) from which it is worth writing a
 * leaf.
 *
 * A chunk costs a PUT, $0.000005 at S3's list price in us-east-1. It also costs storage until
 * garbage collection removes the chunk that it replaces: $0.000001 for 45 kB over a month. Writing
 * a leaf costs one chunk, once. Buffered edits cost their share of the buffer's chunks with every
 * snapshot, since each snapshot rewrites these chunks. Both costs are in chunks, so the price of a
 * chunk cancels out.
 *
 * If every snapshot brings e bytes for a leaf of c bytes, buffering for k snapshots costs e/c +
 * 2e/c + … + ke/c chunks, about k²e/2c. This equals the cost of writing at k = √(2c/e), when k·e =
 * √(2ce) bytes are buffered. A buffer that is flushed when buffering has cost as much as writing
 * costs at most twice the optimum (the ski rental problem). The square root makes the threshold
 * depend little on e, so one typical share serves all maps.
 */
export function flushThresholdBytes(shape: NodeShape): number {
  return Math.sqrt(2 * TYPICAL_SHARE) * meanNodeBytes(shape);
}

/** The edits of one leaf's range, `from` up to but not including `to`. */
interface LeafGroup extends EditRange {
  /** First key of the leaf's range; undefined for the first leaf. */
  readonly start: Key | undefined;
  /** First key after the leaf's range; undefined for the last leaf. */
  readonly end: Key | undefined;
}

/**
 * Applies edits to a map. If enough edits fall into one leaf, they are written into it together
 * with the buffered edits of that leaf. Otherwise they are buffered. A map of one leaf buffers
 * nothing, since the root contains that leaf anyway.
 * @param edits all of weight 1
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
    const slices = await slicesInBuffer(store, map.buffer, group);
    const buffers = slicesBytes(slices) + editBytes(edits, group) < enough;
    decisions.push({ group, older: buffers ? undefined : editsOf(slices, arena), buffers });
  }
  // The first fold of a large log takes this path. It avoids copies of all edits when memory is
  // scarcest.
  const plain = decisions.every(({ older, buffers }) => !buffers && older === undefined);
  const split = plain ? { written: edits, buffered: undefined } : splitEdits(edits, arena, decisions);
  const edited = {
    kind: map.kind,
    tree: await editTree(store, map.tree, split.written, options),
    buffer: split.buffered === undefined ? map.buffer : await editTree(store, map.buffer, split.buffered, options),
  };
  return flushSmall(store, edited, options);
}

export interface ApplyOptions extends EditOptions {
  /** Buffers edits; see {@link bufferEdits}. */
  readonly buffers?: boolean;
}

/** Applies edits to a map. Without the option `buffers` the write buffer is empty afterwards. */
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

/** Whether the edits of one leaf are written or buffered. */
interface Decision {
  readonly group: LeafGroup;
  /** The edits of this leaf that were buffered before, if they are written now. */
  readonly older: EditList | undefined;
  /** Whether the edits are buffered instead of written. */
  readonly buffers: boolean;
}

/**
 * Splits edits into those for the tree and those for the buffer. The latter delete buffered edits
 * that are written now.
 */
function splitEdits(
  edits: LeafEdits,
  arena: EditArena,
  decisions: readonly Decision[],
): { readonly written: LeafEdits; readonly buffered: LeafEdits } {
  const written = new EditList(arena);
  const buffered = new EditList(arena);
  for (const { group, older, buffers } of decisions) {
    if (buffers) buffered.addToBuffer(edits, group);
    else if (older === undefined) written.add(edits, group);
    else {
      written.addMerged(older, edits, group);
      buffered.addDeletions(older.keys);
    }
  }
  return { written: written.edits(), buffered: buffered.edits() };
}

/** The size of edits in the buffer, as {@link treeItemBytes} counts. */
function editBytes(edits: LeafEdits, { from, to }: EditRange): number {
  let bytes = 0;
  for (let i = from; i < to; i++) {
    const length = float64At(edits.ends, i) - float64At(edits.starts, i);
    bytes += treeItemBytes(keyAt(edits.keys, i), length === 0 ? TOMBSTONE.length : length);
  }
  return bytes;
}

/** Whether a map has at most one leaf. Such a map buffers nothing. */
function isSmall({ tree: { top } }: BufferedTree): boolean {
  return top === undefined || isLeaf(top);
}

/** Flushes a map if it has at most one leaf. */
export async function flushSmall(store: NodeStore, map: BufferedTree, options?: EditOptions): Promise<BufferedTree> {
  return isSmall(map) ? flush(store, map, options) : map;
}

/** Writes all buffered edits into the tree. The result equals a tree built from the items alone. */
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
    if (isLeaf(node)) throw new Error('a level cursor at level 1 is at a leaf');
    const index = childIndex(node, key);
    const start = keyAt(node.keys, index);
    const end = node.keys[index + 1] ?? cursor.nextKey();
    const to = end === undefined ? edits.keys.length : lowerBound(edits.keys, end);
    yield { from, to, start: start === first ? undefined : start, end };
    from = to;
  }
}

/** The buffered edits in a range of keys. */
async function slicesInBuffer(
  store: NodeStore,
  buffer: Tree,
  range: { readonly start?: Key | undefined; readonly end?: Key | undefined },
): Promise<LeafSlice[]> {
  return buffer.top === undefined
    ? []
    : Array.fromAsync(rangeSlices(store, buffer, { from: range.start, to: range.end }));
}

/** The size of buffered edits, as {@link treeItemBytes} counts. */
function slicesBytes(slices: readonly LeafSlice[]): number {
  let bytes = 0;
  for (const { leaf, from, to } of slices) {
    bytes += uint32At(leaf.ends, to - 1) - (from === 0 ? 0 : uint32At(leaf.ends, from - 1));
    for (let i = from; i < to; i++) bytes += treeItemBytes(keyAt(leaf.keys, i), 0);
  }
  return bytes;
}

/** Buffered edits as a list; undefined if there are none. */
function editsOf(slices: readonly LeafSlice[], arena: EditArena): EditList | undefined {
  if (slices.length === 0) return undefined;
  const list = new EditList(arena);
  for (const slice of slices) list.addFromBuffer(slice);
  return list;
}

interface EditRange {
  readonly from: number;
  readonly to: number;
}

/**
 * The bytes that several lists of edits point into: the bytes of the new edits, followed by others.
 */
class EditArena {
  readonly #writer: ByteWriter;
  #tombstone: number | undefined;

  constructor(edits?: LeafEdits) {
    this.#writer = new ByteWriter(edits?.bytes ?? 1024);
  }

  get bytes(): Uint8Array {
    return this.#writer.bytes;
  }

  /**
   * Appends bytes.
   * @returns their start
   */
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

/** Edits in order of key, merged from several sources. */
class EditList {
  readonly keys: Key[] = [];
  readonly #arena: EditArena;
  readonly #starts = new NumberColumn();
  readonly #ends = new NumberColumn();

  constructor(arena: EditArena) {
    this.#arena = arena;
  }

  /** Adds new edits as they are. */
  add(edits: LeafEdits, { from, to }: EditRange): void {
    for (let i = from; i < to; i++)
      this.#push(keyAt(edits.keys, i), float64At(edits.starts, i), float64At(edits.ends, i));
  }

  /** Adds new edits for the buffer: deletions become tombstones. */
  addToBuffer(edits: LeafEdits, { from, to }: EditRange): void {
    for (let i = from; i < to; i++) {
      const [start, end] = [float64At(edits.starts, i), float64At(edits.ends, i)];
      if (start !== end) this.#push(keyAt(edits.keys, i), start, end);
      else {
        const tombstone = this.#arena.tombstone();
        this.#push(keyAt(edits.keys, i), tombstone, tombstone + TOMBSTONE.length);
      }
    }
  }

  /** Adds buffered edits: tombstones become deletions. */
  addFromBuffer({ leaf, from, to }: LeafSlice): void {
    const first = from === 0 ? 0 : uint32At(leaf.ends, from - 1);
    const base = this.#arena.add(leaf.bytes.subarray(first, uint32At(leaf.ends, to - 1))) - first;
    for (let i = from, start = first; i < to; i++) {
      const end = uint32At(leaf.ends, i);
      const length = isTombstoneAt(leaf.bytes, start, end) ? 0 : end - start;
      this.#push(keyAt(leaf.keys, i), base + start, base + start + length);
      start = end;
    }
  }

  /** Merges older and newer edits; the newer edits win. */
  addMerged(older: EditList, newer: LeafEdits, { from, to }: EditRange): void {
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
