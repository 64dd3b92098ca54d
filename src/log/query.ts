import { EntryGapError, SegmentWithoutSnapshotError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { checkPosition, type Position, START } from '../ids/position.ts';
import { withAttributes } from './application-attributes.ts';
import { type CompletedSnapshot, type Entry, type ReservedTypes, type RootRef, rootOf } from './entry.ts';
import { positionOfNumber } from './find-position.ts';
import { guardPointer, shownParts } from './guard.ts';
import { lastWithoutRoot, type SnapshotSearch, searchSnapshot } from './last-snapshot.ts';
import type { LogReader } from './log-store.ts';
import { queryLastSnapshot, queryNewerSnapshot, queryNewestSegments } from './newest.ts';
import { type EntrySource, type OpenRange, readUpTo } from './read-entries.ts';
import { lastSnapshotOf, type Segment } from './segment.ts';

export interface QueryRange {
  /**
   * `snapshot` starts at the Snapshot entry of the newest complete snapshot, `start` at the log's
   * first entry. A number is that of an entry of the application: see {@link positionOfNumber}.
   */
  readonly from: Position | { readonly number: number } | 'snapshot' | 'start';
  /** Exclusive; the log's end by default, and if the position is beyond it. */
  readonly to?: Position | 'end';
  /** The most entries; all by default. At least 1. */
  readonly limit?: number;
  /** Whether the entries carry their application attributes. False by default. */
  readonly attributes?: boolean;
  /**
   * The snapshot that the client uses; the answer names a newer one. If `from` is `snapshot`, the
   * first entry carries the root of the newest.
   */
  readonly snapshot?: Position;
}

export interface QueryAnswer {
  /** Position of the first entry. */
  readonly start: Position;
  /** Pages of entries in order, fetched while they are read. They can be read once. */
  readonly entries: AsyncIterable<readonly Entry[]>;
  /** The position after the last entry that has been read, at which the next query starts. */
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
 * answers. Reading throws the errors of {@link readUpTo}.
 * @throws PositionInvalidError if `from`, `to` or `snapshot` is malformed
 * @throws UsageError if the limit is not a positive integer
 * @throws the errors of {@link positionOfNumber} if `from` is a number
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if `from` is `snapshot` and neither of the two newest
 * segments has one
 */
export async function query(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  range: QueryRange,
): Promise<QueryAnswer> {
  checkRange(log, range);
  const { from, to = 'end', limit = Number.POSITIVE_INFINITY, attributes = false, snapshot } = range;
  if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit > 0)) {
    throw new UsageError(`the limit ${limit} is not a positive integer`, { log });
  }
  const { store } = source;
  const reads = attributes ? { ...source, store: withAttributes(store) } : source;
  if (from === 'snapshot') {
    const { start, pages } = await readTail(source, log, { reads, to, limit });
    return answerOf(start, pages);
  }
  const segments = await queryNewestSegments(store, log);
  const start = await resolveStart(source, log, from);
  const lastSnapshot = snapshot && (await queryNewerSnapshot(store, log, segments, snapshot));
  const wanted = { from: start, to, limit, newestSegment: segments[0].segment };
  return answerOf(start, readUpTo(reads, log, wanted), lastSnapshot);
}

function answerOf(start: Position, pages: AsyncIterable<Entry[]>, lastSnapshot?: CompletedSnapshot): QueryAnswer {
  let end = start;
  async function* entries() {
    for await (const page of pages) {
      const last = page.at(-1);
      if (last !== undefined) end = { segment: last.position.segment, entry: last.position.entry + 1 };
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

function checkRange(log: LogId, range: QueryRange): void {
  if (typeof range !== 'object' || range === null) {
    throw new UsageError('the range is not an object', { log, advice: "Give a range, such as { from: 'start' }" });
  }
  const { from, to = 'end', snapshot } = range;
  const isNumber = typeof from === 'object' && from !== null && 'number' in from;
  if (from !== 'start' && from !== 'snapshot' && !isNumber) checkPosition(from, { log, name: 'from' });
  if (to !== 'end') checkPosition(to, { log, name: 'to' });
  if (snapshot !== undefined) checkPosition(snapshot, { log, name: 'snapshot' });
}

async function resolveStart(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  from: Exclude<QueryRange['from'], 'snapshot'>,
): Promise<Position> {
  if (from === 'start') return START;
  return 'number' in from ? positionOfNumber(source, log, from.number) : from;
}

/** The newest complete snapshot of a log, and the entries from its own onward. */
export interface LogTail extends SnapshotSearch {
  /** Position of the first entry. */
  readonly start: Position;
  readonly pages: AsyncIterable<Entry[]>;
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
    const root = (entry && rootOf(entry)) ?? (await rootAt(source.store, log, position));
    if (root !== undefined && gap !== undefined) throw gap;
    if (root !== undefined) {
      return { snapshot: { position, root }, start: position, pages: withFirst(first, pages), passedOver };
    }
    const segment = segments.find(({ segment: number }) => number === position.segment);
    if (segment !== undefined && (await guardPointer(source.store, segment)) === undefined)
      throw lastWithoutRoot(segment);
  } else if (passedOver.length === 0) {
    return { snapshot: undefined, start: START, pages: from(START), passedOver };
  }
  const search = await searchSnapshot(source.store, log, { segment: newestSegment, entry: Number.MAX_SAFE_INTEGER });
  const start = search.snapshot?.position ?? START;
  return { ...search, start, pages: from(start) };
}

async function* withFirst(
  first: IteratorResult<Entry[]> | undefined,
  rest: AsyncGenerator<Entry[]>,
): AsyncGenerator<Entry[]> {
  if (first?.done === false) yield first.value;
  yield* rest;
}

/** The root on an entry, even if an eventually consistent read does not show it yet. */
async function rootAt(store: LogReader, log: LogId, position: Position): Promise<RootRef | undefined> {
  const entry = await store.getEntry(log, position, { consistent: true });
  return entry && rootOf(entry);
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
