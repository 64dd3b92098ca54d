import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { DivisionPolicy } from './division-policy.ts';
import { ReservedTypes } from './entry.ts';

/**
 * The places of a segment's Snapshot entries and of its end, if no writer appends them: the entries
 * are the items of an application's table, and these are virtual. It never changes after the
 * segment has an item.
 *
 * Entry 0 is a virtual Snapshot entry. Blocks of `snapshotEvery` items follow, with one virtual
 * Snapshot entry between two blocks. After the last item follows a virtual End Segment entry:
 *
 *     items 5, snapshotEvery 2:   entry  0  1  2  3  4  5  6  7  8
 *                                        S  i0 i1 S  i2 i3 S  i4 End
 */
export interface Schedule {
  /** Index of the segment's first item in the log, from 0. */
  readonly first: number;
  /** The number of items that fill the segment, at least 1. */
  readonly items: number;
  /** A Snapshot entry follows after each run of this many items of the segment, at least 1. */
  readonly snapshotEvery: number;
}

/** Knows which segments and Snapshot entries of scheduled logs are due. Their store supplies it. */
export interface Scheduler {
  /**
   * Records the segments that have begun, and finds out whether the newest Snapshot entry gets its
   * snapshot. Takes about two queries, and a write for each new segment.
   * @param nowSeconds epoch seconds
   * @throws ItemInvalidError if an item does not fit
   * @throws SourceChangedError if the log ends before its Last Snapshot
   */
  due(log: LogId, division: DivisionPolicy, nowSeconds: number): Promise<Due>;
}

/** The segments and the Snapshot entry that are due in a log. */
export interface Due {
  /** Segments that were recorded. */
  readonly segments: number;
  /** The Snapshot entry whose snapshot is due; absent if none is. */
  readonly position?: Position;
}

/** An entry by its place. All indexes are indexes in the log. */
export type ScheduledEntry =
  | { readonly kind: 'item'; readonly index: number }
  /** `items` is the number of items of the log before the entry. */
  | { readonly kind: 'snapshot' | 'end segment'; readonly items: number };

/**
 * The types of the virtual entries of scheduled logs. No application uses them, so that they hide
 * none of its items.
 */
export const VIRTUAL_TYPES = new ReservedTypes({ snapshot: 'logfold Snapshot', endSegment: 'logfold End Segment' });

/** The entry number of an item of the segment, by its index in the log. */
export function entryOfItem({ first, snapshotEvery }: Schedule, index: number): number {
  const i = index - first;
  return i + Math.floor(i / snapshotEvery) + 1;
}

/** The entry number of the End Segment entry. */
export function endOf({ items, snapshotEvery }: Schedule): number {
  return items + Math.ceil(items / snapshotEvery);
}

/** Index in the log of the first item after the segment: `first` of the next one. */
export function indexAfter({ first, items }: Schedule): number {
  return first + items;
}

/**
 * The number of items of the log before an entry of the segment, which is also the index of the
 * first item at or after the entry. So the entries from `a` up to `b` have the items from
 * `itemsBefore(a)` up to `itemsBefore(b)`.
 */
export function itemsBefore({ first, items, snapshotEvery }: Schedule, entry: number): number {
  const block = Math.floor(entry / (snapshotEvery + 1));
  const inBlock = entry % (snapshotEvery + 1);
  return first + Math.min(items, block * snapshotEvery + Math.max(0, inBlock - 1));
}

/** The entry with a number; undefined after the End Segment entry. */
export function entryAt(schedule: Schedule, entry: number): ScheduledEntry | undefined {
  const end = endOf(schedule);
  if (entry > end) return undefined;
  const before = itemsBefore(schedule, entry);
  if (entry === end) return { kind: 'end segment', items: before };
  return entry % (schedule.snapshotEvery + 1) === 0
    ? { kind: 'snapshot', items: before }
    : { kind: 'item', index: before };
}

/**
 * The number of the segment's newest entry while the log has so many items. A virtual entry exists
 * as soon as the item before it does.
 * @returns undefined if the segment has not begun: the item before its first one does not exist
 */
export function newestEntryOf(schedule: Schedule, itemsOfLog: number): number | undefined {
  const { first, items, snapshotEvery } = schedule;
  if (itemsOfLog < first) return undefined;
  const present = Math.min(itemsOfLog - first, items);
  if (present === items) return endOf(schedule);
  // A Snapshot entry follows the last item of a full block, and is entry 0 of an empty segment.
  return present + Math.floor(present / snapshotEvery);
}

/** The schedule of the segment after this one, with the same numbers. */
export function nextSchedule(schedule: Schedule): Schedule {
  return { ...schedule, first: indexAfter(schedule) };
}
