/**
 * Everything that documents need to read sheets. A document loads this module when it reads a
 * sheet, so that bundlers can leave the spreadsheet out of pages that show other documents.
 */
import type { Key } from '../../tree/key.ts';
import type { HistoryKeys } from '../history/key-changes.ts';
import { CELLS_MAP, cellKey, keyColumn, MAX_COLUMNS, MAX_ROWS, rowCells } from './cell-key.ts';
import type { Sheet } from './sheet.ts';

export { sheetOf } from './reducer.ts';
export { readRectangle } from './sheet.ts';
export { diffSheets } from './sheet-diff.ts';

/** The place at which the history of a cell or a row is recorded. */
export interface SheetKeys {
  readonly keys: HistoryKeys;
  /** For a row: the column of a cell, by the cell's key. */
  readonly columnOf?: (key: Key) => number;
}

/** Whether these numbers are the position of a cell, or of a row if there is no column. */
export function isSheetPlace(row: unknown, column?: unknown): boolean {
  return isBelow(row, MAX_ROWS) && (column === undefined || isBelow(column, MAX_COLUMNS));
}

/** The keys of a cell, or of a row if there is no column. */
export async function keysInSheet(sheet: Sheet, row: number, column?: number): Promise<SheetKeys> {
  const rowId = await sheet.rows.idAt(row);
  if (column !== undefined) {
    return { keys: { map: CELLS_MAP, key: cellKey(rowId, await sheet.columns.idAt(column)) } };
  }
  const columns = await Array.fromAsync(sheet.columns.runs());
  return {
    keys: { map: CELLS_MAP, range: rowCells(rowId, 1) },
    columnOf: (key) => {
      const id = keyColumn(Number(key));
      const run = columns.find((each) => id >= each.id && id < each.id + each.length);
      return run === undefined ? MAX_COLUMNS : run.start + id - run.id;
    },
  };
}

function isBelow(number: unknown, limit: number): boolean {
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 && number < limit;
}
