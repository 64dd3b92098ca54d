/** The package `logfold/aws`: logs in DynamoDB and S3, for Node. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { sdkConfig } from '../adapters/aws/sdk-config.ts';
import { checkLogsOptions, checkLogsSettings, type LogsSettings, NODE_PORTS } from '../adapters/platform/node-logs.ts';
import { openBucket } from '../adapters/platform/open-bucket.ts';
import { feedGroupsOf, openStores } from '../adapters/platform/open-stores.ts';
import { ServerLogs } from '../adapters/web/server-logs.ts';

export { type SdkConfig, type SdkOptions, sdkConfig } from '../adapters/aws/sdk-config.ts';
export { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../adapters/dynamodb/log-store.ts';
export { nativePlatform } from '../adapters/platform/native.ts';
export type { LogsSettings } from '../adapters/platform/node-logs.ts';
export { S3BlobStore, type S3BlobStoreOptions } from '../adapters/s3/blob-store.ts';
export type { AnswerOptions, LogOperation } from '../adapters/web/answer-log-request.ts';
export type { ObjectAnswer, ObjectOptions } from '../adapters/web/answer-object-request.ts';
export type { LogAnswer } from '../adapters/web/log-message.ts';
export { ServerLogs } from '../adapters/web/server-logs.ts';

export interface AwsLogsOptions extends LogsSettings {
  readonly entryTable: string;
  readonly segmentTable: string;
  readonly bucket: string;
  /** Region of the clients that `openLogs` makes; by default the SDK finds it. */
  readonly region?: string | undefined;
  /** An existing client. `close` does not destroy it. `openLogs` makes one by default. */
  readonly dynamodb?: DynamoDBClient | undefined;
  /** An existing client. `close` does not destroy it. `openLogs` makes one by default. */
  readonly s3?: S3Client | undefined;
}

const NAMES = ['entryTable', 'segmentTable', 'bucket', 'region', 'dynamodb', 's3'] satisfies (keyof AwsLogsOptions)[];

/**
 * The logs of two tables and a bucket. Sends no request: the first one shows wrong names. Share
 * one object within a process.
 * @throws UsageError if an option is invalid
 */
export function openLogs(options: AwsLogsOptions): ServerLogs {
  checkLogsOptions(options, NAMES);
  const { entryTable, segmentTable, bucket, region, cacheBytes, warmBytes, feedTable } = options;
  const settings = checkLogsSettings(
    { entryTable, segmentTable, bucket, ...(region !== undefined && { region }) },
    options,
  );
  const config = { ...sdkConfig(), ...(region !== undefined && { region }) };
  const dynamodb = options.dynamodb ?? new DynamoDBClient(config);
  const s3 = options.s3 ?? new S3Client(config);
  const close = async (): Promise<void> => {
    if (options.dynamodb === undefined) dynamodb.destroy();
    if (options.s3 === undefined) s3.destroy();
  };
  const blobs = openBucket(bucket, { s3 });
  const stores = openStores({ dynamodb, entryTable, segmentTable, feedTable, blobs, ...settings });
  return new ServerLogs({ ...stores, ...NODE_PORTS, feedGroups: feedGroupsOf(stores), cacheBytes, warmBytes, close });
}
