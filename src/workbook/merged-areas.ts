import { type CellPlace, MAX_XLSX_COLUMNS, parseReference } from './cell-reference.ts';
import { damagedWorkbook, workbookTooLarge } from './invalid-workbook.ts';
import { type XmlAttributes, type XmlHandler, XmlParser } from './xml-parser.ts';

/** Merged areas of a sheet. */
const MAX_AREAS = 2 ** 18;

const NAME = 'mergeCell';

/** A merged area of a sheet. Both cells belong to it. */
export interface MergedArea {
  readonly first: CellPlace;
  readonly last: CellPlace;
}

/**
 * Finds the merged areas of a sheet. Its XML names them after all cells, so a reader of the cells
 * must look for them first.
 * @param texts the XML of the sheet in pieces; can be read again
 * @throws WorkbookInvalidError if an area is none, or if there are too many
 */
export async function findMergedAreas(texts: () => AsyncIterable<string>): Promise<readonly MergedArea[]> {
  // Most sheets have none, and their XML is parsed only once.
  if (!(await mentions(texts(), NAME))) return [];
  const parser = new MergedAreaParser();
  const xml = new XmlParser(parser, damagedWorkbook);
  for await (const text of texts()) xml.write(text);
  xml.end();
  return parser.areas;
}

async function mentions(texts: AsyncIterable<string>, word: string): Promise<boolean> {
  let end = '';
  for await (const text of texts) {
    const piece = end + text;
    if (piece.includes(word)) return true;
    end = piece.slice(1 - word.length);
  }
  return false;
}

/** Collects the areas in the element `mergeCells` of a sheet. */
class MergedAreaParser implements XmlHandler {
  readonly areas: MergedArea[] = [];
  readonly #path: string[] = [];

  open(name: string, { ref = '' }: XmlAttributes): void {
    if (name === NAME && this.#path.length === 2 && this.#path[1] === 'mergeCells') this.#add(ref);
    this.#path.push(name);
  }

  close(): void {
    this.#path.pop();
  }

  text(): void {}

  #add(ref: string): void {
    const [from = '', to = from, ...more] = ref.split(':');
    const [first, last] = [parseReference(from), parseReference(to)];
    const isArea = first !== undefined && last !== undefined && more.length === 0;
    if (!isArea || first.row > last.row || first.column > last.column) throw wrongArea(ref);
    this.areas.push({ first, last });
    checkAreaCount(this.areas);
  }
}

/** @throws WorkbookInvalidError if the areas are too many */
export function checkAreaCount(areas: readonly MergedArea[]): void {
  if (areas.length > MAX_AREAS) throw workbookTooLarge(`the sheet has over ${MAX_AREAS} merged areas`);
}

export function wrongArea(ref: string): Error {
  return damagedWorkbook(`the sheet merges the cells ${ref}`);
}

/**
 * The merged areas of a sheet. A program shows the cell at the top left of an area, and hides the
 * others, which may have values.
 */
export class MergedCells {
  readonly #areas: readonly MergedArea[];
  /** The first area that begins below the row. */
  #next = 0;
  #row = -1;
  /** For each column, one more than the last row of the newest area that covers it. */
  readonly #endRows: Int32Array;
  /** Columns at which areas begin in the row. */
  readonly #corners = new Set<number>();

  constructor(areas: readonly MergedArea[]) {
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
