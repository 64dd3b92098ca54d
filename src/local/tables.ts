import { setTimeout } from 'node:timers/promises';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  ResourceInUseException,
  ResourceNotFoundException,
  type TableDescription,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { invalidTableName } from '../adapters/aws/dynamodb-error.ts';
import { ResourceMissingError, UsageError } from '../errors.ts';

/** The TTL attribute of the Entry table. */
export const TTL_ATTRIBUTE = 'X';

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
    ensureTable(client, names.segmentTable, segmentTableInput(names.segmentTable)),
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
  const table = await describe(client, name);
  if (table !== undefined) requireKeys(table, segmentTableInput(name), name);
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
  const [entry, segment] = await Promise.all([describe(client, entryTable), describe(client, segmentTable)]);
  if (entry !== undefined) {
    requireKeys(entry, entryTableInput(entryTable), entryTable);
    requireStream(entry, entryTable);
  }
  if (segment !== undefined) requireKeys(segment, segmentTableInput(segmentTable), segmentTable);
  return [...(entry === undefined ? [entryTable] : []), ...(segment === undefined ? [segmentTable] : [])];
}

async function ensureTable(
  client: DynamoDBClient,
  name: string,
  input: CreateTableCommandInput,
): Promise<TableDescription> {
  let table = await describe(client, name);
  if (table === undefined) {
    try {
      await client.send(new CreateTableCommand(input));
    } catch (error) {
      // Another process was faster. Its table is checked below.
      if (!(error instanceof ResourceInUseException)) throw error;
    }
  }
  const deadline = Date.now() + ACTIVE_WITHIN_MS;
  for (; table?.TableStatus !== 'ACTIVE'; table = await describe(client, name)) {
    if (table?.TableStatus === 'UPDATING') break;
    if (Date.now() > deadline) {
      throw new ResourceMissingError(
        `table '${name}' is ${table?.TableStatus ?? 'missing'} and not active after ${ACTIVE_WITHIN_MS / 1000} s`,
      );
    }
    if (table !== undefined) await setTimeout(ACTIVE_POLL_MS);
  }
  requireKeys(table, input, name);
  return table;
}

async function describe(client: DynamoDBClient, name: string): Promise<TableDescription | undefined> {
  try {
    return (await client.send(new DescribeTableCommand({ TableName: name }))).Table;
  } catch (error) {
    if (error instanceof ResourceNotFoundException) return undefined;
    throw invalidTableName(error, [name]) ?? error;
  }
}

function requireKeys(table: TableDescription, input: CreateTableCommandInput, name: string): void {
  const keys = (of: Pick<TableDescription, 'KeySchema' | 'AttributeDefinitions'>) =>
    (of.KeySchema ?? [])
      .map((key) => {
        const attribute = of.AttributeDefinitions?.find((definition) => definition.AttributeName === key.AttributeName);
        return `${key.AttributeName} (${key.KeyType}, ${attribute?.AttributeType})`;
      })
      .join(', ');
  if (keys(table) === keys(input)) return;
  throw new UsageError(`table '${name}' has the keys ${keys(table)} instead of ${keys(input)}`, {
    advice: 'Give the mapping if this is a table of your application, or choose another table name',
  });
}

function requireStream(table: TableDescription, name: string): string {
  const view = table.StreamSpecification?.StreamViewType;
  if (table.LatestStreamArn !== undefined && (view === 'NEW_IMAGE' || view === 'NEW_AND_OLD_IMAGES')) {
    return table.LatestStreamArn;
  }
  throw new UsageError(`table '${name}' has ${view === undefined ? 'no stream' : `a stream of ${view}`}`, {
    advice: 'Enable its stream with the view type NEW_IMAGE',
  });
}

async function ensureTimeToLive(client: DynamoDBClient, name: string): Promise<void> {
  if (await expires(client, name)) return;
  try {
    await client.send(
      new UpdateTimeToLiveCommand({
        TableName: name,
        TimeToLiveSpecification: { Enabled: true, AttributeName: TTL_ATTRIBUTE },
      }),
    );
  } catch (error) {
    // AWS reports an error if another process has just enabled TTL, so only the outcome counts.
    if (!(await expires(client, name))) throw error;
  }
}

async function expires(client: DynamoDBClient, name: string): Promise<boolean> {
  const { TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName: name }));
  const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
  return on && ttl.AttributeName === TTL_ATTRIBUTE;
}
