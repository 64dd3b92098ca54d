import { MAX_NUMBER } from '../../ids/position.ts';
import { checkTypes, type Entry, type ReservedTypes, rootOf } from '../../log/entry.ts';
import type { LogStore } from '../../log/log-store.ts';
import { snapshotEntries } from '../../log/read-entries.ts';
import type { Segment } from '../../log/segment.ts';

export interface PendingSnapshotsDeps {
  /** The tables themselves: of a segment that is archived, or leaves, nobody completes a snapshot any more. */
  readonly tables: LogStore;
  readonly types?: ReservedTypes | undefined;
}

export interface PendingSnapshotsQuery {
  readonly segment: Segment;
  /** The segment behind it, where there is one. */
  readonly next: Segment | undefined;
  /**
   * Epoch seconds: of a segment that was open then or later, every Snapshot entry is looked at. By default only those
   * after Last Snapshot are, and of a segment that has ended only where it has none.
   */
  readonly since?: number | undefined;
}

/** The Snapshot entries of a segment that carry no root, or one that Last Snapshot does not know of; in order. */
export async function findPendingSnapshots(
  deps: PendingSnapshotsDeps,
  { segment, next, since }: PendingSnapshotsQuery,
): Promise<Entry[]> {
  const { tables } = deps;
  const types = checkTypes(deps.types);
  const { log, lastSnapshot, archive, expires } = segment;
  if (archive !== undefined || expires !== undefined) return [];
  const thorough = since !== undefined && (next === undefined || next.created >= since);
  // A segment that has ended has a snapshot, and the next one makes up for those that it lacks.
  if (!thorough && lastSnapshot !== undefined && next !== undefined) return [];
  const from = thorough || lastSnapshot === undefined ? 0 : lastSnapshot + 1;
  const range = { segment: segment.segment, from, to: MAX_NUMBER + 1 };
  const found: Entry[] = [];
  for await (const entry of snapshotEntries({ store: tables, types }, log, range, { consistent: false })) {
    // Whoever wrote a root may have died before moving Last Snapshot.
    const done = rootOf(entry) !== undefined && entry.position.entry <= (lastSnapshot ?? -1);
    if (!done) found.push(entry);
  }
  return found;
}
