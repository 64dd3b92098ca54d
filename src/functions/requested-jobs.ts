import { hash } from 'node:crypto';
import type { LogId } from '../ids/log-id.ts';
import { dueDeduplicationId } from '../workers/dispatch/run-job.ts';
import type { Job } from '../workers/jobs/job.ts';
import { type QueueName, queueOf } from '../workers/jobs/job-queues.ts';
import type { RequestedJobsNote } from '../workers/sweep/sweep-note.ts';

/** SQS needs a minute until it counts a message that was sent. */
const COUNTED_SECONDS = 120;

/** A message that failed all its deliveries, or that nobody received, is gone after a day, unless the queue is long. */
const ASK_AGAIN_SECONDS = 24 * 3600;

/** From so many messages on a queue is long: a message may wait in it for more than a day. */
const LONG_QUEUE = 1_000;

/**
 * The most messages with which sweeps fill a queue: SQS looks for groups that it may give out among the first 120,000 messages
 * of a FIFO queue, so that groups behind those would wait for others.
 */
const FULL_QUEUE = 100_000;

/** The most jobs of one log that wait in a queue: they are done one after the other, and the next sweep sends more. */
const JOBS_OF_ONE_LOG = 1_000;

/** No queue keeps a message for longer. */
const RETENTION_SECONDS = 14 * 24 * 3600;

export interface RequestedJobsOptions {
  /** The jobs that earlier sweeps noted. */
  readonly noted: readonly RequestedJobsNote[];
  /** How many messages each queue holds. */
  readonly depths: Readonly<Record<QueueName, number>>;
  /** Epoch milliseconds. */
  readonly nowMs: number;
}

/**
 * Remembers which jobs sweeps sent and whose messages may still wait, so that no sweep sends them again; and holds jobs
 * back while a queue has many messages, of one log or altogether.
 *
 * A job counts as sent until its message must be gone: its queue is empty, or a day has passed and the queue is not long, or
 * the queue's retention period has passed. A later sweep then sends the job again if it is still due. So a message that was
 * lost delays its job, and the number of messages in a queue stays bounded however many sweeps come by.
 */
export class RequestedJobs {
  readonly #nowSeconds: number;
  readonly #asked = new Map<string, Omit<RequestedJobsNote, 'jobs'>>();
  readonly #seen = new Set<string>();
  readonly #ofLog: Readonly<Record<QueueName, Map<LogId, number>>> = { snapshot: new Map(), maintenance: new Map() };
  readonly #depths: Record<QueueName, number>;
  readonly #now: Readonly<Record<QueueName, Omit<RequestedJobsNote, 'jobs'>>>;

  constructor({ noted, depths, nowMs }: RequestedJobsOptions) {
    this.#nowSeconds = Math.floor(nowMs / 1000);
    this.#depths = { ...depths };
    this.#now = {
      snapshot: { queue: 'snapshot', at: this.#nowSeconds },
      maintenance: { queue: 'maintenance', at: this.#nowSeconds },
    };
    for (const { jobs, ...when } of noted) {
      if (this.#mayWait(when, depths[when.queue])) for (const id of jobs) this.#asked.set(id, when);
    }
  }

  /** Whether a due job is not to be sent now. Asked once for each job. */
  holdsBack(job: Job): boolean {
    const id = idOf(job);
    this.#seen.add(id);
    const queue = queueOf(job.kind);
    const ofLog = (this.#ofLog[queue].get(job.log) ?? 0) + 1;
    this.#ofLog[queue].set(job.log, ofLog);
    return this.#asked.has(id) || ofLog > JOBS_OF_ONE_LOG || this.#depths[queue] >= FULL_QUEUE;
  }

  /** Notes that a message with this job was sent. */
  add(job: Job): void {
    const queue = queueOf(job.kind);
    this.#asked.set(idOf(job), this.#now[queue]);
    this.#depths[queue]++;
  }

  /**
   * What the next sweep has to know.
   * @param complete whether this sweep looked at all logs: then a job that it did not meet is done
   */
  note(complete: boolean): RequestedJobsNote[] {
    const groups = new Map<Omit<RequestedJobsNote, 'jobs'>, string[]>();
    for (const [id, when] of this.#asked) {
      if (complete && !this.#seen.has(id)) continue;
      const jobs = groups.get(when);
      if (jobs === undefined) groups.set(when, [id]);
      else jobs.push(id);
    }
    return [...groups].map(([when, jobs]) => ({ ...when, jobs }));
  }

  #mayWait({ at }: Omit<RequestedJobsNote, 'jobs'>, depth: number): boolean {
    const age = this.#nowSeconds - at;
    if (age < COUNTED_SECONDS) return true;
    if (depth === 0 || age >= RETENTION_SECONDS) return false;
    return age < ASK_AGAIN_SECONDS || depth >= LONG_QUEUE;
  }
}

/** 72 bits: short, since a million jobs may wait. If two jobs had the same, one would be asked for a day later. */
function idOf(job: Job): string {
  return hash('sha256', dueDeduplicationId(job), 'base64').slice(0, 12);
}
