import { KeyInvalidError } from '../errors.ts';
import { at, keyAt, uint32At } from './array.ts';
import { type Key, type KeyKind, lowerBound, sortedUnique } from './key.ts';
import type { KeySet, KeySpan } from './key-set.ts';
import { boundText, numberAfter } from './number-text.ts';

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
    const number = numberAfter(this.#prefix, key);
    return number !== undefined && this.#numbers.deletes(number, edits);
  }

  mark(keys: readonly Key[], index: (i: number) => number, deleted: Uint8Array): void {
    const start = lowerBound(keys, this.#prefix);
    const numbers: number[] = [];
    for (let i = start; i < keys.length; i++) {
      const number = numberAfter(this.#prefix, keyAt(keys, i));
      if (number === undefined) break;
      numbers.push(number);
    }
    this.#numbers.mark(numbers, (i) => index(start + i), deleted.subarray(start));
  }

  next(key: Key): KeySpan | undefined {
    const number = key <= this.#prefix ? 0 : numberAfter(this.#prefix, key);
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
