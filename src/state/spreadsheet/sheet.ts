import type { Value } from '../../log/value.ts';
import type { Draft, DraftMap } from '../draft.ts';
import { Axis, type Run } from './axis.ts';
import {
  cellKey,
  keyColumn,
  keyRow,
  keyStripe,
  MAX_COLUMNS,
  MAX_ROWS,
  rowStart,
  STRIPE_COLUMNS,
  stripeStart,
} from './cell-key.ts';

/** A cell that is not empty, by position. */
export interface Cell {
  readonly row: number;
  readonly column: number;
  readonly value: Value;
}

/** A range of positions, `from` up to but not including `to`. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

const STRIPES = MAX_COLUMNS / STRIPE_COLUMNS;

/** A spreadsheet in a draft: cells under stable row and column ids, and an axis each way from positions to ids. */
export class Sheet {
  readonly rows: Axis;
  readonly columns: Axis;
  readonly #cells: DraftMap;
  /** Stripes that may hold cells; known once all of them have been looked up. */
  #stripes: Set<number> | undefined;
  readonly #touched = new Set<number>();
  #latestStripe = -1;

  constructor(draft: Draft) {
    this.#cells = draft.map('cells', 'number', { defers: true });
    this.rows = new Axis(draft.map('rows', 'string'), MAX_ROWS);
    this.columns = new Axis(draft.map('columns', 'string'), MAX_COLUMNS);
  }

  /**
   * Sets the cell at a position; null or '' empties it. Done at once, without a promise, where the runs that row and
   * column lie in were the last ones looked at.
   */
  set(row: number, column: number, value: Value): undefined | Promise<void> {
    const rowId = this.rows.peek(row);
    const columnId = this.columns.peek(column);
    if (rowId === undefined || columnId === undefined) return this.#find(row, column, value);
    this.#put(cellKey(rowId, columnId), value);
    return undefined;
  }

  async #find(row: number, column: number, value: Value): Promise<void> {
    this.#put(cellKey(await this.rows.idAt(row), await this.columns.idAt(column)), value);
  }

  #put(key: number, value: Value): void {
    if (value === null || value === '') return this.#cells.delete(key);
    const stripe = keyStripe(key);
    if (stripe !== this.#latestStripe) {
      this.#latestStripe = stripe;
      this.#touched.add(stripe);
    }
    this.#cells.put(key, value);
  }

  async insertRows(position: number, count: number): Promise<void> {
    this.#dropRows(await this.rows.insert(position, count));
  }

  async deleteRows(position: number, count: number): Promise<void> {
    this.#dropRows(await this.rows.delete(position, count));
  }

  async insertColumns(position: number, count: number): Promise<void> {
    this.#dropColumns(await this.columns.insert(position, count));
  }

  async deleteColumns(position: number, count: number): Promise<void> {
    this.#dropColumns(await this.columns.delete(position, count));
  }

  /** The cells of a rectangle that are not empty, in order of row; within a row in no promised order. */
  async *cells(
    rows: Span = { from: 0, to: MAX_ROWS },
    columns: Span = { from: 0, to: MAX_COLUMNS },
  ): AsyncGenerator<Cell> {
    const positions = await this.#columnPositions(columns);
    for await (const run of this.rows.runs(rows.from, rows.to)) {
      const walks = await Promise.all(Array.from(positions.keys(), (stripe) => this.#walk(stripe, run)));
      for (;;) {
        const row = Math.min(...walks.map((walk) => walk.row));
        if (row === Number.POSITIVE_INFINITY) break;
        for (const walk of walks) {
          for (; walk.row === row; await walk.advance()) {
            const column = positions.get(walk.stripe)?.get(walk.column);
            if (column !== undefined) yield { row: run.start + row - run.id, column, value: walk.value };
          }
        }
      }
    }
  }

  /** How many rows and how many columns it takes to show every cell that is not empty; 0 of both if there is none. */
  async usedRange(): Promise<{ readonly rows: number; readonly columns: number }> {
    let [rows, columns] = [0, 0];
    for await (const { row, column } of this.cells()) {
      rows = Math.max(rows, row + 1);
      columns = Math.max(columns, column + 1);
    }
    return { rows, columns };
  }

  async #walk(stripe: number, run: Run): Promise<StripeWalk> {
    const range = { from: rowStart(stripe, run.id), to: rowStart(stripe, run.id + run.length) };
    const walk = new StripeWalk(stripe, this.#cells.items(range));
    await walk.advance();
    return walk;
  }

  /** For each stripe that a span of positions touches and that may hold cells: from column id to position. */
  async #columnPositions(columns: Span): Promise<Map<number, Map<number, number>>> {
    // Few columns lie in few stripes, and to walk one that has no cells costs no more than to find that out.
    const used = columns.to - columns.from > STRIPE_COLUMNS ? new Set(await this.#allStripes()) : undefined;
    const positions = new Map<number, Map<number, number>>();
    for await (const run of this.columns.runs(columns.from, columns.to)) {
      for (const [stripe, span] of stripeSpans(run)) {
        if (used?.has(stripe) === false) continue;
        const known = positions.get(stripe) ?? new Map<number, number>();
        positions.set(stripe, known);
        for (let id = span.from; id < span.to; id++) known.set(id, run.start + id - run.id);
      }
    }
    return positions;
  }

  /** One range for each run, however many stripes there are. */
  #dropRows(runs: readonly Run[]): void {
    for (const { id, length } of runs) {
      const every = { period: stripeStart(1), from: rowStart(0, id), to: rowStart(0, id + length) };
      this.#cells.deleteRange({ from: 0, to: stripeStart(STRIPES), every });
    }
  }

  /** At most three ranges for each run: whole stripes, and a part of the first and of the last one. */
  #dropColumns(runs: readonly Run[]): void {
    for (const { id, length } of runs) {
      const end = id + length;
      const [first, last] = [Math.ceil(id / STRIPE_COLUMNS), Math.floor(end / STRIPE_COLUMNS)];
      if (first > last) this.#dropInStripe(last, id, end);
      else {
        if (first < last) this.#cells.deleteRange({ from: stripeStart(first), to: stripeStart(last) });
        this.#dropInStripe(first - 1, id, first * STRIPE_COLUMNS);
        this.#dropInStripe(last, last * STRIPE_COLUMNS, end);
      }
    }
  }

  /** Drops the cells of some columns, by id, of one stripe. */
  #dropInStripe(stripe: number, from: number, to: number): void {
    if (from === to) return;
    const start = stripe * STRIPE_COLUMNS;
    const every = { period: STRIPE_COLUMNS, from: from - start, to: to - start };
    this.#cells.deleteRange({ from: stripeStart(stripe), to: stripeStart(stripe + 1), every });
  }

  /** Every stripe that may hold cells, ascending. */
  async #allStripes(): Promise<number[]> {
    if (this.#stripes === undefined) {
      this.#stripes = new Set();
      for (let stripe = 0; stripe < STRIPES; ) {
        const key = await this.#cells.firstKey(stripeStart(stripe));
        if (key === undefined) break;
        this.#stripes.add(keyStripe(Number(key)));
        stripe = keyStripe(Number(key)) + 1;
      }
    }
    for (const stripe of this.#touched) this.#stripes.add(stripe);
    this.#touched.clear();
    this.#latestStripe = -1;
    return [...this.#stripes].sort((a, b) => a - b);
  }
}

/** Cells of one stripe in order of row. `row` is infinite past the last one. */
class StripeWalk {
  readonly stripe: number;
  row = Number.POSITIVE_INFINITY;
  column = 0;
  value: Value = null;
  readonly #items: AsyncGenerator<{ readonly key: number | string; readonly value: Value }>;

  constructor(stripe: number, items: AsyncGenerator<{ readonly key: number | string; readonly value: Value }>) {
    this.stripe = stripe;
    this.#items = items;
  }

  async advance(): Promise<void> {
    const next = await this.#items.next();
    if (next.done === true) {
      this.row = Number.POSITIVE_INFINITY;
      return;
    }
    const key = Number(next.value.key);
    this.row = keyRow(key);
    this.column = keyColumn(key);
    this.value = next.value.value;
  }
}

/** The stripes that a run of column ids touches, each with the ids in it. */
function* stripeSpans({ id, length }: Run): Generator<[number, Span]> {
  for (let from = id; from < id + length; ) {
    const stripe = Math.floor(from / STRIPE_COLUMNS);
    const to = Math.min(id + length, (stripe + 1) * STRIPE_COLUMNS);
    yield [stripe, { from, to }];
    from = to;
  }
}
