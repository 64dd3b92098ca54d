import { comparePositions, MAX_NUMBER, START } from '../../ids/position.ts';
import { type Entry, type ReservedTypes, rootOf } from '../../log/entry.ts';
import { decodeEntry } from '../../log/item-codec.ts';
import type { TableReader } from '../../log/log-store.ts';
import { isFrozen, type Segment } from '../../log/segment.ts';
import type { SweptTail } from './swept-tail.ts';

export interface PendingSnapshotsDeps {
  /**
   * The tables without archives: a pending snapshot of an archived or expiring segment stays
   * pending.
   */
  readonly tables: TableReader;
  readonly types: ReservedTypes;
}

export interface PendingSnapshotsQuery {
  readonly segment: Segment;
  /** The next segment, if there is one. */
  readonly next: Segment | undefined;
  /**
   * Epoch seconds. If the segment was open then or later, every Snapshot entry is checked. By
   * default only those after Last Snapshot are checked, and a closed segment is skipped if it has a
   * Last Snapshot.
   */
  readonly since?: number | undefined;
  /** Receives the items that are read after Last Snapshot, if a division policy needs them. */
  readonly tail?: SweptTail | undefined;
}

/**
 * The Snapshot entries of a segment, in order, that carry no root or come after Last Snapshot. In a
 * mapped log only the newest Snapshot entry counts, because nothing asked for the others, and only
 * if the division policy makes its snapshot due. Reads only the type of other entries, so a
 * malformed one does no harm.
 * @throws ItemInvalidError if a Snapshot entry is malformed
 */
export async function findPendingSnapshots(
  deps: PendingSnapshotsDeps,
  { segment, next, since, tail }: PendingSnapshotsQuery,
): Promise<Entry[]> {
  const { tables, types } = deps;
  const { log, lastSnapshot, layout } = segment;
  if (isFrozen(segment)) return [];
  if (layout !== undefined && next !== undefined) return [];
  const thorough = layout === undefined && since !== undefined && (next === undefined || next.created >= since);
  // A closed segment needs one snapshot. The first snapshot of the next segment covers the others.
  if (!thorough && lastSnapshot !== undefined && next !== undefined) return [];
  const from = thorough || lastSnapshot === undefined ? 0 : lastSnapshot + 1;
  const range = { segment: segment.segment, from, to: MAX_NUMBER + 1 };
  const found: Entry[] = [];
  for await (const page of tables.items(log, range, { consistent: false })) {
    for (const item of page) {
      tail?.add(item);
      if (item.T?.S !== types.snapshot) continue;
      const entry = decodeEntry(item);
      if (layout !== undefined) found.length = 0;
      // The state before the first item of a mapped log is empty.
      if (layout !== undefined && comparePositions(entry.position, START) === 0) continue;
      // A worker may have died after it wrote the root and before it moved Last Snapshot.
      const done = rootOf(entry) !== undefined && entry.position.entry <= (lastSnapshot ?? -1);
      if (!done) found.push(entry);
    }
  }
  return layout !== undefined && tail?.isVirtualDue === false ? [] : found;
}
