import type { StoredItem } from '../../src/log/attribute.ts';
import { itemBytes, writeUnits } from '../../src/log/item-size.ts';

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
/** Bytes for one read unit. */
const READ_UNIT_BYTES = 4096;
/** Bytes of items that one page of a query or scan goes over. */
export const PAGE_BYTES = 2 ** 20;
/** What DynamoDB stores, and bills, beside the bytes of each item. */
const ITEM_OVERHEAD_BYTES = 100;

/** What reading so many bytes in one request costs: a unit for each 4 KB that are begun, and half of that if eventually consistent. */
export function readUnits(bytes: number, { consistent }: { readonly consistent: boolean }): number {
  const units = Math.max(1, Math.ceil(bytes / READ_UNIT_BYTES));
  return consistent ? units : units / 2;
}

/** What scanning so many bytes in so many requests costs at least: scans are eventually consistent. */
export function scanUnits(bytes: number, requests: number): number {
  return Math.max(requests, bytes / READ_UNIT_BYTES) / 2;
}

/**
 * What one write costs: by the item as it was or as it becomes, whichever is larger, and a unit where there is none
 * before and after.
 */
export function changeUnits(before: StoredItem | undefined, after: StoredItem | undefined): number {
  return Math.max(1, before === undefined ? 0 : writeUnits(before), after === undefined ? 0 : writeUnits(after));
}

/** In a transaction everything costs twice as much. */
export function transactionUnits(units: readonly number[]): number {
  return units.reduce((sum, each) => sum + 2 * each, 0);
}

/** What items take in a table, as it is billed. */
export function storedBytes(items: readonly StoredItem[]): number {
  return items.reduce((sum, item) => sum + itemBytes(item) + ITEM_OVERHEAD_BYTES, 0);
}

/** Items in pages of a megabyte. There is one at least, be it empty. */
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
