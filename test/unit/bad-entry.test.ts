import { describe, expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import { DocumentStoppedError, StoreUnavailableError, UsageError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { entryKey } from '../../src/log/item-codec.ts';
import { loadState } from '../../src/snapshot/load.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { type SheetEdit, sheetBody, sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { readRectangle } from '../../src/state/spreadsheet/sheet.ts';
import { chunkPrefix } from '../../src/store/keys.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';
import { FAULTY, readRows, versionedSheet } from '../support/models/versioned-sheet.ts';
import { type SheetLog, set } from '../support/sheet-log.ts';

const STOP = { onBadEntry: 'stop' } as const;
const BAD: NewEntry = { type: FAULTY, version: 1, body: null };
const entryOf = (edit: SheetEdit): NewEntry => ({ type: edit.type, version: 1, body: sheetBody(edit) });

/** The reducer of the log, corrected without another version. */
const CORRECTED: Reducer = {
  ...versionedSheet(1),
  fold: async (draft, entry) => {
    if (entry.type !== FAULTY) await versionedSheet(1).fold(draft, entry);
  },
};

/** Reads the first cell before each entry. */
const READING: Reducer = {
  ...versionedSheet(1),
  fold: async (draft, entry) => {
    await readRectangle(sheetOf(draft), { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } });
    await versionedSheet(1).fold(draft, entry);
  },
};

/** Replaces an entry, like other software. */
async function put({ tables, log }: SheetLog, position: Position, attributes: Item): Promise<void> {
  await tables.putItems([{ ...entryKey(log, position), ...attributes }]);
}

const GOOD: Item = { C: { N: '1732104000' }, T: { S: 'Set' }, V: { N: '1' }, B: { S: '[[1, 0, "mended"]]' } };

/** Kinds of bad entries: the code of the error, and attributes of the item. */
const KINDS: readonly (readonly [name: string, code: string, attributes: Item])[] = [
  ['the reducer fails', 'FOLD_FAILED', { T: { S: FAULTY } }],
  ['its type is unknown', 'ENTRY_TYPE_UNKNOWN', { T: { S: 'Sort Rows' } }],
  ['its version is unknown', 'ENTRY_VERSION_UNKNOWN', { V: { N: '7' } }],
  ['its body cannot be decoded', 'BODY_UNDECODABLE', { B: { B: Uint8Array.of(0xc1) } }],
  ['its body has another shape', 'BODY_INVALID', { B: { S: '"cells"' } }],
  ['its item has no type', 'ITEM_INVALID', { T: { NULL: true } }],
  ['its body is missing in the bucket', 'EXTERNAL_MISSING', { B: { NULL: true }, E: { S: 'imports/lost.json' } }],
];

/** A log with one good entry, a bad one at 0/2, and another good one. */
async function badLog(): Promise<LiveLog> {
  const live = await LiveLog.create();
  await live.sheet.edit(set(0, 0, 'before'));
  await live.sheet.append(BAD);
  await live.sheet.edit(set(0, 0, 'after'));
  return live;
}

async function expectStopped(document: Document, rows: readonly string[][], position: Position): Promise<void> {
  expect(await rowsOf(document)).toEqual(rows);
  expect(document.badEntry?.position).toEqual(position);
  expect(document.position).toEqual(position);
}

describe('a document with a bad entry', () => {
  test('is not opened by default', async () => {
    const live = await badLog();
    await expect(live.open()).rejects.toMatchObject({ code: 'FOLD_FAILED', segment: 0, entry: 2 });
    await expect(live.open({ onBadEntry: 'throw' })).rejects.toMatchObject({ code: 'FOLD_FAILED' });
  });

  test.each(KINDS)('shows the state before it if %s', async (_, code, attributes) => {
    const live = await badLog();
    await put(live.sheet, { segment: 0, entry: 2 }, { ...GOOD, ...attributes });
    const document = await live.open(STOP);
    await expectStopped(document, [['before']], { segment: 0, entry: 2 });
    expect(document.badEntry?.error).toMatchObject({ code, segment: 0, entry: 2 });
    await document.refresh();
    await expectStopped(document, [['before']], { segment: 0, entry: 2 });
  });

  test('shows the state before the first of several bad entries', async () => {
    const live = await badLog();
    await live.sheet.append(BAD);
    await put(live.sheet, { segment: 0, entry: 3 }, { C: { N: '1' } });
    await expectStopped(await live.open(STOP), [['before']], { segment: 0, entry: 2 });
  });

  test('stops there if it was open before, and notifies its listeners once', async () => {
    const live = await LiveLog.create();
    const document = await live.open(STOP);
    const seen: unknown[] = [];
    document.subscribe(() => seen.push(document.badEntry?.position));
    await live.sheet.edit(set(0, 0, 'a'), set(0, 1, 'b'));
    await live.sheet.append(BAD);
    await live.sheet.edit(set(0, 0, 'c'));
    expect(await document.refresh()).toBe(true);
    await expectStopped(document, [['a', 'b']], { segment: 0, entry: 3 });
    const { badEntry } = document;
    for (let i = 0; i < 3; i++) expect(await document.refresh()).toBe(false);
    expect(document.badEntry).toBe(badEntry);
    expect(seen).toEqual([{ segment: 0, entry: 3 }]);
  });

  test('notifies its listeners if nothing but a bad entry is new', async () => {
    const live = await LiveLog.create();
    const document = await live.open(STOP);
    const { state } = document;
    let calls = 0;
    document.subscribe(() => calls++);
    await live.sheet.append(BAD);
    expect(await document.refresh()).toBe(false);
    expect({ calls, same: document.state === state }).toEqual({ calls: 1, same: true });
    expect(document.badEntry?.position).toEqual({ segment: 0, entry: 1 });
  });

  test('takes two requests to refresh, however many entries follow the bad one', async () => {
    const live = await badLog();
    const document = await live.open(STOP);
    await live.sheet.edit(...Array.from({ length: 50 }, (_, i) => set(i, 0, 'x')));
    live.requests.length = 0;
    await document.refresh();
    expect(live.requests).toEqual(['entries', 'newestSegments']);
  });

  test('appends nothing, and says what to do', async () => {
    const live = await badLog();
    const document = await live.open(STOP);
    const contents = await live.sheet.contents();
    const refused = { code: 'DOCUMENT_STOPPED', segment: 0, entry: 2, cause: document.badEntry?.error };
    const message = /nothing was appended: .+FOLD_FAILED.+\[log .+, segment 0, entry 2.+ resume \w/;
    await expect(document.append(entryOf(set(0, 0, 'x')))).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(message),
    });
    await expect(document.mutate(entryOf(set(0, 0, 'x')))).rejects.toMatchObject(refused);
    expect(document.pending).toEqual([]);
    expect(await live.sheet.contents()).toEqual(contents);
  });

  test('appends nothing if it meets the bad entry during the append', async () => {
    const live = await LiveLog.create();
    const document = await live.open(STOP);
    await live.sheet.append(BAD);
    const contents = await live.sheet.contents();
    await expect(document.append(entryOf(set(0, 0, 'x')))).rejects.toThrow(DocumentStoppedError);
    await expectStopped(document, [], { segment: 0, entry: 1 });
    expect(await live.sheet.contents()).toEqual(contents);
  });

  test('rejects a pending entry that a bad entry of others precedes', async () => {
    const live = await LiveLog.create();
    const document = await live.open(STOP);
    await live.sheet.append(BAD);
    await expect(document.mutate(entryOf(set(0, 0, 'x')))).rejects.toThrow(DocumentStoppedError);
    await expectStopped(document, [], { segment: 0, entry: 1 });
    expect(document.pending).toEqual([]);
    expect(await live.sheet.items()).toHaveLength(2);
  });

  test('goes on when the entry was repaired', async () => {
    const live = await badLog();
    const document = await live.open(STOP);
    await put(live.sheet, { segment: 0, entry: 2 }, GOOD);
    expect(await document.refresh()).toBe(true);
    expect(document.badEntry).toBeUndefined();
    expect(await rowsOf(document)).toEqual([['after'], ['mended']]);
    await document.append(entryOf(set(2, 0, 'more')));
    expect(await rowsOf(document)).toEqual([['after'], ['mended'], ['more']]);
  });

  test('goes on when its reducer has made a snapshot after the entry', async () => {
    const live = await badLog();
    const document = await live.open(STOP);
    const position = await live.sheet.completed({ reducer: CORRECTED });
    await live.sheet.edit(set(1, 0, 'newer'));
    expect(await document.refresh()).toBe(true);
    expect({ badEntry: document.badEntry, snapshot: document.snapshot }).toEqual({
      badEntry: undefined,
      snapshot: position,
    });
    expect(await rowsOf(document)).toEqual([['after'], ['newer']]);
  });

  test('stays before the entry if another reducer has made a snapshot after it', async () => {
    const live = await badLog();
    const document = await live.open(STOP);
    await live.sheet.completed({ reducer: { ...CORRECTED, version: 2 } });
    await document.refresh();
    await expectStopped(document, [['before']], { segment: 0, entry: 2 });
    live.requests.length = 0;
    await document.refresh();
    expect(live.requests).toEqual(['entries', 'newestSegments']);
    await expectStopped(await live.open(STOP), [['before']], { segment: 0, entry: 2 });
  });

  test('stays before the entry across segments, and moves onto a snapshot before it', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'a'));
    const snapshot = await live.sheet.snapshot();
    const document = await live.open(STOP);
    await live.sheet.edit(set(0, 1, 'b'));
    const bad = await live.sheet.append(BAD);
    await document.refresh();
    await live.sheet.complete(snapshot);
    await live.sheet.segment();
    await live.sheet.edit(set(0, 0, 'c'));
    await document.refresh();
    await expectStopped(document, [['a', 'b']], bad);
    expect(document.snapshot).toEqual(snapshot);
    await expectStopped(await live.open(STOP), [['a', 'b']], bad);
  });

  test('does not hide a missing chunk, a gap or a store that does not answer', async () => {
    const live = await LiveLog.create();
    await live.sheet.fill(40, 40, 200);
    await live.sheet.completed();
    await live.sheet.edit(set(0, 0, 'x'));
    const chunks = await live.sheet.keys(chunkPrefix(live.sheet.log));
    const stored = await Promise.all(chunks.map(async (key) => [key, await live.sheet.blobs.get(key)] as const));
    await live.sheet.blobs.delete(chunks);
    await expect(live.open({ reducer: READING, ...STOP })).rejects.toMatchObject({ code: 'CHUNK_MISSING' });
    for (const [key, bytes] of stored) if (bytes !== undefined) await live.sheet.blobs.put(key, bytes);
    const document = await live.open(STOP);
    const gap = await live.sheet.edit(set(0, 0, 'gone'));
    await live.sheet.edit(set(0, 0, 'last'));
    await live.sheet.tables.deleteEntries(live.sheet.log, 0, [gap.entry]);
    await expect(document.refresh()).rejects.toMatchObject({ code: 'ENTRY_GAP' });
    live.interceptor = () => Promise.reject(new StoreUnavailableError('the tables do not answer'));
    await expect(document.refresh()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(document.badEntry).toBeUndefined();
  });

  test('cannot be opened with another text for onBadEntry', async () => {
    const live = await LiveLog.create();
    const options: object = { onBadEntry: 'skip' };
    await expect(live.open(options)).rejects.toThrow("'onBadEntry' is skip, not 'throw' or 'stop'");
    await expect(loadState(live.sheet.deps, live.sheet.log, options)).rejects.toThrow(UsageError);
  });
});

describe('a loaded state with a bad entry', () => {
  test('is that before the entry, up to a position after it or at the end', async () => {
    const { sheet } = await badLog();
    for (const at of [undefined, { segment: 0, entry: 3 }, { segment: 0, entry: 4 }]) {
      const { draft, end, badEntry } = await loadState(sheet.deps, sheet.log, { at, ...STOP });
      expect({ rows: await readRows(draft), end }).toEqual({ rows: [['before']], end: { segment: 0, entry: 2 } });
      expect(badEntry).toMatchObject({ position: { segment: 0, entry: 2 }, error: { code: 'FOLD_FAILED' } });
      await expect(loadState(sheet.deps, sheet.log, { at })).rejects.toMatchObject({ code: 'FOLD_FAILED' });
    }
  });

  test('has no bad entry up to a position before it', async () => {
    const { sheet } = await badLog();
    const { draft, badEntry } = await loadState(sheet.deps, sheet.log, { at: { segment: 0, entry: 2 }, ...STOP });
    expect({ rows: await readRows(draft), badEntry }).toEqual({ rows: [['before']], badEntry: undefined });
  });
});
