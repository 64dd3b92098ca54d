import { EntryExistsError, EntryNotFoundError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../ids/position.ts';
import type { EntryHead, ReservedTypes } from './entry.ts';
import { decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, SegmentReader } from './log-store.ts';
import { queryNewest } from './newest.ts';

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
export async function requireNoneAfter(source: Source, log: LogId, after: Position, newest: End): Promise<void> {
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
export async function queryEnd(source: Source, log: LogId, segment: number): Promise<End> {
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
