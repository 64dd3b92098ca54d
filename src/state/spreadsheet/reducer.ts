import { isArray, type Value } from '../../codec/value.ts';
import { SheetLimitError } from '../../errors.ts';
import { at } from '../../tree/array.ts';
import { plainName } from '../history/with-history.ts';
import { bodyInvalid, checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import { checkCellPlace, LIMITS_ADVICE, MAX_COLUMNS, MAX_ROWS } from './cell-key.ts';
import { foldImport } from './import.ts';
import { rebaseSheetEntry } from './rebase.ts';
import { Sheet } from './sheet.ts';

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

/**
 * One operation of the sheet: how it reads the body of its entry, and what the edit does. Returns
 * no promise if nothing must be fetched, which is nearly always the case.
 */
function operation<E>(parse: (body: Value) => E, apply: (sheet: Sheet, edit: E) => void | Promise<void>) {
  return { parse, fold: (sheet: Sheet, { body }: FoldEntry) => apply(sheet, parse(body)) };
}

/** An operation on `count` rows or columns from a position on. */
function axisOperation<T extends Exclude<SheetEntryType, 'Set'>>(
  type: T,
  size: number,
  apply: (sheet: Sheet, position: number, count: number) => Promise<void>,
) {
  return operation(
    (body) => readMove(type, body, size),
    (sheet, { position, count }) => apply(sheet, position, count),
  );
}

/** The operations of the sheet, by the types of their entries. A new operation is a new row. */
const OPERATIONS = {
  Set: operation(
    (body) => readCells('Set', listOf('Set', body)),
    (sheet, { cells }) => setCells(sheet, cells, 0),
  ),
  'Insert Rows': axisOperation('Insert Rows', MAX_ROWS, (sheet, ...where) => sheet.insertRows(...where)),
  'Delete Rows': axisOperation('Delete Rows', MAX_ROWS, (sheet, ...where) => sheet.deleteRows(...where)),
  'Insert Columns': axisOperation('Insert Columns', MAX_COLUMNS, (sheet, ...where) => sheet.insertColumns(...where)),
  'Delete Columns': axisOperation('Delete Columns', MAX_COLUMNS, (sheet, ...where) => sheet.deleteColumns(...where)),
  Import: { fold: foldImport },
} as const satisfies Record<keyof typeof SHEET_ENTRY_VERSIONS, unknown>;

/** The body of an edit's entry in version 1: an array of cells, or `[position, count]`. */
export function sheetBody(edit: SheetEdit): Value {
  return edit.type === 'Set' ? edit.cells : [edit.position, edit.count];
}

/**
 * Reads the body of a spreadsheet entry and checks that the edit stays inside the sheet.
 * @throws BodyInvalidError, SheetLimitError
 */
export function parseSheetEdit(type: SheetEntryType, body: Value): SheetEdit {
  return OPERATIONS[type].parse(body);
}

const sheets = new WeakMap<ReducerDraft, Sheet>();

/** The sheet of a draft. There is one object per draft, since it remembers its last lookups. */
export function sheetOf(draft: ReducerDraft): Sheet {
  const known = sheets.get(draft);
  if (known !== undefined) return known;
  const sheet = new Sheet(draft);
  sheets.set(draft, sheet);
  return sheet;
}

/**
 * Folds the edits of a spreadsheet: values of cells, inserted and deleted rows and columns, and
 * imports of workbooks.
 */
export const spreadsheet: Reducer = {
  name: 'spreadsheet',
  version: 1,
  fold(draft: ReducerDraft, entry: FoldEntry): void | Promise<void> {
    checkType(entry, SHEET_ENTRY_VERSIONS);
    return OPERATIONS[entry.type].fold(sheetOf(draft), entry);
  },
  rebase: rebaseSheetEntry,
};

/** Whether a reducer folds the edits of a spreadsheet, with or without its history. */
export function foldsSheets(reducer: Pick<Reducer, 'name'>): boolean {
  return plainName(reducer) === spreadsheet.name;
}

function readMove<T extends string>(type: T, body: Value, size: number) {
  const [position, count, ...rest] = listOf(type, body);
  if (!isNatural(position) || !isNatural(count) || rest.length > 0) {
    throw bodyInvalid(type, 'its body is not [position, count]');
  }
  if (position + count > size) {
    throw new SheetLimitError(`'${type}' of ${count} at position ${position} exceeds the size of ${size}`, {
      advice: LIMITS_ADVICE,
    });
  }
  return { type, position, count };
}

// A plain loop with indexes, since it runs for every cell of every entry, often in a process that
// has just started.
function readCells(type: 'Set', cells: readonly Value[]): SheetEdit & { readonly type: 'Set' } {
  if (!cells.every(isCell))
    throw bodyInvalid(type, 'a cell is not [row, column, value] with whole numbers of at least 0');
  for (let i = 0; i < cells.length; i++) {
    const cell = at(cells, i);
    checkCellPlace(cell[0], cell[1]);
  }
  return { type, cells };
}

/** Sets cells from an index onward. */
function setCells(sheet: Sheet, cells: readonly CellEdit[], from: number): void | Promise<void> {
  for (let i = from; i < cells.length; i++) {
    const cell = at(cells, i);
    const fetched = sheet.set(cell[0], cell[1], cell[2]);
    if (fetched !== undefined) return fetched.then(() => setCells(sheet, cells, i + 1));
  }
}

function listOf(type: string, body: Value): readonly Value[] {
  if (isArray(body)) return body;
  throw bodyInvalid(type, 'its body is not an array');
}

function isCell(cell: Value): cell is CellEdit {
  return isArray(cell) && cell.length === 3 && isNatural(cell[0]) && isNatural(cell[1]);
}

function isNatural(value: Value | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
