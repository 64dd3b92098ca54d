import {
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { UsageError } from '../../errors.ts';
import type { KeyAttribute, TableKeys } from '../../inspection/table-sample.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import type { SourceTable } from '../../revisions/source-table.ts';
import { translateDynamoDbError } from '../aws/dynamodb-error.ts';

/**
 * Write units per second that a new on-demand table accepts immediately. Source: Amazon DynamoDB
 * Developer Guide, "DynamoDB on-demand capacity mode", initial throughput.
 */
const ON_DEMAND_WRITE_UNITS = 4_000;

/**
 * The write units per second that a table accepts: its provisioned throughput, its configured
 * limit, or the initial throughput of an on-demand table.
 * @throws ResourceMissingError if the table does not exist
 */
export async function readWriteCapacity(client: DynamoDBClient, table: string): Promise<number> {
  try {
    const { Table } = await client.send(new DescribeTableCommand({ TableName: table }));
    const provisioned = Table?.ProvisionedThroughput?.WriteCapacityUnits ?? 0;
    const limited = Table?.OnDemandThroughput?.MaxWriteRequestUnits ?? -1;
    if (Table?.BillingModeSummary?.BillingMode !== 'PAY_PER_REQUEST' && provisioned > 0) return provisioned;
    return limited > 0 ? limited : ON_DEMAND_WRITE_UNITS;
  } catch (error) {
    throw translateDynamoDbError(error, [table]);
  }
}

/**
 * The TTL attribute of a table; undefined if TTL is off.
 * @throws ResourceMissingError if the table does not exist
 */
export async function readTtlAttribute(client: DynamoDBClient, table: string): Promise<string | undefined> {
  try {
    const { TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName: table }));
    const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
    return on ? ttl.AttributeName : undefined;
  } catch (error) {
    throw translateDynamoDbError(error, [table]);
  }
}

/** A table as DynamoDB describes it. */
export interface DescribedTable {
  readonly keys: TableKeys;
  /** DynamoDB counts the items about every six hours. */
  readonly approximateItems: number;
  /** View type of the stream, such as `NEW_IMAGE`; undefined if the table has no stream. */
  readonly stream: string | undefined;
}

/**
 * Describes a table.
 * @throws ResourceMissingError if the table does not exist
 */
export async function describeTable(client: DynamoDBClient, table: string): Promise<DescribedTable> {
  return toDescribed(await describe(client, table));
}

/** A plain table, as a source of revisions. */
export interface DescribedSource extends Pick<DescribedTable, 'stream'> {
  readonly keyNames: SourceTable['keyNames'];
  /** Undefined if the table never had a stream. */
  readonly streamArn: string | undefined;
}

/**
 * Describes a plain table.
 * @throws ResourceMissingError if the table does not exist
 */
export async function describeSource(client: DynamoDBClient, table: string): Promise<DescribedSource> {
  const description = await describe(client, table);
  const { keys, stream } = toDescribed(description);
  const { partition, sort } = keys;
  const keyNames = sort === undefined ? ([partition.name] as const) : ([partition.name, sort.name] as const);
  return { keyNames, stream, streamArn: description.LatestStreamArn };
}

async function describe(client: DynamoDBClient, table: string): Promise<TableDescription> {
  const answer = await client.send(new DescribeTableCommand({ TableName: table })).catch((error: unknown) => {
    throw translateDynamoDbError(error, [table]);
  });
  return answer.Table ?? {};
}

function toDescribed({ KeySchema = [], ItemCount, StreamSpecification, ...rest }: TableDescription): DescribedTable {
  const keys = KeySchema.map((key) => keyAttribute(key, rest));
  const [partition = { name: '', type: 'S' }, sort] = keys;
  return {
    keys: { partition, sort },
    approximateItems: ItemCount ?? 0,
    stream: StreamSpecification?.StreamEnabled === true ? StreamSpecification.StreamViewType : undefined,
  };
}

/**
 * Checks that a table has the keys that a mapping names.
 * @throws ResourceMissingError if the table does not exist
 * @throws UsageError if it has other keys
 */
export async function requireMappedKeys(client: DynamoDBClient, table: string, mapping: SchemaMapping): Promise<void> {
  const { partitionKey, sortKey } = mapping;
  const { keys } = await describeTable(client, table);
  const sort = { name: sortKey.name, type: sortKey.form === 'N' ? 'N' : 'S' } as const;
  const [has, needs] = [describeKeys(keys), describeKeys({ partition: partitionKey, sort })];
  if (has === needs) return;
  throw new UsageError(`table '${table}' has the keys ${has}, but the mapping names ${needs}`, {
    advice: `Name another table or another mapping: 'logfold inspect ${table}' proposes one`,
  });
}

const KEY_TYPES = { S: 'String', N: 'Number', B: 'Binary' } as const;

/** The keys of a table for people. */
export function describeKeys({ partition, sort }: TableKeys): string {
  const keys = [partition, ...(sort === undefined ? [] : [sort])];
  return keys.map(({ name, type }) => `${name} (${KEY_TYPES[type]})`).join(' and ');
}

function keyAttribute({ AttributeName: name = '' }: KeySchemaElement, table: TableDescription): KeyAttribute {
  const type = table.AttributeDefinitions?.find(({ AttributeName }) => AttributeName === name)?.AttributeType;
  return { name, type: type ?? 'S' };
}
