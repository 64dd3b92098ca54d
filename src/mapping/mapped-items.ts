import { type ItemInvalidError, MappingInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Item, StoredItem } from '../log/attribute.ts';
import type { Consistency, ExpiringSegment, MAX_BATCH_ITEMS, RangeOptions, SegmentPlace } from '../log/log-store.ts';
import type { Segment } from '../log/segment.ts';
import type { ItemScanPart } from '../store/scan-places.ts';
import type { SchemaMapping } from './schema-mapping.ts';

/** Item indexes of one log, from `from` up to but not including `to`. */
export interface IndexRange {
  readonly from: number;
  readonly to: number;
}

/** An item of the application's table, as it is stored there, and its index in its log. */
export interface IndexedItem {
  readonly index: number;
  readonly item: StoredItem;
}

/** A log that a page of a scan found. */
export interface FoundLog {
  readonly log: LogId;
  /** Continues the scan of the part after the items of the log in this page. */
  readonly after: string;
}

/** The logs that one page of a scan found, each once. A log may be in many pages. */
export interface LogPage {
  readonly logs: readonly FoundLog[];
  /** Continues the scan of the part after this page. */
  readonly next: string;
}

/**
 * The application's table, by log and item index, in the application's own items. Items that belong
 * to no log of the mapping are left alone. Each method is one request (paged ones: one per page).
 */
export interface MappedItems {
  /**
   * The item of a log with the highest index below `below`; undefined if there is none.
   * @throws ItemInvalidError if the number in its key is malformed
   */
  newest(log: LogId, below: number, consistency: Consistency): Promise<IndexedItem | undefined>;

  /**
   * The items of a range, in ascending order, page by page. Numbers without an item are left out.
   * @throws ItemInvalidError if the number in a key is malformed
   */
  pages(log: LogId, range: IndexRange, options: RangeOptions): AsyncIterable<IndexedItem[]>;

  /**
   * Scans the table, or one of its parts, for logs, in no order.
   * @param onInvalid called for each item whose key is malformed, which is skipped
   */
  logs(part: ItemScanPart, onInvalid: (error: ItemInvalidError) => void): AsyncIterable<LogPage>;

  /**
   * Writes a segment to the Segment table if neither the segment nor its first item exists, in one
   * transaction.
   * @returns whether this call wrote it
   */
  putSegment(segment: Segment): Promise<boolean>;

  /**
   * Writes the creation time of a segment that was recorded before it began, with the creation time
   * 0. Leaves a segment with another time as it is.
   */
  beginSegment(segment: Segment): Promise<void>;

  /**
   * Writes items of an archive, at most {@link MAX_BATCH_ITEMS}. Leaves an existing item as it is.
   */
  put(items: readonly Item[]): Promise<void>;

  /**
   * Deletes items, or stamps them with the segment's expiry, in one transaction. Changes nothing
   * unless the segment still expires at that time. A missing item is not an error.
   * @returns whether the segment still expires at that time; if not, nothing was changed
   */
  expire(segment: ExpiringSegment, indexes: readonly number[], how: 'delete' | 'ttl'): Promise<boolean>;

  /**
   * Removes the expiry from items, in one transaction. Changes nothing unless the segment is on
   * hold.
   * @returns whether the segment is on hold; if not, nothing was changed
   */
  unexpire(segment: SegmentPlace, indexes: readonly number[]): Promise<boolean>;

  /**
   * Stamps an item with its expiry (epoch seconds), or removes the stamp.
   * @returns false if the item does not exist; the call creates none
   * @throws MappingInvalidError if the mapping names no TTL attribute
   */
  setExpiry(log: LogId, index: number, expires: number | undefined): Promise<boolean>;
}

/**
 * The TTL attribute of the application's table.
 * @throws MappingInvalidError if the mapping names none
 */
export function ttlOf({ ttl }: SchemaMapping): string {
  if (ttl !== undefined) return ttl;
  throw new MappingInvalidError('the schema mapping names no TTL attribute, so no item can be stamped', {
    advice: "Add 'ttl' to the mapping, or set the policy to expire 'delete' or 'never'",
  });
}
