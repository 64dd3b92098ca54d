import type { Value } from '../../src/codec/value.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import type { Sheet } from '../../src/state/spreadsheet/sheet.ts';

/** A row of a plain sheet. A row that moves stays the same object. */
export type PlainRow = Value[];

/** The same table in plain arrays. The sheet of logfold must equal it. */
export class PlainSheet {
  readonly rows: PlainRow[] = [];

  apply(edit: SheetEdit): void {
    switch (edit.type) {
      case 'Set':
        for (const [row, column, value] of edit.cells) this.#set(row, column, value);
        return;
      case 'Insert Rows':
        this.rows.splice(edit.position, 0, ...Array.from({ length: edit.count }, () => []));
        return;
      case 'Delete Rows':
        this.rows.splice(edit.position, edit.count);
        return;
      case 'Insert Columns':
        for (const row of this.rows) {
          if (edit.position < row.length) row.splice(edit.position, 0, ...new Array<Value>(edit.count).fill(null));
        }
        return;
      case 'Delete Columns':
        for (const row of this.rows) row.splice(edit.position, edit.count);
    }
  }

  /** Cells that are not empty. */
  get cells(): number {
    return this.rows.reduce((total, row) => total + row.filter((value) => !isEmpty(value)).length, 0);
  }

  #set(row: number, column: number, value: Value): void {
    while (this.rows.length <= row) this.rows.push([]);
    const cells = this.rows[row] ?? [];
    while (cells.length <= column) cells.push(null);
    cells[column] = value;
  }
}

function isEmpty(value: Value | undefined): boolean {
  return value === undefined || value === null || value === '';
}

/** The result of comparing a sheet with a plain sheet. */
export interface Comparison {
  readonly rows: number;
  readonly cells: number;
  readonly equal: boolean;
  /** The first difference in words; null if there is none. */
  readonly difference: string | null;
}

/** Compares every cell of a sheet with a plain sheet. */
export async function compareSheets(sheet: Sheet, plain: PlainSheet): Promise<Comparison> {
  let cells = 0;
  let difference: string | null = null;
  for await (const { row, column, value } of sheet.cells()) {
    const expected = plain.rows[row]?.[column];
    if (value !== expected) difference ??= `row ${row}, column ${column} is ${value}, not ${expected}`;
    cells++;
  }
  if (cells !== plain.cells) difference ??= `${cells} cells are not empty, not ${plain.cells}`;
  return { rows: plain.rows.length, cells, equal: difference === null, difference };
}
