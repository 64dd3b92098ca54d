import { randomUUID } from 'node:crypto';
import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { translateDynamoDbError } from '../../src/adapters/aws/dynamodb-error.ts';
import { DynamoDbLogStore, isRetryable } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import {
  AttemptsExhaustedError,
  CredentialsError,
  EntryExistsError,
  EntryNotFoundError,
  ItemInvalidError,
  ResourceMissingError,
  SegmentClosedError,
  SegmentWithoutSnapshotError,
  StoreUnavailableError,
  TooLargeError,
} from '../../src/errors.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { decodeBody } from '../../src/log/body.ts';
import type { LogClient } from '../../src/log/client.ts';
import { type Entry, type EntryHead, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, encodeSegment, entryKey, segmentKey } from '../../src/log/item-codec.ts';
import { type LogStore, MAX_BATCH_ITEMS, type RootRef } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import { archiveKey } from '../../src/store/keys.ts';
import { allEntries, entryAt, MALFORMED, malformedItem, NOON, newLogId, testLogClient } from '../support/logs.ts';
import { expiring, lastAt } from '../support/segments.ts';
import { startTestEngine, type TestEngine, testClient } from '../support/stores/engine.ts';
import { readsOfPage } from '../support/stores/remote-reads.ts';

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
  [
    'dynamodb (one table for both)',
    async () => {
      const { entryTable } = await engine.createTables();
      return new DynamoDbLogStore({ client: engine.client, entryTable, segmentTable: entryTable });
    },
  ],
  ['memory (beside a feed)', async () => withFeed(new MemoryLogStore({ pageItems: 3 }), new MemoryLogStore())],
  ['remote (reads only)', async () => readsOfPage(new MemoryLogStore({ pageItems: 3 }))],
];

const segmentOf = (log: LogId, segment: number): Segment => ({ log, segment, created: NOON });
const snapshotAt = (log: LogId, segment: number, entry: number): Entry => {
  return { log, position: { segment, entry }, created: NOON, type: 'Snapshot', version: 1 };
};
const endAt = (log: LogId, segment: number, entry: number): Entry => {
  return { log, position: { segment, entry }, created: NOON, type: 'End Segment', version: 1 };
};

const headOf = ({ log, position, type }: Entry): EntryHead => ({ log, position, type });

async function createLog(store: LogStore): Promise<LogId> {
  const log = newLogId();
  await store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0));
  return log;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  return Array.fromAsync(items);
}

/** An item with sorted sets, because sets have no order. */
function sorted(item: StoredItem): StoredItem {
  const entries = Object.entries(item).map(([name, attribute]) => {
    if (attribute?.SS !== undefined) return [name, { SS: attribute.SS.toSorted() }];
    if (attribute?.NS !== undefined) return [name, { NS: attribute.NS.toSorted() }];
    if (attribute?.BS !== undefined) return [name, { BS: attribute.BS.toSorted((a, b) => Buffer.compare(a, b)) }];
    return [name, attribute];
  });
  return Object.fromEntries(entries);
}

describe.each(STORES)('the %s log store', (name, open) => {
  let store: LogStore;
  beforeAll(async () => {
    store = await open();
  });

  test('it creates a log once, with its first segment and entry', async () => {
    const log = await createLog(store);
    expect(await store.newestSegments(log, 2, CONSISTENT)).toEqual([segmentOf(log, 0)]);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(headOf(snapshotAt(log, 0, 0)));
    expect(await store.getEntry(log, FIRST, CONSISTENT)).toEqual(snapshotAt(log, 0, 0));
    await expect(store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0))).rejects.toThrow(EntryExistsError);
  });

  test('it finds all segments of a log, the newest first, and a page 1,000 of them', async () => {
    const log = newLogId();
    const numbers = Array.from({ length: 1_005 }, (_, i) => i);
    for (let at = 0; at < numbers.length; at += 50) {
      await Promise.all(numbers.slice(at, at + 50).map((segment) => store.putSegment(segmentOf(log, segment))));
    }
    const found = await store.newestSegments(log, Number.MAX_SAFE_INTEGER, CONSISTENT);
    expect(found.map(({ segment }) => segment)).toEqual(
      numbers.toReversed().slice(0, name.startsWith('remote') ? 1_000 : undefined),
    );
  });

  test('it creates nothing if only the first entry exists', async () => {
    const log = newLogId();
    await store.putEntries([entryAt(log, { segment: 0, entry: 0 })]);
    await expect(store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0))).rejects.toThrow(EntryExistsError);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
  });

  test('it keeps every attribute of an entry', async () => {
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
      { metadata: { correlation: '', causation: 'c', '#a.b[0]': { c: [1e20, 2n ** 63n, null, Uint8Array.of()] } } },
      { number: 0 },
      { number: Number.MAX_SAFE_INTEGER },
      { once: { client: 'łaptop 💻', mutation: Number.MAX_SAFE_INTEGER } },
    ];
    const entries = bodies.map((body, i) => {
      const { body: stored, ...entry } = { ...entryAt(log, { segment: 0, entry: i + 1 }), ...body };
      return stored === undefined ? entry : { ...entry, body: stored };
    });
    for (const entry of entries) await store.putEntries([entry]);
    expect(await allEntries(store.entries(log, { segment: 0, from: 1, to: 100 }, CONSISTENT))).toEqual(entries);
  });

  test('it writes an entry only if there is none', async () => {
    const log = await createLog(store);
    const first = entryAt(log, { segment: 0, entry: 1 });
    await store.putEntries([first]);
    await expect(store.putEntries([{ ...first, type: 'Other' }])).rejects.toThrow(EntryExistsError);
    await expect(store.putEntries([first])).rejects.toThrow(EntryExistsError);
    expect(await store.getEntry(log, first.position, CONSISTENT)).toEqual(first);
  });

  const ID = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  const OTHER_ID = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 9);

  test.each([1, 3])(
    'it recognizes %i entries that an earlier sending of the same request wrote',
    { tags: ['I8'] },
    async (count) => {
      const log = await createLog(store);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      const entries = numbers.map((entry) =>
        entryAt(log, { segment: 0, entry }, { id: ID.map((byte) => byte ^ entry) }),
      );
      await store.putEntries(entries);
      await store.setEntryExpiry(log, { segment: 0, entry: 1 }, NOON);
      const items = await itemsOf(log);
      await store.putEntries(entries);
      expect(await itemsOf(log)).toEqual(items);
    },
  );

  test('it does not accept an equal entry as its own if the id differs or is missing', {
    tags: ['I8'],
  }, async () => {
    for (const [there, given] of [
      [ID, OTHER_ID],
      [ID, undefined],
      [undefined, ID],
      [undefined, undefined],
    ]) {
      const log = await createLog(store);
      const numbers = [1, 2, 3];
      const entries = (id: Uint8Array | undefined) =>
        numbers.map((entry) => entryAt(log, { segment: 0, entry }, id && { id }));
      await store.putEntries(entries(there));
      await expect(store.putEntries(entries(given))).rejects.toThrow(EntryExistsError);
      for (const entry of entries(given)) await expect(store.putEntries([entry])).rejects.toThrow(EntryExistsError);
      expect(await allEntries(store.entries(log, { segment: 0, from: 1, to: 9 }, CONSISTENT))).toEqual(entries(there));
    }
  });

  test('it finds the end of a segment even if the newest entry is malformed', async () => {
    for (const [fault, type] of MALFORMED) {
      const log = await createLog(store);
      const position = { segment: 0, entry: 1 };
      await store.putItems([malformedItem(log, position, fault)]);
      expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual({ log, position, ...(type && { type }) });
      if (fault !== 'a foreign attribute') {
        await expect(store.getEntry(log, position, CONSISTENT)).rejects.toThrow(ItemInvalidError);
      }
    }
  });

  test('it takes no attribute of another program for an id', async () => {
    const log = await createLog(store);
    const entry = entryAt(log, { segment: 0, entry: 1 });
    await store.putItems([{ ...encodeEntry(entry), I: { S: 'theirs' } }]);
    expect(await store.getEntry(log, entry.position, CONSISTENT)).toEqual(entry);
    await expect(store.putEntries([{ ...entry, id: ID }])).rejects.toThrow(EntryExistsError);
    expect((await itemsOf(log)).at(-1)?.I).toEqual({ S: 'theirs' });
  });

  test('it recognizes its own log and its own segment, and no equal ones of another writer', {
    tags: ['I8'],
  }, async () => {
    const log = newLogId();
    const create = (id: Uint8Array | undefined) => store.createLog(segmentOf(log, 0), { ...snapshotAt(log, 0, 0), id });
    await create(ID);
    await create(ID);
    for (const id of [OTHER_ID, undefined]) await expect(create(id)).rejects.toThrow(EntryExistsError);

    const start = (id: Uint8Array | undefined) =>
      store.startSegment({
        end: { ...endAt(log, 0, 1), id },
        segment: segmentOf(log, 1),
        first: { ...snapshotAt(log, 1, 0), id },
      });
    await start(ID);
    await start(ID);
    for (const id of [OTHER_ID, undefined]) await expect(start(id)).rejects.toThrow(EntryExistsError);
    expect(await numbersOf(log)).toEqual([0, 1]);
    expect(await numbersOf(log, 1)).toEqual([0]);
  });

  test('it writes several entries all or nothing', async () => {
    const log = await createLog(store);
    const entries = [1, 2, 3].map((entry) => entryAt(log, { segment: 0, entry }));
    await store.putEntries(entries);
    const clash = [3, 4, 5].map((entry) => entryAt(log, { segment: 0, entry }, { type: 'Other' }));
    await expect(store.putEntries(clash)).rejects.toThrow(EntryExistsError);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(entries[2] && headOf(entries[2]));
  });

  test('it writes entries of several logs all or nothing, and names the log that has others', {
    tags: ['I8'],
  }, async () => {
    const logs = await Promise.all([1, 2, 3].map(() => createLog(store)));
    const together = (entry: number, id: Uint8Array) => {
      // The entries of a transaction may even have equal ids.
      return logs.flatMap((log) => [0, 1].map((more) => entryAt(log, { segment: 0, entry: entry + more }, { id })));
    };
    const entries = together(1, ID);
    await store.putEntries(entries);
    // An earlier sending of the same request wrote them.
    await store.putEntries(entries);
    const [, second] = logs;
    for (const log of logs) expect(await numbersOf(log)).toEqual([0, 1, 2]);
    await expect(store.putEntries(together(1, OTHER_ID))).rejects.toThrow(EntryExistsError);
    if (second === undefined) throw new Error('there are three logs');
    await store.putEntries([entryAt(second, { segment: 0, entry: 3 })]);
    const conflict = store.putEntries(together(3, OTHER_ID));
    await expect(conflict).rejects.toMatchObject({ code: 'ENTRY_EXISTS', log: second, segment: 0, entry: 3 });
    for (const log of logs) expect(await numbersOf(log)).toEqual(log === second ? [0, 1, 2, 3] : [0, 1, 2]);
  });

  test.each(['nothing', 'another entry'])(
    'it refuses an id that one log has already, if the other log has %s',
    { tags: ['I8'] },
    async (what) => {
      const [one, other] = [await createLog(store), await createLog(store)];
      const at = (log: LogId, id: Uint8Array) => entryAt(log, { segment: 0, entry: 1 }, { id });
      await store.putEntries([at(one, ID)]);
      if (what === 'another entry') await store.putEntries([at(other, OTHER_ID)]);
      const before = await itemsOf(other);
      for (const entries of [
        [at(one, ID), at(other, ID)],
        [at(other, ID), at(one, ID)],
      ]) {
        await expect(store.putEntries(entries)).rejects.toMatchObject({ code: 'USAGE', log: other });
      }
      expect(await itemsOf(other)).toEqual(before);
    },
  );

  test('it refuses entries of which it has only some, and writes none', { tags: ['I8'] }, async () => {
    const log = await createLog(store);
    const entries = [1, 2, 3].map((entry) => entryAt(log, { segment: 0, entry }, { id: Uint8Array.of(entry) }));
    await store.putEntries(entries.slice(0, 2));
    const before = await itemsOf(log);
    for (const wrong of [entries, entries.slice(1), entries.toReversed()]) {
      await expect(store.putEntries(wrong)).rejects.toMatchObject({ code: 'USAGE', log, segment: 0, entry: 3 });
    }
    // Those that it has were sent again.
    for (const again of [entries.slice(0, 2), entries.slice(1, 2)]) await store.putEntries(again);
    expect(await itemsOf(log)).toEqual(before);
  });

  test('it replaces attributes of a log only if they are as given, and only on the newest segment', async () => {
    const log = await createLog(store);
    const place = { log, segment: 0 };
    const first: Item = { org: { N: '7' }, S: { S: 'x' } };
    const second: Item = { 'a b': { M: { S: { L: [{ NULL: true }] } } } };
    const attributes = async () => (await store.newestSegments(log, 1, CONSISTENT))[0]?.attributes;
    expect(await store.replaceAttributes(place, first, second)).toBe(false);
    expect(await store.replaceAttributes(place, undefined, first)).toBe(true);
    expect(await store.replaceAttributes(place, undefined, second)).toBe(false);
    expect(await store.replaceAttributes({ log: newLogId(), segment: 0 }, undefined, first)).toBe(false);
    expect(await attributes()).toEqual(first);
    const start = (endedAttributes: Item | undefined, id = ID) =>
      store.startSegment({
        end: { ...endAt(log, 0, 1), id },
        segment: { ...segmentOf(log, 1), attributes: first },
        endedAttributes,
        first: { ...snapshotAt(log, 1, 0), id },
      });
    for (const wrong of [undefined, second]) await expect(start(wrong)).rejects.toThrow(EntryExistsError);
    expect(await numbersOf(log)).toEqual([0]);
    await start(first);
    await start(first);
    expect(await store.replaceAttributes(place, first, second)).toBe(false);
    expect(await store.replaceAttributes({ log, segment: 1 }, first, {})).toBe(true);
    expect(await attributes()).toEqual({});
    expect(await store.replaceAttributes({ log, segment: 1 }, {}, second)).toBe(true);
    expect(await attributes()).toEqual(second);
  });

  test('it accepts 100 entries and refuses more, or larger ones', async () => {
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

  test('it reads ranges in order, page by page, and no other segment', async () => {
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

  test('it orders numbers as numbers up to the largest', async () => {
    const log = newLogId();
    const numbers = [9, 10, 100, 2 ** 32 - 1];
    for (const entry of numbers) await store.putEntries([entryAt(log, { segment: 2 ** 32 - 1, entry })]);
    const read = await allEntries(store.entries(log, { segment: 2 ** 32 - 1, from: 9, to: 101 }, CONSISTENT));
    expect(read.map((entry) => entry.position.entry)).toEqual([9, 10, 100]);
    expect((await store.newestEntry(log, 2 ** 32 - 1, CONSISTENT))?.position.entry).toBe(2 ** 32 - 1);
  });

  test('it starts a segment all or nothing', async () => {
    const log = await createLog(store);
    const items = { end: endAt(log, 0, 1), segment: segmentOf(log, 1), first: snapshotAt(log, 1, 0) };
    await store.startSegment(items);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(headOf(items.end));
    expect(await store.newestEntry(log, 1, CONSISTENT)).toEqual(headOf(items.first));
    expect(await store.getEntry(log, items.end.position, CONSISTENT)).toEqual(items.end);
    expect(await store.getEntry(log, items.first.position, CONSISTENT)).toEqual(items.first);
    expect(await store.newestSegments(log, 1, CONSISTENT)).toEqual([segmentOf(log, 1)]);
    expect(await store.newestSegments(log, 5, CONSISTENT)).toEqual([segmentOf(log, 1), segmentOf(log, 0)]);

    await store.putEntries([entryAt(log, { segment: 1, entry: 1 })]);
    const late = { end: endAt(log, 1, 1), segment: segmentOf(log, 2), first: snapshotAt(log, 2, 0) };
    await expect(store.startSegment(late)).rejects.toThrow(EntryExistsError);
    expect(await store.getSegment(log, 2, CONSISTENT)).toBeUndefined();
    expect(await store.newestEntry(log, 2, CONSISTENT)).toBeUndefined();
  });

  describe('a write after entries that were not read', () => {
    const after = { position: { segment: 0, entry: 0 }, number: 0 };
    const setAt = (log: LogId, entry: number, number: number | undefined): Entry =>
      entryAt(log, { segment: 0, entry }, number === undefined ? {} : { number });
    const unread = (log: LogId, count: number) => ({ log, after, count, types: RESERVED_TYPES });

    test.each([1, 3])('it is made if the %i entries are as expected', async (count) => {
      const log = await createLog(store);
      for (let i = 1; i <= count; i++) await store.putEntries([setAt(log, i, i)]);
      const entry = { ...snapshotAt(log, 0, count + 1), number: count, id: ID };
      await store.putAhead({ entries: [entry] }, unread(log, count));
      const items = await itemsOf(log);
      // The same request again, whose answer was lost.
      await store.putAhead({ entries: [entry] }, unread(log, count));
      expect(await itemsOf(log)).toEqual(items);
      expect(items).toHaveLength(count + 2);
    });

    test('it starts a segment all or nothing', async () => {
      const log = await createLog(store);
      await store.putEntries([setAt(log, 1, 1)]);
      const entries = [endAt(log, 0, 2), snapshotAt(log, 1, 0)];
      const segment = segmentOf(log, 1);
      const early = [endAt(log, 0, 3), snapshotAt(log, 1, 0)];
      await expect(store.putAhead({ entries: early, segment }, unread(log, 2))).rejects.toThrow(EntryNotFoundError);
      expect(await store.getSegment(log, 1, CONSISTENT)).toBeUndefined();
      await store.putAhead({ entries, segment }, unread(log, 1));
      expect(await store.newestSegments(log, 1, CONSISTENT)).toEqual([segment]);
      expect(await store.newestEntry(log, 0, CONSISTENT)).toMatchObject({ type: 'End Segment' });
      await expect(store.putAhead({ entries, segment }, unread(log, 1))).rejects.toThrow(EntryExistsError);
    });

    test.each([
      ['is missing', async () => undefined],
      ['is a Snapshot entry', (log: LogId) => store.putEntries([{ ...snapshotAt(log, 0, 1), number: 1 }])],
      ['ends the segment', (log: LogId) => store.putEntries([{ ...endAt(log, 0, 1), number: 1 }])],
      ['has no number', (log: LogId) => store.putEntries([setAt(log, 1, undefined)])],
      ['has another number', (log: LogId) => store.putEntries([setAt(log, 1, 2)])],
    ])('it is not made if an entry %s', async (_name, put) => {
      const log = await createLog(store);
      await put(log);
      const before = await itemsOf(log);
      const entry = { ...snapshotAt(log, 0, 2), number: 1 };
      await expect(store.putAhead({ entries: [entry] }, unread(log, 1))).rejects.toThrow(EntryNotFoundError);
      expect(await itemsOf(log)).toEqual(before);
    });

    test('it is made after entries without numbers only if none is expected', async () => {
      const log = await createLog(store);
      await store.putEntries([setAt(log, 1, undefined)]);
      const unnumbered = { ...unread(log, 1), after: { position: after.position } };
      await store.putAhead({ entries: [snapshotAt(log, 0, 2)] }, unnumbered);
      expect(await store.newestEntry(log, 0, CONSISTENT)).toMatchObject({ position: { entry: 2 } });
      const other = await createLog(store);
      await store.putEntries([setAt(other, 1, 1)]);
      const refused = store.putAhead({ entries: [snapshotAt(other, 0, 2)] }, { ...unnumbered, log: other });
      await expect(refused).rejects.toThrow(EntryNotFoundError);
    });

    test('it is refused if another entry is at its position, whatever is before it', async () => {
      const log = await createLog(store);
      for (let i = 1; i <= 2; i++) await store.putEntries([setAt(log, i, undefined)]);
      const refused = store.putAhead({ entries: [snapshotAt(log, 0, 2)] }, unread(log, 1));
      await expect(refused).rejects.toThrow(EntryExistsError);
    });
  });

  test('it lists the segments of one log and of all logs', async () => {
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

  const HASH = new Uint8Array(32).fill(1);
  const OTHER_HASH = new Uint8Array(32).fill(2);
  const ROOT = { key: 'logs/x/roots/0' };
  const archiveNamed = (log: LogId, digit: string) => archiveKey(log, 0, digit.repeat(32));
  const archiveOf = (log: LogId) => ({ key: archiveNamed(log, '0'), hash: HASH, root: ROOT });
  const FIRST = { segment: 0, entry: 0 };

  async function segmentNow(log: LogId, segment = 0): Promise<Segment> {
    const found = await store.getSegment(log, segment, CONSISTENT);
    if (found === undefined) throw new Error('there is no such segment');
    return found;
  }

  /** Creates a log whose segment 0 has a complete snapshot at entry 0. */
  async function createSnapshotLog(root: RootRef = ROOT): Promise<LogId> {
    const log = await createLog(store);
    await store.completeSnapshot(log, FIRST, root);
    await store.advanceLastSnapshot(log, { position: FIRST });
    return log;
  }

  const itemsOf = async (log: LogId, segment = 0, to = 100): Promise<StoredItem[]> =>
    (await collect(store.items(log, { segment, from: 0, to }, CONSISTENT))).flat();
  const numbersOf = async (log: LogId, segment = 0) =>
    (await allEntries(store.entries(log, { segment, from: 0, to: 100 }, CONSISTENT))).map(
      (each) => each.position.entry,
    );

  test('it completes a snapshot only on the entry with the given id', async () => {
    const log = await createLog(store);
    const position = { segment: 0, entry: 1 };
    const entry = { log, position, created: NOON, type: RESERVED_TYPES.snapshot, version: 1, id: ID };
    await store.putEntries([entry]);
    const other = store.completeSnapshot(log, position, ROOT, ID.toReversed());
    await expect(other).rejects.toThrow(EntryNotFoundError);
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual(entry);
    expect(await store.completeSnapshot(log, position, ROOT, ID)).toEqual(ROOT);
  });

  test('it returns a segment in a consistent list after its write', async () => {
    const log = await createLog(store);
    expect(await store.putSegment(segmentOf(log, 1))).toBe(true);
    expect(await collect(store.segments(log, CONSISTENT))).toEqual([segmentOf(log, 0), segmentOf(log, 1)]);
  });

  test('any text is the id of a log, apart from all other logs', async () => {
    const long = 'a text of more than 21 bytes';
    const texts = [
      'x',
      'X',
      long,
      `${long}\0\0\0\0`,
      `${long}\0\0\0\x01`,
      '.',
      'a/b',
      'a/b/0',
      '\ufefföé😀',
      '__proto__',
    ];
    const logs = [...texts, newLogId().toUpperCase().replaceAll('0', 'A'), 'y'.repeat(2000)].map(textLogId);
    for (const [i, log] of logs.entries()) {
      await store.createLog({ ...segmentOf(log, 0), created: NOON + i }, snapshotAt(log, 0, 0));
      await store.completeSnapshot(log, { segment: 0, entry: 0 }, { inline: Uint8Array.of(i) });
      await store.putEntries([entryAt(log, { segment: 0, entry: 1 }, { created: NOON + i })]);
      const end = endAt(log, 0, 2);
      await store.startSegment({ end, segment: segmentOf(log, 1), first: snapshotAt(log, 1, 0) });
    }
    for (const [i, log] of logs.entries()) {
      expect(await store.getSegment(log, 0, CONSISTENT)).toEqual({ ...segmentOf(log, 0), created: NOON + i });
      expect(await store.newestSegments(log, 9, CONSISTENT)).toHaveLength(2);
      expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual(headOf(endAt(log, 0, 2)));
      const [entries = []] = await collect(store.entries(log, { segment: 0, from: 0, to: 9 }, CONSISTENT));
      expect(entries.map((entry) => entry.log)).toEqual([log, log, log]);
      expect(entries[0]?.body).toEqual({ format: 'bytes', bytes: Uint8Array.of(i) });
      expect(entries[1]?.created).toBe(NOON + i);
    }
    const given = new Set(logs);
    for (let index = 0, found = 0; index < 3; index++) {
      const whole = await collect(store.allSegments({ index, of: 3 }));
      found += whole.filter(({ log }) => given.has(log)).length;
      for (const [i, after] of whole.entries()) {
        if (!given.has(after.log)) continue;
        expect(await collect(store.allSegments({ index, of: 3, after }))).toEqual(whole.slice(i + 1));
      }
      if (index === 2) expect(found).toBe(2 * logs.length);
    }
  });

  test('it replaces an archive if the entry of Last Snapshot has left the table', async () => {
    const to: RootRef = { inline: Uint8Array.of(9, 9) };
    const log = await createSnapshotLog();
    const other = { key: archiveNamed(log, '2'), hash: OTHER_HASH };
    await store.setArchive(await segmentNow(log), archiveOf(log));
    const archived = await segmentNow(log);
    await store.deleteEntries(log, 0, [0]);
    expect(await store.replaceArchive(archived, { ...other, root: { from: ROOT, to } })).toBe(true);
    expect(await segmentNow(log)).toEqual({ ...archived, archive: { key: other.key, hash: OTHER_HASH } });
    expect(await store.getEntry(log, FIRST, CONSISTENT)).toBeUndefined();
  });

  describe('expiring entries in batches', () => {
    async function leavingLog() {
      const log = await createLog(store);
      await store.putEntries([1, 2, 3, 4].map((entry) => entryAt(log, { segment: 0, entry })));
      const leaving = { ...segmentOf(log, 0), expiry: expiring(NOON) };
      expect(await store.setExpiration(segmentOf(log, 0), leaving.expiry)).toBe(true);
      return { log, leaving };
    }

    test('its batches are full if items are large, but not larger', async () => {
      const { log, leaving } = await leavingLog();
      const numbers = Array.from({ length: MAX_BATCH_ITEMS + 1 }, (_, i) => i);
      for (const how of ['ttl', 'delete'] as const) {
        await expect(store.expireEntries(leaving, numbers, how)).rejects.toThrow(TooLargeError);
      }
      const body = { format: 'bytes', bytes: new Uint8Array(100 * 1024) } as const;
      await store.putItems(numbers.slice(1).map((entry) => encodeEntry(entryAt(log, { segment: 0, entry }, { body }))));
      expect(await store.expireEntries(leaving, numbers.slice(1), 'ttl')).toBe(true);
      expect(await store.expireEntries(leaving, numbers.slice(1), 'delete')).toBe(true);
      expect(await numbersOf(log)).toEqual([0]);
    });
  });

  test('it returns items exactly as they were put', async () => {
    const log = await createLog(store);
    const foreign = (entry: number): Item => ({
      ...encodeEntry(entryAt(log, { segment: 0, entry })),
      B: { N: '0.12345678901234567890123456789012345678' },
      words: { SS: ['a', 'b'] },
      numbers: { NS: ['1.5', '12345678901234567890'] },
      blobs: { BS: [Uint8Array.of(1), Uint8Array.of(2, 3)] },
      nested: { M: { list: { L: [{ BOOL: true }, { NULL: true }, { S: '' }, { B: Uint8Array.of(4) }] } } },
    });
    const items = [1, 2, 3, 4].map(foreign);
    await store.putItems(items);
    expect((await itemsOf(log)).slice(1).map(sorted)).toEqual(items.map(sorted));
    const some = await collect(store.items(log, { segment: 0, from: 2, to: 4 }, CONSISTENT));
    expect(some.flat().map(sorted)).toEqual(items.slice(1, 3).map(sorted));
    expect(await collect(store.items(log, { segment: 0, from: 3, to: 3 }, CONSISTENT))).toEqual([]);
    expect(await collect(store.items(log, { segment: 0, from: 5, to: 9 }, CONSISTENT))).toEqual([]);
  });

  test('it keeps attributes of other programs when it changes an item', async () => {
    const log = await createLog(store);
    const snapshot = { ...encodeEntry(snapshotAt(log, 0, 0)), other: { S: 'theirs' } };
    await store.putItems([snapshot]);
    await store.completeSnapshot(log, FIRST, { inline: Uint8Array.of(1) });
    await store.replaceRoot(log, FIRST, { inline: Uint8Array.of(1) }, ROOT);
    await store.setEntryExpiry(log, FIRST, NOON);
    expect(await itemsOf(log)).toEqual([{ ...snapshot, E: { S: ROOT.key }, X: { N: String(NOON) } }]);
  });

  describe('a change of application attributes', () => {
    const place = { segment: 0, entry: 1 };
    const VALUES: Item = {
      status: { S: 'sent' },
      'größe in cm²': { N: '-12.5' },
      '#n0 = :v1': { M: { a: { L: [{ BOOL: false }, { NULL: true }] }, b: { B: Uint8Array.of(0, 255) } } },
      set: { N: '1' },
    };
    const NONE = { set: {}, remove: [], expected: {} };

    async function entryWith(attributes: Item = {}) {
      const log = await createLog(store);
      const item = { ...encodeEntry(entryAt(log, place, { id: ID })), ...attributes };
      await store.putItems([item]);
      const stored = async () => (await itemsOf(log))[1];
      return { log, item, stored };
    }

    test('it sets and removes attributes, and nothing else of the item', async () => {
      const { log, item, stored } = await entryWith({ gone: { S: 'x' }, stays: { S: 'y' } });
      expect(await store.updateAttributes(log, place, { ...NONE, set: VALUES, remove: ['gone', 'none'] })).toBe(
        undefined,
      );
      const { gone: _, ...rest } = item;
      expect(await stored()).toEqual({ ...rest, ...VALUES });
      const { status: __, set: ___, ...others } = VALUES;
      expect(await store.updateAttributes(log, place, { ...NONE, remove: ['status', 'set'] })).toBe(undefined);
      expect(await stored()).toEqual({ ...rest, ...others });
      expect(await store.getEntry(log, place, CONSISTENT)).toEqual(entryAt(log, place, { id: ID }));
      expect(await numbersOf(log)).toEqual([0, 1]);
    });

    test('it is made only if the item is as expected; otherwise the item is returned', async () => {
      const { log, item, stored } = await entryWith({ ...VALUES, n: { N: '7' } });
      const set = { n: { N: '8' }, fresh: { S: 'z' } };
      for (const expected of [
        { n: { N: '8' } },
        { n: { S: '7' } },
        { n: undefined },
        { other: { N: '7' } },
        { ...VALUES, n: { N: '7' }, fresh: { S: 'z' } },
        { ...VALUES, status: undefined },
      ]) {
        expect(await store.updateAttributes(log, place, { set, remove: ['status'], expected })).toEqual(item);
        expect(await stored()).toEqual(item);
      }
      const expected = { ...VALUES, n: { N: '7' }, fresh: undefined };
      expect(await store.updateAttributes(log, place, { set, remove: ['status'], expected })).toBe(undefined);
      const { status: _, ...rest } = item;
      expect(await stored()).toEqual({ ...rest, ...set });
    });

    test('it is refused for a closed segment and for a missing entry', async () => {
      const { log } = await entryWith();
      const update = { ...NONE, set: VALUES };
      const other = { ...NONE, set: VALUES, expected: { status: { S: 'x' } } };
      for (const change of [update, other]) {
        await expect(store.updateAttributes(log, { segment: 0, entry: 2 }, change)).rejects.toThrow(EntryNotFoundError);
        await expect(store.updateAttributes(newLogId(), place, change)).rejects.toThrow(EntryNotFoundError);
      }
      const first = snapshotAt(log, 1, 0);
      await store.startSegment({ end: endAt(log, 0, 2), segment: segmentOf(log, 1), first });
      const items = await itemsOf(log);
      for (const change of [update, other]) {
        const refused = store.updateAttributes(log, place, change);
        await expect(refused).rejects.toThrow(SegmentClosedError);
        await expect(refused).rejects.toMatchObject({ log, ...place });
      }
      expect(await itemsOf(log)).toEqual(items);
      expect(await store.updateAttributes(log, { segment: 1, entry: 0 }, update)).toBe(undefined);
      expect(await itemsOf(log, 1)).toEqual([{ ...encodeEntry(first), ...VALUES }]);
    });

    test('it is refused if the attributes do not fit the item', async () => {
      const { log, stored, item } = await entryWith({ large: { S: 'x'.repeat(200 * 1024) } });
      const set = { larger: { S: 'x'.repeat(200 * 1024) } };
      await expect(store.updateAttributes(log, place, { ...NONE, set })).rejects.toThrow(TooLargeError);
      expect(await stored()).toEqual(item);
      expect(await store.updateAttributes(log, place, { ...NONE, set, remove: ['large'] })).toBe(undefined);
    });

    test('none of many clients loses a change', async () => {
      const { log, stored } = await entryWith();
      const count = async () => {
        const { client } = testLogClient({ store, retries: LONG });
        for (let done = 0, seen: number | undefined; done < 5; ) {
          const answer = await client.updateAttributes(log, place, { set: { n: (seen ?? 0) + 1 }, if: { n: seen } });
          if (answer.updated) done++;
          const { n } = answer.updated ? { n: (seen ?? 0) + 1 } : answer.attributes;
          seen = typeof n === 'number' ? n : undefined;
        }
      };
      await Promise.all([count(), count(), count()]);
      expect((await stored())?.n).toEqual({ N: '15' });
    });

    test('it comes before the next segment, or is refused', async () => {
      for (let round = 0; round < 5; round++) {
        const { log, stored } = await entryWith();
        await store.advanceLastSnapshot(log, { position: FIRST });
        const client = () => testLogClient({ store, retries: LONG }).client;
        const updates = Array.from({ length: 6 }, (_, i) =>
          client()
            .updateAttributes(log, place, { set: { [`by ${i}`]: true } })
            .then(() => [`by ${i}`])
            .catch((error: unknown) => {
              if (error instanceof SegmentClosedError) return [];
              throw error;
            }),
        );
        const started = client().startSegment(log);
        const done = (await Promise.all(updates)).flat();
        await started;
        expect(Object.keys((await stored()) ?? {}).filter((name) => name.startsWith('by'))).toEqual(
          expect.arrayContaining(done),
        );
        expect(Object.keys((await stored()) ?? {}).filter((name) => name.startsWith('by'))).toHaveLength(done.length);
      }
    });
  });

  test('it replaces items completely', async () => {
    const log = await createLog(store);
    const old = entryAt(log, { segment: 0, entry: 1 }, { expires: NOON });
    await store.putEntries([old]);
    const fresh = entryAt(log, { segment: 0, entry: 1 }, { type: 'Other', body: { format: 'json', text: '{}' } });
    await store.putItems([encodeEntry(fresh), encodeEntry(entryAt(log, { segment: 1, entry: 8 }))]);
    expect(await itemsOf(log)).toEqual([encodeEntry(snapshotAt(log, 0, 0)), encodeEntry(fresh)]);
    expect((await store.newestEntry(log, 1, CONSISTENT))?.position.entry).toBe(8);
  });

  test('it deletes entries, and finds the newest of the others', async () => {
    const log = await createLog(store);
    const numbers = [1, 2, 3, 4, 5, 6];
    await store.putEntries(numbers.map((entry) => entryAt(log, { segment: 0, entry })));
    await store.putEntries([entryAt(log, { segment: 1, entry: 5 })]);
    await store.deleteEntries(log, 0, [6, 2, 5, 40, 2]);
    expect(await numbersOf(log)).toEqual([0, 1, 3, 4]);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position.entry).toBe(4);
    expect(await numbersOf(log, 1)).toEqual([5]);
    await store.deleteEntries(log, 0, [0, 1, 3, 4]);
    await store.deleteEntries(log, 0, [0, 1, 3, 4]);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toBeUndefined();
    expect(await itemsOf(log)).toEqual([]);
    await store.putEntries([entryAt(log, { segment: 0, entry: 3 })]);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position.entry).toBe(3);
  });

  test('it accepts a full batch and refuses a larger one', async () => {
    const log = await createLog(store);
    const items = Array.from({ length: MAX_BATCH_ITEMS + 1 }, (_, i) => {
      const body = { format: 'bytes', bytes: new Uint8Array(200 * 1024).fill(i) } as const;
      return encodeEntry(entryAt(log, { segment: 0, entry: i }, { body }));
    });
    const numbers = items.map((_, i) => i);
    await expect(store.putItems(items)).rejects.toThrow(TooLargeError);
    expect(await numbersOf(log)).toEqual([0]);
    await store.putItems(items.slice(1));
    await expect(store.deleteEntries(log, 0, numbers)).rejects.toThrow(TooLargeError);
    expect(await numbersOf(log)).toEqual(numbers);
    await store.deleteEntries(log, 0, numbers.slice(1));
    await store.deleteEntries(log, 0, []);
    await store.putItems([]);
    expect(await numbersOf(log)).toEqual([0]);
  });

  test('it puts no item of a batch with an item that is too large for DynamoDB', async () => {
    const log = await createLog(store);
    const body = { format: 'bytes', bytes: new Uint8Array(400 * 1024) } as const;
    const large = encodeEntry(entryAt(log, { segment: 0, entry: 2 }, { body }));
    const put = store.putItems([encodeEntry(entryAt(log, { segment: 0, entry: 1 })), large]);
    await expect(put).rejects.toThrow(TooLargeError);
    expect(await numbersOf(log)).toEqual([0]);
  });

  test('it gives many clients that append to one log dense numbers, and loses nothing', async () => {
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

  test('it lets each of many clients append only after the entry that it knows', async () => {
    const log = await testLogClient({ store }).client.createLog();
    await store.advanceLastSnapshot(log, { position: FIRST });
    const appending = Array.from({ length: 3 }, async () => {
      const { client } = testLogClient({ store, retries: LONG });
      let known: Position = FIRST;
      for (let done = 0; done < 6; ) {
        const body = `${known.segment}/${known.entry}`;
        try {
          await client.addEntry(log, { type: 'Set', version: 1, body }, { after: known });
          done++;
        } catch (error) {
          if (!(error instanceof EntryExistsError) || error.newest === undefined) throw error;
        }
        const read = await client.query(log, { from: known, to: { segment: 9, entry: 0 } });
        for (const { position, type } of await allEntries(read.entries)) if (type === 'Set') known = position;
      }
    });
    const { client } = testLogClient({ store, retries: LONG });
    const marking = async () => {
      for (let i = 0; i < 4; i++) await client.addSnapshot(log);
      await client.startSegment(log);
      for (let i = 0; i < 4; i++) await client.addSnapshot(log);
    };
    await Promise.all([marking(), ...appending]);
    const { entries } = await client.query(log, { from: 'start' });
    let before: Position = FIRST;
    let count = 0;
    for (const { type, position, body } of await allEntries(entries)) {
      if (type !== 'Set') continue;
      expect(body && decodeBody(body)).toBe(`${before.segment}/${before.entry}`);
      before = position;
      count++;
    }
    expect(count).toBe(18);
  });

  test('it lets one of many clients start the next segment while others append', async () => {
    const log = await testLogClient({ store }).client.createLog();
    await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 0 } });
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

  test('it writes the items of the format', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const log = newLogId();
    const entry = entryAt(log, { segment: 0, entry: 3 }, { expires: NOON + 1 });
    await store.putEntries([entry]);
    const stored = await engine.client.send(
      new GetItemCommand({ TableName: tables.entryTable, Key: entryKey(log, entry.position) }),
    );
    expect(stored.Item).toEqual(encodeEntry(entry));
  });

  test('it keeps attributes of other programs when it changes a segment', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const segment = { ...segmentOf(newLogId(), 0), lastSnapshot: lastAt(0, 3) };
    const item = { ...encodeSegment(segment), other: { S: 'theirs' } };
    await engine.client.send(new PutItemCommand({ TableName: tables.segmentTable, Item: item }));
    const key = archiveKey(segment.log, 0, '0'.repeat(32));
    const archive = { key, hash: new Uint8Array(32), root: undefined };
    expect(await store.setArchive(segment, archive)).toBe(true);
    expect(await store.setExpiration({ ...segment, archive }, expiring(5))).toBe(true);
    const stored = await engine.client.send(
      new GetItemCommand({ TableName: tables.segmentTable, Key: segmentKey(segment.log, 0) }),
    );
    expect(stored.Item).toEqual({ ...item, A: { S: key }, H: { B: archive.hash }, G: { N: '5' } });
  });

  /** Creates a store where DynamoDB processes only the first `done` writes of each batch. */
  function partialStore(done: number): { readonly store: DynamoDbLogStore; readonly sent: number[]; close(): void } {
    const client = testClient(engine.endpoint);
    const sent: number[] = [];
    client.middlewareStack.add(
      (next) => async (args) => {
        const { input } = args;
        if (!isBatch(input)) return next(args);
        const writes = input.RequestItems[tables.entryTable] ?? [];
        sent.push(writes.length);
        const left = writes.slice(done);
        const some = { ...input, RequestItems: { [tables.entryTable]: writes.slice(0, done) } };
        if (done === 0) return { response: {}, output: answer(left) };
        const { response, output } = await next({ ...args, input: some });
        return { response, output: { ...output, ...answer(left) } };
      },
      { step: 'initialize' },
    );
    const batchRetries = { attempts: 4, baseMs: 1, capMs: 1 };
    const store = new DynamoDbLogStore({ client, ...tables, batchRetries });
    return { store, sent, close: () => client.destroy() };
  }
  const answer = (left: readonly unknown[]) => ({
    $metadata: {},
    UnprocessedItems: left.length === 0 ? {} : { [tables.entryTable]: left },
  });
  const isBatch = (input: object): input is { RequestItems: Record<string, unknown[]> } => 'RequestItems' in input;

  test('it sends the unprocessed items of a batch again, and only those', async () => {
    const { store, sent, close } = partialStore(3);
    const log = newLogId();
    const entries = Array.from({ length: 8 }, (_, entry) => entryAt(log, { segment: 0, entry }));
    await store.putItems(entries.map(encodeEntry));
    expect(sent).toEqual([8, 5, 2]);
    const range = { segment: 0, from: 0, to: 100 };
    expect(await allEntries(store.entries(log, range, CONSISTENT))).toEqual(entries);
    await store.deleteEntries(log, 0, [0, 1, 2, 3]);
    expect(await allEntries(store.entries(log, range, CONSISTENT))).toEqual(entries.slice(4));
    close();
  });

  test('it gives up if DynamoDB leaves items unprocessed each time', async () => {
    const { store, sent, close } = partialStore(0);
    const put = store.deleteEntries(newLogId(), 0, [1, 2]);
    await expect(put).rejects.toThrow(AttemptsExhaustedError);
    await expect(put).rejects.toThrow(/2 items .* after 4 attempts .*left 2 items unprocessed/);
    expect(sent).toEqual([2, 2, 2, 2]);
    close();
  });

  test('it names an item that another program left malformed', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const log = newLogId();
    const item = { ...encodeEntry(entryAt(log, { segment: 2, entry: 3 })), T: { N: '5' } };
    await engine.client.send(new PutItemCommand({ TableName: tables.entryTable, Item: item }));
    const read = store.getEntry(log, { segment: 2, entry: 3 }, CONSISTENT);
    await expect(read).rejects.toMatchObject({ code: 'ITEM_INVALID', log, segment: 2, entry: 3 });
  });

  test('it does not guess the end of a segment if the newest entry has no whole number', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const log = await createLog(store);
    const item = { ...encodeEntry(entryAt(log, { segment: 0, entry: 1 })), N: { N: '1.5' } };
    await engine.client.send(new PutItemCommand({ TableName: tables.entryTable, Item: item }));
    const added = testLogClient({ store }).client.addEntry(log, set);
    await expect(added).rejects.toMatchObject({ code: 'ITEM_INVALID', log, segment: 0 });
  });

  test('it names a table that does not exist', async () => {
    const store = new DynamoDbLogStore({ client: engine.client, ...missing });
    const log = newLogId();
    const requests = [
      store.newestSegments(log, 1, CONSISTENT),
      store.createLog(segmentOf(log, 0), snapshotAt(log, 0, 0)),
      store.advanceLastSnapshot(log, { position: { segment: 0, entry: 0 } }),
      collect(store.allSegments()),
    ];
    for (const error of (await Promise.allSettled(requests)).map((each) => 'reason' in each && each.reason)) {
      expect(error).toBeInstanceOf(ResourceMissingError);
      expect(String(error)).toContain("'no-segments'");
    }
    const put = store.putEntries([entryAt(log, { segment: 0, entry: 0 })]);
    await expect(put).rejects.toThrow(/'no-entries'/);
  });

  test('it reports missing credentials', async () => {
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

  test('it reports the consumed capacity of each request', async () => {
    const metered: [string, { readUnits: number; writeUnits: number }][] = [];
    const meter = (op: string, units: { readUnits: number; writeUnits: number }) => metered.push([op, units]);
    const store = new DynamoDbLogStore({ client: engine.client, ...tables, meter });
    const log = await createLog(store);
    await store.putEntries([entryAt(log, { segment: 0, entry: 1 })]);
    await store.newestEntry(log, 0, { consistent: false });
    await store.newestEntry(log, 0, CONSISTENT);
    await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 0 } });
    await store.getEntry(log, { segment: 0, entry: 1 }, CONSISTENT);
    await store.deleteEntries(log, 0, [1]);
    await collect(store.segments(log));
    await collect(store.segments(log, CONSISTENT));
    expect(metered).toEqual([
      ['TransactWriteItems', { readUnits: 0, writeUnits: 4 }],
      ['PutItem', { readUnits: 0, writeUnits: 1 }],
      ['Query', { readUnits: 0.5, writeUnits: 0 }],
      ['Query', { readUnits: 1, writeUnits: 0 }],
      ['UpdateItem', { readUnits: 0, writeUnits: 1 }],
      ['GetItem', { readUnits: 1, writeUnits: 0 }],
      ['BatchWriteItem', { readUnits: 0, writeUnits: 1 }],
      ['Query', { readUnits: 0.5, writeUnits: 0 }],
      ['Query', { readUnits: 1, writeUnits: 0 }],
    ]);
  });

  type Sending = (send: () => Promise<unknown>) => Promise<unknown>;
  const lost = () => Object.assign(new Error('the connection broke'), { name: 'TimeoutError' });
  const answerLost: Sending = async (send) => {
    await send();
    throw lost();
  };

  /**
   * Creates a store whose next request goes through `next.sending`, then the SDK sends it again.
   * @param forgetful true if DynamoDB has forgotten the transaction's token by then, as it does
   * after ten minutes
   */
  function resendingStore({ forgetful = false } = {}) {
    const client = testClient(engine.endpoint);
    const next: { sending: Sending | undefined } = { sending: undefined };
    client.middlewareStack.add(
      (send) => async (args) => {
        const { request } = args;
        if (forgetful && hasBody(request)) {
          const body = typeof request.body === 'string' ? request.body : Buffer.from(request.body).toString();
          request.body = body.replace(/"ClientRequestToken":"[^"]*"/, `"ClientRequestToken":"${randomUUID()}"`);
        }
        const { sending } = next;
        next.sending = undefined;
        const answer: { value?: Awaited<ReturnType<typeof send>> } = {};
        const sendOnce = async () => {
          answer.value = await send(args);
        };
        await (sending === undefined ? sendOnce() : sending(sendOnce));
        if (answer.value === undefined) throw lost();
        return answer.value;
      },
      // After the SDK's retries: this step runs once for each sending.
      { step: 'finalizeRequest', priority: 'low' },
    );
    const store = new DynamoDbLogStore({ client, ...tables });
    return { store, next, close: () => client.destroy() };
  }

  function hasBody(request: unknown): request is { body: string | Uint8Array } {
    if (typeof request !== 'object' || request === null || !('body' in request)) return false;
    return typeof request.body === 'string' || request.body instanceof Uint8Array;
  }

  const set = { type: 'Set', version: 1, body: ['equal'], created: NOON };
  const WRITES: readonly (readonly [string, (client: LogClient, log: LogId) => Promise<Position>])[] = [
    ['one entry', async (client, log) => (await client.addEntry(log, set)).position],
    ['several entries', async (client, log) => (await client.addEntries(log, [set, set])).first],
    ['a Snapshot entry', async (client, log) => (await client.addSnapshot(log)).position],
    ['a new segment', async (client, log) => ({ segment: (await client.startSegment(log)).segment - 1, entry: 1 })],
  ];

  async function snapshotLog(store: LogStore): Promise<LogId> {
    const log = await testLogClient({ store }).client.createLog();
    await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 0 } });
    return log;
  }

  test.each(WRITES)(
    'it writes %s once if the answer is lost and the SDK sends it again',
    { tags: ['I8'] },
    async (what, write) => {
      for (const forgetful of [false, true]) {
        const { store, next, close } = resendingStore({ forgetful });
        const log = await snapshotLog(store);
        const { client } = testLogClient({ store });
        // The client knows the end of the log, so its next request is the write.
        await client.addEntry(log, { ...set, type: 'First' });
        next.sending = answerLost;
        const position = await write(client, log).then(({ segment, entry }) => ({ segment, entry }));
        const { entries } = await client.query(log, { from: 'start' });
        const written = (await allEntries(entries)).map((entry) => `${entry.position.segment}/${entry.position.entry}`);
        expect(written.slice(0, 2)).toEqual(['0/0', '0/1']);
        expect(position.segment).toBe(0);
        expect(written).toHaveLength(what === 'several entries' || what === 'a new segment' ? 4 : 3);
        close();
      }
    },
  );

  test('it creates a log once if the answer is lost and the SDK sends it again', async () => {
    for (const forgetful of [false, true]) {
      const { store, next, close } = resendingStore({ forgetful });
      next.sending = answerLost;
      const log = await testLogClient({ store }).client.createLog();
      expect(await collect(store.segments(log, CONSISTENT))).toHaveLength(1);
      close();
    }
  });

  test('it answers that an update was made if the answer is lost and the SDK sends it again', async () => {
    const { store, next, close } = resendingStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    next.sending = answerLost;
    const answer = await client.updateAttributes(
      log,
      { segment: 0, entry: 0 },
      { set: { n: 1 }, if: { n: undefined } },
    );
    expect(answer).toEqual({ updated: true });
    close();
  });

  test.each(WRITES)('only one of two clients gets %s as its own', { tags: ['I8'] }, async (what, write) => {
    const { store, next, close } = resendingStore();
    const log = await snapshotLog(store);
    const slow = testLogClient({ store });
    const other = testLogClient({ store: new DynamoDbLogStore({ client: engine.client, ...tables }) });
    await slow.client.addEntry(log, { ...set, type: 'First' });
    // The first sending never arrives. Before the second sending, another client writes an equal
    // entry there.
    let taken: Position | undefined;
    next.sending = async () => {
      taken = await write(other.client, log);
      throw lost();
    };
    const own = write(slow.client, log);
    if (what === 'a new segment') {
      await expect(own).rejects.toThrow(SegmentWithoutSnapshotError);
    } else {
      const mine = await own;
      expect(mine).not.toEqual(taken);
      const { entries } = await slow.client.query(log, { from: 'start' });
      const numbers = (await allEntries(entries)).map(({ position }) => position.entry);
      expect(numbers).toEqual(Array.from({ length: what === 'several entries' ? 6 : 4 }, (_, i) => i));
    }
    close();
  });

  test('it refuses to add after an entry that an equal one of another client follows', { tags: ['I8'] }, async () => {
    const { store, next, close } = resendingStore();
    const log = await snapshotLog(store);
    const slow = testLogClient({ store });
    const other = testLogClient({ store: new DynamoDbLogStore({ client: engine.client, ...tables }) });
    const { position: after } = await slow.client.addEntry(log, { ...set, type: 'First' });
    next.sending = async () => {
      await other.client.addEntry(log, set, { after });
      throw lost();
    };
    await expect(slow.client.addEntry(log, set, { after })).rejects.toThrow(EntryExistsError);
    close();
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
    expect(isRetryable(translateDynamoDbError(error, ['entries']))).toBe(expected);
  });

  test('it does not retry if the SDK sent the request twice, because the first may have succeeded', () => {
    const rejected = (attempts: number) =>
      Object.assign(new Error('no'), { name: 'ThrottlingException', $metadata: { attempts } });
    expect([1, 2].map((attempts) => isRetryable(rejected(attempts)))).toEqual([true, false]);
  });

  test.each([
    ['ProvisionedThroughputExceededException', 400],
    ['ThrottlingException', 400],
    ['InternalServerError', 500],
  ])('%s names the table and is not an error of the caller', (name, httpStatusCode) => {
    const error = Object.assign(new Error('not now'), { name, $metadata: { httpStatusCode } });
    const translated = translateDynamoDbError(error, ['entries']);
    expect(translated).toBeInstanceOf(StoreUnavailableError);
    expect(translated).toHaveProperty(
      'message',
      `table 'entries' cannot answer now: ${name}: not now. Try again later; if this is frequent, raise its capacity or send fewer requests.`,
    );
  });

  test('it recognizes an item that is too large from a cancelled transaction', () => {
    const Message = 'Item size to update has exceeded the maximum allowed size';
    const CancellationReasons = [{ Code: 'ValidationError', Message }, { Code: 'None' }];
    const error = Object.assign(new Error('no'), { name: 'TransactionCanceledException', CancellationReasons });
    expect(translateDynamoDbError(error, ['entries'])).toBeInstanceOf(TooLargeError);
    const other = [{ Code: 'ValidationError', Message: 'An expression is wrong' }];
    const wrong = Object.assign(new Error('no'), { name: error.name, CancellationReasons: other });
    expect(translateDynamoDbError(wrong, ['entries'])).toBe(wrong);
  });

  test.each([
    "1 validation error detected: Value 'E2' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3",
    'TableName must be at least 3 characters long and at most 255 characters long',
    "Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'",
  ])('it rejects a name that no table can have: %s', (message) => {
    const error = Object.assign(new Error(message), { name: 'ValidationException' });
    const translated = translateDynamoDbError(error, ['E2']);
    expect(translated).toMatchObject({ code: 'USAGE', reason: expect.stringContaining("'E2'"), cause: error });
  });
});

describe('the memory log store alone', () => {
  async function expiringLog(): Promise<{ readonly store: MemoryLogStore; readonly log: LogId }> {
    const store = new MemoryLogStore();
    const log = await createLog(store);
    const entries = [1, 2, 3, 4].map((entry) => entryAt(log, { segment: 0, entry }, { expires: NOON + entry }));
    await store.putEntries([...entries, entryAt(log, { segment: 1, entry: 9 }, { expires: NOON })]);
    return { store, log };
  }
  const left = async (store: LogStore, log: LogId) =>
    (await allEntries(store.entries(log, { segment: 0, from: 0, to: 10 }, CONSISTENT))).map(
      ({ position }) => position.entry,
    );

  test('it removes entries whose expiry is over, and returns them', async () => {
    const { store, log } = await expiringLog();
    const removed = store.expireNow(NOON + 2);
    expect(removed).toHaveLength(3);
    expect(removed).toEqual(
      expect.arrayContaining([
        { log, position: { segment: 0, entry: 1 } },
        { log, position: { segment: 0, entry: 2 } },
        { log, position: { segment: 1, entry: 9 } },
      ]),
    );
    expect(await left(store, log)).toEqual([0, 3, 4]);
    expect(await store.newestEntry(log, 1)).toBeUndefined();
    expect(store.expireNow(NOON + 2)).toEqual([]);
  });

  test('it removes only the selected entries', async () => {
    const { store, log } = await expiringLog();
    const removed = store.expireNow(NOON + 100, ({ position }) => position.entry === 4);
    expect(removed).toEqual([{ log, position: { segment: 0, entry: 4 } }]);
    expect(await left(store, log)).toEqual([0, 1, 2, 3]);
    expect((await store.newestEntry(log, 0))?.position.entry).toBe(3);
  });

  test('it stores and returns copies', async () => {
    const store = new MemoryLogStore();
    const log = await createLog(store);
    const bytes = Uint8Array.of(1);
    const item = encodeEntry(entryAt(log, { segment: 0, entry: 0 }, { body: { format: 'bytes', bytes } }));
    await store.putItems([item]);
    bytes[0] = 2;
    const read = async () => (await collect(store.items(log, { segment: 0, from: 0, to: 1 }))).flat().at(0);
    const first = await read();
    expect(first).toMatchObject({ B: { B: Uint8Array.of(1) } });
    if (first !== undefined) first.T = { S: 'Other' };
    expect(await read()).toMatchObject({ T: item.T });
  });
});
