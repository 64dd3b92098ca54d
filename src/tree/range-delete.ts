import { KeyInvalidError } from '../errors.ts';
import { at, keyAt, uint32At } from './array.ts';
import { type Key, type KeyKind, lowerBound, sortedUnique } from './key.ts';
import type { KeySet, KeySpan } from './key-set.ts';

/** The keys from `from` up to but not including `to`, or those of them that `every` selects. */
export interface RangeDelete {
  readonly from: Key;
  readonly to: Key;
  /** For number keys: only keys whose remainder modulo `period` lies from `from` up to but not including `to`. */
  readonly every?: { readonly period: number; readonly from: number; readonly to: number } | undefined;
}

interface PlacedSpan extends KeySpan {
  /** How many edits of the batch came before. */
  readonly after: number;
}

/** Deletions of ranges that share bounds and period, as one set: a tree is walked once for all of them. */
class RangeGroup implements KeySet {
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

  /** Whether one of the ranges holds a key and came after so many edits. Looks at every range. */
  deletes(key: Key, edits: number): boolean {
    if (this.#bounds !== undefined && (key < this.#bounds.from || key >= this.#bounds.to)) return false;
    const place = this.#period === undefined ? key : Number(key) % this.#period;
    return this.#added.some(({ from, to, after }) => after >= edits && place >= from && place < to);
  }

  /** Marks those of some edits, in ascending order of key, that came before a range that holds their key. */
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
  /** Where a stretch with one newest span begins; the last one is an end only. */
  readonly #places: Key[];
  /** The `after` of the newest span in each stretch; 0 where there is none. A span with 0 edits before it has 1. */
  readonly #newest: Uint32Array;
  readonly #union: KeySpan[] = [];

  constructor(spans: readonly PlacedSpan[]) {
    this.#places = sortedUnique(spans.flatMap(({ from, to }) => [from, to]));
    this.#newest = new Uint32Array(this.#places.length);
    // From the newest span to the oldest, each paints what is still free; `free` leads to the next free stretch.
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

  /** How many edits came before the newest span at a place; -1 if no span holds the place. */
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
  // Paths are shortened, so that many spans over the same stretches stay fast.
  for (let i = start; i !== root; ) {
    const next = uint32At(free, i);
    free[i] = root;
    i = next;
  }
  return root;
}

/** About how much memory a range takes, in bytes. */
const RANGE_BYTES = 128;

/** The deletions of ranges of one batch. */
export class RangeDeletes {
  readonly #kind: KeyKind;
  readonly #groups = new Map<string, RangeGroup>();
  #heldBytes = 0;
  length = 0;

  constructor(kind: KeyKind) {
    this.#kind = kind;
  }

  /** About how much memory the ranges take, in bytes. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The sets of keys to delete; they may overlap. */
  get sets(): readonly KeySet[] {
    return [...this.#groups.values()];
  }

  /**
   * @param after how many edits came before
   * @throws KeyInvalidError if a bound is of the other kind, or if a map with string keys gets a period
   */
  add(range: RangeDelete, after: number): void {
    const { from, to, every } = range;
    checkBound(from, this.#kind);
    checkBound(to, this.#kind);
    if (every !== undefined) this.#checkPeriod(every);
    if (from >= to || (every !== undefined && every.from >= every.to)) return;
    const name = every === undefined ? '' : `${from} ${to} ${every.period}`;
    const group = this.#groups.get(name) ?? new RangeGroup(range);
    this.#groups.set(name, group);
    group.add(every ?? range, after);
    this.length++;
    this.#heldBytes += RANGE_BYTES + (typeof from === 'string' ? 2 * (from.length + String(to).length) : 0);
  }

  /** Whether a range holds a key and came after so many edits. */
  deletes(key: Key, edits: number): boolean {
    return this.#groups.values().some((group) => group.deletes(key, edits));
  }

  /** As {@link RangeGroup.mark}. */
  mark(keys: readonly Key[], index: (i: number) => number): Uint8Array {
    const deleted = new Uint8Array(keys.length);
    for (const group of this.#groups.values()) group.mark(keys, index, deleted);
    return deleted;
  }

  #checkPeriod({ period, from, to }: NonNullable<RangeDelete['every']>): void {
    const isWhole = [period, from, to].every((each) => Number.isSafeInteger(each) && each >= 0);
    if (this.#kind === 'number' && isWhole && period > 0 && to <= period) return;
    throw new KeyInvalidError(`a range cannot be deleted at every ${period} from ${from} to ${to}`, {
      advice: 'Use a map with number keys, a period of 1 or more, and remainders from 0 up to the period',
    });
  }
}

/** A bound need not be a key of the map, as long as it compares with keys: `Infinity` is fine. */
function checkBound(bound: Key, kind: KeyKind): void {
  if (typeof bound === kind && !Number.isNaN(bound)) return;
  throw new KeyInvalidError(`a range of ${kind} keys cannot begin or end at ${String(bound)}`, {
    advice: `Use bounds that are ${kind}s`,
  });
}
