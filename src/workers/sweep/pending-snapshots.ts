import { MAX_NUMBER } from '../../ids/position.ts';
import { type Entry, type ReservedTypes, rootOf } from '../../log/entry.ts';
import type { TableReader } from '../../log/log-store.ts';
import { snapshotEntries } from '../../log/read-entries.ts';
import { isFrozen, type Segment } from '../../log/segment.ts';

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
}

/** The Snapshot entries of a segment, in order, that carry no root or come after Last Snapshot. */
export async function findPendingSnapshots(
  deps: PendingSnapshotsDeps,
  { segment, next, since }: PendingSnapshotsQuery,
): Promise<Entry[]> {
  const { tables, types } = deps;
  const { log, lastSnapshot } = segment;
  if (isFrozen(segment)) return [];
  const thorough = since !== undefined && (next === undefined || next.created >= since);
  // A closed segment needs one snapshot. The first snapshot of the next segment covers the others.
  if (!thorough && lastSnapshot !== undefined && next !== undefined) return [];
  const from = thorough || lastSnapshot === undefined ? 0 : lastSnapshot + 1;
  const range = { segment: segment.segment, from, to: MAX_NUMBER + 1 };
  const found: Entry[] = [];
  for await (const entry of snapshotEntries({ store: tables, types }, log, range, { consistent: false })) {
    // A worker may have died after it wrote the root and before it moved Last Snapshot.
    const done = rootOf(entry) !== undefined && entry.position.entry <= (lastSnapshot ?? -1);
    if (!done) found.push(entry);
  }
  return found;
}
