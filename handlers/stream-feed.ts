import { SQSClient } from '@aws-sdk/client-sqs';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { streamFunction } from '../src/functions/stream-function.ts';
import type { LogId } from '../src/ids/log-id.ts';
import { segmentSizes } from '../src/mapping/item-division.ts';
import { divisionPolicyOf, feedStreamEnvironment, readEnvironment } from './environment.ts';
import { instrumented } from './instrument.ts';
import { wireFeed, wireStores } from './wire.ts';

const settings = readEnvironment(feedStreamEnvironment, process.env);
const queue = new SqsJobQueue({ client: new SQSClient(sdkConfig()), queueUrl: settings.snapshotQueueUrl });
const division = divisionPolicyOf(settings);
const { stores } = wireStores(settings, { ttl: false, readsSizes: false });
const { types, mapping, mapped } = stores;
const endAt = mapped && ((log: LogId, index: number) => mapped.registrar.endAt(log, index, segmentSizes(division)));
const { openFeed, publish } = wireFeed(stores, queue, settings);
const feed = openFeed();

/** Turns records of the Entry table's stream into jobs, and writes their entries into the feed. */
export const handler = instrumented((report) =>
  streamFunction({ queue, types, mapping, division, feed, publish, endAt, report }),
);
