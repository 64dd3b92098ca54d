import type { Value } from '../../../src/codec/value.ts';
import type { Draft } from '../../../src/state/draft.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import { type SheetEdit, sheetOf, spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { editOf } from '../simulation/application-items.ts';
import { SheetModel, trim } from './sheet-model.ts';

/**
 * An entry type that version 1 of the reducer does not know. Version 2 treats it as a remark
 * without effect.
 */
export const NOTE = 'Note';
/** An entry type on which the reducer fails with an error that is not a LogfoldError. */
export const FAULTY = 'Faulty';

/**
 * The spreadsheet reducer in two versions, which fold the same entries to different states: version
 * 2 writes in capitals.
 */
export function versionedSheet(version: number): Reducer {
  return {
    name: spreadsheet.name,
    version,
    fold: async (draft, given) => {
      const entry = editOf(given);
      if (entry.type === FAULTY) throw new TypeError('Cannot read properties of undefined');
      if (entry.type === NOTE && version > 1) return;
      await spreadsheet.fold(draft, { ...entry, body: version > 1 ? capitals(entry.body) : entry.body });
    },
  };
}

/** The rows that this reducer must produce from edits, computed with the plain model. */
export function foldPlainly(edits: Iterable<SheetEdit>, version: number): string[][] {
  const model = new SheetModel();
  for (const edit of edits) {
    const { type } = edit;
    model.apply(
      type === 'Set' && version > 1
        ? { type, cells: edit.cells.map(([row, column, value]) => [row, column, capitals(value)] as const) }
        : edit,
    );
  }
  return model.trimmed();
}

/** The rows of a draft's sheet as texts, read cell by cell. */
export async function readRows(draft: Draft): Promise<string[][]> {
  const rows: string[][] = [];
  for await (const { row, column, value } of sheetOf(draft).cells()) {
    while (rows.length <= row) rows.push([]);
    const cells = rows[row] ?? [];
    while (cells.length <= column) cells.push('');
    cells[column] = String(value);
  }
  return trim(rows);
}

function capitals(value: Value): Value {
  if (typeof value === 'string') return value.toUpperCase();
  return Array.isArray(value) ? value.map(capitals) : value;
}
