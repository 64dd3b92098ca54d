import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { StoredItem } from '../../log/attribute.ts';
import { storedItems } from '../../log/item-json.ts';
import { partitionsToRead } from '../../proposal/proposal.ts';
import type { TableSample } from '../../proposal/table-sample.ts';
import { DynamoDbRequests } from './requests.ts';
import type { DescribedTable } from './table-settings.ts';

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

/** Parts of the scan, which lie far apart in the table. */
const PARTS = 8;

/**
 * Reads items from all over a table, then a few partitions from their first item on. Reads are
 * eventually consistent, which costs half, and nothing is written.
 */
export async function readTableSample(
  client: DynamoDBClient,
  table: string,
  { keys, ttl }: Pick<DescribedTable, 'keys'> & Pick<TableSample, 'ttl'>,
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
    requests.scanPages({ TableName: table, Segment, TotalSegments: PARTS, Limit }, storedItems),
  );
  const scanned: StoredItem[] = [];
  // One page of each part, until there are enough items. Small tables are read as a whole.
  while (parts.length > 0 && scanned.length < task.items) {
    const left = [];
    for (const part of parts) {
      const page = await part.next();
      if (page.done === true) continue;
      scanned.push(...page.value.items);
      await count(page.value.items.length);
      left.push(part);
    }
    parts = left;
  }
  const partitions: StoredItem[][] = [];
  const { name } = keys.partition;
  for (const item of partitionsToRead({ keys, scanned }, task.partitions)) {
    const input = {
      TableName: table,
      KeyConditionExpression: '#p = :p',
      ExpressionAttributeNames: { '#p': name },
      ExpressionAttributeValues: { ':p': writable(item[name]) },
      Limit: task.items,
    };
    const items: StoredItem[] = [];
    for await (const page of requests.queryPages(input, storedItems)) {
      items.push(...page.items);
      await count(page.items.length);
      if (items.length >= task.items) break;
    }
    partitions.push(items);
  }
  return { keys, ttl, scanned, partitions };
}

/** A key attribute as requests take it. */
function writable(key: StoredItem[string]): { S: string } | { N: string } | { B: Uint8Array } {
  if (key?.B !== undefined) return { B: key.B };
  return key?.N === undefined ? { S: key?.S ?? '' } : { N: key.N };
}
