import type { Environment } from '../../src/cli/environment.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { type AxisRange, cellText } from '../../src/state/spreadsheet/sheet.ts';
import { type Comparison, compareSheets, type PlainSheet } from './plain-sheet.ts';

/** The rectangle that a client loaded, and its costs. */
export interface View {
  readonly rows: AxisRange;
  readonly columns: AxisRange;
  /** The rectangle as texts. */
  readonly cells: readonly (readonly string[])[];
  /** The loaded snapshot; null if there was none. */
  readonly snapshot: Position | null;
  /** Entries folded after the snapshot, including the Snapshot entry. */
  readonly tailEntries: number;
  /** Objects and bytes from the bucket. */
  readonly fetched: { readonly objects: number; readonly bytes: number };
  /** Whether the rectangle equals the plain sheet's. */
  readonly equal: boolean;
}

/** Reads a rectangle of a log as a client does. `compareAll` then reads the whole sheet. */
export async function readView(
  { deps, blobs }: Environment,
  log: LogId,
  rectangle: { readonly rows: AxisRange; readonly columns: AxisRange },
  plain: PlainSheet,
): Promise<{ readonly view: View; readonly compareAll: () => Promise<Comparison> }> {
  const { rows, columns } = rectangle;
  const { draft, base, tailEntries } = await loadState(deps, log);
  const sheet = sheetOf(draft);
  const expected = plain.rows.slice(rows.from, rows.to).map((row) => row.slice(columns.from, columns.to).map(cellText));
  const cells = expected.map((row) => row.map(() => ''));
  for await (const { row, column, value } of sheet.cells(rows, columns)) {
    const line = cells[row - rows.from];
    if (line !== undefined) line[column - columns.from] = cellText(value);
  }
  const { gets: objects, bytesRead: bytes } = blobs.usage();
  const equal = JSON.stringify(cells) === JSON.stringify(expected);
  const view = {
    rows,
    columns,
    cells,
    snapshot: base?.position ?? null,
    tailEntries,
    fetched: { objects, bytes },
    equal,
  };
  return { view, compareAll: () => compareSheets(sheet, plain) };
}
