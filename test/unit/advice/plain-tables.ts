import { join } from 'node:path';
import { CreateTableCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { expect } from 'vitest';
import { type Cases, quoted } from './case.ts';
import { filesOfPlace, here, withDb } from './commands.ts';

const BIG = '12345678901234567890';

/**
 * Makes a plain table with one item, and tables for its revisions.
 * @returns options that name them
 */
async function plainTable(name: string, id: { S: string } | { N: string } = { S: 'a' }): Promise<string[]> {
  await withDb(async (db) => {
    const [type = 'S'] = Object.keys(id);
    await db.send(
      new CreateTableCommand({
        TableName: name,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{ AttributeName: 'id', AttributeType: type === 'N' ? 'N' : 'S' }],
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      }),
    );
    await db.send(new PutItemCommand({ TableName: name, Item: { id } }));
  });
  const tables = ['--entry-table', `${name}-entries`, '--segment-table', `${name}-segments`];
  await here('create', ...tables);
  return tables;
}

function compare(name: string, tables: readonly string[]): Promise<unknown> {
  return here('table', 'compare', '--table', name, '--wait', '0s', ...tables);
}

/** How to follow each piece of advice about a plain table on the command line. */
export const PLAIN_TABLES: Cases = {
  'Leave out --mapping': async (refused) => {
    const words = ['table', 'export', '--output', join(filesOfPlace(), 'unmapped.json')];
    await refused(() => here(...words, '--mapping', 'castore'));
    const tables = await plainTable('unmapped');
    await compare('unmapped', tables);
    await here(...words, ...tables);
  },
  "Write a time, such as '2024-01-31' or '2024-01-31T08:00:00Z'": async (refused) => {
    const tables = await plainTable('timely');
    await compare('timely', tables);
    const words = ['table', 'export', '--output', join(filesOfPlace(), 'timely.json.gz'), ...tables];
    for (const time of quoted(await refused(() => here(...words, '--at', '0/7'))).slice(-2)) {
      expect(await here(...words, '--at', time)).toMatchObject({ items: 0 });
    }
  },
  "Check --table; 'logfold table compare --table NAME' records the items of a table": async (refused) => {
    const tables = await plainTable('unrecorded');
    const words = ['table', 'export', '--output', join(filesOfPlace(), 'unrecorded.json'), ...tables];
    await refused(() => here(...words));
    const advice = await refused(() => here(...words, '--table', 'unrecorded'));
    const [, command = ''] = /'logfold (.*)'/.exec(advice) ?? [];
    await here(...command.replace('NAME', 'unrecorded').split(' '), '--wait', '0s', ...tables);
    expect(await here(...words, '--table', 'unrecorded')).toMatchObject({ items: 1 });
  },
  'Write the attributes of the primary key as one JSON object, such as {"id":"a"} or {"id":{"S":"a"}}': async (
    refused,
  ) => {
    const tables = await plainTable('keyed');
    await compare('keyed', tables);
    const list = (key: string) => here('table', 'revisions', key, '--table', 'keyed', ...tables);
    for (const wrong of ['id=a', '"a"', '{"id":true}', '{"a":1,"b":2,"c":3}']) {
      const advice = await refused(() => list(wrong));
      const [, plain = '', typed = ''] = /such as (\{.*\}) or (\{.*\})/.exec(advice) ?? [];
      for (const key of [plain, typed]) {
        expect(await list(key)).toMatchObject({
          revisions: [{ revision: 1, change: 'Gap', item: { id: { S: 'a' } } }],
        });
      }
    }
  },
  'Write it as {"N":"DIGITS"}': async (refused) => {
    const tables = await plainTable('numbered', { N: BIG });
    await compare('numbered', tables);
    const list = (id: string) => here('table', 'revisions', `{"id":${id}}`, '--table', 'numbered', ...tables);
    const advice = await refused(() => list(BIG));
    const [typed = ''] = /\{.*\}/.exec(advice) ?? [];
    expect(await list(typed.replace('DIGITS', BIG))).toMatchObject({ key: { id: { N: BIG } } });
  },
  "Check --table, the key and its types; 'logfold table compare' records items that are older than the stream": async (
    refused,
  ) => {
    const tables = await plainTable('older');
    const list = () => here('table', 'revisions', '{"id":"a"}', '--table', 'older', ...tables);
    await refused(list);
    await compare('older', tables);
    await list();
  },
};
