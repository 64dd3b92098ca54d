import {
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { UsageError } from '../../errors.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import type { KeyAttribute, TableKeys } from '../../proposal/table-sample.ts';
import type { SourceTable } from '../../revisions/source-table.ts';
import { translateDynamoDbError } from '../aws/dynamodb-error.ts';

/**
 * Write units per second that a new on-demand table accepts immediately. Source: Amazon DynamoDB
 * Developer Guide, "DynamoDB on-demand capacity mode", initial throughput.
 */
const ON_DEMAND_WRITE_UNITS = 4_000;

/** The keys of the Entry table, the Segment table and the table of the feed. */
export const OWN_KEYS: TableKeys = { partition: { name: 'S', type: 'B' }, sort: { name: 'N', type: 'N' } };
/** The TTL attribute of these tables. */
export const OWN_TTL_ATTRIBUTE = 'X';

/** A table as DynamoDB describes it. */
export interface DescribedTable {
  readonly keys: TableKeys;
  readonly keyNames: SourceTable['keyNames'];
  /** Such as `ACTIVE`. */
  readonly status: string | undefined;
  /** DynamoDB counts the items about every six hours. */
  readonly approximateItems: number;
  /** View type of the stream, such as `NEW_IMAGE`; undefined if the stream is off. */
  readonly stream: string | undefined;
  /** ARN of the newest stream, which may be off; undefined if the table never had one. */
  readonly streamArn: string | undefined;
  /**
   * The write units per second that the table accepts: its provisioned throughput, its configured
   * limit, or the initial throughput of an on-demand table.
   */
  readonly writeCapacity: number;
}

/** Ends a request early. */
export interface RequestLimit {
  readonly abortSignal?: AbortSignal;
}

/**
 * Describes a table, in one request.
 * @throws ResourceMissingError if the table does not exist, with a ResourceNotFoundException
 */
export async function describeTable(
  client: DynamoDBClient,
  table: string,
  limit: RequestLimit = {},
): Promise<DescribedTable> {
  const answer = await client.send(new DescribeTableCommand({ TableName: table }), limit).catch((error: unknown) => {
    throw translateDynamoDbError(error, [table]);
  });
  const { KeySchema = [], AttributeDefinitions = [], StreamSpecification, ...described } = answer.Table ?? {};
  const [partition = { name: '', type: 'S' }, sort] = KeySchema.map(({ AttributeName: name = '' }): KeyAttribute => {
    const type = AttributeDefinitions.find(({ AttributeName }) => AttributeName === name)?.AttributeType;
    return { name, type: type ?? 'S' };
  });
  return {
    keys: { partition, sort },
    keyNames: sort === undefined ? [partition.name] : [partition.name, sort.name],
    status: described.TableStatus,
    approximateItems: described.ItemCount ?? 0,
    stream: StreamSpecification?.StreamEnabled === true ? StreamSpecification.StreamViewType : undefined,
    streamArn: described.LatestStreamArn,
    writeCapacity: writeCapacity(described),
  };
}

function writeCapacity({ ProvisionedThroughput, OnDemandThroughput, BillingModeSummary }: TableDescription): number {
  const provisioned = ProvisionedThroughput?.WriteCapacityUnits ?? 0;
  const limited = OnDemandThroughput?.MaxWriteRequestUnits ?? -1;
  if (BillingModeSummary?.BillingMode !== 'PAY_PER_REQUEST' && provisioned > 0) return provisioned;
  return limited > 0 ? limited : ON_DEMAND_WRITE_UNITS;
}

/**
 * The TTL attribute of a table; undefined if TTL is off.
 * @throws ResourceMissingError if the table does not exist
 */
export async function readTtlAttribute(
  client: DynamoDBClient,
  table: string,
  limit: RequestLimit = {},
): Promise<string | undefined> {
  const command = new DescribeTimeToLiveCommand({ TableName: table });
  const { TimeToLiveDescription: ttl } = await client.send(command, limit).catch((error: unknown) => {
    throw translateDynamoDbError(error, [table]);
  });
  const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
  return on ? ttl.AttributeName : undefined;
}

/** The keys that a mapping names. */
export function mappedKeys({ partitionKey, sortKey }: SchemaMapping): TableKeys {
  const { name, type } = partitionKey;
  return { partition: { name, type }, sort: { name: sortKey.name, type: sortKey.form === 'N' ? 'N' : 'S' } };
}

/**
 * Checks that a table has the keys that a mapping names.
 * @throws ResourceMissingError if the table does not exist
 * @throws UsageError if it has other keys
 */
export async function requireMappedKeys(client: DynamoDBClient, table: string, mapping: SchemaMapping): Promise<void> {
  const { keys } = await describeTable(client, table);
  const [has, needs] = [keys, mappedKeys(mapping)].map(describeKeys);
  if (has === needs) return;
  throw new UsageError(`table '${table}' has the keys ${has}, but the mapping names ${needs}`, {
    advice: `Name another table or another mapping: 'logfold inspect ${table}' proposes one`,
  });
}

const KEY_TYPES = { S: 'String', N: 'Number', B: 'Binary' } as const;

/** The keys of a table for people. Different keys have different text. */
export function describeKeys({ partition, sort }: TableKeys): string {
  const keys = [partition, ...(sort === undefined ? [] : [sort])];
  return keys.map(({ name, type }) => `${name} (${KEY_TYPES[type]})`).join(' and ');
}
