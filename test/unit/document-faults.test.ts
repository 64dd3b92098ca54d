import { expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import type { DocumentState } from '../../src/client/document-state.ts';
import type { DocumentOptions } from '../../src/client/options.ts';
import {
  AttemptsExhaustedError,
  DocumentClosedError,
  EntryRejectedError,
  StoreUnavailableError,
} from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import type { AddedEntries, NewEntry } from '../../src/log/client.ts';
import { nodeStore } from '../../src/snapshot/snapshots.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { type SheetEdit, sheetBody, sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { readRectangle, sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { stateTops } from '../../src/state/state.ts';
import { chunkKey, chunkPrefix } from '../../src/store/keys.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { type SheetLog, set } from '../support/sheet-log.ts';

const HANG_UP = new Error('socket hang up');
const entryOf = (edit: SheetEdit): NewEntry => ({ type: edit.type, version: 1, body: sheetBody(edit) });
const cell = (row: number, column: number, value: string): NewEntry => entryOf(set(row, column, value));
const INSERT_ROW: SheetEdit = { type: 'Insert Rows', position: 0, count: 1 };
const CORNER = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };

/** A sheet whose entries each read the first cell, and which rejects new rows if it is 'full'. */
const READING: Reducer = {
  ...versionedSheet(1),
  fold: async (draft, entry) => {
    const [[first] = []] = await readRectangle(sheetOf(draft), CORNER);
    if (entry.type === 'Insert Rows' && first === 'full') throw new TypeError('the sheet is full');
    await versionedSheet(1).fold(draft, entry);
  },
};

/** A log with a snapshot of several chunks, opened by a client that caches none of them. */
async function openUncached(live: LiveLog): Promise<Document> {
  await live.sheet.fill(40, 40, 200);
  await live.sheet.completed();
  return live.logs({ cacheBytes: 0 }).open(live.sheet.log, { reducer: READING });
}

async function textOf(state: DocumentState): Promise<string[][]> {
  return Array.fromAsync(sheetRows(sheetOf(state.draft)));
}

test('closing directly after a mutation rejects the mutation', async () => {
  const document = await (await LiveLog.create()).open();
  const failure = expect(document.mutate(cell(0, 0, 'Denver'))).rejects.toThrow(DocumentClosedError);
  document.close();
  await failure;
  expect(document.pending).toEqual([]);
});

test('a pending entry whose answer was lost is shown once when a refresh finds it', async () => {
  const live = await LiveLog.create();
  await live.sheet.edit(set(0, 0, 'Denver'));
  const document = await live.open();
  const states: DocumentState[] = [];
  document.subscribe(() => states.push(document.state));
  let refreshed: Promise<boolean> | undefined;
  live.interceptor = async (name, effect) => {
    if (refreshed !== undefined) return effect();
    if (name === 'putEntries') await effect();
    else refreshed = document.refresh();
    throw HANG_UP;
  };
  expect(await document.mutate(entryOf(INSERT_ROW))).toEqual({ segment: 0, entry: 2 });
  await refreshed;
  expect(states).toHaveLength(1);
  for (const state of [...states, document.state]) expect(await textOf(state)).toEqual([[], ['Denver']]);
  expect(await live.sheet.items()).toHaveLength(3);
});

test('a refresh that finds a lost pending entry also shows what others appended after it', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  let refreshed: Promise<boolean> | undefined;
  live.interceptor = async (name, effect) => {
    if (refreshed !== undefined) return effect();
    if (name === 'putEntries') {
      await effect();
      await live.sheet.edit(set(1, 0, 'theirs'));
    } else refreshed = document.refresh();
    throw HANG_UP;
  };
  await document.mutate(cell(0, 0, 'ours'));
  await refreshed;
  expect(await textOf(document.state)).toEqual([['ours'], ['theirs']]);
});

test('an append succeeds even if a pending entry cannot be folded again', async () => {
  const live = await LiveLog.create();
  const document = await openUncached(live);
  let [fails, isBusy, failing] = [true, true, false];
  let puts = 0;
  live.interceptor = async (name, effect) => {
    if (failing && name === 'get') throw HANG_UP;
    if (name !== 'putEntries' || !fails) return effect();
    if (isBusy) throw new StoreUnavailableError('busy');
    const answer = await effect();
    // The pending entry of before is sent first.
    failing = ++puts === 2;
    return answer;
  };
  const stored = document.mutate(cell(0, 0, 'ours'));
  await new Promise<void>((resolve) => document.subscribe(resolve));
  while (document.pending[0]?.error === undefined) await new Promise((resolve) => setImmediate(resolve));
  isBusy = false;
  const appended = document.append(cell(1, 0, 'Austin'));
  const later = document.mutate(cell(2, 0, 'later'));
  await appended;
  expect(failing).toBe(true);
  fails = false;
  failing = false;
  await Promise.all([stored, later]);
  await document.refresh();
  expect((await rowsOf(document)).slice(0, 3).map(([first]) => first)).toEqual(['ours', 'Austin', 'later']);
});

test('a mutation is stored and others follow even if the state cannot be folded again', async () => {
  const live = await LiveLog.create();
  const document = await openUncached(live);
  await live.sheet.edit(set(2, 0, 'theirs'));
  let failures = 0;
  let isStored = false;
  live.interceptor = async (name, effect) => {
    if (name === 'get' && isStored && failures++ === 0) throw HANG_UP;
    const answer = await effect();
    if (name === 'putEntries') isStored = true;
    return answer;
  };
  const positions = await Promise.all([document.mutate(cell(0, 0, 'a')), document.mutate(cell(1, 0, 'b'))]);
  expect(failures).toBeGreaterThan(0);
  expect(positions.map((position) => position?.entry)).toEqual([4, 5]);
  await document.refresh();
  expect(document.pending).toEqual([]);
  expect((await rowsOf(document)).slice(0, 3).map(([first]) => first)).toEqual(['a', 'b', 'theirs']);
});

test('after a lost answer, a document that is far behind still loads the newest snapshot', async () => {
  const live = await LiveLog.create();
  const document = await live.open({ reloadAfter: { entries: 3 } });
  let puts = 0;
  live.interceptor = async (name, effect) => {
    if (name === 'putEntries' && puts++ === 0) throw HANG_UP;
    return effect();
  };
  await document.append(cell(0, 0, 'Denver'));
  await live.sheet.edit(...Array.from({ length: 9 }, (_, row) => set(row, 1, `row ${row}`)));
  await live.sheet.completed();
  live.requests.length = 0;
  await document.refresh();
  expect(live.requests).toContain('newestSegments');
});

test.each([
  ['', {}],
  [' with `after`', { after: { segment: 0, entry: 0 } }],
])('a put that arrives after its failure is recognized by an append%s', async (_, options) => {
  const live = await LiveLog.create();
  const document = await live.open();
  let late: (() => Promise<unknown>) | undefined;
  live.interceptor = async (name, effect) => {
    if (name === 'putEntries' && late === undefined) {
      late = effect;
      throw HANG_UP;
    }
    // After this time the client no longer trusts the end of the log that it has just read.
    if (name === 'entries' && late !== undefined) live.sheet.nowMs += 120_000;
    if (name === 'newestSegments') await late?.();
    return effect();
  };
  const added: AddedEntries | undefined = await document.append(cell(0, 0, 'Denver'), options);
  expect(added?.first).toEqual({ segment: 0, entry: 1 });
  expect(await live.sheet.items()).toHaveLength(2);
  expect(await rowsOf(document)).toEqual([['Denver']]);
});

/** A document before each of whose first puts another client appends. */
async function openContended(puts: number, options?: Partial<DocumentOptions>): Promise<Document> {
  const live = await LiveLog.create();
  const document = await live.open(options);
  let count = 0;
  live.interceptor = async (name, effect) => {
    if (name === 'putEntries' && count++ < puts) await live.sheet.edit(set(0, 0, `theirs ${count}`));
    return effect();
  };
  return document;
}

test('an append gives up if other clients are always faster', async () => {
  const document = await openContended(1_000);
  await expect(document.append(cell(1, 0, 'ours'))).rejects.toThrow(AttemptsExhaustedError);
});

test('documents that append at the same time store every entry', { tags: ['I8'] }, async () => {
  const live = await LiveLog.create();
  const documents = await Promise.all(Array.from({ length: 10 }, () => live.open()));
  await Promise.all(
    documents.map(async (document, column) => {
      for (let row = 0; row < 30; row++) await document.append(cell(row, column, `${row}/${column}`));
    }),
  );
  const expected = Array.from({ length: 30 }, (_, row) => documents.map((_, column) => `${row}/${column}`));
  expect(await rowsOf(await live.open())).toEqual(expected);
  expect(await live.sheet.items()).toHaveLength(301);
});

test('a document that waits to append shows what the others append', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  const shown: string[][][] = [];
  let puts = 0;
  live.interceptor = async (name, effect) => {
    if (name === 'putEntries' && puts++ < 5) {
      shown.push(await rowsOf(document));
      await live.sheet.edit(set(0, 0, `theirs ${puts}`));
    }
    return effect();
  };
  await document.append(cell(1, 0, 'ours'));
  expect(shown.at(-1)).toEqual([['theirs 3']]);
  expect(live.waits).toHaveLength(5);
});

test('closing a document ends the wait of an append', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  live.interceptor = async (name, effect) => {
    if (name === 'putEntries') await live.sheet.edit(set(0, 0, 'theirs'));
    if (live.waits.length > 2) document.close();
    return effect();
  };
  await expect(document.append(cell(1, 0, 'ours'))).rejects.toThrow(DocumentClosedError);
  expect(live.waits.length).toBeLessThan(5);
});

test('a mutation is sent until no other client is faster', async () => {
  const document = await openContended(40);
  expect(await document.mutate(cell(1, 0, 'ours'))).toEqual({ segment: 0, entry: 41 });
  expect(await rowsOf(document)).toEqual([['theirs 40'], ['ours']]);
});

test('an entry that was rejected after the entries of others is not appended later', async () => {
  const live = await LiveLog.create();
  const document = await live.open({ reducer: READING });
  await live.sheet.edit(set(0, 0, 'full'));
  const release = Promise.withResolvers<void>();
  live.interceptor = async (_, effect) => {
    await release.promise;
    return effect();
  };
  const refreshed = document.refresh();
  const appended = document.append(cell(0, 0, 'free'));
  const rejected = expect(document.mutate(entryOf(INSERT_ROW))).rejects.toThrow(EntryRejectedError);
  await new Promise((resolve) => setImmediate(resolve));
  release.resolve();
  await Promise.all([refreshed, appended, rejected]);
  await document.append(cell(1, 0, 'next'));
  expect(await rowsOf(document)).toEqual([['free'], ['next']]);
});

test('a listener that throws disturbs neither an append nor other listeners', async () => {
  const document = await (await LiveLog.create()).open();
  const failure = new Error('the listener failed');
  let calls = 0;
  document.subscribe(() => {
    throw failure;
  });
  document.subscribe(() => calls++);
  const usual = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  const reported = new Promise((resolve) => process.once('uncaughtException', resolve));
  await document.append(cell(0, 0, 'Denver'));
  expect(await reported).toBe(failure);
  for (const listener of usual) process.on('uncaughtException', listener);
  expect(calls).toBe(1);
});

/** Deletes the chunks that a snapshot does not use, as garbage collection does. */
async function deleteOthers(sheet: SheetLog, position: Position): Promise<number> {
  const used = new Set<string>();
  for (const top of stateTops((await sheet.root(position)).state)) {
    for await (const { id } of walkChunks(nodeStore(sheet.deps, sheet.log), top, { values: true })) {
      used.add(chunkKey(sheet.log, id));
    }
  }
  const others = (await sheet.keys(chunkPrefix(sheet.log))).filter((key) => !used.has(key));
  await sheet.blobs.delete(others);
  return others.length;
}

test('a document that slept moves to the newest snapshot with its first refresh', async () => {
  const live = await LiveLog.create();
  await live.sheet.fill(40, 40, 200);
  await live.sheet.flush(await live.sheet.completed());
  const document = await live.open();
  await live.sheet.edit(set(0, 0, 'Denver'));
  const newest = await live.sheet.completed();
  await live.sheet.flush(newest);
  live.sheet.nowMs += 86_400_000;
  expect(await deleteOthers(live.sheet, newest)).toBeGreaterThan(0);
  await document.refresh();
  expect(await rowsOf(document)).toEqual(await live.sheet.rows(newest));
});

test.each<[string, (document: Document) => Promise<unknown>]>([
  ['a refresh', (document) => document.refresh()],
  ['an append', (document) => document.append(cell(1, 0, 'ours'))],
  ['a mutation', (document) => document.mutate(cell(1, 0, 'ours'))],
  ['an append beside a refresh', (document) => Promise.all([document.append(cell(1, 0, 'ours')), document.refresh()])],
])('%s goes on after the chunks of its document were collected', async (_, call) => {
  const live = await LiveLog.create();
  const document = await openUncached(live);
  await live.sheet.edit(set(0, 0, 'Denver'));
  const newest = await live.sheet.completed();
  await live.sheet.flush(newest);
  live.sheet.nowMs += 86_400_000;
  expect(await deleteOthers(live.sheet, newest)).toBeGreaterThan(0);
  await live.sheet.edit(set(2, 0, 'theirs'));
  await call(document);
  const entries = await live.sheet.items();
  expect(document.position).toEqual({ segment: 0, entry: entries.length });
  const other = await live.open();
  expect(await rowsOf(document)).toEqual(await rowsOf(other));
});

test('a document on the newest snapshot stays on it without further requests', async () => {
  const live = await LiveLog.create();
  await live.sheet.fill(15, 15, 40);
  await live.sheet.completed();
  const document = await live.open();
  expect(live.requests).toContain('get');
  live.sheet.nowMs += 11 * 60_000;
  live.requests.length = 0;
  await document.refresh();
  expect(live.requests).toEqual(['entries']);
});

test('a document whose next entries have expired without an archive loads the newest snapshot', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  await live.sheet.edit(set(0, 0, 'Denver'));
  await live.sheet.completed();
  const newest = await live.sheet.covered();
  await live.sheet.tables.deleteEntries(live.sheet.log, 0, [0, 1, 2, 3]);
  live.sheet.nowMs += 3_600_000;
  expect(await document.refresh()).toBe(true);
  expect(document.snapshot).toEqual(newest);
  expect(await rowsOf(document)).toEqual([['Denver']]);
});
