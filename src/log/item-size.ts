import { TooLargeError } from '../errors.ts';
import type { Item, StoredAttribute, StoredItem } from './attribute.ts';
import { MAX_BATCH_ITEMS } from './log-store.ts';

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
/** The most bytes that one item may have, names included. */
const MAX_ITEM_BYTES = 400 * 1024;
/** Bytes of an item for one write unit. */
const WRITE_UNIT_BYTES = 1024;
/** The most items that one transaction may write. */
export const MAX_TRANSACTION_ITEMS = 100;
/** The most bytes that the items of one transaction may have together. */
const MAX_TRANSACTION_BYTES = 4 * 1024 * 1024;

/**
 * An item's size in bytes by the rules for capacity. Names and strings count as UTF-8. A number
 * takes one byte per two digits and one more; AWS calls this rule approximate, so this function
 * rounds up. A list or map takes 3 bytes and one per element. Source:
 * https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
 */
export function itemBytes(item: StoredItem): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + utf8Bytes(name) + attributeBytes(value ?? {}), 0);
}

/** Write units for writing or deleting an item: one per kilobyte, rounded up. */
export function writeUnits(item: StoredItem): number {
  return Math.ceil(itemBytes(item) / WRITE_UNIT_BYTES);
}

/**
 * Checks items against the limits of one write request.
 * @throws TooLargeError if an item, the number of items or their total size is beyond DynamoDB's
 * limits
 */
export function checkWriteSize(items: readonly Item[]): void {
  if (items.length > MAX_TRANSACTION_ITEMS) {
    throw new TooLargeError(`${items.length} entries are more than the ${MAX_TRANSACTION_ITEMS} of one transaction`, {
      advice: 'Add them in several batches',
    });
  }
  const sizes = items.map(itemBytes);
  const largest = Math.max(...sizes);
  if (largest > MAX_ITEM_BYTES) {
    throw new TooLargeError(`an item of ${largest} bytes is beyond DynamoDB's limit of ${MAX_ITEM_BYTES}`, {
      advice: 'Put its largest part into an external body',
    });
  }
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (total > MAX_TRANSACTION_BYTES) {
    throw new TooLargeError(`${total} bytes are more than the ${MAX_TRANSACTION_BYTES} of one transaction`, {
      advice: 'Add the entries in several batches',
    });
  }
}

/**
 * Checks the number of items in a batch.
 * @throws TooLargeError if there are more than {@link MAX_BATCH_ITEMS}
 */
export function checkBatchItems(items: number): void {
  if (items <= MAX_BATCH_ITEMS) return;
  throw new TooLargeError(`${items} items are more than the ${MAX_BATCH_ITEMS} of one batch`, {
    advice: 'Write or delete them in several batches',
  });
}

function attributeBytes({ S, N, B, SS, NS, BS, M, L }: StoredAttribute): number {
  if (S !== undefined) return utf8Bytes(S);
  if (N !== undefined) return numberBytes(N);
  if (B !== undefined) return B.length;
  if (SS !== undefined) return SS.reduce((sum, text) => sum + utf8Bytes(text), 0);
  if (NS !== undefined) return NS.reduce((sum, text) => sum + numberBytes(text), 0);
  if (BS !== undefined) return BS.reduce((sum, bytes) => sum + bytes.length, 0);
  if (M !== undefined) return 3 + Object.keys(M).length + itemBytes(M);
  if (L !== undefined) return L.reduce((sum, item) => sum + 1 + attributeBytes(item), 3);
  return 1;
}

function numberBytes(text: string): number {
  return Math.ceil(text.length / 2) + 1;
}

function utf8Bytes(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}
