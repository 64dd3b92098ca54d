import type { CellEntry, Rectangle, SheetCell } from '../workload.ts';

export const SYSTEM_NAMES = ['logfold', 'sqlite', 'json-gzip', 'yjs'] as const;

export type SystemName = (typeof SYSTEM_NAMES)[number];

/** The use of the store: bytes and objects that `full` and `edit` write and `view` reads. */
export interface Usage {
  readonly bytes: number;
  readonly objects: number;
  /** Objects read and objects written. */
  readonly requests: number;
}

/**
 * A system that stores snapshots of a sheet in a directory. A call uses no memory of earlier calls,
 * except the edits of `openWarm`.
 */
export interface System {
  /** Folds entries into the empty sheet and writes the first snapshot into an empty directory. */
  full(directory: string, pages: Iterable<readonly CellEntry[]>): Promise<Usage>;
  /** Folds entries into the newest snapshot and writes the next one. */
  edit(directory: string, entries: readonly CellEntry[]): Promise<Usage>;
  /**
   * Opens the newest snapshot for `edit` after `edit`, and keeps between them what the system keeps
   * in such a process. Absent if the system keeps nothing but its compiled code.
   */
  openWarm?(directory: string): WarmEdits;
  /** Reads cells of the newest snapshot in the order of rows, then columns. */
  view(directory: string, rectangle: Rectangle): Promise<{ readonly cells: SheetCell[]; readonly usage: Usage }>;
}

export interface WarmEdits {
  /** Like {@link System.edit}. */
  readonly edit: (entries: readonly CellEntry[]) => Promise<Usage>;
  close(): void;
}
