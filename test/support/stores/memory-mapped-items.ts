import type { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { type ItemPlace, MemoryTable, scanPartOf } from '../../../src/adapters/memory/table.ts';
import { EntryExistsError, type ItemInvalidError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { checkBatchItems, checkWriteSize } from '../../../src/log/item-size.ts';
import type { Consistency, ExpiringSegment, SegmentPlace } from '../../../src/log/log-store.ts';
import type { Segment } from '../../../src/log/segment.ts';
import { indexOfKey, keyOf, logOfKey } from '../../../src/mapping/key-pattern.ts';
import {
  type IndexedItem,
  type IndexRange,
  type LogPage,
  type MappedItems,
  ttlOf,
} from '../../../src/mapping/mapped-items.ts';
import type { SchemaMapping } from '../../../src/mapping/schema-mapping.ts';
import type { ItemScanPart } from '../../../src/store/scan-places.ts';

export interface MemoryMappedItemsOptions {
  readonly mapping: SchemaMapping;
  /** Holds the Segment table. */
  readonly books: MemoryLogStore;
  /** Items per page, 1000 by default. */
  readonly pageItems?: number;
}

/**
 * An application's table in memory: the reference for every other one. Every read is consistent. No
 * method awaits between reading and writing, so each method is atomic.
 */
export class MemoryMappedItems implements MappedItems {
  readonly #table = new MemoryTable();
  readonly #mapping: SchemaMapping;
  readonly #books: MemoryLogStore;
  readonly #pageItems: number;

  constructor({ mapping, books, pageItems = 1000 }: MemoryMappedItemsOptions) {
    this.#mapping = mapping;
    this.#books = books;
    this.#pageItems = pageItems;
  }

  /**
   * Writes an item as the application does.
   * @throws EntryExistsError if the item exists
   */
  insert(item: Item): void {
    checkWriteSize([item]);
    const place = this.#placeOf(item);
    if (this.#table.has(place)) throw new EntryExistsError('the item already exists');
    this.#table.put(place, item);
  }

  /** Changes an item as an application does that does not keep to its log. */
  replace(item: Item): void {
    checkWriteSize([item]);
    this.#table.put(this.#placeOf(item), item);
  }

  async newest(log: LogId, below: number): Promise<IndexedItem | undefined> {
    const highest = Math.min(below - 1, this.#table.newest(log) ?? -1);
    for (let index = highest; index >= 0; index--) {
      const item = this.#table.get({ partition: log, sort: index });
      if (item !== undefined) return { index, item };
    }
    return undefined;
  }

  async *pages(log: LogId, { from, to }: IndexRange, _?: Consistency): AsyncGenerator<IndexedItem[]> {
    for (let next = from; ; ) {
      const page = this.#table.range(log, { from: next, to, limit: this.#pageItems });
      const items = page.map((item) => ({ index: indexOfKey(this.#mapping, item), item }));
      const last = items.at(-1);
      if (last === undefined) return;
      yield items;
      // As in DynamoDB, only a full page has a next one.
      if (page.length < this.#pageItems) return;
      next = last.index + 1;
    }
  }

  async *logs(
    { index, of, after }: ItemScanPart,
    _: (error: ItemInvalidError) => void = () => undefined,
  ): AsyncGenerator<LogPage> {
    for (const partition of this.#table.partitions().sort()) {
      if (scanPartOf(partition, of) !== index || (after !== undefined && partition <= after)) continue;
      const [item] = this.#table.all(partition);
      const log = item && logOfKey(this.#mapping, item);
      yield { logs: log === undefined ? [] : [{ log, after: partition }], next: partition };
    }
  }

  async putSegment(segment: Segment): Promise<boolean> {
    if (this.#table.has({ partition: segment.log, sort: segment.schedule?.first ?? 0 })) return false;
    return this.#books.putSegment(segment);
  }

  async beginSegment(segment: Segment): Promise<void> {
    this.#books.beginSegment(segment);
  }

  async put(items: readonly Item[]): Promise<void> {
    checkBatchItems(items.length);
    for (const item of items) {
      const place = this.#placeOf(item);
      if (!this.#table.has(place)) this.#table.put(place, item);
    }
  }

  async expire(segment: ExpiringSegment, indexes: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    checkBatchItems(indexes.length);
    const { log, expiry } = segment;
    const stored = this.#books.expiryOf(segment);
    if (stored === undefined || stored.state === 'on hold' || stored.at !== expiry.at) return false;
    for (const index of indexes) {
      if (how === 'delete') this.#table.delete({ partition: log, sort: index });
      else this.#stamp(log, index, expiry.at);
    }
    return true;
  }

  async unexpire(segment: SegmentPlace, indexes: readonly number[]): Promise<boolean> {
    checkBatchItems(indexes.length);
    if (this.#books.expiryOf(segment)?.state !== 'on hold') return false;
    for (const index of indexes) this.#stamp(segment.log, index, undefined);
    return true;
  }

  async setExpiry(log: LogId, index: number, expires: number | undefined): Promise<boolean> {
    return this.#stamp(log, index, expires);
  }

  /**
   * Deletes expired items, as DynamoDB's TTL does at any time after the expiry.
   * @param now epoch seconds
   * @param choose selects the items to delete; all by default
   * @returns the primary keys of the deleted items
   */
  expireNow(now: number, choose: (item: Item) => boolean = () => true): Item[] {
    const ttl = ttlOf(this.#mapping);
    const items = this.#table.partitions().flatMap((partition) => this.#table.all(partition));
    const isOver = (item: Item): boolean => {
      const expires = item[ttl];
      return expires !== undefined && 'N' in expires && Number(expires.N) <= now;
    };
    return items.filter((item) => isOver(item) && choose(item)).map((item) => this.delete(item));
  }

  /**
   * Deletes an item as another program may.
   * @returns its primary key
   */
  delete(item: Item): Item {
    const { partition, sort } = this.#placeOf(item);
    this.#table.delete({ partition, sort });
    return keyOf(this.#mapping, partition, sort);
  }

  #stamp(log: LogId, index: number, expires: number | undefined): boolean {
    const change = { [ttlOf(this.#mapping)]: expires === undefined ? undefined : { N: String(expires) } };
    return this.#table.update({ partition: log, sort: index }, change);
  }

  #placeOf(item: Item): ItemPlace & { readonly partition: LogId } {
    const log = logOfKey(this.#mapping, item);
    if (log === undefined) throw new TypeError('the item belongs to no log of the mapping');
    return { partition: log, sort: indexOfKey(this.#mapping, item) };
  }
}
