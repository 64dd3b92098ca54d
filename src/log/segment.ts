import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';

/** One item of the Segment table: a run of entries under one partition key. */
export interface Segment {
  readonly log: LogId;
  readonly segment: number;
  /** Epoch seconds. */
  readonly created: number;
  /** Number of the newest entry of this segment with a completed snapshot; absent while there is none. */
  readonly lastSnapshot?: number | undefined;
  /** Key of the object that holds this segment's archive; absent while it has none. */
  readonly archive?: string | undefined;
  /** SHA-256 of that archive's index, which vouches for all of it; present where `archive` is. */
  readonly archiveHash?: Uint8Array | undefined;
  /** Epoch seconds from which on the entries may be gone from the table; absent while they stay. */
  readonly expires?: number | undefined;
  /**
   * Present once all entries were deleted or given their expiry: how many they were, as far as the archive or what was
   * left of them told.
   */
  readonly expired?: number | undefined;
}

/**
 * The newest completed snapshot that a log's two newest segments tell of: the newest segment's Last Snapshot, or the
 * previous one's while the newest has none yet.
 * @param segments newest first
 */
export function lastSnapshotOf(segments: readonly Segment[]): Position | undefined {
  for (const { segment, lastSnapshot } of segments) {
    if (lastSnapshot !== undefined) return { segment, entry: lastSnapshot };
  }
  return undefined;
}

/** The newest completed snapshot where it is newer than the one that a client stands on. */
export function newerSnapshot(segments: readonly Segment[], standsOn: Position): Position | undefined {
  const last = lastSnapshotOf(segments);
  return last !== undefined && comparePositions(last, standsOn) > 0 ? last : undefined;
}
