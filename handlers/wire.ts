import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SNSClient } from '@aws-sdk/client-sns';
import { SQSClient } from '@aws-sdk/client-sqs';
import { IMPATIENT, sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { checkDeployment, checkStream } from '../src/adapters/platform/deployment-check.ts';
import { foldWatchOf } from '../src/adapters/platform/fold-watch.ts';
import { sleep, wireLogs } from '../src/adapters/platform/node-logs.ts';
import { openBucket } from '../src/adapters/platform/open-bucket.ts';
import { openStores, type Stores } from '../src/adapters/platform/open-stores.ts';
import { BUILT_IN_REDUCERS, builtInReducer, loadReducer } from '../src/adapters/platform/reducer-module.ts';
import { feedTopic } from '../src/adapters/sns/feed-topic.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { DeploymentInvalidError, LogfoldError, ReducerInvalidError } from '../src/errors.ts';
import { FEED_LOG } from '../src/feed/feed-log.ts';
import type { LogId } from '../src/ids/log-id.ts';
import { requireClaim } from '../src/mapping/bucket-claim.ts';
import { segmentSizes } from '../src/mapping/item-division.ts';
import { readPolicies } from '../src/retention/policies.ts';
import { MIN_GRACE_SECONDS } from '../src/retention/retention-policy.ts';
import type { Reducer } from '../src/state/reducer.ts';
import { NodeCache } from '../src/tree/node-cache.ts';
import { adoptSource } from '../src/workers/adopt/adopt-logs.ts';
import type { JobDeps } from '../src/workers/dispatch/run-job.ts';
import { dividedFeed, FeedWriter } from '../src/workers/feed/feed-writer.ts';
import { type JobSender, jobQueues } from '../src/workers/jobs/job.ts';
import { RateLimiter } from '../src/workers/retention/rate-limiter.ts';
import { KEPT_NODE_BYTES } from '../src/workers/snapshot/build-snapshot.ts';
import {
  divisionPolicyOf,
  type FeedEnvironment,
  mappingOf,
  policyOf,
  reservedTypes,
  type StoreEnvironment,
  type WorkEnvironment,
} from './environment.ts';
import { logger } from './instrument.ts';

/** Memory for chunks of the feed's state. They say how far each log is fed. */
const FEED_CACHE_BYTES = 16 * 2 ** 20;

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
 * Makes the stores, and the checks of the deployment that they belong to.
 * @throws DeploymentInvalidError if the mapping is invalid
 */
export function wireStores(settings: StoreEnvironment, { ttl, readsSizes }: CheckedSettings) {
  const { entryTable, segmentTable, feedTable, bucket } = settings;
  const streamArn = settings.entryTableStreamArn;
  const dynamodb = new DynamoDBClient(sdkConfig());
  const s3 = new S3Client(sdkConfig());
  const names = { entryTable, segmentTable, feedTable, mapping: mappingOf(settings) };
  const opened = openStores({
    ...names,
    dynamodb,
    blobs: openBucket(bucket, { s3 }),
    types: reservedTypes(settings),
  });
  const parseLog = (text: string): LogId =>
    text === 'feed' && feedTable !== undefined ? FEED_LOG : opened.parseLog(text);
  const check = () => checkDeployment({ ...names, dynamodb, s3, bucket, ttl, onUnknown });
  return {
    stores: { ...opened, parseLog },
    check,
    /** Checks the stream that starts the stream function; undefined if none does. */
    checkStream:
      streamArn === undefined
        ? undefined
        : () => {
            // The router needs only the key of a mapped item, and perhaps its size.
            const readsImages = names.mapping === undefined || readsSizes;
            return checkStream({ dynamodb, entryTable, streamArn, readsImages, onUnknown });
          },
    /** Checks the tables, the bucket, and whose logs the bucket holds. */
    checkAll: async () => {
      await check();
      // Work goes on if the bucket does not answer: jobs then report the failure.
      await requireClaim(opened.blobs, opened.mapped).catch((error: unknown) => {
        if (error instanceof LogfoldError && REFUSED.includes(error.code)) throw error;
        onUnknown(error);
      });
    },
  };
}

const REFUSED = ['BUCKET_TAKEN', 'MAPPING_DIFFERS'];

/**
 * Makes the function that opens a writer of the feed, and the one that tells consumers where the
 * feed ends.
 * @param queue receives the feed's divide jobs
 */
export function wireFeed(stores: Stores, queue: JobSender, { feedTopicArn: topicArn }: FeedEnvironment) {
  const logs = wireLogs({ ...stores, cacheBytes: FEED_CACHE_BYTES });
  return {
    openFeed: () => dividedFeed(new FeedWriter({ logs, sleep, random: Math.random }), queue),
    publish: topicArn === undefined ? undefined : feedTopic({ client: new SNSClient(sdkConfig(IMPATIENT)), topicArn }),
  };
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
    snapshot: new SqsJobQueue({ client, queueUrl: settings.snapshotQueueUrl }),
    maintenance: new SqsJobQueue({ client, queueUrl: settings.maintenanceQueueUrl }),
  };
  const readsSizes = division.snapshotEvery.bytes !== undefined;
  const wired = wireStores(settings, { ttl: policy.expire === 'ttl', readsSizes });
  const { mapped, requests } = wired.stores;
  return {
    ...wired,
    division,
    /** Registers the logs of an application's table; undefined without a mapping. */
    adopt: mapped && {
      items: mapped.items,
      register: (log: LogId) => mapped.registrar.register(log, segmentSizes(division)),
      source: adoptSource(mapped),
      onPage: new RateLimiter({ perSecond: settings.adoptReadUnits }).covering(() => requests.readUnits),
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
  const { stores, checkAll: check, queue, policy, division, now } = wireWork(settings);
  const { blobs, parseLog } = stores;
  const jobs: JobDeps = {
    ...stores,
    scheduler: stores.mapped?.registrar,
    queue,
    division,
    now,
    random: Math.random,
    reducer: await wireReducer(settings),
    keptNodes: new NodeCache(KEPT_NODE_BYTES),
    watch: foldWatchOf(process.env),
    policyOf: async (log: LogId) => (await readPolicies(blobs, policy, parseLog)).of(log),
    rateLimiter: new RateLimiter({ perSecond: settings.expireWriteUnits }),
  };
  return { jobs, check };
}

/**
 * The reducer with a name, or that of a module; the default for an empty text.
 * @throws DeploymentInvalidError if the module cannot be loaded or has no reducer
 */
export async function wireReducer({ reducerModule: named }: { readonly reducerModule: string }): Promise<Reducer> {
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
