import { isArray, isObject, type Value } from '../../codec/value.ts';
import type { Rebased, RebaseSide, UnplacedEntry } from '../reducer.ts';
import { MAX_COLUMNS, MAX_ROWS } from './cell-key.ts';

type AxisName = 'row' | 'column';

/** An insertion or a deletion of rows or columns. */
interface Move {
  readonly axis: AxisName;
  readonly kind: 'insert' | 'delete';
  readonly position: number;
  readonly count: number;
}

const MOVES: Readonly<Record<string, Pick<Move, 'axis' | 'kind'>>> = {
  'Insert Rows': { axis: 'row', kind: 'insert' },
  'Delete Rows': { axis: 'row', kind: 'delete' },
  'Insert Columns': { axis: 'column', kind: 'insert' },
  'Delete Columns': { axis: 'column', kind: 'delete' },
};

const SIZES: Readonly<Record<AxisName, number>> = { row: MAX_ROWS, column: MAX_COLUMNS };

/**
 * Rewrites an entry of a sheet for the state after another one: see `Reducer.rebase`. Only
 * insertions and deletions of rows and columns move positions.
 *
 * It moves positions through each change, and never compares the ids of rows in two states: an
 * insertion takes the ids of the last rows, so that one id names different rows over time.
 *
 * An entry that cannot be read stays as it is, since the fold refuses it.
 */
export function rebaseSheetEntry(entry: UnplacedEntry, other: UnplacedEntry, side: RebaseSide): Rebased | undefined {
  const over = moveOf(other);
  if (over === undefined || over.count === 0) return undefined;
  const move = moveOf(entry);
  if (move !== undefined) return move.axis === over.axis ? moved(move, over, side) : undefined;
  // Nothing is rewritten over an earlier Set or Import, since they move nothing.
  if (side === 'earlier') return undefined;
  if (entry.type === 'Set') return movedCells(entry.body, over);
  return entry.type === 'Import' ? movedImport(entry.body, over) : undefined;
}

function moveOf({ type, body }: UnplacedEntry): Move | undefined {
  const move = Object.hasOwn(MOVES, type) ? MOVES[type] : undefined;
  if (move === undefined || !isArray(body)) return undefined;
  const [position, count] = body;
  return typeof position === 'number' && typeof count === 'number' ? { ...move, position, count } : undefined;
}

/** The position of a row or column after a move; undefined if it is gone. */
function movedPosition(at: number, { axis, kind, position, count }: Move): number | undefined {
  if (at < position) return at;
  if (kind === 'delete') return at < position + count ? undefined : at - count;
  return at + count < SIZES[axis] ? at + count : undefined;
}

function moved(move: Move, over: Move, side: RebaseSide): Rebased | undefined {
  return move.kind === 'insert' ? movedInsertion(move, over, side) : movedDeletion(move, over, side);
}

/** If two insertions meet at one position, the later one in the log comes after the other. */
function movedInsertion({ axis, position, count }: Move, over: Move, side: RebaseSide): Rebased | undefined {
  const isBefore = over.kind === 'insert' && side === 'later' ? over.position <= position : over.position < position;
  if (!isBefore) return undefined;
  const to = over.kind === 'insert' ? position + over.count : Math.max(over.position, position - over.count);
  if (side === 'earlier' || to + count <= SIZES[axis]) return { bodies: [[to, count]] };
  return { bodies: [], reason: `insertions of others leave no room for its ${axis}s at the end of the sheet` };
}

/** The rest of a deletion: without what is gone already, and around what others inserted. */
function movedDeletion({ axis, position, count }: Move, over: Move, side: RebaseSide): Rebased | undefined {
  const end = position + count;
  const overEnd = over.position + over.count;
  if (over.position >= end) return undefined;
  if (over.kind === 'delete') {
    const common = Math.max(0, Math.min(end, overEnd) - Math.max(position, over.position));
    const to = position < over.position ? position : Math.max(over.position, position - over.count);
    return { bodies: [[to, count - common]] };
  }
  const parts: [number, number][] =
    over.position <= position
      ? [[position + over.count, count]]
      : [
          // The later rows first, so that the earlier ones keep their positions.
          [overEnd, end - over.position],
          [position, over.position - position],
        ];
  const size = side === 'later' ? SIZES[axis] : Number.POSITIVE_INFINITY;
  const inside = parts.map(([from, length]) => [Math.min(from, size), Math.max(0, Math.min(length, size - from))]);
  const bodies = inside.filter(([, length]) => length !== 0);
  return { bodies: bodies.length === 0 ? inside.slice(0, 1) : bodies };
}

function movedCells(cells: Value, over: Move): Rebased | undefined {
  if (!isArray(cells)) return undefined;
  const index = over.axis === 'row' ? 0 : 1;
  const kept: Value[] = [];
  const dropped: number[] = [];
  let isSame = true;
  for (const [i, cell] of cells.entries()) {
    const at = isArray(cell) ? cell[index] : undefined;
    if (!isArray(cell) || typeof at !== 'number') return undefined;
    const to = movedPosition(at, over);
    if (to === undefined) dropped.push(i);
    else kept.push(to === at ? cell : cell.with(index, to));
    isSame &&= to === at;
  }
  if (isSame) return undefined;
  const reason = `others removed the ${over.axis}s of its cells`;
  return kept.length === 0 ? { bodies: [], dropped, reason } : { bodies: [kept], dropped };
}

/**
 * Nobody knows how far an import reaches without its file. So its first row moves only with changes
 * before that row, and any change from there on drops the import.
 */
function movedImport(body: Value, over: Move): Rebased | undefined {
  if (!isObject(body)) return undefined;
  const { axis, kind, position, count } = over;
  const at = body[axis] ?? 0;
  if (typeof at !== 'number') return undefined;
  const end = kind === 'delete' ? position + count : position;
  const to = kind === 'delete' ? at - count : at + count;
  if (end <= at && to < SIZES[axis]) return { bodies: [{ ...body, [axis]: to }] };
  return { bodies: [], reason: `others inserted or deleted ${axis}s where it may put cells` };
}
