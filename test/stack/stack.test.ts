import { randomUUID } from 'node:crypto';
import {
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  paginateQuery,
  TransactWriteItemsCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import { SNSClient, SubscribeCommand } from '@aws-sdk/client-sns';
import {
  CreateQueueCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { FeedItem } from '../../src/client/feed.ts';
import { openLogs } from '../../src/exports/aws.ts';
import { EmulatedStack, eventually } from '../support/deployed/stack-deployment.ts';

type Fields = Record<string, unknown>;

const QUEUES = ['SnapshotJobsUrl', 'MaintenanceJobsUrl', 'DeadSnapshotJobsUrl', 'DeadMaintenanceJobsUrl'];
/** Old segments expire as early as possible, sweeps run often, and there is a feed with a topic. */
const PARAMETERS = {
  KeepSegments: '1',
  KeepDays: '0',
  Expire: 'ttl',
  GraceSeconds: '3600',
  SweepSchedule: 'rate(1 minute)',
  Feed: 'topic',
};
/** A message of the feed's topic. */
const announcement = z.strictObject({ checkpoint: z.number() });

describe('the stack that `sam deploy` creates, written with only the AWS SDK', () => {
  let stack: EmulatedStack;
  let dynamodb: DynamoDBClient;
  let s3: S3Client;
  let sqs: SQSClient;
  let sns: SNSClient;

  beforeAll(async () => {
    stack = await EmulatedStack.start();
    ({ dynamodb } = stack);
    s3 = new S3Client({ ...stack.client, forcePathStyle: true });
    sqs = new SQSClient(stack.client);
    sns = new SNSClient(stack.client);
    await stack.deploy(PARAMETERS);
    // The emulator ignores the TTL of a table that CloudFormation creates.
    await dynamodb.send(
      new UpdateTimeToLiveCommand({
        TableName: stack.output('EntryTableName'),
        TimeToLiveSpecification: { Enabled: true, AttributeName: 'X' },
      }),
    );
  });

  afterAll(async () => {
    for (const client of [s3, sqs, sns]) client.destroy();
    await stack.stop();
  });

  test('it builds snapshots of new entries, each from the previous snapshot', async () => {
    stack.tellOnFailure();
    const log = randomUUID();
    await createLog(log);
    await appendRows(log, { from: 1, to: 60 });
    await putEntry(log, 0, { N: 61, T: 'Snapshot' });
    expect(await lastSnapshot(log, 0, 61)).not.toHaveProperty('A');
    // The root is small, so the entry carries it. Its chunks are in the bucket.
    expect(await getItem('EntryTableName', { S: segmentId(log, 0), N: 61 })).toHaveProperty('B');
    expect((await objects(`logs/${log}/chunks/`)).length).toBeGreaterThan(1);
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({ log, equal: true, entries: 61 });
    await appendRows(log, { from: 62, to: 70 });
    await putEntry(log, 0, { N: 71, T: 'Snapshot' });
    await lastSnapshot(log, 0, 71);
    const position = { segment: 0, entry: 71 };
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({ equal: true, entries: 71, position });
  });

  test('it archives and expires an old segment by schedule, and replays from the archive', async () => {
    stack.tellOnFailure();
    const log = randomUUID();
    await createLog(log);
    await appendRows(log, { from: 1, to: 40 });
    await putEntry(log, 0, { N: 41, T: 'Snapshot' });
    await lastSnapshot(log, 0, 41);
    await startSegment(log, { segment: 0, entry: 42 });
    await lastSnapshot(log, 1, 0);
    const before = await stack.invoke('ReplayFunctionName', { log });
    expect(before).toMatchObject({ equal: true, entries: 43, position: { segment: 1, entry: 0 } });

    // The schedule invokes the first sweep.
    const { A: archive } = await segmentWith(log, 0, ({ A }) => A !== undefined);
    expect(await objects(`logs/${log}/archives/`)).toEqual([archive]);
    expect(await stack.invoke('SweepFunctionName', { log })).toMatchObject({ logs: 1, failed: 0 });
    const { G: gone, D: done } = await segmentWith(log, 0, ({ D }) => D !== undefined);
    expect(done).toBe(43);
    const entries = await entriesOf(log, 0);
    expect(entries.map(({ N }) => N)).toEqual(Array.from({ length: 43 }, (_, n) => n));
    expect(entries.filter(({ X }) => typeof X !== 'number' || X < Number(gone))).toEqual([]);

    // DynamoDB deletes the entries after their TTL.
    for (const { S, N } of entries) await deleteEntry({ S, N });
    expect(await entriesOf(log, 0)).toEqual([]);
    expect(await stack.invoke('ReplayFunctionName', { log })).toEqual(before);
  });

  test('it feeds every entry of every log, and tells the topic where the feed ends', async () => {
    stack.tellOnFailure();
    const QueueUrl = await subscribedQueue();
    const log = randomUUID();
    await createLog(log);
    await appendRows(log, { from: 1, to: 5 });
    const [entryTable, segmentTable] = [stack.output('EntryTableName'), stack.output('SegmentTableName')];
    const [feedTable, bucket] = [stack.output('FeedTableName'), stack.output('BucketName')];
    const logs = openLogs({ entryTable, segmentTable, feedTable, bucket, dynamodb, s3 });
    let items: FeedItem[] = [];
    await eventually(async () => {
      items = await Array.fromAsync(logs.feed.read());
      return items.filter((item) => item.log === log).length === 6;
    });
    // The stream has one shard here, so the logs of earlier tests are fed too. One is archived.
    const fed = Map.groupBy(items, (item) => item.log);
    for await (const { log: each } of logs.list()) {
      const { entries } = await logs.client.query(each, { from: 'start' });
      const positions = (await Array.fromAsync(entries)).flat().map(({ position }) => position);
      expect(fed.get(each)?.map(({ entry }) => entry.position)).toEqual(positions);
    }
    const end = await logs.feed.end();
    const told: number[] = [];
    await eventually(async () => {
      const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
      told.push(...Messages.map(({ Body = '' }) => announcement.parse(JSON.parse(Body)).checkpoint));
      return told.includes(end);
    });
    expect(Math.max(...told)).toBe(end);
    await logs.close();
  });

  test('the sweep function accepts one log and refuses a malformed event', async () => {
    stack.tellOnFailure();
    const log = randomUUID();
    await createLog(log);
    await lastSnapshot(log, 0, 0);
    expect(await stack.invoke('SweepFunctionName', { log })).toMatchObject({ logs: 1, failed: 0 });
    await expect(stack.invoke('SweepFunctionName', { logs: [log] })).rejects.toThrow(
      'the event of the sweep function is malformed',
    );
  });

  test('only a foreign message reaches the dead-letter queue', async () => {
    stack.tellOnFailure();
    const log = randomUUID();
    await createLog(log);
    await sqs.send(
      new SendMessageCommand({
        QueueUrl: stack.output('SnapshotJobsUrl'),
        MessageGroupId: log,
        MessageDeduplicationId: log,
        MessageBody: 'hello',
      }),
    );
    // The job of the log waits for the foreign message.
    await lastSnapshot(log, 0, 0);
    await eventually(async () => (await waiting()).DeadSnapshotJobsUrl === 1);
    const QueueUrl = stack.output('DeadSnapshotJobsUrl');
    const { Messages: [dead] = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
    expect(dead?.Body).toBe('hello');
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: dead?.ReceiptHandle }));
    await eventually(async () => Object.values(await waiting()).every((messages) => messages === 0));
  });

  test('the roles deny other requests', async () => {
    stack.tellOnFailure();
    const log = randomUUID();
    await createLog(log);
    await lastSnapshot(log, 0, 0);
    expect(await stack.invoke('ReplayFunctionName', { log })).toMatchObject({ equal: true });
    await stack.deploy(PARAMETERS, ({ ReplayFunctionRole, ...others }) => ({
      ...others,
      ReplayFunctionRole: {
        Type: 'AWS::IAM::Role',
        Properties: { ...ReplayFunctionRole?.Properties, ManagedPolicyArns: [], Policies: [] },
      },
    }));
    await expect(stack.invoke('ReplayFunctionName', { log })).rejects.toThrow(/not authorized to perform: dynamodb:/);
  });

  test('the nested stack has the alarms and the dashboard, and Monitoring=false removes it', async () => {
    stack.tellOnFailure();
    const { physicalId: nested = '' } = (await stack.resources()).get('MonitoringStack') ?? {};
    const resources = [...(await stack.resources(nested)).values()];
    expect(resources.filter(({ type }) => type === 'AWS::CloudWatch::Alarm').length).toBeGreaterThan(10);
    const [dashboard] = resources.filter(({ type }) => type === 'AWS::CloudWatch::Dashboard');
    expect(stack.output('DashboardUrl')).toMatch(new RegExp(`#dashboards/dashboard/${dashboard?.physicalId}$`));
    await stack.deploy({ ...PARAMETERS, Monitoring: 'false' });
    expect(stack.hasOutput('DashboardUrl')).toBe(false);
    expect([...(await stack.resources()).keys()]).not.toContain('MonitoringStack');
    const log = randomUUID();
    await createLog(log);
    await lastSnapshot(log, 0, 0);
  });

  async function createLog(log: string): Promise<void> {
    await putTogether([
      ['SegmentTableName', { S: logId(log), N: 0, C: now() }],
      ['EntryTableName', entryItem(log, 0, { N: 0, T: 'Snapshot' })],
    ]);
  }

  async function startSegment(log: string, end: { readonly segment: number; readonly entry: number }): Promise<void> {
    const segment = end.segment + 1;
    await putTogether([
      ['EntryTableName', entryItem(log, end.segment, { N: end.entry, T: 'End Segment' })],
      ['SegmentTableName', { S: logId(log), N: segment, C: now() }],
      ['EntryTableName', entryItem(log, segment, { N: 0, T: 'Snapshot' })],
    ]);
  }

  /** Creates a queue that gets the messages of the feed's topic. @returns its URL */
  async function subscribedQueue(): Promise<string> {
    const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: 'subscriber' }));
    const asked = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
    const Endpoint = asked.Attributes?.QueueArn;
    const TopicArn = stack.output('FeedTopicArn');
    // Without this policy, the queue refuses messages of the topic, here as in AWS.
    const Policy = JSON.stringify({
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Service: 'sns.amazonaws.com' },
          Action: 'sqs:SendMessage',
          Resource: Endpoint,
          Condition: { ArnEquals: { 'aws:SourceArn': TopicArn } },
        },
      ],
    });
    await sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { Policy } }));
    const Attributes = { RawMessageDelivery: 'true' };
    await sns.send(new SubscribeCommand({ TopicArn, Protocol: 'sqs', Endpoint, Attributes }));
    return QueueUrl;
  }

  /** Appends rows of incompressible text: a few dozen of them do not fit into a root. */
  async function appendRows(log: string, { from, to }: { readonly from: number; readonly to: number }): Promise<void> {
    for (let row = from; row <= to; row++) {
      const cells = Array.from({ length: 100 }, (_, column) => [row, column, randomUUID()]);
      await putEntry(log, 0, { N: row, T: 'Set', B: cells });
    }
  }

  async function putEntry(log: string, segment: number, fields: Fields): Promise<void> {
    const Item = marshall(entryItem(log, segment, fields));
    await dynamodb.send(new PutItemCommand({ TableName: stack.output('EntryTableName'), Item }));
  }

  async function putTogether(items: readonly (readonly [table: string, item: Fields])[]): Promise<void> {
    const TransactItems = items.map(([table, item]) => ({
      Put: { TableName: stack.output(table), Item: marshall(item) },
    }));
    await dynamodb.send(new TransactWriteItemsCommand({ TransactItems }));
  }

  async function deleteEntry(key: Fields): Promise<void> {
    await dynamodb.send(new DeleteItemCommand({ TableName: stack.output('EntryTableName'), Key: marshall(key) }));
  }

  async function getItem(table: string, key: Fields): Promise<Fields> {
    const command = new GetItemCommand({ TableName: stack.output(table), Key: marshall(key), ConsistentRead: true });
    const { Item } = await dynamodb.send(command);
    return Item === undefined ? {} : unmarshall(Item);
  }

  async function entriesOf(log: string, segment: number): Promise<Fields[]> {
    const pages = paginateQuery(
      { client: dynamodb },
      {
        TableName: stack.output('EntryTableName'),
        KeyConditionExpression: 'S = :segment',
        ExpressionAttributeValues: marshall({ ':segment': segmentId(log, segment) }),
        ConsistentRead: true,
      },
    );
    return (await Array.fromAsync(pages)).flatMap(({ Items = [] }) => Items.map((item) => unmarshall(item)));
  }

  async function objects(Prefix: string): Promise<string[]> {
    const pages = paginateListObjectsV2({ client: s3 }, { Bucket: stack.output('BucketName'), Prefix });
    return (await Array.fromAsync(pages)).flatMap(({ Contents = [] }) => Contents.map(({ Key = '' }) => Key));
  }

  /** Waits until a segment's item is as wanted. @returns the item */
  async function segmentWith(log: string, segment: number, wanted: (item: Fields) => boolean): Promise<Fields> {
    const get = () => getItem('SegmentTableName', { S: logId(log), N: segment });
    await eventually(async () => wanted(await get()));
    return get();
  }

  async function lastSnapshot(log: string, segment: number, entry: number): Promise<Fields> {
    return segmentWith(log, segment, ({ L }) => L === entry);
  }

  /** Counts the messages in each queue, including those in flight. */
  async function waiting(): Promise<Readonly<Record<string, number>>> {
    const counts = QUEUES.map(async (name) => {
      const command = new GetQueueAttributesCommand({ QueueUrl: stack.output(name), AttributeNames: ['All'] });
      const { Attributes = {} } = await sqs.send(command);
      const { ApproximateNumberOfMessages: visible, ApproximateNumberOfMessagesNotVisible: taken } = Attributes;
      return [name, Number(visible) + Number(taken)];
    });
    return Object.fromEntries(await Promise.all(counts));
  }
});

function entryItem(log: string, segment: number, fields: Fields): Fields {
  return { S: segmentId(log, segment), C: now(), V: 1, ...fields };
}

function logId(log: string): Uint8Array {
  return Buffer.from(log.replaceAll('-', ''), 'hex');
}

function segmentId(log: string, segment: number): Uint8Array {
  const number = Buffer.alloc(4);
  number.writeUInt32BE(segment);
  return Buffer.concat([logId(log), number]);
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
