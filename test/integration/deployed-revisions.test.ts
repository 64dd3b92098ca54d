import {
  type AttributeValue,
  BatchWriteItemCommand,
  DeleteItemCommand,
  DescribeTableCommand,
  PutItemCommand,
  UpdateTableCommand,
} from '@aws-sdk/client-dynamodb';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { revisionLog, type SourceTable } from '../../src/revisions/source-table.ts';
import { loadState } from '../../src/snapshot/load.ts';
import type { ItemRevision } from '../../src/state/items/edit.ts';
import { itemKey } from '../../src/state/items/item-key.ts';
import { items, lastRevisions } from '../../src/state/items/reducer.ts';
import { DeployedWorld } from '../support/deployed/deployed-world.ts';
import type { Deployment, InvokeOptions } from '../support/deployed/deployment.ts';
import { notAllowed, useOfRights } from '../support/deployed/used-rights.ts';
import { createItemTable } from '../support/stores/item-table.ts';

type Row = Record<string, AttributeValue>;

const TABLE = 'customers';
const SOURCE: SourceTable = { table: TABLE, keyNames: ['pk', 'sk'], per: 'item' };
/** Items that are older than the stream. Their logs take the place of all other open documents. */
const OLD = 110;

/** The size of the bundle, and about 1 % more; see `deployed.test.ts`. */
const MAX_BYTES = 1_078_000;
/** The function needs these rights only if the newest segment of a log, or its end, is in doubt. */
const RARE = [1, 2].map((n) => `RevisionsFunction: dynamodb:GetItem (GetItems ${n})`);

describe('a stack that records the revisions of a plain table', () => {
  let world: DeployedWorld;
  let deployment: Deployment;
  let streamArn = '';

  beforeAll(async () => {
    world = await DeployedWorld.start(async ({ client }) => {
      await createItemTable(client, TABLE);
      const puts = Array.from({ length: OLD }, (_, i) => ({ PutRequest: { Item: row(`old ${i}`, { n: String(i) }) } }));
      for (let i = 0; i < OLD; i += 25) {
        await client.send(new BatchWriteItemCommand({ RequestItems: { [TABLE]: puts.slice(i, i + 25) } }));
      }
      const StreamSpecification = { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' } as const;
      await client.send(new UpdateTableCommand({ TableName: TABLE, StreamSpecification }));
      const { Table } = await client.send(new DescribeTableCommand({ TableName: TABLE }));
      streamArn = Table?.LatestStreamArn ?? '';
      return {
        RevisionsStreamArn: streamArn,
        RevisionsActor: 'by',
        SnapshotEveryEntries: '10',
        SegmentEveryEntries: '20',
      };
    });
    deployment = world.deployment;
  });

  afterAll(() => world.stop());

  async function put(Item: Row): Promise<void> {
    await deployment.aws.dynamodb.send(new PutItemCommand({ TableName: TABLE, Item }));
  }

  async function remove(name: string): Promise<void> {
    await deployment.aws.dynamodb.send(new DeleteItemCommand({ TableName: TABLE, Key: keyOf(name) }));
  }

  /** The newest revision of an item. */
  async function newest(name: string): Promise<ItemRevision | undefined> {
    const log = revisionLog(nativePlatform, SOURCE, keyOf(name));
    const { draft } = await loadState({ ...world, platform: nativePlatform, reducer: items }, log);
    return (await lastRevisions(draft, itemKey(SOURCE, keyOf(name)))).last;
  }

  test('each change of an item becomes a revision, with the one who made it', async () => {
    await put(row('a', { n: '1', by: 'Ann' }));
    await put(row('a', { n: '2', by: 'Bob' }));
    await put(row('b', { n: '1' }));
    await remove('a');
    await deployment.deliverAll();
    expect(await newest('a')).toMatchObject({ revision: 3, change: 'Delete' });
    expect(await newest('a')).not.toHaveProperty('item');
    await put(row('a', { n: '3', by: 'Ann' }));
    await deployment.deliverAll();
    expect(await newest('a')).toMatchObject({ revision: 4, change: 'Put', actor: 'Ann', item: { n: { N: '3' } } });
    expect(await newest('b')).toMatchObject({ revision: 1, change: 'Put' });
    expect(deployment.discarded).toEqual([]);
  });

  test('an expiry differs from a deletion, and a malformed record fails alone', async () => {
    await put(row('c', { n: '1' }));
    await deployment.deliverAll();
    const { stream, sequence } = (await newest('c')) ?? {};
    expect(streamArn).toContain(`/stream/${stream}`);
    const record = (name: string, SequenceNumber: string, eventName: string, images: object) => ({
      ...{ eventID: SequenceNumber, eventName, eventSourceARN: streamArn },
      userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' },
      dynamodb: { ApproximateCreationDateTime: 4e9, SequenceNumber, Keys: keyOf(name), ...images },
    });
    const later = String(BigInt(sequence ?? '') + 1n);
    const Records = [record('d', '7', 'INSERT', {}), record('c', later, 'REMOVE', { OldImage: row('c', { n: '1' }) })];
    const failed = { batchItemFailures: [{ itemIdentifier: '7' }] };
    for (const _ of ['first', 'again']) {
      expect(await deployment.invoke('RevisionsFunction', { Records })).toEqual(failed);
      expect(await newest('c')).toMatchObject({ revision: 2, change: 'Expire', sequence: later });
    }
    await expect(newest('d')).rejects.toMatchObject({ code: 'LOG_NOT_FOUND' });
    const { log, metrics } = world.output();
    expect(log.filter(({ sequenceNumber }) => sequenceNumber === '7')).toHaveLength(2);
    const sumOf = (name: string) =>
      metrics.filter((each) => each.name === name).reduce((sum, { value }) => sum + value, 0);
    expect([sumOf('RevisionsRecorded'), sumOf('RecordsFailed'), sumOf('GapsFound')]).toEqual([7, 2, 0]);
  });

  test('the pipeline folds the logs of revisions, also with items as large as DynamoDB takes', async () => {
    for (let n = 0; n < 45; n++) await put(row('many', { n: String(n) }));
    await put(row('large', { text: 'x'.repeat(390_000) }));
    await deployment.deliverAll();
    const log = revisionLog(nativePlatform, SOURCE, keyOf('many'));
    expect(await world.status(log)).toMatchObject({ segments: 2, stopped: null });
    expect(await newest('many')).toMatchObject({ revision: 45, item: { n: { N: '44' } } });
    expect(await newest('large')).toMatchObject({ revision: 1, item: { text: { S: 'x'.repeat(390_000) } } });
    expect(await deployment.invoke('ReplayFunction', { log })).toMatchObject({ log, equal: true });
    expect(await deployment.messages('DeadSnapshotJobs')).toEqual([]);
    const Bucket = deployment.stack.ref('LostRecords');
    expect((await deployment.aws.s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(0);
  });

  test('a comparison records the items that are older than the stream, and then finds no more gaps', async () => {
    const compare = (options?: InvokeOptions) =>
      deployment.invoke('RevisionsFunction', { compare: true, settleSeconds: 0 }, options);
    // A comparison without time for the whole table notes where it stopped.
    expect(await compare({ remainingMs: 59_000 })).toMatchObject({ gaps: 0, complete: false });
    // The expiry in the test above was not one of the table, so its item still exists.
    expect(await compare()).toMatchObject({ gaps: OLD + 1, failed: 0, complete: true });
    expect(await newest('old 7')).toMatchObject({ revision: 1, change: 'Gap', item: { n: { N: '7' } } });
    expect(await newest('c')).toMatchObject({ revision: 3, change: 'Gap', item: { n: { N: '1' } } });
    expect(await compare()).toMatchObject({ gaps: 0, failed: 0, complete: true });
    await expect(deployment.invoke('RevisionsFunction', { compares: true })).rejects.toThrow(
      'the event of the revisions function is malformed',
    );
    // Its document was closed in the meantime, and its newest entry has its body in the bucket.
    await put(row('large', { text: 'small' }));
    await deployment.deliverAll();
    expect(await newest('large')).toMatchObject({ revision: 2, change: 'Put', item: { text: { S: 'small' } } });
    // The schedules start a sweep, and a comparison that would wait for differences.
    await world.sweepAfter(3600);
    expect(world.output().log.filter(({ message }) => message.startsWith('compared the plain table'))).toHaveLength(3);
  });

  test('the bundle of its function is small', () => {
    expect(deployment.bundles.get('RevisionsFunction')?.bytes).toBeLessThan(MAX_BYTES);
  });

  test('its roles allow all requests of its functions, and the one for revisions nothing else', () => {
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
    const use = [...useOfRights(deployment.functions, deployment.needed)];
    const unused = use.filter(([right, isUsed]) => !isUsed && right.startsWith('RevisionsFunction:'));
    expect(unused.map(([right]) => right)).toEqual(RARE);
  });
});

function keyOf(name: string): { pk: { S: string }; sk: { N: string } } {
  return { pk: { S: name }, sk: { N: '0' } };
}

/** An item with texts, of which `n` is a number. */
function row(name: string, { n, ...texts }: Readonly<Record<string, string>>): Row & StoredItem {
  const attributes = Object.entries(texts).map(([key, text]) => [key, { S: text }] as const);
  return { ...keyOf(name), ...(n !== undefined && { n: { N: n } }), ...Object.fromEntries(attributes) };
}
