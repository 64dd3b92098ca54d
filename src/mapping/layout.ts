import { ReservedTypes } from '../log/entry.ts';
import type { SegmentLayout } from '../log/segment.ts';

/**
 * How the items of a segment of a mapped log become entries.
 *
 * Entry 0 is a virtual Snapshot entry. Blocks of `snapshotEvery` items follow, with one virtual
 * Snapshot entry between two blocks. After the last item follows a virtual End Segment entry:
 *
 *     items 5, snapshotEvery 2:   entry  0  1  2  3  4  5  6  7  8
 *                                        S  i0 i1 S  i2 i3 S  i4 End
 *
 * All indexes are indexes in the log: that of the segment's first item is `layout.first`.
 */
export type LaidOutEntry =
  | { readonly kind: 'item'; readonly index: number }
  /** `items` is the number of items of the log before the entry. */
  | { readonly kind: 'snapshot' | 'end segment'; readonly items: number };

/**
 * The types of the virtual entries of mapped logs. No application uses them, so that they hide none
 * of its items.
 */
export const MAPPED_TYPES = new ReservedTypes({ snapshot: 'logfold Snapshot', endSegment: 'logfold End Segment' });

/** The entry number of an item of the segment, by its index in the log. */
export function entryOfItem({ first, snapshotEvery }: SegmentLayout, index: number): number {
  const i = index - first;
  return i + Math.floor(i / snapshotEvery) + 1;
}

/** The entry number of the End Segment entry. */
export function endOf({ items, snapshotEvery }: SegmentLayout): number {
  return items + Math.ceil(items / snapshotEvery);
}

/** Index in the log of the first item after the segment: `first` of the next one. */
export function indexAfter({ first, items }: SegmentLayout): number {
  return first + items;
}

/**
 * The number of items of the log before an entry of the segment, which is also the index of the
 * first item at or after the entry. So the entries from `a` up to `b` have the items from
 * `itemsBefore(a)` up to `itemsBefore(b)`.
 */
export function itemsBefore({ first, items, snapshotEvery }: SegmentLayout, entry: number): number {
  const block = Math.floor(entry / (snapshotEvery + 1));
  const inBlock = entry % (snapshotEvery + 1);
  return first + Math.min(items, block * snapshotEvery + Math.max(0, inBlock - 1));
}

/** The entry with a number; undefined after the End Segment entry. */
export function entryAt(layout: SegmentLayout, entry: number): LaidOutEntry | undefined {
  const end = endOf(layout);
  if (entry > end) return undefined;
  const before = itemsBefore(layout, entry);
  if (entry === end) return { kind: 'end segment', items: before };
  return entry % (layout.snapshotEvery + 1) === 0
    ? { kind: 'snapshot', items: before }
    : { kind: 'item', index: before };
}

/**
 * The number of the segment's newest entry while the log has so many items. A virtual entry exists
 * as soon as the item before it does.
 * @returns undefined if the segment has not begun: the item before its first one does not exist
 */
export function newestEntryOf(layout: SegmentLayout, itemsOfLog: number): number | undefined {
  const { first, items, snapshotEvery } = layout;
  if (itemsOfLog < first) return undefined;
  const present = Math.min(itemsOfLog - first, items);
  if (present === items) return endOf(layout);
  // A Snapshot entry follows the last item of a full block, and is entry 0 of an empty segment.
  return present + Math.floor(present / snapshotEvery);
}

/** The layout of the segment after this one, with the same numbers. */
export function nextLayout(layout: SegmentLayout): SegmentLayout {
  return { ...layout, first: indexAfter(layout) };
}
