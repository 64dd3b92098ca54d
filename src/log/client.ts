import type { ByteSource } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import { checkPositionOrNumber, comparePositions, type Position, type PositionOrNumber } from '../ids/position.ts';
import {
  type AddedEntries,
  type AppendOptions,
  append,
  checkAppendOptions,
  type DraftedAppendOptions,
} from './append.ts';
import { type AttributeAnswer, type AttributeChange, updateAttributes } from './application-attributes.ts';
import { BodiesAhead, loadBody } from './body.ts';
import { type ClientContext, DEFAULT_RETRIES, type LogClientDeps } from './client-context.ts';
import { type Entry, type EntryHead, RESERVED_TYPES } from './entry.ts';
import { fileOf, type StoredFile, saveFile } from './file.ts';
import { resolvePosition } from './find-position.ts';
import { changeLogAttributes, findLogAttributes, type LogAttributes } from './log-attributes.ts';
import { creationTime, type DraftedEntry, draftEntries, type NewEntry, snapshotEntry } from './new-entry.ts';
import { type CreateOptions, createLog, type NewSegment, startSegment } from './new-segment.ts';
import { NewestCache, queryNewestSegments, type TRUST_MS } from './newest.ts';
import { checkOptionNames } from './option-names.ts';
import { type QueryAnswer, type QueryRange, query } from './query.ts';
import { type LogAppend, transact } from './transact.ts';

export type { AddedEntries, AppendOptions } from './append.ts';
export type { AttributeAnswer, AttributeChange } from './application-attributes.ts';
export type { LogClientDeps } from './client-context.ts';
export type { LogAttributes } from './log-attributes.ts';
export type { NewEntry } from './new-entry.ts';
export type { CreateOptions, NewSegment } from './new-segment.ts';
export type { QueryAnswer, QueryRange } from './query.ts';
export type { LogAppend } from './transact.ts';

/** One new entry; the rest is as in {@link AddedEntries}. */
export interface AddedEntry extends Pick<AddedEntries, 'snapshotEntry' | 'lastSnapshot'> {
  readonly position: Position;
  /**
   * The count of the application's entries up to and including this one; Snapshot entries do not
   * count. Absent if the log's entries have no numbers.
   */
  readonly number?: number;
}

/** An entry of the application with its decoded body; null if it has none. */
export interface ReadEntry extends Omit<Entry, 'body'> {
  readonly body: Value;
}

/** The creation time of new entries. */
export interface EntryTime {
  /** Epoch seconds; now by default. */
  readonly created?: number | undefined;
}

/** Conditions and questions of a Snapshot entry, as of any other entry. */
export type SnapshotOptions = EntryTime & Pick<AppendOptions, 'after' | 'snapshot'>;

const SNAPSHOT_OPTIONS = ['after', 'snapshot', 'created'] satisfies (keyof SnapshotOptions)[];

/**
 * Appends to logs and reads them. A client caches the ends of the logs that it appends to, so that
 * it adds an entry in one request. Share one client within a process.
 *
 * The methods throw LogIdInvalidError if `parseLog` refuses the id of the log.
 */
export class LogClient {
  readonly #context: ClientContext;

  constructor(deps: LogClientDeps) {
    const { retries = DEFAULT_RETRIES, types = RESERVED_TYPES, parseLog = parseLogId } = deps;

    this.#context = { ...deps, types, retries, parseLog, newest: new NewestCache(deps.now) };
  }

  /**
   * Creates a log in one transaction: a segment, and its first entry, a Snapshot entry for the
   * empty state.
   * @param log its id, for a log whose id follows from what it is about; a new one by default. A
   * chosen id, which is not a UUID, takes one more request: it is listed in the bucket before
   * @throws UsageError if the time is not in epoch seconds
   * @throws EntryExistsError if the log exists, without `ifMissing`
   */
  async createLog(log?: string, options: CreateOptions = {}): Promise<LogId> {
    const id = log === undefined ? undefined : this.#context.parseLog(log);
    return createLog(this.#context, id, options);
  }

  /**
   * The attributes of a log as a whole; empty if it has none. Takes one query, and more if its
   * newest segments do not show any, as far back as the first segment. A page looks back as far as
   * the 1,000 newest segments.
   * @throws LogNotFoundError if the log does not exist
   */
  async logAttributes(log: LogId): Promise<LogAttributes> {
    const id = this.#context.parseLog(log);
    const { store } = this.#context;
    return findLogAttributes(store, id, await queryNewestSegments(store, id, { consistent: true }));
  }

  /**
   * Changes attributes of a log as a whole, if they are as expected. They stay changeable: no
   * segment that ends freezes them. Takes a query and a transaction. Throws the errors of {@link
   * changeLogAttributes}.
   */
  async updateLogAttributes(log: LogId, change: AttributeChange): Promise<AttributeAnswer> {
    return changeLogAttributes(this.#context, this.#context.parseLog(log), change);
  }

  /**
   * Appends one entry. Throws the errors of {@link append}.
   * @throws UsageError if the type is reserved
   */
  async addEntry(log: LogId, entry: NewEntry, options: AppendOptions = {}): Promise<AddedEntry> {
    return onlyOne(await this.addEntries(log, [entry], options));
  }

  /**
   * Appends up to 100 entries and 4 MB in one transaction, which doubles the price of each entry.
   * An entry of `snapshotBefore` counts too. Throws the errors of {@link append}.
   * @throws UsageError if there are no entries or a type is reserved
   */
  async addEntries(log: LogId, entries: readonly NewEntry[], options: AppendOptions = {}): Promise<AddedEntries> {
    const id = this.#context.parseLog(log);
    const drafts = draftEntries(this.#context, id, entries);
    checkAppendOptions(id, options);
    return append(this.#context, id, drafts, options);
  }

  /**
   * Appends entries to several logs, all or nothing: up to 100 entries and 4 MB together, for twice
   * the price of single ones. No log comes twice. With `after`, nothing is appended to any log if
   * another entry of the application follows in this one. Open documents see the entries with their
   * next refresh. Throws the errors of {@link transact}.
   * @returns the places of the entries of each log, in the order of the appends
   */
  async transact(appends: readonly LogAppend[]): Promise<AddedEntries[]> {
    return transact(this.#context, appends);
  }

  /** Like {@link addEntries}, for entries of {@link draftEntries} and options that were checked. */
  addDrafted(log: LogId, drafts: readonly DraftedEntry[], options: DraftedAppendOptions): Promise<AddedEntries> {
    return append(this.#context, log, drafts, options);
  }

  /**
   * Writes a file to the blob store, for the `file` of an entry of this log. Append the entry
   * within hours: garbage collection removes files that no entry names. Reads the source twice.
   * Throws the errors of {@link saveFile}.
   * @returns the key
   */
  async saveFile(log: LogId, source: ByteSource): Promise<string> {
    return saveFile(this.#context, this.#context.parseLog(log), source);
  }

  /**
   * Appends a Snapshot entry, which asks for a snapshot of everything before it. Throws the errors
   * of {@link append}.
   */
  async addSnapshot(log: LogId, given: SnapshotOptions = {}): Promise<AddedEntry> {
    const id = this.#context.parseLog(log);
    checkAppendOptions(id, given, SNAPSHOT_OPTIONS);
    const { created: time, ...options } = given;
    const created = creationTime(this.#context, id, time);
    return onlyOne(await append(this.#context, id, [snapshotEntry(this.#context, { log: id, created })], options));
  }

  /**
   * Ends the log's newest segment and starts the next. Throws the errors of {@link startSegment}.
   */
  async startSegment(log: LogId, options: EntryTime = {}): Promise<NewSegment> {
    const id = this.#context.parseLog(log);
    checkOptionNames('startSegment', options, ['created'] satisfies (keyof EntryTime)[], { log: id });
    return startSegment(this.#context, id, options.created);
  }

  /**
   * Reads a range of entries, page by page, across segments. Throws the errors of {@link query}.
   */
  async query(log: LogId, range: QueryRange): Promise<QueryAnswer> {
    return query(this.#context, this.#context.parseLog(log), range);
  }

  /**
   * Reads the entries of the application in a range, with their bodies: {@link query} without pages
   * and without Snapshot and End Segment entries. Bodies in the bucket are requested ahead. Throws
   * the errors of {@link query} and of {@link loadBody} while it is read.
   */
  async *read(log: LogId, range: QueryRange): AsyncGenerator<ReadEntry, undefined> {
    const { blobs, types } = this.#context;
    const { entries } = await this.query(log, range);
    for await (const page of entries) {
      const own = page.filter(({ type }) => !types.includes(type));
      const external = own.filter((entry) => entry.external !== undefined);
      const bodies = new BodiesAhead(blobs, external);
      for (const entry of own) yield { ...entry, body: await bodies.load(entry) };
    }
  }

  /**
   * Decodes the body of an entry, and loads it if it is in the bucket; null if there is none.
   * Snapshot and End Segment entries have none. Throws the errors of {@link loadBody}.
   */
  async loadBody(entry: Entry): Promise<Value> {
    const { blobs, types } = this.#context;
    return types.includes(entry.type) ? null : loadBody(blobs, entry);
  }

  /**
   * Opens the file of an entry with one request; undefined if it has none. Takes the entries of
   * {@link query} and of {@link read}. `bytes()` of the answer
   * streams the file and checks its hash after the last byte: until then, do not trust what was
   * read.
   * @throws ExternalMissingError if the file does not exist
   * @throws the errors of {@link StoredFile.bytes} while it is read
   */
  async loadFile(entry: Pick<Entry, 'file' | 'log' | 'position' | 'type'>): Promise<StoredFile | undefined> {
    const { blobs, types } = this.#context;
    return types.includes(entry.type) ? undefined : fileOf(blobs, entry);
  }

  /**
   * Changes attributes of an entry that are not logfold's, if they are as expected. Only the open
   * segment takes changes. Costs one transaction, and a read of the entry's position if it is given
   * by its number. Throws the errors of {@link updateAttributes}.
   */
  async updateAttributes(log: LogId, place: PositionOrNumber, change: AttributeChange): Promise<AttributeAnswer> {
    const id = this.#context.parseLog(log);
    checkPositionOrNumber(place, { log: id, name: 'position' });
    const position = await resolvePosition(this.#context, id, place, this.#context.newest.get(id));
    return updateAttributes(this.#context, id, position, change);
  }

  /**
   * Tells the client the newest entry of a log that the caller has just read, so that the next
   * append to the log costs one request. The client trusts it for {@link TRUST_MS}, like what it
   * read itself: a longer trust could lose an entry, because its segment may have ended and expired
   * in the meantime. Ignores an End Segment entry, and an entry before the end that the client
   * knows.
   * @param entry the last entry of a read up to the log's end
   * @param askedMs time before that read was sent, in epoch milliseconds of the client's clock
   */
  sawEnd({ log, position, number, type }: EntryHead, askedMs: number): void {
    const { newest, types } = this.#context;
    const known = newest.get(log);
    if (type === undefined || type === types.endSegment) return;
    const order = known === undefined ? -1 : comparePositions(known.position, position);
    // A caller that built the entry itself may not know its number.
    if (order <= 0) newest.set(log, { position, number: order === 0 ? known?.number : number }, askedMs);
  }
}

function onlyOne({ first, last: _, firstNumber: number, ...answer }: AddedEntries): AddedEntry {
  return { position: first, ...(number !== undefined && { number }), ...answer };
}
