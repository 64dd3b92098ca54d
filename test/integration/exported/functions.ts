import { expect } from 'vitest';
import { isLogfoldError, LogNotFoundError } from '../../../src/errors.ts';
import type * as logfoldEntry from '../../../src/exports/logfold.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { readRectangle, sheetOf } from '../../../src/state/spreadsheet/sheet-reads.ts';
import { DOCUMENT, DOCUMENT_STATE, FEED, FROZEN_MAP, FROZEN_STATE, LOGS, PAST_STATE } from './clients.ts';
import { LOG_CLIENT } from './log-client.ts';
import type { CallsOf } from './recorder.ts';
import { REVISION_LOGS, REVISIONS } from './reducers.ts';
import { ARCHIVED_LOG_STORE, REMOTE_LOG_STORE, URL_BLOB_STORE } from './stores.ts';
import { CONSISTENT, CORNER, PAST, type World } from './world.ts';

/** An error of these logs. */
async function missing(world: World): Promise<unknown> {
  return world.logs.open('missing', { reducer: spreadsheet }).catch((error: unknown) => error);
}

/** The archived entry at {@link PAST}. */
async function archivedEntry(world: World) {
  const entry = await world.stores().store.getEntry(world.log, PAST, CONSISTENT);
  if (entry === undefined) throw new Error('the archive lacks the entry');
  return entry;
}

export const LOGFOLD: CallsOf<typeof logfoldEntry> = {
  ArchivedLogStore: ARCHIVED_LOG_STORE,
  Document: DOCUMENT,
  DocumentState: DOCUMENT_STATE,
  Feed: FEED,
  FrozenMap: FROZEN_MAP,
  FrozenState: FROZEN_STATE,
  LogClient: LOG_CLIENT,
  Logs: LOGS,
  PastState: PAST_STATE,
  RemoteLogStore: REMOTE_LOG_STORE,
  RevisionLogs: REVISION_LOGS,
  UrlBlobStore: URL_BLOB_STORE,
  ...REVISIONS,
  ReservedTypes: {
    snapshot: (world) => expect(world.record('ReservedTypes', world.logfold.RESERVED_TYPES).snapshot).toBe('Snapshot'),
    endSegment: (world) =>
      expect(world.record('ReservedTypes', world.logfold.VIRTUAL_TYPES).endSegment).toBe('logfold End Segment'),
    includes: async (world) => {
      const types = world.record('ReservedTypes', world.logfold.RESERVED_TYPES);
      expect(types.includes((await archivedEntry(world)).type)).toBe(false);
      expect(types.includes('End Segment')).toBe(true);
    },
  },
  RESERVED_TYPES: {
    includes: (world) =>
      expect(world.record('RESERVED_TYPES', world.logfold.RESERVED_TYPES).includes('Snapshot')).toBe(true),
  },
  VIRTUAL_TYPES: {
    includes: (world) =>
      expect(world.record('VIRTUAL_TYPES', world.logfold.VIRTUAL_TYPES).includes('Snapshot')).toBe(false),
  },
  openLogs: async (world) => {
    const page = await world.logfold.openLogs(world.page());
    const document = await page.open(world.log, { reducer: spreadsheet });
    expect(await document.view(CORNER)).toEqual(
      await world.others.open(world.log, { reducer: spreadsheet }).then((other) => other.view(CORNER)),
    );
    expect((await (await document.at(PAST)).view(CORNER))[0]?.[0]).toBe('value 1');
  },
  loadState: async (world) => {
    const { deps, types } = world.stores();
    const loaded = await world.logfold.loadState({ ...deps, types, reducer: spreadsheet }, world.log, { at: PAST });
    expect(loaded).toMatchObject({ end: PAST, number: 3, badEntry: undefined });
    expect((await readRectangle(sheetOf(loaded.draft), CORNER))[0]?.[0]).toBe('value 1');
  },
  loadBody: async (world) =>
    expect(await world.logfold.loadBody(world.stores().blobs, await archivedEntry(world))).toEqual([[0, 0, 'value 4']]),
  decodeEntryBody: async (world) =>
    expect(world.logfold.decodeEntryBody(await archivedEntry(world))).toEqual([[0, 0, 'value 4']]),
  checkType: async (world) => {
    const entry = { ...(await archivedEntry(world)) };
    expect(world.logfold.checkType(entry, { Set: 1 })).toBeUndefined();
    expect(() => world.logfold.checkType(entry, { Get: 1 })).toThrow('Set');
  },
  withHistory: async (world) => {
    const reducer = world.logfold.withHistory(spreadsheet);
    const document = await world.logs.open(world.log, { reducer });
    const history = await Array.fromAsync(document.history({ row: 0, column: 0 }), ({ value }) => value);
    expect(history[0]).toBe('value 1');
    expect((await document.view(CORNER))[1]?.[0]).toBe('value 14');
  },
  // Rows of `DefinedReducer` fold a log with these.
  defineReducer: (world) => {
    const { defineReducer } = world.logfold;
    expect(defineReducer({ name: 'empty', version: 2, maps: {}, entries: {}, fold: {} })).toMatchObject({ version: 2 });
  },
  stringMap: (world) => expect(world.logfold.stringMap()).toMatchObject({ kind: 'string' }),
  numberMap: (world) => expect(world.logfold.numberMap({ buffers: true })).toMatchObject({ kind: 'number' }),
  loadWasmPlatform: async (world) => {
    const platform = await world.logfold.loadWasmPlatform();
    const page = await world.logfold.openLogs({ ...world.page(), platform });
    const document = await page.open(world.log, { reducer: spreadsheet });
    expect((await document.view(CORNER))[2]?.[0]).toBe('value 15');
  },
  parseLogId: (world) => expect(world.logfold.parseLogId(world.log.toUpperCase())).toBe(world.log),
  textLogId: (world) => expect(world.logfold.textLogId('feed')).toBe('feed'),
  parsePosition: async (world) => {
    const state = await world.document.at(world.logfold.parsePosition('0/4'));
    expect(state.position).toEqual(PAST);
  },
  formatPosition: async (world) =>
    expect(world.logfold.formatPosition((await archivedEntry(world)).position)).toBe('0/4'),
  comparePositions: (world) => expect(world.logfold.comparePositions(PAST, world.document.position)).toBeLessThan(0),
  parseJson: (world) => expect(world.logfold.parseJson('{"a":1,"\\n":2}')).toEqual({ a: 1, '\n': 2 }),
  confusesNames: (world) => expect(world.logfold.confusesNames()).toBeTypeOf('boolean'),
  toValue: async (world) => {
    const body = world.logfold.toValue([[8, 8, { city: 'Denver', state: undefined }]]);
    await world.document.append({ type: 'Set', version: 1, body });
    const cell = { rows: { from: 8, to: 9 }, columns: { from: 8, to: 9 } };
    expect(await world.document.view(cell)).toEqual([[{ city: 'Denver' }]]);
  },
  isLogfoldError: async (world) => expect(world.logfold.isLogfoldError(await missing(world))).toBe(true),
  isOfOneLog: async (world) => expect(world.logfold.isOfOneLog(await missing(world))).toBe(true),
  textOf: async (world) => expect(world.logfold.textOf(await missing(world))).toContain('[log missing]'),
  plainError: async (world) => {
    const plain = world.logfold.plainError(await missing(world));
    expect([isLogfoldError(plain), plain.name]).toEqual([false, LogNotFoundError.name]);
  },
  printable: (world) => expect(world.logfold.printable('a\u001bb')).toBe('a\\u{1b}b'),
  unprintable: (world) => expect(world.logfold.unprintable('a\\u{1b}b')).toBe('a\u001bb'),
  shellWord: async (world) => {
    const log = await world.logs.create("Ann's log");
    expect(world.logfold.shellWord(log)).toBe("'Ann'\\''s log'");
    expect(await world.place.json('status', log)).toMatchObject({ logs: [{ log }] });
  },
};
