import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DescribeTableCommand,
  DynamoDBClient,
  type StreamSpecification,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { CreateQueueCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { expect } from 'vitest';
import { readEnvironment, streamEnvironment } from '../../../handlers/environment.ts';
import { wireReducer } from '../../../handlers/wire.ts';
import { DynamoDbLogStore } from '../../../src/adapters/dynamodb/log-store.ts';
import { checkSource } from '../../../src/adapters/dynamodb/source-check.ts';
import {
  type CheckedDeployment,
  checkDeployment,
  checkStream,
  type DeployedStream,
} from '../../../src/adapters/platform/deployment-check.ts';
import { S3BlobStore } from '../../../src/adapters/s3/blob-store.ts';
import { SqsJobQueue } from '../../../src/adapters/sqs/job-queue.ts';
import { fromLambdaChange } from '../../../src/functions/lambda-change.ts';
import { entryTableInput, segmentTableInput } from '../../../src/local/tables.ts';
import { type MappingDocument, parseMapping } from '../../../src/mapping/schema-mapping.ts';
import { LOG } from '../../support/logs.ts';
import { type LocalAws, startLocalAws } from '../../support/stores/fauxqs.ts';
import { keySettings, ORDER_KEYS } from '../../support/stores/item-table.ts';
import { clientConfig } from '../../support/stores/shared-engine.ts';
import { type Cases, numbersOf, quoted } from './case.ts';

const BUCKET = 'snapshots';
const REDUCER = "export default { name: 'own', version: 1, fold() {} };";

const ORDERS = {
  partitionKey: { name: 'pk', type: 'S' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  ...{ type: 'type', version: { constant: 1 }, body: 'payload' },
} as const satisfies MappingDocument;

let aws: LocalAws;
let db: DynamoDBClient;
let right: CheckedDeployment & DeployedStream;
let made = 0;

/** Starts a correct deployment. @param endpoint of a local DynamoDB */
export async function openDeployment(endpoint: string): Promise<void> {
  aws = await startLocalAws();
  db = new DynamoDBClient(clientConfig(endpoint));
  await aws.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  const segmentTable = await table(segmentTableInput('any'));
  const rest = {
    dynamodb: db,
    s3: aws.s3,
    bucket: BUCKET,
    segmentTable,
    readsImages: true,
    ttl: false,
    onUnknown: () => undefined,
  };
  right = { ...rest, ...(await entryTable()) };
}

export async function closeDeployment(): Promise<void> {
  db.destroy();
  await aws.stop();
}

async function table(input: CreateTableCommandInput): Promise<string> {
  const TableName = `deployed-${++made}`;
  await db.send(new CreateTableCommand({ ...input, TableName }));
  return TableName;
}

async function entryTable(changes: Partial<CreateTableCommandInput> = {}) {
  const name = await table({ ...entryTableInput('any'), ...changes });
  return { entryTable: name, streamArn: await streamOf(name) };
}

async function streamOf(TableName: string): Promise<string> {
  return (await db.send(new DescribeTableCommand({ TableName }))).Table?.LatestStreamArn ?? '';
}

async function setStream(TableName: string, StreamSpecification: StreamSpecification): Promise<void> {
  await db.send(new UpdateTableCommand({ TableName, StreamSpecification }));
}

function check(changes: Partial<CheckedDeployment> = {}): Promise<void> {
  return checkDeployment({ ...right, ...changes });
}

function streams(changes: Partial<DeployedStream>): Promise<void> {
  return checkStream({ ...right, ...changes });
}

/** Advice about a deployment. */
export const DEPLOYMENT: Cases = {
  "Name a table in the deployment's region and account": async (refused) => {
    await refused(() => check({ entryTable: 'nowhere' }));
    await check();
  },
  'Name a table with the schema of a log; this table belongs to something else': async (refused) => {
    const { KeySchema, AttributeDefinitions, ...input } = segmentTableInput('any');
    const schema = { KeySchema: KeySchema?.slice(0, 1), AttributeDefinitions: AttributeDefinitions?.slice(0, 1) };
    const segmentTable = await table({ ...input, ...schema });
    await refused(() => check({ segmentTable }));
    await check();
  },
  'Name a table with the schema of a log, or say in Mapping how the items of this table become entries': async (
    refused,
  ) => {
    const orders = await entryTable(keySettings(ORDER_KEYS));
    await refused(() => check(orders));
    await check();
    await check({ ...orders, mapping: parseMapping(ORDERS) });
  },
  'Correct partitionKey and sortKey in Mapping, or name the table whose keys they are': async (refused) => {
    const orders = await entryTable(keySettings(ORDER_KEYS));
    const mapping = parseMapping({ ...ORDERS, sortKey: { name: 'number', type: 'N', first: 0 } });
    await refused(() => check({ ...orders, mapping }));
    await check({ ...orders, mapping: parseMapping(ORDERS) });
  },
  "Name the table's TTL attribute as ttl in Mapping, or set Expire to 'delete' or 'never'": async (refused) => {
    const orders = await entryTable(keySettings(ORDER_KEYS));
    const mapping = parseMapping(ORDERS);
    await refused(() => check({ ...orders, mapping, ttl: true }));
    await check({ ...orders, mapping, ttl: false });
    const TimeToLiveSpecification = { Enabled: true, AttributeName: 'expiresAt' };
    await db.send(new UpdateTimeToLiveCommand({ TableName: orders.entryTable, TimeToLiveSpecification }));
    await check({ ...orders, mapping: parseMapping({ ...ORDERS, ttl: 'expiresAt' }), ttl: true });
  },
  'Turn its stream on with the view type NEW_IMAGE, and pass its ARN as EntryTableStreamArn': async (refused) => {
    const streamless = await entryTable({ StreamSpecification: { StreamEnabled: false } });
    await refused(() => streams(streamless));
    await setStream(streamless.entryTable, { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' });
    await streams({ ...streamless, streamArn: await streamOf(streamless.entryTable) });
  },
  "Deploy with the ARN of the table's stream. If the stack created its tables, pass their names too, so that they stay. The next sweep finds the records that did not arrive":
    async (refused) => {
      const before = await entryTable();
      await setStream(before.entryTable, { StreamEnabled: false });
      await setStream(before.entryTable, { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' });
      await refused(() => streams(before));
      await streams({ ...before, streamArn: await streamOf(before.entryTable) });
    },
  'Turn the stream of the plain table on with the view type NEW_AND_OLD_IMAGES, and deploy with its LatestStreamArn. The next comparison finds the changes that did not arrive':
    async (refused) => {
      const { KeySchema, AttributeDefinitions, ...input } = entryTableInput('any');
      const plain = await table({ ...input, ...keySettings(ORDER_KEYS) });
      const checkPlain = async () =>
        checkSource({
          ...{ dynamodb: db, streamArn: await streamOf(plain), ownTables: [right.entryTable] },
          ...{ per: 'item', actor: undefined },
        });
      await refused(checkPlain);
      await setStream(plain, { StreamEnabled: false });
      await setStream(plain, { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' });
      expect(await checkPlain()).toMatchObject({ table: plain, keyNames: ['pk', 'sk'] });
    },
  'Turn the stream of the table on with the view type NEW_AND_OLD_IMAGES': async (refused) => {
    const Keys = { pk: { S: 'a' } };
    const change = { ApproximateCreationDateTime: 1, SequenceNumber: '1', Keys };
    const record = (images: object) => ({
      eventName: 'REMOVE',
      eventSourceARN: 'arn:aws:dynamodb:us-east-1:123456789012:table/plain/stream/label',
      dynamodb: { ...change, ...images },
    });
    await refused(() => fromLambdaChange(record({})));
    expect(fromLambdaChange(record({ OldImage: Keys }))).toMatchObject({ change: 'Delete', oldImage: Keys });
  },
  "Turn its TTL on for attribute '…', or set Expire to 'delete' or 'never'": async (refused) => {
    const without = await entryTable();
    const [AttributeName = ''] = quoted(await refused(() => check({ ...without, ttl: true })));
    await check({ ...without, ttl: false });
    const TimeToLiveSpecification = { Enabled: true, AttributeName };
    await db.send(new UpdateTimeToLiveCommand({ TableName: without.entryTable, TimeToLiveSpecification }));
    await check({ ...without, ttl: true });
  },
  "Name a bucket in the deployment's region and account, or leave it empty to have one created": async (refused) => {
    await refused(() => check({ bucket: 'nowhere' }));
    await check();
  },
  'Check the name and the region, or deploy the stack that creates it': async (refused) => {
    const read = (name: string) => {
      const store = new DynamoDbLogStore({ client: db, entryTable: name, segmentTable: right.segmentTable });
      return store.getEntry(LOG, { segment: 0, entry: 0 }, { consistent: true });
    };
    await refused(() => read('nowhere'));
    await read((await entryTable()).entryTable);
  },
  'Use 1 to … bytes of UTF-8': async (refused) => {
    const blobs = new S3BlobStore({ client: aws.s3, bucket: BUCKET });
    const [least = 0, most = 0] = numbersOf(await refused(() => blobs.get('x'.repeat(2000))));
    for (const bytes of [least, most]) await blobs.get('x'.repeat(bytes));
  },
  'Use a FIFO queue': async (refused) => {
    const queueOf = async (QueueName: string, Attributes?: Record<string, string>) => {
      const { QueueUrl: queueUrl = '' } = await aws.sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
      return { queueUrl, queue: new SqsJobQueue({ client: aws.sqs, queueUrl }) };
    };
    const standard = await queueOf('jobs');
    await aws.sqs.send(new SendMessageCommand({ QueueUrl: standard.queueUrl, MessageBody: '{}' }));
    await refused(() => standard.queue.receive({ max: 1, visibilityMs: 1000 }));
    const { queue } = await queueOf('jobs.fifo', { FifoQueue: 'true' });
    await queue.send({ group: LOG, deduplicationId: 'a', body: '{}' });
    expect(await queue.receive({ max: 1, visibilityMs: 1000 })).toHaveLength(1);
  },
  "Correct the template's parameters and deploy again": async (refused) => {
    const settings = { SNAPSHOT_TYPE: 'Snapshot', END_SEGMENT_TYPE: 'End Segment' };
    const read = (SNAPSHOT_QUEUE_URL: string) =>
      readEnvironment(streamEnvironment, { ...settings, SNAPSHOT_QUEUE_URL });
    await refused(() => read('no URL'));
    read('http://127.0.0.1/jobs.fifo');
  },
  'Deploy a layer whose module exports a reducer, or leave it empty to use the parameter Reducer': async (refused) => {
    const dir = await mkdtemp(join(tmpdir(), 'logfold-advice-'));
    try {
      const [none, module] = [join(dir, 'none.mjs'), join(dir, 'reducer.mjs')];
      await writeFile(none, 'export const reducer = 1;');
      await writeFile(module, REDUCER);
      await refused(() => wireReducer({ reducerModule: none }));
      expect((await wireReducer({ reducerModule: module })).name).toBe('own');
      expect((await wireReducer({ reducerModule: '' })).name).toBe('spreadsheet');
      expect((await wireReducer({ reducerModule: 'collections' })).name).toBe('collections');
    } finally {
      await rm(dir, { recursive: true });
    }
  },
};
