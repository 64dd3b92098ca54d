import { PositionInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, nextPosition, type Position } from '../ids/position.ts';
import type { Entry, ReservedTypes } from './entry.ts';
import type { LogReader } from './log-store.ts';
import { queryLast, queryNewestSegments } from './newest.ts';
import { type EntrySource, readEntries } from './read-entries.ts';

/** Entries of the first request. Each further one asks for twice as many, unless they are large. */
const FIRST_ENTRIES = 64;
const MOST_ENTRIES = 500;

interface BackwardSource {
  readonly store: LogReader;
  readonly types: ReservedTypes;
}

export interface BackwardRange {
  readonly from: Position;
  /** Exclusive. */
  readonly to: Position;
  /** The most entries that the caller needs, as far as it knows. */
  readonly limit: number;
  /** Reads the entries; by default the source does. */
  readonly reads?: EntrySource;
}

/**
 * The position before which a backward read begins: `to`, or the position after the last entry of
 * its segment or of the log. With `to: 'end'` it may miss the newest entries.
 * @param newest number of the segment that was the newest a moment ago
 * @throws PositionInvalidError if `to` is before `from`
 * @throws LogNotFoundError if the log does not exist
 */
export async function endOfRange(
  source: BackwardSource,
  log: LogId,
  { from, to, newest }: { readonly from: Position; readonly to: Position | 'end'; readonly newest: number },
): Promise<Position> {
  const end = to === 'end' ? await endOfLog(source, log, newest) : await endBefore(source, log, to, newest);
  if (to === 'end' || comparePositions(from, to) <= 0) return comparePositions(from, end) > 0 ? from : end;
  throw new PositionInvalidError(`the end ${formatPosition(to)} is before the start ${formatPosition(from)}`, {
    log,
    advice: `Give an end from ${formatPosition(from)} on`,
  });
}

async function endOfLog({ store }: BackwardSource, log: LogId, newest: number): Promise<Position> {
  const last = await store.newestEntry(log, newest, { consistent: false });
  return last === undefined ? { segment: newest, entry: 0 } : nextPosition(last.position);
}

async function endBefore(source: BackwardSource, log: LogId, to: Position, known: number): Promise<Position> {
  const newest =
    to.segment > known ? (await queryNewestSegments(source.store, log, { consistent: true }))[0].segment : known;
  const segment = Math.min(to.segment, newest);
  const last = await queryLast(source, log, segment);
  const end = last === undefined ? { segment, entry: 0 } : nextPosition(last.position);
  return comparePositions(to, end) < 0 ? to : end;
}

/**
 * Reads all entries of a range, the newest first, across segments, in pages that are never empty.
 * @param range its end is one of {@link endOfRange}
 * @throws EntryGapError if an entry is missing
 */
export async function* readBackward(source: BackwardSource, log: LogId, range: BackwardRange): AsyncGenerator<Entry[]> {
  const { from, limit, reads = source } = range;
  let { to } = range;
  let size = Math.min(FIRST_ENTRIES, limit);
  while (comparePositions(from, to) < 0) {
    const { segment } = to;
    if (to.entry === 0) {
      const last = await queryLast(source, log, segment - 1);
      // If all entries are missing, the next read reports the first of them.
      to = last === undefined ? { segment: segment - 1, entry: 1 } : nextPosition(last.position);
      continue;
    }
    const least = segment === from.segment ? from.entry : 0;
    const start = { segment, entry: Math.max(least, to.entry - size) };
    const pages = await Array.fromAsync(readEntries(reads, log, { from: start, to }));
    size = pages.length > 1 ? Math.max(1, size >> 1) : Math.min(size * 2, MOST_ENTRIES);
    for (const page of pages.reverse()) yield page.toReversed();
    to = start;
  }
}
