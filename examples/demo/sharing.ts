import type { ChunkId } from '../../src/codec/chunk.ts';
import { Draft } from '../../src/state/draft.ts';
import { cellKey } from '../../src/state/spreadsheet/cell-key.ts';
import { type SheetEdit, sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import type { Sheet } from '../../src/state/spreadsheet/sheet.ts';
import type { State } from '../../src/state/state.ts';
import { isLeaf, type Node } from '../../src/tree/node.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import type { PlainRow, PlainSheet } from './plain-sheet.ts';

/** The cells that edits name, by the plain sheet's row objects, because positions change. */
export class TouchedCells {
  readonly #cells = new Map<PlainRow, Set<number>>();

  /** Passes edits on, and notes each edit before its caller applies it. */
  *noting(edits: Iterable<SheetEdit>, sheet: PlainSheet): Generator<SheetEdit> {
    for (const edit of edits) {
      if (edit.type === 'Set') for (const [row, column] of edit.cells) this.#note(sheet.rows[row], [column]);
      else if (edit.type === 'Delete Rows') {
        for (const row of sheet.rows.slice(edit.position, edit.position + edit.count)) this.#note(row, row.keys());
      }
      yield edit;
    }
  }

  /** The keys of these cells in a sheet with the given rows. */
  async keys(sheet: Sheet, rows: readonly PlainRow[]): Promise<number[]> {
    const keys: number[] = [];
    for (const [position, row] of rows.entries()) {
      for (const column of this.#cells.get(row) ?? []) {
        keys.push(cellKey(await sheet.rows.idAt(position), await sheet.columns.idAt(column)));
      }
    }
    return keys;
  }

  #note(row: PlainRow | undefined, columns: Iterable<number>): void {
    if (row === undefined) throw new Error('the demo edits a missing row');
    const known = this.#cells.get(row) ?? new Set<number>();
    for (const column of columns) known.add(column);
    this.#cells.set(row, known);
  }
}

/** A snapshot's state with the rows of the plain sheet at the same moment. */
export interface Moment {
  readonly state: State;
  readonly rows: readonly PlainRow[];
}

/** The chunks that two snapshots share, in numbers. */
export interface Sharing {
  /** Chunks of the older snapshot and of the newer. */
  readonly olderChunks: number;
  readonly newerChunks: number;
  /** Chunks that are in both snapshots. */
  readonly shared: number;
  /** Chunks of the older snapshot that hold, or would hold, a cell that the edits name. */
  readonly touched: number;
  /** Touched chunks that are shared, because their few edits are in the write buffer. */
  readonly buffered: number;
  /** Untouched chunks with another boundary, because the chunk before them ends elsewhere. */
  readonly recut: number;
  /** Other chunks of the older snapshot that are not in the newer. There must be none. */
  readonly lost: number;
}

interface LeafChunk {
  readonly id: ChunkId;
  readonly first: number;
  readonly last: number;
}

/**
 * Counts the chunks that two snapshots share, and the chunks that they should share: an untouched
 * chunk with the same first key must be the same chunk.
 */
export async function compareChunks(
  store: NodeStore,
  older: Moment,
  newer: Moment,
  touched: TouchedCells,
): Promise<Sharing> {
  const keys = await Promise.all(
    [older, newer].map(({ state, rows }) => touched.keys(sheetOf(new Draft(store, state)), rows)),
  );
  const before = await leafChunks(store, older.state);
  const after = await leafChunks(store, newer.state);
  const names = new Set(after.map(({ id }) => id));
  const starts = new Set(after.map(({ first }) => first));
  const named = new Set(keys.flat().map((key) => before.find(({ last }) => last >= key) ?? before.at(-1)));
  const gone = before.filter((chunk) => !named.has(chunk) && !names.has(chunk.id));
  return {
    olderChunks: before.length,
    newerChunks: after.length,
    shared: before.filter(({ id }) => names.has(id)).length,
    touched: before.filter((chunk) => named.has(chunk)).length,
    buffered: before.filter((chunk) => named.has(chunk) && names.has(chunk.id)).length,
    recut: gone.filter(({ first }) => !starts.has(first)).length,
    lost: gone.filter(({ first }) => starts.has(first)).length,
  };
}

/** The chunks of a snapshot's cells, in order of key. The root contains the small axes. */
async function leafChunks(store: NodeStore, state: State): Promise<LeafChunk[]> {
  const top = state.maps.get('cells')?.tree.top;
  return top === undefined ? [] : leavesBelow(store, top);
}

async function leavesBelow(store: NodeStore, node: Node): Promise<LeafChunk[]> {
  if (isLeaf(node)) return [];
  const leaves: LeafChunk[] = [];
  for (const ref of node.children) {
    const child = await store.load(ref);
    if (!isLeaf(child)) leaves.push(...(await leavesBelow(store, child)));
    else if (ref.id !== undefined) {
      leaves.push({ id: ref.id, first: Number(child.keys[0]), last: Number(child.keys.at(-1)) });
    }
  }
  return leaves;
}
