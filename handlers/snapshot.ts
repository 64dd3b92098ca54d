import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { decodeJob } from '../src/workers/job.ts';
import { completeSnapshot } from '../src/workers/snapshot.ts';
import { wireLogger, wireSnapshot } from './wire.ts';

const logger = wireLogger('snapshot');
const deps = wireSnapshot(process.env);

/** Completes the snapshots that messages ask for. After a failure the rest of the batch waits, to keep its order. */
export async function handler(event: SQSEvent): Promise<SQSBatchResponse> {
  for (const [i, record] of event.Records.entries()) {
    try {
      const job = decodeJob(record.body);
      const result = await completeSnapshot(deps, job);
      const level = result.outcome === 'stopped' ? 'error' : 'info';
      logger[level](`snapshot ${result.outcome}`, { log: job.log, ...result });
    } catch (error) {
      logger.error('a job failed and will be delivered again', { messageId: record.messageId, error });
      return { batchItemFailures: event.Records.slice(i).map(({ messageId }) => ({ itemIdentifier: messageId })) };
    }
  }
  return { batchItemFailures: [] };
}
