import { SQSClient } from '@aws-sdk/client-sqs';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { streamFunction } from '../src/functions/stream-function.ts';
import { divisionPolicyOf, mappingOf, readEnvironment, reservedTypes, streamEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';

const settings = readEnvironment(streamEnvironment, process.env);
const queue = new SqsJobQueue({ client: new SQSClient(sdkConfig()), queueUrl: settings.snapshotQueueUrl });

const division = divisionPolicyOf(settings);

/** Turns records of the Entry table's stream into jobs. */
export const handler = instrumented((report) =>
  streamFunction({ queue, types: reservedTypes(settings), mapping: mappingOf(settings), division, report }),
);
