import type { Position } from '../log/position.ts';
import type { JobQueue } from '../store/job-queue.ts';
import { type CompactResult, compactSnapshot } from './compact.ts';
import { type CompactJob, encodeJob, type Job, type SnapshotJob } from './job.ts';
import { completeSnapshot, type SnapshotDeps, type SnapshotResult } from './snapshot.ts';

export interface JobDeps extends SnapshotDeps {
  /** Where the jobs that follow from this one go: the queue that it came from. */
  readonly queue: Pick<JobQueue, 'send'>;
}

/** How a job ended. */
export type JobResult = SnapshotResult | CompactResult;

/**
 * Does a job of any kind. A snapshot after which settling is due is followed by a compact job for it, in the same group:
 * behind the snapshots that are asked for already, and if one of those is newer, that one is settled instead. A snapshot
 * whose time was up gets another turn in the same way, behind the others, which go on from where it has come to.
 * @throws whatever may pass: the job is to be delivered again
 */
export async function runJob(deps: JobDeps, job: Job): Promise<JobResult> {
  if (job.kind === 'compact') return compactSnapshot(deps, job);
  const result = await completeSnapshot(deps, job);
  if (result.outcome === 'progress') {
    const next: SnapshotJob = { ...job, turn: (job.turn ?? 0) + 1 };
    const deduplicationId = turnDeduplicationId(next, result.reached);
    await deps.queue.send({ group: job.log, deduplicationId, body: encodeJob(next) });
  }
  if ('compaction' in result && result.compaction !== undefined) {
    const next: CompactJob = { kind: 'compact', log: job.log, position: job.position };
    await deps.queue.send({ group: job.log, deduplicationId: dueDeduplicationId(next), body: encodeJob(next) });
  }
  return result;
}

/** The same for every time that a snapshot is found due, and never that of a job that somebody sends on purpose. */
export function dueDeduplicationId({ kind, log, position }: CompactJob): string {
  return `due:${kind}:${log}:${position.segment}:${position.entry}`;
}

/**
 * The same for a turn that is asked for twice because the one before was given out twice. The place alone would not do:
 * a turn that finds its progress damaged may end where an earlier one did, within the minutes that the queue remembers,
 * and the job would be dropped.
 */
export function turnDeduplicationId({ kind, log, position, turn = 0 }: SnapshotJob, reached: Position): string {
  return `turn:${kind}:${log}:${position.segment}:${position.entry}:${turn}:${reached.segment}:${reached.entry}`;
}
