import { DeleteItemCommand, type DynamoDBClient, PutItemCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { revisionLog, type SourceTable } from '../../src/revisions/source-table.ts';
import { EmulatedStack, eventually } from '../support/deployed/stack-deployment.ts';
import { createItemTable } from '../support/stores/item-table.ts';

const TABLE = 'customers';
const SOURCE: SourceTable = { table: TABLE, keyNames: ['pk'], per: 'item' };

describe('the stack that `sam deploy` creates beside a plain table', () => {
  let stack: EmulatedStack;
  let dynamodb: DynamoDBClient;

  beforeAll(async () => {
    stack = await EmulatedStack.start();
    ({ dynamodb } = stack);
    const stream = await createItemTable(dynamodb, TABLE, { keys: { pk: 'S' }, stream: 'NEW_AND_OLD_IMAGES' });
    await stack.deploy({
      RevisionsStreamArn: stream,
      RevisionsActor: 'by',
      BatchingWindow: '0',
      Monitoring: 'false',
    });
  });

  afterAll(async () => {
    await stack.stop();
  });

  test('each change becomes a revision in the log of its item, and a comparison finds nothing else', async () => {
    stack.tellOnFailure();
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
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({ equal: true });
    const event = { compare: true, settleSeconds: 0 };
    const compared = await stack.invoke('RevisionsFunctionName', event);
    expect(compared).toMatchObject({ gaps: 0, failed: 0, complete: true });
  });

  /** Counts the items of a table that meet a condition. */
  async function count(table: string, FilterExpression?: string): Promise<number | undefined> {
    const command = new ScanCommand({ TableName: stack.output(table), Select: 'COUNT', FilterExpression });
    return (await dynamodb.send(command)).Count;
  }
});
