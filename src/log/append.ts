import { EntryExistsError, EntryNotFoundError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import {
  checkPosition,
  checkPositionOrNumber,
  comparePositions,
  formatPosition,
  givesNumber,
  MAX_NUMBER,
  nextPosition,
  type Position,
  type PositionOrNumber,
} from '../ids/position.ts';
import { saveBody } from './body.ts';
import { type ClientContext, writeWithRetries } from './client-context.ts';
import type { CompletedSnapshot, Entry, EntryHead, ReservedTypes } from './entry.ts';
import { numberAfter } from './find-position.ts';
import { decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, PutOptions, SegmentReader } from './log-store.ts';
import { checkEntryCount, type DraftedEntry, entriesAt, snapshotEntry } from './new-entry.ts';
import { type LogEnd, type Newest, queryNewerSnapshot, queryNewest } from './newest.ts';
import { checkOptionNames } from './option-names.ts';
import type { Segment } from './segment.ts';

export interface AppendOptions {
  /**
   * The append succeeds only if no entry of the application follows this one. Snapshot and End
   * Segment entries may follow; the new entries then come after them. A number is that of the
   * newest entry of the application; 0 if the log has none yet.
   */
  readonly after?: PositionOrNumber | undefined;
  /** The snapshot that the client uses; the answer names a newer one. */
  readonly snapshot?: Position;
  /**
   * Whether the same transaction first appends a Snapshot entry, which asks for a snapshot of
   * everything before the new entries. False by default.
   */
  readonly snapshotBefore?: boolean;
}

/** How a writer appends that rebases its entries itself. */
export type DraftedAppendOptions = AppendOptions & PutOptions;

export interface AddedEntries {
  /**
   * Positions of the first and the last new entry. All new entries are in one segment, without a
   * gap.
   */
  readonly first: Position;
  readonly last: Position;
  /**
   * The number of the first new entry: the count of the application's entries up to it. The others
   * follow without a gap. Absent if the log's entries have no numbers.
   */
  readonly firstNumber?: number;
  /** Position of the Snapshot entry of `snapshotBefore`, directly before `first`. */
  readonly snapshotEntry?: Position;
  /** The newest complete snapshot, if it is newer than the given `snapshot`. */
  readonly lastSnapshot?: CompletedSnapshot;
}

/**
 * Appends entries in one request, all or nothing, after the newest entry of the log. Bodies that
 * are too large for the table go to the blob store first. An entry with a file takes one more
 * request, to check that the file exists.
 *
 * After any other error, such as a lost connection, the entries may have been appended.
 * @param given at least one, from {@link draftEntries}
 * @param options as {@link checkAppendOptions} accepts them
 * @throws UsageError if a file does not exist
 * @throws TooLargeError if one request cannot carry the entries, or the segment is full
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryExistsError, with the `newest` position, if an entry of the application follows
 * `after`
 * @throws EntryNotFoundError if `after` does not exist
 * @throws AttemptsExhaustedError if other clients were faster in every attempt
 */
export async function append(
  context: ClientContext,
  log: LogId,
  given: readonly DraftedEntry[],
  options: DraftedAppendOptions = {},
): Promise<AddedEntries> {
  const { snapshot, mayMove } = options;
  const placement = await Placement.of(context, log, given, options);
  // With a cold cache the append itself reads the segments.
  const newestSegments =
    snapshot !== undefined && context.newest.get(log) !== undefined ? readNewestSegments(context, log) : undefined;
  await writeTogether(context, [placement], { mayMove });
  const { added } = placement;
  if (snapshot === undefined) return added;
  const known = placement.segments ?? (await newestSegments) ?? [];
  // The entries are written. If this failure reached the caller, it would append them again.
  // Without an answer the client keeps its snapshot and asks again with its next entry.
  const lastSnapshot = await queryNewerSnapshot(context.store, log, known, snapshot).catch(() => undefined);
  return { ...added, ...(lastSnapshot !== undefined && { lastSnapshot }) };
}

/**
 * Writes the entries of one or several logs in one request, all or nothing. A lost race is tried
 * again. Throws the errors of {@link append}.
 */
export async function writeTogether(
  context: ClientContext,
  placements: readonly Placement[],
  how: PutOptions = {},
): Promise<void> {
  const isUnmet = (error: unknown) => placements.some(({ unmet }) => unmet !== undefined && unmet === error);
  // If a condition does not hold, another attempt cannot help.
  const conflict = (error: unknown) => error instanceof EntryExistsError && !isUnmet(error);
  const options = { failure: 'Adding entries failed', conflict, keepsEnd: isUnmet };
  const logs = placements.map(({ log }) => log);
  await writeWithRetries(context, logs, options, async (consistency) => {
    const placed = await Promise.all(placements.map((placement) => placement.place(consistency)));
    try {
      await context.tables.putEntries(placed.flat(), how);
    } catch (error) {
      if (error instanceof EntryExistsError) await Promise.all(placements.map((placement) => placement.lookAgain()));
      throw error;
    }
    for (const placement of placements) placement.written();
  });
}

/** New entries of one log, and their places after the log's end as it was seen last. */
export class Placement {
  readonly log: LogId;
  /** The newest segments, if the placement has read them. */
  segments: readonly Segment[] | undefined;
  /** The error that says that `after` does not hold. */
  unmet: unknown;
  readonly #context: ClientContext;
  readonly #drafts: readonly Omit<Entry, 'position'>[];
  readonly #snapshotBefore: boolean;
  /** Between `after` and this entry are only Snapshot and End Segment entries. */
  #follows: PositionOrNumber | undefined;
  #seen: End | undefined;
  #placed: readonly Entry[] = [];

  private constructor(
    context: ClientContext,
    log: LogId,
    drafts: readonly Omit<Entry, 'position'>[],
    { after, snapshotBefore = false }: AppendOptions,
  ) {
    this.#context = context;
    this.log = log;
    this.#drafts = drafts;
    this.#follows = after;
    this.#snapshotBefore = snapshotBefore;
  }

  /**
   * Saves the bodies that are too large for the table.
   * @throws UsageError if a file does not exist
   * @throws TooLargeError if there are too many entries for one transaction
   */
  static async of(
    context: ClientContext,
    log: LogId,
    given: readonly DraftedEntry[],
    options: AppendOptions,
  ): Promise<Placement> {
    const [{ created } = { created: 0 }] = given;
    const before: DraftedEntry[] = options.snapshotBefore ? [snapshotEntry(context, { log, created })] : [];
    checkEntryCount(log, before.length + given.length);
    const drafts = await Promise.all(
      [...before, ...given].map(async ({ body, file, ...draft }) => ({
        ...draft,
        ...(await saveBody(context, log, { body, file })),
      })),
    );
    return new Placement(context, log, drafts, options);
  }

  /**
   * Gives the entries places and numbers after the newest entry.
   * @throws EntryExistsError if an entry of the application follows `after`
   */
  async place(consistency: Consistency): Promise<readonly Entry[]> {
    const { log } = this;
    const follows = this.#follows;
    let newest: End | undefined = this.#seen ?? this.#context.newest.get(log);
    if (newest === undefined || (follows !== undefined && isBefore(newest, follows))) {
      const found = await findEnd(this.#context, log, { consistency, after: follows });
      newest = found;
      this.segments = found.segments;
    }
    await this.#requireFollows(newest).catch(async (error: unknown) => {
      // A cached end may be old. The error of a new look names the current one.
      if (error instanceof EntryExistsError && this.#seen === undefined) await this.#look(newest.position.segment);
      throw error;
    });
    this.#placed = placeAfter(newest, this.#drafts, this.#context.types);
    checkRoom(log, this.#ends.last.position);
    return this.#placed;
  }

  /**
   * Reads the end of the log after an entry was in the way, if the entries have a condition.
   * @throws EntryExistsError if an entry of the application follows `after`
   */
  async lookAgain(): Promise<void> {
    const [first] = this.#placed;
    if (this.#follows !== undefined && first !== undefined) await this.#look(first.position.segment);
  }

  async #look(segment: number): Promise<void> {
    this.#seen = await queryEnd(this.#context, this.log, segment);
    this.#context.newest.set(this.log, this.#seen);
    await this.#requireFollows(this.#seen);
  }

  /** Remembers the entries as the end of the log. Call it after they were written. */
  written(): void {
    this.#context.newest.set(this.log, this.#ends.last);
  }

  /** The places that the entries got last. */
  get added(): AddedEntries {
    const { first, last } = this.#ends;
    const { position, number: firstNumber } = first;
    const numbered = { first: position, last: last.position, ...(firstNumber !== undefined && { firstNumber }) };
    const [asked] = this.#placed;
    return this.#snapshotBefore && asked ? { ...numbered, snapshotEntry: asked.position } : numbered;
  }

  get #ends(): { readonly first: Entry; readonly last: Entry } {
    const [first, last] = [this.#placed[this.#snapshotBefore ? 1 : 0], this.#placed.at(-1)];
    if (first === undefined || last === undefined) throw new UsageError('there are no entries', { log: this.log });
    return { first, last };
  }

  async #requireFollows(newest: End): Promise<void> {
    if (this.#follows === undefined) return;
    await requireNoneAfter(this.#context, this.log, this.#follows, newest).catch((error: unknown) => {
      this.unmet = error;
      throw error;
    });
    this.#follows = newest.position;
  }
}

const APPEND_OPTIONS = ['after', 'snapshot', 'snapshotBefore'] satisfies (keyof AppendOptions)[];

/**
 * Checks the options of an append, so that no condition is ignored.
 * @param names of the options that this append has
 * @throws UsageError if they are not an object, or one has a wrong name
 * @throws PositionInvalidError if `after` or `snapshot` is not a position
 * @throws UsageError if `after` has a number that no entry has
 */
export function checkAppendOptions(
  log: LogId,
  options: AppendOptions,
  names: readonly string[] = APPEND_OPTIONS,
): void {
  checkOptionNames('an append', options, names, { log });
  if (options.after !== undefined) checkAfter(log, options.after);
  if (options.snapshot !== undefined) checkPosition(options.snapshot, { log, name: 'snapshot' });
}

function checkAfter(log: LogId, after: PositionOrNumber): void {
  checkPositionOrNumber(after, { log, name: 'after' });
  if (!givesNumber(after) || (Number.isSafeInteger(after.number) && after.number >= 0)) return;
  throw new UsageError(`\`after\` has the number ${String(after.number)}, which is none of an entry`, {
    log,
    advice: 'Give the number of the newest entry of the application, or 0 if the log has none yet',
  });
}

/**
 * Checks that a position can exist.
 * @throws TooLargeError if its segment or entry number is too high
 */
export function checkRoom(log: LogId, position: Position): void {
  if (position.segment > MAX_NUMBER || position.entry > MAX_NUMBER) {
    throw new TooLargeError('the segment has no numbers left', { log, ...position, advice: 'Start a new segment' });
  }
}

/** Gives entries their positions and numbers after the newest entry of a log. */
function placeAfter(newest: LogEnd, drafts: readonly Omit<Entry, 'position'>[], types: ReservedTypes): Entry[] {
  let { number } = newest;
  return entriesAt(nextPosition(newest.position), drafts).map((entry) => {
    number = numberAfter(number, entry.type, types);
    return number === undefined ? entry : { ...entry, number };
  });
}

/**
 * The log's end. If an eventually consistent read does not show `after`, reads again consistently.
 */
async function findEnd(
  context: ClientContext,
  log: LogId,
  { consistency, after }: { readonly consistency: Consistency; readonly after: PositionOrNumber | undefined },
): Promise<Newest> {
  const newest = await queryNewest(context, log, consistency);
  const stale = after !== undefined && isBefore(newest, after);
  return stale && !consistency.consistent ? queryNewest(context, log, { consistent: true }) : newest;
}

/** The two newest segments, which name the newest complete snapshot; undefined after a failure. */
function readNewestSegments(context: ClientContext, log: LogId): Promise<readonly Segment[] | undefined> {
  return context.store.newestSegments(log, 2, { consistent: false }).catch(() => undefined);
}

const CONSISTENT: Consistency = { consistent: true };

/** Entries in one request that looks for an entry of the application. */
const READ_ENTRIES = 10;

interface Source {
  readonly store: SegmentReader & EntryReader;
  readonly types: ReservedTypes;
}

/** The newest entry of a log; its type is absent if it is unknown. */
export type End = Pick<EntryHead, 'position' | 'type' | 'number'>;

/**
 * Requires that only Snapshot and End Segment entries follow an entry. Sends no request if the
 * entry is the newest, or if the type of the newest entry shows the answer.
 * @throws EntryNotFoundError if `after` does not exist
 * @throws EntryExistsError, with `newest`, if an entry of the application follows
 */
async function requireNoneAfter(source: Source, log: LogId, after: PositionOrNumber, newest: End): Promise<void> {
  if (givesNumber(after)) return requireNewestNumber(log, after.number, newest);
  const order = comparePositions(newest.position, after);
  if (order < 0) throw notThere(log, newest, after);
  if (order === 0 || (await onlyReservedFollow(source, log, after, newest))) return;
  throw followed(log, formatPosition(after), newest);
}

/**
 * Requires that the newest entry of the application has a number. Snapshot and End Segment entries
 * have the number of the entry before them, so this takes no request.
 */
function requireNewestNumber(log: LogId, number: number, newest: End): void {
  if (newest.number === undefined) {
    throw new UsageError('the log has no numbers after which an entry could come', {
      log,
      ...newest.position,
      advice: 'Give `after` as a position. Some entries of the log have no numbers, so new ones have none either',
    });
  }
  if (newest.number < number) throw notThere(log, newest);
  if (newest.number > number) throw followed(log, `the entry with number ${number}`, newest);
}

function notThere(log: LogId, newest: End, after?: Position): EntryNotFoundError {
  return new EntryNotFoundError('the entry to follow does not exist', {
    log,
    ...after,
    newest: newest.position,
    newestNumber: newest.number,
    advice: `Append after ${formatPosition(newest.position)}, the newest entry`,
  });
}

function followed(log: LogId, after: string, newest: End): EntryExistsError {
  return new EntryExistsError(`another entry already follows ${after}`, {
    log,
    ...newest.position,
    newest: newest.position,
    newestNumber: newest.number,
    advice: 'Read the newer entries, then append after the newest',
  });
}

/**
 * The end of a log whose newest segment was `segment` a moment ago, in one query. If the segment
 * has ended, takes two more.
 * @throws the errors of {@link queryNewest}
 */
async function queryEnd(source: Source, log: LogId, segment: number): Promise<End> {
  const entry = await source.store.newestEntry(log, segment, CONSISTENT);
  if (entry?.type !== undefined && entry.type !== source.types.endSegment) return entry;
  return queryNewest(source, log, CONSISTENT);
}

/** Whether a log ends before an entry, as far as a read of its end shows. */
function isBefore({ position, number }: LogEnd, after: PositionOrNumber): boolean {
  return givesNumber(after) ? number === undefined || number < after.number : comparePositions(position, after) < 0;
}

/** Whether all entries after one entry, up to the newest, are Snapshot and End Segment entries. */
async function onlyReservedFollow(
  { store, types }: Source,
  log: LogId,
  after: Position,
  newest: End,
): Promise<boolean> {
  const isReserved = (type: string | undefined) => type !== undefined && types.includes(type);
  if (newest.type !== undefined && !isReserved(newest.type)) return false;
  const { segment, entry } = newest.position;
  const to = { segment, entry: newest.type === undefined ? entry + 1 : entry };
  let next = after;
  if (after.segment === segment && after.entry + 1 === to.entry) return true;
  // The first range begins with `after`, because an End Segment entry is followed by the next
  // segment. The numbers are dense: a gap may hide an entry of the application.
  while (comparePositions(next, to) < 0) {
    const from = next;
    const end = from.entry + READ_ENTRIES;
    const range = {
      segment: from.segment,
      from: from.entry,
      to: from.segment === segment ? Math.min(end, to.entry) : end,
    };
    for await (const page of store.items(log, range, CONSISTENT)) {
      for (const { position, type } of page.map(decodeEntryHead)) {
        if (comparePositions(position, next) !== 0) return false;
        if (comparePositions(position, after) > 0 && !isReserved(type)) return false;
        const { segment: of, entry: number } = position;
        next = type === types.endSegment ? { segment: of + 1, entry: 0 } : { segment: of, entry: number + 1 };
      }
    }
    if (next === from) return false;
  }
  return true;
}
