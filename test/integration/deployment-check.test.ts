import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DescribeTableCommand,
  type StreamSpecification,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkSource, requireCurrentStream } from '../../src/adapters/dynamodb/source-check.ts';
import {
  type CheckedDeployment,
  checkDeployment,
  checkStream,
  type DeployedStream,
} from '../../src/adapters/platform/deployment-check.ts';
import { loadReducer } from '../../src/adapters/platform/reducer-module.ts';
import { entryTableInput, segmentTableInput } from '../../src/local/tables.ts';
import { type MappingDocument, parseMapping } from '../../src/mapping/schema-mapping.ts';
import { startTestEngine, type TestEngine, testClient } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { keySettings } from '../support/stores/item-table.ts';

const BUCKET = 'snapshots';

let engine: TestEngine;
let aws: LocalAws;
let right: CheckedDeployment & DeployedStream;
/** Errors of requests that failed in the check. */
let unknown: unknown[] = [];

beforeAll(async () => {
  engine = await startTestEngine();
  aws = await startLocalAws();
  await aws.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  const tables = await engine.createTables();
  const onUnknown = (error: unknown): void => void unknown.push(error);
  right = { dynamodb: engine.client, s3: aws.s3, bucket: BUCKET, ...tables, readsImages: true, ttl: false, onUnknown };
});
beforeEach(() => {
  unknown = [];
});
afterAll(async () => {
  await engine.stop();
  await aws.stop();
});

/** Expects that the check fails with one error, which names the parameter and the reason. */
function expectInvalid(changes: Partial<CheckedDeployment>, parameter: string, reason: string): Promise<void> {
  return expectRefusal(checkDeployment({ ...right, ...changes }), parameter, reason);
}

/** Expects the same of the check of the stream. Nothing else is wrong. */
async function expectUnusable(changes: Partial<DeployedStream>, parameter: string, reason: string): Promise<void> {
  await checkDeployment({ ...right, ...changes });
  await expectRefusal(checkStream({ ...right, ...changes }), parameter, reason);
}

async function expectRefusal(checked: Promise<void>, parameter: string, reason: string): Promise<void> {
  await expect(checked).rejects.toMatchObject({ code: 'DEPLOYMENT_INVALID', parameter });
  await expect(checked).rejects.toThrow(`parameter ${parameter} `);
  await expect(checked).rejects.toThrow(reason);
}

let made = 0;

/** Creates a table that differs from the correct one. @returns its name */
async function table(input: CreateTableCommandInput, changes: Partial<CreateTableCommandInput>): Promise<string> {
  const name = `other-${++made}`;
  await engine.client.send(new CreateTableCommand({ ...input, ...changes, TableName: name }));
  return name;
}

/** Creates an Entry table that differs from the correct one. @returns its name and stream */
async function entryTableWith(changes: Partial<CreateTableCommandInput>) {
  const entryTable = await table(entryTableInput('t'), changes);
  return { entryTable, streamArn: await streamOf(entryTable) };
}

/** Creates a table with the keys `pk` and `sk` of these types. @returns its name and stream */
function mappedTable([partition, sort]: readonly ['S' | 'B', 'S' | 'N']) {
  return entryTableWith(keySettings({ pk: partition, sk: sort }));
}

function mappingWith(changes: Partial<MappingDocument>) {
  return parseMapping({
    partitionKey: { name: 'pk', type: 'S' },
    sortKey: { name: 'sk', type: 'N', first: 0 },
    ...{ type: 'type', version: { constant: 1 }, body: 'payload' },
    ...changes,
  });
}

async function streamOf(TableName: string): Promise<string> {
  const { Table } = await engine.client.send(new DescribeTableCommand({ TableName }));
  return Table?.LatestStreamArn ?? '';
}

describe('the check of a deployment', () => {
  test('it finds no error in a correct deployment', async () => {
    await checkDeployment(right);
    await checkStream(right);
    expect(unknown).toEqual([]);
  });

  test('it names a missing table', async () => {
    await expectInvalid({ entryTable: 'nowhere' }, 'EntryTableName', "is 'nowhere', a table that does not exist");
    await expectInvalid({ segmentTable: 'nowhere' }, 'SegmentTableName', "is 'nowhere', a table that does not exist");
  });

  test.each([
    ['no sort key', ['S B'], 'S (Binary) instead of S (Binary) and N (Number)'],
    ['an id that is text', ['S S', 'N N'], 'S (String) and N (Number) instead of'],
    ['a number that is text', ['S B', 'N S'], 'S (Binary) and N (String) instead of'],
    ['other names', ['id B', 'number N'], 'id (Binary) and number (Number) instead of'],
  ])('it names a table that has %s', async (_what, keys, reason) => {
    const named = keys.map((key) => key.split(' '));
    const schema: Partial<CreateTableCommandInput> = {
      KeySchema: named.map(([name], i) => ({ AttributeName: name, KeyType: i === 0 ? 'HASH' : 'RANGE' })),
      AttributeDefinitions: named.map(([name, type]) => {
        return { AttributeName: name, AttributeType: type === 'B' ? 'B' : type === 'N' ? 'N' : 'S' };
      }),
    };
    await expectInvalid({ entryTable: await table(entryTableInput('t'), schema) }, 'EntryTableName', reason);
    await expectInvalid({ segmentTable: await table(segmentTableInput('t'), schema) }, 'SegmentTableName', reason);
  });

  test.each<[string, StreamSpecification, string]>([
    ['no stream', { StreamEnabled: false }, 'a table with no stream'],
    [
      'keys alone',
      { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' },
      'a stream of KEYS_ONLY, which does not carry new images',
    ],
    ['old images', { StreamEnabled: true, StreamViewType: 'OLD_IMAGE' }, 'a stream of OLD_IMAGE'],
  ])('it names an Entry table whose stream carries %s', async (_what, StreamSpecification, reason) => {
    const entryTable = await table(entryTableInput('t'), { StreamSpecification });
    await expectUnusable({ entryTable }, 'EntryTableName', reason);
  });

  test('it names the missing table of a feed', async () => {
    await checkDeployment({ ...right, feedTable: right.segmentTable });
    expect(unknown).toEqual([]);
    await expectInvalid({ feedTable: 'no-such-feed' }, 'Feed', "the table of the feed, 'no-such-feed', does not exist");
  });

  test('it accepts a stream that carries old images beside the new ones', async () => {
    const StreamSpecification = { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' } as const;
    await checkStream({ ...right, ...(await entryTableWith({ StreamSpecification })) });
  });

  test('it names a stream that was turned off and on again, and the current one', async () => {
    const made = await entryTableWith({});
    await checkStream({ ...right, ...made });
    const switchStream = async (StreamSpecification: StreamSpecification): Promise<void> => {
      await engine.client.send(new UpdateTableCommand({ TableName: made.entryTable, StreamSpecification }));
    };
    await switchStream({ StreamEnabled: false });
    await switchStream({ StreamEnabled: true, StreamViewType: 'NEW_IMAGE' });
    const streamArn = await streamOf(made.entryTable);
    expect(streamArn).not.toBe(made.streamArn);
    await expectUnusable(made, 'EntryTableStreamArn', `is '${made.streamArn}', but`);
    await expectUnusable(made, 'EntryTableStreamArn', `is '${streamArn}': no records arrive`);
    await checkStream({ ...right, ...made, streamArn });
  });

  test('it names a stream of another table', async () => {
    const { streamArn } = await entryTableWith({});
    await expectUnusable({ streamArn }, 'EntryTableStreamArn', `the stream of table '${right.entryTable}' is`);
  });

  test('it requires TTL on the right attribute only if entries expire by TTL', async () => {
    const made = await entryTableWith({});
    await checkDeployment({ ...right, ...made });
    await expectInvalid({ ...made, ttl: true }, 'Expire', `table '${made.entryTable}' has no TTL`);
    const ttl = async (AttributeName: string, name: string): Promise<void> => {
      const TimeToLiveSpecification = { Enabled: true, AttributeName };
      await engine.client.send(new UpdateTimeToLiveCommand({ TableName: name, TimeToLiveSpecification }));
    };
    await ttl('X', made.entryTable);
    await checkDeployment({ ...right, ...made, ttl: true });
    const other = await entryTableWith({});
    await ttl('C', other.entryTable);
    await expectInvalid({ ...other, ttl: true }, 'Expire', "has its TTL on attribute 'C'");
  });

  test.each(['KEYS_ONLY', 'OLD_IMAGE'] as const)('it accepts a stream of %s if no images are read', async (view) => {
    const made = await entryTableWith({ StreamSpecification: { StreamEnabled: true, StreamViewType: view } });
    await checkStream({ ...right, ...made, readsImages: false });
    const none = await entryTableWith({ StreamSpecification: { StreamEnabled: false } });
    await expectUnusable({ ...none, readsImages: false }, 'EntryTableName', 'a table with no stream');
  });

  test.each([
    ['text and numbers', { type: 'S' }, { type: 'N' }, ['S', 'N'], 'pk (String) and sk (Number)'],
    [
      'text and padded text',
      { type: 'S' },
      { type: 'S', pattern: 'event#{n:6}' },
      ['S', 'S'],
      'pk (String) and sk (String)',
    ],
    ['bytes and numbers', { type: 'B' }, { type: 'N' }, ['B', 'N'], 'pk (Binary) and sk (Number)'],
  ] as const)('it requires the keys of a mapping: %s', async (_, partition, sort, types, wanted) => {
    const mapping = mappingWith({
      partitionKey: { name: 'pk', ...partition },
      sortKey: { name: 'sk', first: 0, ...sort },
    });
    const made = await mappedTable(types);
    await checkDeployment({ ...right, ...made, mapping });
    expect(unknown).toEqual([]);
    await expectInvalid({ mapping }, 'EntryTableName', `S (Binary) and N (Number) instead of ${wanted}`);
    await expectInvalid(made, 'EntryTableName', 'instead of S (Binary) and N (Number). Name a table');
  });

  test('it requires TTL on the attribute of a mapping', async () => {
    const made = await mappedTable(['S', 'N']);
    const mapped = { ...made, mapping: mappingWith({ ttl: 'expiresAt' }), ttl: true };
    await expectInvalid(
      mapped,
      'Expire',
      "has no TTL: no entry would expire. Turn its TTL on for attribute 'expiresAt'",
    );
    const TimeToLiveSpecification = { Enabled: true, AttributeName: 'expiresAt' };
    await engine.client.send(new UpdateTimeToLiveCommand({ TableName: made.entryTable, TimeToLiveSpecification }));
    await checkDeployment({ ...right, ...mapped });
    await expectInvalid({ ...mapped, mapping: mappingWith({}) }, 'Expire', 'but Mapping names no TTL attribute');
  });

  test('it names a missing bucket', async () => {
    await expectInvalid({ bucket: 'nowhere' }, 'BucketName', "is 'nowhere', a bucket that does not exist");
  });

  test.each<[what: string, status: number, headers: Record<string, string>, reason: string]>([
    ['in another region', 301, { 'x-amz-bucket-region': 'eu-west-1' }, 'a bucket in region eu-west-1, but the'],
    ['in another region, by the error of S3', 400, { 'x-amz-bucket-region': 'eu-west-1' }, 'in region eu-west-1'],
    ['reached in another region', 200, { 'x-amz-bucket-region': 'eu-west-1' }, 'but the functions run in us-east-1'],
    ['redirected', 301, {}, 'a bucket in another region'],
  ])('it names a bucket that is %s', async (_what, status, headers, reason) => {
    // The test server has one region and no permissions, so this is S3's own answer.
    await withAnswer({ status, headers }, (s3) => expectInvalid({ s3 }, 'BucketName', reason));
  });

  test('it accepts a bucket if S3 reports its region', async () => {
    const here = { status: 200, headers: { 'x-amz-bucket-region': 'us-east-1' } };
    await withAnswer(here, (s3) => checkDeployment({ ...right, s3 }));
  });

  test('the check passes if DynamoDB does not answer, and still checks the bucket', async () => {
    const unreachable = testClient('http://127.0.0.1:9');
    await checkDeployment({ ...right, dynamodb: unreachable, ttl: true });
    expect(unknown).toMatchObject(Array(3).fill({ code: 'STORE_UNAVAILABLE' }));
    await expectInvalid({ dynamodb: unreachable, bucket: 'nowhere' }, 'BucketName', 'a bucket that does not exist');
  });

  test.each([
    ['refuses', 400, 'AccessDeniedException'],
    ['throttles', 400, 'ThrottlingException'],
    ['fails', 500, 'InternalServerError'],
  ])('the check passes if DynamoDB %s requests about tables', async (_what, status, name) => {
    const answer = JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${name}`, message: 'not now' });
    const server = await startServer((_, response) => {
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(answer);
    });
    await checkDeployment({ ...right, dynamodb: testClient(server.address), ttl: true, limitMs: 1_000 });
    // The client retries until the time is up, so the check may not get to the bucket.
    expect(unknown.length).toBeGreaterThanOrEqual(3);
    await server.stop();
  });

  test.each([
    ['refuses', 403],
    ['fails', 500],
  ])('the check passes if S3 %s the request for the bucket', async (_what, status) => {
    const headers = { 'x-amz-bucket-region': 'us-east-1' };
    await withAnswer({ status, headers }, (s3) => checkDeployment({ ...right, s3 }));
    expect(unknown).toHaveLength(1);
  });

  test('the check passes if no service answers in time', async () => {
    const server = await startServer(() => {});
    await checkDeployment({ ...right, dynamodb: testClient(server.address), ttl: true, limitMs: 50 });
    // The limit holds for the whole check, so the bucket is unknown too.
    expect(unknown).toHaveLength(4);
    await server.stop();
  });
});

describe('a custom reducer', () => {
  const FOLD = 'fold: async (draft) => { draft }';
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'logfold-reducers-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** Writes a module with this text, or no file if undefined. @returns its path */
  async function module(name: string, text: string | undefined): Promise<string> {
    const path = join(directory, `${name}.mjs`);
    if (text !== undefined) await writeFile(path, text);
    return path;
  }

  test('it is the default export of a module', async () => {
    const path = await module('right', `export default { name: 'own', version: 3, ${FOLD} };`);
    expect(await loadReducer(path)).toMatchObject({ name: 'own', version: 3, fold: expect.any(Function) });
  });

  test.each([
    ['missing', undefined, 'cannot be loaded'],
    ['broken', 'export default {', 'cannot be loaded'],
    [
      'exported by name',
      `export const reducer = { name: 'own', version: 1, ${FOLD} };`,
      'has no reducer (a name, a version of 1 or more, a function fold, and perhaps functions validate and rebase) as its default',
    ],
    [
      'a text',
      "export default 'spreadsheet';",
      'has no reducer (a name, a version of 1 or more, a function fold, and perhaps functions validate and rebase) as its default export',
    ],
    ['without a name', `export default { name: '', version: 1, ${FOLD} };`, 'a name, a version of 1 or more'],
    ['without a version', `export default { name: 'own', ${FOLD} };`, 'a name, a version of 1 or more'],
    ['of version 0', `export default { name: 'own', version: 0, ${FOLD} };`, 'a version of 1 or more'],
    ['without a function', "export default { name: 'own', version: 1, fold: 7 };", 'a function fold'],
  ])('it is refused if it is %s', async (what, text, reason) => {
    const loaded = loadReducer(await module(what, text));
    await expect(loaded).rejects.toMatchObject({ code: 'REDUCER_INVALID' });
    await expect(loaded).rejects.toThrow(reason);
  });

  test('it is refused if its path is not absolute', async () => {
    await expect(loadReducer('reducer.mjs')).rejects.toThrow('is not an absolute path');
  });
});

/** Calls `work` with a client that gets one answer to each request. */
async function withAnswer(
  answer: { readonly status: number; readonly headers: Record<string, string> },
  work: (s3: S3Client) => Promise<void>,
): Promise<void> {
  const server = await startServer((_, response) => response.writeHead(answer.status, answer.headers).end());
  const s3 = new S3Client({
    endpoint: server.address,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    forcePathStyle: true,
    maxAttempts: 1,
  });
  try {
    await work(s3);
  } finally {
    s3.destroy();
    await server.stop();
  }
}

async function startServer(onRequest: RequestListener): Promise<{ address: string; stop: () => Promise<void> }> {
  const server = createServer(onRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { address: `http://127.0.0.1:${port}`, stop };
}

describe('the check of a plain table', () => {
  const both: StreamSpecification = { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' };
  const { KeySchema: [hash] = [], AttributeDefinitions: [id] = [] } = segmentTableInput('t');
  const check = (streamArn: string) =>
    checkSource({
      ...{ dynamodb: engine.client, streamArn, per: 'item', actor: 'by' },
      ownTables: [right.entryTable, right.segmentTable],
    });

  test('it finds the keys of the table', async () => {
    const pair = await table(entryTableInput('t'), { StreamSpecification: both });
    expect(await check(await streamOf(pair))).toEqual({ table: pair, keyNames: ['S', 'N'], per: 'item', actor: 'by' });
    const single = await table(entryTableInput('t'), {
      ...{ StreamSpecification: both, KeySchema: hash && [hash], AttributeDefinitions: id && [id] },
    });
    expect(await check(await streamOf(single))).toMatchObject({ table: single, keyNames: ['S'] });
  });

  test('it refuses a stream from which no revisions can be recorded', async () => {
    const newOnly = await streamOf(await table(entryTableInput('t'), {}));
    const plain = await table(entryTableInput('t'), { StreamSpecification: both });
    const before = await streamOf(plain);
    await engine.client.send(
      new UpdateTableCommand({ TableName: plain, StreamSpecification: { StreamEnabled: false } }),
    );
    const current = (streamArn: string) => requireCurrentStream(engine.client, streamArn);
    const parameter = { code: 'DEPLOYMENT_INVALID', parameter: 'RevisionsStreamArn' };
    await expect(current(before)).rejects.toMatchObject(parameter);
    await expect(current(before)).rejects.toThrow('a table without a stream');
    await engine.client.send(new UpdateTableCommand({ TableName: plain, StreamSpecification: both }));
    const later = await streamOf(plain);
    await expect(current(before)).rejects.toThrow(`but the stream of table '${plain}' is '${later}'`);
    await current(later);
    // The last records of an earlier stream are still recorded.
    expect(await check(before)).toEqual(await check(later));
    const streams = [
      [newOnly, 'a stream of NEW_IMAGE, not of both images'],
      [right.streamArn, 'the stream of a table of logs'],
      [before.replace(plain, 'nowhere'), 'the stream of a table that does not exist'],
      ['arn:aws:sqs:us-east-1:123456789012:q', 'no ARN of a stream'],
    ] as const;
    for (const [streamArn, reason] of streams) {
      const checked = check(streamArn);
      await expect(checked).rejects.toMatchObject(parameter);
      await expect(checked).rejects.toThrow(reason);
    }
  });
});
