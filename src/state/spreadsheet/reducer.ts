import { at } from '../../tree/array.ts';
import { plainName } from '../history/with-history.ts';
import { checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import { type CellEdit, parseSheetEdit, SHEET_ENTRY_VERSIONS, type SheetEdit } from './edit.ts';
import { foldImport } from './import.ts';
import { Sheet } from './sheet.ts';

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
    if (entry.type === 'Import') return foldImport(sheetOf(draft), entry);
    return applyEdit(sheetOf(draft), parseSheetEdit(entry.type, entry.body));
  },
};

/** Whether a reducer folds the edits of a spreadsheet, with or without its history. */
export function foldsSheets(reducer: Pick<Reducer, 'name'>): boolean {
  return plainName(reducer) === spreadsheet.name;
}

function applyEdit(sheet: Sheet, edit: SheetEdit): void | Promise<void> {
  switch (edit.type) {
    case 'Set':
      return setCells(sheet, edit.cells, 0);
    case 'Insert Rows':
      return sheet.insertRows(edit.position, edit.count);
    case 'Delete Rows':
      return sheet.deleteRows(edit.position, edit.count);
    case 'Insert Columns':
      return sheet.insertColumns(edit.position, edit.count);
    case 'Delete Columns':
      return sheet.deleteColumns(edit.position, edit.count);
  }
}

/**
 * Sets cells from an index onward. Returns no promise if nothing must be fetched, which is nearly
 * always the case.
 */
function setCells(sheet: Sheet, cells: readonly CellEdit[], from: number): void | Promise<void> {
  for (let i = from; i < cells.length; i++) {
    const cell = at(cells, i);
    const fetched = sheet.set(cell[0], cell[1], cell[2]);
    if (fetched !== undefined) return fetched.then(() => setCells(sheet, cells, i + 1));
  }
}
