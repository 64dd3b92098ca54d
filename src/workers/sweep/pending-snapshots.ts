import { comparePositions, MAX_NUMBER, START } from '../../ids/position.ts';
import { type Entry, isForeignRoot, type ReservedTypes, rootOf } from '../../log/entry.ts';
import { type ForeignPart, foreignOf } from '../../log/foreign.ts';
import { decodeEntry, entryPlace } from '../../log/item-codec.ts';
import { foreignPointer } from '../../log/last-snapshot.ts';
import type { TableReader } from '../../log/log-store.ts';
import { coveredEntries, isFrozen, type Segment } from '../../log/segment.ts';
import type { SweptEnd } from './swept-end.ts';
import type { SweptTail } from './swept-tail.ts';

export interface PendingSnapshotsDeps {
  /**
   * The tables without archives: a pending snapshot of an archived or expiring segment stays
   * pending.
   */
  readonly tables: TableReader;
  readonly types: ReservedTypes;
  /** Whether to find what replaces the roots and pointers of other programs. False by default. */
  readonly replaceForeign?: boolean | undefined;
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
  /** Receives the items from Last Snapshot on, if there is a feed. */
  readonly end?: SweptEnd | undefined;
}

export interface PendingSnapshots {
  readonly pending: readonly Entry[];
  /** Parts that another program wrote, and the search passed over. */
  readonly foreign: readonly ForeignPart[];
}

/**
 * The Snapshot entries of a segment, in order, that carry no root or come after Last Snapshot. In a
 * mapped log only the newest Snapshot entry counts, because nothing asked for the others, and only
 * if the division policy makes its snapshot due. Reads only the type of other entries, so a
 * malformed one does no harm.
 *
 * Passes over entries on which another program wrote, and over segments of which another program
 * wrote the archive or Last Snapshot.
 * @throws ItemInvalidError if a Snapshot entry is malformed
 */
export async function findPendingSnapshots(
  deps: PendingSnapshotsDeps,
  { segment, next, since, tail, end }: PendingSnapshotsQuery,
): Promise<PendingSnapshots> {
  const { tables, types, replaceForeign = false } = deps;
  const { log, lastSnapshot, layout } = segment;
  const shown = foreignOf(segment);
  const none = { pending: [], foreign: shown };
  if (isFrozen(segment) || (shown.length > 0 && !replaceForeign)) return none;
  if (layout !== undefined && next !== undefined) return none;
  const thorough = layout === undefined && since !== undefined && (next === undefined || next.created >= since);
  // A closed segment needs one snapshot. The first snapshot of the next segment covers the others.
  const replaced = replaceForeign && (await foreignPointer(tables, segment)) !== undefined;
  if (!thorough && !replaced && lastSnapshot !== undefined && next !== undefined) return none;
  const from = thorough || replaced ? 0 : coveredEntries(segment);
  // The end of the log is the entry of Last Snapshot itself if no entry follows it.
  const first = end === undefined ? from : Math.min(from, lastSnapshot?.position.entry ?? 0);
  const range = { segment: segment.segment, from: first, to: MAX_NUMBER + 1 };
  const pending: Entry[] = [];
  const foreign = [...shown];
  for await (const page of tables.items(log, range, { consistent: false })) {
    for (const item of page) {
      end?.add(item);
      if (first < from && entryPlace(item).position.entry < from) continue;
      tail?.add(item);
      if (item.T?.S !== types.snapshot) continue;
      const entry = decodeEntry(item);
      const { position } = entry;
      if (layout !== undefined) pending.length = 0;
      // The state before the first item of a mapped log is empty.
      if (layout !== undefined && comparePositions(position, START) === 0) continue;
      if (isForeignRoot(entry)) foreign.push({ kind: 'root', log, ...position });
      if (isForeignRoot(entry) && !replaceForeign) continue;
      // A worker may have died after it wrote the root and before it moved Last Snapshot.
      const done = rootOf(entry) !== undefined && !replaced && position.entry < coveredEntries(segment);
      if (!done) pending.push(entry);
    }
  }
  if (layout !== undefined && tail?.isVirtualDue === false) return { pending: [], foreign };
  // A Last Snapshot that another program wrote matters only if there is a snapshot to complete.
  const pointer = pending.length === 0 ? undefined : await foreignPointer(tables, segment);
  if (pointer === undefined) return { pending, foreign };
  return { pending: replaceForeign ? pending : [], foreign: [...foreign, pointer] };
}
