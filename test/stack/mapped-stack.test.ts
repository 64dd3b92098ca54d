import {
  type AttributeValue,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  paginateScan,
} from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmulatedStack, eventually } from '../support/deployed/stack-deployment.ts';
import { ORDERS_DOCUMENT } from '../support/orders.ts';
import { createItemTable } from '../support/stores/item-table.ts';

type DynamoDbItem = Record<string, AttributeValue>;

const TABLE = 'orders';

describe("the stack that `sam deploy` creates beside an application's table", () => {
  let stack: EmulatedStack;
  let dynamodb: DynamoDBClient;
  const written: DynamoDbItem[] = [];

  beforeAll(async () => {
    stack = await EmulatedStack.start();
    ({ dynamodb } = stack);
    const stream = await createItemTable(dynamodb, TABLE, { stream: 'KEYS_ONLY' });
    await stack.deploy({
      EntryTableName: TABLE,
      EntryTableStreamArn: stream,
      Mapping: JSON.stringify(ORDERS_DOCUMENT),
      StreamFilter: JSON.stringify({
        eventName: ['INSERT'],
        dynamodb: { Keys: { pk: { S: [{ prefix: 'order#2026/' }] } } },
      }),
      AdoptSchedule: 'rate(1 day)',
      Expire: 'never',
      SnapshotEveryEntries: '10',
      SegmentEveryEntries: '20',
      BatchingWindow: '1',
      Monitoring: 'false',
    });
  });

  afterAll(async () => {
    await stack.stop();
  });

  test('it has only the tables that logfold writes', async () => {
    const tables = [...(await stack.resources()).values()].filter(({ type }) => type === 'AWS::DynamoDB::Table');
    expect(tables.map(({ physicalId }) => physicalId)).toEqual([stack.output('SegmentTableName')]);
  });

  test("it builds snapshots of the items that the application's own writer appends, and changes none", async () => {
    stack.tellOnFailure();
    const log = '2026/eu/17';
    await appendItems(log, { from: 0, to: 35 });
    // The segment of items 20 to 39. Its Snapshot entry 11 follows the item with the index 29.
    await eventually(async () => (await segment(log, 1))?.L?.N === '11');
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({
      ...{ log, equal: true },
      position: { segment: 1, entry: 11 },
    });
    expect(await allItems()).toEqual(written.map(nameOf).sort());
  });

  test('its scan registers a log that the filter of the stream leaves out, and its sweep has it folded', async () => {
    stack.tellOnFailure();
    const log = 'an order without a stream record';
    await appendItems(log, { from: 0, to: 25 });
    await expect(stack.invoke('ReplayFunctionName', { log })).rejects.toThrow('is not registered');
    const adopted = { logs: 2, registered: 1, unfit: 0, failed: 0, complete: true };
    expect(await stack.invoke('SweepFunctionName', { adopt: true })).toMatchObject(adopted);
    await stack.invoke('SweepFunctionName', {});
    await eventually(async () => (await segment(log, 1))?.L !== undefined);
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({ log, equal: true });
    expect(await allItems()).toEqual(written.map(nameOf).sort());
  });

  async function appendItems(log: string, { from, to }: { readonly from: number; readonly to: number }): Promise<void> {
    for (let index = from; index < to; index++) {
      const item: DynamoDbItem = {
        pk: { S: `order#${log}` },
        sk: { N: String(index) },
        type: { S: 'Set' },
        ts: { S: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString() },
        payload: { L: [{ L: [{ N: String(index) }, { N: '0' }, { S: `item ${index}` }] }] },
      };
      await dynamodb.send(new PutItemCommand({ TableName: TABLE, Item: item }));
      written.push(item);
    }
  }

  async function allItems(): Promise<string[]> {
    const pages = await Array.fromAsync(paginateScan({ client: dynamodb }, { TableName: TABLE }));
    return pages.flatMap(({ Items = [] }) => Items.map(nameOf)).sort();
  }

  /** The item of a segment in the Segment table. */
  async function segment(log: string, number: number): Promise<DynamoDbItem | undefined> {
    const Key = { S: { B: logId(log) }, N: { N: String(number) } };
    const command = new GetItemCommand({ TableName: stack.output('SegmentTableName'), Key, ConsistentRead: true });
    return (await dynamodb.send(command)).Item;
  }
});

/** An item as text: equal texts are equal items. */
function nameOf(item: DynamoDbItem): string {
  return JSON.stringify(Object.entries(item).sort(([a], [b]) => a.localeCompare(b)));
}

/** The key of a log whose id is not a UUID. */
function logId(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  return Buffer.concat([bytes, Buffer.alloc(Math.max(1, 21 - bytes.length), 0xff)]);
}
