import { Draft } from '../../../src/state/draft.ts';
import { type SheetEdit, sheetOf, spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { flushState, type State, saveState } from '../../../src/state/state.ts';
import type { NodeStore } from '../../../src/tree/node-store.ts';
import { sheetEntry, trim } from './sheet-model.ts';

/** The state that edits fold to. Its chunks are stored. */
export async function savedSheet(store: NodeStore, edits: readonly SheetEdit[]): Promise<State> {
  const draft = new Draft(store);
  for (const [i, edit] of edits.entries()) await spreadsheet.fold(draft, sheetEntry(edit, i + 1));
  const state = await flushState(store, await draft.state());
  await saveState(store, state);
  return state;
}

/** The texts of a state's sheet, row by row. */
export async function sheetRows(store: NodeStore, state: State): Promise<string[][]> {
  const rows: string[][] = [];
  for await (const { row, column, value } of sheetOf(new Draft(store, state)).cells()) {
    while (rows.length <= row) rows.push([]);
    const cells = rows[row] ?? [];
    while (cells.length <= column) cells.push('');
    cells[column] = String(value);
  }
  return trim(rows);
}

/** Edits of every type. One value is large enough for a separate chunk. */
export const SMALL_SHEET: readonly SheetEdit[] = [
  { type: 'Set', cells: Array.from({ length: 60 }, (_, i) => [i % 12, Math.floor(i / 12), `cell ${i}`] as const) },
  { type: 'Insert Rows', position: 3, count: 2 },
  { type: 'Delete Rows', position: 8, count: 1 },
  { type: 'Insert Columns', position: 1, count: 1 },
  { type: 'Delete Columns', position: 4, count: 1 },
  {
    type: 'Set',
    cells: [
      [3, 0, true],
      [3, 1, 1234.5],
      [4, 130, -7],
      [4, 1, 'large '.repeat(1000)],
    ],
  },
];
