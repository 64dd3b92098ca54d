import type { Value } from '../../src/codec/value.ts';
import type { CellEdit, SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import type { Choices } from './actors.ts';
import type { PlainRow, PlainSheet } from './plain-sheet.ts';
import { COLUMNS } from './zip-codes.ts';

/** 12 rows make an entry of just under 1 KB, which DynamoDB bills as one write unit. */
export const ROWS_PER_ENTRY = 12;
/** The corresponding number for an entry that fills the new column. */
export const OFFSETS_PER_ENTRY = 150;
/** The new column follows the coordinates. */
const OFFSET_COLUMN = 3;
/** Rows that one person reviews. */
const AREA_ROWS = 300;

/** Yields edits that write the header and the rows at the top of the sheet. */
export function* fill(rows: readonly PlainRow[]): Generator<SheetEdit> {
  const all: readonly (readonly Value[])[] = [COLUMNS, ...rows];
  for (let from = 0; from < all.length; from += ROWS_PER_ENTRY) {
    const cells = all.slice(from, from + ROWS_PER_ENTRY).flatMap((row, i) => setRow(from + i, row));
    yield { type: 'Set', cells };
  }
}

/** Yields edits that insert a column with the solar offset from UTC in hours, by longitude. */
export function* addOffsets(sheet: PlainSheet): Generator<SheetEdit> {
  yield { type: 'Insert Columns', position: OFFSET_COLUMN, count: 1 };
  yield { type: 'Set', cells: [[0, OFFSET_COLUMN, 'utc_offset']] };
  for (let from = 1; from < sheet.rows.length; from += OFFSETS_PER_ENTRY) {
    const rows = sheet.rows.slice(from, from + OFFSETS_PER_ENTRY);
    yield { type: 'Set', cells: rows.map((row, i): CellEdit => [from + i, OFFSET_COLUMN, offset(row)]) };
  }
}

/** Adjacent rows that one person reviews, such as the codes of one region. */
export interface Area {
  readonly start: number;
  readonly end: number;
}

/** The area at a fraction of the sheet's height, from 0 to 1. */
export function areaAt(sheet: PlainSheet, fraction: number): Area {
  const last = Math.max(1, sheet.rows.length - 1 - AREA_ROWS);
  const start = Math.min(last, 1 + Math.floor(sheet.rows.length * fraction));
  return { start, end: Math.min(sheet.rows.length, start + AREA_ROWS) };
}

/** The row in the middle of an area. */
export function middleOf({ start, end }: Area): number {
  return Math.floor((start + end) / 2);
}

/** Names an area by the city in its middle. Requires the column of offsets. */
export function placeOf(sheet: PlainSheet, area: Area): string {
  const [, , , , city, state] = sheet.rows[middleOf(area)] ?? [];
  return `${city}, ${state}`;
}

/**
 * Yields the edits of a person who checks an area: corrected coordinates, full names of counties,
 * removed codes and new codes.
 * @param count the number of edits; a new code takes two edits, one for its row and one for its
 * cells
 */
export function* review(sheet: PlainSheet, area: Area, count: number, choices: Choices): Generator<SheetEdit> {
  for (let left = count; left > 0; ) {
    const end = Math.min(area.end, sheet.rows.length);
    const edits = reviewRow(sheet, area.start + choices.below(end - area.start), left, choices);
    yield* edits;
    left -= edits.length;
  }
}

/** Makes one or two edits, at most `most`. */
function reviewRow(sheet: PlainSheet, position: number, most: number, choices: Choices): SheetEdit[] {
  const row = sheet.rows[position] ?? [];
  const kind = choices.below(10);
  if (kind === 0) return [{ type: 'Delete Rows', position, count: 1 }];
  const code = newCode(row[0], sheet.rows[position + 1]?.[0]);
  if (kind <= 2 && code !== undefined && most > 1) {
    const cells = setRow(position + 1, [code, ...row.slice(1)]);
    return [
      { type: 'Insert Rows', position: position + 1, count: 1 },
      { type: 'Set', cells },
    ];
  }
  const county = row[6];
  if (kind < 6 && typeof county === 'string' && !county.endsWith(' County')) {
    return [{ type: 'Set', cells: [[position, 6, `${county} County`]] }];
  }
  const cells = [1, 2].map((column): CellEdit => [position, column, moved(row[column], choices)]);
  return [{ type: 'Set', cells }];
}

function setRow(row: number, values: readonly Value[]): CellEdit[] {
  return values.map((value, column) => [row, column, value]);
}

/** The code after `code`; undefined if `next` has it. */
function newCode(code: Value | undefined, next: Value | undefined): string | undefined {
  const after = String(Number(code) + 1).padStart(5, '0');
  return next !== undefined && after < String(next) ? after : undefined;
}

/** A coordinate about ten metres away. */
function moved(coordinate: Value | undefined, choices: Choices): number {
  return Math.round(Number(coordinate) * 1e6 + 100 + choices.below(100)) / 1e6;
}

function offset(row: PlainRow): number {
  // -0 and 0 are different values: the offset is never -0.
  return Math.round(Number(row[2]) / 15) || 0;
}
