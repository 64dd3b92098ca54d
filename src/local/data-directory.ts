import { join } from 'node:path';
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { translateAwsError } from '../adapters/aws/aws-error.ts';
import { FilesystemBlobStore } from '../adapters/filesystem/blob-store.ts';
import { type Deployment, requireOwnFeedTable } from '../adapters/platform/open-stores.ts';
import { ResourceMissingError } from '../errors.ts';
import { requireClaim } from '../mapping/bucket-claim.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import { type Engine, joinEngine } from './engine.ts';
import {
  ensureFeedTable,
  ensureTables,
  hasSegmentTable,
  missingTables,
  openMappedTables,
  type TableNames,
} from './tables.ts';

/** The tables of a data directory, unless somebody names others. */
export const LOCAL_TABLES: TableNames = { entryTable: 'Entry', segmentTable: 'Segment' };

export interface DirectoryOptions {
  readonly entryTable?: string | undefined;
  readonly segmentTable?: string | undefined;
  /** The table of the feed; undefined if there is none. */
  readonly feedTable?: string | undefined;
  /** Whether to create a missing directory, engine or table. False by default. */
  readonly creates?: boolean;
  /** Whether to create the directory and its engine if they are missing; `creates` by default. */
  readonly createsDirectory?: boolean | undefined;
  /** Whether to create the table of the feed if it is missing; `creates` by default. */
  readonly createsFeed?: boolean | undefined;
  /** The Entry table is an application's, with this mapping. It is never created. */
  readonly mapping?: SchemaMapping | undefined;
}

/** The engine of a data directory and a client of it. */
export interface OpenEngine {
  readonly engine: Engine;
  /** For further clients of the engine. */
  readonly config: DynamoDBClientConfig & { readonly endpoint: string };
  readonly dynamodb: DynamoDBClient;
}

/** A data directory in use: its engine, its tables and its objects. */
export interface DataDirectory extends Pick<OpenEngine, 'engine' | 'config'> {
  readonly deployment: Deployment;
}

/**
 * Joins the engine of a data directory. The caller leaves the engine.
 * @throws ResourceMissingError if there is no such directory and `creates` is false
 * @throws UsageError if the directory cannot be used
 * @throws EngineError if the engine does not start
 */
export async function openEngine(dir: string, { creates }: { readonly creates: boolean }): Promise<OpenEngine> {
  const engine = await joinEngine(dir, { creates });
  // The engine takes any credentials and region, but the SDK insists on some.
  const config = {
    endpoint: engine.endpoint,
    region: 'local',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  };
  return { engine, config, dynamodb: new DynamoDBClient(config) };
}

/**
 * Opens a data directory: joins its engine and finds or creates its tables. The caller leaves the
 * engine.
 * @throws ResourceMissingError if something is missing and `creates` is false
 * @throws BucketTakenError if there is no mapping, and the directory holds the logs of one
 * @throws UsageError if a table exists with other keys, the feed would share a table with the logs,
 * or the directory cannot be used
 * @throws EngineError if the engine does not start, or ends
 */
export async function openDataDirectory(dir: string, options: DirectoryOptions): Promise<DataDirectory> {
  const { creates = false, createsDirectory = creates, createsFeed = creates, mapping, feedTable } = options;
  const { entryTable = LOCAL_TABLES.entryTable, segmentTable = LOCAL_TABLES.segmentTable } = options;
  requireOwnFeedTable({ entryTable, segmentTable, feedTable });
  const { engine, config, dynamodb } = await openEngine(dir, { creates: createsDirectory });
  try {
    const names = { entryTable, segmentTable };
    const blobs = new FilesystemBlobStore(join(dir, 'blobs'));
    // Before a table of logfold's own schema is missed or created beside those of the application.
    if (mapping === undefined) await requireClaim(blobs, undefined);
    const ready =
      mapping === undefined
        ? prepareTables(dynamodb, names, { creates, dir })
        : openMappedTables(dynamodb, names, { mapping, creates, dir });
    await ready
      .then(() =>
        feedTable === undefined ? undefined : prepareFeedTable(dynamodb, feedTable, { creates: createsFeed, dir }),
      )
      .catch((error: unknown) => {
        throw translateAwsError(error, `DynamoDB at ${engine.endpoint}`);
      });
    return { engine, config, deployment: { ...names, dynamodb, blobs, feedTable, mapping } };
  } catch (error) {
    await engine.leave();
    throw engine.lost.aborted ? engine.lost.reason : error;
  }
}

async function prepareFeedTable(
  client: DynamoDBClient,
  name: string,
  { creates, dir }: { readonly creates: boolean; readonly dir: string },
): Promise<void> {
  if (creates) return ensureFeedTable(client, name);
  if (await hasSegmentTable(client, name)) return;
  throw new ResourceMissingError(`there is no table '${name}' in '${dir}'`, {
    advice: 'Check the name of the feed, or create its table with the work command; nothing was created',
  });
}

async function prepareTables(
  client: DynamoDBClient,
  names: TableNames,
  { creates, dir }: { readonly creates: boolean; readonly dir: string },
): Promise<void> {
  if (creates) {
    await ensureTables(client, names);
    return;
  }
  const [missing] = await missingTables(client, names);
  if (missing === undefined) return;
  throw new ResourceMissingError(`there is no table '${missing}' in '${dir}'`, {
    advice: 'Check the names, or create the table with the create command; nothing was created',
  });
}
