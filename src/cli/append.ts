import { createHash } from 'node:crypto';
import { CheckFailedError, SegmentWithoutSnapshotError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, type Position } from '../ids/position.ts';
import type { NewEntry } from '../log/client.ts';
import { loadState } from '../snapshot/load.ts';
import { sheetOf } from '../state/spreadsheet/reducer.ts';
import { sheetRows } from '../state/spreadsheet/sheet.ts';
import type { EditLine } from './edit-line.ts';
import type { Environment } from './environment.ts';
import { withPauses } from './write.ts';

/** The number of entries after which a refused segment start is tried again. */
const SEGMENT_RETRY_ENTRIES = 16;

export interface AppendLineOptions {
  /** Entries between two Snapshot entries; without it, only the file asks for snapshots. */
  readonly snapshotEvery?: number;
  /** Entries per segment. A segment gets more if its first snapshot is not complete by then. */
  readonly segmentEvery?: number;
  /** Whether check lines are compared with the sheet. Each comparison loads the sheet again. */
  readonly check: boolean;
}

export interface AppendCounts {
  entries: number;
  /** Entries that were not appended, because the log has their mutations. */
  repeated: number;
  snapshots: number;
  segments: number;
  checks: number;
  /** Check lines that were skipped because `check` is off. */
  unchecked: number;
}

/**
 * Appends an entry.
 * @returns its position; undefined if the log has the entry's mutation already
 */
export type AddEntry = (entry: NewEntry) => Promise<Position | undefined>;

/** The log that gets the lines. */
export interface AppendTarget {
  readonly log: LogId;
  /** Entries that the newest segment has already. */
  readonly inSegment: number;
  readonly add: AddEntry;
}

/** Appends the lines of an edits file to one log. */
export class Appender {
  readonly counts: AppendCounts = { entries: 0, repeated: 0, snapshots: 0, segments: 0, checks: 0, unchecked: 0 };
  /** The last entry that was appended. */
  last: Position | undefined;
  /** Number of the last line that is done; 0 before the first. */
  done = 0;
  /** Number of a line that is being appended or has failed. The log may have its entry or not. */
  inFlight: number | undefined;
  readonly #environment: Environment;
  readonly #log: LogId;
  readonly #options: AppendLineOptions;
  readonly #add: AddEntry;
  #sinceSnapshot = 0;
  #inSegment: number;
  #nextSegmentTry = 0;

  constructor(environment: Environment, { log, inSegment, add }: AppendTarget, options: AppendLineOptions) {
    this.#environment = environment;
    this.#log = log;
    this.#inSegment = inSegment;
    this.#add = add;
    this.#options = options;
  }

  async append(line: EditLine, number: number): Promise<void> {
    if (line.kind !== 'check') this.inFlight = number;
    await this.#append(line, number);
    this.inFlight = undefined;
    this.done = number;
  }

  async #append(line: EditLine, number: number): Promise<void> {
    switch (line.kind) {
      case 'start':
        // Every segment has this entry already.
        return;
      case 'entry':
        return this.#addEntry(line.entry);
      case 'snapshot':
        return this.#addSnapshot(line.time);
      case 'segment':
        return this.#startSegment(line.time);
      case 'check':
        if (this.#options.check) return this.#check(line, number);
        this.counts.unchecked++;
    }
  }

  async #addEntry(entry: NewEntry): Promise<void> {
    const position = await this.#add(entry);
    if (position === undefined) {
      this.counts.repeated++;
      return;
    }
    this.counts.entries++;
    this.#sinceSnapshot++;
    this.#added(position);
    const { segmentEvery, snapshotEvery } = this.#options;
    if (segmentEvery !== undefined && this.#inSegment >= segmentEvery && this.#inSegment >= this.#nextSegmentTry) {
      await this.#tryStartSegment(entry.created);
    }
    if (snapshotEvery !== undefined && this.#sinceSnapshot >= snapshotEvery) await this.#addSnapshot(entry.created);
  }

  #added(position: Position): void {
    this.#inSegment = position.entry + 1;
    this.last = position;
  }

  async #addSnapshot(created: number | undefined): Promise<void> {
    const { position } = await this.#environment.logs.client.addSnapshot(this.#log, { created });
    this.#added(position);
    this.#sinceSnapshot = 0;
    this.counts.snapshots++;
  }

  async #tryStartSegment(created: number | undefined): Promise<void> {
    try {
      await this.#startSegment(created);
    } catch (error) {
      if (!(error instanceof SegmentWithoutSnapshotError)) throw error;
      this.#nextSegmentTry = this.#inSegment + SEGMENT_RETRY_ENTRIES;
    }
  }

  async #startSegment(created: number | undefined): Promise<void> {
    const { position } = await this.#environment.logs.client.startSegment(this.#log, { created });
    this.#added(position);
    this.#nextSegmentTry = 0;
    this.#sinceSnapshot = 0;
    this.counts.segments++;
    this.counts.snapshots++;
  }

  async #check({ rows, sha256 }: Extract<EditLine, { kind: 'check' }>, number: number): Promise<void> {
    const at = this.last === undefined ? undefined : { segment: this.last.segment, entry: this.last.entry + 1 };
    const { draft, base } = await loadState(this.#environment.deps, this.#log, { at });
    const { height, hash: found } = await hashRows(sheetRows(sheetOf(draft)));
    this.counts.checks++;
    if (found === sha256 && height === rows) return;
    throw new CheckFailedError(
      number,
      `the sheet has ${height} rows with hash ${found}, but the line expects ${rows} rows with hash ${sha256}`,
      {
        log: this.#log,
        ...this.last,
        advice:
          base === undefined
            ? 'Compare the file with the entries that the log had before: the sheet was folded from the first entry'
            : `Run 'logfold replay LOG' to check the snapshot at ${formatPosition(base.position)}, from which the sheet was loaded`,
      },
    );
  }
}

/**
 * Hashes rows as `JSON.stringify` writes their array. The array itself may be too long for a
 * string.
 */
async function hashRows(rows: AsyncIterable<string[]>): Promise<{ readonly height: number; readonly hash: string }> {
  const hash = createHash('sha256').update('[');
  let height = 0;
  for await (const row of withPauses(rows)) hash.update(`${height++ === 0 ? '' : ','}${JSON.stringify(row)}`);
  return { height, hash: hash.update(']').digest('hex') };
}
