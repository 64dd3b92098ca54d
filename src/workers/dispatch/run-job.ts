import { TimeUpError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import type { SegmentLifecycle, SnapshotPublisher, TableReader } from '../../log/log-store.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { type CollectDeps, type CollectResult, collectLog } from '../gc/collect.ts';
import type { Deadline } from '../jobs/deadline.ts';
import { encodeJob, type Job } from '../jobs/job.ts';
import type { JobSender } from '../jobs/job-queues.ts';
import { type ArchiveDeps, type ArchiveResult, archiveSegment } from '../retention/archive-segment.ts';
import { type ExpireDeps, type ExpireResult, expireSegment } from '../retention/expire-segment.ts';
import { completeSnapshot, type SnapshotDeps, type SnapshotResult } from '../snapshot/build-snapshot.ts';
import { type FlushResult, flushSnapshot } from '../snapshot/flush-snapshot.ts';
import { type RebuildResult, rebuildLog } from '../snapshot/rebuild-log.ts';

export interface JobDeps
  extends SnapshotDeps,
    Omit<ArchiveDeps, keyof Deadline>,
    ExpireDeps,
    Pick<CollectDeps, 'atLeast'> {
  readonly tables: TableReader & SnapshotPublisher & SegmentLifecycle;
  /** Where the jobs that follow from this one go. */
  readonly queue: JobSender;
  readonly policyOf: (log: LogId) => RetentionPolicy | Promise<RetentionPolicy>;
  /**
   * Rejects where a log is not to be folded with this reducer. Every log is by default, whatever
   * folded it before.
   */
  readonly requireReducer?: ((log: LogId) => Promise<void>) | undefined;
}

/** How a job ended. */
export type JobResult = SnapshotResult | FlushResult | ArchiveResult | ExpireResult | CollectResult | RebuildResult;

/**
 * Does a job of any kind, and sends those that follow from it, in the same group: so they come
 * behind those which are in their queue already.
 *
 * - A job whose time was up gets another turn, which goes on from where it has come to. If one turn
 *   is too short for the least that it must do, the job is refused, and does not keep the log's
 *   other jobs waiting: a collection that cannot read the kept snapshots, an archive whose parts
 *   cannot be joined. The next sweep finds it due again.
 * - A snapshot after which settling is due is followed by a compact job, and so is the newest one
 *   of a rebuilt log; if a newer snapshot was asked for already, that one is settled instead.
 * - Of a segment that was archived one snapshot is kept, and of one that leaves without an archive
 *   none: a collect job finds what only the others reached. (What settling leaves behind is little,
 *   and is found by the same job some day; so are snapshots whose entries DynamoDB has not deleted
 *   yet.)
 * @throws whatever may pass: the job is to be delivered again
 */
export async function runJob(deps: JobDeps, job: Job): Promise<JobResult> {
  const send = (next: Job, deduplicationId: string): Promise<void> =>
    deps.queue.send({ group: next.log, deduplicationId, body: encodeJob(next) });
  const settle = (position: Position): Promise<void> => {
    const next: Job = { kind: 'compact', log: job.log, position };
    return send(next, dueDeduplicationId(next));
  };
  const collectSoon = (): Promise<void> => {
    const next: Job = { kind: 'collect', log: job.log };
    return send(next, dueDeduplicationId(next));
  };
  switch (job.kind) {
    case 'snapshot': {
      await deps.requireReducer?.(job.log);
      const result = await completeSnapshot(deps, job);
      if (result.outcome === 'progress') {
        const { again: _, ...rest } = job;
        const next = { ...rest, turn: (job.turn ?? 0) + 1 };
        await send(next, continuationDeduplicationId(next, result.reached));
      }
      if ('compaction' in result && result.compaction !== undefined) await settle(job.position);
      return result;
    }
    case 'compact': {
      const result = await flushSnapshot(deps, job);
      if (result.outcome === 'settling') {
        const next = { ...job, turn: (job.turn ?? 0) + 1 };
        await send(next, continuationDeduplicationId(next, job.position));
      }
      return result;
    }
    case 'archive': {
      const result = await archiveSegment(deps, job).catch(refuseIfTimeUp);
      if (result.outcome === 'archived') await collectSoon();
      if (result.outcome === 'archiving') {
        const next = { ...job, turn: (job.turn ?? 0) + 1, parts: result.parts };
        await send(next, continuationDeduplicationId(next, { segment: job.segment, entry: result.reached }));
      }
      return result;
    }
    case 'expire': {
      const policy = await deps.policyOf(job.log);
      const result = await expireSegment(deps, job, policy);
      // Without an archive, snapshots leave with the entries that carry them.
      if (result.outcome === 'expired' && !policy.archive) await collectSoon();
      if (result.outcome === 'progress') {
        const next: Job = { ...job, from: result.reached, announced: result.expires };
        await send(next, continuationDeduplicationId(next, { segment: job.segment, entry: result.reached }));
      }
      return result;
    }
    case 'collect': {
      const result = await collectLog(deps, job, await deps.policyOf(job.log)).catch(refuseIfTimeUp);
      if (result.outcome === 'collecting') {
        const { turn, since } = result;
        // Not by the turn alone: another collection may begin while the queue remembers this one.
        await send({ ...job, turn }, `turn:collect:${job.log}:${turn}:${since}`);
      }
      return result;
    }
    case 'rebuild': {
      await deps.requireReducer?.(job.log);
      const result = await rebuildLog(deps, job);
      if (result.outcome === 'progress') {
        const next = { ...job, after: result.after, turn: (job.turn ?? 0) + 1 };
        await send(next, continuationDeduplicationId(next, result.reached));
      } else if (result.compaction !== undefined && result.newest !== undefined) {
        // Not by the id of a due job: the queue may remember the one that settled what was here
        // before.
        const next: Job = { kind: 'compact', log: job.log, position: result.newest };
        await send(next, `rebuilt:${job.log}:${formatPosition(result.newest)}:${deps.now()}`);
      }
      return result;
    }
  }
}

/** Tried again, such a job would only run out of time again. */
function refuseIfTimeUp(error: unknown): { readonly outcome: 'refused'; readonly error: TimeUpError } {
  if (error instanceof TimeUpError) return { outcome: 'refused', error };
  throw error;
}

/**
 * The same for every time that a job is found due, and never that of a job that somebody sends on
 * purpose.
 */
export function dueDeduplicationId(job: Job): string {
  return ['due', job.kind, job.log, ...placeOf(job)].join(':');
}

/**
 * The same for every copy of what one run of the sweep found, and never that of what another run,
 * or a job, found.
 */
export function sweepDeduplicationId(run: string, job: Job): string {
  return ['sweep', run, job.kind, job.log, ...placeOf(job)].join(':');
}

/**
 * The same for a turn that is asked for twice because the one before was given out twice. The place
 * alone would not do: a turn that finds its progress damaged may end where an earlier one did,
 * within the minutes that the queue remembers, and the job would be dropped.
 */
export function continuationDeduplicationId(job: Job, reached: Position): string {
  const turn = 'turn' in job ? job.turn : 'announced' in job ? job.announced : undefined;
  return ['turn', job.kind, job.log, ...placeOf(job), turn ?? 0, formatPosition(reached)].join(':');
}

function placeOf(job: Job): (string | number)[] {
  if ('position' in job) return [formatPosition(job.position)];
  return 'segment' in job ? [job.segment] : [];
}
