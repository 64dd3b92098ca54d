import { existsSync } from 'node:fs';
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { S3Client } from '@aws-sdk/client-s3';
import { sdkConfig } from '../adapters/aws/sdk-config.ts';
import { requireDynamoDb } from '../adapters/dynamodb/endpoint.ts';
import { requireOwnFeedTable, withFeedTable } from '../adapters/dynamodb/feed-table.ts';
import { DynamoDbLogStore, TableMeter } from '../adapters/dynamodb/log-store.ts';
import {
  describeTable,
  OWN_TTL_ATTRIBUTE,
  readTtlAttribute,
  requireMappedKeys,
} from '../adapters/dynamodb/table-settings.ts';
import { openTables } from '../adapters/dynamodb/tables.ts';
import { MeteredBlobStore } from '../adapters/metered-blob-store.ts';
import { foldWatchOf } from '../adapters/platform/fold-watch.ts';
import { nativePlatform } from '../adapters/platform/native.ts';
import { sleep, wireLogs } from '../adapters/platform/node-logs.ts';
import { S3BlobStore } from '../adapters/s3/blob-store.ts';
import { ArchivedLogStore } from '../archive/archived-log-store.ts';
import type { Document } from '../client/document.ts';
import type { Logs } from '../client/logs.ts';
import { ResourceMissingError, UsageError } from '../errors.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { feedReducer } from '../feed/feed-reducer.ts';
import type { LogId } from '../ids/log-id.ts';
import { type CheckpointOf, type CheckpointStore, FileCheckpointStore } from '../local/checkpoint-store.ts';
import { openDataDirectory, openEngine } from '../local/data-directory.ts';
import { givenEndpoint } from '../local/engine.ts';
import { dataPath } from '../local/engine-program.ts';
import { ensureTables, hasSegmentTable, missingTables, openMappedTables, type TableNames } from '../local/tables.ts';
import { ReservedTypes } from '../log/entry.ts';
import { type ForeignPart, foreignNotice, oncePerPart } from '../log/foreign.ts';
import type { LogStore } from '../log/log-store.ts';
import { MAPPED_TYPES } from '../log/schedule.ts';
import { requireClaim, requireMappedBooks } from '../mapping/bucket-claim.ts';
import { LogRegistrar } from '../mapping/log-registrar.ts';
import type { MappedItems } from '../mapping/mapped-items.ts';
import { MappedLogStore } from '../mapping/mapped-log-store.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import type { OnBadEntry } from '../snapshot/bad-entry.ts';
import type { Reducer } from '../state/reducer.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { FeedWriter } from '../workers/feed/feed-writer.ts';
import { parseTypedLog } from './mapping.ts';
import { type ChosenReducer, chooseReducer, reducerGuard } from './reducer.ts';

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

/** The stores, clients and settings of one place. */
export interface Environment {
  readonly tables: TableMeter;
  readonly blobs: MeteredBlobStore;
  readonly logs: Logs;
  /**
   * Opens a log as a live document with the chosen reducer. Before it folds an entry, it throws
   * ReducerForeignError if another reducer folds the log: see {@link reducerGuard}.
   */
  readonly open: (log: LogId) => Promise<Document>;
  /** The dependencies of every job, except a queue and a policy. */
  readonly deps: ReturnType<typeof jobDeps> & Pick<Chosen, 'onForeign'>;
  /** Throws ReducerForeignError if another reducer folds the log: see {@link reducerGuard}. */
  readonly requireReducer: (log: LogId) => Promise<void>;
  readonly onBadEntry: OnBadEntry | undefined;
  /** Tells people something that is not part of the answer. */
  readonly notice: (text: string) => void;
  readonly settings: TableSettings;
  /** The application's table; undefined without a mapping, and for the feed itself. */
  readonly mapped: MappedTables | undefined;
  /** Appends to the feed; undefined if there is none. */
  readonly feed: FeedWriter | undefined;
  readonly otherTables: (names: TableNames, options: { readonly dryRun: boolean }) => Promise<OtherTables>;
  readonly streams: DynamoDBStreamsClient;
  readonly streamArn: () => Promise<string>;
  readonly checkpoints: (streamArn: string, of?: CheckpointOf) => CheckpointStore;
  /** Aborted when the local engine is lost. */
  readonly lost: AbortSignal;
  readonly close: () => Promise<void>;
}

/** An application's table, and the logs in it. */
export interface MappedTables {
  /** The name of the table. */
  readonly table: string;
  readonly mapping: SchemaMapping;
  readonly items: MappedItems;
  readonly registrar: LogRegistrar;
}

/** Other tables of the same schema, in the same place. */
export interface OtherTables {
  readonly store: LogStore;
  /** Names of tables that did not exist. The local engine creates them, unless it is a dry run. */
  readonly created: readonly string[];
}

/** Settings of the Entry table. */
export interface TableSettings {
  /** Write units that the table takes per second. */
  readonly writeCapacity: () => Promise<number>;
  /** The TTL attribute; undefined if TTL is off. */
  readonly ttlAttribute: () => Promise<string | undefined>;
  /** The attribute that logfold stamps; undefined if the mapping names none. */
  readonly stampedAttribute: string | undefined;
  /** Whether expired items stay, because the engine accepts the TTL setting and ignores it. */
  readonly ignoresTtl: boolean;
}

/**
 * @param notice called with sentences for people, for example about parts that another program
 * wrote
 * @throws UsageError, EngineError, ResourceMissingError
 * @throws BucketTakenError, MappingDiffersError if the bucket holds the logs of another table or
 * mapping
 */
export async function openEnvironment(
  place: Place,
  notice: (text: string) => void = () => undefined,
): Promise<Environment> {
  // Fails before anything is opened.
  typesOf(place);
  const chosen = place.isFeed ? { reducer: feedReducer, named: true } : await chooseReducer(place.reducer);
  const endpoint = givenEndpoint();
  if (endpoint !== undefined) await requireDynamoDb(endpoint);
  const how = { ...chosen, notice, onForeign: oncePerPart((part) => notice(foreignNotice(part))) };
  return place.local === undefined ? openAws(place, how) : openLocal(place, how, place.local);
}

/** A client of DynamoDB alone, for tables that are not logfold's. */
export interface DynamoDbPlace {
  readonly client: DynamoDBClient;
  /** Undefined for that of AWS. */
  readonly endpoint: string | undefined;
  /** Aborted when the local engine is lost. */
  readonly lost: AbortSignal;
  readonly close: () => Promise<void>;
}

/** @throws UsageError, EngineError, ResourceMissingError */
export async function openDynamoDb({
  local,
  creates = false,
}: Pick<Place, 'local' | 'creates'>): Promise<DynamoDbPlace> {
  const endpoint = givenEndpoint();
  if (endpoint !== undefined) await requireDynamoDb(endpoint);
  if (local !== undefined) {
    const { engine, dynamodb } = await openEngine(local, { creates });
    return { client: dynamodb, endpoint: engine.endpoint, lost: engine.lost, close: () => engine.leave() };
  }
  const client = new DynamoDBClient(awsConfig(endpoint));
  await requireRegion(client);
  return { client, endpoint, lost: new AbortController().signal, close: async () => client.destroy() };
}

function awsConfig(endpoint: string | undefined): DynamoDBClientConfig {
  return { ...sdkConfig(), ...(endpoint !== undefined && { endpoint }) };
}

async function openLocal(place: Place, chosen: Chosen, dir: string): Promise<Environment> {
  if (place.bucket !== undefined) {
    throw new UsageError('--local and --bucket exclude each other', {
      advice: 'Leave out --bucket: with --local, objects are in the directory',
    });
  }
  const { mapping, changesClaim } = place;
  const opened = await openDataDirectory(dir, { ...place, entryTable: requireEntryTable(place) });
  const { engine, names, config, dynamodb, objects } = opened;
  if (changesClaim !== true) {
    await requireOwnBucket({ names, dynamodb, objects }, mapping).catch(async (error: unknown) => {
      await engine.leave();
      throw error;
    });
  }
  return {
    ...wire(place, chosen, { names, dynamodb, objects, close: () => engine.leave() }),
    otherTables: async (others, { dryRun }) => {
      if (mapping !== undefined) {
        const store = openTables({ client: dynamodb, ...others, mapping, now: Date.now });
        const isMissing = !(await hasSegmentTable(dynamodb, others.segmentTable));
        if (dryRun && isMissing) return { store, created: [others.segmentTable] };
        return { store, created: await openMappedTables(dynamodb, others, { mapping, creates: !dryRun, dir }) };
      }
      const created = await missingTables(dynamodb, others);
      if (!dryRun) await ensureTables(dynamodb, others);
      return { store: new DynamoDbLogStore({ client: dynamodb, ...others }), created };
    },
    streams: new DynamoDBStreamsClient(config),
    streamArn: () => describeStream(dynamodb, names.entryTable),
    checkpoints: (streamArn, of) => new FileCheckpointStore(dir, streamArn, of),
    lost: engine.lost,
  };
}

async function openAws(place: Place, chosen: Chosen): Promise<Environment> {
  const { entryTable, segmentTable, feedTable, bucket, mapping } = place;
  if (entryTable === undefined || segmentTable === undefined || bucket === undefined) {
    throw new UsageError('the tables and the bucket are not given', {
      advice: 'Give --entry-table, --segment-table and --bucket, or --local DIR to try it on this machine',
    });
  }
  requireOwnFeedTable({ entryTable, segmentTable, feedTable });
  const endpoint = givenEndpoint();
  const config = awsConfig(endpoint);
  const dynamodb = new DynamoDBClient(config);
  await requireRegion(dynamodb);
  const objects = new S3BlobStore({ client: new S3Client(sdkConfig()), bucket });
  if (mapping !== undefined) await requireMappedKeys(dynamodb, entryTable, mapping);
  const names = { entryTable, segmentTable };
  if (place.changesClaim !== true) await requireOwnBucket({ names, dynamodb, objects }, mapping);
  return {
    ...wire(place, chosen, { names, dynamodb, objects }),
    otherTables: async (others) => {
      if (mapping !== undefined) await requireMappedKeys(dynamodb, others.entryTable, mapping);
      return { store: openTables({ client: dynamodb, ...others, mapping, now: Date.now }), created: [] };
    },
    streams: new DynamoDBStreamsClient(config),
    streamArn: () => describeStream(dynamodb, entryTable),
    // There is no directory for checkpoints: each run reads the stream from its oldest record and
    // skips finished snapshots.
    checkpoints: () => ({ load: async () => ({}), save: async () => {} }),
    lost: new AbortController().signal,
  };
}

/** How the commands of a place fold logs, and what they report. */
interface Chosen extends ChosenReducer {
  readonly notice: Environment['notice'];
  readonly onForeign: (part: ForeignPart) => void;
}

interface Stores {
  readonly names: TableNames;
  readonly dynamodb: DynamoDBClient;
  readonly objects: BlobStore;
  readonly close?: () => Promise<void>;
}

/** @throws BucketTakenError or MappingDiffersError if the bucket or Segment table has other logs */
async function requireOwnBucket(
  { names: { entryTable, segmentTable }, dynamodb, objects }: Stores,
  mapping: SchemaMapping | undefined,
): Promise<void> {
  await requireClaim(objects, mapping && { table: entryTable, mapping });
  if (mapping === undefined) return;
  await requireMappedBooks(objects, new DynamoDbLogStore({ client: dynamodb, entryTable: segmentTable, segmentTable }));
}

function wire(place: Place, chosen: Chosen, { names, dynamodb, objects, close }: Stores) {
  const tables = new TableMeter();
  const blobs = new MeteredBlobStore(objects);
  const { onBadEntry, feedTable } = place;
  const mapping = place.isFeed ? undefined : place.mapping;
  const { onForeign, notice } = chosen;
  const { meter } = tables;
  const own = openTables({ client: dynamodb, ...names, meter, mapping: place.mapping, now: Date.now });
  const { tables: store, feedGroups } = withFeedTable(own, { client: dynamodb, feedTable, meter });
  const mapped =
    mapping === undefined || !(own instanceof MappedLogStore)
      ? undefined
      : {
          table: names.entryTable,
          items: own.applicationTable,
          registrar: new LogRegistrar({ store: own, blobs, table: names.entryTable, mapping }),
          mapping,
        };
  const deps = { ...jobDeps(place, chosen.reducer, store, blobs), onForeign };
  const requireReducer = reducerGuard(deps, chosen, (log) => mapping !== undefined && log !== FEED_LOG);
  const logs = wireLogs({ ...deps, feedGroups, close });
  const open = async (log: LogId): Promise<Document> => {
    await requireReducer(log);
    return logs.open(log, { reducer: chosen.reducer, onForeign, onBadEntry });
  };
  const table = (place.isFeed && feedTable) || names.entryTable;
  const settings: TableSettings = {
    writeCapacity: async () => (await describeTable(dynamodb, table)).writeCapacity,
    ttlAttribute: () => readTtlAttribute(dynamodb, table),
    stampedAttribute: mapping === undefined ? OWN_TTL_ATTRIBUTE : mapping.ttl,
    ignoresTtl: place.local !== undefined && existsSync(dataPath('dynoxide', place.local)),
  };
  return {
    tables,
    blobs,
    logs,
    open,
    close: () => logs.close(),
    deps,
    requireReducer,
    onBadEntry,
    notice,
    settings,
    mapped,
    feed: feedTable === undefined ? undefined : new FeedWriter({ logs, sleep, random: Math.random }),
  };
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
  if (mapping !== undefined) return MAPPED_TYPES;
  return new ReservedTypes({ snapshot: snapshotType, endSegment: endSegmentType });
}

function jobDeps(place: Place, reducer: Reducer, tables: LogStore, blobs: MeteredBlobStore) {
  const platform = nativePlatform;
  return {
    store: new ArchivedLogStore(tables, { blobs, platform }),
    tables,
    blobs,
    platform,
    reducer,
    watch: foldWatchOf(process.env),
    types: typesOf(place),
    parseLog: (text: string) => parseTypedLog(place.mapping, text),
    now: Date.now,
    random: Math.random,
  };
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

async function describeStream(client: DynamoDBClient, table: string): Promise<string> {
  const { streamArn } = await describeTable(client, table);
  if (streamArn !== undefined) return streamArn;
  throw new ResourceMissingError(`table '${table}' has no stream`, {
    advice: 'Switch its stream on, with the view type NEW_IMAGE or NEW_AND_OLD_IMAGES',
  });
}
