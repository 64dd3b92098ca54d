import { EntryExistsError, EntryNotFoundError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import {
  checkPosition,
  comparePositions,
  formatPosition,
  MAX_NUMBER,
  nextPosition,
  type Position,
} from '../ids/position.ts';
import { saveBody } from './body.ts';
import { type ClientContext, writeWithRetries } from './client-context.ts';
import type { CompletedSnapshot, Entry, EntryHead, ReservedTypes } from './entry.ts';
import { numberAfter } from './find-position.ts';
import { decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, SegmentReader } from './log-store.ts';
import { checkEntryCount, type DraftedEntry, entriesAt, snapshotEntry } from './new-entry.ts';
import { type LogEnd, type Newest, queryNewerSnapshot, queryNewest } from './newest.ts';
import type { Segment } from './segment.ts';

export interface AppendOptions {
  /**
   * The append succeeds only if no entry of the application follows this one. Snapshot and End
   * Segment entries may follow; the new entries then come after them.
   */
  readonly after?: Position | undefined;
  /** The snapshot that the client uses; the answer names a newer one. */
  readonly snapshot?: Position;
  /**
   * Whether the same transaction first appends a Snapshot entry, which asks for a snapshot of
   * everything before the new entries. False by default.
   */
  readonly snapshotBefore?: boolean;
}

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
  options: AppendOptions = {},
): Promise<AddedEntries> {
  const { after, snapshot, snapshotBefore = false } = options;
  const [{ created } = { created: 0 }] = given;
  const before: DraftedEntry[] = snapshotBefore ? [snapshotEntry(context, { log, created })] : [];
  checkEntryCount(log, before.length + given.length);
  const drafts = await Promise.all(
    [...before, ...given].map(async ({ body, file, ...draft }) => ({
      ...draft,
      ...(await saveBody(context, log, { body, file })),
    })),
  );
  let segments: readonly Segment[] | undefined;
  // With a cold cache the append itself reads the segments.
  const newestSegments =
    snapshot !== undefined && context.newest.get(log) !== undefined ? readNewestSegments(context, log) : undefined;

  // Between `after` and `follows` are only Snapshot and End Segment entries.
  let follows = after;
  // A lost race is tried again. If the condition does not hold, another attempt cannot help.
  let unmet: unknown;
  const requireFollows = async (newest: End) => {
    if (follows === undefined) return;
    await requireNoneAfter(context, log, follows, newest).catch((error: unknown) => {
      unmet = error;
      throw error;
    });
    follows = newest.position;
  };
  let seen: End | undefined;
  const write = async (consistency: Consistency) => {
    const cached = context.newest.get(log);
    let newest: End | undefined = seen ?? cached;
    if (newest === undefined || (follows !== undefined && comparePositions(newest.position, follows) < 0)) {
      const found = await findEnd(context, log, { consistency, after: follows });
      newest = found;
      segments = found.segments;
    }
    await requireFollows(newest);
    const placed = placeAfter(newest, drafts, context.types);
    const [first, last] = [placed.at(snapshotBefore ? 1 : 0) ?? newest, placed.at(-1) ?? newest];
    checkRoom(log, last.position);
    try {
      await context.tables.putEntries(placed);
    } catch (error) {
      if (follows === undefined || !(error instanceof EntryExistsError)) throw error;
      seen = await queryEnd(context, log, newest.position.segment);
      context.newest.set(log, seen);
      await requireFollows(seen);
      throw error;
    }
    context.newest.set(log, last);
    const { position, number: firstNumber } = first;
    const numbered = { first: position, last: last.position, ...(firstNumber !== undefined && { firstNumber }) };
    const [asked] = placed;
    return snapshotBefore && asked ? { ...numbered, snapshotEntry: asked.position } : numbered;
  };
  const conflict = (error: unknown) => error instanceof EntryExistsError && error !== unmet;
  const keepsEnd = (error: unknown) => error instanceof EntryExistsError && error === unmet;
  const retrying = { failure: 'Adding entries failed', conflict, keepsEnd };
  const appended = await writeWithRetries(context, log, retrying, write);

  if (snapshot === undefined) return appended;
  const known = segments ?? (await newestSegments) ?? [];
  // The entries are written. If this failure reached the caller, it would append them again.
  // Without an answer the client keeps its snapshot and asks again with its next entry.
  const lastSnapshot = await queryNewerSnapshot(context.store, log, known, snapshot).catch(() => undefined);
  return { ...appended, ...(lastSnapshot !== undefined && { lastSnapshot }) };
}

/**
 * Checks the options of an append, so that no condition is ignored.
 * @throws UsageError if they are not an object
 * @throws PositionInvalidError if `after` or `snapshot` is not a position
 */
export function checkAppendOptions(log: LogId, options: AppendOptions, others: readonly string[] = []): void {
  if (typeof options !== 'object' || options === null) {
    throw new UsageError('the options of the append are not an object', {
      log,
      advice: 'Give an object, or leave them out',
    });
  }
  const names = [...(['after', 'snapshot', 'snapshotBefore'] satisfies (keyof AppendOptions)[]), ...others];
  const wrong = Object.keys(options).find((name) => !names.includes(name));
  if (wrong !== undefined) {
    throw new UsageError(`an append has no option '${wrong}'`, { log, advice: `Give only ${names.join(', ')}` });
  }
  if (options.after !== undefined) checkPosition(options.after, { log, name: 'after' });
  if (options.snapshot !== undefined) checkPosition(options.snapshot, { log, name: 'snapshot' });
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
  { consistency, after }: { readonly consistency: Consistency; readonly after: Position | undefined },
): Promise<Newest> {
  const newest = await queryNewest(context, log, consistency);
  const stale = after !== undefined && comparePositions(newest.position, after) < 0;
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
async function requireNoneAfter(source: Source, log: LogId, after: Position, newest: End): Promise<void> {
  const order = comparePositions(newest.position, after);
  if (order < 0) {
    throw new EntryNotFoundError('the entry to follow does not exist', {
      log,
      ...after,
      advice: `Append after ${formatPosition(newest.position)}, the newest entry`,
    });
  }
  if (order === 0 || (await onlyReservedFollow(source, log, after, newest))) return;
  throw new EntryExistsError(`another entry already follows ${formatPosition(after)}`, {
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
