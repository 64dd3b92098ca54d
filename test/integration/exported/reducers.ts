import { expect } from 'vitest';
import * as z from 'zod';
import type { Document } from '../../../src/client/document.ts';
import type * as collectionsEntry from '../../../src/exports/collections.ts';
import type * as itemsEntry from '../../../src/exports/items.ts';
import type * as spreadsheetEntry from '../../../src/exports/spreadsheet.ts';
import type { ImageChange } from '../../../src/revisions/image-change.ts';
import type { Collection, Collections } from '../../../src/state/collections/collections.ts';
import type { RevisionLogs } from '../../../src/workers/revisions/revision-logs.ts';
import { foldEntryAt } from '../../support/logs.ts';
import type { CallsOf, MemberCalls } from './recorder.ts';
import { CORNER, type World } from './world.ts';

/** A log of a project with two tasks, one of which was deleted. */
async function project(world: World): Promise<Document> {
  const { collections } = world.collections;
  const document = await world.logs.open(await world.logs.create(), { reducer: collections });
  const put = (body: object) => ({ type: 'Put', version: 1, body: { ...body } });
  await document.append([
    put({ name: 'title', value: 'My project' }),
    put({ collection: 'tasks', id: 'a', value: 'buy' }),
    put({ collection: 'tasks', id: 'b', value: 'sell' }),
    { type: 'Delete', version: 1, body: { collection: 'tasks', id: 'b' } },
  ]);
  return document;
}

async function reader(world: World): Promise<Collections> {
  const { state } = await project(world);
  return world.record('Collections', world.collections.collectionsOf(state));
}

async function tasks(world: World): Promise<Collection> {
  return world.record('Collection', (await reader(world)).collection('tasks'));
}

export const COLLECTIONS: CallsOf<typeof collectionsEntry> = {
  collections: {
    fold: async (world) => expect((await project(world)).number).toBe(4),
  },
  collectionsOf: async (world) => {
    const { state } = await project(world);
    expect(await world.collections.collectionsOf(state).names()).toEqual(['tasks']);
  },
  mergePatch: (world) =>
    expect(world.collections.mergePatch({ a: 1, b: { c: 2 } }, { a: null, b: { d: 3 } })).toEqual({
      b: { c: 2, d: 3 },
    }),
  Collections: {
    scalar: async (world) => expect(await (await reader(world)).scalar('title')).toBe('My project'),
    scalars: async (world) => expect(await (await reader(world)).scalars()).toEqual({ title: 'My project' }),
    names: async (world) => expect(await (await reader(world)).names()).toEqual(['tasks']),
    collection: async (world) => expect(await (await reader(world)).collection('none').version()).toBe(0),
  },
  Collection: {
    name: async (world) => expect((await tasks(world)).name).toBe('tasks'),
    version: async (world) => expect(await (await tasks(world)).version()).toBe(3),
    get: async (world) => expect(await (await tasks(world)).get('a')).toEqual({ id: 'a', version: 1, value: 'buy' }),
    items: async (world) => expect(await Array.fromAsync((await tasks(world)).items(), ({ id }) => id)).toEqual(['a']),
    changesSince: async (world) =>
      expect(await Array.fromAsync((await tasks(world)).changesSince(1))).toEqual([
        { id: 'b', version: 2, value: undefined },
      ]),
  },
};

const SOURCE = { table: 'Parts', keyNames: ['id'], per: 'item', actor: 'changedBy' } as const;
const KEYS = { id: { S: 'bolt' } };
const RED = { ...KEYS, color: { S: 'red' }, changedBy: { S: 'ann' } };
const CREATED = 1_795_341_600;
const STREAM = '2026-11-22T10:00:00.000';

function revisionsOf(world: World): RevisionLogs {
  const { nativePlatform: platform } = world.aws;
  return world.record('RevisionLogs', new world.logfold.RevisionLogs({ logs: world.logs, source: SOURCE, platform }));
}

const CHANGES: readonly [ImageChange, ImageChange] = [
  { change: 'Put', keys: KEYS, newImage: RED, stream: STREAM, sequence: '100', created: CREATED },
  { change: 'Delete', keys: KEYS, oldImage: RED, stream: STREAM, sequence: '200', created: CREATED + 60 },
];

/** The log of an item that was put and deleted. Only the first call records it. */
async function part(world: World): Promise<Document> {
  const revisions = revisionsOf(world);
  await world.logfold.recordRevisions({ logs: revisions }, CHANGES);
  return world.logs.open(revisions.logOf(KEYS), { reducer: world.items.items });
}

export const ITEMS: CallsOf<typeof itemsEntry> = {
  items: {
    fold: async (world) => expect((await part(world)).number).toBe(2),
    validate: async (world) => {
      const { state } = await part(world);
      const early = { ...foldEntryAt(3, 'Put', null), created: CREATED };
      expect(() => world.items.items.validate?.(early, state.draft)).toThrow('is before');
    },
  },
  foldsItems: (world) => {
    const { items } = world.items;
    expect(['items', 'sheets'].map((name) => world.items.foldsItems({ ...items, name }))).toEqual([true, false]);
  },
  itemKey: (world) => expect(world.items.itemKey(SOURCE, RED)).toBe('{"id":{"S":"bolt"}}'),
  lastRevisions: async (world) => {
    const { state } = await part(world);
    const { last, time } = await world.items.lastRevisions(state, world.items.itemKey(SOURCE, KEYS));
    expect([last?.change, last?.revision, time]).toEqual(['Delete', 2, CREATED + 60]);
  },
  liveItems: async (world) => {
    const document = await part(world);
    expect(await Array.fromAsync(world.items.liveItems(document.state))).toEqual([]);
    const before = await document.at({ number: 2 });
    expect(await Array.fromAsync(world.items.liveItems(before), ({ item }) => item)).toEqual([RED]);
  },
  readItemRevision: async (world) => {
    const history = (await part(world)).history({ map: 'items', key: world.items.itemKey(SOURCE, KEYS) });
    const read = await Array.fromAsync(history, ({ value = null }) => world.items.readItemRevision(value));
    expect(read).toMatchObject([
      { revision: 1, change: 'Put', actor: 'ann' },
      { revision: 2, change: 'Delete' },
    ]);
  },
  sourceTableOf: async (world) => expect(world.items.sourceTableOf((await part(world)).state)).toBe('Parts'),
};

export const REVISION_LOGS: MemberCalls<RevisionLogs> = {
  source: (world) => expect(revisionsOf(world).source).toBe(SOURCE),
  logOf: (world) => expect(revisionsOf(world).logOf(RED)).toBe(revisionsOf(world).logOf(KEYS)),
  use: async (world) => {
    await part(world);
    const revisions = revisionsOf(world);
    expect(await revisions.use(revisions.logOf(KEYS), async ({ number }) => number)).toBe(2);
  },
  close: async (world) => {
    const revisions = revisionsOf(world);
    const { log } = await part(world);
    const used = await revisions.use(log, async (document) => document);
    await revisions.close();
    await expect(used.refresh()).rejects.toMatchObject({ code: 'DOCUMENT_CLOSED' });
  },
};

export const REVISIONS = {
  recordRevisions: async (world: World) => {
    await part(world);
    const again = world.logfold.recordRevisions({ logs: revisionsOf(world) }, CHANGES);
    expect(await again).toEqual({ recorded: 0, gaps: 0, failed: [] });
  },
  revisionLog: (world: World) =>
    expect(world.logfold.revisionLog(world.aws.nativePlatform, SOURCE, RED)).toBe(revisionsOf(world).logOf(KEYS)),
};

const PLACE = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };

export const SPREADSHEET: CallsOf<typeof spreadsheetEntry> = {
  spreadsheet: {
    fold: async (world) => {
      const document = await world.logs.open(world.log, { reducer: world.spreadsheet.spreadsheet });
      expect((await document.at({ number: 6 }).then((state) => state.view(CORNER)))[1]?.[0]).toBe('value 5');
    },
    rebase: async (world) => {
      const edit = { type: 'Set', version: 1, body: [[0, 0, 'Denver']] };
      const inserted = { type: 'Insert Rows', version: 1, body: [0, 2] };
      const rebased = world.spreadsheet.spreadsheet.rebase?.(edit, inserted, 'later');
      expect(await rebased).toMatchObject({ bodies: [[[2, 0, 'Denver']]] });
    },
  },
  importBody: (world) =>
    expect(world.spreadsheet.importBody({ format: 'csv', row: 1, column: 2 })).toMatchObject({ row: 1, column: 2 }),
  sheetBody: async (world) => {
    const body = world.spreadsheet.sheetBody({ type: 'Set', cells: [[7, 7, 'from sheetBody']] });
    await world.document.append({ type: 'Set', version: 1, body });
    const cell = { rows: { from: 7, to: 8 }, columns: { from: 7, to: 8 } };
    expect(await world.document.view(cell)).toEqual([['from sheetBody']]);
  },
  sheetOf: async (world) => {
    const { draft } = await world.document.at({ number: 4 });
    const cells = await Array.fromAsync(world.spreadsheet.sheetOf(draft).cells(PLACE.rows, PLACE.columns));
    expect(cells).toMatchObject([{ row: 0, column: 0, value: 'value 1' }]);
  },
  sheetRows: async (world) => {
    const { draft } = await world.document.at({ number: 6 });
    const rows = world.spreadsheet.sheetRows(world.spreadsheet.sheetOf(draft));
    expect(await Array.fromAsync(rows)).toEqual([['value 4'], ['value 5'], ['value 3']]);
  },
  cellText: (world) => expect([null, 7n, true].map(world.spreadsheet.cellText)).toEqual(['', '7', 'true']),
};

/** A reducer whose map is typed, and a log with one of its entries. */
async function votes(world: World) {
  const reducer = world.logfold.defineReducer({
    name: 'votes',
    version: 1,
    maps: { counts: world.logfold.stringMap<number>(), order: world.logfold.numberMap<string>() },
    entries: { Vote: { 1: z.string() } },
    fold: {
      Vote({ counts, order }, { body, number = 0 }) {
        counts.put(body, number);
        order.put(number, body);
      },
    },
    validate: {
      Vote(_, { body }) {
        if (body === 'coffee') throw new Error('there is no coffee');
      },
    },
    rebase: {
      Vote({ body }) {
        return { bodies: [body] };
      },
    },
  });
  const document = await world.logs.open(await world.logs.create(), { reducer });
  await document.append(reducer.entry('Vote', 1, 'tea'));
  return { document, reducer: world.record('DefinedReducer', reducer) };
}

type Votes = Awaited<ReturnType<typeof votes>>['reducer'];

export const DEFINED_REDUCER: MemberCalls<Omit<Votes, 'newEntry'>> = {
  name: async (world) => expect((await votes(world)).reducer.name).toBe('votes'),
  version: async (world) => expect((await votes(world)).reducer.version).toBe(1),
  fold: async (world) => {
    const { reducer, document } = await votes(world);
    const again = await world.logs.open(document.log, { reducer });
    expect(await reducer.mapsOf(again.state).order.get(1)).toBe('tea');
  },
  validate: async (world) => {
    const { reducer, document } = await votes(world);
    const again = await world.logs.open(document.log, { reducer });
    const refused = again.append({ type: 'Vote', version: 1, body: 'coffee' });
    await expect(refused).rejects.toMatchObject({ code: 'ENTRY_REJECTED' });
  },
  rebase: async (world) => {
    const { reducer } = await votes(world);
    const tea = { type: 'Vote', version: 1, body: 'tea' };
    expect(await reducer.rebase?.(tea, tea, 'later')).toEqual({ bodies: ['tea'] });
  },
  mapsOf: async (world) => {
    const { reducer, document } = await votes(world);
    const { counts } = reducer.mapsOf(document.state);
    expect(await Array.fromAsync(counts.items())).toEqual([{ key: 'tea', value: 1 }]);
    expect([await counts.get('tea'), await counts.count(), await counts.firstKey('a')]).toEqual([1, 1, 'tea']);
  },
  entry: async (world) =>
    expect((await votes(world)).reducer.entry('Vote', 1, 'tea')).toEqual({ type: 'Vote', version: 1, body: 'tea' }),
};
