import { EntryGapError, EntryNotFoundError, SegmentWithoutSnapshotError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import {
  checkPosition,
  checkPositionOrNumber,
  nextPosition,
  type Position,
  type PositionOrNumber,
  START,
} from '../ids/position.ts';
import { withAttributes } from './application-attributes.ts';
import { type CompletedSnapshot, completedSnapshot, type Entry, type ReservedTypes } from './entry.ts';
import { type positionOfNumber, resolvePosition } from './find-position.ts';
import { guardPointer, shownParts } from './guard.ts';
import { lastWithoutRoot, type SnapshotSearch, searchSnapshot } from './last-snapshot.ts';
import type { LogReader } from './log-store.ts';
import { type LogEnd, type NewestCache, queryLastSnapshot, queryNewerSnapshot, queryNewestSegments } from './newest.ts';
import { checkOptionNames } from './option-names.ts';
import { endOfRange, readBackward } from './read-backward.ts';
import { type EntrySource, type OpenRange, readUpTo } from './read-entries.ts';
import { lastSnapshotOf, type Segment } from './segment.ts';

export interface QueryRange {
  /**
   * `snapshot` starts at the Snapshot entry of the newest complete snapshot, `start` at the log's
   * first entry. A number is that of an entry of the application: see {@link positionOfNumber}.
   */
  readonly from: PositionOrNumber | 'snapshot' | 'start';
  /** Exclusive; the log's end by default, and if the position or number is beyond it. */
  readonly to?: PositionOrNumber | 'end' | undefined;
  /**
   * The most entries of the application; all by default. At least 1. Snapshot and End Segment
   * entries before the last of them come too, and do not count.
   */
  readonly limit?: number | undefined;
  /** Whether the newest entry of the range comes first. False by default. */
  readonly reverse?: boolean;
  /** Whether the entries carry their application attributes. False by default. */
  readonly attributes?: boolean;
  /**
   * The snapshot that the client uses; the answer names a newer one. If `from` is `snapshot`, the
   * first entry carries the root of the newest.
   */
  readonly snapshot?: Position;
}

export interface QueryAnswer {
  /** The position at which the range begins. */
  readonly start: Position;
  /** Pages of entries in order, fetched while they are read. They can be read once. */
  readonly entries: AsyncIterable<readonly Entry[]>;
  /**
   * The place at which the next query goes on: the position after the last entry that has been
   * read, from which the next query starts. In reverse, it is the position of the oldest entry that
   * has been read, which the next query has as `to`.
   */
  readonly end: Position;
  /** The newest complete snapshot, if it is newer than the given `snapshot`. */
  readonly lastSnapshot?: CompletedSnapshot;
}

/**
 * Reads a range of entries. Reads a new log from its start, because its first Snapshot entry stands
 * for the empty state, even while its snapshot is pending.
 *
 * Takes one query for the segments, one more request if it names a newer snapshot, and one or more
 * queries while the entries are read. If `from` is `snapshot`, reads the first page before it
 * answers. In reverse, one more query finds the end of the range, and each segment takes one more.
 * Reading throws the errors of {@link readUpTo}.
 * @throws PositionInvalidError if `from`, `to` or `snapshot` is malformed, or in reverse `to` is
 * before `from`
 * @throws UsageError if the range has a wrong name, or the limit is not a positive integer
 * @throws the errors of {@link positionOfNumber} if `from` or `to` is a number
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if `from` is `snapshot` and neither of the two newest
 * segments has one
 */
export async function query(source: QuerySource, log: LogId, range: QueryRange): Promise<QueryAnswer> {
  checkRange(log, range);
  const { from, limit = Number.POSITIVE_INFINITY, reverse = false, attributes = false, snapshot } = range;
  if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit > 0)) {
    throw new UsageError(`the limit ${limit} is not a positive integer`, { log });
  }
  const { store } = source;
  const reads = attributes ? { ...source, store: withAttributes(store) } : source;
  const known = source.newest?.get(log);
  const to = await resolveEnd(source, log, range.to, known);
  if (from === 'snapshot' && !reverse) {
    const { start, pages } = await readTail(source, log, { reads, to, limit: withReserved(limit) });
    const read = (next: Position, most: number) =>
      next === start ? pages : readUpTo(reads, log, { from: next, to, limit: most });
    return answerOf(start, limited(source.types, read, { start, limit }));
  }
  const segments = await queryNewestSegments(store, log);
  const start = await resolveStart(source, log, from, known);
  const lastSnapshot = snapshot && (await queryNewerSnapshot(store, log, segments, snapshot));
  const newestSegment = segments[0].segment;
  if (!reverse) {
    const read = (next: Position, most: number) => readUpTo(reads, log, { from: next, to, limit: most, newestSegment });
    return answerOf(start, limited(source.types, read, { start, limit }), { lastSnapshot });
  }
  const end = await endOfRange(source, log, { from: start, to, newest: newestSegment });
  const pages = readBackward(source, log, { reads, from: start, to: end, limit: withReserved(limit) });
  return answerOf(
    start,
    limited(source.types, () => pages, { start, limit }),
    { lastSnapshot, reverseFrom: end },
  );
}

/** The stores that a query reads, and the ends of logs that its client knows. */
interface QuerySource {
  readonly store: LogReader;
  readonly types: ReservedTypes;
  /** The ends of logs that the client knows; they save requests. */
  readonly newest?: Pick<NewestCache, 'get'> | undefined;
}

/** Snapshot and End Segment entries are rare: few queries with a limit meet more. */
const RESERVED_ENTRIES = 2;

function withReserved(limit: number): number {
  return limit + RESERVED_ENTRIES;
}

/**
 * Pages up to the entry of the application that is the last of the limit.
 * @param read up to `most` entries from a position onward
 */
async function* limited(
  types: ReservedTypes,
  read: (from: Position, most: number) => AsyncIterable<Entry[]>,
  { start, limit }: { readonly start: Position; readonly limit: number },
): AsyncGenerator<Entry[]> {
  let left = limit;
  for (let from = start; ; ) {
    const most = withReserved(left);
    let entries = 0;
    for await (const page of read(from, most)) {
      entries += page.length;
      const last = page.findIndex(({ type }) => !types.includes(type) && --left === 0);
      yield last === -1 ? page : page.slice(0, last + 1);
      if (last !== -1) return;
      from = nextPosition(page.at(-1)?.position ?? from);
    }
    // More entries than the log has were asked for, or all of a range backward.
    if (entries < most) return;
  }
}

function answerOf(
  start: Position,
  pages: AsyncIterable<Entry[]>,
  also: { readonly lastSnapshot?: CompletedSnapshot | undefined; readonly reverseFrom?: Position } = {},
): QueryAnswer {
  const { lastSnapshot, reverseFrom } = also;
  let end = reverseFrom ?? start;
  async function* entries() {
    for await (const page of pages) {
      const last = page.at(-1);
      if (last !== undefined) end = reverseFrom === undefined ? nextPosition(last.position) : last.position;
      yield page;
    }
  }
  return {
    start,
    entries: entries(),
    get end() {
      return end;
    },
    ...(lastSnapshot !== undefined && { lastSnapshot }),
  };
}

const RANGE_NAMES = ['from', 'to', 'limit', 'reverse', 'attributes', 'snapshot'] satisfies (keyof QueryRange)[];

function checkRange(log: LogId, range: QueryRange): void {
  checkOptionNames('the range of a query', range, RANGE_NAMES, { log });
  const { from, to = 'end', snapshot } = range;
  if (from !== 'start' && from !== 'snapshot') {
    checkPositionOrNumber(from, { log, name: 'from', words: ['start', 'snapshot'] });
  }
  if (to !== 'end') checkPositionOrNumber(to, { log, name: 'to', words: ['end'] });
  if (snapshot !== undefined) checkPosition(snapshot, { log, name: 'snapshot' });
}

async function resolveStart(
  source: QuerySource,
  log: LogId,
  from: QueryRange['from'],
  known: LogEnd | undefined,
): Promise<Position> {
  if (from === 'snapshot') return (await readTail(source, log, { limit: 1 })).start;
  return from === 'start' ? START : resolvePosition(source, log, from, known);
}

async function resolveEnd(
  source: QuerySource,
  log: LogId,
  to: QueryRange['to'] = 'end',
  known: LogEnd | undefined,
): Promise<Position | 'end'> {
  if (to === 'end') return to;
  return resolvePosition(source, log, to, known).catch((error: unknown) => {
    if (error instanceof EntryNotFoundError && error.newest !== undefined) return 'end';
    throw error;
  });
}

/** The newest complete snapshot of a log, and the entries from its own onward. */
export interface LogTail extends SnapshotSearch {
  /** Position of the first entry. */
  readonly start: Position;
  readonly pages: AsyncIterable<Entry[]>;
  /** The two newest segments as they were read, newest first. */
  readonly segments: NewestSegments;
}

/**
 * Finds the newest complete snapshot of a log, and reads the first page of entries from its entry
 * on. Takes two queries, unless Last Snapshot was written by another program: then it searches the
 * newest snapshot of logfold.
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if neither of the two newest segments has a snapshot
 * @throws RootInvalidError if the entry of Last Snapshot is missing, or has no root although its
 * segment is archived
 * @throws the errors of {@link readUpTo}
 */
export async function readTail(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  { reads = source, ...range }: Partial<Pick<OpenRange, 'to' | 'limit'>> & { readonly reads?: EntrySource } = {},
): Promise<LogTail> {
  const { segments, snapshot: position } = await tailStart(source.store, log);
  const newestSegment = segments[0].segment;
  const from = (start: Position) => readUpTo(reads, log, { to: 'end', ...range, from: start, newestSegment });
  const passedOver = segments.flatMap(shownParts);
  if (position !== undefined && !passedOver.some(({ kind }) => kind === 'pointer')) {
    const pages = from(position);
    let gap: EntryGapError | undefined;
    const first = await pages.next().catch((error: unknown): undefined => {
      // Another program may have named an entry that does not exist.
      if (!(error instanceof EntryGapError)) throw error;
      gap = error;
    });
    const [entry] = first?.done === false ? first.value : [];
    const snapshot = (entry && completedSnapshot(entry)) ?? (await snapshotAt(source.store, log, position));
    if (snapshot !== undefined && gap !== undefined) throw gap;
    if (snapshot !== undefined)
      return { snapshot, start: position, pages: withFirst(first, pages), passedOver, segments };
    const segment = segments.find(({ segment: number }) => number === position.segment);
    if (segment !== undefined && (await guardPointer(source.store, segment)) === undefined)
      throw lastWithoutRoot(segment);
  } else if (passedOver.length === 0) {
    return { snapshot: undefined, start: START, pages: from(START), passedOver, segments };
  }
  const search = await searchSnapshot(source.store, log, { segment: newestSegment, entry: Number.MAX_SAFE_INTEGER });
  const start = search.snapshot?.position ?? START;
  return { ...search, start, pages: from(start), segments };
}

async function* withFirst(
  first: IteratorResult<Entry[]> | undefined,
  rest: AsyncGenerator<Entry[]>,
): AsyncGenerator<Entry[]> {
  if (first?.done === false) yield first.value;
  yield* rest;
}

/** The snapshot of an entry, even if an eventually consistent read does not show it yet. */
async function snapshotAt(store: LogReader, log: LogId, position: Position): Promise<CompletedSnapshot | undefined> {
  const entry = await store.getEntry(log, position, { consistent: true });
  return entry && completedSnapshot(entry);
}

/** The newest segments of a log, newest first, and the newest complete snapshot. */
export interface TailStart {
  readonly segments: NewestSegments;
  /**
   * Undefined if the log has no complete snapshot; only a scheduled log then has many segments.
   * Also if another program wrote the archives or pointers of the two newest segments.
   */
  readonly snapshot: Position | undefined;
}

/** The two newest segments of a log, newest first. */
type NewestSegments = readonly [Segment, ...Segment[]];

/**
 * Finds the newest complete snapshot of a log in one query, or a few more if the snapshots of a
 * scheduled log lag.
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if neither of the two newest segments has a snapshot, the log
 * is in logfold's own schema, and no other program wrote where logfold writes. Such a log is
 * damaged, since a segment starts only after the previous one has a snapshot
 */
export async function tailStart(store: LogReader, log: LogId): Promise<TailStart> {
  return requireSnapshot(store, log, await queryNewestSegments(store, log));
}

async function requireSnapshot(store: LogReader, log: LogId, segments: NewestSegments): Promise<TailStart> {
  const last = lastSnapshotOf(segments);
  if (last !== undefined || segments[0].segment === START.segment) return { segments, snapshot: last };
  const fresh = await queryNewestSegments(store, log, { consistent: true });
  const completed = await queryLastSnapshot(store, log, fresh);
  const isWhole = fresh[0].segment === START.segment || fresh[0].schedule !== undefined;
  const isPassedOver = fresh.some((segment) => shownParts(segment).length > 0);
  if (completed !== undefined || isWhole || isPassedOver) return { segments: fresh, snapshot: completed };
  throw new SegmentWithoutSnapshotError('neither of the two newest segments has a complete snapshot', {
    log,
    segment: fresh[0].segment,
    advice: "Run 'logfold sweep --log LOG' to complete one, or read from the start",
  });
}
