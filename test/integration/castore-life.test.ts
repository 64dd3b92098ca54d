import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DeleteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { openLogs } from '../../src/exports/local.ts';
import { parseMapping, readMapping } from '../../src/mapping/schema-mapping.ts';
import { type Attributes, CliPlace } from '../support/cli-place.ts';
import { createCastoreTable, pushEvents } from '../support/stores/castore.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

/** Counts the events of each type, and remembers the payload of the newest one. */
const REDUCER = `export default {
  name: 'moves',
  version: 1,
  async fold(draft, { type, body }) {
    const counts = draft.map('counts', 'string');
    counts.put(type, Number((await counts.get(type)) ?? 0) + 1);
    draft.map('newest', 'string').put('payload', body);
  },
};
`;
const TABLE = 'events';
const COPY = 'copy';
/** The aggregates of the event store SHIPS. Another event store is in the same table. */
const LOGS = ['ada', 'bob', 'eve'];
/** Segments of 20 events, with a snapshot after each tenth. */
const DIVISION = ['--snapshot-every-entries', '10', '--segment-every-entries', '20'];
const RETENTION = ['--keep-segments', '2', '--keep-days', '0', '--expire', 'ttl', '--grace', '1h'];

let place: CliPlace;
let directory: string;
let db: DynamoDBClient;
let mapped: string[];
/** The table as Castore wrote it, by key. */
let written: ReadonlyMap<string, string>;

beforeAll(async () => {
  place = await CliPlace.open();
  directory = await mkdtemp(join(tmpdir(), 'logfold-castore-'));
  db = new DynamoDBClient(clientConfig(place.endpoint));
  await createCastoreTable(db, TABLE);
  for (const log of LOGS) await push(log, { from: 1, count: 65 });
  await pushEvents(db, { table: TABLE, store: 'PORTS', aggregate: 'ada' }, { from: 1, count: 30 });
  written = linesOf(await place.items(TABLE));
  await writeFile(join(directory, 'reducer.mjs'), REDUCER);
  mapped = ['--entry-table', TABLE, '--mapping', join(directory, 'mapping.json')];
});
afterAll(async () => {
  db.destroy();
  await place.close();
  await rm(directory, { recursive: true });
});

function push(aggregate: string, events: { readonly from: number; readonly count: number }): Promise<void> {
  return pushEvents(db, { table: TABLE, store: 'SHIPS', aggregate }, events);
}

/** Runs a command on the events, with the reducer. */
function logfold(...words: readonly string[]): Promise<Record<string, unknown>> {
  return place.json(...words, ...mapped, '--reducer', join(directory, 'reducer.mjs'));
}

/** Each item as a line of all its attributes, by its key. */
function linesOf(items: readonly Attributes[]): ReadonlyMap<string, string> {
  return new Map(items.map((item) => [`${item.aggregateId?.S} ${item.version?.N}`, encodeItemLine(item)]));
}

// Each test continues where the one before it ended.
describe('a table that Castore wrote', () => {
  test('gets the mapping of its largest event store proposed', async () => {
    const file = join(directory, 'mapping.json');
    const found = await place.json('inspect', TABLE, '--output', file);
    expect(found).toMatchObject({
      recognized: 'Castore',
      misfits: [{ reason: expect.stringContaining('the partition key is PORTS#{id}'), count: 30 }],
    });
    const proposed: object = JSON.parse(await readFile(file, 'utf8'));
    expect(parseMapping({ ...proposed, ttl: undefined })).toEqual(readMapping('castore+metadata:SHIPS'));
    expect(proposed).toMatchObject({ ttl: 'expiresAt' });
  });

  test('has all its logs adopted, and builds a snapshot of each', async () => {
    expect(await logfold('adopt', ...DIVISION)).toMatchObject({ logs: 3, registered: 3, unfit: 0, failed: 0 });
    await logfold('work', '--until-idle', ...DIVISION);
    await logfold('sweep', ...DIVISION);
    for (const log of LOGS) {
      expect(await logfold('status', log)).toMatchObject({
        logs: [{ lastSnapshot: { segment: 3, entry: 0 }, lagEntries: 5, stopped: null }],
      });
      expect(await logfold('replay', log)).toMatchObject({ equal: true });
    }
    expect(linesOf(await place.items(TABLE))).toEqual(written);
  });

  test('opens as documents, with the events that Castore appends later', async () => {
    await push('bob', { from: 66, count: 7 });
    const logs = await openLogs({
      directory: place.directory,
      entryTable: TABLE,
      mapping: JSON.parse(await readFile(join(directory, 'mapping.json'), 'utf8')),
    });
    const { default: reducer } = await import(join(directory, 'reducer.mjs'));
    const document = await logs.open('bob', { reducer });
    expect(await document.map('counts').get('MOVED')).toBe(71);
    expect(await document.map('newest').get('payload')).toMatchObject({ order: 72, deep: { none: null, yes: true } });
    await push('bob', { from: 73, count: 1 });
    await document.refresh();
    expect(await document.map('counts').get('MOVED')).toBe(72);
    await logs.close();
    written = linesOf(await place.items(TABLE));
  });

  test('has old segments archived, and stamps only their events for TTL', async () => {
    for (let i = 0; i < 3; i++) await logfold('sweep', ...DIVISION, ...RETENTION);
    const stamped = new Set<string>();
    for (const item of await place.items(TABLE)) {
      const { expiresAt, ...rest } = item;
      const key = `${item.aggregateId?.S} ${item.version?.N}`;
      expect(encodeItemLine(rest)).toBe(written.get(key));
      if (expiresAt !== undefined) stamped.add(key);
    }
    // Segments 0 and 1 of each log have the versions 1 to 40. The two newest segments stay.
    const old = [...written.keys()].filter((key) => key.startsWith('SHIPS#') && Number(key.split(' ')[1]) <= 40);
    expect([...stamped].sort()).toEqual(old.sort());
  });

  test('keeps its state when TTL has deleted them', async () => {
    for (const { aggregateId, version, expiresAt } of await place.items(TABLE)) {
      if (expiresAt === undefined || aggregateId === undefined || version === undefined) continue;
      await db.send(new DeleteItemCommand({ TableName: TABLE, Key: { aggregateId, version } }));
    }
    for (const log of LOGS) expect(await logfold('replay', log)).toMatchObject({ equal: true });
    expect(await logfold('verify', 'ada')).toMatchObject({ problems: [] });
  });

  test('has archived segments restored into another table, byte for byte', async () => {
    await createItemTable(db, COPY, { keys: { aggregateId: 'S', version: 'N' } });
    const copies = ['--to-entry-table', COPY, '--to-segment-table', 'copy-segments'];
    for (const segment of ['0', '1']) await logfold('restore', 'eve', segment, ...copies);
    const restored = linesOf(await place.items(COPY));
    const expected = [...written].filter(([key]) => key.startsWith('SHIPS#eve ') && Number(key.split(' ')[1]) <= 40);
    expect(restored).toEqual(new Map(expected));
    expect(restored.size).toBe(40);
  });

  test('has deleted events restored in place, byte for byte', async () => {
    for (const segment of ['0', '1']) await logfold('restore', 'ada', segment);
    const ofLog = (lines: ReadonlyMap<string, string>) =>
      [...lines].filter(([key]) => key.startsWith('SHIPS#ada ')).sort();
    expect(ofLog(linesOf(await place.items(TABLE)))).toEqual(ofLog(written));
    expect(await logfold('replay', 'ada')).toMatchObject({ equal: true });
  });
});
