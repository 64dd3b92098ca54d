import { at } from '../../tree/array.ts';
import { checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import { type CellEdit, parseSheetEdit, SHEET_ENTRY_VERSIONS, type SheetEdit } from './edit.ts';
import { Sheet } from './sheet.ts';

const sheets = new WeakMap<ReducerDraft, Sheet>();

/** The sheet of a draft: one object for as long as the draft lives, since it remembers what it looked up. */
export function sheetOf(draft: ReducerDraft): Sheet {
  const known = sheets.get(draft) ?? new Sheet(draft);
  sheets.set(draft, known);
  return known;
}

/** Folds the edits of a spreadsheet: cells, and rows and columns that come and go. */
export const spreadsheet: Reducer = {
  name: 'spreadsheet',
  version: 1,
  fold(draft: ReducerDraft, entry: FoldEntry): void | Promise<void> {
    checkType(entry, SHEET_ENTRY_VERSIONS);
    return applyEdit(sheetOf(draft), parseSheetEdit(entry.type, entry.body));
  },
};

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

/** Sets cells from an index on; without a promise as long as nothing has to be fetched, which is nearly always. */
function setCells(sheet: Sheet, cells: readonly CellEdit[], from: number): void | Promise<void> {
  for (let i = from; i < cells.length; i++) {
    const cell = at(cells, i);
    const buffer = sheet.set(cell[0], cell[1], cell[2]);
    if (buffer !== undefined) return buffer.then(() => setCells(sheet, cells, i + 1));
  }
}
