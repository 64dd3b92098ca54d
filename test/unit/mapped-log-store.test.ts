import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { EntryGapError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, START } from '../../src/ids/position.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { allEntries, NOON, recordRequests } from '../support/logs.ts';
import { MappedLogs, newMappedLog, ORDERS, orderItem, TENS } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

const CONSISTENT = { consistent: true };

/** Each entry of a segment: position, type, number, seconds since noon. */
async function shape({ store }: MappedLogs, log: LogId, segment: number): Promise<string[]> {
  const entries = await allEntries(store.entries(log, { segment, from: 0, to: 100 }, CONSISTENT));
  return entries.map(
    ({ position, type, number, created }) => `${formatPosition(position)} ${type} ${number} +${created - NOON}`,
  );
}

describe('a mapped log', () => {
  test('it has virtual Snapshot and End Segment entries between its items', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(12);
    expect(await shape(logs, log, 0)).toEqual([
      '0/0 logfold Snapshot 0 +0',
      ...[1, 2, 3, 4, 5].map((i) => `0/${i} Set ${i} +${i - 1}`),
      '0/6 logfold Snapshot 5 +4',
      ...[6, 7, 8, 9, 10].map((i) => `0/${i + 1} Set ${i} +${i - 1}`),
      '0/12 logfold End Segment 10 +9',
    ]);
    expect(await shape(logs, log, 1)).toEqual(['1/0 logfold Snapshot 10 +9', '1/1 Set 11 +10', '1/2 Set 12 +11']);
    expect(await shape(logs, log, 2)).toEqual([]);
  });

  test('a reader takes the schedule that an empty segment got after the reader had inferred another', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(9);
    await logs.append(log, 1);
    // Segment 1 has begun, has no item, and is not recorded.
    const inferred = ['1/0 logfold Snapshot 10 +9'];
    expect(await shape(logs, log, 1)).toEqual(inferred);
    const { items, books } = logs;
    const other = new MappedLogStore({ items, books, mapping: ORDERS, now: () => NOON * 1000 });
    await other.register(log, { items: 4, snapshotEvery: 2 });
    await logs.append(log, 4);
    expect(await shape(logs, log, 1)).toEqual([
      ...inferred,
      '1/1 Set 11 +10',
      '1/2 Set 12 +11',
      '1/3 logfold Snapshot 12 +11',
      '1/4 Set 13 +12',
      '1/5 Set 14 +13',
      '1/6 logfold End Segment 14 +13',
    ]);
  });

  test.each([
    { items: 6, snapshotEvery: 3 },
    { items: 3, snapshotEvery: 1 },
    { items: 4, snapshotEvery: 4 },
  ])('a missing item is a gap, wherever the ranges of a read end: %o', async (sizes) => {
    for (let lost = 0; lost < 6; lost++) {
      const logs = new MappedLogs();
      const log = newMappedLog();
      for (let index = 0; index < lost + 3; index++) if (index !== lost) logs.items.insert(orderItem(log, index));
      await logs.store.register(log, sizes);
      for (let rangeEntries = 1; rangeEntries <= 8; rangeEntries++) {
        const source = { store: logs.store, types: VIRTUAL_TYPES, rangeEntries };
        const reading = allEntries(readEntries(source, log, { from: START, to: 'end' }));
        await expect(reading, `item ${lost}, ranges of ${rangeEntries}`).rejects.toThrow(EntryGapError);
      }
    }
  });

  test('a segment that another process records between two reads is there', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(9);
    await logs.append(log, 1);
    const { items, books } = logs;
    const late: LogStore = new Proxy(books, {
      get(target, key) {
        if (key === 'newestSegments') {
          return async (of: LogId, limit: number) => {
            await logs.store.register(log, TENS);
            return target.newestSegments(of, limit);
          };
        }
        const member: unknown = Reflect.get(target, key, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    const reader = new MappedLogStore({ items, books: late, mapping: ORDERS, now: () => NOON * 1000 });
    expect(await reader.getSegment(log, 1, CONSISTENT)).toMatchObject({ segment: 1, schedule: { first: 10 } });
    expect(await reader.getSegment(log, 2, CONSISTENT)).toBeUndefined();
  });

  test('the segments of a log whose application deleted most items are those that have begun', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(35);
    for (let index = 3; index < 35; index++) logs.items.delete(orderItem(log, index));
    for (const limit of [1, 2]) {
      expect(await logs.store.newestSegments(log, limit, CONSISTENT)).toMatchObject([{ segment: 0 }]);
    }
  });

  test('the segments before one that was folded have begun, even if the application deleted their items', async () => {
    const logs = new MappedLogs();
    const { store } = logs;
    const log = await logs.create(35);
    await store.advanceLastSnapshot(log, { position: { segment: 2, entry: 6 } });
    for (let index = 3; index < 35; index++) logs.items.delete(orderItem(log, index));
    const numbers = (segments: readonly { readonly segment: number }[]) => segments.map(({ segment }) => segment);
    expect(numbers(await store.newestSegments(log, 2, CONSISTENT))).toEqual([2, 1]);
    expect(numbers(await Array.fromAsync(store.segments(log)))).toEqual([0, 1, 2]);
    expect(await store.getSegment(log, 1, CONSISTENT)).toMatchObject({ segment: 1 });
    expect(await store.getSegment(log, 3, CONSISTENT)).toBeUndefined();
  });

  test('a body that cannot be read fails its own segment only, not the one that begins after it', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(9);
    logs.items.insert(orderItem(log, 9, { payload: { N: '1e999' } }));
    await logs.append(log, 2);
    expect(await shape(logs, log, 1)).toEqual(['1/0 logfold Snapshot 10 +9', '1/1 Set 11 +10', '1/2 Set 12 +11']);
    await expect(shape(logs, log, 0)).rejects.toMatchObject({
      code: 'ITEM_INVALID',
      segment: 0,
      entry: 11,
      reason: expect.stringMatching(/^attribute 'payload' cannot be read: .*, in the item with pk '.*', sk '9'$/),
    });
  });

  test('a scan of all segments lets the next read of a segment take one request', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(4);
    const requests: string[] = [];
    const { items } = logs;
    const books = recordRequests(logs.books, requests);
    const store = new MappedLogStore({ items, books, mapping: ORDERS, now: () => NOON * 1000 });
    expect(await Array.fromAsync(store.allSegments())).toHaveLength(1);
    requests.length = 0;
    expect(await allEntries(store.entries(log, { segment: 0, from: 1, to: 100 }, CONSISTENT))).toHaveLength(4);
    expect(requests.filter((request) => request.includes('egment'))).toEqual([]);
  });

  test.each([
    ['between others', [7], "the item with pk 'order#ID', sk '7'", 9],
    ['before a Snapshot entry', [4], "the item with pk 'order#ID', sk '4'", 5],
    [
      'at the beginning',
      [0],
      "the item with pk 'order#ID', sk '0', with which the mapping says that the log begins",
      1,
    ],
  ])('a gap names the missing item by its key: %s', async (_, missing, named, entry) => {
    const logs = new MappedLogs();
    const log = await logs.create(12);
    for (const index of missing) logs.items.delete(orderItem(log, index));
    const { store } = logs;
    const range = { from: START, to: 'end' } as const;
    for (const reader of [store, testDeployment({ tables: store, blobs: new MemoryBlobStore() }).store]) {
      const reading = Array.fromAsync(readEntries({ store: reader, types: VIRTUAL_TYPES }, log, range));
      const reason = `an entry is missing: ${named.replace('ID', log)}`;
      await expect(reading).rejects.toMatchObject({ code: 'ENTRY_GAP', log, segment: 0, entry, reason });
    }
  });
});
