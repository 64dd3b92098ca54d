import fc from 'fast-check';
import type { Value } from '../../../src/codec/value.ts';
import type { FoldEntry } from '../../../src/state/reducer.ts';
import { type SheetEdit, sheetBody } from '../../../src/state/spreadsheet/reducer.ts';
import { LOG } from '../logs.ts';

/** A simple sheet: an array of rows, edited by splicing. The reducer's fold must equal it. */
export class SheetModel {
  readonly rows: string[][] = [];

  apply(edit: SheetEdit): void {
    if (edit.type === 'Set') for (const [row, column, value] of edit.cells) this.#set(row, column, String(value ?? ''));
    else if (edit.type === 'Insert Rows') this.rows.splice(edit.position, 0, ...this.#blank(edit.position, edit.count));
    else if (edit.type === 'Delete Rows') this.rows.splice(edit.position, edit.count);
    else for (const row of this.rows) this.#spliceColumns(row, edit);
  }

  #blank(position: number, count: number): string[][] {
    return position > this.rows.length ? [] : Array.from({ length: count }, () => []);
  }

  #spliceColumns(row: string[], edit: Exclude<SheetEdit, { type: 'Set' }>): void {
    if (edit.type === 'Delete Columns') row.splice(edit.position, edit.count);
    else if (edit.position < row.length) row.splice(edit.position, 0, ...Array.from({ length: edit.count }, () => ''));
  }

  #set(row: number, column: number, text: string): void {
    while (this.rows.length <= row) this.rows.push([]);
    const cells = this.rows[row] ?? [];
    while (cells.length <= column) cells.push('');
    cells[column] = text;
  }

  /**
   * Rows of texts, without empty cells at the end of a row and empty rows at the end of the sheet.
   */
  trimmed(): string[][] {
    return trim(this.rows);
  }
}

export function trim(rows: readonly (readonly string[])[]): string[][] {
  const trimmed = rows.map((row) => row.slice(0, row.findLastIndex((text) => text !== '') + 1));
  return trimmed.slice(0, trimmed.findLastIndex((row) => row.length > 0) + 1);
}

/** Edits that are close enough to interact, over rows and columns of several stripes. */
export function sheetEdits(maxLength: number): fc.Arbitrary<SheetEdit[]> {
  const row = fc.nat({ max: 30 });
  const column = fc.oneof({ weight: 4, arbitrary: fc.nat({ max: 6 }) }, { weight: 1, arbitrary: fc.nat({ max: 300 }) });
  const cell = fc.tuple(row, column, fc.constantFrom<Value>('', 'a', 'b', 'Łódź', 7, true));
  const move = (type: Exclude<SheetEdit['type'], 'Set'>, at: fc.Arbitrary<number>) =>
    fc.record({ type: fc.constant(type), position: at, count: fc.nat({ max: 5 }) });
  return fc.array(
    fc.oneof(
      { weight: 6, arbitrary: fc.array(cell, { maxLength: 6 }).map((cells): SheetEdit => ({ type: 'Set', cells })) },
      { weight: 1, arbitrary: move('Insert Rows', row) },
      { weight: 1, arbitrary: move('Delete Rows', row) },
      { weight: 1, arbitrary: move('Insert Columns', column) },
      { weight: 1, arbitrary: move('Delete Columns', column) },
    ),
    { maxLength, size: 'max' },
  );
}

export function sheetEntry(edit: SheetEdit, entry = 1): FoldEntry {
  return {
    position: { segment: 0, entry },
    log: LOG,
    created: 0,
    createdMs: 0,
    type: edit.type,
    version: 1,
    body: sheetBody(edit),
  };
}
