import { SegmentNotFoundError, SegmentStateError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { SegmentPlace, TableReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import { isCovered } from '../../retention/retention-policy.ts';

/**
 * A segment as it is now.
 * @throws SegmentNotFoundError where there is none of this number
 */
export async function requireSegment(tables: TableReader, { log, segment }: SegmentPlace): Promise<Segment> {
  const found = await tables.getSegment(log, segment, { consistent: true });
  if (found !== undefined) return found;
  throw new SegmentNotFoundError('there is no such segment', {
    log,
    segment,
    advice: "Run 'logfold status LOG' to see its segments",
  });
}

/**
 * A segment that is closed and covered, as it is now.
 * @throws SegmentNotFoundError where there is none of this number
 * @throws SegmentStateError where it is open, or the segment after it has no completed snapshot yet
 */
export async function requireCovered(tables: TableReader, place: SegmentPlace): Promise<Segment> {
  const { log, segment } = place;
  const found = await requireSegment(tables, place);
  const next = await tables.getSegment(log, segment + 1, { consistent: true });
  if (isCovered(found, next)) return found;
  if (next === undefined) {
    throw new SegmentStateError('the segment is open: entries are still added to it', {
      log,
      segment,
      advice: "Run 'logfold segment LOG' to start the next one; nothing was changed",
    });
  }
  const first = formatPosition({ segment: segment + 1, entry: 0 });
  throw new SegmentStateError(`the segment is not covered: the snapshot at ${first} is not completed`, {
    log,
    segment,
    advice: "Run 'logfold sweep --log LOG' to complete it; nothing was changed",
  });
}

/** Somebody else changed a segment while it was worked on. Trying again helps. */
export function changedMeanwhile({ log, segment }: SegmentPlace): SegmentStateError {
  return new SegmentStateError('the segment was changed by somebody else meanwhile', {
    log,
    segment,
    advice: 'Try again; what is done already is not done twice',
  });
}
