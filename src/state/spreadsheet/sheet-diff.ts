import type { Value } from '../../codec/value.ts';
import { at, float64At, uint32At } from '../../tree/array.ts';
import type { Key } from '../../tree/key.ts';
import type { FrozenState } from '../frozen-state.ts';
import { diffMaps } from '../state-diff.ts';
import { IdRuns, type PositionedRun } from './axis.ts';
import { keyColumn, keyRow } from './cell-key.ts';
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

/**
 * Neighbouring rows or columns that were inserted, removed or moved. `from` is the position of the
 * first of them before, `to` its position afterwards. Both count from 0.
 */
export type AxisMove =
  | { readonly change: 'inserted'; readonly to: number; readonly count: number }
  | { readonly change: 'removed'; readonly from: number; readonly count: number }
  | { readonly change: 'moved'; readonly from: number; readonly to: number; readonly count: number };

/** Ids that are neighbours in both versions of an axis, with their first positions. */
interface Piece {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/**
 * Neighbours that keep their order and are more than this share of an axis were never inserted or
 * deleted. Ids after them are unused.
 */
const UNMOVED_SHARE = 1 / 16;

/**
 * The fewest rows or columns that must leave their order to make one version of an axis from
 * another: first the removed ones, then the moved ones in order of `from`, then the inserted ones.
 *
 * Deletions put ids at the end of an axis, and insertions take them from there. So ids that come
 * from the end were inserted, and ids that go there were removed. An id that was deleted and
 * inserted again was moved. Does not notice insertions and deletions in the last sixteenth of an
 * axis.
 * @param before all runs of the axis
 */
export function diffAxis(before: readonly PositionedRun[], after: readonly PositionedRun[]): AxisMove[] {
  const pieces = commonPieces(before, after);
  const kept = heaviestAscending(pieces);
  const size = pieces.reduce((total, { count }) => total + count, 0);
  const unmoved = pieces.findLast((piece) => kept.has(piece) && piece.count > size * UNMOVED_SHARE);
  const end = unmoved ?? { from: size, to: size, count: 0 };
  const [endBefore, endAfter] = [end.from + end.count, end.to + end.count];
  const [removed, moved, inserted]: [Piece[], Piece[], Piece[]] = [[], [], []];
  for (const piece of pieces) {
    const [isBefore, isAfter] = [piece.from < endBefore, piece.to < endAfter];
    if (kept.has(piece) || (!isBefore && !isAfter)) continue;
    (isBefore ? (isAfter ? moved : removed) : inserted).push(piece);
  }
  inserted.sort((a, b) => a.to - b.to);
  return [
    ...joined(removed, ['from']).map(({ from, count }) => ({ change: 'removed', from, count }) as const),
    ...moved.map((piece) => ({ change: 'moved', ...piece }) as const),
    ...joined(inserted, ['to']).map(({ to, count }) => ({ change: 'inserted', to, count }) as const),
  ];
}

/** The longest pieces that the ids of two versions can be cut into, in order of `from`. */
function commonPieces(before: readonly PositionedRun[], after: readonly PositionedRun[]): Piece[] {
  const byId = (a: PositionedRun, b: PositionedRun): number => a.id - b.id;
  const [left, right] = [before.toSorted(byId), after.toSorted(byId)];
  const pieces: Piece[] = [];
  for (let id = 0, i = 0, j = 0; i < left.length && j < right.length; ) {
    const [old, now] = [at(left, i), at(right, j)];
    const end = Math.min(old.id + old.length, now.id + now.length);
    pieces.push({ from: old.start + id - old.id, to: now.start + id - now.id, count: end - id });
    if (old.id + old.length === end) i++;
    if (now.id + now.length === end) j++;
    id = end;
  }
  pieces.sort((a, b) => a.from - b.from);
  return joined(pieces, ['from', 'to']);
}

/** Joins pieces that continue each other at the given positions. */
function joined(pieces: readonly Piece[], positions: readonly ('from' | 'to')[]): Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (last !== undefined && positions.every((position) => last[position] + last.count === piece[position])) {
      result[result.length - 1] = { ...last, count: last.count + piece.count };
    } else result.push(piece);
  }
  return result;
}

/**
 * The pieces with the greatest total count whose `to` ascends.
 * @param pieces in order of `from`
 */
function heaviestAscending(pieces: readonly Piece[]): Set<Piece> {
  const order = pieces.map((_, i) => i).sort((a, b) => at(pieces, a).to - at(pieces, b).to);
  const ranks = new Uint32Array(pieces.length);
  for (const [rank, index] of order.entries()) ranks[index] = rank;
  // The weight of the heaviest sequence that ends with a piece, and the piece before it.
  const weights = new Float64Array(pieces.length);
  const previous = new Int32Array(pieces.length).fill(-1);
  // A Fenwick tree of maxima: the piece with the heaviest sequence among those of lower rank.
  const heaviest = new Int32Array(pieces.length + 1).fill(-1);
  const weightOf = (index: number): number => (index < 0 ? 0 : float64At(weights, index));
  let best = -1;
  for (const [i, { count }] of pieces.entries()) {
    const rank = uint32At(ranks, i);
    let before = -1;
    for (let node = rank; node > 0; node -= node & -node) {
      const candidate = heaviest[node] ?? -1;
      if (weightOf(candidate) > weightOf(before)) before = candidate;
    }
    previous[i] = before;
    weights[i] = weightOf(before) + count;
    for (let node = rank + 1; node < heaviest.length; node += node & -node) {
      if (weightOf(i) > weightOf(heaviest[node] ?? -1)) heaviest[node] = i;
    }
    if (weightOf(i) > weightOf(best)) best = i;
  }
  const kept = new Set<Piece>();
  for (let i = best; i >= 0; i = previous[i] ?? -1) kept.add(at(pieces, i));
  return kept;
}
