import type { JobQueue } from '../../store/job-queue.ts';
import { decodeJob, type Job } from './job.ts';

/** The two queues: `snapshot` for jobs that clients wait for, `maintenance` for all others. */
export type QueueName = (typeof QUEUE_NAMES)[number];

export const QUEUE_NAMES = ['snapshot', 'maintenance'] as const;

/** The part of a queue that sends jobs. */
export type JobSender = Pick<JobQueue, 'send'>;

export interface JobQueues {
  /** Takes jobs that clients wait for: snapshot, divide and rebuild. */
  readonly snapshot: JobSender;
  /** Takes all other jobs: flush, archive, expire and collect. */
  readonly maintenance: JobSender;
}

/**
 * Sends each job to its queue, which depends only on its kind. Each queue keeps the order of one
 * log's jobs. Jobs of the same log in different queues may run concurrently, as duplicates may.
 * @returns a sender that throws MessageInvalidError for a message that is not a job
 */
export function jobQueues({ snapshot, maintenance }: JobQueues): JobSender {
  return {
    send: async (message) => {
      const { kind } = decodeJob(message.body);
      await (queueOf(kind) === 'snapshot' ? snapshot : maintenance).send(message);
    },
  };
}

/** The queue for jobs of a kind. */
export function queueOf(kind: Job['kind']): QueueName {
  switch (kind) {
    case 'snapshot':
    case 'divide':
    case 'rebuild':
      return 'snapshot';
    case 'flush':
    case 'archive':
    case 'expire':
    case 'collect':
      return 'maintenance';
  }
}
