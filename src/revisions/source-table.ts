import { encodeValue } from '../codec/canonical.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { type LogId, logIdFromBytes } from '../ids/log-id.ts';
import type { Item, StoredItem } from '../log/attribute.ts';
import { type KeyNames, keyText } from '../state/items/item-key.ts';
import type { ItemScanPart } from '../store/scan-places.ts';

/** The kinds of logs of revisions: one for each item, or one for each partition key. */
export const LOG_KINDS = ['item', 'partition'] as const;

/** A table whose items have revisions. It knows nothing of logfold. */
export interface SourceTable {
  readonly table: string;
  /** The names of the partition key and, if the table has one, of the sort key. */
  readonly keyNames: KeyNames;
  /** Whether each item has a log, or all items of a partition key share one. */
  readonly per: (typeof LOG_KINDS)[number];
  /** The attribute that names who changed the item; none by default. */
  readonly actor?: string | undefined;
}

const [VERSION_BYTE, VARIANT_BYTE] = [6, 8];

/**
 * The id of the log with an item's revisions: a UUID of version 8 (RFC 9562), made of the SHA-256
 * of the table's name, `per`, and the key.
 * @param keys an item, or only its key
 * @throws UsageError if an attribute of the key is missing, or is not a String, Number or Binary
 */
export function revisionLog(platform: Pick<ChunkPlatform, 'sha256'>, source: SourceTable, keys: StoredItem): LogId {
  const { table, keyNames, per } = source;
  const names = per === 'item' ? keyNames : keyNames.slice(0, 1);
  const bytes = platform.sha256(encodeValue([table, per, keyText(names, keys)])).slice(0, 16);
  bytes[VERSION_BYTE] = 0x80 | ((bytes[VERSION_BYTE] ?? 0) & 0x0f);
  bytes[VARIANT_BYTE] = 0x80 | ((bytes[VARIANT_BYTE] ?? 0) & 0x3f);
  return logIdFromBytes(bytes);
}

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
   * in the meantime. A page may miss the newest writes. Each page is one request.
   */
  scan(part: ItemScanPart): AsyncIterable<SourcePage>;

  /**
   * The items with these primary keys, at most {@link MAX_SOURCE_KEYS} different ones, in the order
   * of the keys; undefined for an item that does not exist. Consistent: sees every finished write.
   */
  get(keys: readonly Item[]): Promise<readonly (Item | undefined)[]>;

  /**
   * Epoch milliseconds by the clock of the service, which is right to a few minutes. The clock of
   * this machine may be wrong by days.
   */
  serviceTime(): number;
}
