import { EntryGapError, EntryNotFoundError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, nextPosition, type Position } from '../ids/position.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import { type EntryRange, readEntries, readUpTo } from '../log/read-entries.ts';
import { mayLackEntries } from '../log/segment.ts';

export interface EntryKeeper {
  readonly store: LogReader;
  readonly types: ReservedTypes;
  /** As in `EntrySource`. */
  readonly concurrency?: number;
  /** Whether to leave out the rest of a segment if its entries expired without an archive. */
  readonly skipExpired: boolean;
}

/** A range of which a reader takes what there is. */
export interface KeptRange extends EntryRange {
  /** Whether the range ends with the log if `to` is beyond the end. False by default. */
  readonly isOpen?: boolean;
  /** The most entries of such a range; all by default. */
  readonly limit?: number;
}

/**
 * Reads a range as {@link readEntries} does, or {@link readUpTo}, and tells apart entries that
 * expired without an archive, which nobody can restore.
 * @throws EntryNotFoundError at such an entry, unless `skipExpired` leaves it out
 * @throws the other errors of {@link readEntries}
 */
export async function* keptEntries(keeper: EntryKeeper, log: LogId, range: KeptRange): AsyncGenerator<Entry[]> {
  const { to, isOpen = to === 'end' } = range;
  let { limit = Number.POSITIVE_INFINITY } = range;
  for (let { from } = range; ; ) {
    try {
      const pages = isOpen ? readUpTo(keeper, log, { from, to, limit }) : readEntries(keeper, log, { from, to });
      for await (const page of pages) {
        yield page;
        limit -= page.length;
        const last = page.at(-1);
        if (last !== undefined) from = nextPosition(last.position);
      }
      return;
    } catch (error) {
      if (!(error instanceof EntryGapError)) throw error;
      from = await afterExpired(keeper, log, error, from);
      if (to !== 'end' && comparePositions(from, to) >= 0) return;
    }
  }
}

/**
 * The start of the segment after one whose entries expired.
 * @param from the first entry that the reader lacks
 * @throws the error of any other gap
 */
async function afterExpired(
  { store, skipExpired }: EntryKeeper,
  log: LogId,
  gap: EntryGapError,
  from: Position,
): Promise<Position> {
  const number = gap.segment ?? from.segment;
  const segment = await store.getSegment(log, number, { consistent: true });
  if (segment === undefined || !mayLackEntries(segment)) throw gap;
  const { expiry } = segment;
  // A span may begin after the last entry of a segment, and lacks nothing then.
  const lacksNone = number === from.segment && expiry?.state === 'expired' && from.entry >= expiry.entries;
  if (skipExpired || lacksNone) return { segment: number + 1, entry: 0 };
  throw new EntryNotFoundError(`entries of segment ${number} have expired and are in no archive`, {
    log,
    segment: number,
    entry: gap.entry,
    advice: 'Read the feed with `skipExpired`, or --skip-expired, to leave such entries out',
    cause: gap,
  });
}
