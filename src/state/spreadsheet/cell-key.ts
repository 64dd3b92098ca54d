import { SheetLimitError } from '../../errors.ts';
import type { RangeDelete } from '../../tree/range-delete.ts';

/** Rows of a sheet. Ids and positions go from 0 up to but not including this. */
export const MAX_ROWS = 2 ** 32;
export const MAX_COLUMNS = 2 ** 20;
/** The map of a sheet's cells. */
export const CELLS_MAP = 'cells';
/** Columns of a stripe. The cells of a stripe have neighbouring keys. */
export const STRIPE_COLUMNS = 128;

const STRIPES = MAX_COLUMNS / STRIPE_COLUMNS;

const ROW_SPAN = STRIPE_COLUMNS;
const STRIPE_SPAN = MAX_ROWS * ROW_SPAN;

/**
 * A cell's key, from the ids of its row and column: column stripe (13 bits), row (32), column in
 * its stripe (7). Cells of neighbouring rows and columns have neighbouring keys, so a rectangle
 * is in few leaves.
 */
export function cellKey(row: number, column: number): number {
  // Most cells are in the first stripe. Products with its 0 would be floating point numbers, which
  // make arrays of keys slower.
  if (column < STRIPE_COLUMNS) return row * ROW_SPAN + column;
  const inStripe = column % STRIPE_COLUMNS;
  return stripeStart((column - inStripe) / STRIPE_COLUMNS) + row * ROW_SPAN + inStripe;
}

/** The first key of a stripe. For the stripe after the last: the first number that is not a key. */
export function stripeStart(stripe: number): number {
  return stripe * STRIPE_SPAN;
}

/** The first key of a row in a stripe. */
export function rowStart(stripe: number, row: number): number {
  return stripeStart(stripe) + row * ROW_SPAN;
}

export function keyStripe(key: number): number {
  return Math.floor(key / STRIPE_SPAN);
}

export function keyRow(key: number): number {
  return Math.floor((key % STRIPE_SPAN) / ROW_SPAN);
}

export function keyColumn(key: number): number {
  return keyStripe(key) * STRIPE_COLUMNS + (key % STRIPE_COLUMNS);
}

/** The cells of rows, by id, in all stripes. */
export function rowCells(row: number, count: number): RangeDelete {
  const every = { period: stripeStart(1), from: rowStart(0, row), to: rowStart(0, row + count) };
  return { from: 0, to: stripeStart(STRIPES), every };
}

/** Advice for an edit outside the sheet. */
export const LIMITS_ADVICE = `Stay within rows 0 to ${MAX_ROWS - 1} and columns 0 to ${MAX_COLUMNS - 1}`;

/** @throws SheetLimitError if a position from 0 on is outside the sheet */
export function checkCellPlace(row: number, column: number): void {
  if (row < MAX_ROWS && column < MAX_COLUMNS) return;
  throw new SheetLimitError(`the cell at row ${row}, column ${column} is outside the sheet`, { advice: LIMITS_ADVICE });
}
