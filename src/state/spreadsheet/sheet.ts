import type { Value } from '../../codec/value.ts';
import { UsageError } from '../../errors.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { at } from '../../tree/array.ts';
import type { Key } from '../../tree/key.ts';
import type { KeySet, KeySpan } from '../../tree/key-set.ts';
import { type MapItem, READ_AHEAD } from '../../tree/read.ts';
import type { DraftMap } from '../draft-map.ts';
import type { ReducerDraft } from '../reducer.ts';
import { Axis, type AxisRun, firstIndex, IdRuns, type PositionedRun } from './axis.ts';
import {
  CELLS_MAP,
  cellKey,
  keyColumn,
  keyRow,
  keyStripe,
  MAX_COLUMNS,
  MAX_ROWS,
  rowCells,
  rowStart,
  STRIPE_COLUMNS,
  stripeStart,
} from './cell-key.ts';

/** A non-empty cell, by position. */
export interface Cell {
  readonly row: number;
  readonly column: number;
  readonly value: Value;
}

/** A range of positions, `from` up to but not including `to`. */
export interface AxisRange {
  readonly from: number;
  readonly to: number;
}

/** Up to this many runs of rows in stripes are walked without a check which of them have cells. */
const FEW_WALKS = 64;

/**
 * A spreadsheet in a draft: cells under stable row and column ids, and two axes from positions to
 * ids.
 */
export class Sheet {
  readonly rows: Axis;
  readonly columns: Axis;
  readonly #cells: DraftMap;

  constructor(draft: ReducerDraft) {
    this.#cells = draft.map(CELLS_MAP, 'number', { buffers: true });
    this.rows = new Axis(draft.map('rows', 'string', { history: false }), MAX_ROWS);
    this.columns = new Axis(draft.map('columns', 'string', { history: false }), MAX_COLUMNS);
  }

  /**
   * Sets the cell at a position. Null or '' empties it. Works without a promise if the last lookups
   * found the runs of row and column.
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

  /** The non-empty cells of a rectangle in order of row. The order within a row is not promised. */
  async *cells(
    rows: AxisRange = { from: 0, to: MAX_ROWS },
    columns: AxisRange = { from: 0, to: MAX_COLUMNS },
  ): AsyncGenerator<Cell> {
    const [rowRuns, inColumns] = await Promise.all([
      Array.fromAsync(this.rows.runs(rows.from, rows.to)),
      Array.fromAsync(this.columns.runs(columns.from, columns.to)),
    ]);
    const columnRuns = new IdRuns(inColumns);
    for await (const { run, walks } of this.#started(await this.#occupied(rowRuns, columnRuns))) {
      // A binary heap. The first walk has the least row; ties go to the least stripe.
      walks.sort((a, b) => (isBefore(a, b) ? -1 : 1));
      for (let first = walks[0]; first !== undefined && first.row !== Number.POSITIVE_INFINITY; first = walks[0]) {
        const { row } = first;
        for (; first.row === row; await first.advance()) {
          const column = columnRuns.position(first.column);
          if (column !== undefined) yield { row: run.start + row - run.id, column, value: first.value };
        }
        siftDown(walks);
      }
    }
  }

  /**
   * The numbers of rows and columns that contain all non-empty cells; 0 and 0 for an empty sheet.
   * Reads all keys, but no values.
   */
  async usedRange(): Promise<{ readonly rows: number; readonly columns: number }> {
    const rowRuns = new IdRuns(await Array.fromAsync(this.rows.runs()));
    const columnRuns = new IdRuns(await Array.fromAsync(this.columns.runs()));
    let [rows, columns] = [0, 0];
    for await (const keys of this.#cells.keys()) {
      for (const key of keys) {
        rows = Math.max(rows, (rowRuns.position(keyRow(Number(key))) ?? -1) + 1);
        columns = Math.max(columns, (columnRuns.position(keyColumn(Number(key))) ?? -1) + 1);
      }
    }
    return { rows, columns };
  }

  /**
   * The runs of rows that may have cells, in order, each with the stripes in which it may have
   * them.
   */
  async #occupied(rows: readonly PositionedRun[], columns: IdRuns): Promise<readonly OccupiedRun[]> {
    const keys = new RectangleKeys(rows, columns);
    // Walking a few empty stripes costs no more than finding out that they are empty. The walks run
    // in parallel.
    if (rows.length * keys.stripeCount <= FEW_WALKS) {
      const stripes = [...keys.stripes()];
      return rows.map((run) => ({ run, stripes }));
    }
    const stripesOf = new Map<PositionedRun, Set<number>>();
    for (const key of await this.#cells.firstKeys(keys)) {
      const run = keys.rowRun(Number(key));
      if (run === undefined) continue;
      const stripes = stripesOf.get(run) ?? new Set();
      stripesOf.set(run, stripes.add(keyStripe(Number(key))));
    }
    return rows.flatMap((run) => {
      const stripes = stripesOf.get(run);
      return stripes === undefined ? [] : [{ run, stripes: [...stripes].sort((a, b) => a - b) }];
    });
  }

  /**
   * The walks of each run, at their first cells. The walks of the next few runs start ahead, so
   * that their requests run in parallel.
   */
  async *#started(occupied: readonly OccupiedRun[]): AsyncGenerator<StartedRun> {
    const starting: Promise<StartedRun>[] = [];
    for (const { run, stripes } of occupied) {
      const ahead = Math.floor(READ_AHEAD / stripes.length);
      const walks = Promise.all(stripes.map((stripe) => this.#walk(stripe, run, ahead)));
      const started = walks.then((all) => ({ run, walks: all }));
      // Awaited later or never. A failure must not count as unhandled.
      started.catch(() => undefined);
      starting.push(started);
      if (starting.length > ahead) for (const ready of starting.splice(0, starting.length - ahead)) yield await ready;
    }
    for (const started of starting) yield await started;
  }

  async #walk(stripe: number, run: AxisRun, ahead: number): Promise<StripeWalk> {
    const range = { from: rowStart(stripe, run.id), to: rowStart(stripe, run.id + run.length), ahead };
    const walk = new StripeWalk(stripe, this.#cells.items(range));
    await walk.advance();
    return walk;
  }

  /** Deletes the cells of rows by id: one range per run, for any number of stripes. */
  #dropRows(runs: readonly AxisRun[]): void {
    for (const { id, length } of runs) this.#cells.deleteRange(rowCells(id, length));
  }

  /**
   * Deletes the cells of columns by id: at most three ranges per run (whole stripes, parts of the
   * first and last stripe).
   */
  #dropColumns(runs: readonly AxisRun[]): void {
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

  /** Deletes the cells of columns, by id, within one stripe. */
  #dropInStripe(stripe: number, from: number, to: number): void {
    if (from === to) return;
    const start = stripe * STRIPE_COLUMNS;
    const every = { period: STRIPE_COLUMNS, from: from - start, to: to - start };
    this.#cells.deleteRange({ from: stripeStart(stripe), to: stripeStart(stripe + 1), every });
  }
}

/** A run of rows and the stripes in which it may have cells. */
interface OccupiedRun {
  readonly run: PositionedRun;
  readonly stripes: readonly number[];
}

/** A run of rows and a walk through each of its stripes. */
interface StartedRun {
  readonly run: PositionedRun;
  readonly walks: StripeWalk[];
}

/** The keys of all cells of a rectangle: one span per run of rows and stripe. */
class RectangleKeys implements KeySet {
  readonly stripeCount: number;
  readonly #rows: IdRuns;
  /** Spans of consecutive stripes, in ascending order. */
  readonly #stripes: AxisRange[] = [];

  constructor(rows: readonly PositionedRun[], columns: IdRuns) {
    this.#rows = new IdRuns(rows);
    for (const { id, length } of columns.runs) {
      const from = Math.floor(id / STRIPE_COLUMNS);
      const to = Math.floor((id + length - 1) / STRIPE_COLUMNS) + 1;
      const last = this.#stripes.at(-1);
      if (last === undefined || last.to < from) this.#stripes.push({ from, to });
      else this.#stripes[this.#stripes.length - 1] = { from: last.from, to };
    }
    this.stripeCount = this.#stripes.reduce((total, { from, to }) => total + to - from, 0);
  }

  *stripes(): Generator<number> {
    for (const { from, to } of this.#stripes) for (let stripe = from; stripe < to; stripe++) yield stripe;
  }

  /** The run of rows that contains a key. */
  rowRun(key: number): PositionedRun | undefined {
    return this.#rows.endingAfter(keyRow(key));
  }

  next(key: Key): KeySpan | undefined {
    const stripe = this.#stripeFrom(keyStripe(Number(key)));
    if (stripe === undefined) return undefined;
    const row = stripe === keyStripe(Number(key)) ? keyRow(Number(key)) : 0;
    const run = this.#rows.endingAfter(row);
    if (run !== undefined) return rowsOf(stripe, run);
    const [first, next] = [this.#rows.runs[0], this.#stripeFrom(stripe + 1)];
    return first === undefined || next === undefined ? undefined : rowsOf(next, first);
  }

  /** The first stripe of the rectangle at or after the given one. */
  #stripeFrom(stripe: number): number | undefined {
    const span = this.#stripes[firstIndex(this.#stripes, ({ to }) => to > stripe)];
    return span === undefined ? undefined : Math.max(span.from, stripe);
  }
}

function rowsOf(stripe: number, { id, length }: AxisRun): KeySpan {
  return { from: rowStart(stripe, id), to: rowStart(stripe, id + length) };
}

/** Restores the order of a binary heap of walks after its first walk moved. */
function siftDown(heap: StripeWalk[]): void {
  const item = at(heap, 0);
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    const [left, right] = [heap[child], heap[child + 1]];
    if (left === undefined) break;
    if (right !== undefined && isBefore(right, left)) child++;
    if (!isBefore(at(heap, child), item)) break;
    heap[index] = at(heap, child);
    index = child;
  }
  heap[index] = item;
}

/** Whether a walk comes first in the heap: it has the lesser row, or the lesser stripe of a tie. */
function isBefore(a: StripeWalk, b: StripeWalk): boolean {
  return a.row < b.row || (a.row === b.row && a.stripe < b.stripe);
}

/** The cells of one stripe in order of row. `row` is infinite past the last cell. */
class StripeWalk {
  readonly stripe: number;
  row = Number.POSITIVE_INFINITY;
  column = 0;
  value: Value = null;
  readonly #items: AsyncGenerator<MapItem>;

  constructor(stripe: number, items: AsyncGenerator<MapItem>) {
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

/** The text of a cell: '' if it is empty, otherwise the value as text. */
export function cellText(value: Value | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}

/**
 * The rows of a sheet from the start of a span to the last row with a cell, each as strings without
 * the empty cells at its end. Makes rows on demand, so it streams sheets of any size.
 */
export async function* sheetRows(sheet: Sheet, rows?: AxisRange, columns?: AxisRange): AsyncGenerator<string[]> {
  let position = rows?.from ?? 0;
  let current: string[] = [];
  for await (const { row, column, value } of sheet.cells(rows, columns)) {
    for (; position < row; position++) {
      yield current;
      current = [];
    }
    const index = column - (columns?.from ?? 0);
    while (current.length < index) current.push('');
    current[index] = cellText(value);
  }
  if (current.length > 0) yield current;
}

/** A rectangle of a sheet, by position. */
export interface Rectangle {
  readonly rows: AxisRange;
  readonly columns: AxisRange;
}

/** The most cells of a rectangle that is read as a whole. */
const MAX_CELLS = 1_000_000;

/**
 * The values of a rectangle, row by row; null for an empty cell.
 * @throws UsageError as {@link checkRectangle} does
 */
export async function readRectangle(sheet: Sheet, rectangle: Rectangle): Promise<Value[][]> {
  checkRectangle(rectangle);
  const { rows, columns } = rectangle;
  const width = columns.to - columns.from;
  const grid = Array.from({ length: rows.to - rows.from }, () => Array.from({ length: width }, (): Value => null));
  for await (const { row, column, value } of sheet.cells(rows, columns)) {
    const cells = grid[row - rows.from];
    if (cells !== undefined) cells[column - columns.from] = value;
  }
  return grid;
}

/**
 * @throws UsageError if the spans are not ranges of whole numbers, leave the sheet, or have more
 * than 1,000,000 cells
 */
export function checkRectangle(rectangle: Rectangle): void {
  checkOptionNames('a rectangle', rectangle, ['rows', 'columns'] satisfies (keyof Rectangle)[]);
  const { rows, columns } = rectangle;
  for (const [name, range] of Object.entries({ rows, columns })) {
    checkOptionNames(`\`${name}\` of a rectangle`, range, ['from', 'to'] satisfies (keyof AxisRange)[]);
    const { from, to } = range;
    if (Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to >= from) continue;
    throw new UsageError(`${from} to ${to} is not a range of positions`);
  }
  if (rows.to > MAX_ROWS || columns.to > MAX_COLUMNS) {
    throw new UsageError(`the rectangle reaches past the sheet's ${MAX_ROWS} rows and ${MAX_COLUMNS} columns`);
  }
  const cells = (rows.to - rows.from) * (columns.to - columns.from);
  if (cells > MAX_CELLS) {
    throw new UsageError(`the rectangle has ${cells} cells, over the limit of ${MAX_CELLS}`, {
      advice: 'View a smaller rectangle, or export the sheet',
    });
  }
}
