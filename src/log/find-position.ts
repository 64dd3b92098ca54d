import { EntryGapError, EntryNotFoundError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { givesNumber, MAX_NUMBER, nextPosition, type Position, type PositionOrNumber, START } from '../ids/position.ts';
import { type StoredItem, wholeNumber } from './attribute.ts';
import type { EntryHead, ReservedTypes } from './entry.ts';
import { decodeEntry, decodeEntryHead } from './item-codec.ts';
import type { Consistency, EntryReader, LogReader, SegmentReader } from './log-store.ts';
import { type LogEnd, queryLast, queryNewest, queryNewestSegments } from './newest.ts';

const CONSISTENT: Consistency = { consistent: true };

interface Source {
  readonly store: SegmentReader & EntryReader;
  readonly types: ReservedTypes;
}

/**
 * The number of an entry: the count of the application's entries up to and including it. Snapshot
 * and End Segment entries do not count.
 * @param before number of the previous entry; undefined if it has none
 * @returns undefined if the previous entry has no number, so that a count would be wrong
 */
export function numberAfter(before: number | undefined, type: string, types: ReservedTypes): number | undefined {
  if (before === undefined || types.includes(type)) return before;
  return before < Number.MAX_SAFE_INTEGER ? before + 1 : undefined;
}

/** Entries of one request that looks around the likely place of an entry. */
const NEAR_ENTRIES = 8;

/**
 * The position that a caller gave, or that of the entry whose number it gave.
 * @param known an entry near the end of the log; it saves requests
 * @throws the errors of {@link positionOfNumber} if it is a number
 */
export async function resolvePosition(
  source: Source,
  log: LogId,
  place: PositionOrNumber,
  known?: LogEnd,
): Promise<Position> {
  return givesNumber(place) ? positionOfNumber(source, log, place.number, known) : place;
}

/**
 * The position of the application's entry with a number. The number after the newest one gives the
 * position after the log's end.
 *
 * Takes one request if a later entry of its segment is known and few Snapshot entries are between
 * the two. Otherwise takes two more, which find the end of the log. An older segment takes one
 * more if segments have about the same size. If they do not, or if there are many Snapshot entries,
 * each doubling of the number of segments, or of Snapshot entries in the segment, takes one more.
 * @param known an entry near the end of the log
 * @throws UsageError if the number is not a whole number of at least 1, or the entry may exist but
 * the entries there have no numbers
 * @throws EntryNotFoundError if the number is beyond the log's end, or the entry has expired and is
 * in no archive
 * @throws the errors of {@link queryNewest}
 */
export async function positionOfNumber(source: Source, log: LogId, number: number, known?: LogEnd): Promise<Position> {
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new UsageError(`${String(number)} is not the number of an entry`, {
      log,
      advice: 'Give a whole number of at least 1, the number of the first entry of the application',
    });
  }
  if (known?.number !== undefined && number <= known.number) {
    const near = await findNear(source, log, number, known);
    if (near !== undefined) return near;
  }
  const newest = await queryNewest(source, log, CONSISTENT);
  if (newest.number !== undefined && number > newest.number) {
    if (number === newest.number + 1) return nextPosition(newest.position);
    throw new EntryNotFoundError(`the log has no entry number ${number}`, {
      log,
      newest: newest.position,
      newestNumber: newest.number,
      advice: `Give a number up to ${newest.number + 1}, the next one`,
    });
  }
  const found = await findNumber(source, log, number, newest);
  if (found !== undefined) return found;
  throw new UsageError(`the log has no entry number ${number}, because some of its entries have no numbers`, {
    log,
    advice: 'Read by position. Only entries that this release or a newer one wrote have numbers',
  });
}

/**
 * @param end an entry at or after the wanted one, or without a number
 * @returns undefined if entries without numbers hide the wanted one
 */
async function findNumber(source: Source, log: LogId, number: number, end: LogEnd): Promise<Position | undefined> {
  const near = await findNear(source, log, number, end);
  if (near !== undefined) return near;
  const first = await findSegment(source, log, { number, end });
  if (first.number === undefined || first.number >= number) return undefined;
  const { segment } = first.position;
  const found = segment === end.position.segment ? undefined : await findNear(source, log, number, first);
  if (found !== undefined) return found;
  const last: LogEnd | undefined = segment === end.position.segment ? end : await queryLast(source, log, segment);
  return findEntry(source, log, { number, first, last });
}

/**
 * Looks for an entry where it is if no Snapshot entry is between it and a known one of its segment,
 * and then once more, since the entries there show how many there are.
 */
async function findNear(
  { store, types }: Source,
  log: LogId,
  number: number,
  known: LogEnd,
): Promise<Position | undefined> {
  let at: LogEnd | undefined = known;
  for (let reads = 0; reads < 2 && at?.number !== undefined; reads++) {
    const { segment, entry }: Position = at.position;
    const isLower: boolean = at.number < number;
    const likely = entry + number - at.number;
    // The first entry of a segment is a Snapshot entry.
    if (likely < 1 || likely > MAX_NUMBER) return undefined;
    const [from, to] = isLower ? [likely, likely + NEAR_ENTRIES] : [likely + 1 - NEAR_ENTRIES, likely + 1];
    const heads: EntryHead[] = [];
    for await (const page of store.items(log, { segment, from: Math.max(0, from), to }, CONSISTENT)) {
      for (const item of page) heads.push(decodeEntryHead(item));
    }
    const isOwn = ({ type }: EntryHead): boolean => type !== undefined && !types.includes(type);
    const found = heads.find((head) => head.number === number && isOwn(head));
    if (found !== undefined) return found.position;
    at = isLower ? heads.at(-1) : heads[0];
    if (at?.number !== undefined && at.number < number !== isLower) return undefined;
  }
  return undefined;
}

/**
 * The first entry of the last segment that begins before an entry, which shows its lower number. If
 * there is none, the first entry of the log. Looks first where the entry is if segments are equally
 * long.
 */
async function findSegment(
  { store }: Source,
  log: LogId,
  { number, end }: { readonly number: number; readonly end: LogEnd },
): Promise<EntryHead> {
  const newest = end.position.segment;
  const isEarlier = newest > 0 && end.number !== undefined && end.position.entry - (end.number - number) < 1;
  let found: EntryHead | undefined;
  let low = 0;
  let high = isEarlier ? newest - 1 : newest;
  const isLikely = isEarlier && end.number !== undefined && end.number > 0;
  // Most reads are near the end.
  let probe = isLikely ? Math.min(high, Math.floor((newest * number) / (end.number ?? 1))) : newest;
  for (let step = isLikely ? 1 : 0; low <= high; step *= 2) {
    const first = await head(store, log, { segment: probe, entry: 0 });
    // Segments expire in order, so the first entries that are gone are the oldest.
    const isBefore = first === undefined || (first.number !== undefined && first.number < number);
    if (isBefore) {
      low = probe + 1;
      found = first;
    } else {
      high = probe - 1;
      if (probe === 0) found = first;
    }
    const middle = Math.floor((low + high) / 2);
    // The neighbours of a likely segment come first.
    probe = step === 0 ? middle : isBefore ? Math.min(middle, low + step - 1) : Math.max(middle, high - step + 1);
  }
  if (found !== undefined) return found;
  throw new EntryNotFoundError(`entry number ${number} has expired and is in no archive`, {
    log,
    advice: "Read from 'snapshot'; archive segments before they expire to keep their entries",
  });
}

/**
 * The position of an entry in a segment. Each entry raises the number by 0 or 1, so the difference
 * of two numbers bounds the distance of their entries.
 */
async function findEntry(
  { store }: Source,
  log: LogId,
  range: { readonly number: number; readonly first: EntryHead; readonly last: LogEnd | undefined },
): Promise<Position | undefined> {
  const { number, first, last } = range;
  const { segment } = first.position;
  // The entry is not before `low`, and not after `high`.
  let low = number - (first.number ?? 0);
  let high = last?.position.entry ?? 0;
  let isNumbered = false;
  const isAtOrAfter = (place: LogEnd): boolean => {
    if (place.number !== undefined && place.number < number) return false;
    isNumbered = place.number !== undefined;
    high = place.position.entry - (place.number === undefined ? 0 : place.number - number);
    return true;
  };
  if (last === undefined || !isAtOrAfter(last)) return undefined;
  // Snapshot entries are rare, so the lowest place is likely.
  for (let probe = low; low < high; probe = Math.floor((low + high) / 2)) {
    const place = await head(store, log, { segment, entry: probe });
    if (place === undefined) return undefined;
    if (!isAtOrAfter(place)) low = place.position.entry + (number - (place.number ?? 0));
  }
  return isNumbered && low === high ? { segment, entry: high } : undefined;
}

async function head(store: EntryReader, log: LogId, position: Position): Promise<EntryHead | undefined> {
  const item = await itemAt(store, log, position);
  return item && decodeEntryHead(item);
}

/** The item of an entry, which may be malformed; undefined if there is none. */
async function itemAt(store: EntryReader, log: LogId, { segment, entry }: Position): Promise<StoredItem | undefined> {
  for await (const [item] of store.items(log, { segment, from: entry, to: entry + 1 }, CONSISTENT)) return item;
  return undefined;
}

/**
 * The position of the first entry that was created after a time; the position after the log's end
 * if there is none. The state there is that of the log at the time, to the second.
 *
 * The times of entries go back if clocks disagree or if the application gave times. It is then one
 * of the places where the times pass the given one: the entry there was created after that time,
 * and the entry before it was not.
 *
 * Takes four requests for a log with one segment and one entry. Each doubling of the number of
 * segments, or of entries in the segment, takes one more.
 * @param epochSeconds may be any number
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryNotFoundError if the entries of that time have expired and are in no archive
 * @throws EntryGapError if an entry is missing
 * @throws ItemInvalidError if the time of an entry cannot be read
 */
export async function positionAtTime(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  epochSeconds: number,
): Promise<Position> {
  const { store } = source;
  const isLater = async (position: Position): Promise<boolean | undefined> => {
    const created = await createdAt(store, log, position);
    return created && created.seconds > epochSeconds;
  };
  const [newest] = await queryNewestSegments(store, log, { consistent: true });
  // Segments expire in order, so the first entries that are gone are the oldest.
  let gone = -1;
  const isLaterSegment = async (segment: number): Promise<boolean> => {
    const later = await isLater({ segment, entry: 0 });
    if (later === undefined) gone = Math.max(gone, segment);
    return later === true;
  };
  const segment = (await firstLater({ from: 0, to: newest.segment + 1 }, isLaterSegment)) - 1;
  if (segment < 0) return START;
  const last = segment === gone ? undefined : await queryLast(source, log, segment);
  if (last === undefined) {
    throw new EntryNotFoundError(`the entries of segment ${segment} have expired and are in no archive`, {
      log,
      segment,
      advice: 'Give a later time; archive segments before they expire to keep their entries',
    });
  }
  const end = last.position.entry + 1;
  const isLaterEntry = async (entry: number): Promise<boolean> => {
    const later = await isLater({ segment, entry });
    if (later !== undefined) return later;
    const advice = 'Restore the entry from a backup of the Entry table';
    throw new EntryGapError('an entry is missing', { log, segment, entry, advice });
  };
  const entry = await firstLater({ from: 1, to: end }, isLaterEntry);
  return entry === end && segment < newest.segment ? { segment: segment + 1, entry: 0 } : { segment, entry };
}

/**
 * The first number of a range that is later; `to` if none is. Looks at the last number first,
 * because most reads are near the end.
 */
async function firstLater(
  { from, to }: { readonly from: number; readonly to: number },
  isLater: (number: number) => Promise<boolean>,
): Promise<number> {
  let [low, high] = [from, to];
  for (let probe = to - 1; low < high; probe = Math.floor((low + high) / 2)) {
    if (await isLater(probe)) high = probe;
    else low = probe + 1;
  }
  return low;
}

/**
 * When an entry was created, in epoch seconds, even if the rest of its item is malformed; undefined
 * if there is no such entry.
 */
export async function createdAt(
  store: EntryReader,
  log: LogId,
  position: Position,
): Promise<{ readonly seconds: number } | undefined> {
  const item = await itemAt(store, log, position);
  return item && { seconds: wholeNumber(item.C?.N ?? '') ?? decodeEntry(item).created };
}
