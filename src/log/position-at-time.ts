import { EntryGapError, EntryNotFoundError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { type Position, START } from '../ids/position.ts';
import { wholeNumber } from './attribute.ts';
import type { ReservedTypes } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import type { EntryReader, LogReader } from './log-store.ts';
import { queryLast, queryNewestSegments } from './newest.ts';

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
  { segment, entry }: Position,
): Promise<{ readonly seconds: number } | undefined> {
  for await (const page of store.items(log, { segment, from: entry, to: entry + 1 }, { consistent: true })) {
    for (const item of page) return { seconds: wholeNumber(item.C?.N ?? '') ?? decodeEntry(item).created };
  }
  return undefined;
}
