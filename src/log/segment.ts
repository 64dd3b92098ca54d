import { equalBytes } from '../codec/bytes.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';

/** A segment's archive: an object in the bucket that holds all entries of the segment. */
export interface ArchiveRef {
  readonly key: string;
  /** SHA-256 of the archive's index, which covers the whole archive. */
  readonly hash: Uint8Array;
}

/** The entries leave the table, or are about to. */
export interface Expiring {
  readonly state: 'expiring';
  /** Epoch seconds. From then on entries may be missing in the table. */
  readonly at: number;
}

/** How far the entries of a segment have left the table. */
export type Expiry =
  | Expiring
  /** All entries were deleted or stamped with the time. */
  | {
      readonly state: 'expired';
      readonly at: number;
      /** Entries of the segment, as counted when it expired. */
      readonly entries: number;
    }
  /** Somebody undoes the expiry and removes the stamps. Entries may still be missing. */
  | { readonly state: 'on hold' };

/**
 * How the application's items of a segment of a mapped log are numbered as entries; see
 * `src/mapping/layout.ts`. The layout of a recorded segment never changes.
 */
export interface SegmentLayout {
  /** Index of the segment's first item in the log, from 0. */
  readonly first: number;
  /** The number of items that fill the segment, at least 1. */
  readonly items: number;
  /** A Snapshot entry follows after each so many items of the segment, at least 1. */
  readonly snapshotEvery: number;
}

/** One item of the Segment table: a run of entries under one partition key. */
export interface Segment {
  readonly log: LogId;
  readonly segment: number;
  /** Epoch seconds. */
  readonly created: number;
  /**
   * Number of the newest entry of this segment with a complete snapshot; absent if there is none.
   */
  readonly lastSnapshot?: number | undefined;
  /** Absent until the segment is archived. */
  readonly archive?: ArchiveRef | undefined;
  /** Absent while the entries stay in the table. */
  readonly expiry?: Expiry | undefined;
  /** Absent unless the segment belongs to a mapped log. */
  readonly layout?: SegmentLayout | undefined;
}

/** Whether both are the same archive. */
export function sameArchive(a: ArchiveRef, b: ArchiveRef): boolean {
  return a.key === b.key && equalBytes(a.hash, b.hash);
}

/**
 * When the entries of a segment leave the table, in epoch seconds; undefined while they stay or are
 * on hold.
 */
export function expiresAt({ expiry }: Pick<Segment, 'expiry'>): number | undefined {
  return expiry === undefined || expiry.state === 'on hold' ? undefined : expiry.at;
}

/** Whether entries of the segment may be neither in the table nor in an archive. */
export function mayLackEntries({ archive, expiry }: Pick<Segment, 'archive' | 'expiry'>): boolean {
  return archive === undefined && expiry !== undefined;
}

/**
 * Whether no further snapshot of the segment is completed: it is archived, or its entries leave the
 * table.
 */
export function isFrozen({ archive, expiry }: Pick<Segment, 'archive' | 'expiry'>): boolean {
  return archive !== undefined || expiry !== undefined;
}

/**
 * The newest complete snapshot in a log's two newest segments: Last Snapshot of the newest segment,
 * or of the previous one if the newest has none yet.
 * @param segments newest first
 */
export function lastSnapshotOf(segments: readonly Segment[]): Position | undefined {
  for (const { segment, lastSnapshot } of segments) {
    if (lastSnapshot !== undefined) return { segment, entry: lastSnapshot };
  }
  return undefined;
}

/** The newest complete snapshot, if it is newer than the one that a client uses. */
export function newerSnapshot(segments: readonly Segment[], standsOn: Position): Position | undefined {
  const last = lastSnapshotOf(segments);
  return last !== undefined && comparePositions(last, standsOn) > 0 ? last : undefined;
}
