import { comparePositions, type Position } from './position.ts';
import type { Segment } from './segment.ts';

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
