import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { expect } from 'vitest';
import { z } from 'zod';
import { ensureSegmentTable } from '../../../src/local/tables.ts';
import { createItemTable } from '../../support/stores/item-table.ts';
import { type Cases, commandsOf, quoted } from './case.ts';
import { filesOfPlace, here, objectOf, releaseBucket, removeObjects, withDb } from './commands.ts';

const CREATED = z.object({ log: z.string() });
const LOGS = z.object({ logs: z.union([z.number(), z.array(z.unknown())]) });

/** Creates a table of an application with the keys `KEY` and `n`, and one log of three items. */
async function createTable(db: DynamoDBClient, name: string, key = 'pk'): Promise<void> {
  await createItemTable(db, name, { keys: { [key]: 'S', n: 'N' } });
  for (const n of [0, 1, 2]) await putItem(db, name, { key, n });
}

async function putItem(db: DynamoDBClient, table: string, { key = 'pk', n }: { key?: string; n: number }) {
  const Item = { [key]: { S: 'order#1' }, n: { N: String(n) }, type: { S: 'Paid' }, payload: { M: {} } };
  await db.send(new PutItemCommand({ TableName: table, Item }));
}

/** Makes a table of an application, and a mapping for it. @returns options with both */
async function mapped(name: string): Promise<string[]> {
  await releaseBucket();
  await withDb((db) => createTable(db, name));
  const file = join(filesOfPlace(), `${name}.json`);
  await here('inspect', name, '--output', file);
  return ['--entry-table', name, '--segment-table', `${name}-segments`, '--mapping', file];
}

/** Writes a module with a reducer for any entry. @returns its path */
async function counting(): Promise<string> {
  const path = join(filesOfPlace(), 'counting.mjs');
  await writeFile(path, "export default { name: 'counting', version: 1, fold() {} };");
  return path;
}

/**
 * Writes a changed copy of the mapping in the last of some options.
 * @returns the options with it
 */
async function remapped(words: readonly string[], name: string, change: object): Promise<string[]> {
  const document = z.looseObject({}).parse(JSON.parse(await readFile(words.at(-1) ?? '', 'utf8')));
  const file = join(filesOfPlace(), `${name}.json`);
  await writeFile(file, JSON.stringify({ ...document, ...change }));
  return [...words.slice(0, -1), file];
}

const CASES: Cases = {
  "Give --mapping FILE and --entry-table '…', or use another bucket or directory for other logs": async (refused) => {
    const words = await mapped('claimed');
    await here('adopt', ...words);
    const [, mapping = '', name = ''] =
      /(--mapping) FILE and (--entry-table '[^']+')/.exec(await refused(() => here('create'))) ?? [];
    expect(words.join(' ')).toContain(name.replaceAll("'", ''));
    expect(words).toContain(mapping);
    await here('status', ...words);
    await releaseBucket();
    await here('create');
  },
  'Use another Segment table and another bucket or directory for the logs of the mapping': async (refused) => {
    const [entry = '', name = '', option = '', segments = '', ...words] = await mapped('beside');
    await releaseBucket();
    await here('create');
    await refused(() => here('adopt', entry, name, ...words));
    await refused(() => here('work', '--until-idle', entry, name, ...words));
    // The existing logs are not shut out.
    await here('list');
    await here('adopt', entry, name, option, segments, ...words);
    await releaseBucket();
  },
  "If table '…' was restored from '…', run 'logfold adopt --move-claim' with the options of this command. Otherwise use another bucket":
    async (refused) => {
      const [entry = '', name = '', ...words] = await mapped('lost');
      await here('adopt', entry, name, ...words);
      await withDb((db) => createTable(db, 'restored'));
      const restored = [entry, 'restored', ...words];
      const [move = []] = commandsOf(await refused(() => here('status', ...restored)));
      expect(await here(...move, ...restored)).toMatchObject({ from: name, to: 'restored' });
      await here('status', ...restored);
      await expect(here('status', entry, name, ...words)).rejects.toMatchObject({ code: 'BUCKET_TAKEN' });
    },
  'Name the restored Entry table and the Segment table that was restored with it': async (refused) => {
    const [entry = '', name = '', ...words] = await mapped('moved');
    await here('adopt', entry, name, ...words);
    await withDb((db) => createItemTable(db, 'empty', { keys: { pk: 'S', n: 'N' } }));
    await refused(() => here('adopt', '--move-claim', entry, 'empty', ...words));
    await here('adopt', '--move-claim', entry, name, ...words);
  },
  "Run 'logfold adopt' with the mapping that made its snapshots, which stores it": async (refused) => {
    const words = await mapped('unnamed');
    await here('adopt', ...words);
    await releaseBucket();
    const [adopt = []] = commandsOf(await refused(() => here('adopt', '--replace-mapping', ...words)));
    await here(...adopt, ...words);
    await here('adopt', '--replace-mapping', ...words);
  },
  'Use another Segment table and another bucket for the new mapping': async (refused) => {
    const words = await mapped('other-keys');
    await here('adopt', ...words);
    const sortKey = { name: 'n', type: 'N', first: 1 };
    const changed = await remapped(words, 'other-keys-1', { sortKey });
    await refused(() => here('adopt', '--replace-mapping', ...changed));
    await releaseBucket();
    changed[3] = 'yet-other-segments';
    await withDb((db) => putItem(db, 'other-keys', { n: 4 }));
    await here('adopt', ...changed).catch((error: unknown) =>
      expect(error).not.toMatchObject({ code: 'MAPPING_DIFFERS' }),
    );
  },
  'Nothing was changed. Keep the old mapping, or use another Segment table and another bucket for the new one': async (
    refused,
  ) => {
    const words = await mapped('differing');
    await here('adopt', ...words);
    const changed = await remapped(words, 'differing-2', { version: { constant: 2 } });
    await refused(() => here('adopt', '--replace-mapping', ...changed));
    await here('status', ...words);
    await releaseBucket();
    changed[3] = 'differing-2-segments';
    await here('adopt', ...changed);
  },
  "Nothing was changed. Name the Segment table of these logs. If there are no logs yet, remove the objects '…' and '…' from the bucket: the next registration writes them again":
    async (refused) => {
      const words = await mapped('compared');
      await here('adopt', ...words);
      const changed = await remapped(words, 'compared-2', { type: { constant: 'Paid' } });
      const elsewhere = changed.with(3, 'compared-elsewhere');
      await withDb((db) => ensureSegmentTable(db, 'compared-elsewhere'));
      const objects = quoted(await refused(() => here('adopt', '--replace-mapping', ...elsewhere)));
      expect(await here('adopt', '--replace-mapping', ...changed)).toMatchObject({ replaced: true, items: 3 });
      await removeObjects(objects);
      await here('adopt', ...words.with(3, 'compared-elsewhere'));
    },
  "Use the mapping that the object '…' of the bucket has in its field 'mapping'. To change it, run 'logfold adopt --replace-mapping' with the new one, which first compares all items":
    async (refused) => {
      const words = await mapped('renamed-part');
      await here('adopt', ...words);
      const changed = await remapped(words, 'renamed-part-2', { type: { constant: 'Paid' } });
      const advice = await refused(() => here('status', ...changed));
      const [object = '', field = ''] = quoted(advice);
      const stored = z.record(z.string(), z.unknown()).parse(JSON.parse(await objectOf(object)));
      const file = join(filesOfPlace(), 'stored-part.json');
      await writeFile(file, JSON.stringify(stored[field]));
      await here('status', ...words.slice(0, -1), file);
      const [replace = []] = commandsOf(advice);
      expect(await here(...replace, ...changed)).toMatchObject({ replaced: true, items: 3 });
      await here('status', ...changed);
      await expect(here('status', ...words)).rejects.toMatchObject({ code: 'MAPPING_DIFFERS' });
    },
  "Add 'ttl' to the mapping, or use --expire delete; nothing was changed": async (refused) => {
    const words = await mapped('without-ttl');
    await here('adopt', ...words);
    const sweep = (how: string) => here('sweep', '--dry-run', '--expire', how, ...words);
    const [, how = ''] = /--expire (\w+)/.exec(await refused(() => sweep('ttl'))) ?? [];
    await sweep(how);
  },
  "Append with your application's own code; 'logfold sweep' builds the snapshots that are due": async (refused) => {
    const words = await mapped('read-only');
    await here('adopt', ...words);
    await refused(() => here('snapshot', '1', ...words));
    await withDb((db) => putItem(db, 'read-only', { n: 3 }));
    await here('sweep', '--dry-run', ...words);
  },
  "Check the name, or create the table at the endpoint that 'logfold engine' prints; nothing was created": async (
    refused,
  ) => {
    const [, , , , ...mapping] = await mapped('to-copy');
    const words = ['--entry-table', 'not-there-yet', '--segment-table', 'not-there-yet-segments', ...mapping];
    await refused(() => here('adopt', ...words));
    await withDb((db) => createTable(db, 'not-there-yet'));
    expect(LOGS.parse(await here('adopt', ...words)).logs).toBe(1);
  },
  "Check the name, or run 'logfold adopt', which creates it; nothing was created": async (refused) => {
    const words = await mapped('not-adopted');
    await refused(() => here('status', ...words));
    await here('adopt', ...words);
    expect(LOGS.parse(await here('status', ...words)).logs).toHaveLength(1);
  },
  'Give --entry-table NAME': async (refused) => {
    const [option = '', name = '', ...words] = await mapped('not-named');
    const advice = await refused(() => here('adopt', ...words));
    expect(advice).toContain(option);
    await here('adopt', option, name, ...words);
  },
  "Nothing was changed. Give --reducer FILE; 'logfold inspect TABLE' prints a reducer to begin with": async (
    refused,
  ) => {
    const words = await mapped('without-reducer');
    await here('adopt', ...words);
    await refused(() => here('state', '1', ...words));
    await here('state', '1', ...words, '--reducer', await counting());
  },
  "Give --mapping FILE; 'logfold inspect TABLE' proposes one": async (refused) => {
    const [entry = '', name = '', segment = '', segments = '', ...mapping] = await mapped('without-mapping');
    const words = ['adopt', entry, name, segment, segments];
    await refused(() => here(...words));
    await here(...words, ...mapping);
  },
  'Give the mapping if this is a table of your application, or choose another table name': async (refused) => {
    const words = await mapped('forgotten-mapping');
    await refused(() => here('status', '--entry-table', 'forgotten-mapping'));
    await here('adopt', ...words);
    await releaseBucket();
    await here('create', '--entry-table', 'another-table');
  },
  "Give well-formed text of 1 to … bytes in UTF-8 that is neither 'feed' nor like a UUID, or the id that 'logfold create' printed":
    async (refused) => {
      const words = await mapped('log-of-mapping');
      await here('adopt', ...words);
      const [create = []] = commandsOf(await refused(() => here('status', 'feed')));
      await releaseBucket();
      const { log } = CREATED.parse(await here(...create));
      await here('status', log);
      const chosen = CREATED.parse(await here(...create, 'org-7/budget'));
      await here('status', chosen.log);
      await here('status', '1', ...words);
    },
  "Name a file with a mapping, which 'logfold inspect TABLE --output FILE' writes, or one of …": async (refused) => {
    const [entry = '', name = '', segment = '', segments = ''] = await mapped('without-file');
    const file = join(filesOfPlace(), 'no-such-file.json');
    const words = ['adopt', entry, name, segment, segments, '--mapping', file];
    await refused(() => here(...words));
    await here('inspect', name, '--output', file);
    await here(...words);
  },
  "Name another table or another mapping: 'logfold inspect …' proposes one": async (refused) => {
    const words = await mapped('right-table');
    await withDb((db) => createTable(db, 'wrong-table', 'id'));
    const other = (mapping: string) => [
      'adopt',
      ...['--entry-table', 'wrong-table', '--segment-table', 'wrong-table-segments', '--mapping', mapping],
    ];
    const advice = await refused(() => here(...other(words.at(-1) ?? '')));
    const [, table = ''] = /logfold inspect ([\w-]+)/.exec(advice) ?? [];
    const file = join(filesOfPlace(), 'other.json');
    await here('inspect', table, '--output', file);
    await releaseBucket();
    await here(...other(file));
    await releaseBucket();
    await here('adopt', ...words);
  },
  'Replay the log again when it has a snapshot; until then there is nothing to compare': async (refused) => {
    const words = [...(await mapped('not-due')), '--reducer', await counting()];
    await here('adopt', '--snapshot-every-entries', '4', '--segment-every-entries', '8', ...words);
    await here('sweep', '--log', '1', ...words);
    await refused(() => here('replay', '1', ...words));
    await withDb((db) => putItem(db, 'not-due', { n: 3 }));
    await here('sweep', '--log', '1', ...words);
    await here('replay', '1', ...words);
  },
  'Try again when the next segment has begun; nothing was changed': async (refused) => {
    const words = [...(await mapped('open-segment')), '--reducer', await counting()];
    await here('adopt', '--snapshot-every-entries', '4', '--segment-every-entries', '4', ...words);
    await refused(() => here('archive', '1', '0', ...words));
    await withDb((db) => putItem(db, 'open-segment', { n: 3 }));
    await here('sweep', '--log', '1', '--keep-segments', '1000', ...words);
    await here('archive', '1', '0', ...words);
  },
};

/**
 * How to follow each piece of advice about an application's table on the command line. Each case
 * leaves a bucket that belongs to no mapping.
 */
export const MAPPED_TABLES: Cases = Object.fromEntries(
  Object.entries(CASES).map(([advice, follow]) => [
    advice,
    async (refused) => {
      try {
        await follow(refused);
      } finally {
        await releaseBucket();
      }
    },
  ]),
);
