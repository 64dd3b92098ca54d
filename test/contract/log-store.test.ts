import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore, isRetryable } from '../../src/adapters/dynamodb-log-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory-log-store.ts';
import {
  CredentialsError,
  EntryExistsError,
  EntryNotFoundError,
  ItemInvalidError,
  ResourceMissingError,
  SegmentNotFoundError,
  TooLargeError,
} from '../../src/errors.ts';
import type { Entry } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import type { LogId } from '../../src/log/log-id.ts';
import type { LogStore, RootRef } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import { startTestEngine, type TestEngine, testClient } from '../support/engine.ts';
import { allEntries, entryAt, NOON, newLogId, testLogClient } from '../support/logs.ts';

const CONSISTENT = { consistent: true };

let engine: TestEngine;
let tables: Awaited<ReturnType<TestEngine['createTables']>>;

beforeAll(async () => {
  engine = await startTestEngine();
  tables = await engine.createTables();
});
afterAll(() => engine.stop());

const STORES: readonly (readonly [string, () => Promise<LogStore>])[] = [
  ['memory', async () => new MemoryLogStore({ pageItems: 3 })],
  ['dynamodb', async () => new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) })],
];

const segmentOf = (log: LogId, segment: number): Segment => ({ log, segment, created: NOON });
const snapshotAt = (log: LogId, segment: number, entry: number): Entry => {
  return { log, position: { segment, entry }, created: NOON, type: 'Snapshot', version: 1 };
};
const endAt = (log: LogId, segment: number, entry: number): Entry => {
  return { log, position: { segment, entry }, created: NOON, type: 'End Segment', version: 1 };
};

async function createLog(store: LogStore): Promise<LogId> {
  const log = newLogId();
  await store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0));
  return log;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  return Array.fromAsync(items);
}

describe.each(STORES)('the %s log store', (_name, open) => {
  let store: LogStore;
  beforeAll(async () => {
    store = await open();
  });

  test('knows nothing of a log that does not exist', async () => {
    const log = newLogId();
    expect(await store.newestSegments(log, 2, CONSISTENT)).toEqual([]);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
    expect(await store.newestEntry(log, 0, CONSISTENT)).toBeUndefined();
    expect(await store.getEntry(log, { segment: 0, entry: 0 }, CONSISTENT)).toBeUndefined();
    expect(await collect(store.segments(log))).toEqual([]);
    expect(await allEntries(store.entries(log, { segment: 0, from: 0, to: 10 }, CONSISTENT))).toEqual([]);
  });

  test('creates a log once, with its first segment and entry', async () => {
    const log = await createLog(store);
    expect(await store.newestSegments(log, 2, CONSISTENT)).toEqual([segmentOf(log, 0)]);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(snapshotAt(log, 0, 0));
    await expect(store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0))).rejects.toThrow(EntryExistsError);
  });

  test('creates nothing at all where only the first entry exists', async () => {
    const log = newLogId();
    await store.putEntries([entryAt(log, { segment: 0, entry: 0 })]);
    await expect(store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0))).rejects.toThrow(EntryExistsError);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
  });

  test('keeps every attribute of an entry', async () => {
    const log = await createLog(store);
    const bodies: readonly Partial<Entry>[] = [
      { body: { format: 'bytes', bytes: Uint8Array.of(0, 255, 128) } },
      { body: { format: 'json', text: '{"a":"ä€😀"}' } },
      {
        body: { format: 'native', value: { a: [1, 2.5, -3e-7, 2n ** 63n, true, null, 'x', Uint8Array.of(1)], b: {} } },
      },
      { body: { format: 'native', value: [1e20, -9007199254740993n, 1e-130, 9e125] } },
      { body: { format: 'native', value: 42 } },
      { body: { format: 'native', value: false } },
      { body: undefined, external: 'logs/somewhere/else' },
      { body: undefined, expires: NOON + 86_400 },
    ];
    const entries = bodies.map((body, i) => {
      const { body: stored, ...entry } = { ...entryAt(log, { segment: 0, entry: i + 1 }), ...body };
      return stored === undefined ? entry : { ...entry, body: stored };
    });
    for (const entry of entries) await store.putEntries([entry]);
    expect(await allEntries(store.entries(log, { segment: 0, from: 1, to: 100 }, CONSISTENT))).toEqual(entries);
  });

  test('writes an entry only where there is none', async () => {
    const log = await createLog(store);
    const first = entryAt(log, { segment: 0, entry: 1 });
    await store.putEntries([first]);
    await expect(store.putEntries([{ ...first, type: 'Other' }])).rejects.toThrow(EntryExistsError);
    await expect(store.putEntries([first])).rejects.toThrow(EntryExistsError);
    expect(await store.getEntry(log, first.position, CONSISTENT)).toEqual(first);
  });

  test('writes several entries all or nothing', async () => {
    const log = await createLog(store);
    const entries = [1, 2, 3].map((entry) => entryAt(log, { segment: 0, entry }));
    await store.putEntries(entries);
    const clash = [3, 4, 5].map((entry) => entryAt(log, { segment: 0, entry }, { type: 'Other' }));
    await expect(store.putEntries(clash)).rejects.toThrow(EntryExistsError);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(entries[2]);
  });

  test('takes 100 entries at once and refuses more, or larger ones', async () => {
    const log = await createLog(store);
    const entries = Array.from({ length: 101 }, (_, i) => entryAt(log, { segment: 0, entry: i + 1 }));
    await expect(store.putEntries(entries)).rejects.toThrow(TooLargeError);
    await store.putEntries(entries.slice(0, 100));
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position.entry).toBe(100);

    const large = (entry: number, bytes: number) =>
      entryAt(log, { segment: 0, entry }, { body: { format: 'bytes', bytes: new Uint8Array(bytes) } });
    await expect(store.putEntries([large(101, 400 * 1024)])).rejects.toThrow(TooLargeError);
    const many = Array.from({ length: 11 }, (_, i) => large(101 + i, 390 * 1024));
    await expect(store.putEntries(many)).rejects.toThrow(TooLargeError);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position.entry).toBe(100);
  });

  test('reads ranges in order, page by page, and no other segment', async () => {
    const log = await createLog(store);
    const entries = Array.from({ length: 30 }, (_, i) =>
      entryAt(log, { segment: 0, entry: i + 1 }, { body: { format: 'bytes', bytes: new Uint8Array(60_000).fill(i) } }),
    );
    for (const entry of entries) await store.putEntries([entry]);
    await store.putEntries([entryAt(log, { segment: 1, entry: 5 })]);
    const pages = await collect(store.entries(log, { segment: 0, from: 3, to: 30 }, CONSISTENT));
    expect(pages.length).toBeGreaterThan(1);
    const summary = ({ position, body }: Entry) => [position, body?.format === 'bytes' && body.bytes.at(-1)];
    expect(pages.flat().map(summary)).toEqual(entries.slice(2, 29).map(summary));
    expect(await collect(store.entries(log, { segment: 0, from: 3, to: 3 }, CONSISTENT))).toEqual([]);
    expect(await collect(store.entries(log, { segment: 0, from: 31, to: 2 ** 32 }, CONSISTENT))).toEqual([]);
  });

  test('orders numbers as numbers up to the largest', async () => {
    const log = newLogId();
    const numbers = [9, 10, 100, 2 ** 32 - 1];
    for (const entry of numbers) await store.putEntries([entryAt(log, { segment: 2 ** 32 - 1, entry })]);
    const read = await allEntries(store.entries(log, { segment: 2 ** 32 - 1, from: 9, to: 101 }, CONSISTENT));
    expect(read.map((entry) => entry.position.entry)).toEqual([9, 10, 100]);
    expect((await store.newestEntry(log, 2 ** 32 - 1, CONSISTENT))?.position.entry).toBe(2 ** 32 - 1);
  });

  test('starts a segment all or nothing', async () => {
    const log = await createLog(store);
    const items = { end: endAt(log, 0, 1), segment: segmentOf(log, 1), first: snapshotAt(log, 1, 0) };
    await store.startSegment(items);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(items.end);
    expect(await store.newestEntry(log, 1, CONSISTENT)).toEqual(items.first);
    expect(await store.newestSegments(log, 1, CONSISTENT)).toEqual([segmentOf(log, 1)]);
    expect(await store.newestSegments(log, 5, CONSISTENT)).toEqual([segmentOf(log, 1), segmentOf(log, 0)]);

    await store.putEntries([entryAt(log, { segment: 1, entry: 1 })]);
    const late = { end: endAt(log, 1, 1), segment: segmentOf(log, 2), first: snapshotAt(log, 2, 0) };
    await expect(store.startSegment(late)).rejects.toThrow(EntryExistsError);
    expect(await store.getSegment(log, 2, CONSISTENT)).toBeUndefined();
    expect(await store.newestEntry(log, 2, CONSISTENT)).toBeUndefined();
  });

  test('lists the segments of one log and of all logs', async () => {
    const log = await createLog(store);
    for (const segment of [1, 2, 10]) {
      await store.startSegment({
        end: endAt(log, segment - 1, 900),
        segment: segmentOf(log, segment),
        first: snapshotAt(log, segment, 0),
      });
    }
    const other = await createLog(store);
    expect((await collect(store.segments(log))).map(({ segment }) => segment)).toEqual([0, 1, 2, 10]);
    const all = (await collect(store.allSegments())).filter((each) => each.log === log || each.log === other);
    expect(all).toHaveLength(5);
  });

  test.each([
    ['a key', { key: 'logs/x/roots/y' }, { key: 'other' }],
    ['an inline root', { inline: Uint8Array.of(1, 2, 3) }, { inline: Uint8Array.of(9) }],
    ['a key, then an inline root', { key: 'logs/x/roots/y' }, { inline: Uint8Array.of(9) }],
    ['an inline root, then a key', { inline: Uint8Array.of(1, 2, 3) }, { key: 'other' }],
  ])('completes a snapshot once: %s', async (_what, root, late) => {
    const log = await createLog(store);
    const position = { segment: 0, entry: 0 };
    expect(await store.completeSnapshot(log, position, root)).toEqual(root);
    expect(await store.completeSnapshot(log, position, late)).toEqual(root);
    const expected = 'key' in root ? { external: root.key } : { body: { format: 'bytes', bytes: root.inline } };
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...snapshotAt(log, 0, 0), ...expected });
  });

  test('completes no snapshot where there is no entry, or one with a body of its own', async () => {
    const log = await createLog(store);
    const place = { segment: 0, entry: 7 };
    await expect(store.completeSnapshot(log, place, { key: 'k' })).rejects.toThrow(EntryNotFoundError);
    expect(await store.getEntry(log, place, CONSISTENT)).toBeUndefined();
    await store.putEntries([entryAt(log, place, { body: { format: 'json', text: '1' } })]);
    await expect(store.completeSnapshot(log, place, { key: 'k' })).rejects.toThrow(ItemInvalidError);
  });

  test('completes no snapshot with a root that does not fit the item', async () => {
    const log = await createLog(store);
    const root = { inline: new Uint8Array(400 * 1024) };
    await expect(store.completeSnapshot(log, { segment: 0, entry: 0 }, root)).rejects.toThrow(TooLargeError);
    expect(await store.getEntry(log, { segment: 0, entry: 0 }, CONSISTENT)).toEqual(snapshotAt(log, 0, 0));
  });

  const ROOTS: readonly (readonly [string, RootRef])[] = [
    ['a key', { key: 'logs/x/roots/old' }],
    ['another key', { key: 'logs/x/roots/new' }],
    ['an inline root', { inline: Uint8Array.of(1, 2, 3) }],
    ['another inline root', { inline: Uint8Array.of(1, 2, 4) }],
  ];
  const PAIRS = ROOTS.flatMap(([a, from]) => ROOTS.filter(([b]) => b !== a).map(([b, to]) => ({ a, b, from, to })));

  test.each(PAIRS)('replaces $a by $b, and nothing else of the entry', async ({ from, to }) => {
    const log = await createLog(store);
    const position = { segment: 0, entry: 0 };
    await store.completeSnapshot(log, position, from);
    expect(await store.replaceRoot(log, position, from, to)).toBe(true);
    // Exactly one attribute, since an entry with both cannot be read.
    const expected = 'key' in to ? { external: to.key } : { body: { format: 'bytes', bytes: to.inline } };
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...snapshotAt(log, 0, 0), ...expected });
    expect(await store.completeSnapshot(log, position, from)).toEqual(to);
  });

  test.each(PAIRS)('replaces no root but $a by $b, and says whether the entry carries it', async ({ from, to }) => {
    const log = await createLog(store);
    const position = { segment: 0, entry: 0 };
    const before = await store.getEntry(log, position, CONSISTENT);
    expect(await store.replaceRoot(log, position, from, to)).toBe(false);
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual(before);

    for (const [, other] of ROOTS.filter(([, root]) => root !== from && root !== to)) {
      const another = await createLog(store);
      await store.completeSnapshot(another, position, other);
      const stays = await store.getEntry(another, position, CONSISTENT);
      expect(await store.replaceRoot(another, position, from, to)).toBe(false);
      expect(await store.getEntry(another, position, CONSISTENT)).toEqual(stays);
    }
    await store.completeSnapshot(log, position, to);
    expect(await store.replaceRoot(log, position, from, to)).toBe(true);
    expect(await store.completeSnapshot(log, position, from)).toEqual(to);
  });

  test('replaces no root where there is no entry, or by one that does not fit the item', async () => {
    const log = await createLog(store);
    const [from, to] = [{ key: 'old' }, { inline: new Uint8Array(400 * 1024) }];
    const place = { segment: 0, entry: 7 };
    await expect(store.replaceRoot(log, place, from, { key: 'new' })).rejects.toThrow(EntryNotFoundError);
    expect(await store.getEntry(log, place, CONSISTENT)).toBeUndefined();
    const position = { segment: 0, entry: 0 };
    await store.completeSnapshot(log, position, from);
    await expect(store.replaceRoot(log, position, from, to)).rejects.toThrow(TooLargeError);
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...snapshotAt(log, 0, 0), external: 'old' });
  });

  test('lets one of many clients replace a root', async () => {
    const log = await createLog(store);
    const position = { segment: 0, entry: 0 };
    await store.completeSnapshot(log, position, { key: 'old' });
    const keys = Array.from({ length: 8 }, (_, i) => `new ${i}`);
    const replaced = await Promise.all(keys.map((key) => store.replaceRoot(log, position, { key: 'old' }, { key })));
    expect(replaced.filter((won) => won)).toHaveLength(1);
    expect((await store.getEntry(log, position, CONSISTENT))?.external).toBe(keys[replaced.indexOf(true)]);
  });

  test('moves Last Snapshot forward only', async () => {
    const log = await createLog(store);
    const lastSnapshot = async () => (await store.getSegment(log, 0, CONSISTENT))?.lastSnapshot;
    expect(await store.advanceLastSnapshot(log, { segment: 0, entry: 5 })).toBe(true);
    expect(await store.advanceLastSnapshot(log, { segment: 0, entry: 5 })).toBe(false);
    expect(await store.advanceLastSnapshot(log, { segment: 0, entry: 3 })).toBe(false);
    expect(await lastSnapshot()).toBe(5);
    expect(await store.advanceLastSnapshot(log, { segment: 0, entry: 40 })).toBe(true);
    expect(await lastSnapshot()).toBe(40);
    await expect(store.advanceLastSnapshot(log, { segment: 3, entry: 0 })).rejects.toThrow(SegmentNotFoundError);
    expect(await store.getSegment(log, 3, CONSISTENT)).toBeUndefined();
  });

  test('gives many clients that append to one log dense numbers, and loses nothing', async () => {
    const clients = Array.from({ length: 8 }, () => testLogClient({ store, retries: LONG }).client);
    const log = await testLogClient({ store }).client.createLog();
    const added = await Promise.all(
      clients.map(async (client, c) => {
        const positions: number[] = [];
        for (let i = 0; i < 10; i++) {
          const { position } = await client.addEntry(log, { type: 'Set', version: 1, body: [c, i] });
          positions.push(position.entry);
        }
        return positions;
      }),
    );
    expect(added.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: 80 }, (_, i) => i + 1));
    const read = await allEntries(store.entries(log, { segment: 0, from: 1, to: 1000 }, CONSISTENT));
    const bodies = read.map(({ body }) => (body?.format === 'bytes' ? Buffer.from(body.bytes).toString('hex') : ''));
    expect(new Set(bodies).size).toBe(80);
  });

  test('lets one of many clients start the next segment while others append', async () => {
    const log = await testLogClient({ store }).client.createLog();
    await store.advanceLastSnapshot(log, { segment: 0, entry: 0 });
    const appending = Array.from({ length: 4 }, async (_, c) => {
      const { client } = testLogClient({ store, retries: LONG });
      for (let i = 0; i < 6; i++) await client.addEntry(log, { type: 'Set', version: 1, body: [c, i] });
    });
    const starting = Array.from({ length: 3 }, () => testLogClient({ store, retries: LONG }).client.startSegment(log));
    const [started] = await Promise.all([Promise.allSettled(starting), ...appending]);
    expect(started.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    const { entries } = await testLogClient({ store }).client.query(log, { from: 'start' });
    const types = (await allEntries(entries)).map(({ type }) => type);
    expect(types.filter((type) => type === 'Set')).toHaveLength(24);
    expect(types.filter((type) => type !== 'Set')).toEqual(['Snapshot', 'End Segment', 'Snapshot']);
  });
});

const LONG = { attempts: 200, baseMs: 1, capMs: 1 };

describe('the dynamodb log store alone', () => {
  const missing = { entryTable: 'no-entries', segmentTable: 'no-segments' };

  test('writes the items that the format says', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const log = newLogId();
    const entry = entryAt(log, { segment: 0, entry: 3 }, { expires: NOON + 1 });
    await store.putEntries([entry]);
    const stored = await engine.client.send(
      new GetItemCommand({ TableName: tables.entryTable, Key: entryKey(log, entry.position) }),
    );
    expect(stored.Item).toEqual(encodeEntry(entry));
  });

  test('names an item that another program left malformed', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const log = newLogId();
    const item = { ...encodeEntry(entryAt(log, { segment: 2, entry: 3 })), T: { N: '5' } };
    await engine.client.send(new PutItemCommand({ TableName: tables.entryTable, Item: item }));
    const read = store.getEntry(log, { segment: 2, entry: 3 }, CONSISTENT);
    await expect(read).rejects.toMatchObject({ code: 'ITEM_INVALID', log, segment: 2, entry: 3 });
  });

  test('names a table that does not exist', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...missing });
    const log = newLogId();
    const requests = [
      store.newestSegments(log, 1, CONSISTENT),
      store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0)),
      store.advanceLastSnapshot(log, { segment: 0, entry: 0 }),
      collect(store.allSegments()),
    ];
    for (const error of (await Promise.allSettled(requests)).map((each) => 'reason' in each && each.reason)) {
      expect(error).toBeInstanceOf(ResourceMissingError);
      expect(String(error)).toContain("'no-segments'");
    }
    const put = store.putEntries([entryAt(log, { segment: 0, entry: 0 })]);
    await expect(put).rejects.toThrow(/'no-entries'/);
  });

  test('says where there are no credentials', async () => {
    const client = testClient(engine.endpoint);
    client.config.credentials = async () => {
      throw Object.assign(new Error('Could not load credentials from any providers'), {
        name: 'CredentialsProviderError',
      });
    };
    const store = new DynamoDbLogStore({ client, ...tables });
    await expect(store.newestSegments(newLogId(), 1, CONSISTENT)).rejects.toThrow(CredentialsError);
    client.destroy();
  });

  test('reports what each request consumed', async () => {
    const metered: [string, { readUnits: number; writeUnits: number }][] = [];
    const meter = (op: string, units: { readUnits: number; writeUnits: number }) => metered.push([op, units]);
    const store = new DynamoDbLogStore({ client: engine.client, ...tables, meter });
    const log = await createLog(store);
    await store.putEntries([entryAt(log, { segment: 0, entry: 1 })]);
    await store.newestEntry(log, 0, { consistent: false });
    await store.newestEntry(log, 0, CONSISTENT);
    await store.advanceLastSnapshot(log, { segment: 0, entry: 0 });
    await store.getEntry(log, { segment: 0, entry: 1 }, CONSISTENT);
    expect(metered).toEqual([
      ['TransactWriteItems', { readUnits: 0, writeUnits: 4 }],
      ['PutItem', { readUnits: 0, writeUnits: 1 }],
      ['Query', { readUnits: 0.5, writeUnits: 0 }],
      ['Query', { readUnits: 1, writeUnits: 0 }],
      ['UpdateItem', { readUnits: 0, writeUnits: 1 }],
      ['GetItem', { readUnits: 1, writeUnits: 0 }],
    ]);
  });

  test('knows its own entry again where the answer was lost and the SDK sent it twice', async () => {
    const client = testClient(engine.endpoint);
    let breaks: 'before' | 'after' | 'never' = 'after';
    const broken = Object.assign(new Error('the connection broke'), { name: 'TimeoutError' });
    client.middlewareStack.add(
      (next) => async (args) => {
        const when = breaks;
        breaks = 'never';
        if (when === 'before') throw broken;
        const answer = await next(args);
        if (when === 'after') throw broken;
        return answer;
      },
      { step: 'deserialize', priority: 'low' },
    );
    const store = new DynamoDbLogStore({ client, ...tables });
    const log = newLogId();
    const entry = entryAt(log, { segment: 0, entry: 0 });
    await store.putEntries([entry]);
    expect(await store.getEntry(log, entry.position, CONSISTENT)).toEqual(entry);

    breaks = 'before';
    await expect(store.putEntries([{ ...entry, type: 'Other' }])).rejects.toThrow(EntryExistsError);
    breaks = 'never';
    await expect(store.putEntries([entry])).rejects.toThrow(EntryExistsError);
    client.destroy();
  });

  test.each([
    [true, 'TransactionConflictException', undefined],
    [true, 'ThrottlingException', undefined],
    [true, 'ProvisionedThroughputExceededException', undefined],
    [true, 'TransactionCanceledException', [{ Code: 'None' }, { Code: 'TransactionConflict' }]],
    [true, 'TransactionCanceledException', [{ Code: 'ThrottlingError' }]],
    [false, 'TransactionCanceledException', [{ Code: 'ConditionalCheckFailed' }, { Code: 'TransactionConflict' }]],
    [false, 'TransactionCanceledException', [{ Code: 'ValidationError' }]],
    [false, 'TransactionInProgressException', undefined],
    [false, 'InternalServerError', undefined],
    [false, 'TimeoutError', undefined],
  ])('retrying is %s for %s with %j', (expected, name, CancellationReasons) => {
    const error = Object.assign(new Error('no'), { name, ...(CancellationReasons && { CancellationReasons }) });
    expect(isRetryable(error)).toBe(expected);
  });
});
