import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { MemoryJobQueue } from '../adapters/memory/job-queue.ts';
import { DiskFullError } from '../errors.ts';
import type { JobEvent, RevisionsEvent, StreamEvent } from '../functions/function-event.ts';
import { runDelivered } from '../functions/jobs-function.ts';
import { imageChange } from '../functions/lambda-change.ts';
import { recordRecords } from '../functions/revisions-function.ts';
import { routeAndFeed, type StreamFunctionDeps } from '../functions/stream-function.ts';
import { plainItem } from '../log/attribute.ts';
import { divides, NO_DIVISION } from '../log/division-policy.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import { streamLabel } from '../revisions/image-change.ts';
import type { ReceivedMessage } from '../store/job-queue.ts';
import { consume } from '../workers/dispatch/consume-jobs.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { JobDeps } from '../workers/dispatch/run-job.ts';
import { dividedFeed, type FeedWriter } from '../workers/feed/feed-writer.ts';
import { decodeJob, type JobSender, jobQueues } from '../workers/jobs/job.ts';
import type { RevisionLogs } from '../workers/revisions/revision-logs.ts';
import type { DiscardedBatch } from './batch-delivery.ts';
import type { CheckpointStore, StreamPosition } from './checkpoint-store.ts';
import type { TrimmedRecords } from './shard-reader.ts';
import { StreamPoller } from './stream-poller.ts';
import { systemTime } from './stream-requests.ts';

/** How often a job may fail before it becomes a dead letter. */
const MAX_RECEIVES = 5;
/**
 * The stream is not read on while so many jobs wait. So memory stays small, and a process that
 * starts again repeats little work.
 */
const MAX_WAITING_JOBS = 1000;
/** How long a worker holds a job that it does not finish, in milliseconds. */
const VISIBILITY_MS = 60_000;
const COMMIT_EVERY_MS = 200;
const IDLE_POLL_MS = 20;

/** An action of the pipeline, for its watcher. */
export type PipelineEvent =
  | StreamEvent
  | RevisionsEvent
  | Extract<JobEvent, { readonly kind: 'job' }>
  | { readonly kind: 'failed'; readonly message: ReceivedMessage; readonly error: unknown }
  /** A job was given up after this many tries. */
  | { readonly kind: 'dead'; readonly message: ReceivedMessage; readonly tries: number; readonly error: unknown }
  | { readonly kind: 'discarded'; readonly batch: DiscardedBatch }
  | { readonly kind: 'trimmed'; readonly trimmed: TrimmedRecords };

/** A plain table whose changes the pipeline records as revisions. */
export interface RecordedTable {
  /** ARN of its stream, which has both images. */
  readonly streamArn: string;
  readonly checkpoints: CheckpointStore;
  readonly logs: RevisionLogs;
}

export interface PipelineOptions {
  readonly streams: DynamoDBStreamsClient;
  readonly streamArn: string;
  readonly checkpoints: CheckpointStore;
  readonly jobs: Omit<JobDeps, 'queue'>;
  /** How the table's items become entries; undefined if it is logfold's own Entry table. */
  readonly mapping?: SchemaMapping | undefined;
  /** Receives the new ends of all logs; undefined if there is no feed. */
  readonly feed?: Pick<FeedWriter, 'add'> | undefined;
  /** As in the stream function; needed only with a mapping and a feed. */
  readonly endAt?: StreamFunctionDeps['endAt'];
  /** Undefined if no revisions are recorded. */
  readonly revisions?: RecordedTable | undefined;
  /** The most logs that are worked on at the same time. */
  readonly concurrency: number;
  /** Whether to end the pipeline when the stream is read to its end and every job is done. */
  readonly untilIdle: boolean;
  readonly signal: AbortSignal;
  readonly onEvent: (event: PipelineEvent) => void;
  /**
   * Keeps a job that was given up. Only then does the stream position pass the job. If this
   * rejects, the pipeline ends with the error. By default, such jobs are only reported.
   */
  readonly keepDead?: (message: ReceivedMessage) => Promise<void>;
}

/**
 * Runs the deployment in one process. It polls the stream as Lambda does, and does with records and
 * jobs what the deployed functions do. It runs the jobs of each log one after the other. It saves
 * the stream position before the oldest unfinished job. If the process dies, the next process finds
 * every unfinished job again. While many jobs wait, it does not read on.
 * @throws DiskFullError if a job or the feed cannot be stored; the stream position stays before it
 */
export async function runPipeline(given: PipelineOptions): Promise<void> {
  const queue = new MemoryJobQueue({ maxReceives: MAX_RECEIVES });
  const { mapping, endAt } = given;
  const { types, division = NO_DIVISION } = given.jobs;
  const feed = given.feed && dividedFeed(given.feed, toQueue(queue));
  // The deployed event source mapping has the same filter, so that an item without a type does not
  // block the shard.
  const reserved: (string | undefined)[] = [types.snapshot, types.endSegment];
  const passesAll = divides(division) || mapping !== undefined || feed !== undefined;
  const passes = passesAll ? () => true : (type?: string) => reserved.includes(type);
  const stop = new AbortController();
  // Neither another try nor another job can help until a person makes room. Retries would use up
  // the tries of all jobs, and discard stream records.
  const report = (event: PipelineEvent): void => {
    given.onEvent(event);
    const full = 'error' in event ? diskFullIn(event.error) : undefined;
    if (full !== undefined) stop.abort(full);
  };
  const options: PipelineOptions = { ...given, onEvent: report };
  const routing = { queue: toQueue(queue), types, division, mapping, feed, endAt, report };
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const poller = new StreamPoller({
    client: options.streams,
    streamArn: options.streamArn,
    checkpoints: options.checkpoints,
    filter: (record) => record.eventName === 'INSERT' && passes(record.newImage?.T?.S),
    handler: async (records) => {
      places.note();
      await queue.shrunk(MAX_WAITING_JOBS, signal);
      return routeAndFeed(routing, records);
    },
    onDiscard: async (batch) => options.onEvent({ kind: 'discarded', batch }),
    onTrimmed: async (trimmed) => options.onEvent({ kind: 'trimmed', trimmed }),
  });
  const changes = options.revisions && changePoller(options, options.revisions);
  const isIdle = (): boolean => queue.oldest === undefined;
  const places = new Places(poller, queue);
  const commit = async (): Promise<void> => {
    await places.commit();
    // A change is recorded when its handler returns.
    await changes?.commit(changes.routed());
  };
  const commitUntilStopped = async (): Promise<void> => {
    while (!signal.aborted) {
      await commit();
      await systemTime.sleep(COMMIT_EVERY_MS, signal);
    }
  };
  const failures: Failures = new Map();
  const parts = [
    poller.run(signal),
    consumeJobs(options, queue, { failures, signal }),
    reportDeadLetters(options, queue, { failures, signal }),
    commitUntilStopped(),
  ];
  if (changes !== undefined) parts.push(changes.run(signal));
  // Recorded changes are entries, so the stream of the Entry table comes last.
  const pollers = [...(changes === undefined ? [] : [changes]), poller];
  if (options.untilIdle) parts.push(stopOnceIdle(pollers, isIdle, stop, signal));
  // If one part fails, the others stop, and the pipeline fails with the error of that part.
  for (const part of parts) part.catch(() => stop.abort());
  const results = await Promise.allSettled(parts);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  if (stop.signal.reason instanceof DiskFullError) throw stop.signal.reason;
  await commit();
}

/** The DiskFullError that an error is or was caused by. */
function diskFullIn(error: unknown): DiskFullError | undefined {
  if (error instanceof DiskFullError) return error;
  return error instanceof Error ? diskFullIn(error.cause) : undefined;
}

/** The newest error of each job that failed, by the id of its message. */
type Failures = Map<ReceivedMessage['id'], unknown>;

/** Positions of a stream that may be saved when all jobs that were sent before them are done. */
class Places {
  readonly #poller: StreamPoller;
  readonly #queue: MemoryJobQueue;
  /** In order. Each waits for the jobs up to the number `sent`. */
  #marks: { readonly sent: number; readonly position: StreamPosition }[] = [];

  constructor(poller: StreamPoller, queue: MemoryJobQueue) {
    this.#poller = poller;
    this.#queue = queue;
  }

  /** Remembers the current position, before more jobs are sent. */
  note(): void {
    // Nothing may run between these two: a handler sends the jobs of a record, then the position
    // passes the record.
    const mark = { sent: this.#queue.sent, position: this.#poller.routed() };
    if (this.#marks.at(-1)?.sent === mark.sent) this.#marks.pop();
    this.#marks.push(mark);
  }

  /** Saves the newest position whose jobs are all done. */
  async commit(): Promise<void> {
    this.note();
    const oldest = this.#queue.oldest ?? Number.POSITIVE_INFINITY;
    const open = this.#marks.findIndex(({ sent }) => sent >= oldest);
    const done = open < 0 ? this.#marks.length : open;
    const last = this.#marks[done - 1];
    this.#marks = this.#marks.slice(done);
    if (last !== undefined) await this.#poller.commit(last.position);
  }
}

/** Polls the stream of a plain table, and records its changes. */
function changePoller(options: PipelineOptions, { streamArn, checkpoints, logs }: RecordedTable): StreamPoller {
  const deps = { logs: async () => logs, report: options.onEvent };
  // Dynoxide shows the records of earlier streams in a new one, whose label is its time in seconds.
  const label = Number(streamLabel(streamArn));
  const began = Number.isNaN(label) ? 0 : Math.floor(label) * 1000;
  const changeOf = ({ createdMs = 0, sequenceNumber, keys, oldImage, newImage, ...record }: StreamRecord) =>
    imageChange({
      ...record,
      stream: streamLabel(streamArn),
      sequence: sequenceNumber,
      seconds: createdMs / 1000,
      keys: plainItem(keys),
      oldImage: oldImage && plainItem(oldImage),
      newImage: newImage && plainItem(newImage),
    });
  const sequenceOf = ({ sequenceNumber }: StreamRecord): string => sequenceNumber;
  return new StreamPoller({
    client: options.streams,
    streamArn,
    checkpoints,
    filter: ({ createdMs = began }) => createdMs >= began,
    handler: (records) => recordRecords(deps, records, { run: 'local', changeOf, sequenceOf }),
    onDiscard: async (batch) => options.onEvent({ kind: 'discarded', batch }),
    onTrimmed: async (trimmed) => options.onEvent({ kind: 'trimmed', trimmed }),
  });
}

interface Consuming {
  readonly failures: Failures;
  readonly signal: AbortSignal;
}

async function consumeJobs(
  options: PipelineOptions,
  queue: MemoryJobQueue,
  { failures, signal }: Consuming,
): Promise<void> {
  await consume({
    queue,
    concurrency: options.concurrency,
    visibilityMs: VISIBILITY_MS,
    waitMs: 1000,
    signal,
    handle: async (message) => {
      const deps = {
        ...options.jobs,
        queue: toQueue({ send: (next) => queue.sendFollowing(message.id, next) }),
      };
      const delivery = { messageId: message.id, receiveCount: message.receiveCount };
      options.onEvent(await runDelivered(deps, delivery, decodeJob(message.body)));
    },
    report: (outcome) => {
      const { kind, message } = outcome;
      if (kind !== 'failed') {
        failures.delete(message.id);
        return;
      }
      failures.set(message.id, outcome.error);
      options.onEvent({ kind, message, error: outcome.error });
    },
  });
}

/**
 * Puts all jobs into one queue, so that the jobs of a log run in the order in which they were sent.
 */
function toQueue(queue: JobSender): JobDeps['queue'] {
  return jobQueues({ snapshot: queue, maintenance: queue });
}

async function reportDeadLetters(
  options: PipelineOptions,
  queue: MemoryJobQueue,
  { failures, signal }: Consuming,
): Promise<void> {
  const dead = queue.deadLetters;
  while (dead !== undefined && !signal.aborted) {
    for (const message of await dead.receive({ max: 10, visibilityMs: VISIBILITY_MS, waitMs: 1000, signal })) {
      // Its delivery from here counts as well.
      const tries = message.receiveCount - 1;
      options.onEvent({ kind: 'dead', message, tries, error: failures.get(message.id) });
      failures.delete(message.id);
      await options.keepDead?.(message);
      await dead.delete(message.receipt);
    }
  }
}

async function stopOnceIdle(
  pollers: readonly StreamPoller[],
  isIdle: () => boolean,
  stop: AbortController,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      for (const poller of pollers) await poller.caughtUp();
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    if (isIdle()) return stop.abort();
    await systemTime.sleep(IDLE_POLL_MS, signal);
  }
}
