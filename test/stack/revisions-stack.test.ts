import { setTimeout as sleep } from 'node:timers/promises';
import {
  CreateTableCommand,
  DeleteItemCommand,
  DynamoDBClient,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { revisionLog, type SourceTable } from '../../src/revisions/source-table.ts';
import {
  type AwsEmulator,
  EMULATOR_CREDENTIALS,
  EMULATOR_REGION,
  startAwsEmulator,
} from '../support/deployed/aws-emulator.ts';
import { deployStack } from '../support/deployed/stack-deployment.ts';

const TABLE = 'customers';
const SOURCE: SourceTable = { table: TABLE, keyNames: ['pk'], per: 'item' };

describe('the stack that `sam deploy` creates beside a plain table', () => {
  let emulator: AwsEmulator;
  let outputs: ReadonlyMap<string, string>;
  let dynamodb: DynamoDBClient;
  let lambda: LambdaClient;

  beforeAll(async () => {
    emulator = await startAwsEmulator(setting('LOGFOLD_EMULATOR'));
    const options = { endpoint: emulator.endpoint, region: EMULATOR_REGION, credentials: EMULATOR_CREDENTIALS };
    dynamodb = new DynamoDBClient(options);
    lambda = new LambdaClient(options);
    const { TableDescription: table } = await dynamodb.send(
      new CreateTableCommand({
        TableName: TABLE,
        BillingMode: 'PAY_PER_REQUEST',
        KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
        AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }],
        StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
      }),
    );
    outputs = await deployStack({
      emulator,
      sam: setting('LOGFOLD_SAM'),
      parameters: {
        RevisionsStreamArn: table?.LatestStreamArn ?? '',
        RevisionsActor: 'by',
        BatchingWindow: '0',
        Monitoring: 'false',
      },
    });
  });

  afterAll(async () => {
    for (const client of [dynamodb, lambda]) client.destroy();
    await emulator.stop();
  });

  test('each change becomes a revision in the log of its item, and a comparison finds nothing else', async () => {
    tellOnFailure();
    const keys = { pk: { S: 'a' } };
    for (const by of ['Ann', 'Bob']) {
      await dynamodb.send(new PutItemCommand({ TableName: TABLE, Item: { ...keys, by: { S: by } } }));
    }
    await dynamodb.send(new DeleteItemCommand({ TableName: TABLE, Key: keys }));
    const log = revisionLog(nativePlatform, SOURCE, keys);
    // The log has its first Snapshot entry and three revisions.
    await eventually(async () => (await count('EntryTableName')) === 4);
    // A replay needs a complete snapshot.
    await eventually(async () => (await count('SegmentTableName', 'attribute_exists(L)')) === 1);
    expect(await invoke('ReplayFunctionName', { log })).toMatchObject({ equal: true });
    const event = { compare: true, settleSeconds: 0 };
    const compared = await invoke('RevisionsFunctionName', event);
    expect(compared).toMatchObject({ gaps: 0, failed: 0, complete: true });
  });

  /** Counts the items of a table that meet a condition. */
  async function count(table: string, FilterExpression?: string): Promise<number | undefined> {
    const command = new ScanCommand({ TableName: outputs.get(table), Select: 'COUNT', FilterExpression });
    return (await dynamodb.send(command)).Count;
  }

  /** Invokes a function. @throws Error with the error of the function */
  async function invoke(name: string, event: unknown): Promise<unknown> {
    const command = new InvokeCommand({ FunctionName: outputs.get(name), Payload: JSON.stringify(event) });
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

/** Polls until a condition is true. The test's own timeout ends the wait. */
async function eventually(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(250);
}
