import type { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { ItemInvalidError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import type { Entry, EntryHead, RootRef } from '../../src/log/entry.ts';
import { decodeEntry, encodeEntry, encodeSegment, entryPlace } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import type {
  AttributeUpdate,
  Consistency,
  ExpiringSegment,
  LogStore,
  NewArchive,
  NewItems,
  NextSegment,
  RangeOptions,
  ReplacementArchive,
  ScanPart,
  SegmentOrEntryPlace,
  SegmentPlace,
  SegmentRange,
  UnreadEntries,
} from '../../src/log/log-store.ts';
import { endAfter } from '../../src/log/newest.ts';
import type { Expiry, LastSnapshot, Segment } from '../../src/log/segment.ts';
import { changeUnits, PAGE_BYTES, pagesOf, readUnits, transactionUnits } from './units.ts';

const EVENTUAL: Consistency = { consistent: false };
const CONSISTENT: Consistency = { consistent: true };

/** Counts of requests and units; see {@link Work}. */
export interface TableCounts {
  requests: number;
  writeUnits: number;
  readUnits: number;
  scans: number;
  scannedBytes: number;
}

/**
 * Tables in memory that count the requests of the DynamoDB adapter and the units that DynamoDB
 * bills. A write with a failed condition is billed like any other write.
 */
export class BilledLogStore implements LogStore {
  readonly reads = 'tables';
  readonly counts: TableCounts = { requests: 0, writeUnits: 0, readUnits: 0, scans: 0, scannedBytes: 0 };
  readonly #inner: MemoryLogStore;
  readonly #onInsert: (entry: Entry) => void;

  /** @param onInsert receives each new entry, as the table's stream does */
  constructor(inner: MemoryLogStore, onInsert: (entry: Entry) => void) {
    this.#inner = inner;
    this.#onInsert = onInsert;
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    this.#transact([changeUnits(undefined, encodeSegment(segment)), changeUnits(undefined, encodeEntry(first))]);
    await this.#inner.createLog(segment, first);
    this.#onInsert(first);
  }

  async newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    const segments = await this.#inner.newestSegments(log, limit);
    this.#read(bytesOf(segments.map(encodeSegment)), consistency);
    return segments;
  }

  async getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    const found = await this.#inner.getSegment(log, segment);
    this.#read(found === undefined ? 0 : itemBytes(encodeSegment(found)), consistency);
    return found;
  }

  async *segments(log: LogId, consistency: Consistency = EVENTUAL): AsyncGenerator<Segment> {
    const segments = await Array.fromAsync(this.#inner.segments(log));
    for (const { bytes } of pagesOf(segments.map(encodeSegment))) this.#read(bytes, consistency);
    yield* segments;
  }

  async *allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncGenerator<Segment> {
    const segments = await Array.fromAsync(this.#inner.allSegments(part, onInvalid));
    const bytes = bytesOf(segments.map(encodeSegment));
    this.counts.scans += Math.max(1, Math.ceil(bytes / PAGE_BYTES));
    this.counts.scannedBytes += bytes;
    yield* segments;
  }

  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    const entry = await this.#inner.newestEntry(log, segment);
    // DynamoDB bills the whole item for any attributes that it returns.
    const item = entry && (await this.#entryItem(log, entry.position));
    this.#read(item === undefined ? 0 : itemBytes(item), consistency);
    return entry;
  }

  async getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    const item = await this.#entryItem(log, position);
    this.#read(item === undefined ? 0 : itemBytes(item), consistency);
    return item && decodeEntry(item);
  }

  async *entries(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<Entry[]> {
    for await (const items of this.items(log, range, options)) yield items.map(decodeEntry);
  }

  async *items(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<StoredItem[]> {
    if (range.from >= range.to) return;
    const items = (await Array.fromAsync(this.#inner.items(log, range))).flat();
    for (const page of pagesOf(items)) {
      this.#read(page.bytes, options);
      options.onPage?.({ items: page.items.length, bytes: page.bytes, attempts: 1 });
      if (page.items.length > 0) yield page.items;
    }
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    const units = entries.map((entry) => changeUnits(undefined, encodeEntry(entry)));
    if (units.length === 1) this.#write(units);
    else this.#transact(units);
    await this.#inner.putEntries(entries);
    entries.forEach(this.#onInsert);
  }

  async replaceAttributes(place: SegmentPlace, from: Item | undefined, to: Item): Promise<boolean> {
    const read = () => this.#segmentItem(place.log, place.segment);
    const before = await read();
    const replaced = await this.#inner.replaceAttributes(place, from, to);
    this.#transact([changeUnits(before, await read()), changeUnits(undefined, undefined)]);
    return replaced;
  }

  async startSegment(items: NextSegment): Promise<void> {
    const { end, segment, first } = items;
    const written = [encodeEntry(end), encodeSegment(segment), encodeEntry(first)];
    const ended = segment.attributes && (await this.#segmentItem(segment.log, segment.segment - 1));
    const checked = ended === undefined ? [] : [changeUnits(ended, ended)];
    this.#transact([...written.map((item) => changeUnits(undefined, item)), ...checked]);
    await this.#inner.startSegment(items);
    this.#onInsert(end);
    this.#onInsert(first);
  }

  async putAhead(items: NewItems, unread: UnreadEntries): Promise<void> {
    const { entries, segment } = items;
    const written = [...entries.map(encodeEntry), ...(segment === undefined ? [] : [encodeSegment(segment)])];
    const checked: number[] = [];
    for (let i = 1; i <= unread.count; i++) {
      const item = await this.#entryItem(unread.log, endAfter(unread.after, i).position);
      checked.push(changeUnits(item, item));
    }
    this.#transact([...written.map((item) => changeUnits(undefined, item)), ...checked]);
    await this.#inner.putAhead(items, unread);
    entries.forEach(this.#onInsert);
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef, id?: Uint8Array): Promise<RootRef | undefined> {
    const before = await this.#entryItem(log, position);
    const carried = await this.#inner.completeSnapshot(log, position, root, id);
    this.#write([changeUnits(before, await this.#entryItem(log, position))]);
    // The entry carries another root, which the adapter reads.
    if (carried !== root) await this.getEntry(log, position, CONSISTENT);
    return carried;
  }

  async updateAttributes(log: LogId, position: Position, update: AttributeUpdate): Promise<StoredItem | undefined> {
    const before = await this.#entryItem(log, position);
    const present = await this.#inner.updateAttributes(log, position, update);
    this.#transact([changeUnits(before, await this.#entryItem(log, position)), changeUnits(undefined, undefined)]);
    return present;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const before = await this.#entryItem(log, position);
    const segment = await this.#segmentItem(log, position.segment);
    const replaced = await this.#inner.replaceRoot(log, position, from, to);
    this.#transact([changeUnits(before, await this.#entryItem(log, position)), changeUnits(segment, segment)]);
    if (!replaced) await this.getEntry(log, position, CONSISTENT);
    return replaced;
  }

  async removeAttributes(place: SegmentOrEntryPlace, attributes: Item): Promise<boolean> {
    const { log, segment, entry } = place;
    const read = () =>
      entry === undefined ? this.#segmentItem(log, segment) : this.#entryItem(log, { segment, entry });
    const before = await read();
    const removed = await this.#inner.removeAttributes(place, attributes);
    this.#write([changeUnits(before, await read())]);
    return removed;
  }

  async advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean> {
    const { segment } = to.position;
    const before = await this.#segmentItem(log, segment);
    const moved = await this.#inner.advanceLastSnapshot(log, to, from);
    this.#write([changeUnits(before, await this.#segmentItem(log, segment))]);
    if (!moved) await this.getSegment(log, segment, CONSISTENT);
    return moved;
  }

  async setArchive(segment: Segment, archive: NewArchive): Promise<boolean> {
    const { log, segment: number, lastSnapshot } = segment;
    const before = await this.#segmentItem(log, number);
    const set = await this.#inner.setArchive(segment, archive);
    const units = [changeUnits(before, await this.#segmentItem(log, number))];
    if (lastSnapshot !== undefined && archive.root !== undefined) {
      const checked = await this.#entryItem(log, lastSnapshot.position);
      units.push(changeUnits(checked, checked));
    }
    this.#transact(units);
    if (!set) await this.getSegment(log, number, CONSISTENT);
    return set;
  }

  async replaceArchive(segment: Segment, archive: ReplacementArchive): Promise<boolean> {
    const { log, segment: number, lastSnapshot } = segment;
    const before = await this.#segmentItem(log, number);
    const place = lastSnapshot?.position ?? { segment: number, entry: 0 };
    const isRootReplaced = lastSnapshot !== undefined && archive.root !== undefined;
    const entry = isRootReplaced ? await this.getEntry(log, place, CONSISTENT) : undefined;
    const entryBefore = entry && (await this.#entryItem(log, place));
    const named = await this.#inner.replaceArchive(segment, archive);
    const units = [changeUnits(before, await this.#segmentItem(log, number))];
    if (entry !== undefined) units.push(changeUnits(entryBefore, await this.#entryItem(log, place)));
    this.#transact(units);
    if (!named) await this.getSegment(log, number, CONSISTENT);
    return named;
  }

  async setExpiration(segment: Segment, to: Expiry | undefined): Promise<boolean> {
    const { log, segment: number } = segment;
    const before = await this.#segmentItem(log, number);
    const set = await this.#inner.setExpiration(segment, to);
    this.#write([changeUnits(before, await this.#segmentItem(log, number))]);
    if (!set) await this.getSegment(log, number, CONSISTENT);
    return set;
  }

  async setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean> {
    const before = await this.#entryItem(log, position);
    const set = await this.#inner.setEntryExpiry(log, position, expires);
    this.#write([changeUnits(before, await this.#entryItem(log, position))]);
    return set;
  }

  async deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void> {
    const units: number[] = [];
    for (const entry of new Set(entries)) {
      units.push(changeUnits(await this.#entryItem(log, { segment, entry }), undefined));
    }
    this.#write(units);
    await this.#inner.deleteEntries(log, segment, entries);
  }

  expireEntries(leaving: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    return this.#together(leaving, entries, () => this.#inner.expireEntries(leaving, entries, how));
  }

  unexpireEntries(place: SegmentPlace, entries: readonly number[]): Promise<boolean> {
    return this.#together(place, entries, () => this.#inner.unexpireEntries(place, entries));
  }

  async #together(
    { log, segment }: SegmentPlace,
    entries: readonly number[],
    change: () => Promise<boolean>,
  ): Promise<boolean> {
    const places = [...new Set(entries)].map((entry) => ({ segment, entry }));
    const before = await Promise.all(places.map((place) => this.#entryItem(log, place)));
    const changed = await change();
    const after = await Promise.all(places.map((place) => this.#entryItem(log, place)));
    const stored = await this.#segmentItem(log, segment);
    this.#transact([changeUnits(stored, stored), ...before.map((item, i) => changeUnits(item, after[i]))]);
    if (!changed) await this.getSegment(log, segment, CONSISTENT);
    return changed;
  }

  async putItems(items: readonly Item[]): Promise<void> {
    const units: number[] = [];
    for (const item of items) {
      const { log, position } = entryPlace(item);
      units.push(changeUnits(await this.#entryItem(log, position), item));
    }
    this.#write(units);
    await this.#inner.putItems(items);
  }

  async putSegment(segment: Segment): Promise<boolean> {
    const before = await this.#segmentItem(segment.log, segment.segment);
    this.#write([changeUnits(before, encodeSegment(segment))]);
    return this.#inner.putSegment(segment);
  }

  isRetryable(): boolean {
    return false;
  }

  #read(bytes: number, consistency: Consistency): void {
    this.counts.requests++;
    this.counts.readUnits += readUnits(bytes, consistency);
  }

  /** Counts one request with one or several writes. */
  #write(units: readonly number[]): void {
    this.counts.requests++;
    this.counts.writeUnits += units.reduce((sum, each) => sum + each, 0);
  }

  #transact(units: readonly number[]): void {
    this.counts.requests++;
    this.counts.writeUnits += transactionUnits(units);
  }

  async #entryItem(log: LogId, position: Position): Promise<Item | undefined> {
    const { segment, entry } = position;
    for await (const [item] of this.#inner.items(log, { segment, from: entry, to: entry + 1 })) return item;
    return undefined;
  }

  async #segmentItem(log: LogId, segment: number): Promise<Item | undefined> {
    const found = await this.#inner.getSegment(log, segment);
    return found && encodeSegment(found);
  }
}

function bytesOf(items: readonly StoredItem[]): number {
  return items.reduce((sum, item) => sum + itemBytes(item), 0);
}
