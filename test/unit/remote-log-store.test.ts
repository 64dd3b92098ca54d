import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { LogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { type AnswerOptions, answerLogRequest } from '../../src/adapters/web/answer-log-request.ts';
import type { LogAnswer } from '../../src/adapters/web/log-message.ts';
import { encodeLines } from '../../src/adapters/web/log-message.ts';
import { openLogs } from '../../src/adapters/web/open-logs.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import { UrlBlobStore } from '../../src/adapters/web/url-blob-store.ts';
import {
  CredentialsError,
  EntryExistsError,
  EntryNotFoundError,
  ItemInvalidError,
  LogNotFoundError,
  MessageInvalidError,
  MessageNewerError,
  NotAllowedError,
  StoreUnavailableError,
  TooLargeError,
  UsageError,
} from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { LogClient } from '../../src/log/client.ts';
import { type Entry, RESERVED_TYPES, type ReservedTypes } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { allEntries, entryAt, malformedItem, NOON, newLogId, recordRequests, unarchived } from '../support/logs.ts';

const CONSISTENT = { consistent: true };
const ID = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
const FIRST = { segment: 0, entry: 1 };

let tables: MemoryLogStore;
/** The requests of the page, and the calls that they caused in the tables. */
let sent: LogRequest[];
let calls: string[];
let log: LogId;

beforeEach(async () => {
  tables = new MemoryLogStore();
  sent = [];
  calls = [];
  log = newLogId();
  await tables.createLog(
    { log, segment: 0, created: NOON },
    { ...snapshotEntry(), position: { segment: 0, entry: 0 } },
  );
});

function snapshotEntry(): Omit<Entry, 'position'> {
  return { log, created: NOON, type: 'Snapshot', version: 1 };
}

/** The store of a page. Requests and answers travel as JSON. */
function page(
  options: Partial<AnswerOptions> = {},
  store: LogStore = recordRequests(tables, calls),
  answered: (answer: LogAnswer) => unknown = (answer) => answer,
): RemoteLogStore {
  return new RemoteLogStore(async (request) => {
    sent.push(request);
    const ports = { store: unarchived(store), tables: store };
    const answer = await answerLogRequest(ports, jsonOf(request), { allows: () => true, ...options });
    return answered(JSON.parse(JSON.stringify(answer)));
  });
}

function jsonOf(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function clientOf(store: RemoteLogStore): LogClient {
  return new LogClient({
    store,
    tables: store,
    blobs: new UrlBlobStore({ urlOf: (key) => `https://objects.example/${key}` }),
    now: () => NOON * 1000,
    random: Math.random,
    sleep: () => setImmediate(),
    newLogId,
  });
}

function largeBody(byte: number): Pick<Entry, 'body'> {
  return { body: { format: 'bytes', bytes: new Uint8Array(60_000).fill(byte) } };
}

async function entriesInTable(): Promise<Entry[]> {
  return allEntries(tables.entries(log, { segment: 0, from: 0, to: 1000 }));
}

async function codeOf(message: unknown): Promise<unknown> {
  const answer = await answerLogRequest({ store: unarchived(tables), tables }, message, { allows: () => true });
  return 'error' in answer ? answer.error.code : undefined;
}

describe('a log store behind a server', () => {
  test('the numbers of entries go on, whatever number a page sends', async () => {
    const numbered = newLogId();
    const first = { ...snapshotEntry(), log: numbered, position: { segment: 0, entry: 0 }, number: 0 };
    await tables.createLog({ log: numbered, segment: 0, created: NOON }, first);
    const store = page();
    const client = clientOf(store);
    expect((await client.addEntry(numbered, { type: 'Set', version: 1 })).number).toBe(1);
    for (const number of [undefined, 7]) {
      const head = await store.newestEntry(numbered, 0, CONSISTENT);
      const position = { segment: 0, entry: (head?.position.entry ?? 0) + 1 };
      await store.putEntries([entryAt(numbered, position, { number })]);
    }
    expect((await store.newestEntry(numbered, 0, CONSISTENT))?.number).toBe(3);
    const refused = clientOf(store).addEntry(numbered, { type: 'Set', version: 1 }, { after: first.position });
    await expect(refused).rejects.toMatchObject({ newest: { segment: 0, entry: 3 }, newestNumber: 3 });
  });

  test('a client appends in one request, and reads what it appended', async () => {
    const client = clientOf(page());
    await client.addEntry(log, { type: 'Set', version: 1, body: ['first'] });
    sent.length = 0;
    const metadata = { correlation: 'request 7', user: 'ann' };
    const { position } = await client.addEntry(log, { type: 'Set', version: 1, body: ['second'], metadata });
    expect(sent.map(({ op }) => op)).toEqual(['putEntries']);
    expect(position).toEqual({ segment: 0, entry: 2 });
    const { entries } = await client.query(log, { from: { segment: 0, entry: 2 } });
    const [second] = await allEntries(entries);
    expect(second).toEqual((await entriesInTable())[2]);
    expect(second?.metadata).toEqual(metadata);
  });

  test('clients that append concurrently lose and double nothing', async () => {
    const numbers = Array.from({ length: 20 }, (_, i) => i);
    const clients = numbers.map(() => clientOf(page()));
    await Promise.all(clients.map((client, i) => client.addEntry(log, { type: 'Set', version: 1, body: [i] })));
    const bodies = (await entriesInTable()).slice(1).map(({ body }) => body?.format === 'bytes' && body.bytes[1]);
    expect(bodies.toSorted((a, b) => Number(a) - Number(b))).toEqual(numbers);
  });

  test('an append whose answer was lost is recognized when it is sent again', { tags: ['I8'] }, async () => {
    let lost = true;
    const store = page({}, tables, (answer) => {
      if (!lost) return answer;
      throw new TypeError('Failed to fetch');
    });
    const entry = entryAt(log, FIRST, { id: ID });
    const failure = await store.putEntries([entry]).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StoreUnavailableError);
    expect(store.isRetryable(failure)).toBe(false);
    lost = false;
    await store.putEntries([entry]);
    expect(await entriesInTable()).toHaveLength(2);
    await expect(store.putEntries([{ ...entry, id: undefined }])).rejects.toThrow(EntryExistsError);
  });

  test('a long range takes about one request for each megabyte', async () => {
    // As in DynamoDB, a page has less than a megabyte.
    const paged = new MemoryLogStore({ pageItems: 10 });
    const entries = Array.from({ length: 60 }, (_, i) => entryAt(log, { segment: 0, entry: i + 1 }, largeBody(i)));
    await paged.putItems(entries.map(encodeEntry).slice(0, 25));
    await paged.putItems(entries.map(encodeEntry).slice(25, 50));
    await paged.putItems(entries.map(encodeEntry).slice(50));
    const lengths: number[] = [];
    const store = page({}, paged, (answer) => {
      lengths.push(JSON.stringify(answer).length);
      return answer;
    });
    const read = await allEntries(store.entries(log, { segment: 0, from: 1, to: 100 }, CONSISTENT));
    expect(read.map(({ position, body }) => [position.entry, body?.format === 'bytes' && body.bytes[0]])).toEqual(
      entries.map((_, i) => [i + 1, i]),
    );
    // The last one finds the end of the segment.
    expect(sent).toHaveLength(4);
    expect(Math.max(...lengths)).toBeLessThan(2_500_000);
  });

  test('a user who is not allowed to do so reads and appends nothing', async () => {
    const asked: unknown[] = [];
    const store = page({ allows: (of, operation, entries) => asked.push([of, operation, entries.length]) < 0 });
    const range = { segment: 0, from: 0, to: 9 };
    const attempts: (() => Promise<unknown>)[] = [
      () => store.newestSegments(log, 2, CONSISTENT),
      () => store.getSegment(log, 0, CONSISTENT),
      () => store.newestEntry(log, 0, CONSISTENT),
      () => store.getEntry(log, FIRST, CONSISTENT),
      () => Array.fromAsync(store.items(log, range, CONSISTENT)),
      () => Array.fromAsync(store.entries(log, range, CONSISTENT)),
      () => store.putEntries([entryAt(log, FIRST)]),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toBeInstanceOf(NotAllowedError);
    expect(calls).toEqual([]);
    expect(asked).toEqual([...Array(6).fill([log, 'read', 0]), [log, 'append', 1]]);
  });

  test('a permission that is not exactly true allows nothing', async () => {
    const allows = (async () => undefined) as unknown as AnswerOptions['allows'];
    await expect(page({ allows }).newestSegments(log, 2, CONSISTENT)).rejects.toBeInstanceOf(NotAllowedError);
    expect(calls).toEqual([]);
  });

  const REFUSED: readonly (readonly [string, Partial<Entry>])[] = [
    ['an object of another log', { body: undefined, external: 'logs/0192f7a0-0000-7000-8000-000000000000/bodies/x' }],
    ['a file of the log', { file: `logs/0192f7a0-0000-7000-8000-000000000000/bodies/${'ab'.repeat(32)}-0123456789ab` }],
    ['an expiry', { expires: NOON }],
    ['the end of its segment', { type: 'End Segment', body: undefined }],
    ['a root', { type: 'Snapshot' }],
  ];
  test.each(REFUSED)('an entry with %s is refused', async (_, wrong) => {
    const { body: _body, ...rest } = { ...entryAt(log, FIRST), ...wrong };
    const entry = 'body' in wrong ? rest : { ...entryAt(log, FIRST), ...wrong };
    const error = await page()
      .putEntries([entry])
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UsageError);
    expect(error).toMatchObject({ log, ...FIRST, type: entry.type });
    expect(calls).toEqual([]);
  });

  const long = (length: number): string => 'x'.repeat(length);
  const OVER_LIMITS: readonly (readonly [string, Partial<Entry>])[] = [
    ['a body of 300 KB', { body: { format: 'bytes', bytes: new Uint8Array(300_000).fill(0x61) } }],
    ['a body of JSON text of 17 KB', { body: { format: 'json', text: JSON.stringify(long(17_000)) } }],
    ['a native body of 17 KB', { body: { format: 'native', value: { text: long(17_000) } } }],
    ['a body that is not a value', { body: { format: 'bytes', bytes: Uint8Array.of(0xc1, 0xc1) } }],
    ['an id of 100 KB', { id: new Uint8Array(100_000) }],
    ['a type of 100 KB', { type: long(100_000) }],
    ['a time beyond all limits', { created: 1e12 }],
    ['metadata of 200 KB', { metadata: { note: long(200_000) } }],
  ];
  test.each(OVER_LIMITS)('an entry with %s is refused as for every writer', async (_, wrong) => {
    const error = await page()
      .putEntries([{ ...entryAt(log, FIRST), ...wrong }])
      .catch((thrown: unknown) => thrown);
    expect(error instanceof UsageError || error instanceof TooLargeError, String(error)).toBe(true);
    expect(error).toMatchObject({ log, ...FIRST });
    expect(calls).toEqual([]);
  });

  test('mutations of one client that do not ascend are refused', async () => {
    const numbered = (entry: number, mutation: number): Entry =>
      entryAt(log, { segment: 0, entry }, { once: { client: 'phone', mutation } });
    await expect(page().putEntries([numbered(1, 2), numbered(2, 2)])).rejects.toThrow(UsageError);
    await page().putEntries([numbered(1, 1), numbered(2, 2)]);
    expect(await entriesInTable()).toHaveLength(3);
  });

  test('a page that is bound to its client name cannot number mutations of others', async () => {
    const allows: AnswerOptions['allows'] = (_log, _operation, entries) =>
      entries.every(({ once }) => once === undefined || once.client === 'ann');
    const numbered = (client: string): Entry =>
      entryAt(log, FIRST, { once: { client, mutation: Number.MAX_SAFE_INTEGER } });
    await expect(page({ allows }).putEntries([numbered('bob')])).rejects.toBeInstanceOf(NotAllowedError);
    expect(calls).toEqual([]);
    await page({ allows }).putEntries([numbered('ann')]);
    expect(await entriesInTable()).toMatchObject([{}, { once: { client: 'ann' } }]);
  });

  test('a Snapshot entry without a root is accepted', async () => {
    await page().putEntries([{ ...snapshotEntry(), position: FIRST }]);
    expect(await entriesInTable()).toHaveLength(2);
  });

  test('an entry that would leave a gap is refused', async () => {
    const gaps = [
      { segment: 0, entry: 2 },
      { segment: 1, entry: 0 },
    ];
    for (const position of gaps) {
      await expect(page().putEntries([entryAt(log, position)])).rejects.toThrow(EntryNotFoundError);
    }
    const apart = [entryAt(log, FIRST), entryAt(log, { segment: 0, entry: 3 })];
    await expect(page().putEntries(apart)).rejects.toThrow(MessageInvalidError);
    const ofTwo = [entryAt(log, FIRST), entryAt(newLogId(), { segment: 0, entry: 2 })];
    await expect(page().putEntries(ofTwo)).rejects.toThrow(LogNotFoundError);
    const ofOne = { format: 1, log, op: 'putEntries', lines: encodeLines(ofTwo.map(encodeEntry)) };
    expect(await codeOf(ofOne)).toBe('MESSAGE_INVALID');
    await expect(page().putEntries([entryAt(newLogId(), FIRST)])).rejects.toThrow(LogNotFoundError);
    expect(await entriesInTable()).toHaveLength(1);
  });

  test('an entry after the end of its segment is refused, and the error names the newest entry', async () => {
    await tables.startSegment({
      end: { ...snapshotEntry(), type: 'End Segment', position: FIRST },
      segment: { log, segment: 1, created: NOON },
      first: { ...snapshotEntry(), position: { segment: 1, entry: 0 } },
    });
    const put = page().putEntries([entryAt(log, { segment: 0, entry: 2 })]);
    await expect(put).rejects.toMatchObject({ code: 'ENTRY_EXISTS', newest: { segment: 1, entry: 0 } });
    expect(await entriesInTable()).toHaveLength(2);
  });

  test('an error arrives with its class, place, advice and text', async () => {
    await tables.putItems([malformedItem(log, FIRST, 'a time before 1970')]);
    const there = await tables.getEntry(log, FIRST).catch((thrown: unknown) => thrown);
    const here = await page()
      .getEntry(log, FIRST, CONSISTENT)
      .catch((thrown: unknown) => thrown);
    expect(here).toBeInstanceOf(ItemInvalidError);
    expect(JSON.stringify(here)).toBe(JSON.stringify(there));
  });

  test('an error of the server itself stays on the server', async () => {
    const secret = new CredentialsError('role arn:aws:iam::1:role/secret has no access');
    const broken = {
      ...recordRequests(tables, calls),
      isRetryable: () => false,
      newestSegments: () => Promise.reject(secret),
    };
    const ports = { store: { ...unarchived(tables), newestSegments: broken.newestSegments }, tables };
    const request = { format: 1, op: 'newestSegments', log, limit: 2, consistent: true };
    await expect(answerLogRequest(ports, request, { allows: () => true })).rejects.toBe(secret);
  });

  test('a busy table is an error that the page may retry', async () => {
    const busy = new Error('throttled');
    const throttled = { ...unarchived(tables), newestSegments: () => Promise.reject(busy) };
    const ports = {
      store: throttled,
      tables: Object.assign(tables, { isRetryable: (error: unknown) => error === busy }),
    };
    const store = new RemoteLogStore(async (request) =>
      jsonOf(await answerLogRequest(ports, jsonOf(request), { allows: () => true })),
    );
    const error = await store.newestSegments(log, 2, CONSISTENT).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect(store.isRetryable(error)).toBe(true);
    expect(store.isRetryable(new StoreUnavailableError('another'))).toBe(false);
  });

  test('logs and segments are not created and listed from a page', async () => {
    const store = page();
    const client = clientOf(store);
    const attempts: (() => unknown)[] = [
      () => client.createLog(),
      () => store.startSegment(),
      () => store.segments(),
      () => store.allSegments(),
    ];
    for (const attempt of attempts) await expect(Promise.try(attempt)).rejects.toBeInstanceOf(UsageError);
    expect(sent).toEqual([]);
  });

  test('all that a page cannot do says that the server can, and changes nothing', async () => {
    const ports = { store: unarchived(tables), tables };
    const logs = await openLogs({
      send: async (request) => jsonOf(await answerLogRequest(ports, jsonOf(request), { allows: () => true })),
      urlOf: () => 'http://127.0.0.1:1/',
      platform: nativePlatform,
    });
    const { client } = logs;
    const document = await logs.open(log, { reducer: spreadsheet });
    const before = await entriesInTable();
    for (const [what, attempt] of Object.entries({
      create: () => logs.create(),
      'create with an id': () => logs.create('org-7/plan'),
      list: () => logs.list().next(),
      'list by prefix': () => logs.list({ prefix: 'org' }).next(),
      updateLogAttributes: () => client.updateLogAttributes(log, { set: { owner: 'ann' } }),
      updateAttributes: () => client.updateAttributes(log, { segment: 0, entry: 0 }, { set: { owner: 'ann' } }),
      saveFile: () => client.saveFile(log, async function* () {}),
      'append with a large body': () =>
        document.append({ type: 'Set', version: 1, body: [[0, 0, 'x'.repeat(20_000)]] }),
      history: () => document.history({ row: 0, column: 0 }).next(),
    })) {
      const error = await Promise.try<unknown, []>(attempt).then(String, String);
      expect(`${what}: ${error}`).toMatch(/: UsageError: .* from a page.* on the server\.$/);
    }
    expect(await entriesInTable()).toEqual(before);
  });

  test('a mapped log is read with its types, and a program that gives none chooses itself', async () => {
    await tables.putEntries([{ ...snapshotEntry(), type: VIRTUAL_TYPES.snapshot, position: FIRST }]);
    const ports = { store: unarchived(tables), tables };
    const send = async (request: LogRequest) =>
      jsonOf(await answerLogRequest(ports, jsonOf(request), { allows: () => true }));
    const read = (...types: ReservedTypes[]) => new RemoteLogStore(send, ...types).getEntry(log, FIRST, CONSISTENT);
    const range = { segment: 0, from: 0, to: 2 };
    await expect(read(RESERVED_TYPES)).rejects.toBeInstanceOf(UsageError);
    const items = new RemoteLogStore(send, RESERVED_TYPES).items(log, range, CONSISTENT);
    await expect(Array.fromAsync(items)).rejects.toThrow('`types: VIRTUAL_TYPES`');
    const newest = new RemoteLogStore(send, RESERVED_TYPES).newestEntry(log, 0, CONSISTENT);
    await expect(newest).rejects.toThrow('`types: VIRTUAL_TYPES`');
    for (const types of [[VIRTUAL_TYPES], []]) expect(await read(...types)).toMatchObject({ position: FIRST });
  });

  test('a body of more than 16 KiB is not appended from a page', async () => {
    const add = clientOf(page()).addEntry(log, { type: 'Set', version: 1, body: 'x'.repeat(20_000) });
    await expect(add).rejects.toThrow(/^a body of 20003 bytes, over 16384, cannot be appended from a page/);
    await expect(add).rejects.toMatchObject({ code: 'USAGE', advice: expect.stringContaining('on the server') });
    const save = clientOf(page()).saveFile(log, async function* () {});
    await expect(save).rejects.toThrow(/^a file cannot be saved from a page.*on the server/);
    expect(await entriesInTable()).toHaveLength(1);
  });
});

describe('the messages between page and server', () => {
  const request = { format: 1, op: 'newestSegments', limit: 2, consistent: true };

  test('a malformed request is refused', async () => {
    expect(await codeOf({ ...request, log })).toBeUndefined();
    const lines = [JSON.stringify({ Item: {} })];
    const malformed: unknown[] = [
      undefined,
      'text',
      [],
      {},
      { ...request },
      { ...request, log: 'feed' },
      { ...request, log: 'x'.repeat(257) },
      { ...request, log: '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f' },
      { ...request, log, limit: 0 },
      { ...request, log, limit: 1e9 },
      { ...request, log, other: 1 },
      { ...request, log, op: 'putItems' },
      { ...request, log, op: 'allSegments' },
      { ...request, log, format: 0 },
      { format: 1, log, op: 'items', segment: 0, from: -1, to: 5, consistent: true },
      { format: 1, log, op: 'getEntry', segment: 2 ** 40, entry: 0, consistent: true },
      { format: 1, log, op: 'putEntries', lines: [] },
      { format: 1, log, op: 'putEntries', lines: Array(101).fill(lines[0]) },
      { format: 1, log, op: 'putEntries', lines: ['{'] },
    ];
    for (const message of malformed) expect(await codeOf(message), JSON.stringify(message)).toBe('MESSAGE_INVALID');
    expect(await codeOf({ format: 1, log, op: 'putEntries', lines })).toBe('ITEM_INVALID');
  });

  test('a request of a newer version is refused as such', async () => {
    expect(await codeOf({ ...request, log, format: 2, op: 'everything' })).toBe('MESSAGE_NEWER');
  });

  test('an unknown error of a newer server asks to reload the page', async () => {
    const store = new RemoteLogStore(async () => ({ error: { code: 'NEW', reason: 'something new' } }));
    const error = await store.newestSegments(log, 2, CONSISTENT).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(MessageNewerError);
    expect(String(error)).toContain("unknown error 'NEW': something new. Reload the page");
  });

  test('a malformed answer is refused', async () => {
    const other = encodeEntry(entryAt(newLogId(), FIRST));
    const line = (item: unknown) => JSON.stringify({ Item: item });
    const answers: unknown[] = [
      undefined,
      '{}',
      {},
      { lines: 'none' },
      { lines: [1] },
      { lines: ['<html>'] },
      { lines: [], next: 'more' },
      { lines: [], next: 0 },
      { error: {} },
      { error: { code: 'USAGE' } },
      {
        lines: [
          line({ S: { B: Buffer.from(other.S && 'B' in other.S ? other.S.B : []).toString('base64') }, N: { N: '1' } }),
        ],
      },
    ];
    for (const answer of answers) {
      const items = new RemoteLogStore(async () => answer).items(log, { segment: 0, from: 0, to: 9 }, CONSISTENT);
      await expect(Array.fromAsync(items), JSON.stringify(answer)).rejects.toBeInstanceOf(MessageInvalidError);
    }
  });
});
