import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { formatPosition } from '../../src/ids/position.ts';
import { queryNewest } from '../../src/log/newest.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { LogEnds } from '../../src/mapping/log-ends.ts';
import { LogRegistrar } from '../../src/mapping/log-registrar.ts';
import { NOON, recordRequests, unarchived } from '../support/logs.ts';
import { MappedLogs, newMappedLog, ORDERS, TENS } from '../support/stores/mapped-logs.ts';

describe('the end of a mapped log', () => {
  test('is the newest entry while an item is the newest one, in every place of a segment', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(1);
    const ends: string[] = [];
    for (let index = 0; index < 25; index++) {
      if (index > 0) await logs.append(log, 1);
      const end = await logs.store.endAt(log, index);
      const source = { store: unarchived(logs.store), types: VIRTUAL_TYPES };
      expect(end).toEqual((await queryNewest(source, log, { consistent: true })).position);
      ends.push(end === undefined ? '' : formatPosition(end));
    }
    // A virtual Snapshot entry follows every fifth item, and a new segment begins with every tenth.
    expect(ends.slice(3, 11)).toEqual(['0/4', '0/6', '0/7', '0/8', '0/9', '0/10', '1/0', '1/1']);
  });

  test('takes the schedule that a later segment was recorded with', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(9);
    await logs.append(log, 1);
    expect(await logs.store.endAt(log, 9)).toEqual({ segment: 1, entry: 0 });
    // Segment 1 has no item yet, so its schedule may still change.
    await logs.store.register(log, { items: 4, snapshotEvery: 2 });
    await logs.append(log, 3);
    expect(await logs.store.endAt(log, 12)).toEqual({ segment: 1, entry: 4 });
  });

  test('takes one request for a segment, and none for the items after it', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(5);
    await logs.append(log, 15);
    const requests: string[] = [];
    const ends = new LogEnds(recordRequests(logs.books, requests));
    for (let index = 0; index < 20; index++) await ends.endAt(log, index);
    expect(requests).toEqual(['newestSegments', 'newestSegments']);
    // Segment 2 is recorded before an item of segment 1 arrives.
    await logs.store.register(log, TENS);
    const other = new LogEnds(recordRequests(logs.books, requests));
    for (let index = 10; index < 20; index++) await other.endAt(log, index);
    expect(requests).toHaveLength(3);
  });

  test('for an old item is an entry that exists, at or after the item', async () => {
    const logs = new MappedLogs();
    const log = await logs.create(35);
    const ends = new LogEnds(logs.books);
    expect(await ends.endAt(log, 3)).toEqual({ segment: 2, entry: 0 });
    expect(await ends.endAt(log, 21)).toEqual({ segment: 2, entry: 2 });
    expect(await ends.endAt(log, 31)).toEqual({ segment: 3, entry: 2 });
  });

  test('registers the log, and is unknown only without items', async () => {
    const logs = new MappedLogs();
    const blobs = new MemoryBlobStore(() => NOON * 1000);
    const registrar = new LogRegistrar({ store: logs.store, blobs, table: 'orders', mapping: ORDERS });
    const log = newMappedLog();
    expect(await registrar.endAt(log, 0, TENS)).toBeUndefined();
    await logs.append(log, 7);
    expect(await logs.store.endAt(log, 6)).toBeUndefined();
    expect(await registrar.endAt(log, 6, TENS)).toEqual({ segment: 0, entry: 8 });
  });
});
