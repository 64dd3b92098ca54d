import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { decodeJob } from '../src/workers/job.ts';
import { runJob } from '../src/workers/run-job.ts';
import { wireLogger, wireSnapshot } from './wire.ts';

/**
 * What a build needs at most, in milliseconds, once it is told that its time is up: to put tens of megabytes of edits
 * into their trees, to write the chunks and the root, and to ask for another turn. Some seconds in most cases; the rest
 * is for a slow store, whose requests are repeated. Out of 15 minutes it costs one in fifteen.
 */
const MARGIN_MS = 60_000;

const logger = wireLogger('snapshot');
const deps = wireSnapshot(process.env);

/** Does the jobs that messages carry. After a failure the rest of the batch waits, to keep its order. */
export async function handler(
  event: SQSEvent,
  context: Pick<Context, 'getRemainingTimeInMillis'>,
): Promise<SQSBatchResponse> {
  const deadline = deps.now() + context.getRemainingTimeInMillis() - MARGIN_MS;
  for (const [i, record] of event.Records.entries()) {
    try {
      const job = decodeJob(record.body);
      const result = await runJob({ ...deps, deadline }, job);
      const level = result.outcome === 'stopped' ? 'error' : 'info';
      logger[level](`${job.kind} ${result.outcome}`, { log: job.log, ...result });
    } catch (error) {
      logger.error('a job failed and will be delivered again', { messageId: record.messageId, error });
      return { batchItemFailures: event.Records.slice(i).map(({ messageId }) => ({ itemIdentifier: messageId })) };
    }
  }
  return { batchItemFailures: [] };
}
