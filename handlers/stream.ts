import type { DynamoDBBatchResponse, DynamoDBStreamEvent } from 'aws-lambda';
import { route } from '../src/workers/route.ts';
import { fromLambdaRecord } from './stream-event.ts';
import { wireLogger, wireStream } from './wire.ts';

const logger = wireLogger('stream');
const deps = wireStream(process.env);

/** Routes the records of the Entry table's stream to jobs. */
export async function handler(event: DynamoDBStreamEvent): Promise<DynamoDBBatchResponse> {
  const report = (record: { readonly sequenceNumber: string }, error: unknown): void =>
    logger.error('a stream record cannot be routed', { sequenceNumber: record.sequenceNumber, error });
  const answer = await route({ ...deps, report }, event.Records.map(fromLambdaRecord));
  return { batchItemFailures: [...answer.batchItemFailures] };
}
