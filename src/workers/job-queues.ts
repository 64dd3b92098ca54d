import type { JobQueue } from '../store/job-queue.ts';
import { decodeJob, type Job } from './job.ts';

/** Whoever sends jobs needs no more of a queue. */
export type JobSender = Pick<JobQueue, 'send'>;

export interface JobQueues {
  /** For what clients wait for: snapshots, and making them anew. */
  readonly snapshot: JobSender;
  /** For what can wait: settling, archiving, expiring and collecting. */
  readonly maintenance: JobSender;
}

/**
 * The place where it is decided which queue a job goes to, by its kind alone. Each queue keeps the order of one log's
 * jobs; a job of one queue may run beside one of the other for the same log, as it may beside its twin.
 * @returns a sender that throws MessageInvalidError for a message that is no job
 */
export function jobQueues({ snapshot, maintenance }: JobQueues): JobSender {
  return {
    send: async (message) => {
      const { kind } = decodeJob(message.body);
      await (isSnapshotWork(kind) ? snapshot : maintenance).send(message);
    },
  };
}

function isSnapshotWork(kind: Job['kind']): boolean {
  switch (kind) {
    case 'snapshot':
    case 'rebuild':
      return true;
    case 'compact':
    case 'archive':
    case 'expire':
    case 'collect':
      return false;
  }
}
