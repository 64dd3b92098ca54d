import {
  EntryExistsError,
  EntryNotFoundError,
  ItemInvalidError,
  LogReadOnlyError,
  SegmentStateError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../ids/position.ts';
import type { Item, StoredItem } from '../log/attribute.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import { carriedRef, type Entry, type EntryHead, type RootRef } from '../log/entry.ts';
import { lostItem } from '../log/guard.ts';
import { decodeEntry } from '../log/item-codec.ts';
import { checkBatchItems } from '../log/item-size.ts';
import type {
  Consistency,
  ExpiringSegment,
  LogStore,
  PageRead,
  RangeOptions,
  ScanPart,
  SegmentPlace,
  SegmentRange,
} from '../log/log-store.ts';
import type { Meaning } from '../log/meaning.ts';
import { type Due, endOf, entryAt, indexAfter, newestEntryOf, type Scheduler, VIRTUAL_TYPES } from '../log/schedule.ts';
import { coveredEntries, isFrozen, type LastSnapshot, type Segment } from '../log/segment.ts';
import { TailCount } from '../log/tail-count.ts';
import { meaningOf } from './bucket-claim.ts';
import { entryPages, hasSnapshotEntry, itemsOfRange, type Translation } from './entry-pages.ts';
import { isVirtualDue, type SegmentSizes, segmentSizes } from './item-division.ts';
import { keyOf, maxIndex, namedByKey } from './key-pattern.ts';
import { LogEnds } from './log-ends.ts';
import type { IndexedItem, MappedItems } from './mapped-items.ts';
import { MappedSegments } from './mapped-segments.ts';
import type { SchemaMapping } from './schema-mapping.ts';
import { toApplicationItem, toEntry, toEntryItem } from './translate.ts';

const CONSISTENT: Consistency = { consistent: true };

const AS_ENTRIES: Translation<Entry> = { original: toEntry, virtual: decodeEntry };
const AS_ITEMS: Translation<StoredItem> = { original: toEntryItem, virtual: (item) => item };

export interface MappedLogStoreOptions {
  /** The application's table. */
  readonly items: MappedItems;
  /**
   * A store in logfold's own schema with both tables in one: the Segment table. It keeps the
   * segments of the mapped logs, and the Snapshot entries that carry roots.
   */
  readonly books: LogStore;
  readonly mapping: SchemaMapping;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/**
 * The logs of an application's table, as logs in logfold's own schema with virtual segments. It
 * never writes to that table, with two exceptions: it expires entries, and restores them from an
 * archive.
 *
 * Reads throw ItemInvalidError if an item of the range does not fit the mapping.
 */
export class MappedLogStore implements LogStore, Scheduler {
  readonly reads = 'tables';
  readonly #items: MappedItems;
  readonly #books: LogStore;
  readonly #mapping: SchemaMapping;
  readonly #meaning: Meaning;
  readonly #segments: MappedSegments;
  readonly #ends: LogEnds;

  // The Segment table is in logfold's own schema.
  readonly removeAttributes: LogStore['removeAttributes'] = (...of) => this.#books.removeAttributes(...of);
  readonly setArchive: LogStore['setArchive'] = (...of) => this.#books.setArchive(...of);
  readonly replaceArchive: LogStore['replaceArchive'] = (...of) => this.#books.replaceArchive(...of);
  readonly setExpiration: LogStore['setExpiration'] = (...of) => this.#books.setExpiration(...of);
  readonly putSegment: LogStore['putSegment'] = (segment) => this.#books.putSegment(segment);
  readonly isRetryable: LogStore['isRetryable'] = (error) => this.#books.isRetryable(error);

  // Only the application appends. These reject with LogReadOnlyError.
  readonly createLog: LogStore['createLog'] = ({ log }) => refuseWrite(log);
  readonly putEntries: LogStore['putEntries'] = ([entry]) => refuseWrite(entry?.log);
  readonly startSegment: LogStore['startSegment'] = ({ segment }) => refuseWrite(segment.log);
  readonly putAhead: LogStore['putAhead'] = (_, { log }) => refuseWrite(log);
  readonly updateAttributes: LogStore['updateAttributes'] = (log) => refuseWrite(log);
  readonly replaceAttributes: LogStore['replaceAttributes'] = ({ log }) => refuseWrite(log);

  constructor(options: MappedLogStoreOptions) {
    this.#items = options.items;
    this.#books = options.books;
    this.#mapping = options.mapping;
    this.#meaning = meaningOf(options.mapping);
    this.#segments = new MappedSegments(options);
    this.#ends = new LogEnds(options.books);
  }

  meaningOf(): Meaning {
    return this.#meaning;
  }

  /** Like {@link MappedSegments.register}. */
  register(log: LogId, sizes: SegmentSizes): Promise<number> {
    return this.#segments.register(log, sizes);
  }

  /** Like {@link Scheduler.due}. */
  async due(log: LogId, division: DivisionPolicy, nowSeconds: number): Promise<Due> {
    const segments = await this.register(log, segmentSizes(division));
    const [newest] = await this.newestSegments(log, 1, CONSISTENT);
    if (newest === undefined) return { segments };
    const { segment } = newest;
    const complete = coveredEntries(newest) - 1;
    const count = new TailCount(VIRTUAL_TYPES, complete);
    const range = { segment, from: complete + 1, to: MAX_NUMBER + 1 };
    for await (const page of this.items(log, range, CONSISTENT)) for (const item of page) count.add(item);
    const { tail } = count;
    if (tail.newest <= complete && complete >= 0 && !isFrozen(newest)) await this.#requireEntry(newest, complete);
    return {
      segments,
      ...(isVirtualDue(division, newest, count, nowSeconds) && { position: { segment, entry: tail.snapshot } }),
    };
  }

  /** @throws SourceChangedError if the segment ends before the entry of its Last Snapshot */
  async #requireEntry(segment: Segment, entry: number): Promise<void> {
    const end = await this.newestEntry(segment.log, segment.segment, CONSISTENT);
    if ((end?.position.entry ?? -1) < entry) throw lostItem(segment);
  }

  /** Like {@link LogEnds.endAt}. */
  endAt(log: LogId, index: number): Promise<Position | undefined> {
    return this.#ends.endAt(log, index);
  }

  newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    return this.#segments.newest(log, limit, consistency);
  }

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    return this.#segments.get(log, segment, consistency);
  }

  segments(log: LogId): AsyncIterable<Segment> {
    return this.#segments.all(log);
  }

  allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncIterable<Segment> {
    return this.#segments.scan(part, onInvalid);
  }

  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    const known = await this.#segments.scheduleOf(log, segment, consistency);
    if (known === undefined) return undefined;
    const { schedule, isFinal } = known;
    const newest = await this.#items.newest(log, isFinal ? indexAfter(schedule) : schedule.first, consistency);
    const count = newest === undefined ? 0 : newest.index + 1;
    const entry = newest && newestEntryOf(schedule, count);
    if (entry === undefined) return undefined;
    const head = { log, position: { segment, entry }, number: count };
    const scheduled = entryAt(schedule, entry);
    if (scheduled?.kind === 'item') return { ...head, ...this.#typeOf(newest) };
    return { ...head, type: scheduled?.kind === 'snapshot' ? VIRTUAL_TYPES.snapshot : VIRTUAL_TYPES.endSegment };
  }

  async getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    const { segment, entry } = position;
    for await (const [found] of this.entries(log, { segment, from: entry, to: entry + 1 }, consistency)) return found;
    return undefined;
  }

  async *entries(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<Entry[]> {
    yield* this.#read(log, range, options, AS_ENTRIES);
  }

  /**
   * Like {@link LogStore.items}. Besides the pages of items, it takes one query of the Segment
   * table if the range has a Snapshot entry, and one if the segment is not known yet. Tells the
   * sizes of the application's items only, and counts the entries that they become.
   */
  async *items(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<StoredItem[]> {
    yield* this.#read(log, range, options, AS_ITEMS);
  }

  async *#read<T>(
    log: LogId,
    { segment, from, to }: SegmentRange,
    { consistent, onPage, isChecked }: RangeOptions,
    translation: Translation<T>,
  ): AsyncGenerator<T[]> {
    if (from >= to) return;
    const consistency = { consistent };
    const known = await this.#segments.scheduleOf(log, segment, consistency);
    if (known === undefined) return;
    const { schedule, isFinal } = known;
    const range = { from, to: Math.min(to, isFinal ? endOf(schedule) + 1 : 1) };
    if (range.from >= range.to) return;
    const created = from === 0 && segment > 0 ? await this.#createdOf(log, segment, known.created) : known.created;
    const roots = hasSnapshotEntry(schedule, range)
      ? this.#books.items(log, { segment, ...range }, consistency)
      : none();
    let read: PageRead | undefined;
    const noteRead = (page: PageRead) => {
      read = page;
    };
    const pages = this.#items.pages(log, itemsOfRange(schedule, range), { consistent, isChecked, onPage: noteRead });
    const place = { segment: { log, segment, schedule }, range, created };
    for await (const entries of entryPages(this.#mapping, translation, place, { pages, roots })) {
      if (read !== undefined) onPage?.({ ...read, items: entries.length });
      read = undefined;
      yield entries;
    }
  }

  /** The item of a virtual entry is the one before it, with which the entry exists. */
  async nameItem(log: LogId, { segment, entry }: Position): Promise<string | undefined> {
    const known = await this.#segments.scheduleOf(log, segment, CONSISTENT);
    const scheduled = known && entryAt(known.schedule, entry);
    if (scheduled === undefined) return undefined;
    const index = scheduled.kind === 'item' ? scheduled.index : Math.max(0, scheduled.items - 1);
    if (index > maxIndex(this.#mapping)) return undefined;
    const named = namedByKey(this.#mapping, keyOf(this.#mapping, log, index));
    return index === 0 ? `${named}, with which the mapping says that the log begins` : named;
  }

  /**
   * Like {@link LogStore.completeSnapshot}. Writes the Snapshot entry with its root to the Segment
   * table.
   */
  async completeSnapshot(log: LogId, position: Position, root: RootRef): Promise<RootRef | undefined> {
    const entry = await this.getEntry(log, position, CONSISTENT);
    const where = { log, ...position };
    if (entry === undefined) throw new EntryNotFoundError('the entry does not exist', where);
    if (entry.type !== VIRTUAL_TYPES.snapshot) {
      throw new ItemInvalidError('the entry is an item of the application, not a Snapshot entry', where);
    }
    const carried = carriedRef(entry);
    if (carried !== undefined || entry.body !== undefined) return carried;
    const body = 'key' in root ? { external: root.key } : { body: { format: 'bytes', bytes: root.inline } as const };
    try {
      await this.#books.putEntries([{ ...entry, ...body }]);
      return root;
    } catch (error) {
      if (!(error instanceof EntryExistsError)) throw error;
      return this.#books.completeSnapshot(log, position, root);
    }
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    try {
      return await this.#books.replaceRoot(log, position, from, to);
    } catch (error) {
      if (!(error instanceof EntryNotFoundError)) throw error;
      // The Segment table has no entry while the snapshot is pending.
      if ((await this.getEntry(log, position, CONSISTENT)) === undefined) throw error;
      return false;
    }
  }

  /** Like {@link LogStore.advanceLastSnapshot}. Records the segment if it is not recorded yet. */
  async advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean> {
    await this.#segments.requireRecorded(log, to.position.segment);
    return this.#books.advanceLastSnapshot(log, to, from);
  }

  /** Like {@link LogStore.setEntryExpiry}. A virtual entry has no expiry. */
  async setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean> {
    const [index] = await this.#indexesOf({ log, segment: position.segment }, [position.entry]);
    if (index !== undefined) return this.#items.setExpiry(log, index, expires);
    return (await this.getEntry(log, position, CONSISTENT)) !== undefined;
  }

  /**
   * Like {@link LogStore.deleteEntries}, but only while the segment expires, in one transaction
   * that checks this. Virtual entries disappear with the items around them.
   * @throws SegmentStateError if the segment does not expire; nothing is deleted then
   */
  async deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void> {
    checkBatchItems(entries.length);
    const { expiry } = (await this.#books.getSegment(log, segment, CONSISTENT)) ?? {};
    if (expiry?.state === 'expiring' && (await this.expireEntries({ log, segment, expiry }, entries, 'delete'))) return;
    throw new SegmentStateError('the segment does not expire, so that its items stay in the table', {
      log,
      segment,
      advice: 'Try again; finished steps are not repeated',
    });
  }

  async expireEntries(segment: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    checkBatchItems(entries.length);
    return this.#items.expire(segment, await this.#indexesOf(segment, entries), how);
  }

  async unexpireEntries(segment: SegmentPlace, entries: readonly number[]): Promise<boolean> {
    checkBatchItems(entries.length);
    return this.#items.unexpire(segment, await this.#indexesOf(segment, entries));
  }

  /**
   * Writes the application's items of an archive, as they were, and leaves existing ones as they
   * are. Writes only those virtual entries that have a root.
   */
  async putItems(items: readonly Item[]): Promise<void> {
    checkBatchItems(items.length);
    const isVirtual = ({ T }: StoredItem): boolean => T?.S !== undefined && VIRTUAL_TYPES.includes(T.S);
    const roots = items.filter((item) => isVirtual(item) && (item.B !== undefined || item.E !== undefined));
    const originals = items.filter((item) => !isVirtual(item)).map((item) => toApplicationItem(this.#mapping, item));
    if (roots.length > 0) await this.#books.putItems(roots);
    if (originals.length > 0) await this.#items.put(originals);
  }

  /** Creation time of a segment that was recorded before it began, or is not recorded. */
  async #createdOf(log: LogId, segment: number, known: number | undefined): Promise<number | undefined> {
    if (known !== undefined) return known;
    const record = await this.#books.getSegment(log, segment, CONSISTENT);
    return record === undefined || record.created === 0 ? undefined : record.created;
  }

  /** Indexes of the items among entries of a segment, each once. */
  async #indexesOf({ log, segment }: SegmentPlace, entries: readonly number[]): Promise<number[]> {
    const known = await this.#segments.scheduleOf(log, segment, CONSISTENT);
    if (known === undefined) return [];
    return [...new Set(entries)].flatMap((entry) => {
      const scheduled = entryAt(known.schedule, entry);
      return scheduled?.kind === 'item' ? [scheduled.index] : [];
    });
  }

  #typeOf(newest: IndexedItem | undefined): Pick<EntryHead, 'type'> {
    const { type } = this.#mapping;
    const found = 'constant' in type ? type.constant : newest?.item[type.attribute]?.S;
    return found === undefined || found === '' ? {} : { type: found };
  }
}

async function* none(): AsyncGenerator<StoredItem[]> {}

async function refuseWrite(log: LogId | undefined): Promise<never> {
  throw new LogReadOnlyError('the application appends to this log, not logfold', {
    log,
    advice: "Append with the application's own code; logfold only reads the items of a mapped log",
  });
}
