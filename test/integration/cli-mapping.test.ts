import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateTableCommand, DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Item } from '../../src/log/attribute.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace } from '../support/cli-place.ts';
import { clientConfig } from '../support/shared-engine.ts';

const TABLE = 'orders';

let place: CliPlace;
let directory: string;
let db: DynamoDBClient;

beforeAll(async () => {
  place = await CliPlace.open();
  directory = await mkdtemp(join(tmpdir(), 'logfold-mapping-'));
  db = new DynamoDBClient(clientConfig(place.endpoint));
  await db.send(
    new CreateTableCommand({
      TableName: TABLE,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [
        { AttributeName: 'pk', AttributeType: 'S' },
        { AttributeName: 'sk', AttributeType: 'N' },
      ],
      KeySchema: [
        { AttributeName: 'pk', KeyType: 'HASH' },
        { AttributeName: 'sk', KeyType: 'RANGE' },
      ],
    }),
  );
  for (const id of ['1', '2']) for (let n = 0; n < 25; n++) await put(event(id, n));
  await put({ pk: { S: 'customer#7' }, sk: { N: '0' }, name: { S: 'Ada' } });
});
afterAll(async () => {
  db.destroy();
  await place.close();
  await rm(directory, { recursive: true });
});

async function put(item: Item): Promise<void> {
  await db.send(new PutItemCommand({ TableName: TABLE, Item: item }));
}

function event(id: string, number: number): Item {
  return {
    pk: { S: `order#${id}` },
    sk: { N: String(number) },
    type: { S: number === 0 ? 'OrderPlaced' : 'OrderPaid' },
    ts: { S: new Date(1_767_225_600_000 + number * 1000).toISOString() },
    payload: { M: { amount: { N: String(number) } } },
  };
}

const MAPPING = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
};

describe('inspect', () => {
  test('proposes the mapping of the events, writes it into a file, and writes nothing to the table', async () => {
    const before = await place.items(TABLE);
    const file = join(directory, 'proposed.json');
    const found = await place.json('inspect', TABLE, '--output', file);
    expect(found).toMatchObject({
      table: TABLE,
      keys: { partition: { name: 'pk', type: 'S' }, sort: { name: 'sk', type: 'N' } },
      ttl: null,
      stream: null,
      recognized: null,
      kinds: [
        { partitionKey: 'order#{id}', sortKey: 'a number', items: 50, partitions: 2, isLog: true },
        { partitionKey: 'customer#{id}', items: 1, example: 'customer#7, 0', isLog: false },
      ],
      mapping: MAPPING,
      misfits: [],
      parameters: {
        Mapping: JSON.stringify(MAPPING),
        StreamFilter: '{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"order#"}]}}}}',
      },
    });
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(MAPPING);
    expect(await place.items(TABLE)).toEqual(before);
  });

  test('reads no more items than it may, and prints the next steps', async () => {
    const words = ['inspect', TABLE, '--sample', '8', '--partitions', '1', ...place.words];
    const answer = await runCli(words);
    expectNoTrace(answer);
    expect(answer).toMatchObject({ code: 0 });
    expect(answer.stdout).toContain('Proposed mapping:');
    expect(answer.stdout).toContain('logfold adopt --mapping mapping.json --entry-table orders');
    // The scan reads one item of each of 8 parts, and the query 8 items.
    const [, items = ''] = /│ (\d+) +│ \d+ +│ order#/.exec(answer.stdout) ?? [];
    expect(Number(items)).toBeLessThanOrEqual(16);
  });

  test("recognizes logfold's own tables", async () => {
    const answer = await runCli(['inspect', 'Entry', '--json', ...place.words]);
    expect(answer.code).toBe(1);
    expect(JSON.parse(answer.stdout)).toMatchObject({ recognized: "logfold's Entry table", mapping: null });
  });

  test('refuses a table that does not exist', async () => {
    const [refusal] = await place.refusals(['inspect', 'nowhere']);
    expect(refusal).toMatchObject({ code: 'RESOURCE_MISSING', message: expect.stringContaining("table 'nowhere'") });
  });
});
