import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { checkDeployment } from '../src/adapters/aws/deployment-check.ts';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { DynamoDbLogStore } from '../src/adapters/dynamodb/log-store.ts';
import { openTables } from '../src/adapters/dynamodb/tables.ts';
import { foldWatchOf } from '../src/adapters/platform/fold-watch.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { BUILT_IN_REDUCERS, builtInReducer, loadReducer } from '../src/adapters/platform/reducer-module.ts';
import { S3BlobStore } from '../src/adapters/s3/blob-store.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import { DeploymentInvalidError, ReducerInvalidError } from '../src/errors.ts';
import { withFeed } from '../src/feed/feed-log-store.ts';
import { type LogId, parseLogId } from '../src/ids/log-id.ts';
import { mappedLayout } from '../src/log/division-policy.ts';
import type { LogStore } from '../src/log/log-store.ts';
import { parseMappedLog } from '../src/mapping/key-pattern.ts';
import { LogRegistrar } from '../src/mapping/log-registrar.ts';
import { MappedLogStore } from '../src/mapping/mapped-log-store.ts';
import { readPolicies } from '../src/retention/policies.ts';
import { MIN_GRACE_SECONDS } from '../src/retention/retention-policy.ts';
import type { Reducer } from '../src/state/reducer.ts';
import { NodeCache } from '../src/tree/node-cache.ts';
import type { JobDeps } from '../src/workers/dispatch/run-job.ts';
import { jobQueues } from '../src/workers/jobs/job-queues.ts';
import { RateLimiter } from '../src/workers/retention/rate-limiter.ts';
import { KEPT_NODE_BYTES } from '../src/workers/snapshot/build-snapshot.ts';
import {
  divisionPolicyOf,
  mappingOf,
  policyOf,
  reservedTypes,
  type StoreEnvironment,
  type WorkEnvironment,
} from './environment.ts';
import { logger } from './instrument.ts';

/** Settings that a function may lack but that the deployment must fit. */
interface CheckedSettings {
  /** Whether entries expire by TTL. */
  readonly ttl: boolean;
  /** Whether the stream function needs the sizes of items. */
  readonly readsSizes: boolean;
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
  const logs = openTables({ client: dynamodb, entryTable, segmentTable, mapping, now: Date.now });
  const tables: LogStore = feedTable === undefined ? logs : withFeed(logs, openFeedTable(dynamodb, feedTable));
  const blobs = new S3BlobStore({ client: s3, bucket });
  const platform = nativePlatform;
  const mappedStore = logs instanceof MappedLogStore ? logs : undefined;
  return {
    stores: {
      tables,
      store: new ArchivedLogStore(tables, { blobs, platform }),
      blobs,
      platform,
      types: reservedTypes(settings),
      parseLog: mapping === undefined ? parseLogId : (text: string) => parseMappedLog(mapping, text),
    },
    mapping,
    dynamodb,
    /** The logs of an application's table; undefined without a mapping. */
    mappedStore,
    /** Registers these logs. */
    mapped: mappedStore && mapping && new LogRegistrar({ store: mappedStore, blobs, table: entryTable, mapping }),
    check: () =>
      checkDeployment({
        ...{ dynamodb, s3, entryTable, mapping, streamArn, segmentTable, feedTable, bucket, ttl },
        // The router needs only the key of a mapped item, and perhaps its size.
        readsImages: mapping === undefined || readsSizes,
        onUnknown: (error) => logger.warn('the deployment could not be checked; work goes on', { error }),
      }),
  };
}

/** The table of the feed, which has both its entries and its segments. */
export function openFeedTable(client: DynamoDBClient, table: string): DynamoDbLogStore {
  return new DynamoDbLogStore({ client, entryTable: table, segmentTable: table });
}

/**
 * Makes the dependencies of the functions that send and run jobs.
 * @throws DeploymentInvalidError if a policy contradicts itself, or if the mapping is invalid
 */
export function wireWork(settings: WorkEnvironment) {
  const policy = policyOf(settings);
  const division = divisionPolicyOf(settings);
  if (policy.graceSeconds < MIN_GRACE_SECONDS) {
    logger.warn('GraceSeconds is too short: running jobs may lose objects that they need', { ...policy });
  }
  const client = new SQSClient(sdkConfig());
  const queues = {
    snapshot: new SqsJobQueue({ client, queueUrl: settings.SNAPSHOT_QUEUE_URL }),
    maintenance: new SqsJobQueue({ client, queueUrl: settings.MAINTENANCE_QUEUE_URL }),
  };
  const readsSizes = division.snapshotEvery.bytes !== undefined;
  const wired = wireStores(settings, { ttl: policy.expire === 'ttl', readsSizes });
  const { mappedStore, mapped } = wired;
  return {
    ...wired,
    division,
    /** Registers the logs of an application's table; undefined without a mapping. */
    adopt: mappedStore &&
      mapped && {
        items: mappedStore.applicationTable,
        register: (log: LogId) => mapped.register(log, mappedLayout(division)),
        source: `${settings.ENTRY_TABLE} ${settings.MAPPING}`,
      },
    queues,
    queue: jobQueues(queues),
    policy,
    now: Date.now,
  };
}

/**
 * Makes the dependencies of jobs.
 * @throws DeploymentInvalidError if a policy contradicts itself, if the mapping is invalid, or if
 * the reducer cannot be loaded
 */
export async function wireJobs(settings: WorkEnvironment) {
  const { stores, mapped, check, queue, policy, division, now } = wireWork(settings);
  const { blobs, parseLog } = stores;
  const jobs: JobDeps = {
    ...stores,
    mapped,
    queue,
    division,
    now,
    random: Math.random,
    reducer: await wireReducer(settings),
    keptNodes: new NodeCache(KEPT_NODE_BYTES),
    watch: foldWatchOf(process.env),
    policyOf: async (log: LogId) => (await readPolicies(blobs, policy, parseLog)).of(log),
    rateLimiter: new RateLimiter({ perSecond: settings.EXPIRE_WRITE_UNITS }),
  };
  return { jobs, check };
}

/**
 * The reducer with a name, or that of a module; the default for an empty text.
 * @throws DeploymentInvalidError if the module cannot be loaded or has no reducer
 */
export async function wireReducer({ REDUCER_MODULE: named }: { readonly REDUCER_MODULE: string }): Promise<Reducer> {
  if (named === '') return BUILT_IN_REDUCERS[0];
  try {
    return builtInReducer(named) ?? (await loadReducer(named));
  } catch (error) {
    if (!(error instanceof ReducerInvalidError)) throw error;
    throw new DeploymentInvalidError('ReducerLayerArn', `names a layer without a reducer: ${error.reason}`, {
      advice: 'Deploy a layer whose module exports a reducer, or leave it empty to use the parameter Reducer',
      cause: error,
    });
  }
}
