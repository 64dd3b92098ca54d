import type { Draft } from '../draft.ts';
import { checkType, type FoldEntry, type Reducer } from '../reducer.ts';
import { parseSheetEdit, SHEET_ENTRY_VERSIONS, type SheetEdit } from './edit.ts';
import { Sheet } from './sheet.ts';

const sheets = new WeakMap<Draft, Sheet>();

/** The sheet of a draft: one object for as long as the draft lives, since it remembers what it looked up. */
export function sheetOf(draft: Draft): Sheet {
  const known = sheets.get(draft) ?? new Sheet(draft);
  sheets.set(draft, known);
  return known;
}

/** Folds the edits of a spreadsheet: cells, and rows and columns that come and go. */
export const spreadsheet: Reducer = {
  name: 'spreadsheet',
  version: 1,
  async fold(draft: Draft, entry: FoldEntry): Promise<void> {
    checkType(entry, SHEET_ENTRY_VERSIONS);
    await applyEdit(sheetOf(draft), parseSheetEdit(entry.type, entry.body));
  },
};

async function applyEdit(sheet: Sheet, edit: SheetEdit): Promise<void> {
  switch (edit.type) {
    case 'Set':
      for (const [row, column, value] of edit.cells) await sheet.set(row, column, value);
      return;
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
