import { SegmentNotFoundError, SegmentStateError } from '../../errors.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { describePart, guardPointer, REPLACE_ADVICE } from '../../log/guard.ts';
import type { SegmentPlace, TableReader } from '../../log/log-store.ts';
import { queryLastSnapshot, queryNewestSegments } from '../../log/newest.ts';
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
 * @throws SegmentStateError if it is open, or its next segment has no complete snapshot of logfold
 * yet
 */
export async function requireCovered(tables: TableReader, place: SegmentPlace): Promise<Segment> {
  const { log, segment } = place;
  const found = await requireSegment(tables, place);
  const next = await tables.getSegment(log, segment + 1, { consistent: true });
  const pointer = next && (await guardPointer(tables, next));
  if (pointer !== undefined) {
    throw new SegmentStateError(`the segment is not covered: ${describePart(pointer)}`, {
      log,
      segment,
      advice: REPLACE_ADVICE,
    });
  }
  if (isCovered(found, next, next && (await newestOfScheduled(tables, next)))) return found;
  if (next === undefined && found.schedule !== undefined) {
    const { items } = found.schedule;
    throw new SegmentStateError(`the segment is open: it ends when it has ${items} item${items === 1 ? '' : 's'}`, {
      log,
      segment,
      advice: 'Try again when the next segment has begun; nothing was changed',
    });
  }
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

/** The newest complete snapshot of a scheduled log, if the next segment has none. */
async function newestOfScheduled(
  tables: TableReader,
  { log, lastSnapshot, schedule }: Segment,
): Promise<Position | undefined> {
  if (lastSnapshot !== undefined || schedule === undefined) return undefined;
  return queryLastSnapshot(tables, log, await queryNewestSegments(tables, log, { consistent: true }));
}

/**
 * Requires that the newest item of a scheduled log stays in the table when a segment expires.
 * @throws SegmentStateError if no item is after the segment
 */
export async function requireItemsAfter(tables: TableReader, segment: Segment): Promise<void> {
  const { log, segment: number, schedule } = segment;
  if (schedule === undefined) return;
  const [newest] = await queryNewestSegments(tables, log, { consistent: true });
  if (newest.segment > number + 1) return;
  const last = await tables.newestEntry(log, number + 1, { consistent: true });
  if (last !== undefined && last.position.entry > 0) return;
  throw new SegmentStateError('the segment has the newest item of the log', {
    log,
    segment: number,
    advice: 'Try again later',
  });
}
