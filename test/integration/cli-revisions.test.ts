import { join } from 'node:path';
import {
  DeleteItemCommand,
  DynamoDBClient,
  PutItemCommand,
  type StreamSpecification,
  UpdateTableCommand,
} from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { runCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const TABLE = 'customers';
const WORK = ['work', '--until-idle', '--revisions-of', TABLE, '--actor', 'by'];

let place: CliPlace;
let dynamodb: DynamoDBClient;

beforeAll(async () => {
  place = await CliPlace.open();
  dynamodb = new DynamoDBClient(clientConfig(place.endpoint));
  await createItemTable(dynamodb, TABLE, { stream: 'NEW_AND_OLD_IMAGES' });
});
afterAll(async () => {
  dynamodb.destroy();
  await place.close();
});

const keyOf = (pk: string) => ({ pk: { S: pk }, sk: { N: '0' } });

async function put(pk: string, by: string): Promise<void> {
  await dynamodb.send(new PutItemCommand({ TableName: TABLE, Item: { ...keyOf(pk), by: { S: by } } }));
}

async function revisions(pk: string): Promise<unknown> {
  return place.json('table', 'revisions', JSON.stringify({ pk, sk: 0 }), '--table', TABLE);
}

describe('work on the embedded engine', () => {
  test('it records the changes of a plain table, and no change twice', async () => {
    await put('a', 'Ann');
    await put('a', 'Bob');
    await put('b', 'Ann');
    await dynamodb.send(new DeleteItemCommand({ TableName: TABLE, Key: keyOf('a') }));
    expect(await place.json(...WORK)).toMatchObject({ revisions: 4, gaps: 0, failures: [] });
    expect(await place.json(...WORK)).toMatchObject({ revisions: 0, gaps: 0, failures: [] });
    await put('a', 'Cid');
    expect(await place.json(...WORK)).toMatchObject({ revisions: 1, gaps: 0, failures: [] });
    expect(JSON.stringify(await revisions('a'))).toMatch(/"Ann".*"Bob".*"Delete".*"Cid"|"Cid".*"Delete".*"Bob".*"Ann"/);
  });

  test('it takes snapshots of a log with many revisions', async () => {
    for (let i = 0; i < 120; i++) await put('many', `actor ${i}`);
    const worked = await place.json(...WORK);
    expect(worked).toMatchObject({ revisions: 120, failures: [] });
    expect(worked.snapshots).toBeGreaterThan(0);
  });

  test('it records no change again if the stream is turned off and on', async () => {
    const stream = (StreamSpecification: StreamSpecification) => {
      return dynamodb.send(new UpdateTableCommand({ TableName: TABLE, StreamSpecification }));
    };
    await put('toggled', 'Ann');
    expect(await place.json(...WORK)).toMatchObject({ revisions: 1, gaps: 0 });
    const second = Math.floor(Date.now() / 1000);
    await vi.waitUntil(() => Math.floor(Date.now() / 1000) > second, { timeout: 2_000 });
    await stream({ StreamEnabled: false });
    await put('toggled', 'Bob');
    await stream({ StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' });
    await put('toggled', 'Cid');
    expect(await place.json(...WORK)).toMatchObject({ revisions: 1, gaps: 1 });
  });

  test('a comparison on the local engine says how to find out whether a change is on its way', async () => {
    const table = 'deliveries';
    await createItemTable(dynamodb, table, { stream: 'NEW_AND_OLD_IMAGES' });
    await dynamodb.send(new PutItemCommand({ TableName: table, Item: keyOf('a') }));
    const { stdout } = await runCli(['table', 'compare', '--table', table, ...place.words]);
    expect(stdout).toContain('1 difference may be a change on its way.');
    const [, work = ''] = /'logfold ([^']+)'/.exec(stdout) ?? [];
    const [, wait = ''] = /this command again with (--wait \S+)\.\n/.exec(stdout) ?? [];
    expect(await place.json(...work.split(' '))).toMatchObject({ revisions: 1, gaps: 0 });
    const again = await place.json('table', 'compare', '--table', table, ...wait.split(' '));
    expect(again).toMatchObject({ gaps: 0, waiting: 0 });
  });

  test('without --per, the logs that exist decide whether items or partition keys have logs', async () => {
    const table = 'suppliers';
    const put = (by: string) => {
      return dynamodb.send(new PutItemCommand({ TableName: table, Item: { ...keyOf('a'), by: { S: by } } }));
    };
    await createItemTable(dynamodb, table, { stream: 'NEW_AND_OLD_IMAGES' });
    const work = ['work', '--until-idle', '--revisions-of', table];
    const compare = ['table', 'compare', '--table', table, '--wait', '0s'];

    await put('Ann');
    expect(await place.json(...work, '--per', 'partition')).toMatchObject({ revisions: 1 });
    expect(await place.json(...compare)).toMatchObject({ gaps: 0 });
    await put('Bob');
    expect(await place.json(...work)).toMatchObject({ revisions: 1, gaps: 0 });

    expect(await place.json(...compare, '--per', 'item')).toMatchObject({ gaps: 1 });
    const list = ['table', 'revisions', '{"pk":"a","sk":0}', '--table', table];
    const exported = ['table', 'export', '--table', table, '--output', join(place.directory, 'suppliers.json')];
    const refused = await place.refusals(compare, work, list, exported);
    const error = { code: 'USAGE', message: expect.stringContaining('has logs of items and logs of partition keys') };
    expect(refused).toMatchObject([error, error, error, error]);
    expect((await place.json(...list, '--per', 'item')).revisions).toHaveLength(1);
    expect((await place.json(...list, '--per', 'partition')).revisions).toHaveLength(2);
    expect(await place.json(...exported, '--per', 'item')).toMatchObject({ items: 1 });
  });

  test('it refuses a table from which no revisions can be recorded', async () => {
    await createItemTable(dynamodb, 'new-only', { stream: 'NEW_IMAGE' });
    await createItemTable(dynamodb, 'streamless');
    const [work, untilIdle, option] = ['work', '--until-idle', '--revisions-of'];
    const refused = await place.refusals(
      [work, untilIdle, option, 'new-only'],
      [work, untilIdle, option, 'streamless'],
      [work, untilIdle, option, 'nowhere'],
      [...WORK, '--mapping', 'pk-sk', '--entry-table', TABLE],
    );
    expect(refused.map(({ code }) => code)).toEqual(['USAGE', 'USAGE', 'RESOURCE_MISSING', 'USAGE']);
  });

  test('it refuses the options of a plain table without the table', async () => {
    const work = ['work', '--until-idle'];
    const refused = await place.refusals([...work, '--per', 'item'], [...work, '--actor', 'by']);
    const error = { code: 'USAGE', message: '--per and --actor need --revisions-of TABLE' };
    expect(refused).toMatchObject([error, error]);
  });
});
