import type { StoredItem } from '../../src/log/attribute.ts';
import { itemBytes, writeUnits } from '../../src/log/item-size.ts';

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
/** Bytes of one read unit. */
const READ_UNIT_BYTES = 4096;
/** Bytes of items that one page of a query or scan reads. */
export const PAGE_BYTES = 2 ** 20;
/** Bytes that DynamoDB stores and bills in addition for each item. */
const ITEM_OVERHEAD_BYTES = 100;

/**
 * Read units of one request: one unit per started 4 KB, and half of that if eventually consistent.
 */
export function readUnits(bytes: number, { consistent }: { readonly consistent: boolean }): number {
  const units = Math.max(1, Math.ceil(bytes / READ_UNIT_BYTES));
  return consistent ? units : units / 2;
}

/** The least read units of eventually consistent scans of `bytes` bytes in `requests` requests. */
export function scanUnits(bytes: number, requests: number): number {
  return Math.max(requests, bytes / READ_UNIT_BYTES) / 2;
}

/**
 * Write units of one write: those of the larger of the old and the new item. A write without an
 * item costs one unit.
 */
export function changeUnits(before: StoredItem | undefined, after: StoredItem | undefined): number {
  return Math.max(1, before === undefined ? 0 : writeUnits(before), after === undefined ? 0 : writeUnits(after));
}

/** Write units of a transaction: twice those of its writes. */
export function transactionUnits(units: readonly number[]): number {
  return units.reduce((sum, each) => sum + 2 * each, 0);
}

/** The billed bytes of items in a table. */
export function storedBytes(items: readonly StoredItem[]): number {
  return items.reduce((sum, item) => sum + itemBytes(item) + ITEM_OVERHEAD_BYTES, 0);
}

/** Splits items into pages of at most a mebibyte. Without items there is one empty page. */
export function pagesOf(items: readonly StoredItem[]): { readonly items: StoredItem[]; readonly bytes: number }[] {
  let page: { items: StoredItem[]; bytes: number } = { items: [], bytes: 0 };
  const pages = [page];
  for (const item of items) {
    const bytes = itemBytes(item);
    if (page.items.length > 0 && page.bytes + bytes > PAGE_BYTES) {
      page = { items: [], bytes: 0 };
      pages.push(page);
    }
    page.items.push(item);
    page.bytes += bytes;
  }
  return pages;
}
