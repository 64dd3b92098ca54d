import { SegmentStateError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { guardPointer, withoutForeignArchive } from '../../log/guard.ts';
import type { TableReader } from '../../log/log-store.ts';
import { querySegments, requireDense } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import {
  dueSince,
  expiringUnarchived,
  planRetention,
  type RetentionJob,
  type RetentionPolicy,
} from '../../retention/retention-policy.ts';
import type { DueJob, Finder, SweptLog } from './finder.ts';

export interface DueRetentionDeps {
  readonly tables: TableReader;
  readonly policyOf: (log: LogId) => RetentionPolicy;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Whether archive jobs replace the archives of other programs. False by default. */
  readonly replaceForeign?: boolean | undefined;
}

/**
 * Finds the archive and expire jobs that are due for a log. The segments of the sweep may be stale:
 * if they show a job, it reads the log's segments again. A job is not due if another program wrote
 * Last Snapshot of its segment, or of the next segment, which covers it. The search throws
 * SegmentGapError if a segment of the log is missing.
 */
export function dueRetention({ log, segments, send, passOver, fail }: SweptLog, deps: DueRetentionDeps): Finder {
  const { tables, policyOf, now, replaceForeign = false } = deps;
  const find = async (): Promise<void> => {
    requireDense(log, segments);
    const policy = policyOf(log);
    const plan = (of: readonly Segment[]) =>
      planRetention(replaceForeign ? of.map(withoutForeignArchive) : of, policy, now());
    if (plan(segments).length + expiringUnarchived(segments, policy).length === 0) return;
    const current = await querySegments(tables, log, { consistent: true });
    // A sent job may change the segments, so all are looked at before.
    const due: DueJob[] = [];
    for (const job of plan(current)) {
      const pointer = await pointerInTheWay(tables, current, job);
      const why = `the retention policy ${job.kind === 'archive' ? 'archives' : 'expires'} the segment`;
      if (pointer !== undefined) passOver(pointer);
      else due.push({ job, why, since: dueSince(current, job, policy) / 1000 });
    }
    for (const job of due) await send(job);
    for (const segment of expiringUnarchived(current, policy)) fail(expiresUnarchived(segment));
  };
  return { find };
}

async function pointerInTheWay(tables: TableReader, segments: readonly Segment[], job: RetentionJob) {
  for (const segment of segments) {
    if (segment.segment !== job.segment && segment.segment !== job.segment + 1) continue;
    const pointer = await guardPointer(tables, segment);
    if (pointer !== undefined) return pointer;
  }
  return undefined;
}

function expiresUnarchived({ log, segment }: Segment): SegmentStateError {
  return new SegmentStateError('the entries of the segment expire without the archive that the policy requires', {
    log,
    segment,
    advice: `Run 'logfold expire LOG ${segment} --undo'. The next sweep then archives the segment`,
  });
}
