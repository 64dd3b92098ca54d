import { DeleteItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { DynamoDbMappedItems } from '../../src/adapters/dynamodb/mapped-items.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import {
  EntryGapError,
  EntryNotFoundError,
  ItemInvalidError,
  LogNotFoundError,
  LogReadOnlyError,
  SegmentNotFoundError,
  SegmentStateError,
  TooLargeError,
} from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { carriedRef } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { queryNewestSegments } from '../../src/log/newest.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import type { Segment } from '../../src/log/segment.ts';
import { keyOf } from '../../src/mapping/key-pattern.ts';
import type { MappedItems } from '../../src/mapping/mapped-items.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { parseMapping, type SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { archiveKey, rootKey } from '../../src/store/keys.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import { allEntries, entryAt, NOON } from '../support/logs.ts';
import { expiring, lastAt, ON_HOLD } from '../support/segments.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { newMappedLog, ORDERS, orderItem, TENS } from '../support/stores/mapped-logs.ts';
import { MemoryMappedItems } from '../support/stores/memory-mapped-items.ts';

const CONSISTENT = { consistent: true };
const EVENTUAL = { consistent: false };
const HASH = new Uint8Array(32).fill(1);

/** Binary partition keys, and String sort keys that count from 1. */
const EVENTS = parseMapping({
  partitionKey: { name: 'stream', type: 'B', pattern: '{id}/events' },
  sortKey: { name: 'number', type: 'S', first: 1, pattern: 'event#{n:4}!' },
  type: 'type',
  version: { constant: 3 },
  body: { item: true },
  ttl: 'gone',
});

/** Like {@link ORDERS}, without its sort key. */
const ORDERS_FROM_1 = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  type: 'type',
  version: { constant: 1 },
  body: 'payload',
} as const;

/** An application's table and logfold's Segment table. */
interface Tables {
  readonly mapping: SchemaMapping;
  readonly items: MappedItems;
  readonly books: LogStore;
  /** Writes an item as the application does. */
  insert(item: Item): Promise<void>;
  remove(log: LogId, index: number): Promise<void>;
}

let engine: TestEngine;
let tables = 0;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

async function memoryTables(mapping: SchemaMapping): Promise<Tables> {
  const books = new MemoryLogStore({ pageItems: 3 });
  const items = new MemoryMappedItems({ mapping, books, pageItems: 4 });
  return {
    mapping,
    items,
    books,
    insert: async (item) => items.insert(item),
    remove: async (log, index) => void items.delete(keyOf(mapping, log, index)),
  };
}

async function dynamoDbTables(mapping: SchemaMapping): Promise<Tables> {
  const { client } = engine;
  const { segmentTable } = await engine.createTables();
  const table = `application-${++tables}`;
  const { partitionKey, sortKey } = mapping;
  const keys = { [partitionKey.name]: partitionKey.type, [sortKey.name]: sortKey.form === 'N' ? 'N' : 'S' } as const;
  await createItemTable(client, table, { keys });
  return {
    mapping,
    items: new DynamoDbMappedItems({ client, table, segmentTable, mapping }),
    books: new DynamoDbLogStore({ client, entryTable: segmentTable, segmentTable }),
    insert: async (item) => void (await client.send(new PutItemCommand({ TableName: table, Item: item }))),
    remove: async (log, index) =>
      void (await client.send(new DeleteItemCommand({ TableName: table, Key: keyOf(mapping, log, index) }))),
  };
}

const BACKENDS: readonly (readonly [string, () => Promise<Tables>])[] = [
  ['in memory', () => memoryTables(ORDERS)],
  ['in memory, with String keys', () => memoryTables(EVENTS)],
  ['in DynamoDB', () => dynamoDbTables(ORDERS)],
  ['in DynamoDB, with Binary and String keys', () => dynamoDbTables(EVENTS)],
];

describe.each(BACKENDS)('a mapped log %s', (_name, open) => {
  let tables: Tables;
  let store: MappedLogStore;
  const isTimed = (): boolean => tables.mapping.time !== undefined;

  beforeAll(async () => {
    tables = await open();
  });
  beforeEach(() => {
    store = fresh();
  });

  /** A store that knows no schedules yet. */
  function fresh(): MappedLogStore {
    return new MappedLogStore({ ...tables, now: () => (NOON + 1000) * 1000 });
  }

  function itemAt(log: LogId, index: number): Item {
    const { pk: _, sk: __, ...item } = orderItem(log, index);
    return { ...item, ...keyOf(tables.mapping, log, index) };
  }

  async function append(log: LogId, from: number, to: number): Promise<void> {
    for (let index = from; index < to; index++) await tables.insert(itemAt(log, index));
  }

  async function create(items: number, sizes = TENS): Promise<LogId> {
    const log = newMappedLog();
    await append(log, 0, items);
    await store.register(log, sizes);
    return log;
  }

  async function originals(log: LogId): Promise<StoredItem[]> {
    const pages = await Array.fromAsync(tables.items.pages(log, { from: 0, to: 1000 }, CONSISTENT));
    return pages.flat().map(({ item }) => item);
  }

  /** Each entry of a segment: number, kind, number of the item, seconds since noon. */
  async function shape(log: LogId, segment: number, reader: MappedLogStore = store): Promise<string> {
    const range = { segment, from: 0, to: 1000 };
    const entries = await allEntries(reader.entries(log, range, CONSISTENT));
    return entries
      .map(({ position, type, number }) => `${position.entry}${type === 'Set' ? 'i' : type.at(8)}${number}`)
      .join(' ');
  }

  const segmentsOf = (log: LogId): Promise<Segment[]> => Array.fromAsync(store.segments(log));
  const schedules = (segments: readonly Segment[]) =>
    segments.map(
      ({ segment, schedule }) => `${segment}: ${schedule?.first}+${schedule?.items}/${schedule?.snapshotEvery}`,
    );

  test('a virtual entry exists as soon as the item before it does', async () => {
    const log = newMappedLog();
    await append(log, 0, 1);
    await store.register(log, { items: 4, snapshotEvery: 2 });
    const expected = [
      ['0S0 1i1'],
      ['0S0 1i1 2i2 3S2'],
      ['0S0 1i1 2i2 3S2 4i3'],
      ['0S0 1i1 2i2 3S2 4i3 5i4 6E4', '0S4'],
      ['0S0 1i1 2i2 3S2 4i3 5i4 6E4', '0S4 1i5'],
      ['0S0 1i1 2i2 3S2 4i3 5i4 6E4', '0S4 1i5 2i6 3S6'],
    ];
    for (const [i, segments] of expected.entries()) {
      if (i > 0) await append(log, i, i + 1);
      for (const [segment, entries] of [...segments, ''].entries()) {
        for (const reader of [store, fresh()]) expect(await shape(log, segment, reader)).toBe(entries);
        const newest = await store.newestEntry(log, segment, CONSISTENT);
        const last = entries === '' ? undefined : Number.parseInt(entries.split(' ').at(-1) ?? '', 10);
        expect(newest?.position.entry).toBe(last);
      }
      expect((await segmentsOf(log)).length).toBe(segments.length);
    }
  });

  test('a range has exactly its entries, wherever it begins and ends', async () => {
    const log = await create(12, { items: 6, snapshotEvery: 2 });
    for (const segment of [0, 1]) {
      const whole = await allEntries(store.entries(log, { segment, from: 0, to: 99 }, CONSISTENT));
      expect(whole.map(({ position }) => position.entry)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      for (let from = 0; from < 11; from++) {
        for (let to = from; to < 12; to++) {
          const entries = await allEntries(store.entries(log, { segment, from, to }, CONSISTENT));
          expect(entries).toEqual(whole.slice(from, to));
        }
        expect(await store.getEntry(log, { segment, entry: from }, CONSISTENT)).toEqual(whole[from]);
      }
    }
  });

  test('it does not exist until it is registered', async () => {
    const log = newMappedLog();
    expect(await store.register(log, TENS)).toBe(0);
    await expect(queryNewestSegments(store, log)).rejects.toThrow(LogNotFoundError);
    await append(log, 0, 3);
    expect(await shape(log, 0)).toBe('');
    const error = await queryNewestSegments(store, log).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'LOG_NOT_FOUND', advice: expect.stringContaining('logfold adopt') });
    expect(await store.register(log, TENS)).toBe(1);
    expect(await queryNewestSegments(store, log)).toHaveLength(1);
  });

  test('registering records each segment that has begun once, however many processes do it', async () => {
    const log = newMappedLog();
    await append(log, 0, 30);
    const counts = await Promise.all(Array.from({ length: 5 }, () => fresh().register(log, TENS)));
    expect(counts.reduce((sum, count) => sum + count)).toBe(4);
    expect(await store.register(log, TENS)).toBe(0);
    const records = await Array.fromAsync(tables.books.segments(log, CONSISTENT));
    expect(schedules(records)).toEqual(['0: 0+10/5', '1: 10+10/5', '2: 20+10/5', '3: 30+10/5']);
    expect(records.map(({ created }) => created - NOON)).toEqual(isTimed() ? [0, 9, 19, 29] : [1000, 1000, 1000, 1000]);
    expect(await segmentsOf(log)).toEqual(records);
  });

  test('it infers segments that are not recorded, as they are recorded later', async () => {
    const log = await create(10);
    await append(log, 10, 35);
    const inferred = await segmentsOf(log);
    expect(schedules(inferred)).toEqual(['0: 0+10/5', '1: 10+10/5', '2: 20+10/5', '3: 30+10/5']);
    for (const limit of [1, 2, 3, 9]) {
      expect(await fresh().newestSegments(log, limit, EVENTUAL)).toEqual(inferred.toReversed().slice(0, limit));
    }
    for (const each of inferred) expect(await fresh().getSegment(log, each.segment, EVENTUAL)).toEqual(each);
    expect(await fresh().getSegment(log, 4, CONSISTENT)).toBeUndefined();
    const shapes = await Promise.all(inferred.map(({ segment }) => shape(log, segment, fresh())));
    expect(await store.register(log, TENS)).toBe(2);
    if (isTimed()) expect(await segmentsOf(log)).toEqual(inferred);
    expect(await Promise.all(inferred.map(({ segment }) => shape(log, segment, fresh())))).toEqual(shapes);
  });

  test('a changed size changes only segments whose first item does not exist yet', async () => {
    const log = await create(25);
    const sizes = { items: 6, snapshotEvery: 3 };
    expect(await store.register(log, sizes)).toBe(1);
    expect(schedules(await segmentsOf(log))).toEqual(['0: 0+10/5', '1: 10+10/5', '2: 20+10/5']);
    expect(await store.getSegment(log, 3, CONSISTENT)).toBeUndefined();
    expect(await shape(log, 3)).toBe('');
    await append(log, 25, 30);
    expect(schedules(await segmentsOf(log)).at(-1)).toBe('3: 30+6/3');
    await append(log, 30, 37);
    expect(await store.register(log, sizes)).toBe(1);
    const all = await segmentsOf(log);
    expect(schedules(all).slice(2)).toEqual(['2: 20+10/5', '3: 30+6/3', '4: 36+6/3']);
    if (isTimed()) expect(all.map(({ created }) => created - NOON)).toEqual([0, 9, 19, 29, 35]);
    else expect(all.every(({ created }) => created === NOON + 1000)).toBe(true);
    // The first item of segment 5 exists before anybody records the segment.
    await append(log, 37, 44);
    expect(await store.register(log, TENS)).toBe(2);
    await append(log, 44, 49);
    expect(schedules(await segmentsOf(log)).slice(4)).toEqual(['4: 36+6/3', '5: 42+6/3', '6: 48+10/5']);
  });

  test('a Snapshot entry carries its root, and a pending one carries none', async () => {
    const log = await create(12);
    const [at, pending] = [
      { segment: 0, entry: 6 },
      { segment: 1, entry: 0 },
    ];
    const [root, other] = [{ inline: Uint8Array.of(1, 2) }, { key: 'logs/x/roots/y' }];
    const before = await store.getEntry(log, at, CONSISTENT);
    expect(await store.replaceRoot(log, at, root, other)).toBe(false);
    expect(await store.completeSnapshot(log, at, root)).toEqual(root);
    expect(await store.completeSnapshot(log, at, other)).toEqual(root);
    expect(await store.replaceRoot(log, at, root, other)).toBe(true);
    expect(await store.getEntry(log, at, CONSISTENT)).toEqual({ ...before, external: other.key });
    const roots = await allEntries(store.entries(log, { segment: 0, from: 1, to: 9 }, CONSISTENT));
    expect(roots.filter((entry) => carriedRef(entry) !== undefined)).toHaveLength(1);
    expect(carriedRef((await store.getEntry(log, pending, CONSISTENT)) ?? entryAt(log, at))).toBeUndefined();
    await expect(store.completeSnapshot(log, { segment: 0, entry: 1 }, root)).rejects.toThrow(ItemInvalidError);
    for (const missing of [
      { segment: 1, entry: 6 },
      { segment: 2, entry: 0 },
    ]) {
      await expect(store.completeSnapshot(log, missing, root)).rejects.toThrow(EntryNotFoundError);
      await expect(store.replaceRoot(log, missing, root, other)).rejects.toThrow(EntryNotFoundError);
    }
    const large = { inline: new Uint8Array(400 * 1024) };
    await expect(store.completeSnapshot(log, pending, large)).rejects.toThrow(TooLargeError);
    const scanned = await Array.fromAsync(store.allSegments());
    expect(scanned.filter((each) => each.log === log)).toHaveLength(2);
  });

  test('it records a segment that is not recorded before Last Snapshot moves there', async () => {
    const log = await create(10);
    await append(log, 10, 21);
    const at = { segment: 2, entry: 0 };
    await store.completeSnapshot(log, at, { inline: Uint8Array.of(1) });
    expect(await fresh().advanceLastSnapshot(log, { position: at })).toBe(true);
    expect(await tables.books.getSegment(log, 2, CONSISTENT)).toMatchObject({
      lastSnapshot: lastAt(2, 0),
      schedule: { first: 20 },
    });
    await expect(store.advanceLastSnapshot(log, { position: { segment: 3, entry: 0 } })).rejects.toThrow(
      SegmentNotFoundError,
    );
  });

  test('only its application appends to it', async () => {
    const log = await create(3);
    const items = await originals(log);
    const entry = entryAt(log, { segment: 0, entry: 4 });
    const segment = { log, segment: 1, created: NOON };
    const writes = [
      () => store.createLog(segment, entry),
      () => store.putEntries([entry]),
      () => store.startSegment({ end: entry, segment, first: entry }),
      () => store.updateAttributes(log, entry.position, { set: {}, remove: [], expected: {} }),
    ];
    for (const write of writes) await expect(write()).rejects.toThrow(LogReadOnlyError);
    expect(await originals(log)).toEqual(items);
  });

  test('its items expire and stay only under the condition of their segment', async () => {
    const log = await create(12);
    const items = await originals(log);
    const segment = (await store.getSegment(log, 0, CONSISTENT)) ?? segmentOf(log);
    const leaving = { ...segment, expiry: expiring(NOON) };
    for (const how of ['ttl', 'delete'] as const)
      expect(await store.expireEntries(leaving, [0, 1, 2], how)).toBe(false);
    await expect(store.deleteEntries(log, 0, [1])).rejects.toThrow(SegmentStateError);
    expect(await originals(log)).toEqual(items);

    expect(await store.setExpiration(segment, leaving.expiry)).toBe(true);
    expect(await store.expireEntries(leaving, [0, 1, 2, 6, 7, 12], 'ttl')).toBe(true);
    const stamps = async () =>
      (await originals(log)).map((item) => Number(item[tables.mapping.ttl ?? '']?.N ?? 0) - NOON);
    const none = -NOON;
    expect(await stamps()).toEqual([0, 0, none, none, none, 0, ...Array.from({ length: 6 }, () => none)]);
    expect((await store.getEntry(log, { segment: 0, entry: 1 }, CONSISTENT))?.expires).toBe(NOON);
    expect(await store.unexpireEntries(leaving, [1])).toBe(false);
    expect(await store.setExpiration(leaving, ON_HOLD)).toBe(true);
    expect(await store.expireEntries(leaving, [3], 'ttl')).toBe(false);
    expect(await store.unexpireEntries(leaving, [0, 1, 2, 6, 7])).toBe(true);
    expect(await originals(log)).toEqual(items);

    expect(await store.setExpiration({ ...leaving, expiry: ON_HOLD }, leaving.expiry)).toBe(true);
    expect(await store.setEntryExpiry(log, { segment: 0, entry: 1 }, NOON)).toBe(true);
    expect(await store.setEntryExpiry(log, { segment: 0, entry: 1 }, undefined)).toBe(true);
    expect(await store.setEntryExpiry(log, { segment: 0, entry: 6 }, NOON)).toBe(true);
    expect(await store.setEntryExpiry(log, { segment: 1, entry: 4 }, NOON)).toBe(false);
    expect(await originals(log)).toEqual(items);
    await store.deleteEntries(log, 0, [0, 2, 3, 3, 12]);
    expect(await store.expireEntries(leaving, [3, 4, 5, 6, 7, 8, 9, 10, 11], 'delete')).toBe(true);
    expect(await originals(log)).toEqual([items[0], ...items.slice(10)]);
    expect(await shape(log, 0)).toBe('0S0 1i1');
    expect(await shape(log, 1)).toBe('0S10 1i11 2i12');
    expect(await store.getSegment(log, 1, CONSISTENT)).toBeDefined();
  });

  test('a batch is refused if it is too large', async () => {
    const log = await create(30, { items: 40, snapshotEvery: 40 });
    const leaving = { log, segment: 0, expiry: expiring(NOON) };
    const numbers = Array.from({ length: 26 }, (_, i) => i + 1);
    const items = (await Array.fromAsync(store.items(log, { segment: 0, from: 1, to: 27 }, CONSISTENT))).flat();
    const batches = [
      () => store.expireEntries(leaving, numbers, 'delete'),
      () => store.unexpireEntries(leaving, numbers),
      () => store.deleteEntries(log, 0, numbers),
      () => store.putItems(items.map(writable)),
    ];
    for (const batch of batches) await expect(batch()).rejects.toThrow(TooLargeError);
    expect(await originals(log)).toHaveLength(30);
  });

  test('items of an archive come back byte for byte, into its own tables and into empty ones', async () => {
    const log = await create(12);
    await store.completeSnapshot(log, { segment: 0, entry: 6 }, { key: 'logs/x/roots/y' });
    const items = await originals(log);
    const pages = store.items(log, { segment: 0, from: 0, to: 99 }, CONSISTENT);
    const archived = (await Array.fromAsync(pages)).flat().map(writable);
    for (const index of [0, 3, 4, 9]) await tables.remove(log, index);
    await store.putItems(archived);
    expect(await originals(log)).toEqual(items);

    const empty = await open();
    const copy = new MappedLogStore({ ...empty, now: () => NOON });
    await copy.putSegment((await store.getSegment(log, 0, CONSISTENT)) ?? segmentOf(log));
    await copy.putItems(archived);
    expect((await Array.fromAsync(copy.items(log, { segment: 0, from: 0, to: 99 }, CONSISTENT))).flat()).toEqual(
      archived,
    );
    const copied = await Array.fromAsync(empty.items.pages(log, { from: 0, to: 99 }, CONSISTENT));
    expect(copied.flat().map(({ item }) => item)).toEqual(items.slice(0, 10));
  });

  test('an item that exists is never overwritten', async () => {
    const log = await create(3);
    const [archived] = (await Array.fromAsync(store.items(log, { segment: 0, from: 1, to: 2 }, CONSISTENT))).flat();
    const changed = { ...itemAt(log, 0), note: { S: 'the application changed it' } };
    await tables.remove(log, 0);
    await tables.insert(changed);
    await store.putItems([writable(archived ?? {})]);
    expect((await originals(log))[0]).toEqual(changed);
  });

  test('a missing item is a gap that names its position', async () => {
    const log = await create(8);
    await tables.remove(log, 6);
    const read = allEntries(
      readEntries({ store, types: VIRTUAL_TYPES }, log, { from: { segment: 0, entry: 0 }, to: 'end' }),
    );
    const error = await read.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(EntryGapError);
    expect(error).toMatchObject({ log, segment: 0, entry: 8 });
  });

  test('an item that does not fit is named, and does not hide the end of the log', async () => {
    const log = await create(8);
    await tables.remove(log, 7);
    await tables.insert({ ...itemAt(log, 7), type: { N: '7' } });
    expect(await store.newestEntry(log, 0, CONSISTENT)).toEqual({ log, position: { segment: 0, entry: 9 }, number: 8 });
    const error = await store.getEntry(log, { segment: 0, entry: 9 }, CONSISTENT).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'ITEM_INVALID', log, segment: 0, entry: 9 });
    expect(String(error)).toContain(tables.mapping.sortKey.name);
    expect(await store.getEntry(log, { segment: 0, entry: 8 }, CONSISTENT)).toBeDefined();
  });

  test('a scan finds every log in exactly one of its parts, and continues after any page and any log', async () => {
    const logs = await Promise.all(Array.from({ length: 6 }, () => create(3)));
    const fail = (error: unknown) => {
      throw error;
    };
    for (const of of [1, 3]) {
      const found: LogId[] = [];
      for (let index = 0; index < of; index++) {
        const pages = await Array.fromAsync(tables.items.logs({ index, of }, fail));
        const there = new Set(pages.flatMap((page) => page.logs.map(({ log }) => log)));
        found.push(...there);
        for (const [i, { next: after }] of pages.entries()) {
          const rest = await Array.fromAsync(tables.items.logs({ index, of, after }, fail));
          expect(rest.flatMap((page) => page.logs)).toEqual(pages.slice(i + 1).flatMap((page) => page.logs));
        }
        const all = pages.flatMap((page) => page.logs);
        for (const [i, { after }] of all.entries()) {
          const rest = await Array.fromAsync(tables.items.logs({ index, of, after }, fail));
          expect(rest.flatMap((page) => page.logs)).toEqual(all.slice(i + 1));
        }
      }
      for (const log of logs) expect(found.filter((each) => each === log)).toHaveLength(1);
    }
  });

  test('segments, archives and their roots are kept as those of any other log', async () => {
    const log = await create(25);
    const at = { segment: 0, entry: 6 };
    const root = { key: rootKey(log, at, '0'.repeat(64)) };
    await store.completeSnapshot(log, at, root);
    await store.advanceLastSnapshot(log, { position: at });
    const segment = (await store.getSegment(log, 0, CONSISTENT)) ?? segmentOf(log);
    const archive = { key: archiveKey(log, 0, '0'.repeat(32)), hash: HASH };
    const again = archiveKey(log, 0, '1'.repeat(32));
    expect(await store.setArchive(segment, { ...archive, root: { key: 'another' } })).toBe(false);
    expect(await store.setArchive(segment, { ...archive, root })).toBe(true);
    expect(await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 9 } })).toBe(false);
    expect(await store.replaceRoot(log, at, root, { key: 'another' })).toBe(false);
    const archived = { ...segment, archive };
    expect(await store.getSegment(log, 0, CONSISTENT)).toEqual(archived);
    const to = { inline: DAMAGED_ROOT };
    expect(await store.replaceArchive(archived, { key: again, hash: HASH, root: { from: root, to } })).toBe(true);
    expect(carriedRef((await store.getEntry(log, at, CONSISTENT)) ?? entryAt(log, at))).toEqual(to);
    const renamed = { ...archived, archive: { key: again, hash: HASH } };
    expect(await store.setExpiration(renamed, expiring(NOON))).toBe(true);
    expect(await store.setExpiration(renamed, expiring(NOON + 1))).toBe(false);
  });

  function segmentOf(log: LogId): Segment {
    throw new Error(`${log} has no segment ${formatPosition({ segment: 0, entry: 0 })}`);
  }
});

/** An item as an archive returns it. */
function writable(item: StoredItem): Item {
  return decodeItemLine(encodeItemLine(item));
}

describe('a mapped log in DynamoDB beside other items', () => {
  test.each([
    ['a Number', ORDERS],
    ['a String', EVENTS],
  ])('items of something else are left alone, with %s as sort key', async (_, mapping) => {
    const { items, books, insert } = await dynamoDbTables(mapping);
    const store = new MappedLogStore({ items, books, mapping, now: () => NOON * 1000 });
    const log = newMappedLog();
    const { pk: _pk, sk: _sk, ...rest } = orderItem(log, 0);
    const key = keyOf(mapping, log, 0);
    for (let index = 0; index < 3; index++) await insert({ ...rest, ...keyOf(mapping, log, index) });
    const { partitionKey, sortKey } = mapping;
    const text = (value: string) => (partitionKey.type === 'S' ? { S: value } : { B: new TextEncoder().encode(value) });
    await insert({ ...rest, ...key, [partitionKey.name]: text('customer#7') });
    if (sortKey.form !== 'N') {
      for (const sort of ['customer', 'event#0002?', 'event#99999', 'zzz'])
        await insert({ ...rest, ...key, [sortKey.name]: { S: sort } });
    }
    await store.register(log, TENS);
    const read = await allEntries(store.entries(log, { segment: 0, from: 0, to: 99 }, CONSISTENT));
    expect(read.map(({ number }) => number)).toEqual([0, 1, 2, 3]);
    expect(await items.newest(log, 1000, CONSISTENT)).toMatchObject({ index: 2 });
    const pages = await Array.fromAsync(items.logs({ index: 0, of: 1 }, () => undefined));
    expect(new Set(pages.flatMap((page) => page.logs.map((found) => found.log)))).toEqual(new Set([log]));
  });

  test.each([
    ['a Number', parseMapping({ ...ORDERS_FROM_1, sortKey: { name: 'sk', type: 'N', first: 1 } }), { N: '0' }],
    ['a String', EVENTS, { S: 'event#0000!' }],
  ])('a number below the first one is refused by reads and scans, with %s as sort key', async (_, mapping, sort) => {
    const { items, books, insert } = await dynamoDbTables(mapping);
    const store = new MappedLogStore({ items, books, mapping, now: () => NOON * 1000 });
    const [good, bad] = [newMappedLog(), newMappedLog()];
    const { pk: _pk, sk: _sk, ...rest } = orderItem(good, 0);
    for (const log of [good, bad]) {
      for (let index = 0; index < 3; index++) await insert({ ...rest, ...keyOf(mapping, log, index) });
      await store.register(log, TENS);
    }
    await insert({ ...rest, ...keyOf(mapping, bad, 0), [mapping.sortKey.name]: sort });
    const all = { segment: 0, from: 0, to: 99 };
    expect(await allEntries(store.entries(good, all, CONSISTENT))).toHaveLength(4);
    const refused = expect(allEntries(store.entries(bad, all, CONSISTENT))).rejects;
    await refused.toMatchObject({ code: 'ITEM_INVALID', log: bad, message: expect.stringContaining('below 1') });
    const errors: string[] = [];
    const pages = await Array.fromAsync(items.logs({ index: 0, of: 1 }, ({ message }) => errors.push(message)));
    expect(new Set(pages.flatMap((page) => page.logs.map((found) => found.log)))).toEqual(new Set([good, bad]));
    expect(errors).toEqual([expect.stringContaining('below 1')]);
  });
});
