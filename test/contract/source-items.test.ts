import { createServer } from 'node:http';
import { BatchWriteItemCommand, DeleteItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DynamoDbSourceItems } from '../../src/adapters/dynamodb/source-items.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import type { Item } from '../../src/log/attribute.ts';
import type { SourceItems } from '../../src/revisions/source-table.ts';
import { startTestEngine, type TestEngine, testClient } from '../support/stores/engine.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { MemorySourceItems } from '../support/stores/memory-source-items.ts';

const KEY_NAMES = ['owner', 'number'] as const;
const PARTS = 3;

/** An item with every type that DynamoDB has. */
const EVERY_TYPE: Item = {
  owner: { S: 'Ann "A" Ünal' },
  number: { N: '-1.5' },
  text: { S: '' },
  amount: { N: '12345678901234567890.123' },
  bytes: { B: new Uint8Array([0, 255]) },
  yes: { BOOL: true },
  none: { NULL: true },
  list: { L: [{ N: '1' }, { M: { deep: { L: [] } } }] },
  texts: { SS: ['a', 'b'] },
  numbers: { NS: ['1', '2.5'] },
  binaries: { BS: [new Uint8Array([1]), new Uint8Array([2])] },
};

interface Fixture {
  readonly items: SourceItems;
  put(items: readonly Item[]): Promise<void>;
  delete(keys: Item): Promise<void>;
}

let engine: TestEngine;
let tables = 0;

beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

async function inMemory(): Promise<Fixture> {
  const items = new MemorySourceItems({ keyNames: KEY_NAMES, pageItems: 7 });
  return {
    items,
    put: async (all) => all.forEach((item) => void items.put(item)),
    delete: async (keys) => void items.delete(keys),
  };
}

async function inDynamoDb(): Promise<Fixture> {
  const { client } = engine;
  const TableName = `source-${++tables}`;
  await createItemTable(client, TableName, { keys: { owner: 'S', number: 'N' } });
  return {
    items: new DynamoDbSourceItems({ client, table: TableName, keyNames: KEY_NAMES }),
    put: async ([first, ...others]) => {
      if (first !== undefined) await client.send(new PutItemCommand({ TableName, Item: first }));
      for (let from = 0; from < others.length; from += 25) {
        const puts = others.slice(from, from + 25).map((item) => ({ PutRequest: { Item: item } }));
        await client.send(new BatchWriteItemCommand({ RequestItems: { [TableName]: puts } }));
      }
    },
    delete: async (keys) => void (await client.send(new DeleteItemCommand({ TableName, Key: keys }))),
  };
}

function keysOf(owner: string, number: number): Item {
  return { owner: { S: owner }, number: { N: String(number) } };
}

/** Items of several partitions, in the order of their lines. */
function manyItems(count: number): Item[] {
  return Array.from({ length: count }, (_, i) => ({ ...keysOf(`owner ${i % 5}`, i), value: { S: `value ${i}` } }));
}

async function scanAll(items: SourceItems, after?: readonly (string | undefined)[]): Promise<string[]> {
  const found: string[] = [];
  for (let index = 0; index < PARTS; index++) {
    for await (const page of items.scan({ index, of: PARTS, after: after?.[index] })) {
      found.push(...page.items.map(encodeItemLine));
    }
  }
  return found.sort();
}

describe.each([
  ['memory', inMemory],
  ['DynamoDB', inDynamoDb],
])('a source table in %s', (_, open) => {
  let table: Fixture;
  beforeEach(async () => {
    table = await open();
  });

  test('a scan in parts returns every item once', async () => {
    const written = manyItems(40);
    await table.put(written);
    expect(await scanAll(table.items)).toEqual(written.map(encodeItemLine).sort());
  });

  test('a part continues after the page at which it stopped', async () => {
    const written = manyItems(40);
    await table.put(written);
    const found: string[] = [];
    const after: (string | undefined)[] = [];
    for (let index = 0; index < PARTS; index++) {
      for await (const page of table.items.scan({ index, of: PARTS })) {
        found.push(...page.items.map(encodeItemLine));
        after[index] = page.next;
        break;
      }
    }
    expect([...found, ...(await scanAll(table.items, after))].sort()).toEqual(written.map(encodeItemLine).sort());
  });

  test('an empty table has no items', async () => {
    expect(await scanAll(table.items)).toEqual([]);
    expect(await table.items.get([keysOf('nobody', 1)])).toEqual([undefined]);
    expect(await table.items.get([])).toEqual([]);
  });

  test('items are returned with every attribute as it was written', async () => {
    await table.put([EVERY_TYPE]);
    const { owner, number } = EVERY_TYPE;
    if (owner === undefined || number === undefined) throw new Error('no keys');
    const [got] = await table.items.get([{ owner, number }]);
    expect(got && encodeItemLine(got)).toBe(encodeItemLine(EVERY_TYPE));
    expect(await scanAll(table.items)).toEqual([encodeItemLine(EVERY_TYPE)]);
  });

  test('items are returned in the order of their keys, also if a key is asked for twice', async () => {
    const [first, second] = manyItems(2);
    await table.put(manyItems(2));
    const keys = [keysOf('owner 1', 1), keysOf('owner 3', 0), keysOf('owner 0', 0), keysOf('owner 1', 1)];
    expect(await table.items.get(keys)).toEqual([second, undefined, first, second]);
  });

  test('attributes beside the keys are ignored in a key', async () => {
    const [item] = manyItems(1);
    await table.put(manyItems(1));
    expect(await table.items.get([{ ...keysOf('owner 0', 0), value: { S: 'old' } }])).toEqual([item]);
  });

  test('a get finds more than a single answer can carry', async () => {
    const large: Item[] = Array.from({ length: 48 }, (_, i) => ({
      ...keysOf('large', i),
      value: { S: 'x'.repeat(350_000) },
    }));
    await Promise.all(large.map((item) => table.put([item])));
    const got = await table.items.get(large.map((_, i) => keysOf('large', i)));
    expect(got.map((item) => item?.number)).toEqual(large.map((item) => item.number));
  });

  test('a get sees a put and a delete immediately', async () => {
    const [item] = manyItems(1);
    await table.put(manyItems(1));
    expect(await table.items.get([keysOf('owner 0', 0)])).toEqual([item]);
    await table.delete(keysOf('owner 0', 0));
    expect(await table.items.get([keysOf('owner 0', 0)])).toEqual([undefined]);
  });
});

test.each([30, -30])(
  'the service time is that of DynamoDB if the clock of the machine is wrong by %i days',
  async (days) => {
    const errorMs = days * 24 * 3_600_000;
    const server = createServer((_, response) => {
      response.writeHead(200, {
        'content-type': 'application/x-amz-json-1.0',
        date: new Date(Date.now() - errorMs).toUTCString(),
      });
      response.end('{"Items":[{"owner":{"S":"ann"},"number":{"N":"1"}}],"Count":1}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const client = testClient(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`);
    try {
      const items = new DynamoDbSourceItems({ client, table: 'any', keyNames: KEY_NAMES });
      expect(await scanAll(items)).toHaveLength(PARTS);
      expect(Math.abs(items.serviceTime() - (Date.now() - errorMs))).toBeLessThan(300_000);
    } finally {
      client.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  },
);
