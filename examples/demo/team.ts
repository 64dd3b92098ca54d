import { type AddEntry, Appender } from '../../src/cli/append.ts';
import { sheetEntry } from '../../src/cli/edit-line.ts';
import type { Environment } from '../../src/cli/environment.ts';
import type { ProgressBar } from '../../src/cli/progress.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { PlainSheet } from './plain-sheet.ts';

/** Entries between two Snapshot entries. */
export const SNAPSHOT_EVERY = 400;
/** Entries per segment, or more if its first snapshot is not complete by then. */
export const SEGMENT_EVERY = 1000;

/** The number of entries of each kind. */
export interface EntryCounts {
  entries: number;
  sets: number;
  insertedRows: number;
  deletedRows: number;
  insertedColumns: number;
  snapshotEntries: number;
  segments: number;
}

/**
 * A team that stores its table in a log. It appends edits and, at intervals, Snapshot entries. It
 * also has the table in plain arrays, which logfold never reads.
 */
export class Team {
  readonly sheet = new PlainSheet();
  readonly #steady: Appender;
  readonly #plain: Appender;
  readonly #edits = { sets: 0, insertedRows: 0, deletedRows: 0, insertedColumns: 0 };
  readonly #signal: AbortSignal;

  /** @param log a new log that contains only its first Snapshot entry */
  constructor(environment: Environment, log: LogId, signal: AbortSignal) {
    const options = { snapshotEvery: SNAPSHOT_EVERY, segmentEvery: SEGMENT_EVERY, check: false };
    const add: AddEntry = async (entry) => {
      // Items of the same sizes in each run, so that the counted units are the same too.
      const time = { created: Math.floor(Date.now() / 1000), milliseconds: 500 };
      return (await environment.logs.client.addEntry(log, { ...entry, ...time })).position;
    };
    const target = { log, inSegment: 1, add };
    this.#steady = new Appender(environment, target, options);
    this.#plain = new Appender(environment, target, { check: false });
    this.#signal = signal;
  }

  /** Appends edits, with Snapshot entries and new segments at their intervals. */
  async edit(edits: Iterable<SheetEdit>, progress: ProgressBar): Promise<void> {
    await this.#append(this.#steady, edits, progress);
  }

  /** Appends edits and nothing else. */
  async editOnly(edits: Iterable<SheetEdit>, progress: ProgressBar): Promise<void> {
    await this.#append(this.#plain, edits, progress);
  }

  /** Appends a Snapshot entry. */
  async addSnapshot(): Promise<Position> {
    await this.#plain.append({ kind: 'snapshot' }, 0);
    if (this.#plain.last === undefined) throw new Error('the Snapshot entry has no position');
    return this.#plain.last;
  }

  counts(): EntryCounts {
    const { entries, snapshots, segments } = this.#steady.counts;
    const { sets, insertedRows, deletedRows, insertedColumns } = this.#edits;
    // A log starts with one segment and its Snapshot entry. Each new segment adds a Snapshot entry
    // and an End Segment entry.
    const snapshotEntries = 1 + snapshots + this.#plain.counts.snapshots;
    return {
      entries: entries + this.#plain.counts.entries + snapshotEntries + segments,
      sets,
      insertedRows,
      deletedRows,
      insertedColumns,
      snapshotEntries,
      segments: 1 + segments,
    };
  }

  async #append(appender: Appender, edits: Iterable<SheetEdit>, progress: ProgressBar): Promise<void> {
    let count = 0;
    try {
      for (const edit of edits) {
        this.#signal.throwIfAborted();
        await appender.append({ kind: 'entry', entry: sheetEntry(edit) }, count);
        this.sheet.apply(edit);
        this.#count(edit);
        progress.update(++count);
      }
    } finally {
      progress.stop();
    }
  }

  #count(edit: SheetEdit): void {
    if (edit.type === 'Set') this.#edits.sets++;
    else if (edit.type === 'Insert Rows') this.#edits.insertedRows += edit.count;
    else if (edit.type === 'Delete Rows') this.#edits.deletedRows += edit.count;
    else if (edit.type === 'Insert Columns') this.#edits.insertedColumns += edit.count;
  }
}
