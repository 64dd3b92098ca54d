import {
  DescribeTableCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { partitionsToRead } from '../../inspection/proposal.ts';
import type { KeyAttribute, TableKeys, TableSample } from '../../inspection/table-sample.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { translateDynamoDbError } from '../aws/dynamodb-error.ts';
import { DynamoDbRequests } from './requests.ts';
import { readTtlAttribute } from './table-settings.ts';

/** How much of a table is read. */
export interface SampleLimits {
  /** Items from all over the table. */
  readonly items: number;
  /** Partitions that are read from their first item on, each with at most {@link items} items. */
  readonly partitions: number;
}

export interface SampleTask extends SampleLimits {
  /** Resolves when the caller may send the next request, after one that cost these units. */
  readonly spend: (readUnits: number) => Promise<void>;
  readonly onItems?: (items: number) => void;
}

/** A table as DynamoDB describes it. */
export interface DescribedTable {
  readonly keys: TableKeys;
  /** Undefined if TTL is off. */
  readonly ttl: string | undefined;
  /** DynamoDB counts the items about every six hours. */
  readonly approximateItems: number;
  /** View type of the stream, such as `NEW_IMAGE`; undefined if the table has no stream. */
  readonly stream: string | undefined;
}

/** Parts of the scan, which lie far apart in the table. */
const PARTS = 8;

/**
 * Describes a table.
 * @throws ResourceMissingError if the table does not exist
 */
export async function describeTable(client: DynamoDBClient, table: string): Promise<DescribedTable> {
  const described = await client.send(new DescribeTableCommand({ TableName: table })).catch((error: unknown) => {
    throw translateDynamoDbError(error, [table]);
  });
  const { KeySchema = [], ItemCount, StreamSpecification, ...rest } = described.Table ?? {};
  const keys = KeySchema.map((key) => keyAttribute(key, rest));
  const [partition = { name: '', type: 'S' }, sort] = keys;
  return {
    keys: { partition, sort },
    ttl: await readTtlAttribute(client, table),
    approximateItems: ItemCount ?? 0,
    stream: StreamSpecification?.StreamEnabled === true ? StreamSpecification.StreamViewType : undefined,
  };
}

/**
 * Reads items from all over a table, then a few partitions from their first item on. Reads are
 * eventually consistent, which costs half, and nothing is written.
 */
export async function readTableSample(
  client: DynamoDBClient,
  table: string,
  { keys, ttl }: DescribedTable,
  task: SampleTask,
): Promise<TableSample> {
  let units = 0;
  const requests = new DynamoDbRequests({
    client,
    meter: (_, { readUnits }) => {
      units = readUnits;
    },
  });
  let read = 0;
  const count = async (items: number): Promise<void> => {
    read += items;
    task.onItems?.(read);
    await task.spend(units);
  };
  const Limit = Math.ceil(task.items / PARTS);
  let parts = Array.from({ length: PARTS }, (_, Segment) =>
    requests.scanPages({ TableName: table, Segment, TotalSegments: PARTS, Limit }),
  );
  const scanned: StoredItem[] = [];
  // One page of each part, until there are enough items. Small tables are read as a whole.
  while (parts.length > 0 && scanned.length < task.items) {
    const left = [];
    for (const part of parts) {
      const page = await part.next();
      if (page.done === true) continue;
      scanned.push(...page.value);
      await count(page.value.length);
      left.push(part);
    }
    parts = left;
  }
  const partitions: StoredItem[][] = [];
  const { name } = keys.partition;
  for (const item of partitionsToRead({ keys, scanned }, task.partitions)) {
    const pages = requests.queryPages({
      TableName: table,
      KeyConditionExpression: '#p = :p',
      ExpressionAttributeNames: { '#p': name },
      ExpressionAttributeValues: { ':p': writable(item[name]) },
      Limit: task.items,
    });
    const items: StoredItem[] = [];
    for await (const page of pages) {
      items.push(...page);
      await count(page.length);
      if (items.length >= task.items) break;
    }
    partitions.push(items);
  }
  return { keys, ttl, scanned, partitions };
}

function keyAttribute({ AttributeName: name = '' }: KeySchemaElement, table: TableDescription): KeyAttribute {
  const type = table.AttributeDefinitions?.find(({ AttributeName }) => AttributeName === name)?.AttributeType;
  return { name, type: type ?? 'S' };
}

/** A key attribute as requests take it. */
function writable(key: StoredItem[string]): { S: string } | { N: string } | { B: Uint8Array } {
  if (key?.B !== undefined) return { B: key.B };
  return key?.N === undefined ? { S: key?.S ?? '' } : { N: key.N };
}
