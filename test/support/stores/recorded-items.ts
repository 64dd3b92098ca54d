import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { ItemInvalidError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Item } from '../../../src/log/attribute.ts';
import type { Consistency, ExpiringSegment, SegmentPlace } from '../../../src/log/log-store.ts';
import type { Segment } from '../../../src/log/segment.ts';
import type { IndexedItem, IndexRange, LogPage, MappedItems } from '../../../src/mapping/mapped-items.ts';
import type { ItemScanPart } from '../../../src/store/scan-places.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import type { Random } from '../models/random.ts';
import type { ApplicationSchema } from '../simulation/application-items.ts';
import type { MemoryMappedItems } from './memory-mapped-items.ts';
import { type RecordedLogStore, STALE_MS } from './recorded-log-store.ts';

/** An item of the application, and its life in the table. */
export interface RecordedItem {
  readonly log: LogId;
  readonly index: number;
  /** The item as the application wrote it. */
  readonly written: Item;
  /** Time of the write, in epoch milliseconds. */
  readonly atMs: number;
  /** The item after each change, in order; undefined after a deletion. */
  readonly versions: { readonly atMs: number; readonly item: Item | undefined }[];
}

export interface RecordedItemsOptions {
  readonly inner: MemoryMappedItems;
  readonly schema: ApplicationSchema;
  readonly books: RecordedLogStore;
  readonly random: Random;
  readonly now: () => number;
  readonly onRecord: (record: StreamRecord) => void;
  /** Called for each item that is gone from the table. */
  readonly onGone: (item: RecordedItem) => void;
}

/** Items of one page. */
const PAGE_ITEMS = 7;

/**
 * The table of an application, which records every item as the application wrote it and creates a
 * stream record for every write. One in five eventually consistent reads shows an earlier state.
 * After every write the items are as the application wrote them, except for the expiry.
 */
export class RecordedItems implements MappedItems {
  writes = 0;
  stamps = 0;
  readonly #options: RecordedItemsOptions;
  readonly #logs = new Map<LogId, Map<number, RecordedItem>>();
  /** The same items by primary key. */
  readonly #byKey = new Map<string, RecordedItem>();
  #sequence = 0;

  constructor(options: RecordedItemsOptions) {
    this.#options = options;
  }

  /** The items that the application wrote, in the order of their indexes. */
  written(log: LogId): RecordedItem[] {
    return [...(this.#logs.get(log)?.values() ?? [])].sort((a, b) => a.index - b.index);
  }

  /** The application puts an item unless its key exists. Returns whether it was put. */
  insert(log: LogId, index: number, item: Item): boolean {
    const recorded = this.#item(log, index);
    if (recorded !== undefined) {
      if (presentItem(recorded) !== undefined) return false;
      throw new Error(`the application gave item ${index} of '${log}' a second time, because the first had expired`);
    }
    this.#options.inner.insert(item);
    const atMs = this.#options.now();
    const items = this.#logs.get(log) ?? new Map<number, RecordedItem>();
    const inserted = { log, index, written: item, atMs, versions: [{ atMs, item }] };
    this.#logs.set(log, items);
    items.set(index, inserted);
    this.#byKey.set(this.#name(item), inserted);
    this.writes++;
    this.#record({ eventName: 'INSERT', keys: this.#keys(item), newImage: item });
    return true;
  }

  /**
   * The application writes another item in place of one in the table.
   * @returns false if the table does not have it
   */
  correct(log: LogId, index: number, item: Item): boolean {
    const recorded = this.#item(log, index);
    if (recorded === undefined || presentItem(recorded) === undefined) return false;
    this.#options.inner.delete(item);
    this.#options.inner.insert(item);
    this.#changed(recorded, item);
    return true;
  }

  /** The application puts an item of another kind, which only the stream shows to logfold. */
  insertOther(item: Item): void {
    this.#record({ eventName: 'INSERT', keys: this.#keys(item), newImage: item });
  }

  /** The index of a log's newest item, as the application finds it; -1 if there is none. */
  newestIndex(log: LogId): number {
    return this.written(log).findLast((item) => presentItem(item) !== undefined)?.index ?? -1;
  }

  /** @returns how many expired items were deleted */
  expireNow(now: number, choose: () => boolean): number {
    if (this.#options.schema.ttl === undefined) return 0;
    const gone = this.#options.inner.expireNow(now, choose);
    for (const key of gone) {
      const recorded = this.#byKey.get(this.#name(key));
      if (recorded !== undefined) this.#deleted([recorded]);
    }
    return gone.length;
  }

  /** Compares the items in the table, byte for byte, with what the application wrote. */
  async checkTable(): Promise<void> {
    for (const log of this.#logs.keys()) {
      const everything = { from: 0, to: Number.POSITIVE_INFINITY };
      const pages = await Array.fromAsync(this.#options.inner.pages(log, everything, { consistent: true }));
      const expected = this.written(log)
        .map(presentItem)
        .filter((item) => item !== undefined);
      assert.deepEqual(
        pages.flat().map(({ item }) => item),
        expected,
        `items of '${log}'`,
      );
    }
  }

  async newest(log: LogId, below: number, consistency: Consistency): Promise<IndexedItem | undefined> {
    const horizon = this.#horizon(consistency);
    if (horizon === undefined) return this.#options.inner.newest(log, below);
    return this.#shown(log, { from: 0, to: below }, horizon).at(-1);
  }

  async *pages(log: LogId, { from, to }: IndexRange, consistency: Consistency): AsyncGenerator<IndexedItem[]> {
    for (let next = from; next < to; ) {
      const horizon = this.#horizon(consistency) ?? Number.POSITIVE_INFINITY;
      const page = this.#shown(log, { from: next, to }, horizon).slice(0, PAGE_ITEMS);
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      next = last.index + 1;
    }
  }

  logs(part: ItemScanPart, onInvalid: (error: ItemInvalidError) => void): AsyncIterable<LogPage> {
    return this.#options.inner.logs(part, onInvalid);
  }

  async putSegment(segment: Segment): Promise<boolean> {
    const written = await this.#options.inner.putSegment(segment);
    if (written) await this.#options.books.segmentChanged(segment.log, segment.segment);
    return written;
  }

  async beginSegment(segment: Segment): Promise<void> {
    await this.#options.inner.beginSegment(segment);
    await this.#options.books.segmentChanged(segment.log, segment.segment);
  }

  async put(items: readonly Item[]): Promise<void> {
    await this.#options.inner.put(items);
    for (const item of items) {
      const name = this.#name(item);
      const recorded = this.#byKey.get(name);
      if (recorded === undefined) throw new Error(`${name} was put, and the application never wrote it`);
      if (!isDeepStrictEqual(item, recorded.written)) throw new Error(`another item than before was put at ${name}`);
      if (presentItem(recorded) !== undefined) continue;
      this.#changed(recorded, item);
      this.#record({ eventName: 'INSERT', keys: this.#keys(item), newImage: item });
    }
  }

  async expire(segment: ExpiringSegment, indexes: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    const went = await this.#options.inner.expire(segment, indexes, how);
    if (went && how === 'delete') this.#deleted(this.#items(segment.log, indexes));
    if (went && how === 'ttl') await this.#stamped(segment.log, indexes);
    return went;
  }

  async unexpire(place: SegmentPlace, indexes: readonly number[]): Promise<boolean> {
    const kept = await this.#options.inner.unexpire(place, indexes);
    if (kept) await this.#stamped(place.log, indexes);
    return kept;
  }

  async setExpiry(log: LogId, index: number, expires: number | undefined): Promise<boolean> {
    const set = await this.#options.inner.setExpiry(log, index, expires);
    if (set) await this.#stamped(log, [index]);
    return set;
  }

  #deleted(items: readonly RecordedItem[]): void {
    for (const recorded of items) {
      if (presentItem(recorded) === undefined) continue;
      this.#changed(recorded, undefined);
      this.#record({ eventName: 'REMOVE', keys: this.#keys(recorded.written) });
      this.#options.onGone(recorded);
    }
  }

  /** Only the expiry of these items may have changed. */
  async #stamped(log: LogId, indexes: readonly number[]): Promise<void> {
    this.stamps++;
    const { inner, schema } = this.#options;
    for (const recorded of this.#items(log, indexes)) {
      const { index, written } = recorded;
      const [page] = await Array.fromAsync(inner.pages(log, { from: index, to: index + 1 }, { consistent: true }));
      const stamp = schema.ttl === undefined ? undefined : page?.[0]?.item[schema.ttl];
      const item =
        stamp?.N === undefined || schema.ttl === undefined ? written : { ...written, [schema.ttl]: { N: stamp.N } };
      if (page === undefined) continue;
      this.#changed(recorded, item);
      this.#record({ eventName: 'MODIFY', keys: this.#keys(written), newImage: item });
    }
  }

  #changed({ versions }: RecordedItem, item: Item | undefined): void {
    this.writes++;
    versions.push({ atMs: this.#options.now(), item });
  }

  #items(log: LogId, indexes: readonly number[]): RecordedItem[] {
    return indexes.flatMap((index) => this.#item(log, index) ?? []);
  }

  #item(log: LogId, index: number): RecordedItem | undefined {
    return this.#logs.get(log)?.get(index);
  }

  /** The time whose state a read shows, in epoch milliseconds; undefined for the present. */
  #horizon({ consistent }: Consistency): number | undefined {
    const { random, now } = this.#options;
    return consistent || !random.chance(0.2) ? undefined : now() - random.integer(1, STALE_MS);
  }

  #shown(log: LogId, { from, to }: IndexRange, horizon: number): { readonly index: number; readonly item: Item }[] {
    return this.written(log)
      .filter(({ index }) => index >= from && index < to)
      .flatMap(({ index, versions }) => {
        const item = versions.findLast(({ atMs }) => atMs <= horizon)?.item;
        return item === undefined ? [] : [{ index, item }];
      });
  }

  #keys(item: Item): Item {
    const { partitionKey, sortKey } = this.#options.schema;
    const keys = [partitionKey.name, sortKey.name];
    return Object.fromEntries(Object.entries(item).filter(([name]) => keys.includes(name)));
  }

  #name(item: Item): string {
    return JSON.stringify(this.#keys(item));
  }

  #record(change: Pick<StreamRecord, 'eventName' | 'keys' | 'newImage'>): void {
    const sequenceNumber = String(++this.#sequence);
    const eventId = `event-${sequenceNumber}`;
    this.#options.onRecord({ ...change, eventId, sequenceNumber, createdMs: this.#options.now() });
  }
}

/** The item as it is in the table now; undefined if it is gone. */
function presentItem({ versions }: RecordedItem): Item | undefined {
  return versions.at(-1)?.item;
}
