import { ArchiveDiffersError } from '../errors.ts';
import type { StoredItem } from '../log/attribute.ts';
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
 * Whether an item of the table is what the archive holds of it: every attribute but for expiry. A Snapshot entry
 * other than Last Snapshot may have another root, or none in one of the two, since builds that come late complete it,
 * and nothing reads it any more.
 */
export function sameEntry(archived: StoredItem, stored: StoredItem, { segment, types }: ComparisonOf): boolean {
  const ignoresRoot = archived.T?.S === types.snapshot && archived.N?.N !== String(segment.lastSnapshot);
  const [a, b] = ignoresRoot ? [withoutRoot(archived), withoutRoot(stored)] : [archived, stored];
  return encodeItemLine(a) === encodeItemLine(withoutExpiry(b));
}

/**
 * Compares items of the table, ascending, with an archive. Entries that the table has no more are left out.
 * @throws ArchiveDiffersError where one is not in the archive, or otherwise
 */
export async function compareWithArchive(
  archive: Archive,
  page: readonly StoredItem[],
  of: ComparisonOf,
): Promise<void> {
  const [first, last] = [page[0], page.at(-1)];
  if (first === undefined || last === undefined) return;
  // A page may have an entry here and there of a long segment, so what lies between them is not kept.
  const wanted = new Set(page.map(numberOf));
  const archived = new Map<number, StoredItem>();
  for await (const items of archive.items(numberOf(first), numberOf(last) + 1)) {
    for (const item of items) if (wanted.has(numberOf(item))) archived.set(numberOf(item), item);
  }
  for (const item of page) {
    const there = archived.get(numberOf(item));
    if (there === undefined)
      throw differs(of.segment, numberOf(item), 'the table has an entry that the archive does not have');
    if (!sameEntry(there, item, of))
      throw differs(of.segment, numberOf(item), 'the table holds another entry than the archive');
  }
}

/**
 * Compares all of an archive, or of a part of one, with the entries in the table, side by side.
 * @param shouldStop asked between pages once a frame is compared: true leaves the frames after that uncompared
 * @returns the number after the last entry of the frames that were compared: `archive.entries` if that is all of them
 * @throws ArchiveDiffersError where one has an entry that the other does not have, or otherwise
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
      if (numberOf(item) !== next)
        throw differs(of.segment, next, 'the archive has an entry that the table does not have');
      next++;
    }
    const compared = archive.framesBefore(next);
    if (next < archive.entries && compared > archive.first && shouldStop()) return compared;
  }
  if (next < archive.entries) throw differs(of.segment, next, 'the archive has an entry that the table does not have');
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
    advice: 'Nothing left the table because of it. Find out what changed the entry, and put it back as it was',
  });
}
