import { equalBytes } from '../codec/bytes.ts';
import { ArchiveDiffersError } from '../errors.ts';
import type { StoredAttribute, StoredItem } from '../log/attribute.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { Segment } from '../log/segment.ts';
import { encodeItemLine } from './item-line.ts';
import type { Archive } from './reader.ts';
import { withoutExpiry } from './writer.ts';

export interface ComparisonOf {
  readonly segment: Segment;
  readonly types: ReservedTypes;
}

/**
 * Whether the table and the archive hold the same item. Ignores expiry. Also ignores the root of a
 * Snapshot entry other than Last Snapshot, since a slow build may still complete its snapshot, and
 * nothing reads that root any more.
 */
export function sameEntry(archived: StoredItem, stored: StoredItem, { segment, types }: ComparisonOf): boolean {
  const ignoresRoot =
    archived.T?.S === types.snapshot && archived.N?.N !== String(segment.lastSnapshot?.position.entry);
  const [a, b] = ignoresRoot ? [withoutRoot(archived), withoutRoot(stored)] : [archived, stored];
  const unstamped = withoutExpiry(b);
  return isSameItem(a, unstamped) || encodeItemLine(a) === encodeItemLine(unstamped);
}

/**
 * Whether two items are clearly the same, without their lines, which take ten times as long. False
 * if one of their attributes is of another type than String, Number or Binary.
 */
function isSameItem(a: StoredItem, b: StoredItem): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => isSameAttribute(a[name], b[name]));
}

function isSameAttribute(a: StoredAttribute | undefined, b: StoredAttribute | undefined): boolean {
  if (a?.S !== undefined) return a.S === b?.S;
  if (a?.N !== undefined) return a.N === b?.N;
  return a?.B !== undefined && b?.B !== undefined && equalBytes(a.B, b.B);
}

/**
 * Compares items of the table, in ascending order, with an archive. Ignores entries that are only
 * in the archive. Expiry calls this page by page, before the entries leave the table.
 * @throws ArchiveDiffersError if an item is missing from the archive or differs
 */
export async function compareWithArchive(
  archive: Archive,
  page: readonly StoredItem[],
  of: ComparisonOf,
): Promise<void> {
  const archived = await archivedItems(archive, page);
  for (const item of page) {
    const there = archived.get(numberOf(item));
    if (there === undefined)
      throw differs(of.segment, numberOf(item), 'the table has an entry that is not in the archive');
    if (!sameEntry(there, item, of))
      throw differs(of.segment, numberOf(item), 'the entry in the table differs from the archive');
  }
}

/**
 * The number of the first item of the table that is missing from the archive or differs; undefined
 * if there is none.
 * @param page in ascending order
 */
export async function firstDifference(
  archive: Archive,
  page: readonly StoredItem[],
  of: ComparisonOf,
): Promise<number | undefined> {
  const archived = await archivedItems(archive, page);
  const differing = page.find((item) => {
    const there = archived.get(numberOf(item));
    return there === undefined || !sameEntry(there, item, of);
  });
  return differing && numberOf(differing);
}

/** The archived items with the numbers of a page, which is in ascending order. */
async function archivedItems(archive: Archive, page: readonly StoredItem[]): Promise<Map<number, StoredItem>> {
  const [first, last] = [page[0], page.at(-1)];
  if (first === undefined || last === undefined) return new Map();
  // The entries of a page may be far apart in a long segment. Keep only the wanted items.
  const wanted = new Set(page.map(numberOf));
  const archived = new Map<number, StoredItem>();
  for await (const items of archive.items(numberOf(first), numberOf(last) + 1)) {
    for (const item of items) if (wanted.has(numberOf(item))) archived.set(numberOf(item), item);
  }
  return archived;
}

/**
 * Compares an archive, or a part of one, with its entries in the table. Archival calls this when it
 * has written the archive, before the segment names it.
 * @param shouldStop called between pages after a frame is compared; true leaves the later frames
 * uncompared
 * @returns the number after the last entry of the compared frames; `archive.end` if all are
 * compared
 * @throws ArchiveDiffersError if an entry is missing from one of them or differs
 */
export async function verifyArchive(
  archive: Archive,
  pages: AsyncIterable<readonly StoredItem[]>,
  of: ComparisonOf,
  shouldStop: () => boolean = () => false,
): Promise<number> {
  let next = archive.first;
  for await (const page of pages) {
    await compareWithArchive(archive, page, of);
    for (const item of page) {
      if (numberOf(item) !== next) throw differs(of.segment, next, 'the archive has an entry that is not in the table');
      next++;
    }
    const compared = archive.framesBefore(next);
    if (next < archive.end && compared > archive.first && shouldStop()) return compared;
  }
  if (next < archive.end) throw differs(of.segment, next, 'the archive has an entry that is not in the table');
  return next;
}

function withoutRoot(item: StoredItem): StoredItem {
  const { B: _, E: __, ...rest } = item;
  return rest;
}

function numberOf(item: StoredItem): number {
  return Number(item.N?.N);
}

function differs({ log, segment }: Segment, entry: number, reason: string): ArchiveDiffersError {
  return new ArchiveDiffersError(reason, {
    log,
    segment,
    entry,
    advice:
      'This run expired neither this entry nor a later one. Find out which program changed the entry, and restore the entry',
  });
}
