import { openArchive } from '../../archive/reader.ts';
import { sameEntry } from '../../archive/verify-archive.ts';
import { ArchiveDiffersError, SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import { epochSeconds } from '../../log/entry.ts';
import { writeUnits } from '../../log/item-size.ts';
import { MAX_BATCH_ITEMS, type SegmentLifecycle, type SegmentPlace, type TableReader } from '../../log/log-store.ts';
import { VIRTUAL_TYPES } from '../../log/schedule.ts';
import { changedMeanwhile, type Segment } from '../../log/segment.ts';
import type { ExpireDeps } from './expire-segment.ts';
import { requireSegment } from './segment-state.ts';

/** Tables that a segment is restored to. */
export type RestoreTarget = TableReader & SegmentLifecycle;

export interface RestoreOptions {
  /** Other tables to restore the segment to; its own tables by default. */
  readonly into?: RestoreTarget | undefined;
  /** Seconds for which restored entries stay if the segment expires. */
  readonly holdSeconds: number;
  /** Writes nothing and returns what a restore would do; missing tables count as empty. */
  readonly dryRun?: boolean | 'missing tables';
}

export interface RestoreResult {
  readonly segment: number;
  /** Entries of the segment. */
  readonly entries: number;
  /** Missing entries that were written again. */
  readonly restored: number;
  /** Entries that lost their expiry. */
  readonly unexpired: number;
}

/**
 * Restores the entries of an archived segment, byte for byte. Writes missing entries. Compares
 * existing entries with the archive, removes their expiry, and never overwrites them. Moves the
 * segment's expiry first, so that any job that expires it ends. A second run continues after a
 * crash.
 * @throws SegmentNotFoundError if the segment does not exist, SegmentStateError if it has no
 * archive
 * @throws ArchiveMissingError, ArchiveCorruptError if the archive is missing or has changed; then
 * nothing of the damaged frame is written
 * @throws ArchiveDiffersError if the table has another entry than the archive
 */
export async function restoreSegment(
  deps: ExpireDeps,
  place: SegmentPlace,
  options: RestoreOptions,
): Promise<RestoreResult> {
  const { log } = place;
  const { into = deps.tables, dryRun = false } = options;
  const isMissing = dryRun === 'missing tables';
  const segment = await requireSegment(deps.tables, place);
  if (segment.archive === undefined) {
    throw new SegmentStateError('the segment has no archive', {
      ...place,
      advice: 'Only an archived segment can be restored; the entries of this one may still be in the table',
    });
  }
  const archive = await openArchive(deps, segment);
  if (!dryRun) await prepare(deps, segment, into, options.holdSeconds);
  const { types } = deps;
  let [entries, restored, unexpired] = [0, 0, 0];
  for await (const page of archive.items(0, archive.end)) {
    const [first, last] = [entries, entries + page.length - 1];
    const there = isMissing ? new Map() : await itemsByNumber(into, place, { from: first, to: last + 1 });
    const missing: Item[] = [];
    for (const [i, item] of page.entries()) {
      const present = there.get(first + i);
      if (present === undefined || isWithoutRoot(item, present, segment)) missing.push(item);
      else if (!sameEntry(item, present, { segment, types })) throw differs(place, first + i);
      else if (present.X !== undefined) {
        unexpired++;
        // The entry may have expired since it was read.
        const left =
          dryRun || (await into.setEntryExpiry(log, { segment: place.segment, entry: first + i }, undefined));
        if (!left) missing.push(item);
      }
    }
    // Existing entries of the page are finished.
    const done = (written: number): void => deps.onEntries?.(entries + page.length - missing.length + written);
    if (!dryRun) await putItems(deps, into, { items: missing, onWritten: done });
    restored += missing.length;
    entries += page.length;
    deps.onEntries?.(entries);
  }
  if (!isMissing) await requireNothingAfter(into, place, entries);
  if (!dryRun) await stillExpires(into, place);
  return { segment: place.segment, entries, restored, unexpired };
}

/**
 * Moves the segment's expiry into the future, or writes the segment if the tables do not have it.
 */
async function prepare({ now }: ExpireDeps, segment: Segment, into: RestoreTarget, holdSeconds: number): Promise<void> {
  const { expiry: _, ...whole } = segment;
  if (await into.putSegment(whole)) return;
  const there = await requireSegment(into, segment);
  if (there.expiry === undefined) return;
  // `stillExpires` adds the last second when all entries are restored.
  const at = epochSeconds(now()) + holdSeconds - 1;
  if (!(await into.setExpiration(there, { state: 'expiring', at }))) throw changedMeanwhile(segment);
}

/**
 * Moves the segment's expiry by a second. An expire job that ran during the restore saw only some
 * entries. If it has ended, it marked the segment as expired, and this write removes the mark. If
 * it still runs, it finds another time on the segment and starts again.
 */
async function stillExpires(tables: RestoreTarget, place: SegmentPlace): Promise<void> {
  const segment = await requireSegment(tables, place);
  if (segment.expiry === undefined) return;
  // The process that undoes the expiry must find its hold again.
  if (segment.expiry.state === 'on hold') throw changedMeanwhile(segment);
  const later = { state: 'expiring', at: segment.expiry.at + 1 } as const;
  if (!(await tables.setExpiration(segment, later))) throw changedMeanwhile(segment);
}

/**
 * Whether the tables have a virtual Snapshot entry, but not its root yet. Such an entry is there as
 * soon as the item before it.
 */
function isWithoutRoot(archived: StoredItem, present: StoredItem, { schedule }: Segment): boolean {
  const hasRoot = ({ B, E }: StoredItem): boolean => B !== undefined || E !== undefined;
  return schedule !== undefined && archived.T?.S === VIRTUAL_TYPES.snapshot && hasRoot(archived) && !hasRoot(present);
}

async function itemsByNumber(
  tables: TableReader,
  { log, segment }: SegmentPlace,
  range: { readonly from: number; readonly to: number },
): Promise<Map<number, StoredItem>> {
  const found = new Map<number, StoredItem>();
  for await (const page of tables.items(log, { segment, ...range }, { consistent: true })) {
    for (const item of page) found.set(Number(item.N?.N), item);
  }
  return found;
}

async function putItems(
  deps: ExpireDeps,
  into: RestoreTarget,
  { items, onWritten }: { readonly items: readonly Item[]; readonly onWritten: (items: number) => void },
): Promise<void> {
  for (let start = 0; start < items.length; start += MAX_BATCH_ITEMS) {
    const batch = items.slice(start, start + MAX_BATCH_ITEMS);
    await deps.rateLimiter?.take(batch.reduce((sum, item) => sum + writeUnits(item), 0));
    await into.putItems(batch);
    onWritten(start + batch.length);
  }
}

async function requireNothingAfter(into: RestoreTarget, place: SegmentPlace, entries: number): Promise<void> {
  const rest = { segment: place.segment, from: entries, to: MAX_NUMBER + 1 };
  for await (const [item] of into.items(place.log, rest, { consistent: true })) {
    if (item !== undefined) throw differs(place, Number(item.N?.N));
  }
}

function differs({ log, segment }: SegmentPlace, entry: number): ArchiveDiffersError {
  return new ArchiveDiffersError('the table has another entry than the archive', {
    log,
    segment,
    entry,
    advice: 'Nothing was overwritten; compare both, and delete the entry in the table if it is wrong',
  });
}
