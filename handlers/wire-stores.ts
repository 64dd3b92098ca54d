import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { openFeedTable } from '../src/adapters/dynamodb/feed-table.ts';
import { TableMeter } from '../src/adapters/dynamodb/requests.ts';
import { openTables } from '../src/adapters/dynamodb/tables.ts';
import { checkDeployment, checkStream } from '../src/adapters/platform/deployment-check.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { S3BlobStore } from '../src/adapters/s3/blob-store.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import { LogfoldError } from '../src/errors.ts';
import { FEED_LOG } from '../src/feed/feed-log.ts';
import { withFeed } from '../src/feed/feed-log-store.ts';
import { parseLogId } from '../src/ids/log-id.ts';
import type { LogStore } from '../src/log/log-store.ts';
import { type MappedTable, requireClaim } from '../src/mapping/bucket-claim.ts';
import { parseMappedLog } from '../src/mapping/key-pattern.ts';
import { LogRegistrar } from '../src/mapping/log-registrar.ts';
import { MappedLogStore } from '../src/mapping/mapped-log-store.ts';
import type { BlobStore } from '../src/store/blob-store.ts';
import { mappingOf, reservedTypes, type StoreEnvironment } from './environment.ts';
import { logger } from './instrument.ts';

/** Settings that a function may lack but that the deployment must fit. */
interface CheckedSettings {
  /** Whether entries expire by TTL. */
  readonly ttl: boolean;
  /** Whether the stream function needs the sizes of items. */
  readonly readsSizes: boolean;
}

/** Tells that a check had no answer. */
function onUnknown(error: unknown): void {
  logger.warn('the deployment could not be checked; work goes on', { error });
}

/**
 * Makes the stores, and the check of the deployment that they belong to.
 * @throws DeploymentInvalidError if the mapping is invalid
 */
export function wireStores(settings: StoreEnvironment, { ttl, readsSizes }: CheckedSettings) {
  const { ENTRY_TABLE: entryTable, SEGMENT_TABLE: segmentTable, FEED_TABLE: feedTable, BUCKET: bucket } = settings;
  const streamArn = settings.ENTRY_TABLE_STREAM_ARN;
  const mapping = mappingOf(settings);
  const dynamodb = new DynamoDBClient(sdkConfig());
  const s3 = new S3Client(sdkConfig());
  const requests = new TableMeter();
  const { meter } = requests;
  const logs = openTables({ client: dynamodb, entryTable, segmentTable, meter, mapping, now: Date.now });
  const tables: LogStore =
    feedTable === undefined ? logs : withFeed(logs, openFeedTable({ client: dynamodb, feedTable }));
  const blobs = new S3BlobStore({ client: s3, bucket });
  const platform = nativePlatform;
  const parseLog = mapping === undefined ? parseLogId : (text: string) => parseMappedLog(mapping, text);
  const mappedStore = logs instanceof MappedLogStore ? logs : undefined;
  const check = () =>
    checkDeployment({ dynamodb, s3, entryTable, mapping, segmentTable, feedTable, bucket, ttl, onUnknown });
  return {
    stores: {
      tables,
      store: new ArchivedLogStore(tables, { blobs, platform }),
      blobs,
      platform,
      types: reservedTypes(settings),
      parseLog: feedTable === undefined ? parseLog : (text: string) => (text === 'feed' ? FEED_LOG : parseLog(text)),
    },
    mapping,
    dynamodb,
    /** Counts the requests to the tables of the logs. */
    requests,
    /** The logs of an application's table; undefined without a mapping. */
    mappedStore,
    /** Registers these logs. */
    mapped: mappedStore && mapping && new LogRegistrar({ store: mappedStore, blobs, table: entryTable, mapping }),
    check,
    /** Checks the stream that starts the stream function; undefined if none does. */
    checkStream:
      streamArn === undefined
        ? undefined
        : () => {
            // The router needs only the key of a mapped item, and perhaps its size.
            const readsImages = mapping === undefined || readsSizes;
            return checkStream({ dynamodb, entryTable, streamArn, readsImages, onUnknown });
          },
    /** Checks the tables, the bucket, and whose logs the bucket holds. */
    checkAll: async () => {
      await check();
      await checkClaim(blobs, mapping && { table: entryTable, mapping });
    },
  };
}

/** Work goes on if the bucket does not answer: jobs then fail by themselves. */
async function checkClaim(blobs: BlobStore, of: MappedTable | undefined): Promise<void> {
  try {
    await requireClaim(blobs, of);
  } catch (error) {
    if (error instanceof LogfoldError && REFUSED.includes(error.code)) throw error;
    onUnknown(error);
  }
}

const REFUSED = ['BUCKET_TAKEN', 'MAPPING_DIFFERS'];
