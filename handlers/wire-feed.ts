import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SNSClient } from '@aws-sdk/client-sns';
import { IMPATIENT, sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { openFeedTable } from '../src/adapters/dynamodb/feed-table.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { sleep, wireLogs } from '../src/adapters/platform/node-logs.ts';
import { feedTopic } from '../src/adapters/sns/feed-topic.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import type { ReservedTypes } from '../src/log/entry.ts';
import type { BlobStore } from '../src/store/blob-store.ts';
import { dividedFeed } from '../src/workers/feed/divided-feed.ts';
import { FeedWriter } from '../src/workers/feed/feed-writer.ts';
import type { JobSender } from '../src/workers/jobs/job.ts';
import type { FeedEnvironment } from './environment.ts';

/** Memory for chunks of the feed's state. They say how far each log is fed. */
const CACHE_BYTES = 16 * 2 ** 20;

export interface FeedDeps {
  readonly dynamodb: DynamoDBClient;
  readonly blobs: BlobStore;
  /** The deployment's reserved types, because its jobs also work on the feed. */
  readonly types: ReservedTypes;
  /** Receives the feed's divide jobs. */
  readonly queue: JobSender;
  readonly settings: Pick<FeedEnvironment, 'FEED_TABLE' | 'FEED_TOPIC_ARN'>;
}

/**
 * Makes the function that opens a writer of the feed, and the one that tells consumers where the
 * feed ends.
 */
export function wireFeed({ dynamodb, blobs, types, queue, settings }: FeedDeps) {
  const { FEED_TABLE: feedTable, FEED_TOPIC_ARN: topicArn } = settings;
  const tables = openFeedTable({ client: dynamodb, feedTable });
  const store = new ArchivedLogStore(tables, { blobs, platform: nativePlatform });
  const logs = wireLogs({ store, tables, blobs, types, cacheBytes: CACHE_BYTES });
  return {
    openFeed: () => dividedFeed(new FeedWriter({ logs, sleep, random: Math.random }), queue),
    publish: topicArn === undefined ? undefined : feedTopic({ client: new SNSClient(sdkConfig(IMPATIENT)), topicArn }),
  };
}
