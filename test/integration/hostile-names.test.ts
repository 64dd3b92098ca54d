import { deepStrictEqual } from 'node:assert';
import { DeleteItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { DynamoDbMappedItems } from '../../src/adapters/dynamodb/mapped-items.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { parseJson } from '../../src/codec/json.ts';
import type { AttributeValue, Item } from '../../src/log/attribute.ts';
import { LogClient } from '../../src/log/client.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { keyOf } from '../../src/mapping/key-pattern.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { rootKey } from '../../src/store/keys.ts';
import { archiveSegment } from '../../src/workers/retention/archive-segment.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { ORDERS, orderItem } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Names that code in JavaScript loses or confuses easily. DynamoDB stores them all. */
const NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '\\',
  '\n',
  '"',
  '\\n',
  '\u0000',
  '~',
  '10',
  'é',
];

const SIZES = { items: 4, snapshotEvery: 4 };
const DECIMAL = '0.33333333333333333333333333333333333333';

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

/** An item as the engine sends it, read without the SDK. */
async function rawItem(table: string, Key: Item): Promise<unknown> {
  const answer = await fetch(engine.endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': 'DynamoDB_20120810.GetItem',
      // The engine reads a signature, but does not check it.
      'x-amz-date': '20260101T000000Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=local/20260101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
    },
    body: JSON.stringify({ TableName: table, Key, ConsistentRead: true }),
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(text);
  return Object(parseJson(text)).Item;
}

function named<T>(value: T): Record<string, T> {
  return Object.fromEntries(NAMES.map((name) => [name, value]));
}

describe('hostile names', () => {
  test('are read from attributes, metadata and bodies as they were written', async () => {
    const tables = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) });
    const blobs = new MemoryBlobStore();
    const client = new LogClient(testDeployment({ tables, blobs }));
    const log = await client.createLog();
    const [body, metadata] = [named({ deep: named(1) }), named({ deep: named('x') })];
    const { position } = await client.addEntry(log, { type: 'Note', version: 1, body, metadata });
    const read = async () => {
      const { entries } = await client.query(log, { from: position, attributes: true });
      const [entry] = (await Array.fromAsync(entries)).flat();
      return entry;
    };
    for (const name of NAMES) {
      const change = { set: { [name]: 'first' }, if: { [name]: undefined } };
      deepStrictEqual(await client.updateAttributes(log, position, change), { updated: true });
      const again = await client.updateAttributes(log, position, change);
      expect(again.updated).toBe(false);
      deepStrictEqual(again.updated ? [] : Object.entries(again.attributes).filter(([each]) => each === name), [
        [name, 'first'],
      ]);
    }
    const set = named({ deep: named(2) });
    deepStrictEqual(await client.updateAttributes(log, position, { set, if: named('first') }), { updated: true });
    const entry = await read();
    if (entry === undefined) throw new Error('the entry is missing');
    deepStrictEqual(sorted(await client.loadBody(entry)), sorted(body));
    deepStrictEqual(sorted(entry.metadata), sorted(metadata));
    deepStrictEqual(sorted(entry.attributes), sorted(set));
    await client.updateAttributes(log, position, { remove: NAMES });
    deepStrictEqual((await read())?.attributes, {});
  });

  test("are kept in archives of an application's items, and a restore writes them again", async () => {
    const { client } = engine;
    const table = `orders-${newLogId()}`;
    const { segmentTable } = await engine.createTables();
    await createItemTable(client, table);
    const store = new MappedLogStore({
      items: new DynamoDbMappedItems({ client, table, segmentTable, mapping: ORDERS }),
      books: new DynamoDbLogStore({ client, entryTable: segmentTable, segmentTable }),
      mapping: ORDERS,
      now: () => NOON * 1000,
    });
    const log = newLogId();
    const deep: AttributeValue = { M: named<AttributeValue>({ L: [{ N: DECIMAL }, { M: named({ S: 'x' }) }] }) };
    const put = async (index: number) => {
      const item = orderItem(log, index, { ...named(deep), payload: deep });
      await client.send(new PutItemCommand({ TableName: table, Item: item }));
    };
    for (let index = 0; index <= SIZES.items; index++) await put(index);
    await store.register(log, SIZES);
    for await (const segment of store.segments(log)) {
      const position = { segment: segment.segment, entry: 0 };
      await store.completeSnapshot(log, position, { key: rootKey(log, position, '0'.repeat(64)) });
      await store.advanceLastSnapshot(log, { position });
    }
    const deps = {
      tables: store,
      blobs: new MemoryBlobStore(),
      platform: nativePlatform,
      types: VIRTUAL_TYPES,
      random: Math.random,
      now: () => NOON * 1000,
    };
    const key = keyOf(ORDERS, log, 1);
    const before = await rawItem(table, key);
    expect(Object.keys(Object(before))).toEqual(expect.arrayContaining(NAMES));
    expect(await archiveSegment(deps, { log, segment: 0 })).toMatchObject({ outcome: 'archived' });
    await client.send(new DeleteItemCommand({ TableName: table, Key: key }));
    await restoreSegment(deps, { log, segment: 0 }, { holdSeconds: 3600 });
    deepStrictEqual(sorted(await rawItem(table, key)), sorted(before));
  });
});

/** A value whose names are in order, and in which each own property counts. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, item]) => [name, sorted(item)] as const);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}
