import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AttributeValue,
  CreateTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  paginateScan,
} from '@aws-sdk/client-dynamodb';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import {
  type AwsEmulator,
  EMULATOR_CREDENTIALS,
  EMULATOR_REGION,
  startAwsEmulator,
} from '../support/deployed/aws-emulator.ts';
import { deployStack, stackResources } from '../support/deployed/stack-deployment.ts';

type DynamoDbItem = Record<string, AttributeValue>;

const TABLE = 'orders';
const MAPPING = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
};

describe("the stack that `sam deploy` creates beside an application's table", () => {
  let emulator: AwsEmulator;
  let outputs: ReadonlyMap<string, string>;
  let dynamodb: DynamoDBClient;
  let lambda: LambdaClient;
  const written: DynamoDbItem[] = [];

  beforeAll(async () => {
    emulator = await startAwsEmulator(setting('LOGFOLD_EMULATOR'));
    const options = { endpoint: emulator.endpoint, region: EMULATOR_REGION, credentials: EMULATOR_CREDENTIALS };
    dynamodb = new DynamoDBClient(options);
    lambda = new LambdaClient(options);
    const { TableDescription: table } = await dynamodb.send(
      new CreateTableCommand({
        TableName: TABLE,
        BillingMode: 'PAY_PER_REQUEST',
        KeySchema: [
          { AttributeName: 'pk', KeyType: 'HASH' },
          { AttributeName: 'sk', KeyType: 'RANGE' },
        ],
        AttributeDefinitions: [
          { AttributeName: 'pk', AttributeType: 'S' },
          { AttributeName: 'sk', AttributeType: 'N' },
        ],
        StreamSpecification: { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' },
      }),
    );
    outputs = await deployStack({
      emulator,
      sam: setting('LOGFOLD_SAM'),
      parameters: {
        EntryTableName: TABLE,
        EntryTableStreamArn: table?.LatestStreamArn ?? '',
        Mapping: JSON.stringify(MAPPING),
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
      },
    });
  });

  afterAll(async () => {
    for (const client of [dynamodb, lambda]) client.destroy();
    await emulator.stop();
  });

  test('it has only the tables that logfold writes', async () => {
    const tables = [...(await stackResources(emulator)).values()].filter(({ type }) => type === 'AWS::DynamoDB::Table');
    expect(tables.map(({ physicalId }) => physicalId)).toEqual([output('SegmentTableName')]);
  });

  test("it builds snapshots of the items that the application's own writer appends, and changes none", async () => {
    tellOnFailure();
    const log = '2026/eu/17';
    await appendItems(log, { from: 0, to: 35 });
    // The segment of items 20 to 39. Its Snapshot entry 11 follows the item with the index 29.
    await eventually(async () => (await segment(log, 1))?.L?.N === '11');
    expect(await invoke('ReplayFunctionName', { log })).toMatchObject({
      ...{ log, equal: true },
      position: { segment: 1, entry: 11 },
    });
    expect(await allItems()).toEqual(written.map(nameOf).sort());
  });

  test('its scan registers a log that the filter of the stream leaves out, and its sweep has it folded', async () => {
    tellOnFailure();
    const log = 'an order without a stream record';
    await appendItems(log, { from: 0, to: 25 });
    await expect(invoke('ReplayFunctionName', { log })).rejects.toThrow('is not registered');
    const adopted = { logs: 2, registered: 1, unfit: 0, failed: 0, complete: true };
    expect(await invoke('SweepFunctionName', { adopt: true })).toMatchObject(adopted);
    await invoke('SweepFunctionName', {});
    await eventually(async () => (await segment(log, 1))?.L !== undefined);
    expect(await invoke('ReplayFunctionName', { log })).toMatchObject({ log, equal: true });
    expect(await allItems()).toEqual(written.map(nameOf).sort());
  });

  function output(name: string): string {
    const value = outputs.get(name);
    if (value === undefined) throw new Error(`the stack has no output ${name}`);
    return value;
  }

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
    const command = new GetItemCommand({ TableName: output('SegmentTableName'), Key, ConsistentRead: true });
    return (await dynamodb.send(command)).Item;
  }

  /** Invokes a function. @throws Error with the error of the function */
  async function invoke(name: string, event: unknown): Promise<unknown> {
    const command = new InvokeCommand({ FunctionName: output(name), Payload: JSON.stringify(event) });
    const { Payload, FunctionError } = await lambda.send(command);
    const text = Payload?.transformToString() ?? '';
    if (FunctionError !== undefined) throw new Error(text);
    return JSON.parse(text);
  }

  function tellOnFailure(): void {
    onTestFailed(async () => console.log(await emulator.log()));
  }
});

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set. Run this test as .ci/run does`);
  return value;
}

/** An item as text: equal texts are equal items. */
function nameOf(item: DynamoDbItem): string {
  return JSON.stringify(Object.entries(item).sort(([a], [b]) => a.localeCompare(b)));
}

/** The key of a log whose id is not a UUID. */
function logId(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  return Buffer.concat([bytes, Buffer.alloc(Math.max(1, 21 - bytes.length), 0xff)]);
}

/** Polls until a condition is true. The test's own timeout ends the wait. */
async function eventually(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(250);
}
