import { encodeValue } from '../codec/canonical.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { type LogId, logIdFromBytes } from '../ids/log-id.ts';
import type { StoredItem } from '../log/attribute.ts';
import { type KeyNames, keyText } from '../state/items/item-key.ts';

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
 * @throws UsageError if an attribute of the key is missing, or is no String, Number or Binary
 */
export function revisionLog(platform: Pick<ChunkPlatform, 'sha256'>, source: SourceTable, keys: StoredItem): LogId {
  const { table, keyNames, per } = source;
  const names = per === 'item' ? keyNames : keyNames.slice(0, 1);
  const bytes = platform.sha256(encodeValue([table, per, keyText(names, keys)])).slice(0, 16);
  bytes[VERSION_BYTE] = 0x80 | ((bytes[VERSION_BYTE] ?? 0) & 0x0f);
  bytes[VARIANT_BYTE] = 0x80 | ((bytes[VARIANT_BYTE] ?? 0) & 0x3f);
  return logIdFromBytes(bytes);
}
