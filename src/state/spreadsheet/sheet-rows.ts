import type { Value } from '../../codec/value.ts';
import { UsageError } from '../../errors.ts';
import { MAX_COLUMNS, MAX_ROWS } from './cell-key.ts';
import type { Sheet, Span } from './sheet.ts';

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
export async function* sheetRows(sheet: Sheet, rows?: Span, columns?: Span): AsyncGenerator<string[]> {
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
  readonly rows: Span;
  readonly columns: Span;
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
export function checkRectangle({ rows, columns }: Rectangle): void {
  for (const { from, to } of [rows, columns]) {
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
