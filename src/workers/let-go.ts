import pLimit from 'p-limit';
import type { StoredItem } from '../log/attribute.ts';
import { writeUnits } from '../log/item-size.ts';
import { type LeavingSegment, MAX_BATCH_ITEMS } from '../log/log-store.ts';
import type { ExpireDeps } from './expire.ts';
import { changedMeanwhile, requireSegment } from './segment-state.ts';

/** Entries that are given their expiry at once. */
const CONCURRENCY = 16;

/**
 * What a batch may take, in write units, so that a slow pace leaves time for it: at 10 a second half a minute, or twice
 * that where there is no archive. One large entry may take more. It also keeps transactions below 4 MB.
 */
const MAX_BATCH_UNITS = 300;

/** In which way entries leave the table, and whether an archive has them. */
export interface LettingGo {
  readonly how: 'delete' | 'ttl';
  readonly archived: boolean;
}

/**
 * Lets the items of a page go, some at a time, until the time is up: a page has thousands of small items, for which a
 * slow pace leaves no time.
 * @returns those that were let go; at least one batch of them
 * @throws SegmentStateError where they have no archive, and are not to go any more
 */
export async function letPageGo(
  deps: ExpireDeps,
  segment: LeavingSegment,
  page: readonly StoredItem[],
  letting: LettingGo,
): Promise<readonly StoredItem[]> {
  const { now, deadline } = deps;
  let done = 0;
  do {
    const batch = batchFrom(page, done);
    await letBatchGo(deps, segment, batch, letting);
    done += batch.length;
  } while (done < page.length && (deadline === undefined || now() < deadline));
  return page.slice(0, done);
}

/** As many items as are let go, or kept, at once, and at least one. */
export function batchFrom(page: readonly StoredItem[], start: number): readonly StoredItem[] {
  const batch = page.slice(start, start + MAX_BATCH_ITEMS);
  let units = 0;
  const end = batch.findIndex((item, i) => {
    units += writeUnits(item);
    return i > 0 && units > MAX_BATCH_UNITS;
  });
  return end === -1 ? batch : batch.slice(0, end);
}

async function letBatchGo(
  deps: ExpireDeps,
  segment: LeavingSegment,
  batch: readonly StoredItem[],
  { how, archived }: LettingGo,
): Promise<void> {
  const staying = how === 'delete' ? batch : batch.filter(({ X }) => X?.N !== String(segment.expires));
  if (staying.length === 0) return;
  if (!archived) return letGoTogether(deps, segment, staying, how);
  return how === 'delete' ? remove(deps, segment, staying) : stamp(deps, segment, staying);
}

/**
 * Where no archive has the entries, none may go once somebody has taken back that they do: so that they are to go is
 * part of the same transaction, which costs twice as much.
 */
async function letGoTogether(
  { pace, tables }: ExpireDeps,
  segment: LeavingSegment,
  batch: readonly StoredItem[],
  how: LettingGo['how'],
): Promise<void> {
  await pace?.take(2 * unitsOf(batch));
  if (!(await tables.letEntriesGo(segment, numbersOf(batch), how))) throw changedMeanwhile(segment);
}

/** Looks first, for one read unit, so that whoever restores the segment meanwhile loses what is on its way at most. */
async function remove(
  { pace, tables }: ExpireDeps,
  { log, segment, expires }: LeavingSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  await pace?.take(unitsOf(batch));
  const now = await requireSegment(tables, { log, segment });
  if (now.expires !== expires) throw changedMeanwhile(now);
  await tables.deleteEntries(log, segment, numbersOf(batch));
}

async function stamp(
  { pace, tables }: ExpireDeps,
  { log, segment, expires }: LeavingSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  const limit = pLimit(CONCURRENCY);
  const stampOne = async (item: StoredItem): Promise<void> => {
    await pace?.take(writeUnits(item));
    await tables.setEntryExpiry(log, { segment, entry: Number(item.N?.N) }, expires);
  };
  await Promise.all(batch.map((item) => limit(stampOne, item)));
}

/** What it costs to write items, in units. */
export function unitsOf(batch: readonly StoredItem[]): number {
  return batch.reduce((sum, item) => sum + writeUnits(item), 0);
}

/** The numbers of entries in their segment. */
export function numbersOf(batch: readonly StoredItem[]): number[] {
  return batch.map(({ N }) => Number(N?.N));
}
