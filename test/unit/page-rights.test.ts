import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { openLogs } from '../../src/adapters/web/open-logs.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import type { Document } from '../../src/client/document.ts';
import type { Logs } from '../../src/client/logs.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { NewEntry } from '../../src/log/new-entry.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { bodyKey, chunkKey } from '../../src/store/keys.ts';
import { MemoryLogs } from '../../src/testing/memory-logs.ts';
import { cells, entryOf } from '../support/cities.ts';

/** A page whose user may read and change one of two logs, as the client `ann`. */
interface Page {
  readonly server: MemoryLogs;
  readonly logs: Logs;
  readonly document: Document;
  readonly other: LogId;
  /** Puts an entry after the newest one, as a program that does not keep to the client's rules. */
  readonly put: (entry: Partial<Entry>) => Promise<unknown>;
  readonly object: (key: string) => Promise<number>;
}

/** Each row of the table: the code of the error, or undefined if the page may do it. */
const ROWS: Readonly<Record<string, (page: Page) => Promise<unknown>>> = {
  'read the state, the entries, the attributes and objects of a log that it may read': async (page) => {
    await page.document.refresh();
    await page.logs.client.query(page.document.log, { from: 'start' });
    await page.logs.client.logAttributes(page.document.log);
    expect(await page.object(chunkKey(page.document.log, 'ab'.repeat(32)))).toBe(404);
  },
  'read another log': (page) => page.logs.open(page.other, { reducer: spreadsheet }),
  'read an object of another log, or of none': async (page) => {
    for (const key of [chunkKey(page.other, 'ab'.repeat(32)), 'sweep.json', '../logs']) {
      expect(await page.object(key)).toBe(403);
    }
    throw Object.assign(new Error('as above'), { code: 'status 403' });
  },
  'append to a log that it may change': (page) => page.document.append(cells([0, 0, 'a'])),
  'append to several logs that it may change, all or nothing': (page) =>
    page.logs.client.transact([{ log: page.document.log, entries: [cells([0, 0, 'a'])] }]),
  'append to another log, alone or together with its own': async (page) => {
    const entries = [cells([0, 0, 'a'])];
    const own = { log: page.document.log, entries };
    await expect(page.logs.client.addEntries(page.other, entries)).rejects.toMatchObject({ code: 'NOT_ALLOWED' });
    await page.logs.client.transact([own, { log: page.other, entries }]);
  },
  'ask for a snapshot': (page) => page.logs.client.addSnapshot(page.document.log),
  'append an entry that the reducer rejects, to a server that folds': (page) =>
    page.put({ type: 'Set', body: { format: 'bytes', bytes: encodeBody('nonsense') } }),
  'append a body that cannot be read': (page) => page.put({ body: { format: 'bytes', bytes: Uint8Array.of(0xc1) } }),
  'append a body of more than 16 KiB': (page) =>
    page.put({ body: { format: 'bytes', bytes: encodeBody('x'.repeat(17_000)) } }),
  'name an object as the body or the file of an entry': async (page) => {
    const key = bodyKey(page.other, 'ab'.repeat(32), '0123456789ab');
    await expect(page.put({ file: key })).rejects.toMatchObject({ code: 'USAGE' });
    await page.put({ external: key, body: undefined });
  },
  'let an entry expire': (page) => page.put({ expires: 1_800_000_000 }),
  'end a segment': (page) => page.put({ type: 'End Segment', body: undefined }),
  'give a Snapshot entry a root': (page) =>
    page.put({ type: 'Snapshot', body: { format: 'bytes', bytes: encodeBody({}) } }),
  'leave a gap': (page) => page.put({ position: { segment: 0, entry: 9 } }),
  'append in place of an entry': (page) => page.put({ position: { segment: 0, entry: 0 } }),
  'choose the number of an entry': async (page) => {
    await page.put({ number: 99 });
    await page.document.refresh();
    expect(page.document.number).toBe(2);
  },
  'number mutations of another client, if `allows` binds the name': (page) =>
    page.put({ once: { client: 'ben', mutation: 1 } }),
  'change attributes of a log or of an entry': async (page) => {
    const { client } = page.logs;
    const change = { set: { a: 1 } };
    const ofEntry = client.updateAttributes(page.document.log, { segment: 0, entry: 0 }, change);
    await expect(ofEntry).rejects.toMatchObject({ code: 'USAGE' });
    await client.updateLogAttributes(page.document.log, change);
  },
  'create or list logs': async (page) => {
    await expect(page.logs.create()).rejects.toMatchObject({ code: 'USAGE' });
    await page.logs.list().next();
  },
  'save a file': (page) => page.logs.client.saveFile(page.document.log, async function* () {}),
  'read the feed': async (page) => page.logs.feed,
  'read a history that the reducer does not keep': (page) => page.document.history({ row: 0, column: 0 }).next(),
};

const ENTRY: NewEntry = entryOf('Set', [[1, 1, 'b']]);

async function openPage(reducer: Reducer | undefined): Promise<Page> {
  const server = new MemoryLogs();
  const mine = await server.create('mine');
  const other = await server.create('other');
  const allows = (log: LogId, _: unknown, entries: readonly Entry[] = []): boolean =>
    log === mine && entries.every(({ once }) => once === undefined || once.client === 'ann');
  const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
  const send = async (request: unknown): Promise<unknown> =>
    json(await server.answer(json(request), { allows, reducer }));
  const logs = await openLogs({ platform: nativePlatform, urlOf: String, send });
  const document = await logs.open(mine, { reducer: spreadsheet });
  await document.append(ENTRY);
  const store = new RemoteLogStore(send);
  return {
    server,
    logs,
    document,
    other,
    put: async (others) => {
      const body = { format: 'bytes', bytes: encodeBody([[2, 2, 'c']]) } as const;
      const head = { log: mine, position: document.position, created: 1_700_000_000, type: 'Set', version: 1 };
      await store.putEntries([withoutUndefined({ ...head, id: Uint8Array.of(7), body, ...others })]);
    },
    object: async (key) => (await server.object(key, { allows: (log) => log === mine })).status,
  };
}

function withoutUndefined({ body, ...entry }: Entry): Entry {
  return body === undefined ? entry : { ...entry, body };
}

async function rowsOfTable(): Promise<(readonly [action: string, answer: string])[]> {
  const text = await readFile(new URL('../../docs/library.md', import.meta.url), 'utf8');
  const [, after = ''] = text.split('| A page may');
  const [table = ''] = after.split('\n\n');
  const rows = table.split('\n').slice(2);
  return rows.map((row) => {
    const [, action = '', answer = ''] = row.split('|').map((cell) => cell.trim());
    return [action, answer] as const;
  });
}

describe.each([
  ['a server that folds', spreadsheet],
  ['a server that does not fold', undefined],
] as const)('a page of %s', (name, reducer) => {
  test.each(Object.keys(ROWS))('%s', async (action) => {
    const answer = new Map(await rowsOfTable()).get(action) ?? 'no row';
    const page = await openPage(reducer);
    const entries = async (): Promise<number> =>
      (await Array.fromAsync(page.server.client.read(page.document.log, { from: 'start' }))).length;
    const before = await entries();
    const run = Promise.try(() => ROWS[action]?.(page));
    const onlyFolding = action.endsWith('to a server that folds');
    if (answer === 'yes' || (onlyFolding && reducer === undefined)) return void (await run);
    await expect(run).rejects.toMatchObject({ code: answer.replaceAll('`', '') });
    expect(await entries(), name).toBe(before);
    expect(await Array.fromAsync(page.server.client.read(page.other, { from: 'start' }))).toEqual([]);
  });
});

test('each row of the table has a test', async () => {
  expect((await rowsOfTable()).map(([action]) => action)).toEqual(Object.keys(ROWS));
});
