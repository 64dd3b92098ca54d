import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { MessageInvalidError } from '../errors.ts';
import { type JobDeps, type JobResult, runJob } from '../workers/dispatch/run-job.ts';
import { decodeJob, type Job } from '../workers/jobs/job.ts';
import type { Delivery, Invocation, JobEvent, SnapshotLag } from './function-event.ts';

/**
 * What a job needs at most, in milliseconds, once it is told that its time is up: to put tens of megabytes of edits
 * into their trees, to write the chunks and the root, and to ask for another turn. Some seconds in most cases; the rest
 * is for a slow store, whose requests are repeated. Out of 15 minutes it costs one in fifteen.
 */
const MARGIN_MS = 60_000;

/**
 * The first and the longest pause before a failed job is given out again, in milliseconds; each is four times the last. How
 * often a job is tried is the queue's to say: docs/operations.md adds it up.
 */
const RETRY_MS = { first: 30_000, longest: 900_000 };

/** Milliseconds for which a message stays hidden after the end of its invocation, so that no other begins before that. */
const HIDDEN_MS = 60_000;

export interface JobsFunctionDeps {
  /**
   * What jobs are done with, once all holds that must. Asked for each job: where it rejects the job has failed, and waits
   * as others do.
   */
  readonly jobs: () => Promise<JobDeps>;
  readonly report: (event: JobEvent) => void;
  /** Hides a message for so many milliseconds from now. Left out if the caller hides messages and gives them back. */
  readonly changeVisibility?: ((receipt: string, visibilityMs: number) => Promise<void>) | undefined;
}

/**
 * A function that does the jobs which messages carry, of any kind. After a failure the rest of the batch waits, to keep
 * its order. A message that is no job fails as well: it is counted as received each time, so that it ends in the
 * dead-letter queue, without a pause, since its log's jobs wait behind it.
 *
 * First the function hides all its messages until a minute after its own end. The queue's visibility timeout is several times
 * longer, for the time that messages wait with Lambda: if the function dies, their logs would wait for that long.
 */
export function jobsFunction(
  deps: JobsFunctionDeps,
): (event: SQSEvent, invocation: Invocation) => Promise<SQSBatchResponse> {
  return async ({ Records }, invocation) => {
    const hiddenMs = invocation.getRemainingTimeInMillis() + HIDDEN_MS;
    await Promise.all(Records.map((record) => setVisibility(deps, record, hiddenMs)));
    for (const [i, record] of Records.entries()) {
      const retryMs = await handle(deps, record, invocation);
      if (retryMs === undefined) continue;
      const rest = Records.slice(i);
      for (const each of rest) await setVisibility(deps, each, each === record ? retryMs : 0);
      return { batchItemFailures: rest.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    }
    return { batchItemFailures: [] };
  };
}

/** @returns how long to wait until the next try, in milliseconds; undefined where all went well */
async function handle(
  { jobs, report }: JobsFunctionDeps,
  record: SQSRecord,
  invocation: Invocation,
): Promise<number | undefined> {
  const delivery = deliveryOf(record);
  let job: Job | undefined;
  try {
    job = decodeJob(record.body);
    const deps = await jobs();
    const deadline = deps.now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
    const started = performance.now();
    const result = await runJob({ ...deps, deadline }, job);
    const ms = performance.now() - started;
    report({ kind: 'job', delivery, job, result, ms, lag: await lagOf(deps, job, result) });
    return undefined;
  } catch (error) {
    report({ kind: 'failed', delivery, job, error });
    const hopeless = job === undefined && error instanceof MessageInvalidError;
    return hopeless ? 0 : Math.min(RETRY_MS.first * 4 ** (delivery.receiveCount - 1), RETRY_MS.longest);
  }
}

/** Half a read unit, for each snapshot that is built. */
async function lagOf({ tables, now }: JobDeps, { log }: Job, result: JobResult): Promise<SnapshotLag | undefined> {
  if (result.outcome !== 'built') return undefined;
  const { segment, entry } = result.position;
  const newest = await tables.newestEntry(log, segment, { consistent: false });
  return {
    entries: Math.max(0, (newest?.position.entry ?? entry) - entry),
    seconds: Math.max(0, now() / 1000 - result.asked),
  };
}

async function setVisibility(deps: JobsFunctionDeps, record: SQSRecord, visibilityMs: number): Promise<void> {
  try {
    await deps.changeVisibility?.(record.receiptHandle, visibilityMs);
  } catch (error) {
    // The message is not lost: the queue gives it out again by itself, only later.
    deps.report({ kind: 'visibility unchanged', delivery: deliveryOf(record), error });
  }
}

function deliveryOf({ messageId, attributes }: SQSRecord): Delivery {
  return { messageId, receiveCount: Number(attributes.ApproximateReceiveCount) };
}
