import { type CellPlace, MAX_XLSX_COLUMNS, parseReference } from './cell-reference.ts';
import { damaged, tooLarge } from './invalid-workbook.ts';

/** Merged areas of a sheet. */
const MAX_AREAS = 2 ** 18;
const MAX_TAG_CHARACTERS = 64 * 1024;

/** A merged area in the XML of a sheet. A cell's text contains no `<`. */
const MERGE_TAG = /<(?:[\w.-]+:)?mergeCell\s[^<>]*?\bref\s*=\s*["']([A-Z]+\d+):([A-Z]+\d+)["']/g;

interface Area {
  readonly first: CellPlace;
  readonly last: CellPlace;
}

/**
 * Finds the merged areas of a sheet. Its XML names them behind all cells, so a reader of the cells
 * must look for them first.
 * @param texts the XML of the sheet in pieces
 */
export async function readMergedCells(texts: AsyncIterable<string>): Promise<MergedCells> {
  const areas: Area[] = [];
  let rest = '';
  for await (const text of texts) {
    const piece = rest + text;
    // The last tag may end in the next piece.
    const cut = piece.lastIndexOf('<');
    rest = cut < 0 || piece.length - cut > MAX_TAG_CHARACTERS ? '' : piece.slice(cut);
    const whole = cut < 0 ? piece : piece.slice(0, cut);
    if (whole.includes('mergeCell')) areas.push(...areasIn(whole));
    if (areas.length > MAX_AREAS) throw tooLarge(`the sheet has over ${MAX_AREAS} merged areas`);
  }
  return new MergedCells(areas);
}

function areasIn(text: string): Area[] {
  return Array.from(text.matchAll(MERGE_TAG), ([, from = '', to = '']) => {
    const [first, last] = [parseReference(from), parseReference(to)];
    if (first === undefined || last === undefined) throw damaged(`the sheet merges the cells ${from}:${to}`);
    return { first, last };
  });
}

/**
 * The merged areas of a sheet. A program shows the cell at the top left of an area, and hides the
 * others, which may have values.
 */
export class MergedCells {
  readonly #areas: readonly Area[];
  /** The first area that begins below the row. */
  #next = 0;
  #row = -1;
  /** For each column, one more than the last row of the newest area that covers it. */
  readonly #endRows: Int32Array;
  /** Columns at which areas begin in the row. */
  readonly #corners = new Set<number>();

  constructor(areas: readonly Area[]) {
    this.#areas = areas.toSorted((a, b) => a.first.row - b.first.row);
    this.#endRows = new Int32Array(areas.length === 0 ? 0 : MAX_XLSX_COLUMNS);
  }

  /** Whether an area hides a cell. Call it with ascending rows. */
  hides({ row, column }: CellPlace): boolean {
    if (this.#endRows.length === 0) return false;
    if (row !== this.#row) this.#moveTo(row);
    return row < (this.#endRows[column] ?? 0) && !this.#corners.has(column);
  }

  #moveTo(row: number): void {
    this.#row = row;
    this.#corners.clear();
    for (; ; this.#next++) {
      const area = this.#areas[this.#next];
      if (area === undefined || area.first.row > row) return;
      if (area.first.row === row) this.#corners.add(area.first.column);
      this.#endRows.fill(area.last.row + 1, area.first.column, area.last.column + 1);
    }
  }
}
