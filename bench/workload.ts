import { parseLogId } from '../src/ids/log-id.ts';
import type { FoldEntry } from '../src/state/reducer.ts';
import type { AxisRange } from '../src/state/spreadsheet/sheet.ts';
import { permutation } from './permutation.ts';
import { mix, Random } from './random.ts';

const LOG = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');

/** Rows of the sheet in full size. */
export const ROWS = 10_000;
export const COLUMNS = 100;

const SEED = 20_240_611;
const DICTIONARY_WORDS = 1000;
const PAGE_ENTRIES = 1000;
const CLUSTER_ROWS = 100;
const VIEW_ROWS = 50;
const VIEW_COLUMNS = 20;

export type CellValue = number | string;

export interface SheetCell {
  readonly row: number;
  readonly column: number;
  readonly value: CellValue;
}

/** An entry that sets one cell, with its body decoded. */
export interface CellEntry extends FoldEntry {
  readonly body: readonly [readonly [row: number, column: number, value: CellValue]];
}

export interface Rectangle {
  readonly rows: AxisRange;
  readonly columns: AxisRange;
}

/**
 * Clustered edits are in 100 adjacent rows in the middle of the sheet. Scattered edits are
 * anywhere.
 */
export type Spread = 'clustered' | 'scattered';

/**
 * The data of every phase and system: a sheet and its edits. Half of the cells hold whole numbers
 * below 1,000, 30% random strings of 5 to 20 letters, and 20% words of a dictionary of 1,000. The
 * value of a cell is computed from its place, so that there is no list of values.
 */
export class Workload {
  readonly rows: number;
  readonly cells: number;
  readonly #dictionary: readonly string[];

  constructor(rows: number) {
    this.rows = rows;
    this.cells = rows * COLUMNS;
    const random = new Random(SEED);
    this.#dictionary = Array.from({ length: DICTIONARY_WORDS }, () => letters(random, 3 + random.below(8)));
  }

  /** Generates the entries that fill the sheet, one per cell, in pages of 1,000. */
  *pages(order: 'rows' | 'shuffled'): Generator<CellEntry[]> {
    const place = order === 'rows' ? (index: number) => index : permutation(this.cells, SEED);
    for (let from = 0; from < this.cells; from += PAGE_ENTRIES) {
      const length = Math.min(PAGE_ENTRIES, this.cells - from);
      yield Array.from({ length }, (_, i) => {
        const index = place(from + i);
        return entry(from + i, { ...cellPlace(index), value: this.#value(0, index) });
      });
    }
  }

  /** The entries of one round of edits. Their positions continue those of the previous round. */
  edits(spread: Spread, count: number, round = 0): CellEntry[] {
    const random = new Random(mix(SEED + 1 + round));
    const clusterRows = Math.min(CLUSTER_ROWS, this.rows);
    const [start, size] =
      spread === 'scattered' ? [0, this.cells] : [this.#middle(clusterRows) * COLUMNS, clusterRows * COLUMNS];
    const first = this.cells + round * count;
    return Array.from({ length: count }, (_, i) => {
      const value = this.#value(1 + round, i);
      return entry(first + i, { ...cellPlace(start + random.below(size)), value });
    });
  }

  /** 50 x 20 cells in the middle of the sheet. */
  view(): Rectangle {
    const rows = Math.min(VIEW_ROWS, this.rows);
    return { rows: spanFrom(this.#middle(rows), rows), columns: spanFrom((COLUMNS - VIEW_COLUMNS) / 2, VIEW_COLUMNS) };
  }

  /** The cells that a view shows after edits, row by row. */
  viewed({ rows, columns }: Rectangle, edits: readonly CellEntry[]): SheetCell[] {
    const edited = new Map(edits.map(({ body: [[row, column, value]] }) => [row * COLUMNS + column, value]));
    const cells: SheetCell[] = [];
    for (let row = rows.from; row < rows.to; row++) {
      for (let column = columns.from; column < columns.to; column++) {
        const index = row * COLUMNS + column;
        cells.push({ row, column, value: edited.get(index) ?? this.#value(0, index) });
      }
    }
    return cells;
  }

  #middle(rows: number): number {
    return Math.floor((this.rows - rows) / 2);
  }

  #value(round: number, index: number): CellValue {
    const random = new Random(mix(index ^ mix(SEED ^ mix(round))));
    const kind = random.next();
    if (kind < 0.5) return random.below(1000);
    if (kind < 0.8) return letters(random, 5 + random.below(16));
    return this.#dictionary[random.below(DICTIONARY_WORDS)] ?? '';
  }
}

export function isInside({ rows, columns }: Rectangle, row: number, column: number): boolean {
  return row >= rows.from && row < rows.to && column >= columns.from && column < columns.to;
}

function entry(number: number, { row, column, value }: SheetCell): CellEntry {
  // Entry 0 of a log is its first Snapshot entry.
  const position = { segment: 0, entry: number + 1 };
  return { log: LOG, position, created: 0, createdMs: 0, type: 'Set', version: 1, body: [[row, column, value]] };
}

function cellPlace(index: number): { readonly row: number; readonly column: number } {
  return { row: Math.floor(index / COLUMNS), column: index % COLUMNS };
}

function spanFrom(from: number, length: number): AxisRange {
  return { from, to: from + length };
}

/**
 * Random letters in one piece of memory, like a decoded string, since the letters are not
 * concatenated.
 */
function letters(random: Random, length: number): string {
  return String.fromCharCode(...Array.from({ length }, () => 97 + random.below(26)));
}
