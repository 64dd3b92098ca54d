import { EntryGapError, PositionInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, MAX_NUMBER, type Position } from '../ids/position.ts';
import type { Entry, ReservedTypes } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import type { Consistency, EntryReader, PageRead, SegmentRange, SegmentReader } from './log-store.ts';
import { queryNewestSegments } from './newest.ts';
import { type RangePlan, ReadPace } from './read-pace.ts';

/** The reads that a range of entries takes. */
export type RangeReader = Pick<SegmentReader, 'newestSegments'> &
  Pick<EntryReader, 'newestEntry' | 'entries' | 'nameItem'>;

export interface EntrySource {
  readonly store: RangeReader;
  readonly types: ReservedTypes;
  /** The most entries of a range, and of a page. By default as many as DynamoDB returns. */
  readonly rangeEntries?: number | undefined;
  /** The most ranges that are requested or held concurrently; see {@link ReadPace}. */
  readonly concurrency?: number;
}

export interface EntryRange {
  readonly from: Position;
  /** Exclusive. */
  readonly to: Position | 'end';
}

/** A range that ends early if the log does. */
export interface OpenRange extends EntryRange {
  /** The most entries; all by default. */
  readonly limit?: number;
  /** Number of the segment that was the newest a moment ago; it saves a query. */
  readonly newestSegment?: number;
}

interface Reading {
  readonly store: RangeReader;
  readonly log: LogId;
  readonly endSegment: string;
  readonly pace: ReadPace;
  /** The advice for a range without any entry. */
  readonly advice: string;
}

/** Entry numbers of one segment; `to` is exclusive. */
interface Numbers {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Reads all entries of a range, in order, across segments, in pages that are never empty. Numbers
 * are dense, so the reader reads parts of the range in parallel. It reads eventually consistently.
 * If an entry is missing, it reads again consistently before it reports a gap. With `to: 'end'` it
 * may miss the newest entries, but never an entry before another one that it returns.
 * @throws EntryGapError if an entry is missing, if a closed segment does not end with an End
 * Segment entry, or if `to` is beyond the end of the log. With `to: 'end'` the entry directly
 * before `from` must exist too.
 * @throws PositionInvalidError if `to` is before `from`
 * @throws LogNotFoundError if `to` is `end` and the log does not exist
 */
export async function* readEntries(source: EntrySource, log: LogId, range: EntryRange): AsyncGenerator<Entry[]> {
  const { from, to } = range;
  if (to === 'end') return yield* readUpTo(source, log, range);
  checkOrder(log, range);
  const reading = readingOf(source, log);
  let next = from;
  while (next.segment < to.segment) {
    yield* readRest(reading, next, CLOSED);
    next = { segment: next.segment + 1, entry: 0 };
  }
  yield* readNumbers(reading, { segment: to.segment, from: next.entry, to: to.entry });
}

/**
 * Like {@link readEntries}, but ends at the end of the log if `to` is beyond it, and after `limit`
 * entries. If `to` is a position, it misses no entry before it.
 * @throws EntryGapError if an entry is missing, if a closed segment does not end with an End
 * Segment entry, or if there is no entry directly before `from`
 * @throws PositionInvalidError if `to` is before `from`
 * @throws LogNotFoundError if the log does not exist
 */
export async function* readUpTo(source: EntrySource, log: LogId, range: OpenRange): AsyncGenerator<Entry[]> {
  checkOrder(log, range);
  const { from, to, limit = Number.POSITIVE_INFINITY } = range;
  const reading = readingOf(source, log);
  const newest = range.newestSegment ?? (await queryNewestSegments(source.store, log))[0].segment;
  let left = limit;
  for (let next = from; ; next = { segment: next.segment + 1, entry: 0 }) {
    if (to !== 'end' && next.segment > to.segment) return;
    const most = Math.min(left, to !== 'end' && next.segment === to.segment ? to.entry - next.entry : left);
    if (most === 0) return;
    const mayBeOpen = next.segment >= newest;
    const first = next === from ? { ...reading, advice: START_ADVICE } : reading;
    const { isClosed, entries } = yield* readRest(first, next, { mayBeOpen, isFresh: to !== 'end', most });
    if (!isClosed) return;
    left -= entries;
  }
}

function readingOf({ store, types, rangeEntries, concurrency }: EntrySource, log: LogId): Reading {
  const pace = new ReadPace({ rangeEntries, ranges: concurrency });
  return { store, log, endSegment: types.endSegment, pace, advice: ADVICE };
}

function checkOrder(log: LogId, { from, to }: EntryRange): void {
  if (to === 'end' || comparePositions(from, to) <= 0) return;
  throw new PositionInvalidError(`the end ${formatPosition(to)} is before the start ${formatPosition(from)}`, {
    log,
    advice: `Give an end from ${formatPosition(from)} on`,
  });
}

interface Rest {
  /** Whether the segment may be the newest, which has no End Segment entry yet. */
  readonly mayBeOpen: boolean;
  /** Whether a consistent read looks for the newest entries of an open segment. */
  readonly isFresh: boolean;
  readonly most: number;
}

/** A missing item of a scheduled log takes the virtual entry after it with it. */
const LOST_TOGETHER = 2;

const CLOSED: Rest = { mayBeOpen: false, isFresh: true, most: Number.POSITIVE_INFINITY };

/**
 * Reads the rest of a segment of unknown length.
 * @returns the number of entries, and whether the segment was read to its End Segment entry, so
 * that a next one exists
 */
async function* readRest(
  reading: Reading,
  start: Position,
  { mayBeOpen, isFresh, most }: Rest,
): AsyncGenerator<Entry[], { readonly isClosed: boolean; readonly entries: number }> {
  const { store, log, pace, endSegment } = reading;
  const { segment } = start;
  const end = Math.min(start.entry + most, MAX_NUMBER + 1);
  // Also reads the entry before `start`. At the end of the segment that entry tells whether the
  // segment is closed. Beyond the end, it is missing.
  const from = Math.max(0, start.entry - 1);
  let last: Entry | undefined;
  let next = from;
  const result = () => ({ isClosed: last?.type === endSegment, entries: next - start.entry });
  const first = Math.min(from + pace.next.entries, end);
  for await (const page of readDense(reading, { segment, from, to: first }, 1)) {
    last = page.at(-1);
    const wanted = page.slice(Math.max(0, start.entry - next));
    next += page.length;
    if (wanted.length > 0) yield wanted;
  }

  // If only the last entries of the range are missing, the range does not show the entries after
  // them.
  if (next >= first - LOST_TOGETHER && first < end && last?.type !== endSegment) {
    const newest = await store.newestEntry(log, segment, { consistent: false });
    const to = Math.min((newest?.position.entry ?? 0) + 1, end);
    for await (const page of readNumbers({ ...reading, advice: ADVICE }, { segment, from: next, to })) {
      yield page;
      last = page.at(-1);
      next += page.length;
    }
  }
  if (next >= end || last?.type === endSegment || (mayBeOpen && !isFresh)) return result();

  const rest = { segment, from: next, to: end };
  for await (const page of pagesOf(reading, rest, { consistent: true })) {
    if (countDense(page, next) < page.length) {
      throw await missing({ store, log }, segment, next + countDense(page, next));
    }
    if (page.length > 0) yield page;
    last = page.at(-1) ?? last;
    next += page.length;
  }
  if (next >= end || last?.type === endSegment || mayBeOpen) return result();
  const reason = `the segment is closed, but ends without an entry of type '${endSegment}'`;
  const isItem = (await store.nameItem?.(log, { segment, entry: next })) !== undefined;
  throw new EntryGapError(reason, { log, segment, entry: next, advice: isItem ? ITEM_ADVICE : ADVICE });
}

/**
 * Reads entries that must exist, in parallel ranges, and returns them in order. Reads only one page
 * of each range ahead, which bounds the memory for entries of any size.
 */
async function* readNumbers(reading: Reading, { segment, from, to }: Numbers): AsyncGenerator<Entry[]> {
  const { pace } = reading;
  const running: AheadPages[] = [];
  let next = from;
  while (next < to || running.length > 0) {
    // A single range never has arrived, because it is requested when the previous one is read.
    const waits = running[0] === undefined ? pace.ranges === 1 : !running[0].isThere;
    if (waits && next > from) pace.waited();
    while (next < to && running.length < pace.ranges) {
      const plan = pace.next;
      const end = Math.min(next + plan.entries, to);
      running.push(new AheadPages(readDense(reading, { segment, from: next, to: end }, end - next), plan));
      next = end;
    }
    const range = running.shift();
    if (range === undefined) return;
    let pages = 0;
    let longest = 0;
    for await (const page of range.pages()) {
      pages++;
      longest = Math.max(longest, page.length);
      yield page;
    }
    pace.ended({ plan: range.plan, pages, longest });
  }
}

/**
 * Pages of a range. The first is requested immediately, each other when the previous one is read.
 */
class AheadPages {
  readonly plan: RangePlan;
  readonly #pages: AsyncGenerator<Entry[]>;
  #next: Promise<IteratorResult<Entry[]>>;
  #isThere = false;

  constructor(pages: AsyncGenerator<Entry[]>, plan: RangePlan) {
    this.plan = plan;
    this.#pages = pages;
    this.#next = this.#request();
  }

  /** Whether the next page has been received. */
  get isThere(): boolean {
    return this.#isThere;
  }

  async *pages(): AsyncGenerator<Entry[]> {
    for (;;) {
      const { done, value } = await this.#next;
      if (done === true) return;
      this.#next = this.#request();
      yield value;
    }
  }

  #request(): Promise<IteratorResult<Entry[]>> {
    const next = this.#pages.next();
    const settle = () => {
      this.#isThere = true;
    };
    this.#isThere = false;
    // `pages` reports a failure. Until then it must not count as unhandled.
    next.then(settle, settle);
    return next;
  }
}

/**
 * Reads entries of one range in pages that are never empty, without a gap from its first number on.
 * @param atLeast how many entries must exist
 */
async function* readDense(reading: Reading, { segment, from, to }: Numbers, atLeast: number): AsyncGenerator<Entry[]> {
  const { store, log, advice } = reading;
  let next = from;
  let isWhole = true;
  for await (const page of pagesOf(reading, { segment, from, to }, { consistent: false })) {
    const dense = countDense(page, next);
    isWhole = dense === page.length;
    next += dense;
    if (dense > 0) yield isWhole ? page : page.slice(0, dense);
    if (!isWhole) break;
  }
  if (isWhole && next - from >= atLeast) return;

  for await (const page of pagesOf(reading, { segment, from: next, to }, { consistent: true })) {
    const dense = countDense(page, next);
    next += dense;
    if (dense > 0) yield page.slice(0, dense);
    if (dense < page.length) throw await missing({ store, log }, segment, next);
  }
  if (next - from < atLeast) {
    throw await missing({ store, log, advice: next === from ? advice : ADVICE }, segment, next);
  }
}

/** Pages of entries, from which the pace learns. */
async function* pagesOf(
  { store, log, pace }: Reading,
  range: SegmentRange,
  { consistent }: Consistency,
): AsyncGenerator<Entry[]> {
  let sized = 0;
  let entries = 0;
  const onPage = (page: PageRead): void => {
    if (page.bytes > 0) sized += page.items;
    pace.read(page);
  };
  for await (const page of store.entries(log, range, { consistent, onPage })) {
    entries += page.length;
    yield page;
  }
  if (entries > 0 && sized === 0) pace.readUntold();
}

/** The number of entries without a gap from a number onward. */
function countDense(entries: readonly Entry[], from: number): number {
  const gap = entries.findIndex((entry, i) => entry.position.entry !== from + i);
  return gap === -1 ? entries.length : gap;
}

const ADVICE = 'Restore the entry from a backup of the Entry table';
const ITEM_ADVICE =
  'Restore the missing items. If the application deleted them for good, or began the log again, give the log another id';
const START_ADVICE =
  'Read from a position that the log has: this one may be beyond its end. If the log had the entry, restore the entry from a backup of the Entry table';

async function missing(
  { store, log, advice = ADVICE }: Pick<Reading, 'store' | 'log'> & { readonly advice?: string },
  segment: number,
  entry: number,
): Promise<EntryGapError> {
  const item = await store.nameItem?.(log, { segment, entry });
  const reason = item === undefined ? 'an entry is missing' : `an entry is missing: ${item}`;
  const forItem = item === undefined || advice === START_ADVICE ? advice : ITEM_ADVICE;
  return new EntryGapError(reason, { log, segment, entry, advice: forItem });
}

/**
 * Reads the Snapshot entries of a range, in order. Reads only the type of other entries, so a
 * malformed one does no harm.
 * @throws ItemInvalidError if a Snapshot entry is malformed
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
