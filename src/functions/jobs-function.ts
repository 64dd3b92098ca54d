import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { MessageInvalidError } from '../errors.ts';
import { type JobDeps, type JobResult, runJob } from '../workers/dispatch/run-job.ts';
import { decodeJob, type Job } from '../workers/jobs/job.ts';
import type { SnapshotLag } from '../workers/snapshot/build-snapshot.ts';
import type { Delivery, JobEvent } from './function-event.ts';
import { deadlineOf, type Invocation } from './invocation.ts';

/**
 * The first and the longest pause before a failed job is delivered again, in milliseconds. Each
 * pause is four times the last one. The queue limits the number of deliveries; docs/operations.md
 * has the total time.
 */
const RETRY_MS = { first: 30_000, longest: 900_000 };

/**
 * Milliseconds for which a message stays hidden after its invocation must have ended, so that no
 * second invocation overlaps with it.
 */
const HIDDEN_MS = 60_000;

export interface JobsFunctionDeps {
  /**
   * Resolves to the dependencies of jobs after the deployment was checked. It is called for each
   * job. If it rejects, the job fails and is retried like any other.
   */
  readonly jobs: () => Promise<JobDeps>;
  readonly report: (event: JobEvent) => void;
  /**
   * Hides a message for this many milliseconds from now. Absent if the caller manages visibility.
   */
  readonly changeVisibility?: (receipt: string, visibilityMs: number) => Promise<void>;
}

/**
 * Makes the function that runs the jobs of SQS messages, of any kind. After a failure it fails the
 * rest of the batch too, which keeps the order of jobs. A message that is not a job also fails. Its
 * retries have no pause, because the jobs of its log wait for it until it reaches the
 * dead-letter queue.
 *
 * The function first hides all its messages until a minute after its own end. The queue's
 * visibility timeout is several times longer, because messages also wait inside Lambda. Without the
 * change, the logs of a function that died would wait for the whole timeout.
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

/** @returns the pause before the next delivery, in milliseconds; undefined if the job succeeded */
async function handle(
  { jobs, report }: JobsFunctionDeps,
  record: SQSRecord,
  invocation: Invocation,
): Promise<number | undefined> {
  const delivery = toDelivery(record);
  let job: Job | undefined;
  try {
    job = decodeJob(record.body);
    const deps = await jobs();
    report(await runDelivered({ ...deps, deadline: deadlineOf(invocation, deps) }, delivery, job));
    return undefined;
  } catch (error) {
    report({ kind: 'failed', delivery, job, error });
    const hopeless = job === undefined && error instanceof MessageInvalidError;
    return hopeless ? 0 : Math.min(RETRY_MS.first * 4 ** (delivery.receiveCount - 1), RETRY_MS.longest);
  }
}

/** Runs the job of a message. */
export async function runDelivered(
  deps: JobDeps,
  delivery: Delivery,
  job: Job,
): Promise<Extract<JobEvent, { readonly kind: 'job' }>> {
  const started = performance.now();
  const result = await runJob(deps, job);
  const ms = performance.now() - started;
  return { kind: 'job', delivery, job, result, ms, lag: await lagOf(deps, job, result) };
}

/** Costs half a read unit for each snapshot that is built. */
async function lagOf({ tables, now }: JobDeps, { log }: Job, result: JobResult): Promise<SnapshotLag | undefined> {
  if (result.outcome !== 'built') return undefined;
  const { segment, entry } = result.position;
  const newest = await tables.newestEntry(log, segment, { consistent: false });
  return {
    entries: Math.max(0, (newest?.position.entry ?? entry) - entry),
    seconds: result.requestedAt === 0 ? undefined : Math.max(0, now() / 1000 - result.requestedAt),
  };
}

async function setVisibility(deps: JobsFunctionDeps, record: SQSRecord, visibilityMs: number): Promise<void> {
  try {
    await deps.changeVisibility?.(record.receiptHandle, visibilityMs);
  } catch (error) {
    // The message is not lost: the queue delivers it again when its visibility timeout ends.
    deps.report({ kind: 'visibility unchanged', delivery: toDelivery(record), error });
  }
}

function toDelivery({ messageId, attributes }: SQSRecord): Delivery {
  return { messageId, receiveCount: Number(attributes.ApproximateReceiveCount) };
}
