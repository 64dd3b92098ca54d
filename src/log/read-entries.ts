import { EntryGapError, PositionInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, MAX_NUMBER, type Position } from '../ids/position.ts';
import type { Entry, ReservedTypes } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import type { Consistency, EntryReader, SegmentRange, SegmentReader } from './log-store.ts';
import { queryNewestSegments } from './newest.ts';

/** {@link EntrySource.rangeEntries} where it is left out. */
export const RANGE_ENTRIES = 500;

export interface EntrySource {
  readonly store: SegmentReader & EntryReader;
  readonly types: ReservedTypes;
  /** Entries of one range, and so of a page at most; 500 by default. Ranges become shorter if their entries are large. */
  readonly rangeEntries?: number | undefined;
  /** Ranges of which the first page is on its way or held at once, 4 by default. A page has 1 MB of items at most. */
  readonly concurrency?: number;
}

export interface EntryRange {
  readonly from: Position;
  /** Exclusive. */
  readonly to: Position | 'end';
  /** Number of a segment known to be the newest a moment ago: with `to: 'end'` it saves a query. */
  readonly newestSegment?: number;
}

interface Reading {
  readonly store: SegmentReader & EntryReader;
  readonly log: LogId;
  readonly endSegment: string;
  readonly rangeEntries: number;
  readonly concurrency: number;
}

/** Entry numbers of one segment; `to` is exclusive. */
interface Numbers {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Every entry from one place up to another, in order, across segments, in pages that are never empty. Since numbers
 * are dense, ranges are read in parallel, and what a cheap eventually consistent read does not show is read again
 * consistently before it is called missing. With `to: 'end'` the newest entries may be missed, but never one
 * before another that is given.
 * @throws EntryGapError where an entry does not exist (the one right before `from` counts, where the end of its
 * segment is looked for), a segment before the newest does not end with an End Segment
 * entry, or `to` lies beyond the end of the log
 * @throws PositionInvalidError where `to` lies before `from`
 * @throws LogNotFoundError where `to` is `end` and the log does not exist
 */
export async function* readEntries(source: EntrySource, log: LogId, range: EntryRange): AsyncGenerator<Entry[]> {
  const { store, rangeEntries = RANGE_ENTRIES, concurrency = 4 } = source;
  const reading: Reading = { store, log, endSegment: source.types.endSegment, rangeEntries, concurrency };
  const { from, to } = range;
  let next = from;
  if (to === 'end') {
    const newest = range.newestSegment ?? (await queryNewestSegments(store, log))[0].segment;
    while (yield* readRest(reading, next, next.segment >= newest)) next = { segment: next.segment + 1, entry: 0 };
    return;
  }
  const order = comparePositions(from, to);
  if (order > 0) {
    throw new PositionInvalidError(`${formatPosition(to)} lies before ${formatPosition(from)}`, { log });
  }
  while (next.segment < to.segment) {
    yield* readRest(reading, next, false);
    next = { segment: next.segment + 1, entry: 0 };
  }
  yield* readNumbers(reading, { segment: to.segment, from: next.entry, to: to.entry });
}

/**
 * The rest of a segment whose length is not known.
 * @param mayBeOpen whether the segment may be the newest, which has no End Segment entry yet
 * @returns whether the segment has ended, so that there is a next one
 */
async function* readRest(reading: Reading, start: Position, mayBeOpen: boolean): AsyncGenerator<Entry[], boolean> {
  const { store, log, rangeEntries } = reading;
  const { segment } = start;
  // The entry before is read too: it shows a reader who has come to the end whether the segment ended there, and
  // one who is beyond the end that nothing is there.
  const from = Math.max(0, start.entry - 1);
  let last: Entry | undefined;
  let next = from;
  for await (const page of readDense(reading, { segment, from, to: from + rangeEntries }, 1)) {
    last = page.at(-1);
    const wanted = page.slice(Math.max(0, start.entry - next));
    next += page.length;
    if (wanted.length > 0) yield wanted;
  }

  if (next - from === rangeEntries && last?.type !== reading.endSegment) {
    const newest = await store.newestEntry(log, segment, { consistent: false });
    for await (const page of readNumbers(reading, { segment, from: next, to: (newest?.position.entry ?? 0) + 1 })) {
      yield page;
      last = page.at(-1);
      next += page.length;
    }
  }
  if (last?.type === reading.endSegment) return true;
  if (mayBeOpen) return false;

  const rest = { segment, from: next, to: MAX_NUMBER + 1 };
  for await (const page of store.entries(log, rest, { consistent: true })) {
    if (countDense(page, next) < page.length) throw missing(reading, segment, next + countDense(page, next));
    if (page.length > 0) yield page;
    last = page.at(-1) ?? last;
    next += page.length;
  }
  if (last?.type === reading.endSegment) return true;
  throw new EntryGapError(`the segment is not the newest, but ends without '${reading.endSegment}'`, {
    log,
    segment,
    entry: next,
    advice: ADVICE,
  });
}

/**
 * Entries that must exist, by ranges in parallel, handed out in order. Only the first page of each range is read ahead, so
 * memory is bounded whatever the size of entries; ranges are cut to what a page holds, so that nearly all is read ahead.
 */
async function* readNumbers(reading: Reading, { segment, from, to }: Numbers): AsyncGenerator<Entry[]> {
  const running: AheadPages[] = [];
  let next = from;
  let length = reading.rangeEntries;
  while (next < to || running.length > 0) {
    while (next < to && running.length < reading.concurrency) {
      const end = Math.min(next + length, to);
      running.push(new AheadPages(readDense(reading, { segment, from: next, to: end }, end - next)));
      next = end;
    }
    const range = running.shift();
    let pages = 0;
    let longest = 0;
    for await (const page of range?.pages() ?? []) {
      pages++;
      longest = Math.max(longest, page.length);
      yield page;
    }
    length = pages > 1 ? Math.max(1, longest) : Math.min(length * 2, reading.rangeEntries);
  }
}

/** Pages of which the first is asked for now, and the others when their turn comes. */
class AheadPages {
  readonly #pages: AsyncGenerator<Entry[]>;
  readonly #first: Promise<IteratorResult<Entry[]>>;

  constructor(pages: AsyncGenerator<Entry[]>) {
    this.#pages = pages;
    this.#first = pages.next();
    // Awaited in its turn: a failure before that must not count as unhandled.
    this.#first.catch(() => undefined);
  }

  async *pages(): AsyncGenerator<Entry[]> {
    const first = await this.#first;
    if (first.done === true) return;
    yield first.value;
    yield* this.#pages;
  }
}

/**
 * Entries of one range in pages that are never empty, without gap from its first number on.
 * @param atLeast how many of them must exist
 */
async function* readDense(
  { store, log }: Reading,
  { segment, from, to }: Numbers,
  atLeast: number,
): AsyncGenerator<Entry[]> {
  let next = from;
  let isWhole = true;
  for await (const page of store.entries(log, { segment, from, to }, { consistent: false })) {
    const dense = countDense(page, next);
    isWhole = dense === page.length;
    next += dense;
    if (dense > 0) yield isWhole ? page : page.slice(0, dense);
    if (!isWhole) break;
  }
  if (isWhole && next - from >= atLeast) return;

  for await (const page of store.entries(log, { segment, from: next, to }, { consistent: true })) {
    const dense = countDense(page, next);
    next += dense;
    if (dense > 0) yield page.slice(0, dense);
    if (dense < page.length) throw missing({ log }, segment, next);
  }
  if (next - from < atLeast) throw missing({ log }, segment, next);
}

/** How many entries follow one another from a number on. */
function countDense(entries: readonly Entry[], from: number): number {
  const gap = entries.findIndex((entry, i) => entry.position.entry !== from + i);
  return gap === -1 ? entries.length : gap;
}

const ADVICE = 'Restore the entry from a backup of the Entry table';

function missing({ log }: Pick<Reading, 'log'>, segment: number, entry: number): EntryGapError {
  return new EntryGapError('an entry that must exist is not there', { log, segment, entry, advice: ADVICE });
}

/**
 * The Snapshot entries among those of a range, in order. Of the others only the type is looked at, so a malformed one is
 * in nobody's way.
 * @throws ItemInvalidError where a Snapshot entry cannot be read
 */
export async function* snapshotEntries(
  source: { readonly store: Pick<EntryReader, 'items'>; readonly types: ReservedTypes },
  log: LogId,
  range: SegmentRange,
  consistency: Consistency,
): AsyncGenerator<Entry> {
  for await (const page of source.store.items(log, range, consistency)) {
    for (const item of page) if (item.T?.S === source.types.snapshot) yield decodeEntry(item);
  }
}
