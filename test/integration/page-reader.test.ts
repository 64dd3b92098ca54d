import { deepStrictEqual } from 'node:assert';
import { crc32, gzipSync } from 'node:zlib';
import { DynamoDBClient, type DynamoDBClientConfig, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sdkConfig } from '../../src/adapters/aws/sdk-config.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import type { ItemPage } from '../../src/adapters/dynamodb/page-reader.ts';
import { type Creation, DynamoDbRequests } from '../../src/adapters/dynamodb/requests.ts';
import { SqsJobQueue } from '../../src/adapters/sqs/job-queue.ts';
import { ResourceMissingError, StoreUnavailableError } from '../../src/errors.ts';
import { StreamRequests } from '../../src/local/stream-requests.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import { type ItemDecoder, storedItems } from '../../src/log/item-json.ts';
import { LOG } from '../support/logs.ts';
import { AnswerServer, type HttpAnswer } from '../support/stores/answer-server.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';

type HttpRequest = Parameters<DynamoDBClient['config']['requestHandler']['handle']>[0];

const ATTEMPTS = 3;
const ITEM = { S: { S: 'city' }, N: { N: '7' }, L: { L: [{ NULL: true }] } };
const BODY = '{"Count":1,"Items":[{"S":{"S":"city"},"N":{"N":"7"},"L":{"L":[{"NULL":true}]}}],"ScannedCount":1}';
const SOUND: HttpAnswer = { body: BODY, headers: { 'x-amz-crc32': String(crc32(BODY)) } };
const DAMAGED: HttpAnswer = { body: BODY.replace('city', 'City'), headers: { 'x-amz-crc32': String(crc32(BODY)) } };
const INPUT = { TableName: 'orders' };

let server: AnswerServer;
const clients: DynamoDBClient[] = [];

beforeAll(async () => {
  server = await AnswerServer.start();
});
afterAll(async () => {
  for (const client of clients) client.destroy();
  await server.stop();
});

/** A client of the server with short pauses. */
function clientOf(config: DynamoDBClientConfig = {}): DynamoDBClient {
  const client = new DynamoDBClient({
    ...sdkConfig({ retries: { attempts: ATTEMPTS, baseMs: 1, capMs: 1 } }),
    endpoint: server.endpoint,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    ...config,
  });
  clients.push(client);
  return client;
}

/** All pages of a query that gets these answers. */
async function query(
  answers: readonly [HttpAnswer, ...HttpAnswer[]],
  client = clientOf(),
): Promise<ItemPage<StoredItem>[]> {
  server.answer(...answers);
  return Array.fromAsync(new DynamoDbRequests({ client }).queryPages(INPUT, storedItems));
}

function failure(status: number, name: string): HttpAnswer {
  return { status, body: JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${name}`, message: name }) };
}

describe('an answer that arrives damaged', () => {
  test('is requested again if its bytes do not have its checksum', async () => {
    expect(await query([DAMAGED, SOUND])).toEqual([{ items: [ITEM], bytes: undefined, attempts: 2 }]);
    expect(server.received.length).toBe(2);
  });

  test('is an error that names the table if no attempt brings a sound one', async () => {
    const error = await query([DAMAGED]).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect(error).toMatchObject({
      code: 'STORE_UNAVAILABLE',
      advice: 'Check the network and the server, then try again',
    });
    expect(String(error)).toContain(
      `an answer of table 'orders' was damaged on its way: its CRC-32 is not ${crc32(BODY)}`,
    );
    expect(server.received.length).toBe(ATTEMPTS);
  });

  test('is requested again if it breaks off', async () => {
    const page = { items: [ITEM], bytes: undefined, attempts: 2 };
    expect(await query([{ ...SOUND, half: 'breaks off' }, SOUND])).toEqual([page]);
    expect(server.received.length).toBe(2);
  });

  test('is requested again if it stalls', async () => {
    // A busy machine may make a sound answer look stalled too.
    const client = clientOf(sdkConfig({ idleMs: 300 }));
    const [page] = await query([{ ...SOUND, half: 'stalls' }, SOUND], client);
    expect(page?.items).toEqual([ITEM]);
    expect(page?.attempts).toBeGreaterThan(1);
  });

  test('is an error of the store if it always breaks off', async () => {
    await expect(query([{ ...SOUND, half: 'breaks off' }])).rejects.toBeInstanceOf(StoreUnavailableError);
    expect(server.received.length).toBe(ATTEMPTS);
  });

  test.each(['', 'moved', BODY.slice(0, -1), BODY.slice(0, BODY.length / 2)])(
    'is requested again if it is %j',
    async (body) => {
      expect(await query([{ body }, SOUND])).toEqual([{ items: [ITEM], bytes: undefined, attempts: 2 }]);
      const error = await query([{ body }]).catch((error: unknown) => error);
      expect(error).toMatchObject({
        code: 'STORE_UNAVAILABLE',
        reason: "an answer of table 'orders' is not JSON, or was cut on its way",
      });
      expect(server.received.length).toBe(ATTEMPTS);
    },
  );

  test('is requested again by every command', async () => {
    const requests = new DynamoDbRequests({ client: clientOf() });
    const input = { TableName: 'orders', Key: { id: { S: 'a' } } };
    const commands: readonly (() => Promise<unknown>)[] = [
      () => requests.get('orders', input.Key, true),
      () => requests.batchGet('orders', [input.Key]),
      () => requests.batchWrite('orders', [{ DeleteRequest: { Key: input.Key } }]),
      () => requests.create([{ table: 'orders', item: input.Key }]),
      () => requests.update(input),
      () => requests.change(input),
      () => requests.transact([{ Delete: input }]),
    ];
    for (const send of commands) {
      server.answer({ body: '{"Item":{"id":{"S":' }, { body: '{}' });
      await send();
      expect(server.received.length).toBe(2);
    }
  });
});

describe('an answer with names that the SDK alone confuses', () => {
  const names = ['__proto__', '\\', '\n', '"', '\u0000', '~', '\\u00', 'constructor'];
  const itemOf = (name: string): Item =>
    Object.fromEntries([
      ['id', { S: 'a' }],
      [name, { M: { [name]: { S: name } } }],
    ]);

  test('is read by every command, whatever was read before', async () => {
    const requests = new DynamoDbRequests({ client: clientOf() });
    for (const name of [...names, ...names]) {
      const item = itemOf(name);
      const wrapped = { Item: item, Attributes: item, Responses: { orders: [item] } };
      server.answer({ body: JSON.stringify(wrapped) });
      deepStrictEqual(await requests.get('orders', { id: { S: 'a' } }, true), item);
      deepStrictEqual(await requests.batchGet('orders', [{ id: { S: 'a' } }]), [item]);
      deepStrictEqual(await requests.change({ TableName: 'orders', Key: { id: { S: 'a' } } }), item);
    }
  });

  const existingOf = (creation: Creation) => (creation.written ? [] : creation.existing);

  test('is read if it is the error of a failed condition', async () => {
    const requests = new DynamoDbRequests({ client: clientOf() });
    const service = 'com.amazonaws.dynamodb.v20120810';
    for (const name of [...names, ...names]) {
      const item = itemOf(name);
      const single = { __type: `${service}#ConditionalCheckFailedException`, Item: item };
      server.answer({ status: 400, body: JSON.stringify(single) });
      deepStrictEqual(existingOf(await requests.create([{ table: 'orders', item }])), [item]);
      const CancellationReasons = [{ Code: 'ConditionalCheckFailed', Item: item }, { Code: 'None' }];
      const several = { __type: `${service}#TransactionCanceledException`, CancellationReasons };
      server.answer({ status: 400, body: JSON.stringify(several) });
      const two = ['orders', 'people'].map((table) => ({ table, item }));
      deepStrictEqual(existingOf(await requests.create(two)), [item]);
    }
  });
});

describe('an answer with an error', () => {
  test.each([
    failure(500, 'InternalServerError'),
    failure(400, 'ProvisionedThroughputExceededException'),
    failure(400, 'ThrottlingException'),
  ])('is retried by the SDK if that may help: $body', async (answer) => {
    expect(await query([answer, answer, SOUND])).toEqual([{ items: [ITEM], bytes: undefined, attempts: 3 }]);
    expect(server.received.length).toBe(3);
  });

  test('is translated as before', async () => {
    await expect(query([failure(400, 'ResourceNotFoundException')])).rejects.toBeInstanceOf(ResourceMissingError);
    expect(server.received.length).toBe(1);
    const throttled = await query([failure(400, 'ThrottlingException')]).catch((error: unknown) => error);
    expect(throttled).toBeInstanceOf(StoreUnavailableError);
    expect(throttled).toMatchObject({ cause: { name: 'ThrottlingException', $metadata: { attempts: ATTEMPTS } } });
  });
});

describe('a page', () => {
  test('is empty if the answer has no items', async () => {
    expect(await query([{ body: '{"Count":3,"ScannedCount":3}' }])).toEqual([
      { items: [], bytes: undefined, attempts: 1 },
    ]);
  });

  test('names the bytes that DynamoDB bills, and the next page follows', async () => {
    const body = (more: object) => JSON.stringify({ ConsumedCapacity: { CapacityUnits: 1.5 }, Items: [ITEM], ...more });
    server.answer({ body: body({ LastEvaluatedKey: { N: { N: '7' } } }) }, { body: body({}) });
    const requests = new DynamoDbRequests({ client: clientOf() });
    const pages = await Array.fromAsync(requests.queryPages({ ...INPUT, ConsistentRead: true }, storedItems));
    expect(pages).toEqual([6144, 6144].map((bytes) => ({ items: [ITEM], bytes, attempts: 1 })));
    expect(server.received.map((text) => JSON.parse(text).ExclusiveStartKey)).toEqual([undefined, { N: { N: '7' } }]);
    server.answer({ body: body({}) });
    expect(await Array.fromAsync(requests.scanPages(INPUT, storedItems))).toMatchObject([{ bytes: 12_288 }]);
  });
});

describe('a client that the user configured', () => {
  const decoded: string[] = [];
  const fromBytes: ItemDecoder<StoredItem> = {
    fromJson: (json) => {
      decoded.push('bytes');
      return storedItems.fromJson(json);
    },
    fromItem: (item) => {
      decoded.push('item');
      return item;
    },
  };

  async function read(client: DynamoDBClient, answer: HttpAnswer) {
    decoded.length = 0;
    server.answer(answer);
    const [page] = await Array.fromAsync(new DynamoDbRequests({ client }).queryPages(INPUT, fromBytes));
    expect(page?.items).toEqual([ITEM]);
    return decoded;
  }

  /** Sends requests as a handler for browsers does. */
  const fetching: DynamoDBClientConfig = {
    requestHandler: {
      async handle(request: HttpRequest) {
        const { body, headers, hostname, port, protocol } = request;
        const { 'content-length': _, host, ...sent } = headers;
        const url = `${protocol}//${hostname}:${port}/`;
        const response = await fetch(url, { method: 'POST', headers: sent, body });
        const received = Object.fromEntries(response.headers);
        return { response: { statusCode: response.status, headers: received, body: response.body } as never };
      },
    },
  };

  test('may send its requests with fetch', async () => {
    expect(await read(clientOf(fetching), SOUND)).toEqual(['bytes']);
    await expect(query([DAMAGED], clientOf(fetching))).rejects.toBeInstanceOf(StoreUnavailableError);
  });

  test('may get compressed answers, whose checksum is that of the compressed bytes', async () => {
    const body = gzipSync(BODY);
    const headers = { 'x-amz-crc32': String(crc32(body)), 'content-encoding': 'gzip' };
    expect(await read(clientOf(fetching), { body, headers })).toEqual(['item']);
  });

  test('may have middlewares, which see the response and all of the output but the items', async () => {
    const client = clientOf();
    const seen: unknown[] = [];
    client.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        seen.push(result.output);
        return result;
      },
      { step: 'initialize' },
    );
    client.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        seen.push(result.response);
        return result;
      },
      { step: 'deserialize', priority: 'low' },
    );
    expect(await read(client, SOUND)).toEqual(['bytes']);
    expect(seen).toMatchObject([{ statusCode: 200 }, { Count: 1, ScannedCount: 1, Items: [] }]);
  });

  test('may answer itself', async () => {
    const client = clientOf();
    Object.assign(client, { send: async () => ({ $metadata: {}, Items: [ITEM] }) });
    expect(await read(client, failure(500, 'InternalServerError'))).toEqual(['item']);
    expect(server.received).toEqual([]);
  });
});

describe('the log store', () => {
  test('throws the error of a bad entry after one request', async () => {
    const S = { B: Buffer.alloc(18).toString('base64') };
    const good = { S, N: { N: '1' }, C: { N: '0' }, T: { S: 'Set' }, V: { N: '1' } };
    const bad = { ...good, N: { N: '2' }, V: { S: 'one' } };
    server.answer({ body: JSON.stringify({ Items: [good, bad] }) });
    const store = new DynamoDbLogStore({ client: clientOf(), entryTable: 'entries', segmentTable: 'segments' });
    const pages = Array.fromAsync(store.entries(LOG, { segment: 0, from: 1, to: 3 }, { consistent: true }));
    const error: unknown = await pages.catch((error: unknown) => error);
    expect(server.received.length).toBe(1);
    const expected = catchError(() => decodeEntry({ ...bad, S: { B: new Uint8Array(18) } }));
    expect(error).toEqual(expected);
    expect(String(error)).toBe(String(expected));
  });
});

function catchError(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

describe('a real DynamoDB API', () => {
  let engine: TestEngine;
  let table: string;

  beforeAll(async () => {
    engine = await startTestEngine();
    ({ entryTable: table } = await engine.createTables());
  });
  afterAll(() => engine.stop());

  const fromBytesOnly: ItemDecoder<StoredItem> = {
    fromJson: storedItems.fromJson,
    fromItem: () => {
      throw new Error('the page reader left this page to the SDK');
    },
  };

  test('returns the items that the SDK wrote', async () => {
    const S = { B: Uint8Array.of(1, 2, 3) };
    const items = [
      { S, N: { N: '1' }, text: { S: 'a "quoted" \\ line\nand / 😀 \u2028 \u0000' }, empty: { S: '' } },
      { S, N: { N: '2' }, B: { B: Uint8Array.from({ length: 256 }, (_, i) => i) }, none: { B: new Uint8Array(0) } },
      {
        S,
        N: { N: '3' },
        sets: { SS: ['a', 'b'] },
        numbers: { NS: ['1', '-2.5'] },
        binaries: { BS: [Uint8Array.of(0)] },
      },
      { S, N: { N: '4' }, map: { M: { 'é"': { L: [{ NULL: true }, { BOOL: false }, { M: {} }, { L: [] }] } } } },
      { S, N: { N: '5' }, big: { N: '99999999999999999999999999999999999999' }, small: { N: '1e-130' } },
    ] satisfies Item[];
    for (const Item of items) await engine.client.send(new PutItemCommand({ TableName: table, Item }));
    const input = {
      TableName: table,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: { ':s': S },
      Limit: 2,
    };
    const requests = new DynamoDbRequests({ client: engine.client });
    const pages = await Array.fromAsync(requests.queryPages(input, fromBytesOnly));
    const sent = await engine.client.send(new QueryCommand({ ...input, Limit: 10 }));
    expect(pages.map((page) => page.items.length)).toEqual([2, 2, 1]);
    expect(pages.flatMap((page) => page.items)).toEqual(sent.Items);
    expect(pages.flatMap((page) => page.items.map(({ N }) => N))).toEqual(items.map(({ N }) => N));
    expect(pages[1]?.items[0]).toMatchObject({ numbers: { NS: expect.arrayContaining(['1', '-2.5']) } });
  });

  test('reports the size of its pages', async () => {
    const S = { B: Uint8Array.of(9) };
    const body = { B: new Uint8Array(10_000) };
    for (const n of ['1', '2', '3']) {
      await engine.client.send(new PutItemCommand({ TableName: table, Item: { S, N: { N: n }, body } }));
    }
    const requests = new DynamoDbRequests({ client: engine.client });
    const input = { TableName: table, KeyConditionExpression: 'S = :s', ExpressionAttributeValues: { ':s': S } };
    for (const ConsistentRead of [true, false]) {
      const [page] = await Array.fromAsync(requests.queryPages({ ...input, ConsistentRead }, storedItems));
      expect(page?.bytes).toBeGreaterThanOrEqual(30_000);
      expect(page?.bytes).toBeLessThanOrEqual(30_100 + 8192);
    }
  });
});

describe('an answer of another service that arrives cut', () => {
  const config = () => ({
    ...sdkConfig({ retries: { attempts: 1, baseMs: 1, capMs: 1 } }),
    endpoint: server.endpoint,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });

  test('is an error of the queue', async () => {
    const client = new SQSClient(config());
    const queue = new SqsJobQueue({ client, queueUrl: `${server.endpoint}/0/jobs.fifo` });
    server.answer({ body: '{"Messages":[' });
    for (const call of [() => queue.receive({ max: 1, visibilityMs: 1000 }), () => queue.depth()]) {
      await expect(call()).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        reason: expect.stringContaining('is not JSON'),
      });
    }
    client.destroy();
  });

  test('is requested again from a stream', async () => {
    const client = new DynamoDBStreamsClient(config());
    const time = { now: () => 0, sleep: async () => undefined };
    const requests = new StreamRequests({ client, streamArn: 'arn:stream', time });
    const { signal } = new AbortController();
    server.answer({ body: '{"StreamDescr' }, { body: '{"StreamDescription":{"Shards":[{"ShardId":"a"}]}}' });
    expect(await requests.shards(signal)).toEqual([{ ShardId: 'a' }]);
    server.answer({ body: '{"Records":[{' }, { body: '{"Records":[],"NextShardIterator":"b"}' });
    expect(await requests.records('a', 10, signal)).toEqual({ records: [], next: 'b' });
    client.destroy();
  });
});
