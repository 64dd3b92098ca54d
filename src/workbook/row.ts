import type { Value } from '../codec/value.ts';

/** A row that has cells. Rows and columns count from 0. */
export interface WorkbookRow {
  readonly row: number;
  /** The cells that are not empty, in ascending order of their columns. */
  readonly cells: readonly WorkbookCell[];
}

export type WorkbookCell = readonly [column: number, value: Value];

/** The longest text of a cell, in characters. Longer texts come from quotes that nothing closes. */
export const MAX_CELL_CHARACTERS = 2 ** 20;
/** The longest row, in characters of its texts. */
export const MAX_ROW_CHARACTERS = 2 ** 24;

/** The approximate size of a batch. */
const BATCH_CELLS = 8_192;
const BATCH_CHARACTERS = 256 * 1024;

/** Collects rows until they are enough for a batch. */
export class RowBatch {
  #rows: WorkbookRow[] = [];
  #cells = 0;
  #characters = 0;

  /** @param characters the length of the row's texts */
  add(row: WorkbookRow, characters: number): void {
    this.#rows.push(row);
    this.#cells += row.cells.length;
    this.#characters += characters;
  }

  get full(): boolean {
    return this.#cells >= BATCH_CELLS || this.#characters >= BATCH_CHARACTERS;
  }

  /** Empties the batch. The result may have no rows. */
  take(): WorkbookRow[] {
    const rows = this.#rows;
    this.#rows = [];
    this.#cells = 0;
    this.#characters = 0;
    return rows;
  }
}
