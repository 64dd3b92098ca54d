import { setTimeout } from 'node:timers/promises';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  type DynamoDBClient,
  ResourceInUseException,
  ResourceNotFoundException,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import {
  type DescribedTable,
  describeKeys,
  describeTable,
  OWN_KEYS,
  OWN_TTL_ATTRIBUTE,
  readTtlAttribute,
  requireMappedKeys,
} from '../adapters/dynamodb/table-settings.ts';
import { ResourceMissingError, UsageError } from '../errors.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';

/** How long a new table may take to become active, in milliseconds. */
const ACTIVE_WITHIN_MS = 60_000;
const ACTIVE_POLL_MS = 50;

export interface TableNames {
  readonly entryTable: string;
  readonly segmentTable: string;
}

/** The Entry table as the deployment creates it. A separate request sets the TTL attribute. */
export function entryTableInput(name: string): CreateTableCommandInput {
  return {
    ...segmentTableInput(name),
    StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' },
  };
}

/** The Segment table as the deployment creates it. */
export function segmentTableInput(name: string): CreateTableCommandInput {
  return {
    TableName: name,
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
      { AttributeName: 'S', AttributeType: 'B' },
      { AttributeName: 'N', AttributeType: 'N' },
    ],
    KeySchema: [
      { AttributeName: 'S', KeyType: 'HASH' },
      { AttributeName: 'N', KeyType: 'RANGE' },
    ],
  };
}

/**
 * Creates the two tables, the stream and the TTL setting if they are missing, and waits until they
 * are active. Several processes may call this at the same time.
 * @returns the ARN of the Entry table's stream
 * @throws UsageError if a table exists with other keys, or the Entry table has no stream of new
 *   images
 * @throws ResourceMissingError if a table is not active after a minute
 */
export async function ensureTables(client: DynamoDBClient, names: TableNames): Promise<string> {
  const [entry] = await Promise.all([
    ensureTable(client, names.entryTable, entryTableInput(names.entryTable)),
    ensureSegmentTable(client, names.segmentTable),
  ]);
  const streamArn = requireStream(entry, names.entryTable);
  await ensureTimeToLive(client, names.entryTable);
  return streamArn;
}

/**
 * Creates the Segment table if it is missing, and waits until it is active.
 * @throws UsageError if it exists with other keys
 * @throws ResourceMissingError if it is not active after a minute
 */
export async function ensureSegmentTable(client: DynamoDBClient, name: string): Promise<void> {
  await ensureTable(client, name, segmentTableInput(name));
}

/**
 * Creates the table of the feed and its TTL setting if they are missing, and waits until it is
 * active. It has the keys of the Segment table and no stream.
 * @throws UsageError if it exists with other keys
 * @throws ResourceMissingError if it is not active after a minute
 */
export async function ensureFeedTable(client: DynamoDBClient, name: string): Promise<void> {
  await ensureSegmentTable(client, name);
  await ensureTimeToLive(client, name);
}

/**
 * Whether the Segment table exists.
 * @throws UsageError if it has other keys
 */
export async function hasSegmentTable(client: DynamoDBClient, name: string): Promise<boolean> {
  const table = await find(client, name);
  if (table !== undefined) requireKeys(table, name);
  return table !== undefined;
}

/**
 * The names of the tables that {@link ensureTables} would create. Creates nothing.
 * @throws UsageError if {@link ensureTables} would throw a UsageError
 */
export async function missingTables(
  client: DynamoDBClient,
  { entryTable, segmentTable }: TableNames,
): Promise<string[]> {
  const [entry, hasSegments] = await Promise.all([find(client, entryTable), hasSegmentTable(client, segmentTable)]);
  if (entry !== undefined) {
    requireKeys(entry, entryTable);
    requireStream(entry, entryTable);
  }
  return [...(entry === undefined ? [entryTable] : []), ...(hasSegments ? [] : [segmentTable])];
}

async function ensureTable(
  client: DynamoDBClient,
  name: string,
  input: CreateTableCommandInput,
): Promise<DescribedTable> {
  let table = await find(client, name);
  if (table === undefined) {
    try {
      await client.send(new CreateTableCommand(input));
    } catch (error) {
      // Another process was faster. Its table is checked below.
      if (!(error instanceof ResourceInUseException)) throw error;
    }
  }
  const deadline = Date.now() + ACTIVE_WITHIN_MS;
  for (; table?.status !== 'ACTIVE'; table = await find(client, name)) {
    if (table?.status === 'UPDATING') break;
    if (Date.now() > deadline) {
      throw new ResourceMissingError(
        `table '${name}' is ${table?.status ?? 'missing'} and not active after ${ACTIVE_WITHIN_MS / 1000} s`,
      );
    }
    if (table !== undefined) await setTimeout(ACTIVE_POLL_MS);
  }
  requireKeys(table, name);
  return table;
}

/** Describes a table; undefined if it does not exist. */
async function find(client: DynamoDBClient, name: string): Promise<DescribedTable | undefined> {
  return describeTable(client, name).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
}

function isMissing(error: unknown): boolean {
  return error instanceof ResourceMissingError && error.cause instanceof ResourceNotFoundException;
}

function requireKeys({ keys }: DescribedTable, name: string): void {
  const [has, needs] = [keys, OWN_KEYS].map(describeKeys);
  if (has === needs) return;
  throw new UsageError(`table '${name}' has the keys ${has} instead of ${needs}`, {
    advice: 'Give the mapping if this is a table of your application, or choose another table name',
  });
}

function requireStream({ stream, streamArn }: DescribedTable, name: string): string {
  if (streamArn !== undefined && (stream === 'NEW_IMAGE' || stream === 'NEW_AND_OLD_IMAGES')) return streamArn;
  throw new UsageError(`table '${name}' has ${stream === undefined ? 'no stream' : `a stream of ${stream}`}`, {
    advice: 'Enable its stream with the view type NEW_IMAGE',
  });
}

async function ensureTimeToLive(client: DynamoDBClient, name: string): Promise<void> {
  const expires = async () => (await readTtlAttribute(client, name)) === OWN_TTL_ATTRIBUTE;
  if (await expires()) return;
  const TimeToLiveSpecification = { Enabled: true, AttributeName: OWN_TTL_ATTRIBUTE };
  try {
    await client.send(new UpdateTimeToLiveCommand({ TableName: name, TimeToLiveSpecification }));
  } catch (error) {
    // AWS reports an error if another process has just enabled TTL, so only the outcome counts.
    if (!(await expires())) throw error;
  }
}

export interface MappedTablesOptions {
  readonly mapping: SchemaMapping;
  /** Whether to create a missing Segment table. The application's table is never created. */
  readonly creates: boolean;
  /** The data directory, for errors. */
  readonly dir: string;
}

/**
 * Finds the application's table in the embedded engine, and finds or creates the Segment table.
 * @returns the names of the tables that were created
 * @throws ResourceMissingError if a table is missing that is not created
 * @throws UsageError if a table has other keys
 */
export async function openMappedTables(
  client: DynamoDBClient,
  { entryTable, segmentTable }: TableNames,
  { mapping, creates, dir }: MappedTablesOptions,
): Promise<string[]> {
  await requireMappedKeys(client, entryTable, mapping).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new ResourceMissingError(`there is no table '${entryTable}' in '${dir}'`, {
      advice: "Check the name, or create the table at the endpoint that 'logfold engine' prints; nothing was created",
      cause: error,
    });
  });
  if (await hasSegmentTable(client, segmentTable)) return [];
  if (!creates) {
    throw new ResourceMissingError(`there is no table '${segmentTable}' in '${dir}'`, {
      advice: "Check the name, or run 'logfold adopt', which creates it; nothing was created",
    });
  }
  await ensureSegmentTable(client, segmentTable);
  return [segmentTable];
}
