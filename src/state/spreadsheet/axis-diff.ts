import { at, float64At, uint32At } from '../../tree/array.ts';
import type { PositionedRun } from './axis.ts';

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
