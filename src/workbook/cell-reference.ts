/** Columns and rows of a sheet in XLSX. */
export const MAX_XLSX_COLUMNS = 2 ** 14;
export const MAX_XLSX_ROWS = 2 ** 20;

const LETTERS = 26;
const A = 0x41;

/** A place in a sheet. Row and column count from 0. */
export interface CellPlace {
  readonly row: number;
  readonly column: number;
}

/** Reads a reference such as `B7`; undefined if it is none, or if it is outside of any sheet. */
export function parseReference(reference: string): CellPlace | undefined {
  let column = 0;
  let at = 0;
  for (; at < reference.length; at++) {
    const letter = reference.charCodeAt(at) - A;
    if (letter < 0 || letter >= LETTERS) break;
    column = column * LETTERS + letter + 1;
  }
  const digits = reference.slice(at);
  const row = /^[1-9]\d{0,6}$/.test(digits) ? Number(digits) : 0;
  const isPlace = column >= 1 && column <= MAX_XLSX_COLUMNS && row >= 1 && row <= MAX_XLSX_ROWS;
  return isPlace ? { row: row - 1, column: column - 1 } : undefined;
}

/** The reference of a place, such as `B7`. */
export function cellReference({ row, column }: CellPlace): string {
  let letters = '';
  for (let rest = column + 1; rest > 0; rest = Math.floor((rest - 1) / LETTERS)) {
    letters = String.fromCharCode(A + ((rest - 1) % LETTERS)) + letters;
  }
  return `${letters}${row + 1}`;
}
