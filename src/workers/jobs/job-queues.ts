import type { JobQueue } from '../../store/job-queue.ts';
import { decodeJob, type Job } from './job.ts';

/** The two queues: `snapshot` for what clients wait for, `maintenance` for what can wait. */
export type QueueName = 'snapshot' | 'maintenance';

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
      await (queueOf(kind) === 'snapshot' ? snapshot : maintenance).send(message);
    },
  };
}

/** The queue that jobs of a kind go to. */
export function queueOf(kind: Job['kind']): QueueName {
  switch (kind) {
    case 'snapshot':
    case 'rebuild':
      return 'snapshot';
    case 'compact':
    case 'archive':
    case 'expire':
    case 'collect':
      return 'maintenance';
  }
}
