import { isDeepStrictEqual } from 'node:util';
import { EntryExistsError, EntryNotFoundError, type ItemInvalidError, SegmentNotFoundError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import { segmentClosed } from '../../log/application-attributes.ts';
import type { Item } from '../../log/attribute.ts';
import type { Entry, EntryHead } from '../../log/entry.ts';
import { carriedRef, hasId, type RootRef, sameRoot } from '../../log/entry.ts';
import {
  archiveAttributes,
  decodeEntry,
  decodeEntryHead,
  decodeSegment,
  decodeSegments,
  type EntryPlace,
  encodeEntry,
  encodeSegment,
  entryPlace,
  isOwnItem,
  lastSnapshotAttributes,
  logAttributes,
  rootAttribute,
} from '../../log/item-codec.ts';
import { checkBatchItems, checkWriteSize } from '../../log/item-size.ts';
import type {
  AttributeUpdate,
  ExpiringSegment,
  LogStore,
  NewArchive,
  NewItems,
  NextSegment,
  ReplacementArchive,
  ScanPart,
  SegmentOrEntryPlace,
  SegmentPlace,
  SegmentRange,
  StartedSegment,
  UnreadEntries,
} from '../../log/log-store.ts';
import { idUsedTwice } from '../../log/new-entry.ts';
import { endAfter } from '../../log/newest.ts';
import { type Expiry, expiresAt, hasArchive, type LastSnapshot, type Segment, sameArchive } from '../../log/segment.ts';
import { type ItemPlace, MemoryTable, scanPartOf } from './table.ts';

export interface MemoryLogStoreOptions {
  /** Items per page, 1000 by default. */
  readonly pageItems?: number;
}

/**
 * Both tables in memory: the reference for every other log store. Every read is consistent. No
 * method awaits between reading and writing, so each method is atomic.
 */
export class MemoryLogStore implements LogStore {
  readonly reads = 'tables';
  readonly #entries = new MemoryTable();
  readonly #segments = new MemoryTable();
  readonly #pageItems: number;

  constructor(options: MemoryLogStoreOptions = {}) {
    this.#pageItems = options.pageItems ?? 1000;
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    try {
      this.#writeNew([first], [segment]);
    } catch (error) {
      if (!(error instanceof EntryExistsError)) throw error;
      throw new EntryExistsError('the log already exists', { log: segment.log });
    }
  }

  async newestSegments(log: LogId, limit: number): Promise<Segment[]> {
    return this.#segments.all(log).reverse().slice(0, limit).map(decodeSegment);
  }

  async getSegment(log: LogId, segment: number): Promise<Segment | undefined> {
    return this.#segment(log, segment);
  }

  async *segments(log: LogId): AsyncGenerator<Segment> {
    yield* this.#segments.all(log).map(decodeSegment);
  }

  async *allSegments(
    { index, of, after }: ScanPart = { index: 0, of: 1 },
    onInvalid?: (error: ItemInvalidError) => void,
  ): AsyncGenerator<Segment> {
    // A scan has a fixed order and does not return to places that it has passed.
    for (const log of this.#segments.partitions().sort()) {
      if (scanPartOf(log, of) !== index || (after !== undefined && log < after.log)) continue;
      const from = log === after?.log ? after.segment + 1 : 0;
      const range = { from, to: Number.POSITIVE_INFINITY, limit: Number.POSITIVE_INFINITY };
      yield* decodeSegments(this.#segments.range(log, range), onInvalid);
    }
  }

  async newestEntry(log: LogId, segment: number): Promise<EntryHead | undefined> {
    const partition = entryPartition(log, segment);
    const sort = this.#entries.newest(partition);
    const item = sort === undefined ? undefined : this.#entries.get({ partition, sort });
    return item && decodeEntryHead(item);
  }

  async getEntry(log: LogId, position: Position): Promise<Entry | undefined> {
    return this.#entry(log, position);
  }

  async *entries(log: LogId, range: SegmentRange): AsyncGenerator<Entry[]> {
    for await (const items of this.items(log, range)) yield items.map(decodeEntry);
  }

  async *items(log: LogId, { segment, from, to }: SegmentRange): AsyncGenerator<Item[]> {
    const partition = entryPartition(log, segment);
    for (let next = from; ; ) {
      const page = this.#entries.range(partition, { from: next, to, limit: this.#pageItems });
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      // As in DynamoDB, only a full page has a next one. Writers that never pause would else keep a
      // reader at the end.
      if (page.length < this.#pageItems) return;
      next = entryPlace(last).position.entry + 1;
    }
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    this.#writeNew(entries, []);
  }

  async startSegment({ end, first, ...started }: NextSegment): Promise<void> {
    this.#writeNew([end, first], [started.segment], () => {
      if (this.#hasSameAttributes(started)) return;
      throw new EntryExistsError('the attributes of the log changed', { log: end.log });
    });
  }

  async putAhead({ entries, segment, endedAttributes }: NewItems, unread: UnreadEntries): Promise<void> {
    this.#writeNew(entries, segment === undefined ? [] : [segment], () => {
      this.#requireUnread(unread);
      if (segment === undefined || this.#hasSameAttributes({ segment, endedAttributes })) return;
      throw new EntryNotFoundError('the attributes of the log changed', { log: segment.log });
    });
  }

  async replaceAttributes(place: SegmentPlace, from: Item | undefined, to: Item): Promise<boolean> {
    const stored = this.#segment(place.log, place.segment);
    const isOpen = this.#segment(place.log, place.segment + 1) === undefined;
    if (stored === undefined || !isOpen || !isDeepStrictEqual(stored.attributes, from)) return false;
    return this.#segments.update(placeOfSegment(place), logAttributes(to));
  }

  #hasSameAttributes({ segment, endedAttributes }: StartedSegment): boolean {
    if (segment.attributes === undefined) return true;
    const ended = this.#segment(segment.log, segment.segment - 1);
    return isDeepStrictEqual(ended?.attributes, endedAttributes);
  }

  async updateAttributes(log: LogId, position: Position, update: AttributeUpdate): Promise<Item | undefined> {
    const { set, remove, expected } = update;
    if (this.#segment(log, position.segment + 1) !== undefined) throw segmentClosed(log, position);
    const place = placeOfEntry(log, position);
    const item = this.#entries.get(place);
    if (item === undefined) throw entryNotFound(log, position);
    if (Object.entries(expected).some(([name, value]) => !isDeepStrictEqual(item[name], value))) return item;
    const removed = Object.fromEntries(remove.map((name) => [name, undefined]));
    this.#entries.update(place, { ...set, ...removed });
    return undefined;
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef, id?: Uint8Array): Promise<RootRef | undefined> {
    const stored = this.#entryOrFail(log, position);
    if (!hasId(stored, id)) throw entryNotFound(log, position);
    const existing = carriedRef(stored);
    if (existing !== undefined || stored.body !== undefined) return existing;
    const { name, value } = rootAttribute(root);
    this.#entries.update(placeOfEntry(log, position), { [name]: value });
    return root;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const carried = carriedRef(this.#entryOrFail(log, position));
    if (carried === undefined) return false;
    const segment = this.#segment(log, position.segment);
    if (segment === undefined || hasArchive(segment) || !sameRoot(carried, from)) {
      return sameRoot(carried, to);
    }
    const { name, value } = rootAttribute(to);
    this.#entries.update(placeOfEntry(log, position), { B: undefined, E: undefined, [name]: value });
    return true;
  }

  async advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean> {
    const { segment } = to.position;
    const stored = this.#segment(log, segment);
    if (stored === undefined) throw new SegmentNotFoundError('the segment does not exist', { log, segment });
    if (hasArchive(stored) || stored.foreign?.L !== undefined || !isDeepStrictEqual(stored.lastSnapshot, from))
      return false;
    return this.#segments.update({ partition: log, sort: segment }, { ...lastSnapshotAttributes(to) });
  }

  async removeAttributes({ log, segment, entry }: SegmentOrEntryPlace, attributes: Item): Promise<boolean> {
    const table = entry === undefined ? this.#segments : this.#entries;
    const place = entry === undefined ? { partition: log, sort: segment } : placeOfEntry(log, { segment, entry });
    const item = table.get(place);
    if (item === undefined || !isDeepStrictEqual({ ...item, ...attributes }, item)) return false;
    return table.update(place, Object.fromEntries(Object.keys(attributes).map((name) => [name, undefined])));
  }

  async setArchive(segment: Segment, archive: NewArchive): Promise<boolean> {
    const { root } = archive;
    const stored = this.#segment(segment.log, segment.segment);
    if (stored === undefined) return false;
    if (stored.archive !== undefined) return sameArchive(stored.archive, archive);
    const isSame = isDeepStrictEqual(encodeSegment(stored).L, encodeSegment(segment).L);
    if (hasArchive(stored) || !isSame || !this.#carries(segment, root)) return false;
    return this.#segments.update(placeOfSegment(segment), { ...archiveAttributes(archive) });
  }

  async replaceArchive(segment: Segment, archive: ReplacementArchive): Promise<boolean> {
    const { root } = archive;
    const { log, segment: number, lastSnapshot } = segment;
    const stored = this.#segment(log, number);
    if (stored?.archive === undefined || segment.archive === undefined) return false;
    const isSame = sameArchive(stored.archive, segment.archive) && isDeepStrictEqual(stored.lastSnapshot, lastSnapshot);
    if (!isSame) return sameArchive(stored.archive, archive);
    if (lastSnapshot !== undefined && root !== undefined) {
      const { position } = lastSnapshot;
      const entry = this.#entry(log, position);
      const carried = entry && carriedRef(entry);
      if (entry !== undefined && (carried === undefined || !sameRoot(carried, root.from))) return false;
      const { name, value } = rootAttribute(root.to);
      this.#entries.update(placeOfEntry(log, position), { B: undefined, E: undefined, [name]: value });
    }
    return this.#segments.update(placeOfSegment(segment), { ...archiveAttributes(archive) });
  }

  async setExpiration(segment: Segment, to: Expiry | undefined): Promise<boolean> {
    const stored = this.#segment(segment.log, segment.segment);
    if (stored === undefined) return false;
    const wanted = encodeSegment({ ...segment, expiry: to });
    if (!isDeepStrictEqual(encodeSegment(stored), encodeSegment(segment))) {
      return isDeepStrictEqual(encodeSegment(stored), wanted);
    }
    return this.#segments.update(placeOfSegment(segment), { G: wanted.G, D: wanted.D });
  }

  async setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean> {
    const X = expires === undefined ? undefined : { N: String(expires) };
    return this.#entries.update(placeOfEntry(log, position), { X });
  }

  async deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void> {
    checkBatchItems(entries.length);
    for (const entry of entries) this.#entries.delete(placeOfEntry(log, { segment, entry }));
  }

  async expireEntries(leaving: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    checkBatchItems(entries.length);
    const { log, segment, expiry } = leaving;
    const stored = this.#segment(log, segment);
    if (stored === undefined || expiresAt(stored) !== expiry.at) return false;
    if (how === 'delete') await this.deleteEntries(log, segment, entries);
    else for (const entry of entries) await this.setEntryExpiry(log, { segment, entry }, expiry.at);
    return true;
  }

  async unexpireEntries({ log, segment }: SegmentPlace, entries: readonly number[]): Promise<boolean> {
    checkBatchItems(entries.length);
    if (this.#segment(log, segment)?.expiry?.state !== 'on hold') return false;
    for (const entry of entries) await this.setEntryExpiry(log, { segment, entry }, undefined);
    return true;
  }

  async putItems(items: readonly Item[]): Promise<void> {
    checkBatchItems(items.length);
    const puts = items.map((item) => {
      checkWriteSize([item]);
      const { log, position } = entryPlace(item);
      return { item, place: placeOfEntry(log, position) };
    });
    for (const { item, place } of puts) this.#entries.put(place, item);
  }

  async putSegment(segment: Segment): Promise<boolean> {
    const place = placeOfSegment(segment);
    if (this.#segments.has(place)) return false;
    this.#segments.put(place, encodeSegment(segment));
    return true;
  }

  isRetryable(): boolean {
    return false;
  }

  /**
   * Deletes expired entries, as DynamoDB's TTL does at any time after the expiry (`X`).
   * @param now epoch seconds
   * @param choose selects the entries to delete; all by default
   * @returns the deleted entries
   */
  expireNow(now: number, choose: (entry: EntryPlace) => boolean = () => true): EntryPlace[] {
    const items = this.#entries.partitions().flatMap((partition) => this.#entries.all(partition));
    const over = items.filter(({ X }) => X !== undefined && 'N' in X && Number(X.N) <= now);
    const chosen = over.map(entryPlace).filter(choose);
    for (const { log, position } of chosen) this.#entries.delete(placeOfEntry(log, position));
    return chosen;
  }

  /** The expiry of a segment, for a write to another table in the same transaction. */
  expiryOf({ log, segment }: SegmentPlace): Expiry | undefined {
    return this.#segment(log, segment)?.expiry;
  }

  /** Writes the creation time of a segment that has the creation time 0. */
  beginSegment(segment: Segment): void {
    if (this.#segment(segment.log, segment.segment)?.created !== 0) return;
    this.#segments.update(placeOfSegment(segment), { C: { N: String(segment.created) } });
  }

  /** Sets attributes of a segment's item, as another program may. */
  setForeign(place: SegmentPlace, attributes: Item): boolean {
    return this.#segments.update({ partition: place.log, sort: place.segment }, attributes);
  }

  #requireUnread({ log, after, count, types }: UnreadEntries): void {
    for (let i = 1; i <= count; i++) {
      const { position, number } = endAfter(after, i);
      const item = this.#entries.get(placeOfEntry(log, position));
      const found = item && decodeEntryHead(item);
      if (found !== undefined && found.number === number && !types.includes(found.type ?? '')) continue;
      throw new EntryNotFoundError('the entries before are not as expected', { log, ...position });
    }
  }

  /**
   * Writes all items, or none if one of them exists.
   * @param check throws if a further condition does not hold
   */
  #writeNew(entries: readonly Entry[], segments: readonly Segment[], check?: () => void): void {
    const writes = [
      ...entries.map((entry) => {
        const { segment, entry: number } = entry.position;
        const where = { log: entry.log, segment, entry: number };
        const place = placeOfEntry(entry.log, entry.position);
        return { table: this.#entries, place, item: encodeEntry(entry), where };
      }),
      ...segments.map((segment) => {
        const where = { log: segment.log, segment: segment.segment };
        return { table: this.#segments, place: placeOfSegment(segment), item: encodeSegment(segment), where };
      }),
    ];
    checkWriteSize(writes.map(({ item }) => item));
    const own = (entry: Entry): boolean => {
      const stored = this.#entries.get(placeOfEntry(entry.log, entry.position));
      return stored !== undefined && isOwnItem(stored, entry);
    };
    // An earlier attempt of the same request wrote all items.
    const other = entries.find((entry) => !own(entry));
    if (entries.some(own) && other !== undefined) throw idUsedTwice(other, entries.filter(own));
    if (entries.some(own)) return;
    for (const { table, place, where } of writes) {
      if (table.has(place)) throw new EntryExistsError('the item already exists', where);
    }
    check?.();
    for (const { table, place, item } of writes) table.put(place, item);
  }

  /** Whether the entry of Last Snapshot carries this root; true if one of both is undefined. */
  #carries({ log, lastSnapshot }: Segment, root: RootRef | undefined): boolean {
    if (lastSnapshot === undefined || root === undefined) return true;
    const entry = this.#entry(log, lastSnapshot.position);
    const carried = entry && carriedRef(entry);
    return carried !== undefined && sameRoot(carried, root);
  }

  #entry(log: LogId, position: Position): Entry | undefined {
    const item = this.#entries.get(placeOfEntry(log, position));
    return item && decodeEntry(item);
  }

  #entryOrFail(log: LogId, position: Position): Entry {
    const entry = this.#entry(log, position);
    if (entry !== undefined) return entry;
    throw entryNotFound(log, position);
  }

  #segment(log: LogId, segment: number): Segment | undefined {
    const item = this.#segments.get({ partition: log, sort: segment });
    return item && decodeSegment(item);
  }
}

function entryNotFound(log: LogId, { segment, entry }: Position): EntryNotFoundError {
  return new EntryNotFoundError('the entry does not exist', { log, segment, entry });
}

function entryPartition(log: LogId, segment: number): string {
  return `${log}/${segment}`;
}

function placeOfEntry(log: LogId, { segment, entry }: Position): ItemPlace {
  return { partition: entryPartition(log, segment), sort: entry };
}

function placeOfSegment({ log, segment }: SegmentPlace): ItemPlace {
  return { partition: log, sort: segment };
}
