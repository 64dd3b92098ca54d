import type { Value } from '../../codec/value.ts';
import type { Key } from '../../tree/key.ts';
import type { FrozenState } from '../frozen-state.ts';
import { diffMaps } from '../state-diff.ts';
import type { PositionedRun } from './axis.ts';
import { type AxisMove, diffAxis } from './axis-diff.ts';
import { keyColumn, keyRow } from './cell-key.ts';
import { IdRuns } from './id-runs.ts';
import { sheetOf } from './reducer.ts';
import type { Cell } from './sheet.ts';

/** Neighbouring rows or columns of a sheet that were inserted, removed or moved. */
export type AxisChange = ({ readonly kind: 'rows' } | { readonly kind: 'columns' }) & AxisMove;

/**
 * A cell that differs. `before` is its position and value in the first sheet, and absent if the
 * cell was empty there. `after` is the same for the second sheet.
 */
export interface CellChange {
  readonly kind: 'cell';
  readonly before?: Cell;
  readonly after?: Cell;
}

/**
 * The differences between two sheets: first the changes of rows, then of columns, then the cells.
 * Rows and columns keep their identity when they move: a cell that only moved with its row or
 * column is not a difference. The cells of a removed row are. The order of the cells is not
 * promised.
 *
 * Positions before a change are those of the first sheet, positions after it those of the second.
 * So three steps make the second sheet from the first: empty every cell with a `before`, move the
 * rows and columns, then set every cell with an `after`.
 *
 * Deleted rows and columns stay after all others, at the end of the sheet. So insertions and
 * deletions in its last sixteenth are not noticed: after row 4,026,531,840 or column 983,040.
 *
 * Requests and time grow with the chunks in which the sheets differ. If cells differ, they also
 * grow with the places at which rows or columns were ever inserted or deleted.
 */
export async function* diffSheets(
  before: FrozenState,
  after: FrozenState,
): AsyncGenerator<AxisChange | CellChange, undefined> {
  const [old, now] = [new SheetRuns(before), new SheetRuns(after)];
  for (const kind of ['rows', 'columns'] as const) {
    const { done } = await diffMaps(before, after, kind).next();
    if (done === true) continue;
    const [left, right] = await Promise.all([old.of(kind), now.of(kind)]);
    for (const move of diffAxis(left, right)) yield { kind, ...move };
  }
  let cells: readonly [SheetIds, SheetIds] | undefined;
  for await (const { key, ...values } of diffMaps(before, after, 'cells')) {
    cells ??= await Promise.all([old.ids(), now.ids()]);
    const [left, right] = cells;
    yield {
      kind: 'cell',
      ...(values.before !== undefined && { before: left.cell(key, values.before) }),
      ...(values.after !== undefined && { after: right.cell(key, values.after) }),
    };
  }
}

/** The runs of a sheet's rows and columns, read once when they are needed. */
class SheetRuns {
  readonly #state: FrozenState;
  readonly #runs: { rows?: Promise<PositionedRun[]>; columns?: Promise<PositionedRun[]> } = {};

  constructor(state: FrozenState) {
    this.#state = state;
  }

  of(kind: AxisChange['kind']): Promise<readonly PositionedRun[]> {
    this.#runs[kind] ??= Array.fromAsync(sheetOf(this.#state.draft)[kind].runs());
    return this.#runs[kind];
  }

  async ids(): Promise<SheetIds> {
    const [rows, columns] = await Promise.all([this.of('rows'), this.of('columns')]);
    return new SheetIds(new IdRuns(rows), new IdRuns(columns));
  }
}

/** Finds the positions of cells by their keys. */
class SheetIds {
  readonly #rows: IdRuns;
  readonly #columns: IdRuns;

  constructor(rows: IdRuns, columns: IdRuns) {
    this.#rows = rows;
    this.#columns = columns;
  }

  cell(key: Key, value: Value): Cell {
    const row = this.#rows.position(keyRow(Number(key)));
    const column = this.#columns.position(keyColumn(Number(key)));
    if (row === undefined || column === undefined) throw new Error(`the cell under key ${key} has no position`);
    return { row, column, value };
  }
}
