import { hash } from 'node:crypto';
import type { LogId } from '../../ids/log-id.ts';
import { dueDeduplicationId, type Job, QUEUE_OF, type QueueName } from '../jobs/job.ts';
import type { RequestedJobsNote } from './sweep-note.ts';

/** SQS takes up to a minute to count a message that was sent. */
const COUNTED_SECONDS = 120;

/** Unless the queue is long, a message has left it after a day: done, failed too often or lost. */
const REQUEST_AGAIN_SECONDS = 24 * 3600;

/** A queue with this many messages is long: a message may wait in it for more than a day. */
const LONG_QUEUE = 1_000;

/**
 * Sweeps fill a queue up to this many messages. SQS looks for available groups among the first
 * 120,000 messages of a FIFO queue. Groups after those would wait for other logs.
 */
const FULL_QUEUE = 100_000;

/**
 * The most jobs of one log in a queue. They run one after the other, and the next sweep sends more.
 */
const JOBS_OF_ONE_LOG = 1_000;

/** The longest retention period of SQS. */
const RETENTION_SECONDS = 14 * 24 * 3600;

/** When jobs were sent, and to which queue. */
type Request = Omit<RequestedJobsNote, 'jobs'>;

export interface RequestedJobsOptions {
  /** The jobs that earlier sweeps noted. */
  readonly noted: readonly RequestedJobsNote[];
  /** How many messages each queue holds. */
  readonly depths: Readonly<Record<QueueName, number>>;
  /** Epoch milliseconds. */
  readonly nowMs: number;
}

/**
 * Remembers the jobs that sweeps sent and whose messages may still wait, so that no sweep sends
 * them again. Also holds jobs back while a queue has too many messages, of one log or altogether.
 *
 * A job counts as sent until its message must have left the queue: the queue is empty, or a day has
 * passed and the queue is not long, or the queue's retention period has passed. If the job is still
 * due, a later sweep sends it again. A lost message therefore delays its job, and the number of
 * messages in a queue stays bounded.
 */
export class RequestedJobs {
  readonly #nowSeconds: number;
  readonly #requested = new Map<string, Request>();
  readonly #seen = new Set<string>();
  readonly #ofLog: Readonly<Record<QueueName, Map<LogId, number>>> = { snapshot: new Map(), maintenance: new Map() };
  readonly #depths: Record<QueueName, number>;
  readonly #requests: Readonly<Record<QueueName, Request>>;

  constructor({ noted, depths, nowMs }: RequestedJobsOptions) {
    this.#nowSeconds = Math.floor(nowMs / 1000);
    this.#depths = { ...depths };
    this.#requests = {
      snapshot: { queue: 'snapshot', at: this.#nowSeconds },
      maintenance: { queue: 'maintenance', at: this.#nowSeconds },
    };
    for (const { jobs, ...request } of noted) {
      if (this.#mayWait(request, depths[request.queue])) for (const id of jobs) this.#requested.set(id, request);
    }
  }

  /**
   * Whether a due job must not be sent now. Call it once for each job: it counts the jobs of each
   * log.
   */
  holdsBack(job: Job): boolean {
    const id = idOf(job);
    this.#seen.add(id);
    const queue = QUEUE_OF[job.kind];
    const ofLog = (this.#ofLog[queue].get(job.log) ?? 0) + 1;
    this.#ofLog[queue].set(job.log, ofLog);
    if (this.#requested.has(id) || ofLog > JOBS_OF_ONE_LOG || this.#depths[queue] >= FULL_QUEUE) return true;
    // Counted before it is sent, because a sweep sends several jobs concurrently.
    this.#depths[queue]++;
    return false;
  }

  /** Remembers a job that was sent. */
  add(job: Job): void {
    this.#requested.set(idOf(job), this.#requests[QUEUE_OF[job.kind]]);
  }

  /**
   * The requested jobs that the next sweep must know.
   * @param complete whether this sweep looked at all logs; requested jobs that it did not find due
   * are then done
   */
  note(complete: boolean): RequestedJobsNote[] {
    const groups = new Map<Request, string[]>();
    for (const [id, request] of this.#requested) {
      if (complete && !this.#seen.has(id)) continue;
      const jobs = groups.get(request);
      if (jobs === undefined) groups.set(request, [id]);
      else jobs.push(id);
    }
    return [...groups].map(([request, jobs]) => ({ ...request, jobs }));
  }

  #mayWait({ at }: Request, depth: number): boolean {
    const age = this.#nowSeconds - at;
    if (age < COUNTED_SECONDS) return true;
    if (depth === 0 || age >= RETENTION_SECONDS) return false;
    return age < REQUEST_AGAIN_SECONDS || depth >= LONG_QUEUE;
  }
}

/**
 * 72 bits: short, because a million jobs may wait. If two jobs collided, the sweep would send one a
 * day later.
 */
function idOf(job: Job): string {
  return hash('sha256', dueDeduplicationId(job), 'base64').slice(0, 12);
}
