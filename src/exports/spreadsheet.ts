/** The package `logfold/spreadsheet`: the reducer for spreadsheets. Runs in a browser too. */

export { importBody, type SheetImport } from '../state/spreadsheet/import.ts';
export {
  type CellEdit,
  SHEET_ENTRY_VERSIONS,
  type SheetEdit,
  type SheetEntryType,
  sheetBody,
  sheetOf,
  spreadsheet,
} from '../state/spreadsheet/reducer.ts';
export type { AxisRange, Cell, Sheet } from '../state/spreadsheet/sheet.ts';
export { cellText, sheetRows } from '../state/spreadsheet/sheet.ts';
