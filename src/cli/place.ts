import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { sdkConfig } from '../adapters/aws/sdk-config.ts';
import { requireDynamoDb } from '../adapters/dynamodb/endpoint.ts';
import { requireMappedKeys } from '../adapters/dynamodb/table-settings.ts';
import { openBucket } from '../adapters/platform/open-bucket.ts';
import {
  type Deployment,
  openStores,
  requireOwnBucket,
  requireOwnFeedTable,
} from '../adapters/platform/open-stores.ts';
import { UsageError } from '../errors.ts';
import { type CheckpointOf, type CheckpointStore, FileCheckpointStore } from '../local/checkpoint-store.ts';
import { openDataDirectory, openEngine } from '../local/data-directory.ts';
import { givenEndpoint } from '../local/engine.ts';
import { ensureTables, hasSegmentTable, missingTables, openMappedTables, type TableNames } from '../local/tables.ts';
import { ReservedTypes } from '../log/entry.ts';
import type { LogStore } from '../log/log-store.ts';
import { VIRTUAL_TYPES } from '../log/schedule.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import type { OnBadEntry } from '../snapshot/bad-entry.ts';

/** The tables and the bucket that the command line names. */
export interface Place {
  readonly local?: string;
  /** Whether to create missing directories and tables. Off by default: a name may be a typo. */
  readonly creates?: boolean;
  /** Whether to create the directory of the local engine if it is missing. `creates` by default. */
  readonly createsDirectory?: boolean;
  readonly entryTable?: string;
  readonly segmentTable?: string;
  /** The table of the feed; undefined if the deployment has none. */
  readonly feedTable?: string;
  /** Whether to create the table of the feed in the local engine. `creates` by default. */
  readonly createsFeed?: boolean;
  /** Whether the command is about the feed itself, which its own reducer folds. */
  readonly isFeed?: boolean;
  readonly bucket?: string;
  /** The file of a reducer's module, or the name of the reducer that comes with logfold. */
  readonly reducer?: string;
  /** How the items of the Entry table become entries; undefined if they are logfold's own. */
  readonly mapping?: SchemaMapping | undefined;
  /** Whether the command changes whose logs the bucket holds, so that it may hold others. */
  readonly changesClaim?: boolean;
  /** As in `DocumentOptions`. */
  readonly onBadEntry?: OnBadEntry | undefined;
  readonly snapshotType: string;
  readonly endSegmentType: string;
}

/** A place whose tables and bucket were found: its deployment, and further clients. */
export interface OpenPlace {
  readonly deployment: Deployment;
  readonly otherTables: (names: TableNames, options: { readonly dryRun: boolean }) => Promise<OtherTables>;
  readonly streams: DynamoDBStreamsClient;
  readonly checkpoints: (streamArn: string, of?: CheckpointOf) => CheckpointStore;
  /** Aborted when the local engine is lost. */
  readonly lost: AbortSignal;
  readonly close: () => Promise<void>;
}

/** Other tables of the same schema, in the same place. */
export interface OtherTables {
  readonly store: LogStore;
  /** Names of tables that did not exist. The local engine creates them, unless it is a dry run. */
  readonly created: readonly string[];
}

/**
 * Finds the tables and the bucket of a place.
 * @throws UsageError, EngineError, ResourceMissingError
 * @throws BucketTakenError, MappingDiffersError if the bucket holds the logs of another table or
 * mapping
 */
export async function openPlace(place: Place): Promise<OpenPlace> {
  const endpoint = await findEndpoint();
  const opened = place.local === undefined ? await openAws(place, endpoint) : await openLocal(place, place.local);
  try {
    if (place.changesClaim !== true) await requireOwnBucket(openStores(opened.deployment));
    return opened;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** A client of DynamoDB alone, for tables that are not logfold's. */
export interface DynamoDbPlace extends Pick<OpenPlace, 'lost' | 'close'> {
  readonly client: DynamoDBClient;
  /** Undefined for that of AWS. */
  readonly endpoint: string | undefined;
}

/** @throws UsageError, EngineError, ResourceMissingError */
export async function openDynamoDb({
  local,
  creates = false,
}: Pick<Place, 'local' | 'creates'>): Promise<DynamoDbPlace> {
  const endpoint = await findEndpoint();
  if (local !== undefined) {
    const { engine, dynamodb } = await openEngine(local, { creates });
    return { client: dynamodb, endpoint: engine.endpoint, lost: engine.lost, close: () => engine.leave() };
  }
  const client = new DynamoDBClient(awsConfig(endpoint));
  await requireRegion(client);
  return { client, endpoint, lost: new AbortController().signal, close: async () => client.destroy() };
}

/** The endpoint that the environment names, which answers as DynamoDB does; undefined for AWS. */
async function findEndpoint(): Promise<string | undefined> {
  const endpoint = givenEndpoint();
  if (endpoint !== undefined) await requireDynamoDb(endpoint);
  return endpoint;
}

function awsConfig(endpoint: string | undefined): DynamoDBClientConfig {
  return { ...sdkConfig(), ...(endpoint !== undefined && { endpoint }) };
}

async function openLocal(place: Place, dir: string): Promise<OpenPlace> {
  if (place.bucket !== undefined) {
    throw new UsageError('--local and --bucket exclude each other', {
      advice: 'Leave out --bucket: with --local, objects are in the directory',
    });
  }
  const { mapping } = place;
  const opened = await openDataDirectory(dir, { ...place, entryTable: requireEntryTable(place) });
  const { engine, config } = opened;
  const deployment = { ...opened.deployment, types: typesOf(place) };
  const { dynamodb } = deployment;
  return {
    deployment,
    otherTables: async (others, { dryRun }) => {
      const store = storeOf(deployment, others);
      if (mapping !== undefined) {
        const isMissing = !(await hasSegmentTable(dynamodb, others.segmentTable));
        if (dryRun && isMissing) return { store, created: [others.segmentTable] };
        return { store, created: await openMappedTables(dynamodb, others, { mapping, creates: !dryRun, dir }) };
      }
      const created = await missingTables(dynamodb, others);
      if (!dryRun) await ensureTables(dynamodb, others);
      return { store, created };
    },
    streams: new DynamoDBStreamsClient(config),
    checkpoints: (streamArn, of) => new FileCheckpointStore(dir, streamArn, of),
    lost: engine.lost,
    close: () => engine.leave(),
  };
}

async function openAws(place: Place, endpoint: string | undefined): Promise<OpenPlace> {
  const { entryTable, segmentTable, feedTable, bucket, mapping } = place;
  if (entryTable === undefined || segmentTable === undefined || bucket === undefined) {
    throw new UsageError('the tables and the bucket are not given', {
      advice: 'Give --entry-table, --segment-table and --bucket, or --local DIR to try it on this machine',
    });
  }
  requireOwnFeedTable({ entryTable, segmentTable, feedTable });
  const blobs = openBucket(bucket);
  const dynamodb = new DynamoDBClient(awsConfig(endpoint));
  await requireRegion(dynamodb);
  if (mapping !== undefined) await requireMappedKeys(dynamodb, entryTable, mapping);
  const deployment = { dynamodb, entryTable, segmentTable, feedTable, blobs, mapping, types: typesOf(place) };
  return {
    deployment,
    otherTables: async (others) => {
      if (mapping !== undefined) await requireMappedKeys(dynamodb, others.entryTable, mapping);
      return { store: storeOf(deployment, others), created: [] };
    },
    streams: new DynamoDBStreamsClient(awsConfig(endpoint)),
    // There is no directory for checkpoints: each run reads the stream from its oldest record and
    // skips finished snapshots.
    checkpoints: () => ({ load: async () => ({}), save: async () => {} }),
    lost: new AbortController().signal,
    close: async () => {},
  };
}

function storeOf(deployment: Deployment, others: TableNames): LogStore {
  return openStores({ ...deployment, ...others, feedTable: undefined }).tables;
}

/** @throws UsageError if there is a mapping and the application's table is not named */
function requireEntryTable({ mapping, entryTable }: Place): string | undefined {
  if (mapping === undefined || entryTable !== undefined) return entryTable;
  throw new UsageError('--mapping is for a table of your application, which is not named', {
    advice: 'Give --entry-table NAME',
  });
}

/** @throws UsageError if the types are the same or one is empty */
export function typesOf({
  mapping,
  snapshotType,
  endSegmentType,
}: Pick<Place, 'mapping' | 'snapshotType' | 'endSegmentType'>): ReservedTypes {
  if (mapping !== undefined) return VIRTUAL_TYPES;
  return new ReservedTypes({ snapshot: snapshotType, endSegment: endSegmentType });
}

async function requireRegion(client: DynamoDBClient): Promise<void> {
  try {
    await client.config.region();
  } catch (cause) {
    throw new UsageError('the AWS region is not known', {
      advice: 'Set AWS_REGION or a profile with a region, or give --local DIR to try it on this machine',
      cause,
    });
  }
}
