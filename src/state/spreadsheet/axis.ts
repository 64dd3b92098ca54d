import { generateNKeysBetween } from 'fractional-indexing';
import { at } from '../../tree/array.ts';
import type { WeighedItem } from '../../tree/read.ts';
import type { DraftMap } from '../draft-map.ts';

/** Consecutive ids: `id`, `id + 1`, … */
export interface AxisRun {
  readonly id: number;
  readonly length: number;
}

/** A run with its place on the axis. */
export interface PositionedRun extends AxisRun {
  /** Position of its first id. */
  readonly start: number;
}

interface PlacedRun extends PositionedRun {
  /** Key in the map. */
  readonly key: string;
}

/**
 * Keys grow by one character for about every six runs inserted between the same two. If a key
 * becomes longer than this, all keys are reassigned.
 */
const LONG_KEY = 64;

/**
 * One direction of a sheet: maps positions to ids. An axis is always a permutation of all ids. A
 * map holds it as runs under fractional-index keys; the weight of a run is its length. An empty map
 * is the identity.
 *
 * So inserting rows into a sheet of a hundred million moves no cell. No history of edits can
 * exhaust the ids: an insertion takes ids from the end of the axis, and a deletion puts them there.
 */
export class Axis {
  readonly size: number;
  readonly #map: DraftMap;
  #latest: AxisRun & { readonly start: number } = { id: 0, length: 0, start: 0 };
  #longest = 0;

  constructor(map: DraftMap, size: number) {
    this.#map = map;
    this.size = size;
  }

  /** The id at a position if the last lookup found the run that contains it. */
  peek(position: number): number | undefined {
    const offset = position - this.#latest.start;
    return offset >= 0 && offset < this.#latest.length ? this.#latest.id + offset : undefined;
  }

  /** The id at a position below `size`. */
  async idAt(position: number): Promise<number> {
    const known = this.peek(position);
    if (known !== undefined) return known;
    this.#latest = (await this.#find(position)) ?? { id: 0, length: this.size, start: 0 };
    return this.#latest.id + position - this.#latest.start;
  }

  /**
   * The runs that cover positions `from` up to but not including `to`, in order, trimmed to that
   * range.
   */
  async *runs(from = 0, to = this.size): AsyncGenerator<PositionedRun> {
    if (from >= to) return;
    const first = await this.#find(from);
    if (first === undefined) {
      yield { id: from, length: to - from, start: from };
      return;
    }
    let { start } = first;
    for await (const { key, value } of this.#map.items({ from: first.key })) {
      if (start >= to) return;
      const { id, length } = placedRun({ key, value, start });
      const [begin, end] = [Math.max(start, from), Math.min(start + length, to)];
      yield { id: id + begin - start, length: end - begin, start: begin };
      start += length;
    }
  }

  /**
   * Moves the last `count` ids of the axis to a position.
   * @returns these ids; the caller must delete their cells
   */
  insert(position: number, count: number): Promise<AxisRun[]> {
    return this.#move(this.size - count, count, position);
  }

  /**
   * Moves the `count` ids at a position to the end of the axis.
   * @returns these ids; the caller must delete their cells
   */
  delete(position: number, count: number): Promise<AxisRun[]> {
    return this.#move(position, count, this.size - count);
  }

  /** Moves `count` ids from position `from` to position `to`. */
  async #move(from: number, count: number, to: number): Promise<AxisRun[]> {
    this.#latest = { id: 0, length: 0, start: 0 };
    this.#longest = 0;
    if (count === 0) return [];
    const [whole] = generateNKeysBetween(null, null, 1);
    if (whole !== undefined && (await this.#map.count()) === 0) this.#put(whole, { id: 0, length: this.size });
    const moved = await this.#take(from, count);
    await this.#place(to, moved);
    if (this.#longest > LONG_KEY) await this.#reassignKeys();
    const first = await this.#find(0);
    // The identity is always the empty map, regardless of history.
    if (first?.length === this.size) this.#map.delete(first.key);
    return moved;
  }

  /**
   * Gives each run a new short key. Otherwise repeated edits at one place would exceed the limit of
   * a key's length.
   */
  async #reassignKeys(): Promise<void> {
    const runs: AxisRun[] = [];
    for await (const { id, length } of this.runs()) runs.push({ id, length });
    for await (const { key } of this.#map.items()) this.#map.delete(key);
    const keys = generateNKeysBetween(null, null, runs.length);
    for (const [i, run] of runs.entries()) {
      const key = keys[i];
      if (key !== undefined) this.#put(key, run);
    }
  }

  async #take(from: number, count: number): Promise<AxisRun[]> {
    await this.#split(from);
    await this.#split(from + count);
    const taken: PlacedRun[] = [];
    for (let position = from; position < from + count; ) {
      const run = await this.#find(position);
      if (run === undefined) throw new Error(`an axis ends at ${position} of ${this.size} positions`);
      taken.push(run);
      position += run.length;
    }
    for (const { key } of taken) this.#map.delete(key);
    await this.#join(from);
    return taken.map(({ id, length }) => ({ id, length }));
  }

  async #place(position: number, runs: readonly AxisRun[]): Promise<void> {
    await this.#split(position);
    const before = position === 0 ? undefined : await this.#find(position - 1);
    const after = await this.#find(position);
    const keys = generateNKeysBetween(before?.key ?? null, after?.key ?? null, runs.length);
    let end = position;
    for (const [i, run] of runs.entries()) {
      const key = keys[i];
      if (key !== undefined) this.#put(key, run);
      end += run.length;
    }
    await this.#join(end);
    await this.#join(position);
  }

  /** Splits a run so that a run starts at a position. */
  async #split(position: number): Promise<void> {
    const run = await this.#find(position);
    if (run === undefined || run.start === position) return;
    const head = position - run.start;
    const next = await this.#find(run.start + run.length);
    const [key] = generateNKeysBetween(run.key, next?.key ?? null, 1);
    if (key === undefined) return;
    this.#put(run.key, { id: run.id, length: head });
    this.#put(key, { id: run.id + head, length: run.length - head });
  }

  /** Joins two runs that meet at a position if their ids are consecutive. */
  async #join(position: number): Promise<void> {
    if (position === 0) return;
    const left = await this.#find(position - 1);
    const right = await this.#find(position);
    if (left === undefined || right === undefined || left.key === right.key) return;
    if (left.id + left.length !== right.id) return;
    this.#put(left.key, { id: left.id, length: left.length + right.length });
    this.#map.delete(right.key);
  }

  #put(key: string, run: AxisRun): void {
    this.#longest = Math.max(this.#longest, key.length);
    this.#map.put(key, [run.id, run.length], run.length);
  }

  async #find(position: number): Promise<PlacedRun | undefined> {
    const item = await this.#map.atOffset(position);
    return item === undefined ? undefined : placedRun(item);
  }
}

function placedRun({ key, value, start }: Omit<WeighedItem, 'weight'>): PlacedRun {
  if (typeof key === 'string' && Array.isArray(value)) {
    const [id, length] = value;
    if (typeof id === 'number' && typeof length === 'number') return { key, id, length, start };
  }
  throw new Error(`the value under ${key} of an axis is not a run`);
}

/** Runs of an axis in order of id, for lookups by id. */
export class IdRuns {
  readonly runs: readonly PositionedRun[];
  #latest: PositionedRun | undefined;

  constructor(runs: readonly PositionedRun[]) {
    this.runs = runs.toSorted((a, b) => a.id - b.id);
  }

  /** The position of an id; undefined if no run contains it. */
  position(id: number): number | undefined {
    const latest = this.#latest;
    if (latest !== undefined && id >= latest.id && id < latest.id + latest.length) return latest.start + id - latest.id;
    const run = this.endingAfter(id);
    if (run === undefined || run.id > id) return undefined;
    this.#latest = run;
    return run.start + id - run.id;
  }

  /** The run that contains an id, otherwise the first run after it. */
  endingAfter(id: number): PositionedRun | undefined {
    return this.runs[firstIndex(this.runs, ({ id: start, length }) => start + length > id)];
  }
}

/**
 * The index of the first item for which a test holds. The test must hold for all later items too.
 */
export function firstIndex<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(at(items, middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}
