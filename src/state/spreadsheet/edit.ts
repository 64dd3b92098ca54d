import type { Value } from '../../codec/value.ts';
import { SheetLimitError } from '../../errors.ts';
import { at } from '../../tree/array.ts';
import { bodyInvalid } from '../reducer.ts';
import { MAX_COLUMNS, MAX_ROWS } from './cell-key.ts';

/**
 * The entry types that the spreadsheet reducer folds, each with the highest version of its body.
 */
export const SHEET_ENTRY_VERSIONS = {
  Set: 1,
  'Insert Rows': 1,
  'Delete Rows': 1,
  'Insert Columns': 1,
  'Delete Columns': 1,
  Import: 1,
} as const;

/** The types whose entries have no file. */
export type SheetEntryType = Exclude<keyof typeof SHEET_ENTRY_VERSIONS, 'Import'>;

/**
 * One cell of a Set: row and column by position, from 0, and the value. Null or '' empties the
 * cell.
 */
export type CellEdit = readonly [row: number, column: number, value: Value];

export type SheetEdit =
  | { readonly type: 'Set'; readonly cells: readonly CellEdit[] }
  | { readonly type: Exclude<SheetEntryType, 'Set'>; readonly position: number; readonly count: number };

/** The body of an edit's entry in version 1: an array of cells, or `[position, count]`. */
export function sheetBody(edit: SheetEdit): Value {
  return edit.type === 'Set' ? edit.cells : [edit.position, edit.count];
}

/**
 * Reads the body of a spreadsheet entry and checks that the edit stays inside the sheet.
 * @throws BodyInvalidError, SheetLimitError
 */
export function parseSheetEdit(type: SheetEntryType, body: Value): SheetEdit {
  if (!isArray(body)) throw bodyInvalid(type, 'its body is not an array');
  if (type === 'Set') return { type, cells: checkCells(body) };
  const [position, count, ...rest] = body;
  if (!isNatural(position) || !isNatural(count) || rest.length > 0) {
    throw bodyInvalid(type, 'its body is not [position, count]');
  }
  const size = type.endsWith('Rows') ? MAX_ROWS : MAX_COLUMNS;
  if (position + count > size) {
    throw new SheetLimitError(`'${type}' of ${count} at position ${position} exceeds the size of ${size}`, {
      advice: LIMITS,
    });
  }
  return { type, position, count };
}

const LIMITS = `Stay within rows 0 to ${MAX_ROWS - 1} and columns 0 to ${MAX_COLUMNS - 1}`;

// A plain loop with indexes, since it runs for every cell of every entry, often in a process that
// has just started.
function checkCells(cells: readonly Value[]): readonly CellEdit[] {
  if (!cells.every(isCell))
    throw bodyInvalid('Set', 'a cell is not [row, column, value] with whole numbers of at least 0');
  for (let i = 0; i < cells.length; i++) {
    const cell = at(cells, i);
    checkCellPlace(cell[0], cell[1]);
  }
  return cells;
}

/** @throws SheetLimitError if a position from 0 on is outside the sheet */
export function checkCellPlace(row: number, column: number): void {
  if (row < MAX_ROWS && column < MAX_COLUMNS) return;
  throw new SheetLimitError(`the cell at row ${row}, column ${column} is outside the sheet`, { advice: LIMITS });
}

function isCell(cell: Value): cell is CellEdit {
  return isArray(cell) && cell.length === 3 && isNatural(cell[0]) && isNatural(cell[1]);
}

function isArray(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

function isNatural(value: Value | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
