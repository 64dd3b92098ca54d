import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { openLogs as openPageLogs } from '../../src/adapters/web/open-logs.ts';
import type { Document } from '../../src/client/document.ts';
import { UsageError } from '../../src/errors.ts';
import { openLogs as openAwsLogs } from '../../src/exports/aws.ts';
import { openLogs as openLocalLogs } from '../../src/exports/local.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { collectionsOf } from '../../src/state/collections/collections.ts';
import { defineReducer, stringMap } from '../../src/state/define-reducer.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { given } from '../../src/testing/given.ts';
import { MemoryLogs } from '../../src/testing/memory-logs.ts';
import { RevisionLogs } from '../../src/workers/revisions/revision-logs.ts';

/** A typing error that the compiler does not see, as in a program of plain JavaScript. */
const WRONG: object = { limt: 1 };
const ENTRY = { type: 'Set', version: 1, body: [[0, 0, 'a']] };
const RECTANGLE = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };

interface Opened {
  readonly logs: MemoryLogs;
  readonly log: LogId;
  readonly document: Document;
}

type Call = (opened: Opened) => unknown;

/** All public calls and objects with names, by the exported type of their options. */
const CALLS: Readonly<Record<string, Readonly<Record<string, Call>>>> = {
  AwsLogsOptions: {
    openLogs: () => openAwsLogs({ entryTable: 'E', segmentTable: 'S', bucket: 'bucket', ...WRONG }),
  },
  LocalLogsOptions: { openLogs: () => openLocalLogs({ directory: 'none', ...WRONG }) },
  PageLogsOptions: { openLogs: () => openPageLogs({ urlOf: String, send: async () => null, ...WRONG }) },
  MemoryLogsOptions: {
    openLogs: () => new MemoryLogs({ ...WRONG }),
    'division of openLogs': () => new MemoryLogs({ division: { snapshotEveryEntries: 1, ...WRONG } }),
    'retention of openLogs': () => new MemoryLogs({ retention: { keepDays: 1, ...WRONG } }),
  },
  CreateOptions: {
    create: ({ logs }) => logs.create('new', { ...WRONG }),
    createLog: ({ logs }) => logs.client.createLog('new', { ...WRONG }),
  },
  DocumentOptions: { open: ({ logs, log }) => logs.open(log, { reducer: spreadsheet, ...WRONG }) },
  ReloadLimits: {
    reloadAfter: ({ logs, log }) => logs.open(log, { reducer: spreadsheet, reloadAfter: { entries: 1, ...WRONG } }),
  },
  LogListOptions: { list: ({ logs }) => logs.list({ prefix: '', ...WRONG }).next() },
  AnswerOptions: { answer: ({ logs }) => logs.answer({}, { allows: () => true, ...WRONG }) },
  ObjectOptions: { object: ({ logs }) => logs.object('key', { allows: () => true, ...WRONG }) },
  NewEntry: {
    addEntry: ({ logs, log }) => logs.client.addEntry(log, { ...ENTRY, ...WRONG }),
    addEntries: ({ logs, log }) => logs.client.addEntries(log, [ENTRY, { ...ENTRY, ...WRONG }]),
    transact: ({ logs, log }) => logs.client.transact([{ log, entries: [{ ...ENTRY, ...WRONG }] }]),
    append: ({ document }) => document.append({ ...ENTRY, ...WRONG }),
    mutate: ({ document }) => document.mutate({ ...ENTRY, ...WRONG }),
    given: () =>
      given(spreadsheet, [{ ...ENTRY, ...WRONG }])
        .when()
        .thenState({}),
    when: () =>
      given(spreadsheet, [])
        .when({ ...ENTRY, ...WRONG })
        .thenState({}),
  },
  AppendOptions: {
    addEntry: ({ logs, log }) => logs.client.addEntry(log, ENTRY, { ...WRONG }),
    addEntries: ({ logs, log }) => logs.client.addEntries(log, [ENTRY], { ...WRONG }),
    append: ({ document }) => document.append(ENTRY, { ...WRONG }),
  },
  MutateOptions: { mutate: ({ document }) => document.mutate(ENTRY, { ...WRONG }) },
  LogAppend: { transact: ({ logs, log }) => logs.client.transact([{ log, entries: [ENTRY], ...WRONG }]) },
  SnapshotOptions: { addSnapshot: ({ logs, log }) => logs.client.addSnapshot(log, { ...WRONG }) },
  EntryTime: { startSegment: ({ logs, log }) => logs.client.startSegment(log, { ...WRONG }) },
  QueryRange: {
    query: ({ logs, log }) => logs.client.query(log, { from: 'start', ...WRONG }),
    read: ({ logs, log }) => logs.client.read(log, { from: 'start', ...WRONG }).next(),
  },
  AttributeChange: {
    updateLogAttributes: ({ logs, log }) => logs.client.updateLogAttributes(log, { set: { a: 1 }, ...WRONG }),
    updateAttributes: ({ logs, log }) =>
      logs.client.updateAttributes(log, { segment: 0, entry: 0 }, { set: { a: 1 }, ...WRONG }),
  },
  WatchOptions: { watch: ({ document }) => document.watch({ onError: () => undefined, ...WRONG }) },
  HistoryOptions: { history: ({ document }) => document.history({ row: 0, column: 0 }, { ...WRONG }).next() },
  Rectangle: { view: ({ document }) => document.view({ ...RECTANGLE, ...WRONG }) },
  AxisRange: {
    view: ({ document }) => document.view({ ...RECTANGLE, rows: { ...RECTANGLE.rows, ...WRONG } }),
  },
  LimitedRange: {
    range: ({ document }) =>
      document
        .map('cells')
        .range({ ...WRONG })
        .next(),
  },
  IdRange: {
    items: ({ document }) =>
      collectionsOf(document.state)
        .collection('a')
        .items({ ...WRONG })
        .next(),
  },
  FeedReadOptions: { read: ({ logs }) => logs.feed.read({ ...WRONG }).next() },
  FeedConsumeOptions: { consume: ({ logs }) => logs.feed.consume('group', { ...WRONG }).next() },
  FeedBatchOptions: { consumeBatches: ({ logs }) => logs.feed.consumeBatches('group', { ...WRONG }).next() },
  SheetImport: { importBody: () => importBody({ format: 'csv', ...WRONG }) },
  ReducerDefinition: {
    defineReducer: () =>
      defineReducer({ name: 'a', version: 1, maps: { a: stringMap() }, entries: {}, fold: {}, ...WRONG }),
  },
  ReducerTestOptions: { given: () => given(spreadsheet, [], { ...WRONG }) },
  ExpectedState: {
    thenState: () =>
      given(spreadsheet, [])
        .when()
        .thenState({ maps: {}, ...WRONG }),
  },
  RevisionLogsDeps: {
    RevisionLogs: ({ logs }) => new RevisionLogs({ logs, source: SOURCE, platform: nativePlatform, ...WRONG }),
  },
  SourceTable: {
    RevisionLogs: ({ logs }) => new RevisionLogs({ logs, source: { ...SOURCE, ...WRONG }, platform: nativePlatform }),
  },
};

const SOURCE = { table: 'Parts', keyNames: ['id'] as const, per: 'item' as const };

/** Types that no call of an application takes as they are, by the reason. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  'openLogs has them with others': ['LogsSettings', 'UrlBlobStoreOptions'],
  'reads of drafts have it, and a fold must not fail because of a name that an earlier release ignored': [
    'DraftOptions',
    'KeyRange',
  ],
  'for programs that wire the stores themselves': [
    'DynamoDbLogStoreOptions',
    'FilesystemBlobStoreOptions',
    'S3BlobStoreOptions',
    'SdkOptions',
  ],
};

async function open(): Promise<Opened> {
  const logs = new MemoryLogs({ reducer: spreadsheet });
  const log = await logs.create('log');
  return { logs, log, document: await logs.open(log, { reducer: spreadsheet }) };
}

describe.each(Object.entries(CALLS))('%s', (_, calls) => {
  test.each(Object.entries(calls))('%s refuses a wrong name, and changes nothing', async (__, call) => {
    const opened = await open();
    const refused = await Promise.resolve(opened)
      .then(call)
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(refused).toBeInstanceOf(UsageError);
    expect(String(refused)).toContain("'limt'");
    expect(String(refused)).toContain('Give only ');
    const { entries } = await opened.logs.client.query(opened.log, { from: 'start' });
    expect((await Array.fromAsync(entries)).flat()).toHaveLength(1);
    expect(await Array.fromAsync(opened.logs.list())).toHaveLength(1);
    expect(await opened.logs.client.logAttributes(opened.log)).toEqual({});
    expect(opened.document.pending).toEqual([]);
  });
});

test('each exported type of options has a call here', async () => {
  const folder = new URL('../../src/exports/', import.meta.url);
  const files = (await readdir(folder)).filter((file) => file.endsWith('.ts'));
  const sources = await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')));
  const exported = sources.flatMap((text) =>
    Array.from(text.matchAll(/\b([A-Z]\w+(?:Options|Settings|Range))\b(?=,| \}| extends)/g), ([, name = '']) => name),
  );
  const known = [...Object.keys(CALLS), ...Object.values(OTHERS).flat()];
  expect([...new Set(exported)].filter((name) => !known.includes(name))).toEqual([]);
});

test.each(['send', 'urlOf'])('openLogs of a page without %s is refused', async (name) => {
  const options = { send: async () => null, urlOf: String, [name]: undefined };
  await expect(openPageLogs(options)).rejects.toMatchObject({ code: 'USAGE', reason: expect.stringContaining(name) });
});
