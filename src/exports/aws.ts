/** The package `logfold/aws`: logs in DynamoDB and S3, for Node. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { sdkConfig } from '../adapters/aws/sdk-config.ts';
import { requireOwnFeedTable, withFeedTable } from '../adapters/dynamodb/feed-table.ts';
import { openTables } from '../adapters/dynamodb/tables.ts';
import { nativePlatform } from '../adapters/platform/native.ts';
import { checkLogsOptions, checkOptions, type LogsSettings, wireLogs } from '../adapters/platform/node-logs.ts';
import { S3BlobStore } from '../adapters/s3/blob-store.ts';
import { ArchivedLogStore } from '../archive/archived-log-store.ts';
import type { Logs } from '../client/logs.ts';

export { type SdkConfig, type SdkOptions, sdkConfig } from '../adapters/aws/sdk-config.ts';
export { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../adapters/dynamodb/log-store.ts';
export { nativePlatform } from '../adapters/platform/native.ts';
export type { LogsSettings } from '../adapters/platform/node-logs.ts';
export { S3BlobStore, type S3BlobStoreOptions } from '../adapters/s3/blob-store.ts';
export {
  type AnsweringStores,
  type AnswerOptions,
  answerLogRequest,
  type LogOperation,
} from '../adapters/web/answer-log-request.ts';
export type { LogAnswer } from '../adapters/web/log-message.ts';

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
 * The logs of two tables and a bucket. Sends no request: wrong names show with the first one. Share
 * one object within a process.
 * @throws UsageError if an option is invalid
 */
export function openLogs(options: AwsLogsOptions): Logs {
  checkLogsOptions(options, NAMES);
  const { entryTable, segmentTable, bucket, region, cacheBytes, feedTable } = options;
  const { mapping, ...settings } = checkOptions(
    { entryTable, segmentTable, bucket, ...(region !== undefined && { region }) },
    options,
  );
  requireOwnFeedTable({ entryTable, segmentTable, feedTable });
  const config = { ...sdkConfig(), ...(region !== undefined && { region }) };
  const dynamodb = options.dynamodb ?? new DynamoDBClient(config);
  const s3 = options.s3 ?? new S3Client(config);
  const close = async (): Promise<void> => {
    if (options.dynamodb === undefined) dynamodb.destroy();
    if (options.s3 === undefined) s3.destroy();
  };
  const own = openTables({ client: dynamodb, entryTable, segmentTable, mapping, now: Date.now });
  const { tables, feedGroups } = withFeedTable(own, { client: dynamodb, feedTable });
  const blobs = new S3BlobStore({ client: s3, bucket });
  const store = new ArchivedLogStore(tables, { blobs, platform: nativePlatform });
  return wireLogs({ ...settings, store, tables, blobs, cacheBytes, feedGroups, close });
}
