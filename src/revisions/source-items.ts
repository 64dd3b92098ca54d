import type { Item } from '../log/attribute.ts';
import type { ItemScanPart } from '../mapping/mapped-items.ts';

/** The most keys of one {@link SourceItems.get}. DynamoDB takes as many in one request. */
export const MAX_SOURCE_KEYS = 100;

/** One page of a scan of a source table. */
export interface SourcePage {
  readonly items: readonly Item[];
  /** Continues the scan of the part after this page, see {@link ItemScanPart.after}. */
  readonly next: string;
}

/** The items of a source table, as they are now. Reads only. */
export interface SourceItems {
  /**
   * Scans the table, or one of its parts: every item once, in no order, unless the item changes
   * meanwhile. A page may miss the newest writes. Each page is one request.
   */
  scan(part: ItemScanPart): AsyncIterable<SourcePage>;

  /**
   * The items with these primary keys, at most {@link MAX_SOURCE_KEYS} different ones, in the order
   * of the keys; undefined for an item that does not exist. Consistent: sees every finished write.
   */
  get(keys: readonly Item[]): Promise<readonly (Item | undefined)[]>;

  /**
   * Epoch milliseconds by the clock of the service, which is right to some minutes. The clock of
   * this machine may be wrong by days.
   */
  serviceTime(): number;
}
