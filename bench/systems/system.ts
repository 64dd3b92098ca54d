import type { CellEntry, Rectangle, SheetCell } from '../workload.ts';

export const SYSTEM_NAMES = ['logfold', 'sqlite', 'json-gzip', 'yjs'] as const;

export type SystemName = (typeof SYSTEM_NAMES)[number];

/** What went to or came from the store: bytes and objects written by `full` and `edit`, and read by `view`. */
export interface Usage {
  readonly bytes: number;
  readonly objects: number;
  /** Objects read and objects written. */
  readonly requests: number;
}

/** Something that keeps snapshots of a sheet in a directory. Nothing is kept in memory from one call to the next. */
export interface System {
  /** Folds entries into the empty sheet and writes the first snapshot into an empty directory. */
  full(directory: string, pages: Iterable<readonly CellEntry[]>): Promise<Usage>;
  /** Folds entries into the newest snapshot and writes the next one. */
  edit(directory: string, entries: readonly CellEntry[]): Promise<Usage>;
  /** Reads cells of the newest snapshot, row by row, in order of column. */
  view(directory: string, rectangle: Rectangle): Promise<{ readonly cells: SheetCell[]; readonly usage: Usage }>;
}
