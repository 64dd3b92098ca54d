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

/** The attribute of the Entry table by which DynamoDB expires items. */
export const TTL_ATTRIBUTE = 'X';

/** How long a new table may take until it can be used, in milliseconds. */
const ACTIVE_WITHIN_MS = 60_000;
const ACTIVE_POLL_MS = 50;

export interface TableNames {
  readonly entryTable: string;
  readonly segmentTable: string;
}

/** The Entry table as the deployment creates it. Its TTL attribute is set in a request of its own. */
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
 * Creates what is missing of the two tables, the stream and the TTL setting, and waits until they can be used. Several
 * processes may do so at once.
 * @returns the ARN of the Entry table's stream
 * @throws UsageError where a table of that name exists with other keys, or the Entry table without a fitting stream
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
 * What {@link ensureTables} would have to create; creates nothing.
 * @returns names of the tables that do not exist
 * @throws UsageError where it would throw one
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
      // Somebody else was faster; theirs is checked below like any other.
      if (!(error instanceof ResourceInUseException)) throw error;
    }
  }
  const deadline = Date.now() + ACTIVE_WITHIN_MS;
  for (; table?.TableStatus !== 'ACTIVE'; table = await describe(client, name)) {
    if (table?.TableStatus === 'UPDATING') break;
    if (Date.now() > deadline) {
      throw new ResourceMissingError(
        `table '${name}' is ${table?.TableStatus ?? 'missing'} and does not become active`,
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
    advice: 'Choose another table name: this table belongs to something else',
  });
}

function requireStream(table: TableDescription, name: string): string {
  const view = table.StreamSpecification?.StreamViewType;
  if (table.LatestStreamArn !== undefined && (view === 'NEW_IMAGE' || view === 'NEW_AND_OLD_IMAGES')) {
    return table.LatestStreamArn;
  }
  throw new UsageError(`table '${name}' has ${view === undefined ? 'no stream' : `a stream of ${view}`}`, {
    advice: 'Switch on its stream with the view type NEW_IMAGE',
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
    // Switching on what another process has just switched on is an error on AWS, so only the outcome counts.
    if (!(await expires(client, name))) throw error;
  }
}

async function expires(client: DynamoDBClient, name: string): Promise<boolean> {
  const { TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName: name }));
  const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
  return on && ttl.AttributeName === TTL_ATTRIBUTE;
}
