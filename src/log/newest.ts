import { EntryExistsError, EntryGapError, EntryNotFoundError, LogNotFoundError, SegmentGapError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../ids/position.ts';
import { logPrefix } from '../store/keys.ts';
import { type CompletedSnapshot, completedSnapshot, type EntryHead, type ReservedTypes } from './entry.ts';
import { decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, SegmentReader } from './log-store.ts';
import { lastSnapshotOf, newerSnapshots, type Segment } from './segment.ts';

/**
 * How long a client trusts a cached end of a log, in milliseconds. It must be far below the age at
 * which a segment may expire: if the End Segment entry is gone, a put after it succeeds, and the
 * entry is lost.
 */
export const TRUST_MS = 60_000;

const MAX_CACHED_LOGS = 10_000;

const EVENTUAL: Consistency = { consistent: false };
const CONSISTENT: Consistency = { consistent: true };

/** Position of an entry, such as the newest of a log, and its number if it has one. */
export type LogEnd = Pick<EntryHead, 'position' | 'number'>;

/** The end of a log after this many more entries of the application. */
export function endAfter({ position: { segment, entry }, number }: LogEnd, entries: number): LogEnd {
  return {
    position: { segment, entry: entry + entries },
    ...(number !== undefined && { number: number + entries }),
  };
}

/** The newest entry of each log that a client used recently. It saves the queries before a put. */
export class NewestCache {
  readonly #now: () => number;
  readonly #known = new Map<LogId, LogEnd & { readonly seenMs: number }>();

  /** @param now epoch milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  get(log: LogId): LogEnd | undefined {
    const known = this.#known.get(log);
    if (known === undefined) return undefined;
    const age = this.#now() - known.seenMs;
    // A clock that was set back does not show the age.
    if (age >= 0 && age < TRUST_MS) return known;
    this.drop(log);
    return undefined;
  }

  /**
   * Call it directly after a read or a write of the log's newest entry.
   * @param seenMs epoch milliseconds, not after the read was sent; now by default
   */
  set(log: LogId, { position, number }: LogEnd, seenMs: number = this.#now()): void {
    this.#known.delete(log);
    this.#known.set(log, { position, number, seenMs });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_CACHED_LOGS && oldest !== undefined) this.drop(oldest);
  }

  drop(log: LogId): void {
    this.#known.delete(log);
  }
}

/** The end of a log as it was read. */
export interface Newest extends LogEnd {
  /** Type of the newest entry; absent if its item has none. */
  readonly type?: string;
  /** The two newest segments, newest first. */
  readonly segments: readonly Segment[];
}

/**
 * The two newest segments, newest first. Reading two costs the same as reading one. If an
 * eventually consistent read does not show the log, reads again consistently.
 * @throws LogNotFoundError if the log does not exist
 */
export async function queryNewestSegments(
  store: Pick<SegmentReader, 'newestSegments'>,
  log: LogId,
  consistency: Consistency = EVENTUAL,
): Promise<[Segment, ...Segment[]]> {
  const [newest, ...older] = await store.newestSegments(log, 2, consistency);
  if (newest !== undefined) return [newest, ...older];
  if (!consistency.consistent) return queryNewestSegments(store, log, CONSISTENT);
  throw notFound(log);
}

/** Segments of the first query for an older snapshot. Each further query reads four times that. */
const OLDER_SEGMENTS = 16;

/**
 * The newest complete snapshot of a log; undefined if there is none. Takes no request if one of the
 * two newest segments has one, or the log is in logfold's own schema: such a log starts no segment
 * before the previous one has a snapshot. The application starts the segments of a scheduled log,
 * so its newest snapshot may be further back.
 * @param segments the two newest segments, newest first
 */
export async function queryLastSnapshot(
  store: Pick<SegmentReader, 'newestSegments'>,
  log: LogId,
  segments: readonly [Segment, ...Segment[]],
): Promise<Position | undefined> {
  let known: readonly Segment[] = segments;
  const isScheduled = segments[0].schedule !== undefined;
  for (let limit = OLDER_SEGMENTS; ; limit *= 4) {
    const last = lastSnapshotOf(known);
    if (last !== undefined || !isScheduled || known.at(-1)?.segment === 0) return last;
    known = await store.newestSegments(log, limit, CONSISTENT);
  }
}

/**
 * The end of a log, in two queries. If they are too stale, repeats them consistently.
 *
 * An entry without a type counts as the end if a consistent read shows no later segment. It cannot
 * be an End Segment entry, because one transaction ends a segment and starts the next.
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryExistsError if the segment ended between the two queries
 * @throws EntryGapError if the newest segment has no entry
 */
export async function queryNewest(
  source: { readonly store: SegmentReader & EntryReader; readonly types: ReservedTypes },
  log: LogId,
  consistency: Consistency,
): Promise<Newest> {
  const segments = await queryNewestSegments(source.store, log, consistency);
  const { segment } = segments[0];
  const entry = await source.store.newestEntry(log, segment, consistency);
  const isEnd = entry?.type === undefined ? consistency.consistent : entry.type !== source.types.endSegment;
  if (entry !== undefined && isEnd) return { ...entry, segments };
  if (!consistency.consistent) return queryNewest(source, log, CONSISTENT);
  if (entry === undefined) {
    throw new EntryGapError('the newest segment has no entry', {
      log,
      segment,
      entry: 0,
      advice: 'Restore the entries of the segment from a backup of the Entry table',
    });
  }
  throw new EntryExistsError('the segment ended just now', { log, segment, entry: entry.position.entry });
}

/**
 * The newest complete snapshot, if it is newer than the one that a client uses. Reads its entry
 * only then.
 * @param segments the two newest segments, newest first
 * @returns also undefined if no entry carries a root: the client can go on with its snapshot
 */
export async function queryNewerSnapshot(
  store: Pick<EntryReader, 'getEntry'>,
  log: LogId,
  segments: readonly Segment[],
  standsOn: Position,
): Promise<CompletedSnapshot | undefined> {
  for (const position of newerSnapshots(segments, standsOn)) {
    for (const consistency of [EVENTUAL, CONSISTENT]) {
      const entry = await store.getEntry(log, position, consistency);
      const snapshot = entry && completedSnapshot(entry);
      if (snapshot !== undefined) return snapshot;
    }
  }
  return undefined;
}

/**
 * The last entry of a segment, even if only the archive has the newest entries. Takes one query,
 * and another one if the segment is open or its end is not in the table.
 */
export async function queryLast(
  source: { readonly store: SegmentReader & EntryReader; readonly types: ReservedTypes },
  log: LogId,
  segment: number,
): Promise<EntryHead | undefined> {
  let last = await source.store.newestEntry(log, segment, CONSISTENT);
  if (last === undefined || last.type === source.types.endSegment) return last;
  const following = { segment, from: last.position.entry + 1, to: MAX_NUMBER + 1 };
  for await (const page of source.store.items(log, following, CONSISTENT)) {
    const item = page.at(-1);
    if (item !== undefined) last = decodeEntryHead(item);
  }
  return last;
}

/**
 * All segments of a log, in ascending order.
 * @throws LogNotFoundError if the log has no segment
 */
export async function querySegments(
  store: Pick<SegmentReader, 'segments'>,
  log: LogId,
  consistency: Consistency,
): Promise<readonly Segment[]> {
  const segments = await Array.fromAsync(store.segments(log, consistency));
  if (segments.length === 0) throw notFound(log);
  return segments;
}

/**
 * Requires that the Segment table has all segments of a log up to its newest one. A collection must
 * know every segment that may name an object.
 * @param segments all segments in the table, in ascending order
 * @throws SegmentGapError if one is missing
 */
export function requireDense(log: LogId, segments: readonly Segment[]): void {
  const gap = segments.findIndex(({ segment }, i) => segment !== i);
  if (gap !== -1) throw segmentGap(log, gap, 'the Segment table lacks a segment between others');
}

/**
 * Requires that a segment is in the Segment table, because an object or entry of it was found.
 * Reads the segment if it may have started only recently.
 * @param segments all segments that the table had, in ascending order
 * @throws SegmentGapError if the table lacks it
 */
export async function requireKnown(
  store: Pick<SegmentReader, 'getSegment'>,
  log: LogId,
  segments: readonly Segment[],
  segment: number,
): Promise<void> {
  if (segment < segments.length || (await store.getSegment(log, segment, CONSISTENT)) !== undefined) return;
  throw segmentGap(log, segment, 'entries or objects of a segment exist that the Segment table lacks');
}

function segmentGap(log: LogId, segment: number, reason: string): SegmentGapError {
  const advice = `Restore its item from a backup of the Segment table, or use the tables that belong to this bucket. If the log was deleted on purpose, remove all objects under '${logPrefix(log)}'. Until then no garbage of the log is collected`;
  return new SegmentGapError(reason, { log, segment, advice });
}

function notFound(log: LogId): LogNotFoundError {
  return new LogNotFoundError('the log does not exist', { log, advice: 'Check the id, the tables and the region' });
}

/**
 * Requires that a position is in a log or directly after the last entry of one of its segments.
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryNotFoundError if the position is not in the log
 */
export async function assertPosition(
  source: { readonly store: SegmentReader & EntryReader; readonly types: ReservedTypes },
  log: LogId,
  at: Position,
): Promise<void> {
  const [newest] = await queryNewestSegments(source.store, log, { consistent: true });
  const segment = Math.min(at.segment, newest.segment);
  const end = await queryLast(source, log, segment);
  const last = end?.position ?? { segment, entry: -1 };
  if (at.segment <= last.segment && at.entry <= last.entry + 1) return;
  const known = segment === newest.segment ? end : await queryLast(source, log, newest.segment);
  throw new EntryNotFoundError(`the log has no position ${formatPosition(at)}`, {
    log,
    ...at,
    ...(known !== undefined && { newest: known.position, newestNumber: known.number }),
    advice: `Give a position up to ${formatPosition({ segment, entry: last.entry + 1 })}, directly after the last entry`,
  });
}
