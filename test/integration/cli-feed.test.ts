import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import { CliPlace } from '../support/cli-place.ts';
import { createItemTable } from '../support/item-table.ts';
import { clientConfig } from '../support/shared-engine.ts';

const FEED = ['--feed-table', 'Feed'];

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

/** How far each log is fed. */
async function fed(words: readonly string[]): Promise<Record<string, string>> {
  const { items } = (await place.json('state', 'feed', '--map', 'logs', ...words)) as {
    items: { key: string; value: [number, number] }[];
  };
  return Object.fromEntries(items.map(({ key, value: [segment, entry] }) => [key, `${segment}/${entry}`]));
}

/** The newest position of each log but the feed. */
async function newest(words: readonly string[]): Promise<Record<string, string>> {
  const { logs } = (await place.json('list', '--newest', ...words)) as {
    logs: { log: string; newest: Position }[];
  };
  return Object.fromEntries(
    logs.filter(({ log }) => log !== FEED_LOG).map(({ log, newest }) => [log, formatPosition(newest)]),
  );
}

const row = (number: number) => ({ type: 'Set', cells: [[number, 0, `row ${number}`]] }) as const;

describe('a feed on the embedded engine', () => {
  test('a missing table is created by work and by sweep only', async () => {
    const log = await place.log();
    const refused = await place.refusals(['entries', log, ...FEED], ['sweep', '--dry-run', ...FEED]);
    expect(refused).toMatchObject([{ code: 'RESOURCE_MISSING' }, { code: 'RESOURCE_MISSING' }]);
    expect(await place.tableNames()).not.toContain('Feed');
  });

  test('the sweep feeds logs from before the feed, and work the new entries', async () => {
    const log = await place.log(row(0), row(1));
    await place.json('work', '--until-idle');
    const swept = await place.json('sweep', ...FEED);
    expect(swept).toMatchObject({ spans: 2, failures: [] });
    expect(await fed(FEED)).toEqual(await newest(FEED));
    for (let number = 2; number < 9; number++) await place.edit(log, row(number));
    const worked = await place.json('work', '--until-idle', ...FEED);
    expect(worked).toMatchObject({ spans: expect.any(Number), failures: [] });
    expect(worked.spans).toBeGreaterThan(0);
    expect(await fed(FEED)).toEqual(await newest(FEED));
    expect(await place.json('sweep', ...FEED)).toMatchObject({ spans: 0, failures: [] });
  });

  test('the feed gets snapshots by its own reducer, and a replay proves them', async () => {
    await place.json('snapshot', 'feed', ...FEED);
    const swept = await place.json('sweep', '--log', 'feed', ...FEED);
    expect(swept).toMatchObject({ jobs: [{ kind: 'snapshot', log: FEED_LOG, outcome: 'built' }], failures: [] });
    expect(await place.json('replay', 'feed', ...FEED)).toMatchObject({ equal: true });
    expect(await place.json('verify', 'feed', ...FEED)).toMatchObject({ problems: [] });
    const { snapshots } = (await place.json('snapshots', 'feed', ...FEED)) as { snapshots: object[] };
    expect(snapshots[0]).toMatchObject({ root: { reducer: { name: 'feed', version: 1 } } });
  });

  test('an epoch is archived, expires and stays readable', async () => {
    const before = await fed(FEED);
    await place.json('segment', 'feed', ...FEED);
    await place.json('sweep', '--log', 'feed', ...FEED);
    expect(await place.json('archive', 'feed', '0', ...FEED)).toMatchObject({ segments: [{ outcome: 'archived' }] });
    await place.json('expire', 'feed', '0', '--expire', 'delete', '--grace', '0s', ...FEED);
    expect(await place.json('status', 'feed', ...FEED)).toMatchObject({ logs: [{ segments: 2, expired: 1 }] });
    // Both segments and the first entry of the second epoch are left.
    expect(await place.items('Feed')).toHaveLength(3);
    await place.json('collect', 'feed', ...FEED);
    expect(await place.json('verify', 'feed', ...FEED)).toMatchObject({ archived: 1, problems: [] });
    expect(await place.json('replay', 'feed', ...FEED)).toMatchObject({ equal: true });
    expect(await fed(FEED)).toEqual(before);
  });

  test('without the table of a feed, feed is no name', async () => {
    const [refused] = await place.refusals(['entries', 'feed']);
    expect(refused).toMatchObject({ code: 'LOG_ID_INVALID' });
  });
});

test('items of a mapped log are fed by their positions, also in logs that nobody registered', async () => {
  const file = join(place.directory, 'mapping.json');
  await writeFile(
    file,
    JSON.stringify({
      partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
      sortKey: { name: 'sk', type: 'N', first: 0 },
      type: 'type',
      version: { constant: 1 },
      body: 'payload',
    }),
  );
  await writeFile(join(place.directory, 'idle.mjs'), "export default { name: 'idle', version: 1, fold() {} };");
  const db = new DynamoDBClient(clientConfig(place.endpoint));
  const put = async (id: string, numbers: number): Promise<void> => {
    for (let n = 0; n < numbers; n++) {
      const item = { pk: { S: `order#${id}` }, sk: { N: String(n) }, type: { S: 'Paid' }, payload: { S: 'one' } };
      await db.send(new PutItemCommand({ TableName: 'orders', Item: item }));
    }
  };
  await createItemTable(db, 'orders', { stream: 'NEW_IMAGE' });
  const words = ['--entry-table', 'orders', '--segment-table', 'OrderSegment', '--mapping', file];
  words.push('--reducer', join(place.directory, 'idle.mjs'), '--feed-table', 'OrderFeed');
  const sizes = ['--snapshot-every-entries', '4', '--segment-every-entries', '8'];
  await put('1', 21);
  await put('2', 3);
  // The feed names the logs of this table only.
  const worked = await place.json('work', '--until-idle', ...sizes, ...words);
  expect(worked).toMatchObject({ spans: 2, failures: [] });
  expect(await fed(words)).toEqual({ 1: '2/6', 2: '0/3' });
  expect(await fed(words)).toEqual(await newest(words));
  expect(await place.json('sweep', ...sizes, ...words)).toMatchObject({ spans: 0, failures: [] });
  db.destroy();
});
