import { SegmentNotFoundError, SegmentStateError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { SegmentPlace, TableReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import { isCovered } from '../../retention/retention-policy.ts';

/**
 * Reads a segment consistently.
 * @throws SegmentNotFoundError if the segment does not exist
 */
export async function requireSegment(tables: TableReader, { log, segment }: SegmentPlace): Promise<Segment> {
  const found = await tables.getSegment(log, segment, { consistent: true });
  if (found !== undefined) return found;
  throw new SegmentNotFoundError('the segment does not exist', {
    log,
    segment,
    advice: "Run 'logfold status LOG' to see its segments",
  });
}

/**
 * Reads a segment consistently, and requires that it is closed and covered.
 * @throws SegmentNotFoundError if the segment does not exist
 * @throws SegmentStateError if it is open, or its next segment has no complete snapshot yet
 */
export async function requireCovered(tables: TableReader, place: SegmentPlace): Promise<Segment> {
  const { log, segment } = place;
  const found = await requireSegment(tables, place);
  const next = await tables.getSegment(log, segment + 1, { consistent: true });
  if (isCovered(found, next)) return found;
  if (next === undefined) {
    throw new SegmentStateError('the segment is open: clients still append to it', {
      log,
      segment,
      advice: "Run 'logfold segment LOG' to start the next one; nothing was changed",
    });
  }
  const first = formatPosition({ segment: segment + 1, entry: 0 });
  throw new SegmentStateError(`the segment is not covered: the snapshot at ${first} is pending`, {
    log,
    segment,
    advice: "Run 'logfold sweep --log LOG' to complete it; nothing was changed",
  });
}

/**
 * The error if another process changed a segment during the work on it. Another attempt may
 * succeed.
 */
export function changedMeanwhile({ log, segment }: SegmentPlace): SegmentStateError {
  return new SegmentStateError('another process changed the segment at the same time', {
    log,
    segment,
    advice: 'Try again; finished steps are not repeated',
  });
}
