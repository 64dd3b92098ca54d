import { comparePositions, MAX_NUMBER, START } from '../../ids/position.ts';
import { type Entry, type ReservedTypes, rootOf } from '../../log/entry.ts';
import { guardPointer, guardRoot, shownParts } from '../../log/guard.ts';
import { decodeEntry, entryPlace } from '../../log/item-codec.ts';
import type { TableReader } from '../../log/log-store.ts';
import { coveredEntries, isFrozen, type Segment } from '../../log/segment.ts';
import { hasStop } from '../../snapshot/stop.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import type { DueDivision } from './due-division.ts';
import type { FeedEnd } from './feed-ends.ts';
import { type Finder, isYoung, STREAM_SECONDS, type SweptLog } from './finder.ts';

export interface PendingSnapshotsDeps {
  /**
   * The tables without archives: a pending snapshot of an archived or expiring segment stays
   * pending.
   */
  readonly tables: TableReader;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /**
   * Whether the jobs of this sweep replace the roots, pointers and archives of other programs, so
   * that it finds them due. False by default.
   */
  readonly replaceForeign?: boolean | undefined;
}

export interface PendingSnapshotsOptions {
  /**
   * Epoch seconds. In segments that were open then or later, every Snapshot entry is checked. By
   * default only those after Last Snapshot are checked, and a closed segment is skipped if it has a
   * Last Snapshot, so that a log without new entries costs one small request.
   */
  readonly since?: number | undefined;
  /** Snapshot entries younger than this, in seconds, are left to the stream. 0 by default. */
  readonly youngSeconds?: number;
}

/** The finders that see the items of the newest segment. */
interface Watchers {
  /** Undefined without a division policy. */
  readonly division: DueDivision | undefined;
  /** Undefined without a feed. */
  readonly end: FeedEnd | undefined;
}

const NO_WATCHERS: Watchers = { division: undefined, end: undefined };

/**
 * Finds the Snapshot entries of a log, in order, that carry no root or come after Last Snapshot. In
 * a scheduled log only the newest Snapshot entry counts, because nothing asked for the others, and
 * only if the division policy makes its snapshot due. Reads only the type of other entries, so a
 * malformed one does no harm.
 *
 * Passes over entries on which another program wrote, and over segments of which another program
 * wrote the archive or Last Snapshot. The search throws ItemInvalidError if a Snapshot entry is
 * malformed.
 */
export function pendingSnapshots(
  swept: SweptLog,
  { tables, blobs, types, now, replaceForeign = false }: PendingSnapshotsDeps,
  { since, youngSeconds = 0 }: PendingSnapshotsOptions,
  watchers: Watchers,
): Finder {
  const { passOver } = swept;
  const send = async ({ log, position, created }: Entry): Promise<void> => {
    const { division } = watchers;
    swept.isStopped ??= await hasStop(blobs, log);
    const youth = { now: now() / 1000, youngSeconds };
    await swept.send({
      job: { kind: 'snapshot', log, position, force: true },
      why: 'the snapshot is pending',
      since: division === undefined ? created : division.waitsSince(created),
      isYoung: isYoung(created, youth),
      isMissed:
        !swept.isStopped &&
        youngSeconds > 0 &&
        youth.now - created < STREAM_SECONDS &&
        division?.isAskedByStream !== false,
    });
  };
  const pendingIn = async (segment: Segment, next: Segment | undefined): Promise<readonly Entry[]> => {
    const { division, end } = next === undefined ? watchers : NO_WATCHERS;
    const { log, lastSnapshot, schedule } = segment;
    const shown = shownParts(segment);
    for (const part of shown) passOver(part);
    if (isFrozen(segment) || (shown.length > 0 && !replaceForeign)) return [];
    if (schedule !== undefined && next !== undefined) return [];
    const thorough = schedule === undefined && since !== undefined && (next === undefined || next.created >= since);
    // A closed segment needs one snapshot. The first snapshot of the next segment covers the rest.
    const replaced = replaceForeign && (await guardPointer(tables, segment)) !== undefined;
    if (!thorough && !replaced && lastSnapshot !== undefined && next !== undefined) return [];
    const from = thorough || replaced ? 0 : coveredEntries(segment);
    // The end of the log is the entry of Last Snapshot itself if no entry follows it.
    const first = end === undefined ? from : Math.min(from, lastSnapshot?.position.entry ?? 0);
    const range = { segment: segment.segment, from: first, to: MAX_NUMBER + 1 };
    const pending: Entry[] = [];
    for await (const page of tables.items(log, range, { consistent: false })) {
      for (const item of page) {
        end?.see(item);
        division?.see(item);
        if (item.T?.S !== types.snapshot || (first < from && entryPlace(item).position.entry < from)) continue;
        const entry = decodeEntry(item);
        const { position } = entry;
        if (schedule !== undefined) pending.length = 0;
        // The state before the first item of a scheduled log is empty.
        if (schedule !== undefined && comparePositions(position, START) === 0) continue;
        const part = guardRoot(entry);
        if (part !== undefined) passOver(part);
        if (part !== undefined && !replaceForeign) continue;
        // A worker may have died after it wrote the root and before it moved Last Snapshot.
        const done = rootOf(entry) !== undefined && !replaced && position.entry < coveredEntries(segment);
        if (!done) pending.push(entry);
      }
    }
    if (schedule !== undefined && division?.isVirtualDue === false) return [];
    // A Last Snapshot that another program wrote matters only if there is a snapshot to complete.
    const pointer = pending.length === 0 ? undefined : await guardPointer(tables, segment);
    if (pointer === undefined) return pending;
    passOver(pointer);
    return replaceForeign ? pending : [];
  };
  const find = async (): Promise<void> => {
    for (const [i, segment] of swept.segments.entries()) {
      for (const entry of await pendingIn(segment, swept.segments[i + 1])) await send(entry);
    }
  };
  return { find };
}
