import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { DynamoDbMappedItems } from '../../src/adapters/dynamodb/mapped-items.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { EntryNotFoundError, SegmentNotFoundError, TooLargeError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { nextPosition, type Position } from '../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES, type ReservedTypes } from '../../src/log/entry.ts';
import { encodeSegment } from '../../src/log/item-codec.ts';
import { type LogStore, MAX_BATCH_ITEMS, type RootRef } from '../../src/log/log-store.ts';
import { entryOfItem, entryAt as scheduledAt, VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import type { Segment } from '../../src/log/segment.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { archiveKey } from '../../src/store/keys.ts';
import { allEntries, entryAt, NOON, newLogId } from '../support/logs.ts';
import { expired, expiring, lastAt, ON_HOLD } from '../support/segments.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { MappedLogs, ORDERS, orderItem } from '../support/stores/mapped-logs.ts';
import { readsOfPage } from '../support/stores/remote-reads.ts';

// Reads, snapshots and the lives of segments, for logs of logfold's own schema and for mapped logs.
// Both have the same entries: segments of 8 items of the application, a Snapshot entry after 4.
const SIZES = { items: 8, snapshotEvery: 4 };
const CONSISTENT = { consistent: true };
const FIRST = { segment: 0, entry: 0 };
const SECOND = { segment: 0, entry: 5 };
const HASH = new Uint8Array(32).fill(1);
const OTHER_HASH = new Uint8Array(32).fill(2);
const ROOT = { key: 'logs/x/roots/0' };
const archiveNamed = (log: LogId, digit: string, segment = 0) => archiveKey(log, segment, digit.repeat(32));
const archiveOf = (log: LogId) => ({ key: archiveNamed(log, '0'), hash: HASH, root: ROOT });

/** A store, and a way to write a log. */
interface StoredLogs {
  readonly store: LogStore;
  readonly types: ReservedTypes;
  /** Appends items number `from` up to but not including `to`, with padding of this many bytes. */
  append(log: LogId, from: number, to: number, bytes: number): Promise<void>;
  /** A segment as the store would return it. */
  segmentOf(log: LogId, segment: number): Segment;
}

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

/** The position of item number `index`. */
function placeOf(index: number): Position {
  const segment = Math.floor(index / SIZES.items);
  return { segment, entry: entryOfItem({ first: segment * SIZES.items, ...SIZES }, index) };
}

/** Logs in logfold's own schema. */
function ownLogs(store: LogStore): StoredLogs {
  const marker = (log: LogId, position: Position, type: string, index: number): Entry => {
    return { log, position, created: NOON + Math.max(0, index), type, version: 1, number: index + 1 };
  };
  const segmentOf = (log: LogId, segment: number): Segment => {
    return { log, segment, created: NOON + Math.max(0, segment * SIZES.items - 1) };
  };
  return {
    store,
    types: RESERVED_TYPES,
    segmentOf,
    append: async (log, from, to, bytes) => {
      if (from === 0) await store.createLog(segmentOf(log, 0), marker(log, FIRST, 'Snapshot', -1));
      for (let index = from; index < to; index++) {
        const position = placeOf(index);
        const body = { format: 'json', text: JSON.stringify('x'.repeat(bytes)) } as const;
        const entry = entryAt(log, position, { created: NOON + index, number: index + 1, body });
        await store.putEntries([entry]);
        const following = nextPosition(position);
        const { kind } = scheduledAt({ first: position.segment * SIZES.items, ...SIZES }, following.entry) ?? {};
        if (kind === 'snapshot') await store.putEntries([marker(log, following, 'Snapshot', index)]);
        if (kind !== 'end segment') continue;
        const next = { segment: position.segment + 1, entry: 0 };
        await store.startSegment({
          end: marker(log, following, 'End Segment', index),
          segment: segmentOf(log, next.segment),
          first: marker(log, next, 'Snapshot', index),
        });
      }
    },
  };
}

/** Logs of an application's table. */
function mappedLogs(store: MappedLogStore, insert: (item: ReturnType<typeof orderItem>) => Promise<void>): StoredLogs {
  return {
    store,
    types: VIRTUAL_TYPES,
    segmentOf: (log, segment) => {
      const schedule = { first: segment * SIZES.items, ...SIZES };
      return { log, segment, created: NOON + Math.max(0, schedule.first - 1), schedule };
    },
    append: async (log, from, to, bytes) => {
      for (let index = from; index < to; index++)
        await insert(orderItem(log, index, { payload: { S: 'x'.repeat(bytes) } }));
      await store.register(log, SIZES);
    },
  };
}

async function mappedInDynamoDb(): Promise<StoredLogs> {
  const { client } = engine;
  const table = `orders-${newLogId()}`;
  const { segmentTable } = await engine.createTables();
  await createItemTable(client, table);
  const store = new MappedLogStore({
    items: new DynamoDbMappedItems({ client, table, segmentTable, mapping: ORDERS }),
    books: new DynamoDbLogStore({ client, entryTable: segmentTable, segmentTable }),
    mapping: ORDERS,
    now: () => NOON * 1000,
  });
  return mappedLogs(
    store,
    async (item) => void (await client.send(new PutItemCommand({ TableName: table, Item: item }))),
  );
}

const STORES: readonly (readonly [string, () => Promise<StoredLogs>])[] = [
  ['memory', async () => ownLogs(new MemoryLogStore({ pageItems: 3 }))],
  ['dynamodb', async () => ownLogs(new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) }))],
  ['remote (reads only)', async () => ownLogs(readsOfPage(new MemoryLogStore({ pageItems: 3 })))],
  [
    'mapped memory',
    async () => {
      const { store, items } = new MappedLogs();
      return mappedLogs(store, async (item) => items.insert(item));
    },
  ],
  ['mapped dynamodb', mappedInDynamoDb],
];

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  return Array.fromAsync(items);
}

describe.each(STORES)('the %s log store', (_name, open) => {
  let logs: StoredLogs;
  let store: LogStore;
  beforeAll(async () => {
    logs = await open();
    store = logs.store;
  });

  async function create(items = 1, bytes = 1): Promise<LogId> {
    const log = newLogId();
    await logs.append(log, 0, items, bytes);
    return log;
  }

  async function segmentNow(log: LogId, segment = 0): Promise<Segment> {
    const found = await store.getSegment(log, segment, CONSISTENT);
    if (found === undefined) throw new Error('there is no such segment');
    return found;
  }

  async function entryNow(log: LogId, position: Position): Promise<Entry> {
    const found = await store.getEntry(log, position, CONSISTENT);
    if (found === undefined) throw new Error('there is no such entry');
    return found;
  }

  /** Creates a log whose segment 0 has a complete snapshot at entry 0. */
  async function createSnapshotLog(root: RootRef = ROOT, items = 1): Promise<LogId> {
    const log = await create(items);
    await store.completeSnapshot(log, FIRST, root);
    await store.advanceLastSnapshot(log, { position: FIRST });
    return log;
  }

  const entriesOf = (log: LogId, segment = 0): Promise<Entry[]> =>
    allEntries(store.entries(log, { segment, from: 0, to: 100 }, CONSISTENT));
  const numbersOf = async (log: LogId, segment = 0) =>
    (await entriesOf(log, segment)).map((each) => each.position.entry);
  const rooted = (root: RootRef) =>
    'key' in root ? { external: root.key } : { body: { format: 'bytes', bytes: root.inline } };

  /** Each entry of a segment: S, E, or the number of the application's entry. */
  async function shape(log: LogId, segment: number): Promise<string> {
    const { snapshot, endSegment } = logs.types;
    const marks = new Map([
      [snapshot, 'S'],
      [endSegment, 'E'],
    ]);
    return (await entriesOf(log, segment)).map(({ type, number }) => marks.get(type) ?? String(number)).join(' ');
  }

  test('it finds nothing of a log that does not exist', async () => {
    const log = newLogId();
    expect(await store.newestSegments(log, 2, CONSISTENT)).toEqual([]);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
    expect(await store.newestEntry(log, 0, CONSISTENT)).toBeUndefined();
    expect(await store.getEntry(log, FIRST, CONSISTENT)).toBeUndefined();
    expect(await collect(store.segments(log))).toEqual([]);
    expect(await entriesOf(log)).toEqual([]);
  });

  test('it reads the entries of each segment in order, with their numbers and times', async () => {
    const log = await create(13);
    expect(await shape(log, 0)).toBe('S 1 2 3 4 S 5 6 7 8 E');
    expect(await shape(log, 1)).toBe('S 9 10 11 12 S 13');
    expect(await shape(log, 2)).toBe('');
    const all = [...(await entriesOf(log, 0)), ...(await entriesOf(log, 1))];
    expect(all.map(({ number }) => number)).toEqual([0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 8, 9, 10, 11, 12, 12, 13]);
    expect(all.map(({ created, number = 0 }) => created - NOON - Math.max(0, number - 1))).toEqual(all.map(() => 0));
  });

  test('it reads ranges in order, page by page, and no other segment', async () => {
    const log = await create(8, 300_000);
    const whole = await entriesOf(log);
    const pages = await collect(store.entries(log, { segment: 0, from: 2, to: 10 }, CONSISTENT));
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.flat()).toEqual(whole.slice(2, 10));
    expect(await collect(store.entries(log, { segment: 0, from: 3, to: 3 }, CONSISTENT))).toEqual([]);
    expect(await collect(store.entries(log, { segment: 0, from: 31, to: 2 ** 32 }, CONSISTENT))).toEqual([]);
    for (const { position } of whole) expect(await entryNow(log, position)).toEqual(whole[position.entry]);
  });

  test('it finds the newest entry of each segment', async () => {
    const log = await create(8);
    const { snapshot, endSegment } = logs.types;
    const newest = async (segment: number) => {
      const found = await store.newestEntry(log, segment, CONSISTENT);
      return found && [found.position.entry, found.type, found.number];
    };
    expect([await newest(0), await newest(1), await newest(2)]).toEqual([
      [10, endSegment, 8],
      [0, snapshot, 8],
      undefined,
    ]);
    await logs.append(log, 8, 11, 1);
    expect(await newest(1)).toEqual([3, 'Set', 11]);
    await logs.append(log, 11, 12, 1);
    expect(await newest(1)).toEqual([5, snapshot, 12]);
  });

  test('it lists the segments of one log and of all logs', async () => {
    const [log, other] = [await create(24), await create(1)];
    const segments = [0, 1, 2, 3].map((segment) => logs.segmentOf(log, segment));
    for (const consistent of [true, false])
      expect(await collect(store.segments(log, { consistent }))).toEqual(segments);
    expect(await store.newestSegments(log, 1, CONSISTENT)).toEqual(segments.slice(3));
    expect(await store.newestSegments(log, 9, CONSISTENT)).toEqual(segments.toReversed());
    for (const segment of segments) expect(await segmentNow(log, segment.segment)).toEqual(segment);
    // A complete snapshot is not a segment.
    await store.completeSnapshot(log, FIRST, ROOT);
    const all = (await collect(store.allSegments())).filter((each) => each.log === log || each.log === other);
    expect(all).toHaveLength(5);
  });

  /** Stored logs apart from those of the other tests, so that a scan is short. */
  async function fewLogs(items: readonly number[]): Promise<{ readonly store: LogStore; readonly all: LogId[] }> {
    const few = await open();
    const all: LogId[] = [];
    for (const count of items) {
      const log = newLogId();
      await few.append(log, 0, count, 1);
      all.push(log);
    }
    return { store: few.store, all };
  }

  test.each([1, 3, 7])('it returns every segment in exactly one of %d parts of a scan', async (of) => {
    const { store, all } = await fewLogs([9, ...Array.from({ length: 11 }, () => 1)]);
    const parts = await Promise.all(
      Array.from({ length: of }, (_, index) => collect(store.allSegments({ index, of }))),
    );
    const names = (segments: readonly Segment[]) => segments.map(({ log, segment }) => `${log}/${segment}`).sort();
    expect(names(parts.flat())).toEqual([`${all[0]}/1`, ...all.map((log) => `${log}/0`)].sort());
    expect(names(await collect(store.allSegments()))).toEqual(names(parts.flat()));
  });

  test.each([1, 3])('it continues a scan in %d parts after any segment', async (of) => {
    const { store } = await fewLogs([9, 9, 9, 9]);
    for (let index = 0; index < of; index++) {
      const whole = await collect(store.allSegments({ index, of }));
      for (const [i, after] of whole.entries()) {
        expect(await collect(store.allSegments({ index, of, after }))).toEqual(whole.slice(i + 1));
      }
    }
  });

  test.each([
    ['a key', { key: 'logs/x/roots/y' }, { key: 'other' }],
    ['an inline root', { inline: Uint8Array.of(1, 2, 3) }, { inline: Uint8Array.of(9) }],
    ['a key, then an inline root', { key: 'logs/x/roots/y' }, { inline: Uint8Array.of(9) }],
    ['an inline root, then a key', { inline: Uint8Array.of(1, 2, 3) }, { key: 'other' }],
  ])('it completes a snapshot once: %s', async (_what, root, late) => {
    const log = await create();
    const position = { segment: 0, entry: 0 };
    const before = await entryNow(log, position);
    expect(await store.completeSnapshot(log, position, root)).toEqual(root);
    expect(await store.completeSnapshot(log, position, late)).toEqual(root);
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...before, ...rooted(root) });
  });

  test('it completes no snapshot without an entry, or on an entry with a body', async () => {
    const log = await create();
    const place = { segment: 0, entry: 7 };
    await expect(store.completeSnapshot(log, place, { key: 'k' })).rejects.toThrow(EntryNotFoundError);
    expect(await store.getEntry(log, place, CONSISTENT)).toBeUndefined();
    const before = await entryNow(log, placeOf(0));
    // A mapped log refuses it; another log returns what the entry carries.
    const answer = await store.completeSnapshot(log, placeOf(0), { key: 'k' }).catch((error: unknown) => error);
    expect(answer).not.toEqual({ key: 'k' });
    expect(await entryNow(log, placeOf(0))).toEqual(before);
  });

  test('it completes no snapshot with a root that does not fit the item', async () => {
    const log = await create();
    const before = await entryNow(log, FIRST);
    const root = { inline: new Uint8Array(400 * 1024) };
    await expect(store.completeSnapshot(log, { segment: 0, entry: 0 }, root)).rejects.toThrow(TooLargeError);
    expect(await store.getEntry(log, { segment: 0, entry: 0 }, CONSISTENT)).toEqual(before);
  });

  const ROOTS: readonly (readonly [string, RootRef])[] = [
    ['a key', { key: 'logs/x/roots/old' }],
    ['another key', { key: 'logs/x/roots/new' }],
    ['an inline root', { inline: Uint8Array.of(1, 2, 3) }],
    ['another inline root', { inline: Uint8Array.of(1, 2, 4) }],
  ];
  const PAIRS = ROOTS.flatMap(([a, from]) => ROOTS.filter(([b]) => b !== a).map(([b, to]) => ({ a, b, from, to })));

  test.each(PAIRS)('it replaces $a with $b, and nothing else of the entry', async ({ from, to }) => {
    const log = await create();
    const position = { segment: 0, entry: 0 };
    const before = await entryNow(log, position);
    await store.completeSnapshot(log, position, from);
    expect(await store.replaceRoot(log, position, from, to)).toBe(true);
    // An entry with both attributes cannot be read.
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...before, ...rooted(to) });
    expect(await store.completeSnapshot(log, position, from)).toEqual(to);
  });

  test.each(PAIRS)(
    'it replaces no root except $a with $b, and says whether the entry carries it',
    { tags: ['I2'] },
    async ({ from, to }) => {
      const log = await create();
      const position = { segment: 0, entry: 0 };
      const before = await store.getEntry(log, position, CONSISTENT);
      expect(await store.replaceRoot(log, position, from, to)).toBe(false);
      expect(await store.getEntry(log, position, CONSISTENT)).toEqual(before);

      for (const [, other] of ROOTS.filter(([, root]) => root !== from && root !== to)) {
        const another = await create();
        await store.completeSnapshot(another, position, other);
        const stays = await store.getEntry(another, position, CONSISTENT);
        expect(await store.replaceRoot(another, position, from, to)).toBe(false);
        expect(await store.getEntry(another, position, CONSISTENT)).toEqual(stays);
      }
      await store.completeSnapshot(log, position, to);
      expect(await store.replaceRoot(log, position, from, to)).toBe(true);
      expect(await store.completeSnapshot(log, position, from)).toEqual(to);
    },
  );

  test('it replaces no root without an entry, or with one that does not fit the item', async () => {
    const log = await create();
    const [from, to] = [{ key: 'old' }, { inline: new Uint8Array(400 * 1024) }];
    const place = { segment: 0, entry: 7 };
    await expect(store.replaceRoot(log, place, from, { key: 'new' })).rejects.toThrow(EntryNotFoundError);
    expect(await store.getEntry(log, place, CONSISTENT)).toBeUndefined();
    const position = { segment: 0, entry: 0 };
    const before = await entryNow(log, position);
    await store.completeSnapshot(log, position, from);
    await expect(store.replaceRoot(log, position, from, to)).rejects.toThrow(TooLargeError);
    expect(await store.getEntry(log, position, CONSISTENT)).toEqual({ ...before, external: 'old' });
  });

  test('it lets one of many clients replace a root', async () => {
    const log = await create();
    const position = { segment: 0, entry: 0 };
    await store.completeSnapshot(log, position, { key: 'old' });
    const keys = Array.from({ length: 8 }, (_, i) => `new ${i}`);
    const replaced = await Promise.all(keys.map((key) => store.replaceRoot(log, position, { key: 'old' }, { key })));
    expect(replaced.filter((won) => won)).toHaveLength(1);
    expect((await store.getEntry(log, position, CONSISTENT))?.external).toBe(keys[replaced.indexOf(true)]);
  });

  test('it moves Last Snapshot only from the entry at which the caller saw it', { tags: ['I2'] }, async () => {
    const log = await create();
    const lastSnapshot = async () => (await store.getSegment(log, 0, CONSISTENT))?.lastSnapshot?.position.entry;
    expect(
      await store.advanceLastSnapshot(
        log,
        { position: { segment: 0, entry: 5 } },
        { position: { segment: 0, entry: 3 } },
      ),
    ).toBe(false);
    expect(await lastSnapshot()).toBeUndefined();
    expect(await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 5 } })).toBe(true);
    expect(await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 40 } })).toBe(false);
    expect(
      await store.advanceLastSnapshot(
        log,
        { position: { segment: 0, entry: 40 } },
        { position: { segment: 0, entry: 4 } },
      ),
    ).toBe(false);
    expect(await lastSnapshot()).toBe(5);
    expect(
      await store.advanceLastSnapshot(
        log,
        { position: { segment: 0, entry: 40 } },
        { position: { segment: 0, entry: 5 } },
      ),
    ).toBe(true);
    expect(await lastSnapshot()).toBe(40);
    await expect(store.advanceLastSnapshot(log, { position: { segment: 3, entry: 0 } })).rejects.toThrow(
      SegmentNotFoundError,
    );
    expect(await store.getSegment(log, 3, CONSISTENT)).toBeUndefined();
  });

  test.each<[string, RootRef]>([
    ['a key', ROOT],
    ['an inline root', { inline: Uint8Array.of(1, 2, 3) }],
  ])('it names an archive once, beside a snapshot with %s', async (_what, root) => {
    const log = await createSnapshotLog(root);
    const segment = await segmentNow(log);
    expect(await store.setArchive(segment, { ...archiveOf(log), root })).toBe(true);
    const archived = { ...segment, archive: { key: archiveOf(log).key, hash: HASH } };
    expect(await segmentNow(log)).toEqual(archived);
    expect(await store.setArchive(segment, { ...archiveOf(log), root })).toBe(true);
    expect(await store.setArchive(archived, { ...archiveOf(log), root })).toBe(true);
    expect(await store.setArchive(segment, { ...archiveOf(log), root, key: 'other' })).toBe(false);
    expect(await store.setArchive(segment, { ...archiveOf(log), root, hash: OTHER_HASH })).toBe(false);
    expect(await segmentNow(log)).toEqual(archived);
  });

  test('it removes what another program wrote only if that is exactly as given', async () => {
    const log = await create();
    const place = { log, segment: 0 };
    await store.setArchive(await segmentNow(log), { ...archiveOf(log), root: undefined });
    const archived = await segmentNow(log);
    const { A, H } = encodeSegment(archived);
    if (A === undefined || H === undefined) throw new Error('the segment has no archive');
    expect(await store.removeAttributes(place, { A: { S: 'other' }, H })).toBe(false);
    expect(await store.removeAttributes({ ...place, segment: 9 }, { A, H })).toBe(false);
    expect(await segmentNow(log)).toEqual(archived);
    expect(await store.removeAttributes(place, { A, H })).toBe(true);
    expect((await segmentNow(log)).archive).toBeUndefined();

    await store.completeSnapshot(log, FIRST, ROOT);
    expect(await store.removeAttributes({ ...place, entry: 0 }, { E: { S: 'other' } })).toBe(false);
    expect(await store.removeAttributes({ ...place, entry: 0 }, { E: { S: ROOT.key } })).toBe(true);
    expect((await entryNow(log, FIRST))?.external).toBeUndefined();
  });

  test('it names an archive of a segment without a snapshot', async () => {
    const log = await create();
    expect(await store.setArchive(logs.segmentOf(log, 0), { ...archiveOf(log), root: undefined })).toBe(true);
    expect(await segmentNow(log)).toEqual({
      ...logs.segmentOf(log, 0),
      archive: { key: archiveOf(log).key, hash: HASH },
    });
  });

  test('it names no archive if Last Snapshot differs', async () => {
    const log = await createSnapshotLog(ROOT, 4);
    const segment = await segmentNow(log);
    expect(await store.setArchive(logs.segmentOf(log, 0), { ...archiveOf(log), root: undefined })).toBe(false);
    await store.completeSnapshot(log, SECOND, ROOT);
    await store.advanceLastSnapshot(log, { position: SECOND }, { position: FIRST });
    expect(await store.setArchive(segment, archiveOf(log))).toBe(false);
    expect(await segmentNow(log)).toEqual({ ...segment, lastSnapshot: lastAt(0, 5) });
  });

  test.each<[string, RootRef]>([
    ['another key', { key: 'logs/x/roots/1' }],
    ['an inline root', { inline: Uint8Array.of(9) }],
  ])('it names no archive if the root was replaced by %s', async (_what, to) => {
    const log = await createSnapshotLog();
    const segment = await segmentNow(log);
    await store.replaceRoot(log, FIRST, ROOT, to);
    expect(await store.setArchive(segment, archiveOf(log))).toBe(false);
    expect(await segmentNow(log)).toEqual(segment);
    expect(await store.setArchive(segment, { ...archiveOf(log), root: to })).toBe(true);
  });

  test('it names no archive without a segment, or without an entry that carries the root', async () => {
    const log = newLogId();
    expect(await store.setArchive(logs.segmentOf(log, 0), { ...archiveOf(log), root: undefined })).toBe(false);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
    const segment = { ...logs.segmentOf(log, 0), lastSnapshot: lastAt(0, 3) };
    await store.putSegment(segment);
    expect(await store.setArchive(segment, archiveOf(log))).toBe(false);
    expect(await segmentNow(log)).toEqual(segment);
  });

  test('it keeps Last Snapshot and root of an archived segment unchanged', async () => {
    const log = await createSnapshotLog();
    await store.setArchive(await segmentNow(log), archiveOf(log));
    const archived = await segmentNow(log);
    expect(await store.advanceLastSnapshot(log, { position: { segment: 0, entry: 9 } })).toBe(false);
    expect(await store.replaceRoot(log, FIRST, ROOT, { key: 'logs/x/roots/1' })).toBe(false);
    expect(await store.replaceRoot(log, FIRST, { key: 'logs/x/roots/1' }, ROOT)).toBe(true);
    const missing = store.replaceRoot(log, { segment: 0, entry: 7 }, ROOT, { key: 'logs/x/roots/1' });
    await expect(missing).rejects.toThrow(EntryNotFoundError);
    expect(await segmentNow(log)).toEqual(archived);
    expect((await store.getEntry(log, FIRST, CONSISTENT))?.external).toBe(ROOT.key);
  });

  test('it either names the archive or replaces the root', async () => {
    for (let round = 0; round < 8; round++) {
      const log = await createSnapshotLog();
      const segment = await segmentNow(log);
      const [named, replaced] = await Promise.all([
        store.setArchive(segment, archiveOf(log)),
        store.replaceRoot(log, FIRST, ROOT, { key: 'logs/x/roots/1' }),
      ]);
      expect([named, replaced].filter((done) => done)).toHaveLength(1);
      expect((await segmentNow(log)).archive?.key).toBe(named ? archiveOf(log).key : undefined);
    }
  });

  test('it replaces an archive, with another root on the entry of Last Snapshot', async () => {
    const to: RootRef = { inline: Uint8Array.of(9, 9) };
    const log = await createSnapshotLog();
    const other = { key: archiveNamed(log, '2'), hash: OTHER_HASH };
    const open = await segmentNow(log);
    expect(await store.replaceArchive(open, other)).toBe(false);
    await store.setArchive(open, archiveOf(log));
    const archived = await segmentNow(log);
    const stale: readonly Segment[] = [
      open,
      { ...archived, archive: { key: archiveNamed(log, '3'), hash: HASH } },
      { ...archived, archive: { key: archiveOf(log).key, hash: OTHER_HASH } },
      { ...archived, lastSnapshot: lastAt(0, 1) },
    ];
    for (const segment of stale) {
      expect(await store.replaceArchive(segment, { ...other, root: { from: ROOT, to } })).toBe(false);
    }
    expect(await store.replaceArchive(archived, { ...other, root: { from: to, to: ROOT } })).toBe(false);
    expect(await segmentNow(log)).toEqual(archived);
    expect((await store.getEntry(log, FIRST, CONSISTENT))?.external).toBe(ROOT.key);

    expect(await store.replaceArchive(archived, { ...other, root: { from: ROOT, to } })).toBe(true);
    const renamed = { ...archived, archive: { key: other.key, hash: OTHER_HASH } };
    expect(await segmentNow(log)).toEqual(renamed);
    const entry = await store.getEntry(log, FIRST, CONSISTENT);
    expect([entry?.external, entry?.body]).toEqual([undefined, { format: 'bytes', bytes: to.inline }]);
    // A client that lost the answer sends the request again.
    expect(await store.replaceArchive(archived, { ...other, root: { from: ROOT, to } })).toBe(true);
  });

  test('it writes the expiry of a segment, step by step and back again', async () => {
    const log = await createSnapshotLog();
    await store.setArchive(await segmentNow(log), archiveOf(log));
    const kept = await segmentNow(log);
    const steps = [expiring(NOON), expired(NOON, 7), ON_HOLD, expiring(NOON + 1), undefined];
    let segment = kept;
    for (const step of steps) {
      expect(await store.setExpiration(segment, step)).toBe(true);
      segment = await segmentNow(log);
      expect(segment).toEqual({ ...kept, ...(step !== undefined && { expiry: step }) });
    }
  });

  test('it writes the expiry only if the segment has the state before or the new one', async () => {
    const log = await createSnapshotLog();
    const before = await segmentNow(log);
    const leaving = { ...before, expiry: expiring(NOON) };
    expect(await store.setExpiration(before, expiring(NOON))).toBe(true);
    expect(await store.setExpiration(before, expiring(NOON))).toBe(true);
    expect(await store.setExpiration(before, expiring(NOON + 1))).toBe(false);
    expect(await store.setExpiration({ ...before, expiry: expiring(NOON + 1) }, undefined)).toBe(false);
    expect(await store.setExpiration({ ...before, expiry: expired(NOON, 1) }, expired(NOON, 2))).toBe(false);
    expect(await segmentNow(log)).toEqual(leaving);

    await store.setArchive(leaving, archiveOf(log));
    const archived = { ...leaving, archive: { key: archiveOf(log).key, hash: HASH } };
    const stale: readonly Segment[] = [
      leaving,
      { ...archived, archive: { key: 'other', hash: HASH } },
      { ...archived, archive: { key: archiveOf(log).key, hash: OTHER_HASH } },
      { ...archived, lastSnapshot: lastAt(0, 1) },
      { ...archived, lastSnapshot: undefined },
    ];
    for (const segment of stale) {
      expect(await store.setExpiration(segment, undefined)).toBe(false);
      expect(await store.setExpiration(segment, expiring(NOON))).toBe(false);
    }
    expect(await segmentNow(log)).toEqual(archived);
  });

  test('it writes no expiry without a segment', async () => {
    const log = newLogId();
    expect(await store.setExpiration(logs.segmentOf(log, 0), expiring(NOON))).toBe(false);
    expect(await store.getSegment(log, 0, CONSISTENT)).toBeUndefined();
  });

  test('it stamps an entry and removes the stamp', async () => {
    const log = await create();
    const entry = await entryNow(log, placeOf(0));
    expect(await store.setEntryExpiry(log, entry.position, NOON)).toBe(true);
    expect(await store.getEntry(log, entry.position, CONSISTENT)).toEqual({ ...entry, expires: NOON });
    expect(await store.setEntryExpiry(log, entry.position, undefined)).toBe(true);
    expect(await store.setEntryExpiry(log, entry.position, undefined)).toBe(true);
    expect(await store.getEntry(log, entry.position, CONSISTENT)).toEqual(entry);
  });

  test.each([NOON, undefined])('it creates no entry when it stamps a missing one with %s', async (expires) => {
    const log = await create();
    expect(await store.setEntryExpiry(log, placeOf(1), expires)).toBe(false);
    expect(await numbersOf(log)).toEqual([0, 1]);
  });

  test('it writes a segment only if its number is free', async () => {
    const log = newLogId();
    const segment = {
      ...logs.segmentOf(log, 4),
      lastSnapshot: lastAt(4, 0),
      archive: { key: archiveNamed(log, '0', 4), hash: HASH },
      expiry: expired(NOON, 3),
    };
    expect(await store.putSegment(segment)).toBe(true);
    expect(await store.putSegment(segment)).toBe(false);
    expect(await store.putSegment(logs.segmentOf(log, 4))).toBe(false);
    expect(await store.getSegment(log, 4, CONSISTENT)).toEqual(segment);
  });

  describe('expiring entries in batches', () => {
    async function leavingLog() {
      const log = await create(3);
      const segment = await segmentNow(log);
      const leaving = { ...segment, expiry: expiring(NOON) };
      expect(await store.setExpiration(segment, leaving.expiry)).toBe(true);
      return { log, leaving };
    }
    const expiries = async (log: LogId) => (await entriesOf(log)).map(({ expires }) => expires ?? 0);

    test('it stamps or deletes them', async () => {
      const { log, leaving } = await leavingLog();
      expect(await store.expireEntries(leaving, [1, 2, 2], 'ttl')).toBe(true);
      expect(await store.expireEntries(leaving, [2, 3], 'ttl')).toBe(true);
      expect(await expiries(log)).toEqual([0, NOON, NOON, NOON]);
      expect(await store.expireEntries(leaving, [2, 3, 3], 'delete')).toBe(true);
      expect(await numbersOf(log)).toEqual([0, 1]);
    });

    test('it ignores missing entries, and creates none', async () => {
      const { log, leaving } = await leavingLog();
      await store.deleteEntries(log, 0, [2, 4]);
      expect(await store.expireEntries(leaving, [1, 2, 3], 'ttl')).toBe(true);
      expect(await store.expireEntries(leaving, [4], 'ttl')).toBe(true);
      expect(await store.expireEntries(leaving, [], 'ttl')).toBe(true);
      expect(await expiries(log)).toEqual([0, NOON, NOON]);
      expect(await store.expireEntries(leaving, [2, 3], 'delete')).toBe(true);
      expect(await numbersOf(log)).toEqual([0, 1]);
    });

    test('it removes their stamps', async () => {
      const { log, leaving } = await leavingLog();
      const entries = await entriesOf(log);
      expect(await store.expireEntries(leaving, [1, 2, 3], 'ttl')).toBe(true);
      expect(await store.unexpireEntries(leaving, [1])).toBe(false);
      expect(await store.setExpiration(leaving, ON_HOLD)).toBe(true);
      expect(await store.expireEntries(leaving, [3], 'ttl')).toBe(false);
      expect(await store.unexpireEntries(leaving, [1, 2, 2, 4])).toBe(true);
      expect(await expiries(log)).toEqual([0, 0, 0, NOON]);
      expect(await store.unexpireEntries({ log, segment: 1 }, [3])).toBe(false);
      expect(await expiries(log)).toEqual([0, 0, 0, NOON]);
      expect(await store.unexpireEntries(leaving, [3, 40])).toBe(true);
      expect(await entriesOf(log)).toEqual(entries);
      const numbers = Array.from({ length: MAX_BATCH_ITEMS + 1 }, (_, i) => i);
      await expect(store.unexpireEntries(leaving, numbers)).rejects.toThrow(TooLargeError);
    });

    test('it expires none if the segment has changed', async () => {
      const { log, leaving } = await leavingLog();
      const entries = await entriesOf(log);
      const other = { ...leaving, expiry: expiring(NOON + 1) };
      for (const how of ['ttl', 'delete'] as const) {
        expect(await store.expireEntries(other, [1, 2], how)).toBe(false);
        expect(await store.expireEntries(other, [9], how)).toBe(false);
        expect(await store.expireEntries(other, [], how)).toBe(false);
        expect(await store.expireEntries({ ...leaving, segment: 1 }, [1], how)).toBe(false);
      }
      expect(await store.setExpiration(leaving, undefined)).toBe(true);
      for (const how of ['ttl', 'delete'] as const) expect(await store.expireEntries(leaving, [1, 2], how)).toBe(false);
      expect(await entriesOf(log)).toEqual(entries);
    });
  });
});
