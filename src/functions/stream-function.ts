import type { DynamoDBBatchResponse, DynamoDBStreamEvent } from 'aws-lambda';
import type { ReservedTypes } from '../log/entry.ts';
import type { JobSender } from '../workers/job-queues.ts';
import { route } from '../workers/route.ts';
import type { StreamEvent } from './function-event.ts';
import { fromLambdaRecord } from './stream-event.ts';

export interface StreamFunctionDeps {
  readonly queue: JobSender;
  readonly types?: ReservedTypes | undefined;
  readonly report: (event: StreamEvent) => void;
}

/** The function that turns records of the Entry table's stream into jobs. */
export function streamFunction({
  queue,
  types,
  report,
}: StreamFunctionDeps): (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse> {
  return async ({ Records }) => {
    const { batchItemFailures } = await route(
      {
        queue,
        types,
        report: (record, error) => report({ kind: 'record', record, error }),
        onSent: (record, job) => report({ kind: 'routed', record, job }),
      },
      Records.map(fromLambdaRecord),
    );
    return { batchItemFailures: [...batchItemFailures] };
  };
}
