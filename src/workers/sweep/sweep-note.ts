import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { SWEEP_KEY } from '../../store/keys.ts';
import { logIdSchema } from '../../store/log-id-schema.ts';
import { dueDeduplicationId, type Job, QUEUE_NAMES, QUEUE_OF, type QueueName } from '../jobs/job.ts';

/** The rest of a sweep, as an operator or a note gives it back. */
export const sweepRestSchema = z
  .array(
    z.union([
      z.literal(['beginning', 'end']),
      z.object({ log: logIdSchema(), segment: z.int().min(0).max(MAX_NUMBER) }),
    ]),
  )
  .readonly();

/**
 * The point at which to continue each part of the Segment table: at its beginning, after a segment,
 * or not at all. If all parts are at their end, only gc candidates remain.
 */
export type SweepRest = z.infer<typeof sweepRestSchema>;

const requestedJobs = z.object({
  queue: z.enum(QUEUE_NAMES),
  /** When a sweep sent the messages, in epoch seconds. */
  at: z.int().min(0),
  /** A short hash of each job. */
  jobs: z.array(z.string()).readonly(),
});

const unknownQueue = z.string().refine((name) => !QUEUE_NAMES.some((known) => known === name));

const schema = z.object({
  format: z.literal(1),
  /** The point at which the next sweep continues; absent if the last one looked at all logs. */
  rest: sweepRestSchema.optional(),
  /**
   * Jobs whose messages may still wait in a queue, without those of queues that only a newer
   * release has.
   */
  requested: z
    .array(z.union([requestedJobs, z.object({ queue: unknownQueue }).transform(() => undefined)]))
    .transform((requested) => requested.filter((each) => each !== undefined))
    .readonly()
    .optional(),
});

type StoredNote = z.infer<typeof schema>;

/** Jobs that a sweep sent to one queue. */
export type RequestedJobsNote = Readonly<z.infer<typeof requestedJobs>>;

/** A note from one sweep to the next. */
export type SweepNote = Readonly<Omit<StoredNote, 'format'>>;

const OBJECT = new JsonObject({
  key: SWEEP_KEY,
  schema,
  advice: 'Remove it: the next sweep then looks at all logs, and requests every due job again',
});

/**
 * @returns undefined if there is no note, or if the note is empty
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readSweepNote(blobs: BlobStore): Promise<SweepNote | undefined> {
  return toNote(await OBJECT.read(blobs));
}

/**
 * Writes a note for the next sweep. If another sweep has written a note since this sweep began, the
 * new note has the requested jobs of both. It has a rest only if both sweeps left one.
 * @param before the note that this sweep began with
 * @throws ObjectInvalidError if the current note cannot be read; nothing is written then
 */
export async function writeSweepNote(
  blobs: BlobStore,
  before: SweepNote | undefined,
  { rest, requested = [] }: SweepNote,
): Promise<void> {
  await OBJECT.update(blobs, (document) => {
    const present = toNote(document);
    const isMine = isDeepStrictEqual(present, before);
    const kept = isMine ? requested : [...(present?.requested ?? []), ...requested];
    const next: StoredNote = {
      format: 1,
      ...(rest !== undefined && (isMine || present?.rest !== undefined) && { rest }),
      ...(kept.length > 0 && { requested: kept }),
    };
    return isDeepStrictEqual(toNote(next), present) ? undefined : next;
  });
}

function toNote({ rest, requested }: Partial<StoredNote> = {}): SweepNote | undefined {
  return rest === undefined && requested === undefined ? undefined : { rest, requested };
}

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
