import { openArchive } from '../../archive/reader.ts';
import { sameEntry } from '../../archive/verify-archive.ts';
import { ArchiveDiffersError, SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import { epochSeconds } from '../../log/entry.ts';
import { writeUnits } from '../../log/item-size.ts';
import type { SegmentPlace } from '../../log/log-store.ts';
import { MAX_BATCH_ITEMS, type SegmentLifecycle, type TableReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import type { ExpireDeps } from './expire-segment.ts';
import { changedMeanwhile, requireSegment } from './segment-state.ts';

/** Tables that a segment is restored to. */
export type RestoreTarget = TableReader & SegmentLifecycle;

export interface RestoreOptions {
  /** Other tables to write the segment to; those that it came from by default. */
  readonly into?: RestoreTarget | undefined;
  /** For how long the policy lets the restored entries stay where the segment expires, in seconds. */
  readonly holdSeconds: number;
  /** Writes nothing, and says what would be written. */
  readonly dryRun?: boolean;
}

export interface RestoreResult {
  readonly segment: number;
  /** Entries of the segment. */
  readonly entries: number;
  /** How many of them were missing, and are there again. */
  readonly restored: number;
  /** From how many of them an expiry was taken away. */
  readonly unexpired: number;
}

/**
 * Puts the entries of an archived segment back, byte for byte as they were: those that are missing are written, those
 * that are there are compared, and lose their expiry. Nothing that is there is overwritten. The segment says first
 * that its entries stay, so that a job which is letting them go ends. May be done again, and goes on where it died.
 * @throws SegmentNotFoundError where there is no such segment, SegmentStateError where it has no archive
 * @throws ArchiveMissingError, ArchiveCorruptError where the archive is not what it was: nothing of the frame is written
 * @throws ArchiveDiffersError where the table holds another entry than the archive
 */
export async function restoreSegment(
  deps: ExpireDeps,
  place: SegmentPlace,
  options: RestoreOptions,
): Promise<RestoreResult> {
  const { log } = place;
  const { into = deps.tables, dryRun = false } = options;
  const segment = await requireSegment(deps.tables, place);
  if (segment.archive === undefined) {
    throw new SegmentStateError('the segment has no archive', {
      ...place,
      advice: 'Only what was archived can be restored; its entries may still be in the table',
    });
  }
  const archive = await openArchive(deps, segment);
  if (!dryRun) await prepare(deps, segment, into, options.holdSeconds);
  const { types } = deps;
  let [entries, restored, unexpired] = [0, 0, 0];
  for await (const page of archive.items(0, archive.entries)) {
    const [first, last] = [entries, entries + page.length - 1];
    const there = await itemsByNumber(into, place, { from: first, to: last + 1 });
    const missing: Item[] = [];
    for (const [i, item] of page.entries()) {
      const present = there.get(first + i);
      if (present === undefined) missing.push(item);
      else if (!sameEntry(item, present, { segment, types })) throw differs(place, first + i);
      else if (present.X !== undefined) {
        unexpired++;
        // It may have gone since it was read.
        const left =
          dryRun || (await into.setEntryExpiry(log, { segment: place.segment, entry: first + i }, undefined));
        if (!left) missing.push(item);
      }
    }
    // Those of the page that are there already are done.
    const done = (written: number): void => deps.onEntries?.(entries + page.length - missing.length + written);
    if (!dryRun) await putItems(deps, into, { items: missing, onWritten: done });
    restored += missing.length;
    entries += page.length;
    deps.onEntries?.(entries);
  }
  await requireNothingBehind(into, place, entries);
  if (!dryRun) await stillExpires(into, place);
  return { segment: place.segment, entries, restored, unexpired };
}

/** Says on the segment that its entries stay; where it goes into tables that have no such segment, writes it there. */
async function prepare({ now }: ExpireDeps, segment: Segment, into: RestoreTarget, holdSeconds: number): Promise<void> {
  const { expiry: _, ...whole } = segment;
  if (await into.putSegment(whole)) return;
  const there = await requireSegment(into, segment);
  if (there.expiry === undefined) return;
  // A second more where all is back: see `stillExpires`.
  const at = epochSeconds(now()) + holdSeconds - 1;
  if (!(await into.setExpiration(there, { state: 'expiring', at }))) throw changedMeanwhile(segment);
}

/**
 * An expire job that came in between saw what was there by then. Where it has ended, it said that all had gone; where it
 * has not, it finds another time on the segment now, and begins anew.
 */
async function stillExpires(tables: RestoreTarget, place: SegmentPlace): Promise<void> {
  const segment = await requireSegment(tables, place);
  if (segment.expiry === undefined) return;
  // Whoever takes the expiry back meanwhile would not know its own hold again.
  if (segment.expiry.state === 'on hold') throw changedMeanwhile(segment);
  const later = { state: 'expiring', at: segment.expiry.at + 1 } as const;
  if (!(await tables.setExpiration(segment, later))) throw changedMeanwhile(segment);
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
    await deps.pace?.take(batch.reduce((sum, item) => sum + writeUnits(item), 0));
    await into.putItems(batch);
    onWritten(start + batch.length);
  }
}

async function requireNothingBehind(into: RestoreTarget, place: SegmentPlace, entries: number): Promise<void> {
  const rest = { segment: place.segment, from: entries, to: MAX_NUMBER + 1 };
  for await (const [item] of into.items(place.log, rest, { consistent: true })) {
    if (item !== undefined) throw differs(place, Number(item.N?.N));
  }
}

function differs({ log, segment }: SegmentPlace, entry: number): ArchiveDiffersError {
  return new ArchiveDiffersError('the table holds another entry than the archive', {
    log,
    segment,
    entry,
    advice: 'It was left as it is; look at both, and delete the one in the table if it is wrong',
  });
}
