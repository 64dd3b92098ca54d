import { type CellPlace, MAX_XLSX_COLUMNS } from './cell-reference.ts';
import type { MergedArea } from './merged-areas.ts';

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
