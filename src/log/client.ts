import { UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import { type AppendOptions, append, type NewEntry } from './append.ts';
import { type ClientContext, DEFAULT_RETRIES, type LogClientDeps } from './client-context.ts';
import { RESERVED_TYPES, RESERVED_VERSION } from './entry.ts';
import { createLog, type NewSegment, startSegment } from './new-segment.ts';
import { NewestCache } from './newest.ts';
import { type QueryAnswer, type QueryRange, query } from './query.ts';

export type { AppendOptions, NewEntry } from './append.ts';
export type { LogClientDeps } from './client-context.ts';
export type { NewSegment } from './new-segment.ts';
export type { QueryAnswer, QueryRange } from './query.ts';

export interface AddedEntry {
  readonly position: Position;
  /** The newest completed snapshot, where the client told on which it stands and there is a newer one. */
  readonly lastSnapshot?: Position;
}

/** When what is added is said to be made. */
export interface EntryTime {
  /** Epoch seconds; now by default. */
  readonly created?: number | undefined;
}

export interface AddedEntries {
  /** Positions of the first and the last new entry; all of them are in one segment, without gap. */
  readonly first: Position;
  readonly last: Position;
  /** The newest completed snapshot, where the client told on which it stands and there is a newer one. */
  readonly lastSnapshot?: Position;
}

/**
 * Appends to logs and reads them. One client remembers where the logs that it appends to end, so that adding an entry
 * is one request; share it within a process.
 */
export class LogClient {
  readonly #context: ClientContext;

  constructor(deps: LogClientDeps) {
    const { retries = DEFAULT_RETRIES, types = RESERVED_TYPES } = deps;
    this.#context = { ...deps, types, retries, newest: new NewestCache(deps.now) };
  }

  /**
   * Creates a log with one segment and, in it, a Snapshot entry that stands for the empty state. One transaction.
   * @throws EntryExistsError where `newLogId` gave an id that exists
   */
  createLog(): Promise<LogId> {
    return createLog(this.#context);
  }

  /**
   * Appends one entry: see {@link append} for the errors.
   * @throws UsageError where the type is reserved
   */
  async addEntry(log: LogId, entry: NewEntry, options: AppendOptions = {}): Promise<AddedEntry> {
    const { first, lastSnapshot } = await this.addEntries(log, [entry], options);
    return { position: first, ...(lastSnapshot !== undefined && { lastSnapshot }) };
  }

  /**
   * Appends up to 100 entries and 4 MB in one transaction, at twice the price for each: see {@link append} for the
   * errors.
   * @throws UsageError where there are no entries or a type is reserved
   */
  async addEntries(log: LogId, entries: readonly NewEntry[], options: AppendOptions = {}): Promise<AddedEntries> {
    for (const { type } of entries) {
      if (this.#context.types.includes(type)) {
        throw new UsageError(`the type '${type}' is reserved`, {
          log,
          advice: 'Call addSnapshot or startSegment, or give the entry another type',
        });
      }
    }
    return append(this.#context, log, entries, options);
  }

  /** Appends a Snapshot entry, which asks for a snapshot of everything before it: see {@link append} for the errors. */
  async addSnapshot(log: LogId, { created }: EntryTime = {}): Promise<AddedEntry> {
    const entry = { type: this.#context.types.snapshot, version: RESERVED_VERSION, created };
    const { first } = await append(this.#context, log, [entry]);
    return { position: first };
  }

  /** Ends the log's newest segment and starts the next: see {@link startSegment} for the errors. */
  startSegment(log: LogId, { created }: EntryTime = {}): Promise<NewSegment> {
    return startSegment(this.#context, log, created);
  }

  /** Reads a run of entries, page by page, across segments: see {@link query} for the errors. */
  query(log: LogId, range: QueryRange): Promise<QueryAnswer> {
    return query(this.#context, log, range);
  }
}
