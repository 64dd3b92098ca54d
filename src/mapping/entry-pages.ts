import type { StoredItem } from '../log/attribute.ts';
import { RESERVED_VERSION } from '../log/entry.ts';
import { encodeEntry } from '../log/item-codec.ts';
import type { SegmentPlace, SegmentRange } from '../log/log-store.ts';
import { entryAt, entryOfItem, itemsBefore, type Schedule, VIRTUAL_TYPES } from '../log/schedule.ts';
import type { IndexedItem, IndexRange } from './mapped-items.ts';
import type { SchemaMapping } from './schema-mapping.ts';
import { type MappedItemPlace, timeOf, toEntryItem } from './translate.ts';

/** Makes what a reader wants of the items of a mapped log. */
export interface Translation<T> {
  /** Translates an item of the application. */
  readonly original: (mapping: SchemaMapping, item: StoredItem, place: MappedItemPlace) => T;
  /** Takes a virtual entry, as an item of logfold's own schema. */
  readonly virtual: (item: StoredItem) => T;
}

/** A segment whose schedule is known. */
export type ScheduledSegment = SegmentPlace & { readonly schedule: Schedule };

/**
 * The items to read for a range of entries: those of the range, and for a virtual entry the item
 * before it. Entry 0 also exists with the item after it.
 * @param range at least one entry, up to the End Segment entry
 */
export function itemsOfRange(schedule: Schedule, { from, to }: Pick<SegmentRange, 'from' | 'to'>): IndexRange {
  const isVirtual = entryAt(schedule, from)?.kind !== 'item';
  const first = itemsBefore(schedule, from) - (isVirtual ? 1 : 0);
  const end = itemsBefore(schedule, to);
  return { from: Math.max(0, first), to: from === 0 && to === 1 ? end + 1 : end };
}

/** Whether a range has a Snapshot entry. */
export function hasSnapshotEntry(
  { snapshotEvery }: Schedule,
  { from, to }: Pick<SegmentRange, 'from' | 'to'>,
): boolean {
  const period = snapshotEvery + 1;
  return Math.ceil(from / period) * period < to;
}

/**
 * Translates pages of items into entries, with the virtual entries between them. An entry that
 * stands between two items exists if the item before it does. The Snapshot entry of a segment also
 * exists if the first item of the segment does: the previous item may have expired.
 * @param created creation time of the segment; by default that of the item before it
 * @param roots Snapshot entries with roots, in ascending order, in logfold's own schema
 */
export async function* entryPages<T>(
  mapping: SchemaMapping,
  { original, virtual }: Translation<T>,
  {
    segment,
    range: { from, to },
    created,
  }: {
    readonly segment: ScheduledSegment;
    readonly range: Pick<SegmentRange, 'from' | 'to'>;
    readonly created: number | undefined;
  },
  { pages, roots }: { readonly pages: AsyncIterable<IndexedItem[]>; readonly roots: AsyncIterable<StoredItem[]> },
): AsyncGenerator<T[]> {
  const { log, schedule } = segment;
  const complete = new AscendingItems(roots);
  // A reader that starts at a Snapshot entry waits for its root.
  if (entryAt(schedule, from)?.kind === 'snapshot') complete.readAhead();
  let isFirstDue = from === 0;
  for await (const page of pages) {
    const entries: T[] = [];
    const addVirtual = async (entry: number, time: StoredItem['C']): Promise<void> => {
      const root = await complete.find(entry);
      const item = virtualEntry(segment, entry, time);
      entries.push(virtual({ ...item, ...(root?.B && { B: root.B }), ...(root?.E && { E: root.E }) }));
    };
    for (const { index, item } of page) {
      const isBefore = index < schedule.first;
      const entry = isBefore ? -1 : entryOfItem(schedule, index);
      const place = { log, position: { segment: segment.segment, entry: Math.max(0, entry) }, index };
      const isWanted = !isBefore && entry >= from && entry < to;
      // An item next to the range says something about a virtual entry, so it must fit the mapping
      // too.
      if (isFirstDue || !isWanted) toEntryItem(mapping, item, place);
      if (isFirstDue)
        await addVirtual(0, created === undefined ? timeOf(mapping, item, place) : { N: String(created) });
      isFirstDue = false;
      if (isWanted) entries.push(original(mapping, item, place));
      if (isBefore) continue;
      const next = entry + 1;
      if (next >= from && next < to && entryAt(schedule, next)?.kind !== 'item')
        await addVirtual(next, timeOf(mapping, item, place));
    }
    if (entries.length > 0) yield entries;
  }
}

/** A virtual entry as an item of logfold's own schema, without a root. */
function virtualEntry({ log, segment, schedule }: ScheduledSegment, entry: number, time: StoredItem['C']): StoredItem {
  const scheduled = entryAt(schedule, entry);
  const item = encodeEntry({
    log,
    position: { segment, entry },
    created: 0,
    type: scheduled?.kind === 'end segment' ? VIRTUAL_TYPES.endSegment : VIRTUAL_TYPES.snapshot,
    version: RESERVED_VERSION,
    number: itemsBefore(schedule, entry),
  });
  return { ...item, C: time };
}

/** Finds items by ascending entry numbers, with one page in memory. */
class AscendingItems {
  readonly #pages: AsyncIterator<StoredItem[]>;
  #ahead: Promise<IteratorResult<StoredItem[]>> | undefined;
  #page: StoredItem[] = [];
  #next = 0;

  constructor(pages: AsyncIterable<StoredItem[]>) {
    this.#pages = pages[Symbol.asyncIterator]();
  }

  /** Requests the first page. */
  readAhead(): void {
    this.#ahead = this.#pages.next();
    // `find` reports a failure. Until then it must not count as unhandled.
    this.#ahead.catch(() => undefined);
  }

  /** @param entry above that of the last call */
  async find(entry: number): Promise<StoredItem | undefined> {
    for (;;) {
      const item = this.#page[this.#next];
      if (item === undefined) {
        const { done, value } = await (this.#ahead ?? this.#pages.next());
        this.#ahead = undefined;
        if (done === true) return undefined;
        this.#page = value;
        this.#next = 0;
      } else {
        const number = Number(item.N?.N);
        if (number > entry) return undefined;
        this.#next++;
        if (number === entry) return item;
      }
    }
  }
}
