import { SegmentStateError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { ForeignPart } from '../../log/foreign.ts';
import { foreignPointer } from '../../log/last-snapshot.ts';
import type { TableReader } from '../../log/log-store.ts';
import { querySegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import {
  dueSince,
  expiringUnarchived,
  planRetention,
  type RetentionJob,
  type RetentionPolicy,
} from '../../retention/retention-policy.ts';

export interface DueRetentionDeps {
  readonly tables: TableReader;
  readonly policyOf: (log: LogId) => RetentionPolicy;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Whether archive jobs replace the archives of other programs. False by default. */
  readonly replaceForeign?: boolean | undefined;
}

export interface DueRetention {
  /** Jobs that are due, and since when, in epoch milliseconds. */
  readonly due: readonly { readonly job: RetentionJob; readonly since: number }[];
  /** Parts that another program wrote, so that a job is not due. */
  readonly foreign: readonly ForeignPart[];
  /** The errors of segments that expire without the archive that the policy requires. */
  readonly unarchived: readonly SegmentStateError[];
}

/**
 * The archive and expire jobs that are due for a log. The given segments may be stale: if they show
 * a job, it reads the log's segments again. A job is not due if another program wrote Last Snapshot
 * of its segment, or of the next segment, which covers it.
 */
export async function findDueRetention(
  deps: DueRetentionDeps,
  log: LogId,
  segments: readonly Segment[],
): Promise<DueRetention> {
  const policy = deps.policyOf(log);
  const plan = (of: readonly Segment[]) => planRetention(replaceable(deps, of), policy, deps.now());
  const isAtRest = plan(segments).length + expiringUnarchived(segments, policy).length === 0;
  const current = isAtRest ? [] : await querySegments(deps.tables, log, { consistent: true });
  const due: DueRetention['due'][number][] = [];
  const foreign: ForeignPart[] = [];
  for (const job of plan(current)) {
    const pointer = await pointerInTheWay(deps, current, job);
    if (pointer === undefined) due.push({ job, since: dueSince(current, job, policy) });
    else foreign.push(pointer);
  }
  return { due, foreign, unarchived: expiringUnarchived(current, policy).map(expiresUnarchived) };
}

function expiresUnarchived({ log, segment }: Segment): SegmentStateError {
  return new SegmentStateError('the entries of the segment expire without the archive that the policy requires', {
    log,
    segment,
    advice: `Run 'logfold expire LOG ${segment} --undo'. The next sweep then archives the segment`,
  });
}

/** The segments as if no other program had archived them, if archive jobs replace that. */
function replaceable({ replaceForeign = false }: DueRetentionDeps, segments: readonly Segment[]): readonly Segment[] {
  if (!replaceForeign) return segments;
  return segments.map(({ foreign: { L } = {}, ...segment }) =>
    L === undefined ? segment : { ...segment, foreign: { L } },
  );
}

async function pointerInTheWay(
  { tables }: DueRetentionDeps,
  segments: readonly Segment[],
  job: RetentionJob,
): Promise<ForeignPart | undefined> {
  for (const segment of segments) {
    if (segment.segment !== job.segment && segment.segment !== job.segment + 1) continue;
    const pointer = await foreignPointer(tables, segment);
    if (pointer !== undefined) return pointer;
  }
  return undefined;
}
