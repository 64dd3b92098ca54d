import { LogNotFoundError, LogsClosedError, UsageError } from '../errors.ts';
import type { GroupStore } from '../feed/group-store.ts';
import { type LogId, type ParseLog, parseLogId } from '../ids/log-id.ts';
import { type CreateOptions, LogClient, type LogClientDeps } from '../log/client.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import type { SnapshotStores } from '../snapshot/snapshots.ts';
import type { Reducer } from '../state/reducer.ts';
import { NodeCache } from '../tree/node-cache.ts';
import { Document, type DocumentDeps } from './document.ts';
import { loadPastState, type Moment, type PastState } from './document-state.ts';
import { Feed } from './feed.ts';
import { type ListedLog, type LogListOptions, listLogs, scanLogs } from './list-logs.ts';
import { checkDocumentOptions, type DocumentOptions } from './options.ts';

/** The ports of the client, and its settings. */
export interface LogsDeps extends LogClientDeps, Pick<SnapshotStores, 'platform'> {
  readonly sleep: DocumentDeps['sleep'];
  /** Memory for chunks, shared by all documents, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number | undefined;
  /**
   * Memory for the logs that a server which folds keeps, in bytes; 64 MiB by default. It does not
   * count chunks. Those that were not used for longest make room.
   */
  readonly warmBytes?: number | undefined;
  /** The consumer groups of the feed, if `store` has one: see `withFeed`. */
  readonly feedGroups?: GroupStore | undefined;
  /** Releases what `openLogs` opened. */
  readonly close?: (() => Promise<void>) | undefined;
}

const CACHE_BYTES = 64 * 1024 * 1024;

/** The logs of two tables and a bucket. Share one object within a process. */
export class Logs {
  readonly #client: LogClient;
  readonly #deps: DocumentDeps;
  readonly #feed: Feed | undefined;
  readonly #parseLog: ParseLog;
  readonly #close: () => Promise<void>;
  readonly #open = new Set<Document>();
  #closed: Promise<void> | undefined;

  constructor(deps: LogsDeps) {
    const {
      types = RESERVED_TYPES,
      cacheBytes = CACHE_BYTES,
      close = async () => undefined,
      parseLog = parseLogId,
      feedGroups: groups,
    } = deps;
    this.#parseLog = parseLog;
    this.#client = new LogClient(deps);
    const nodes = { cache: new NodeCache(cacheBytes) };
    const onClose = (document: Document) => void this.#open.delete(document);
    this.#deps = { ...deps, types, client: this.#client, nodes, onClose };
    this.#feed = groups && new Feed({ ...deps, types, groups });
    this.#close = close;
  }

  /**
   * Appends to logs and reads entries without holding a document.
   * @throws LogsClosedError after {@link close}
   */
  get client(): LogClient {
    this.checkOpen();
    return this.#client;
  }

  /**
   * All entries of all logs in one sequence.
   * @throws UsageError if the logs were opened without the table of the feed
   * @throws LogsClosedError after {@link close}
   */
  get feed(): Feed {
    this.checkOpen();
    if (this.#feed !== undefined) return this.#feed;
    throw new UsageError('these logs were opened without a feed', {
      advice: 'Give openLogs of logfold/aws or logfold/local the table of the feed as `feedTable`',
    });
  }

  /**
   * Creates a log.
   * @param log a chosen id, for a log that is found by its id; a new UUID by default
   * @param options its attributes, and with `ifMissing` no error if the log exists
   * @returns its id
   * @throws LogsClosedError after {@link close}
   * @throws LogIdInvalidError if no log can have the id; see {@link parseLogId}
   * @throws EntryExistsError if the log exists, without `ifMissing`
   */
  async create(log?: string, options?: CreateOptions): Promise<LogId> {
    return this.client.createLog(log, options);
  }

  /**
   * Opens a log as a live document. Takes two queries if the root of the newest snapshot is small,
   * and one object more if it is not. Downloads chunks only when something reads them.
   * @param log the id, as {@link create} returned it
   * @throws LogsClosedError after {@link close}
   * @throws LogIdInvalidError if no log here can have the id; see {@link parseLogId}
   * @throws ReducerInvalidError if the reducer lacks a part
   * @throws UsageError if another option is invalid
   * @throws LogNotFoundError if the log does not exist
   * @throws SegmentWithoutSnapshotError if neither of the two newest segments has a snapshot
   * @throws any error that stops a log, such as an entry that cannot be folded; see
   * {@link DocumentOptions.onBadEntry}
   */
  async open<R extends Reducer>(log: string, options: DocumentOptions<R>): Promise<Document<R>> {
    this.checkOpen();
    checkDocumentOptions(log, options);
    const document = await Document.open(this.#deps, this.#parseLog(log), options);
    this.#open.add(document);
    if (this.#closed !== undefined) document.close();
    this.checkOpen();
    return document;
  }

  /**
   * The state of a log at a moment of the past, as `Document.at` gives it. Does not load the newest
   * state, so it is for a log of which no document is open.
   * @throws LogsClosedError after {@link close}
   * @throws LogIdInvalidError if no log here can have the id; see {@link parseLogId}
   * @throws ReducerInvalidError if the reducer lacks a part
   * @throws LogNotFoundError if the log does not exist
   * @throws the errors of `Document.at`
   */
  async at(log: string, moment: Moment, options: Pick<DocumentOptions, 'reducer'>): Promise<PastState> {
    this.checkOpen();
    checkDocumentOptions(log, options);
    return loadPastState({ ...this.#deps, reducer: options.reducer }, this.#parseLog(log), moment);
  }

  /**
   * All logs but the feed, in no order: scans the Segment table. With a prefix, the logs whose
   * chosen ids begin with it, in the order of their bytes and without a scan. The last id of a page
   * is `after` for the next. Pages come from the bucket: one request for 1,000 ids, and one read of
   * the Segment table for each log.
   * @throws LogsClosedError after {@link close}
   * @throws UsageError if an option is invalid, or the logs are those of a mapping
   */
  async *list(options?: LogListOptions): AsyncGenerator<ListedLog> {
    this.checkOpen();
    const deps = { ...this.#deps, parseLog: this.#parseLog };
    yield* options === undefined ? scanLogs(deps) : listLogs(deps, options);
  }

  /** Closes all documents, then what `openLogs` opened. */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll();
    return this.#closed;
  }

  async #closeAll(): Promise<void> {
    for (const document of [...this.#open]) document.close();
    await this.#close();
  }

  /** The ports of the documents. */
  protected get documentDeps(): DocumentDeps {
    return this.#deps;
  }

  /** @throws LogsClosedError after {@link close} */
  protected checkOpen(): void {
    if (this.#closed !== undefined)
      throw new LogsClosedError('these logs are closed', { advice: 'Call openLogs again' });
  }
}

/** A log to open, and to create if it does not exist. */
export interface OpenOrCreateOptions extends DocumentOptions {
  /** Time in epoch seconds with which a missing log is created; now by default. */
  readonly created?: number | undefined;
}

/**
 * Opens a log, and creates it first if it does not exist. Another process may create it at the same
 * time.
 * @throws the errors of {@link Logs.open}
 */
export async function openOrCreate(
  logs: Pick<Logs, 'open' | 'client'>,
  log: LogId,
  { created, ...options }: OpenOrCreateOptions,
): Promise<Document> {
  try {
    return await logs.open(log, options);
  } catch (error) {
    if (!(error instanceof LogNotFoundError)) throw error;
  }
  // Another process may be faster.
  await logs.client.createLog(log, { created, ifMissing: true });
  return logs.open(log, options);
}
