import { EntryExistsError, EntryGapError, EntryNotFoundError, LogNotFoundError, SegmentGapError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../ids/position.ts';
import type { EntryHead, ReservedTypes } from './entry.ts';
import { decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, SegmentReader } from './log-store.ts';
import type { Segment } from './segment.ts';

/**
 * How long a client trusts what it knows of a log's end, in milliseconds. It must be far below the age at which a
 * segment may expire: once the End Segment entry is gone, a put after it would succeed and be lost.
 */
export const TRUST_MS = 60_000;

const MAX_CACHED_LOGS = 10_000;

const EVENTUAL: Consistency = { consistent: false };
const CONSISTENT: Consistency = { consistent: true };

/** The newest entry of each log that one client met lately: it saves the queries before a put. */
export class NewestCache {
  readonly #now: () => number;
  readonly #known = new Map<LogId, { readonly position: Position; readonly seenMs: number }>();

  /** @param now epoch milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  get(log: LogId): Position | undefined {
    const known = this.#known.get(log);
    if (known === undefined) return undefined;
    const age = this.#now() - known.seenMs;
    // A clock that was set back says nothing of the age.
    if (age >= 0 && age < TRUST_MS) return known.position;
    this.drop(log);
    return undefined;
  }

  /** To be called right after the store has shown, or written, the log's newest entry. */
  set(log: LogId, position: Position): void {
    this.#known.delete(log);
    this.#known.set(log, { position, seenMs: this.#now() });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_CACHED_LOGS && oldest !== undefined) this.drop(oldest);
  }

  drop(log: LogId): void {
    this.#known.delete(log);
  }
}

/** A log's end as the store shows it. */
export interface Newest {
  readonly position: Position;
  /** The two newest segments, newest first. */
  readonly segments: readonly Segment[];
}

/**
 * The two newest segments, newest first: reading two costs the same as reading one. An eventually consistent read
 * first; a log that it does not show is looked for consistently.
 * @throws LogNotFoundError where the log does not exist
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

/**
 * Where a log ends, in two queries; one that was too stale to be of use is repeated consistently.
 *
 * An entry without a type counts as the end if a consistent read shows no later segment. It cannot be an End Segment entry
 * then: a segment ends in the same transaction that starts the next one.
 * @throws LogNotFoundError where the log does not exist
 * @throws EntryExistsError where the segment ended between the two queries
 * @throws EntryGapError where the newest segment has no entry
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
  if (entry !== undefined && isEnd) return { position: entry.position, segments };
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
 * The last entry of a segment, also if the newest ones have left the table and only its archive has them. A query, and one
 * more if the segment has not ended or its end is not in the table.
 */
export async function queryLast(
  source: { readonly store: SegmentReader & EntryReader; readonly types: ReservedTypes },
  log: LogId,
  segment: number,
): Promise<EntryHead | undefined> {
  let last = await source.store.newestEntry(log, segment, CONSISTENT);
  if (last === undefined || last.type === source.types.endSegment) return last;
  const behind = { segment, from: last.position.entry + 1, to: MAX_NUMBER + 1 };
  for await (const page of source.store.items(log, behind, CONSISTENT)) {
    const item = page.at(-1);
    if (item !== undefined) last = decodeEntryHead(item);
  }
  return last;
}

/**
 * All segments of a log, ascending.
 * @throws LogNotFoundError where the log does not exist
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
 * That the Segment table has all segments of a log up to its newest one: whoever decides what nobody names has to know of
 * all who may.
 * @param segments all that it has, ascending
 * @throws SegmentGapError where one is missing
 */
export function requireDense(log: LogId, segments: readonly Segment[]): void {
  const gap = segments.findIndex(({ segment }, i) => segment !== i);
  if (gap !== -1) throw segmentGap(log, gap, 'the Segment table lacks a segment between others');
}

/**
 * That a segment of which something was found is in the Segment table, and be it that it was begun just now.
 * @param segments all that the table had, ascending
 * @throws SegmentGapError where it is not
 */
export async function requireKnown(
  store: Pick<SegmentReader, 'getSegment'>,
  log: LogId,
  segments: readonly Segment[],
  segment: number,
): Promise<void> {
  if (segment < segments.length || (await store.getSegment(log, segment, CONSISTENT)) !== undefined) return;
  throw segmentGap(log, segment, 'there is something of a segment that the Segment table lacks');
}

function segmentGap(log: LogId, segment: number, reason: string): SegmentGapError {
  const advice =
    'Restore its item from a backup of the Segment table, or use the tables that belong to this bucket; until then nothing of the log is collected';
  return new SegmentGapError(reason, { log, segment, advice });
}

function notFound(log: LogId): LogNotFoundError {
  return new LogNotFoundError('this log does not exist', { log, advice: 'Check the id, the tables and the region' });
}

/**
 * Makes sure that a position which somebody typed is in a log, or right behind the last entry of one of its segments.
 * @throws LogNotFoundError
 * @throws EntryNotFoundError where it is not
 */
export async function assertPosition(
  source: { readonly store: SegmentReader & EntryReader; readonly types: ReservedTypes },
  log: LogId,
  at: Position,
): Promise<void> {
  const [newest] = await queryNewestSegments(source.store, log, { consistent: true });
  const segment = Math.min(at.segment, newest.segment);
  const last = (await queryLast(source, log, segment))?.position ?? { segment, entry: -1 };
  if (at.segment <= last.segment && at.entry <= last.entry + 1) return;
  throw new EntryNotFoundError(`the log has no position ${formatPosition(at)}`, {
    log,
    ...at,
    advice: `Give a position up to ${formatPosition({ segment, entry: last.entry + 1 })}, right behind the last entry`,
  });
}
