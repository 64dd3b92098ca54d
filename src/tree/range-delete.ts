import { KeyInvalidError } from '../errors.ts';
import { at, keyAt, uint32At } from './array.ts';
import type { BufferedTree } from './buffered-tree.ts';
import { EDITS_AT_ONCE, editTree, type LeafEdits, removeChildren } from './edit.ts';
import { boundText, type Key, type KeyKind, lowerBound, numberInKey, sortedUnique } from './key.ts';
import { type KeySet, type KeySpan, keysInSet, laterKey } from './key-set.ts';
import { isLeaf, type Tree } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { childIndex, LevelCursor } from './read.ts';
import { type ApplyOptions, applyEdits, flushSmall } from './write-buffer.ts';

/** The keys from `from` up to but not including `to`, or those of them that `every` selects. */
export interface RangeDelete {
  readonly from: Key;
  readonly to: Key;
  /**
   * For number keys: only keys whose remainder modulo `period` lies from `from` up to but not
   * including `to`.
   */
  readonly every?: { readonly period: number; readonly from: number; readonly to: number } | undefined;
  /**
   * For string keys that continue after this text with a number, as `numberText` writes it:
   * the range and `every` are about these numbers.
   */
  readonly after?: string | undefined;
}

/** The keys that a range delete removes. */
export function rangeSet(range: RangeDelete): KeySet {
  const group = newGroup(range);
  group.add(range.every ?? range, 0);
  return group;
}

/** Range deletes that one set represents. */
interface DeleteGroup extends KeySet {
  add(span: KeySpan, after: number): void;
  /**
   * Whether a range contains a key and came after at least this many edits. Looks at every range.
   */
  deletes(key: Key, edits: number): boolean;
  /** Marks the edits (ascending by key) that came before a range that contains their key. */
  mark(keys: readonly Key[], index: (i: number) => number, deleted: Uint8Array): void;
}

function newGroup(range: RangeDelete): DeleteGroup {
  const group = new RangeGroup(range);
  return range.after === undefined ? group : new NumberedGroup(range.after, group);
}

/** Range deletes of string keys by the number after a prefix. */
class NumberedGroup implements DeleteGroup {
  readonly #prefix: string;
  readonly #numbers: RangeGroup;

  constructor(prefix: string, numbers: RangeGroup) {
    this.#prefix = prefix;
    this.#numbers = numbers;
  }

  add(span: KeySpan, after: number): void {
    this.#numbers.add(span, after);
  }

  deletes(key: Key, edits: number): boolean {
    const number = numberInKey(this.#prefix, key);
    return number !== undefined && this.#numbers.deletes(number, edits);
  }

  mark(keys: readonly Key[], index: (i: number) => number, deleted: Uint8Array): void {
    const start = lowerBound(keys, this.#prefix);
    const numbers: number[] = [];
    for (let i = start; i < keys.length; i++) {
      const number = numberInKey(this.#prefix, keyAt(keys, i));
      if (number === undefined) break;
      numbers.push(number);
    }
    this.#numbers.mark(numbers, (i) => index(start + i), deleted.subarray(start));
  }

  next(key: Key): KeySpan | undefined {
    const number = key <= this.#prefix ? 0 : numberInKey(this.#prefix, key);
    const span = number === undefined ? undefined : this.#numbers.next(number);
    if (span === undefined || Number(span.from) > Number.MAX_SAFE_INTEGER) return undefined;
    return { from: this.#prefix + boundText(Number(span.from)), to: this.#prefix + boundText(Number(span.to)) };
  }
}

interface PlacedSpan extends KeySpan {
  /** Number of edits of the batch that came before. */
  readonly after: number;
}

/**
 * Range deletes that share bounds and period, as one set, so that a tree is walked once for all of
 * them.
 */
class RangeGroup implements DeleteGroup {
  readonly #bounds: KeySpan | undefined;
  readonly #period: number | undefined;
  /** Keys, or remainders if there is a period. */
  readonly #added: PlacedSpan[] = [];
  #painted: PaintedSpans | undefined;

  constructor({ from, to, every }: RangeDelete) {
    this.#bounds = every === undefined ? undefined : { from, to };
    this.#period = every?.period;
  }

  add(span: KeySpan, after: number): void {
    this.#added.push({ ...span, after });
    this.#painted = undefined;
  }

  deletes(key: Key, edits: number): boolean {
    if (this.#bounds !== undefined && (key < this.#bounds.from || key >= this.#bounds.to)) return false;
    const place = this.#period === undefined ? key : Number(key) % this.#period;
    return this.#added.some(({ from, to, after }) => after >= edits && place >= from && place < to);
  }

  mark(keys: readonly Key[], index: (i: number) => number, deleted: Uint8Array): void {
    const start = this.#bounds === undefined ? 0 : lowerBound(keys, this.#bounds.from);
    const end = this.#bounds === undefined ? keys.length : lowerBound(keys, this.#bounds.to);
    for (let i = start; i < end; i++) {
      const key = keyAt(keys, i);
      const place = this.#period === undefined ? key : Number(key) % this.#period;
      if (this.#spans().newest(place) > index(i)) deleted[i] = 1;
    }
  }

  next(key: Key): KeySpan | undefined {
    const [bounds, period] = [this.#bounds, this.#period];
    if (bounds === undefined || period === undefined) return this.#spans().next(key);
    const from = Math.max(Number(key), Number(bounds.from));
    const to = Number(bounds.to);
    if (from >= to) return undefined;
    const remainder = from % period;
    const inPeriod = this.#spans().next(remainder);
    const span = inPeriod ?? this.#spans().next(0);
    if (span === undefined) return undefined;
    const base = from - remainder + (inPeriod === undefined ? period : 0);
    const start = Math.max(Number(bounds.from), base + Number(span.from));
    return start < to ? { from: start, to: Math.min(to, base + Number(span.to)) } : undefined;
  }

  #spans(): PaintedSpans {
    this.#painted ??= new PaintedSpans(this.#added);
    return this.#painted;
  }
}

/** The union of spans that may overlap, with the newest span at each place. */
class PaintedSpans implements KeySet {
  /** The start of each stretch with one newest span; the last place only ends a stretch. */
  readonly #places: Key[];
  /** `after` + 1 of the newest span in each stretch; 0 if no span covers the stretch. */
  readonly #newest: Uint32Array;
  readonly #union: KeySpan[] = [];

  constructor(spans: readonly PlacedSpan[]) {
    this.#places = sortedUnique(spans.flatMap(({ from, to }) => [from, to]));
    this.#newest = new Uint32Array(this.#places.length);
    // From the newest span to the oldest, each paints the free stretches. `free` leads to the next
    // free stretch.
    const free = Uint32Array.from({ length: this.#places.length + 1 }, (_, i) => i);
    for (const { from, to, after } of spans.toReversed()) {
      const end = lowerBound(this.#places, to);
      for (let i = find(free, lowerBound(this.#places, from)); i < end; i = find(free, i)) {
        this.#newest[i] = after + 1;
        free[i] = i + 1;
      }
    }
    let from: Key | undefined;
    for (const [i, place] of this.#places.entries()) {
      if (this.#newest[i] === 0) {
        if (from !== undefined) this.#union.push({ from, to: place });
        from = undefined;
      } else from ??= place;
    }
  }

  /** Number of edits before the newest span at a place; -1 if no span contains the place. */
  newest(place: Key): number {
    const i = lowerBound(this.#places, place);
    const stretch = this.#places[i] === place ? i : i - 1;
    return stretch < 0 ? -1 : uint32At(this.#newest, stretch) - 1;
  }

  next(key: Key): KeySpan | undefined {
    let low = 0;
    let high = this.#union.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (at(this.#union, middle).to <= key) low = middle + 1;
      else high = middle;
    }
    return this.#union[low];
  }
}

function find(free: Uint32Array, start: number): number {
  let root = start;
  while (uint32At(free, root) !== root) root = uint32At(free, root);
  // Path compression keeps many spans over the same stretches fast.
  for (let i = start; i !== root; ) {
    const next = uint32At(free, i);
    free[i] = root;
    i = next;
  }
  return root;
}

/** Approximate memory of a range, in bytes. */
const RANGE_BYTES = 128;

export class RangeDeletes {
  readonly #kind: KeyKind;
  readonly #groups = new Map<string, DeleteGroup>();
  #heldBytes = 0;
  length = 0;

  constructor(kind: KeyKind) {
    this.#kind = kind;
  }

  /** Approximate memory of the ranges, in bytes. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The sets of keys to delete; they may overlap. */
  get sets(): readonly KeySet[] {
    return [...this.#groups.values()];
  }

  /**
   * @param after number of edits that came before
   * @throws KeyInvalidError if a bound has the other kind, or if string keys without a number get a
   * period
   */
  add(range: RangeDelete, after: number): void {
    const { from, to, every, after: prefix } = range;
    const kind = prefix === undefined ? this.#kind : 'number';
    if (prefix !== undefined) checkBound(prefix, this.#kind);
    checkBound(from, kind);
    checkBound(to, kind);
    if (every !== undefined) checkPeriod(every, kind);
    if (from >= to || (every !== undefined && every.from >= every.to)) return;
    const name = `${every === undefined ? '' : `${from} ${to} ${every.period}`} ${prefix ?? ''}`;
    const group = this.#groups.get(name) ?? newGroup(range);
    this.#groups.set(name, group);
    group.add(every ?? range, after);
    this.length++;
    this.#heldBytes += RANGE_BYTES + (typeof from === 'string' ? 2 * (from.length + String(to).length) : 0);
  }

  /** Whether a range contains a key and came after at least this many edits. */
  deletes(key: Key, edits: number): boolean {
    return this.#groups.values().some((group) => group.deletes(key, edits));
  }

  /** Like {@link RangeGroup.mark}. */
  mark(keys: readonly Key[], index: (i: number) => number): Uint8Array {
    const deleted = new Uint8Array(keys.length);
    for (const group of this.#groups.values()) group.mark(keys, index, deleted);
    return deleted;
  }
}

function checkPeriod({ period, from, to }: NonNullable<RangeDelete['every']>, kind: KeyKind): void {
  const isWhole = [period, from, to].every((each) => Number.isSafeInteger(each) && each >= 0);
  if (kind === 'number' && isWhole && period > 0 && to <= period) return;
  throw new KeyInvalidError(`a range cannot be deleted at every ${period} from ${from} to ${to}`, {
    advice: 'Use a map with number keys, a period of 1 or more, and remainders from 0 up to the period',
  });
}

/** A bound need not be a valid key, but must compare with keys: `Infinity` is valid. */
function checkBound(bound: Key, kind: KeyKind): void {
  if (typeof bound === kind && !Number.isNaN(bound)) return;
  throw new KeyInvalidError(`a range of ${kind} keys cannot begin or end at ${String(bound)}`, {
    advice: `Use bounds that are ${kind}s`,
  });
}

/** The result of {@link removeSets}: a map without most of the keys to delete. */
export interface Removed {
  readonly map: BufferedTree;
  /**
   * Keys that the caller must still delete: ascending, unique, and at most {@link EDITS_AT_ONCE}.
   */
  readonly rest: readonly Key[];
}

/**
 * Removes sets of keys from a map's tree and write buffer. Nodes that lie completely in a set are
 * removed unread. Keys at the borders are deleted like single keys, so these deletions may be
 * buffered. The caller gets the last of these keys and applies them with other edits.
 */
export async function removeSets(
  store: NodeStore,
  map: BufferedTree,
  sets: readonly KeySet[],
  options: ApplyOptions = {},
): Promise<Removed> {
  if (sets.length === 0) return { map, rest: [] };
  const atOnce = options.editsAtOnce ?? EDITS_AT_ONCE;
  let { tree, buffer } = map;
  for (const set of sets) {
    tree = await removeWholeNodes(store, tree, set);
    buffer = await removeSet(store, buffer, set, atOnce);
  }
  let remaining = await flushSmall(store, { kind: map.kind, tree, buffer }, options);
  let rest: Key[] = [];
  for (const set of sets) {
    for await (const keys of keysInSet(store, remaining.tree, set)) {
      for (const key of keys) rest.push(key);
      if (rest.length < atOnce) continue;
      remaining = await applyEdits(store, remaining, deletions(sortedUnique(rest)), options);
      rest = [];
    }
  }
  return { map: remaining, rest: sets.length > 1 ? sortedUnique(rest) : rest };
}

async function removeSet(store: NodeStore, tree: Tree, set: KeySet, atOnce: number): Promise<Tree> {
  let remaining = await removeWholeNodes(store, tree, set);
  let keys: Key[] = [];
  const removeKeys = async (): Promise<void> => {
    remaining = await editTree(store, remaining, deletions(keys));
    keys = [];
  };
  for await (const found of keysInSet(store, remaining, set)) {
    for (const key of found) keys.push(key);
    if (keys.length >= atOnce) await removeKeys();
  }
  await removeKeys();
  return remaining;
}

function deletions(keys: readonly Key[]): LeafEdits {
  const none = new Float64Array(keys.length);
  return { keys, bytes: new Uint8Array(), starts: none, ends: none, weights: undefined };
}

/**
 * Removes the nodes that lie completely in a set of keys. The rest of the set is in leaves at the
 * borders of its spans. The time is proportional to the nodes at the borders: a removed node is
 * never read, and takes all nodes below it along. The result equals a tree built from the remaining
 * items, since the chunk boundaries stay.
 */
async function removeWholeNodes(store: NodeStore, tree: Tree, set: KeySet): Promise<Tree> {
  let remaining = tree;
  for (let level = tree.top?.level ?? 0; level > 0; level--) {
    // After the upper levels are done, few nodes of this level touch a span.
    level = Math.min(level, remaining.top?.level ?? 0);
    const keys = await wholeChildren(store, remaining, level, set);
    if (keys.length > 0) remaining = await removeChildren(store, remaining, level, keys);
  }
  return remaining;
}

/** The keys of the children of a level's nodes that contain only keys of a set. */
async function wholeChildren(store: NodeStore, { top }: Tree, level: number, set: KeySet): Promise<Key[]> {
  const whole: Key[] = [];
  if (top === undefined || level === 0) return whole;
  const cursor = new LevelCursor(store, top, level);
  let from: Key | undefined = keyAt(top.keys, 0);
  while (from !== undefined) {
    const first = set.next(from);
    if (first === undefined) break;
    const start = laterKey(first.from, from);
    const { node } = await cursor.seek(start);
    if (isLeaf(node)) throw new Error('a level cursor above the leaves is at a leaf');
    const end = cursor.nextKey();
    for (let i = childIndex(node, start); i < node.keys.length; ) {
      const key = keyAt(node.keys, i);
      const next = node.keys[i + 1] ?? end;
      const span = set.next(key);
      // Only the last child itself knows where it ends.
      if (span === undefined || next === undefined) return whole;
      if (span.from <= key && span.to >= next) whole.push(key);
      i = span.from >= next ? Math.max(i + 1, childIndex(node, span.from)) : i + 1;
    }
    from = end;
  }
  return whole;
}
