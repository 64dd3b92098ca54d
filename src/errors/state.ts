import { type ErrorDetails, LogfoldError, printable } from './logfold-error.ts';

/**
 * A value cannot be stored: a function, a lone surrogate, an integer beyond 64 bits, too deep or
 * too large.
 */
export class ValueUnsupportedError extends LogfoldError {
  override readonly code = 'VALUE_UNSUPPORTED';
  override readonly stopsLog = true;
}

/** A map key has the wrong kind or is out of range. */
export class KeyInvalidError extends LogfoldError {
  override readonly code = 'KEY_INVALID';
  override readonly stopsLog = true;
}

/**
 * A reducer asks for a state that no snapshot can hold: an invalid weight or map name, weights in a
 * map that buffers edits, or more metadata or maps than fit into a root.
 */
export class StateUnsupportedError extends LogfoldError {
  override readonly code = 'STATE_UNSUPPORTED';
  override readonly stopsLog = true;
}

/** An edit addresses rows or columns outside the sheet. */
export class SheetLimitError extends LogfoldError {
  override readonly code = 'SHEET_LIMIT';
  override readonly stopsLog = true;
}

/**
 * A workbook is not a file of its format, is damaged, or exceeds a limit. `row` counts from 1, as
 * programs show it.
 */
export class WorkbookInvalidError extends LogfoldError {
  override readonly code = 'WORKBOOK_INVALID';
  override readonly stopsLog = true;
  readonly sheet: string | undefined;
  readonly row: number | undefined;

  constructor(reason: string, { sheet, row, ...details }: ErrorDetails & WorkbookPlace = {}) {
    const parts = [row === undefined ? [] : `row ${row}`, sheet === undefined ? [] : `sheet '${printable(sheet)}'`];
    const place = parts.flat().join(' of ');
    super(place === '' ? reason : `${place}: ${reason}`, details);
    this.sheet = sheet;
    this.row = row;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), sheet: this.sheet, row: this.row };
  }
}

interface WorkbookPlace {
  readonly sheet?: string | undefined;
  readonly row?: number | undefined;
}

/** A reducer threw an error that is not a LogfoldError: its code has a bug. */
export class FoldFailedError extends LogfoldError {
  override readonly code = 'FOLD_FAILED';
  override readonly stopsLog = true;
  // Private: a log line shows `cause`, a copy without getters and own methods.
  readonly #thrown: unknown;

  constructor(reason: string, { thrown, ...details }: ErrorDetails & { readonly thrown?: unknown } = {}) {
    super(reason, details);
    this.#thrown = thrown;
  }

  /** The value that the reducer threw; undefined if it threw none. */
  get thrown(): unknown {
    return this.#thrown;
  }
}

export class ChunkMissingError extends LogfoldError {
  override readonly code = 'CHUNK_MISSING';
  override readonly stopsLog = true;
}

/**
 * A stored chunk or root is truncated, altered, oversized, or has a format that this version cannot
 * read.
 */
export class ChunkCorruptError extends LogfoldError {
  override readonly code = 'CHUNK_CORRUPT';
  override readonly stopsLog = true;
}

/**
 * A root belongs to another log or position than the entry that names it, or contradicts itself.
 */
export class RootInvalidError extends LogfoldError {
  override readonly code = 'ROOT_INVALID';
  override readonly stopsLog = true;
}

/**
 * Two builds of one snapshot gave different states: the reducer is not deterministic, or stored
 * data was changed.
 */
export class SnapshotMismatchError extends LogfoldError {
  override readonly code = 'SNAPSHOT_MISMATCH';
  override readonly stopsLog = true;
}

/** A small object that logfold keeps for itself does not have the form that its schema requires. */
export class ObjectInvalidError extends LogfoldError {
  override readonly code = 'OBJECT_INVALID';
}

/** A log ends before the last of its entries that the feed has. */
export class FeedAheadError extends LogfoldError {
  override readonly code = 'FEED_AHEAD';
}
