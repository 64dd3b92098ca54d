import { SQSClient } from '@aws-sdk/client-sqs';
import { sdkConfig } from '../src/adapters/aws/sdk-config.ts';
import { foldWatchOf } from '../src/adapters/platform/fold-watch.ts';
import { BUILT_IN_REDUCERS, builtInReducer, loadReducer } from '../src/adapters/platform/reducer-module.ts';
import { SqsJobQueue } from '../src/adapters/sqs/job-queue.ts';
import { DeploymentInvalidError, ReducerInvalidError } from '../src/errors.ts';
import type { LogId } from '../src/ids/log-id.ts';
import { segmentSizes } from '../src/mapping/mapped-division.ts';
import { readPolicies } from '../src/retention/policies.ts';
import { MIN_GRACE_SECONDS } from '../src/retention/retention-policy.ts';
import type { Reducer } from '../src/state/reducer.ts';
import { NodeCache } from '../src/tree/node-cache.ts';
import type { JobDeps } from '../src/workers/dispatch/run-job.ts';
import { jobQueues } from '../src/workers/jobs/job.ts';
import { RateLimiter } from '../src/workers/retention/rate-limiter.ts';
import { KEPT_NODE_BYTES } from '../src/workers/snapshot/build-snapshot.ts';
import { divisionPolicyOf, policyOf, type WorkEnvironment } from './environment.ts';
import { logger } from './instrument.ts';
import { wireStores } from './wire-stores.ts';

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
  const { mappedStore, mapped, requests } = wired;
  return {
    ...wired,
    division,
    /** Registers the logs of an application's table; undefined without a mapping. */
    adopt: mappedStore &&
      mapped && {
        items: mappedStore.applicationTable,
        register: (log: LogId) => mapped.register(log, segmentSizes(division)),
        source: `${settings.ENTRY_TABLE} ${settings.MAPPING}`,
        onPage: new RateLimiter({ perSecond: settings.ADOPT_READ_UNITS }).covering(() => requests.readUnits),
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
  const { stores, mapped, checkAll: check, queue, policy, division, now } = wireWork(settings);
  const { blobs, parseLog } = stores;
  const jobs: JobDeps = {
    ...stores,
    scheduler: mapped,
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
