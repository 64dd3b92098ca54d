import { type LogfoldError, TimeUpError } from '../../errors.ts';
import { feedOr } from '../../feed/feed-log.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { type DivisionPolicy, NO_DIVISION } from '../../log/division-policy.ts';
import type {
  AheadAppender,
  EntryAppender,
  SegmentLifecycle,
  SnapshotPublisher,
  TableReader,
} from '../../log/log-store.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { type DivideDeps, type DivideResult, divideLog, reportDivision } from '../divide/divide-log.ts';
import { type CollectDeps, type CollectResult, collectLog, reportCollection } from '../gc/collect.ts';
import type { Deadline } from '../jobs/deadline.ts';
import {
  continuationDeduplicationId,
  describeOutcome,
  dueDeduplicationId,
  type Job,
  type JobSender,
  jobMessage,
  logLabel,
  type SnapshotJob,
  streamDeduplicationId,
} from '../jobs/job.ts';
import { type Refused, type Report, reportUndone } from '../jobs/report.ts';
import { type ArchiveResult, archiveSegment, reportArchive } from '../retention/archive-segment.ts';
import { type ExpireDeps, type ExpireResult, expireSegment, reportExpiry } from '../retention/expire-segment.ts';
import type { ArchiveDeps } from '../retention/write-archive.ts';
import {
  completeSnapshot,
  reportSnapshot,
  type SnapshotDeps,
  type SnapshotResult,
  type SnapshotRun,
} from '../snapshot/build-snapshot.ts';
import { type FlushResult, flushSnapshot, reportFlush } from '../snapshot/flush-snapshot.ts';
import { type RebuildResult, rebuildLog, reportRebuild } from '../snapshot/rebuild-log.ts';

export interface JobDeps
  extends SnapshotDeps,
    Omit<ArchiveDeps, keyof Deadline>,
    ExpireDeps,
    Pick<CollectDeps, 'atLeast'>,
    Pick<DivideDeps, 'scheduler'> {
  readonly tables: TableReader & EntryAppender & AheadAppender & SnapshotPublisher & SegmentLifecycle;
  /** Receives the jobs that follow from this one. */
  readonly queue: JobSender;
  /** {@link NO_DIVISION} by default. */
  readonly division?: DivisionPolicy | undefined;
  readonly policyOf: (log: LogId) => RetentionPolicy | Promise<RetentionPolicy>;
  /**
   * Resolves to an error if another reducer folds this log: a job that would fold it is refused.
   * Rejects if no log can be folded. By default the reducer folds every log.
   */
  readonly otherReducer?: (log: LogId) => Promise<LogfoldError | undefined>;
}

interface JobResults {
  readonly snapshot: SnapshotResult | Refused;
  readonly divide: DivideResult | Refused;
  readonly flush: FlushResult;
  readonly archive: ArchiveResult | Refused;
  readonly expire: ExpireResult;
  readonly collect: CollectResult;
  readonly rebuild: RebuildResult | Refused;
}

/** The jobs that fold entries. A divide job asks for a snapshot. */
const FOLDING: readonly Job['kind'][] = ['snapshot', 'divide', 'rebuild'];

export type JobResult = JobResults[Job['kind']];

const REPORTS: { readonly [Kind in Job['kind']]: (result: JobResults[Kind], run: SnapshotRun) => Report } = {
  snapshot: (result, run) => (result.outcome === 'refused' ? reportUndone(result) : reportSnapshot(result, run)),
  divide: (result) => (result.outcome === 'refused' ? reportUndone(result) : reportDivision(result)),
  flush: reportFlush,
  archive: (result) => (result.outcome === 'refused' ? reportUndone(result) : reportArchive(result)),
  expire: reportExpiry,
  collect: reportCollection,
  rebuild: (result) => (result.outcome === 'refused' ? reportUndone(result) : reportRebuild(result)),
};

/** The report of a job's result. */
export function reportOf<Kind extends Job['kind']>(
  { kind }: { readonly kind: Kind },
  result: JobResults[Kind],
  run: SnapshotRun = { ms: 0 },
): Report {
  return REPORTS[kind](result, run);
}

/**
 * Runs a job of any kind and sends the jobs that follow from it. They are in the same group, so
 * they run after the jobs of this log that are queued already. A job of the feed runs with the
 * feed's own reducer and division policy.
 *
 * - If the time is up, the job sends a continuation. A job is refused if one run is too short for
 *   its smallest step: a collection that cannot read the kept snapshots, or an archive whose parts
 *   cannot be joined. The other jobs of the log then go on, and the next sweep finds the job due
 *   again.
 * - If another reducer folds the log, a job that would fold it is refused.
 * - If a divide job appends a Snapshot entry, its snapshot job follows. The stream may send the
 *   same job, with the same deduplication id.
 * - If a flush is due after a snapshot or a rebuild, a flush job follows. If there is a newer
 *   Snapshot entry by then, that snapshot is flushed instead.
 * - An archived segment keeps one snapshot, and a segment that expires without an archive keeps
 *   none. A collect job removes the objects that only the other snapshots reached. It also removes
 *   the few objects that flushes replaced, and, later, snapshots whose entries DynamoDB has not
 *   deleted yet.
 *
 * It throws transient errors; the caller retries the job.
 */
export async function runJob(given: JobDeps, job: Job): Promise<JobResult> {
  const { log } = job;
  const deps = feedOr(log, given);
  const send = (next: Job, deduplicationId: string): Promise<void> =>
    deps.queue.send(jobMessage(next, deduplicationId));
  const sendSoon = (next: Job): Promise<void> => send(next, dueDeduplicationId(next));
  const continueWith = (next: Job, reached: Position): Promise<void> =>
    send(next, continuationDeduplicationId(next, reached));
  const continuation = 1 + (('continuation' in job ? job.continuation : undefined) ?? 0);
  if (FOLDING.includes(job.kind)) {
    const error = await deps.otherReducer?.(log);
    if (error !== undefined) return { outcome: 'refused', error };
  }
  switch (job.kind) {
    case 'snapshot': {
      const result = await completeSnapshot(deps, job);
      const { force: _, ...next } = job;
      if (result.outcome === 'progress') await continueWith({ ...next, continuation }, result.reached);
      const { position } = job;
      if ('flushDue' in result && result.flushDue !== undefined) await sendSoon({ kind: 'flush', log, position });
      return result;
    }
    case 'divide': {
      const result = await divideLog({ ...deps, division: deps.division ?? NO_DIVISION }, job);
      if (result.outcome === 'divided') {
        const next: SnapshotJob = { kind: 'snapshot', log, position: result.position };
        await send(next, streamDeduplicationId(next));
      }
      return result;
    }
    case 'flush': {
      const result = await flushSnapshot(deps, job);
      if (result.outcome === 'flushing') await continueWith({ ...job, continuation }, job.position);
      return result;
    }
    case 'archive': {
      const result = await archiveSegment(deps, job).catch(refuseIfTimeUp);
      if (result.outcome === 'archived') await sendSoon({ kind: 'collect', log });
      if (result.outcome === 'archiving') {
        const { segment, reached: entry, parts } = result;
        await continueWith({ ...job, continuation, parts }, { segment, entry });
      }
      return result;
    }
    case 'expire': {
      const policy = await deps.policyOf(log);
      const result = await expireSegment(deps, job, policy);
      // Without an archive, snapshots expire with their entries.
      if (result.outcome === 'expired' && !policy.archive) await sendSoon({ kind: 'collect', log });
      if (result.outcome === 'progress') {
        const { segment, reached: entry, expires: announced } = result;
        await continueWith({ ...job, from: entry, announced }, { segment, entry });
      }
      return result;
    }
    case 'collect': {
      const result = await collectLog(deps, job, await deps.policyOf(log)).catch(refuseIfTimeUp);
      if (result.outcome === 'collecting') {
        // The id has the start time, because another collection may begin while the queue remembers
        // this one.
        const id = `continuation:collect:${logLabel(log)}:${result.continuation}:${result.since}`;
        await send({ ...job, continuation: result.continuation }, id);
      }
      return result;
    }
    case 'rebuild': {
      const result = await rebuildLog(deps, job);
      if (result.outcome === 'progress') {
        await continueWith({ ...job, after: result.after, continuation }, result.reached);
      } else if (result.flushDue !== undefined && result.newest !== undefined) {
        // Not the id of a due job: the queue may remember a flush of the snapshot before the
        // rebuild.
        const id = `rebuilt:${logLabel(log)}:${formatPosition(result.newest)}:${deps.now()}`;
        await send({ kind: 'flush', log, position: result.newest }, id);
      }
      return result;
    }
  }
}

/** A retry of such a job would run out of time again. */
function refuseIfTimeUp(error: unknown): Refused {
  if (error instanceof TimeUpError) return { outcome: 'refused', error };
  throw error;
}

/** A job and its result in words; undefined if people need not hear of it. */
export function describeJobResult(job: Job, result: JobResult): string | undefined {
  const report = reportOf(job, result);
  return report.level === 'quiet' ? undefined : describeOutcome(job, report);
}
