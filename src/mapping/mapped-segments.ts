import { ItemInvalidError, LogNotFoundError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { StoredItem } from '../log/attribute.ts';
import { epochSeconds } from '../log/entry.ts';
import type { Consistency, ScanPart, SegmentReader } from '../log/log-store.ts';
import { indexAfter, nextSchedule, type Schedule } from '../log/schedule.ts';
import { isFrozen, type Segment } from '../log/segment.ts';
import type { SegmentSizes } from './item-division.ts';
import { itemSeconds } from './item-time.ts';
import type { IndexedItem, MappedItems } from './mapped-items.ts';
import type { SchemaMapping } from './schema-mapping.ts';

const EVENTUAL: Consistency = { consistent: false };
const CONSISTENT: Consistency = { consistent: true };
/** Above the index of any item. */
const END = Number.MAX_SAFE_INTEGER;
const MAX_CACHED_SEGMENTS = 10_000;

export type MappedSegment = Segment & { readonly schedule: Schedule };

/** The schedule of a segment, as far as it is certain. */
export interface KnownSchedule {
  readonly schedule: Schedule;
  /** Undefined until the segment is recorded with its creation time. */
  readonly created: number | undefined;
  /**
   * False if another process may still record the segment with another schedule. Then only entry 0
   * exists.
   */
  readonly isFinal: boolean;
}

/** The Segment table and its own write, for the segments of mapped logs. */
export type SegmentBooks = SegmentReader & { putSegment(segment: Segment): Promise<boolean> };

export interface MappedSegmentsDeps {
  readonly items: MappedItems;
  readonly books: SegmentBooks;
  readonly mapping: SchemaMapping;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/**
 * The segments of mapped logs: those that the Segment table records, and those after them that
 * have begun and are not recorded yet. A segment begins when the item before its first one exists;
 * the first segment begins when it is recorded.
 *
 * A segment that is not recorded has the schedule of the one before it. Another process may record
 * it with another schedule, but only while its first item does not exist. So its schedule is
 * certain if a read shows this item, and a later, consistent read shows no record. Items are
 * therefore read before the records that they are compared with.
 */
export class MappedSegments {
  readonly #items: MappedItems;
  readonly #books: SegmentBooks;
  readonly #mapping: SchemaMapping;
  readonly #now: () => number;
  readonly #known = new Map<string, KnownSchedule>();

  constructor({ items, books, mapping, now }: MappedSegmentsDeps) {
    this.#items = items;
    this.#books = books;
    this.#mapping = mapping;
    this.#now = now;
  }

  /**
   * Like {@link SegmentReader.newestSegments}. Takes one query of each table. If the newest segment
   * is not recorded, it takes another one, and reads an item for each such segment. If the
   * application deleted items of several segments, it takes more queries.
   * @throws LogNotFoundError if the log has items, but a consistent read shows no record
   */
  async newest(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    // A segment that was recorded before it began is not visible yet.
    const most = limit + 1;
    let [newest, records] = await Promise.all([
      this.#items.newest(log, END, consistency),
      this.#records(log, most, consistency),
    ]);
    const isShort = records[0] === undefined ? consistency.consistent : hasBegun(nextOf(records[0]), countOf(newest));
    if (newest !== undefined && isShort) records = await this.#records(log, most, CONSISTENT);
    const [last] = records;
    if (last === undefined) {
      if (newest === undefined || !consistency.consistent) return [];
      throw notRegistered(log);
    }
    const inferred = await Array.fromAsync(this.#inferred(last, newest, limit));
    const visible = records.slice(newestVisible(records, countOf(newest)));
    const found = [...inferred.reverse(), ...visible].slice(0, limit);
    if (found.length === limit || records.length < most) return found;
    // The application has deleted items, so that more segments than one are not visible.
    return (await this.newest(log, 4 * limit, consistency)).slice(0, limit);
  }

  /** Like {@link SegmentReader.getSegment}. */
  async get(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    const record = await this.#record(log, segment, consistency);
    if (record !== undefined && isVisible(record, 0)) return record;
    const newest = await this.#items.newest(log, END, consistency);
    const known = record ?? (await this.#record(log, segment, CONSISTENT));
    if (known !== undefined) return (await this.#isVisible(known, newest)) ? known : undefined;
    const later = await this.#later(log, segment);
    if (later === undefined) return undefined;
    if ('log' in later) return (await this.#isVisible(later, newest)) ? later : undefined;
    return hasBegun(later.schedule, countOf(newest)) ? this.#inferredSegment(log, later, newest) : undefined;
  }

  /**
   * A segment that an earlier read did not show: as another process has recorded it since, or with
   * the schedule that it has without a record. Undefined if the log is not registered.
   */
  async #later(log: LogId, segment: number): Promise<MappedSegment | PlannedSegment | undefined> {
    const [last] = await this.#records(log, 1, CONSISTENT);
    if (last === undefined || last.segment >= segment) return last && this.#record(log, segment, CONSISTENT);
    return { segment, schedule: laterSchedule(last, segment) };
  }

  /**
   * Like {@link SegmentReader.segments}, always consistent.
   * @throws LogNotFoundError if the log has items, but no record
   */
  async *all(log: LogId): AsyncGenerator<Segment> {
    const newest = await this.#items.newest(log, END, CONSISTENT);
    let last: MappedSegment | undefined;
    let hidden: MappedSegment[] = [];
    for await (const record of this.#books.segments(log, CONSISTENT)) {
      last = this.#remember(record);
      hidden.push(last);
      if (!isVisible(last, countOf(newest))) continue;
      yield* hidden;
      hidden = [];
    }
    if (last !== undefined) yield* this.#inferred(last, newest, Number.POSITIVE_INFINITY);
    else if (newest !== undefined) throw notRegistered(log);
  }

  /** Like {@link SegmentReader.allSegments}, but only segments that are recorded. */
  async *scan(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncGenerator<Segment> {
    for await (const record of this.#books.allSegments(part, onInvalid)) {
      // The caller of a scan reads the entries of the segments next.
      if (record.schedule !== undefined) this.#remember(record);
      if (record.created !== 0 || (await this.get(record.log, record.segment, CONSISTENT)) !== undefined) yield record;
    }
  }

  /**
   * The schedule of a segment; undefined if the segment has not begun. Takes no request if the
   * schedule is known, and one if it is recorded.
   */
  async scheduleOf(log: LogId, segment: number, consistency: Consistency): Promise<KnownSchedule | undefined> {
    const known = this.#known.get(nameOf(log, segment));
    if (known !== undefined) return known;
    if ((await this.#record(log, segment, EVENTUAL)) !== undefined) return this.#known.get(nameOf(log, segment));
    const newest = await this.#items.newest(log, END, consistency);
    const later = await this.#later(log, segment);
    if (later === undefined || 'log' in later) return this.#known.get(nameOf(log, segment));
    const { schedule } = later;
    const count = countOf(newest);
    if (!hasBegun(schedule, count)) return undefined;
    const inferred = { schedule, created: undefined, isFinal: count > schedule.first };
    if (inferred.isFinal) this.#cache(log, segment, inferred);
    return inferred;
  }

  /**
   * Records all segments that have begun. Writes a schedule that differs from that of the segment
   * before only if the segment's first item does not exist yet; therefore it may record one segment
   * that has not begun. Duplicate and concurrent calls do no harm.
   * @param sizes those of new segments; by default those of the newest recorded segment
   * @returns the number of segments that this call recorded
   */
  async register(log: LogId, sizes?: SegmentSizes): Promise<number> {
    const newest = await this.#items.newest(log, END, CONSISTENT);
    if (newest === undefined) return 0;
    let [last] = await this.#records(log, 1, CONSISTENT);
    let recorded = 0;
    if (last === undefined) {
      if (sizes === undefined) return 0;
      const schedule = { first: 0, ...pick(sizes) };
      recorded += Number(await this.#books.putSegment(await this.#begun(log, { segment: 0, schedule }, newest)));
      last = await this.#record(log, 0, CONSISTENT);
    }
    while (last !== undefined && hasBegun(last.schedule, countOf(newest))) {
      if (last.created === 0) await this.#items.beginSegment(await this.#begun(log, last, newest));
      const next = await this.#recordNext(last, { newest, sizes: sizes ?? last.schedule });
      recorded += Number(next.isNew);
      last = next.segment;
    }
    return recorded;
  }

  /** Records a segment, and those before it, if it has begun and is not recorded with its time. */
  async requireRecorded(log: LogId, segment: number): Promise<void> {
    const known = this.#known.get(nameOf(log, segment));
    if (known?.created !== undefined) return;
    const record = await this.#record(log, segment, CONSISTENT);
    if (record === undefined || record.created === 0) await this.register(log);
  }

  async #recordNext(
    last: MappedSegment,
    { newest, sizes }: { readonly newest: IndexedItem; readonly sizes: SegmentSizes },
  ): Promise<{ readonly segment: MappedSegment | undefined; readonly isNew: boolean }> {
    const { log } = last;
    const segment = last.segment + 1;
    const same = nextOf(last);
    const count = countOf(newest);
    const begins = hasBegun(same, count);
    const changes = sizes.items !== same.items || sizes.snapshotEvery !== same.snapshotEvery;
    if (changes && count <= same.first) {
      const schedule = { first: same.first, ...pick(sizes) };
      const changed = begins
        ? await this.#begun(log, { segment, schedule }, newest)
        : { log, segment, created: 0, schedule };
      if (await this.#items.putSegment(changed)) return { segment: this.#remember(changed), isNew: true };
    }
    if (!begins) return { segment: undefined, isNew: false };
    const isNew = await this.#books.putSegment(await this.#begun(log, { segment, schedule: same }, newest));
    return { segment: await this.#record(log, segment, CONSISTENT), isNew };
  }

  /** Like {@link isVisible}. A segment has also begun if a later one has. */
  async #isVisible(record: MappedSegment, newest: IndexedItem | undefined): Promise<boolean> {
    if (isVisible(record, countOf(newest))) return true;
    // A segment that was recorded before it began is the last one.
    if (record.created === 0) return false;
    const [last] = await this.newest(record.log, 1, CONSISTENT);
    return last !== undefined && last.segment > record.segment;
  }

  /** The segments after the newest recorded one, in ascending order, at most the last `limit`. */
  async *#inferred(last: MappedSegment, newest: IndexedItem | undefined, limit: number): AsyncGenerator<Segment> {
    const begun = Math.floor((countOf(newest) - indexAfter(last.schedule)) / last.schedule.items) + 1;
    for (let i = Math.max(1, begun - limit + 1); i <= begun; i++) {
      const segment = last.segment + i;
      yield await this.#inferredSegment(last.log, { segment, schedule: laterSchedule(last, segment) }, newest);
    }
  }

  async #inferredSegment(log: LogId, of: PlannedSegment, newest: IndexedItem | undefined): Promise<Segment> {
    return {
      log,
      segment: of.segment,
      created: (await this.#timeBefore(log, of.schedule, newest)) ?? 0,
      schedule: of.schedule,
    };
  }

  /** A segment to record, with its creation time. */
  async #begun(log: LogId, { segment, schedule }: PlannedSegment, newest: IndexedItem): Promise<MappedSegment> {
    const created = (await this.#timeBefore(log, schedule, newest)) ?? epochSeconds(this.#now());
    return { log, segment, created, schedule };
  }

  /** Time of the item before a segment; for the first segment that of its first item. */
  async #timeBefore(log: LogId, { first }: Schedule, newest: IndexedItem | undefined): Promise<number | undefined> {
    const { time } = this.#mapping;
    if (time === undefined) return undefined;
    const index = Math.max(0, first - 1);
    const item = newest?.index === index ? newest.item : await this.#item(log, index);
    const found = item?.[time.attribute];
    return found && itemSeconds(found, time.format);
  }

  async #item(log: LogId, index: number): Promise<StoredItem | undefined> {
    for await (const page of this.#items.pages(log, { from: index, to: index + 1 }, CONSISTENT)) {
      for (const { item } of page) return item;
    }
    return undefined;
  }

  async #records(log: LogId, limit: number, consistency: Consistency): Promise<MappedSegment[]> {
    const records = await this.#books.newestSegments(log, limit, consistency);
    return records.map((record) => this.#remember(record));
  }

  async #record(log: LogId, segment: number, consistency: Consistency): Promise<MappedSegment | undefined> {
    const record = await this.#books.getSegment(log, segment, consistency);
    return record && this.#remember(record);
  }

  #remember(record: Segment): MappedSegment {
    const { log, segment, schedule, created } = record;
    if (schedule === undefined) {
      throw new ItemInvalidError("the segment has no schedule: attributes 'F', 'K' and 'J' are missing", {
        log,
        segment,
        advice: 'Use the Segment table that belongs to the mapped logs, or leave the mapping out',
      });
    }
    this.#cache(log, segment, { schedule, created: created === 0 ? undefined : created, isFinal: true });
    return { ...record, schedule };
  }

  #cache(log: LogId, segment: number, known: KnownSchedule): void {
    const name = nameOf(log, segment);
    this.#known.delete(name);
    this.#known.set(name, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_CACHED_SEGMENTS && oldest !== undefined) this.#known.delete(oldest);
  }
}

interface PlannedSegment {
  readonly segment: number;
  readonly schedule: Schedule;
}

function nameOf(log: LogId, segment: number): string {
  return `${segment}/${log}`;
}

function pick({ items, snapshotEvery }: SegmentSizes): SegmentSizes {
  return { items, snapshotEvery };
}

function countOf(newest: IndexedItem | undefined): number {
  return newest === undefined ? 0 : newest.index + 1;
}

function nextOf({ schedule }: MappedSegment): Schedule {
  return nextSchedule(schedule);
}

/** The schedule of a segment after the newest recorded one. */
function laterSchedule({ segment, schedule }: MappedSegment, later: number): Schedule {
  return { ...schedule, first: schedule.first + (later - segment) * schedule.items };
}

function hasBegun({ first }: Schedule, items: number): boolean {
  return items >= first;
}

/**
 * Whether a recorded segment has begun. If its entries were folded, archived or expired, it has,
 * even if items are missing.
 */
function isVisible(record: MappedSegment, items: number): boolean {
  const { segment, schedule, lastSnapshot } = record;
  return segment === 0 || lastSnapshot !== undefined || isFrozen(record) || hasBegun(schedule, items);
}

/**
 * The index of the newest segment that has begun, as all before it have.
 * @param records newest first
 */
function newestVisible(records: readonly MappedSegment[], items: number): number {
  const index = records.findIndex((record) => isVisible(record, items));
  return index === -1 ? records.length : index;
}

function notRegistered(log: LogId): LogNotFoundError {
  return new LogNotFoundError('the log has items in the table, but is not registered', {
    log,
    advice: "Run 'logfold adopt LOG' to register it, or wait for its next items in the pipeline",
  });
}
