import { describe, expect, test } from 'vitest';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { ObjectInvalidError, StoreUnavailableError, UsageError } from '../../src/errors.ts';
import { appendsEntry } from '../../src/feed/feed-entry.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { plainItem, type StoredAttribute } from '../../src/log/attribute.ts';
import type { SourceItems } from '../../src/revisions/source-table.ts';
import { COMPARE_KEY } from '../../src/store/keys.ts';
import type { ItemScanPart } from '../../src/store/scan-places.ts';
import { ownedItem, RevisedTable } from '../support/stores/revised-table.ts';

const SETTLE = 300;

/** The changes of an item, with its values. */
async function changesOf(table: RevisedTable, owner: string, number: number): Promise<string[]> {
  const revisions = await table.revisionsOf(ownedItem(owner, number));
  return revisions.map(({ revision, change, item }) => {
    const value: StoredAttribute | undefined = item?.value;
    return `${revision} ${change} ${value?.S ?? ''}`.trim();
  });
}

/** The reads of a source table, to replace some of them. */
function readsOf({ items }: RevisedTable): SourceItems {
  return {
    scan: (part) => items.scan(part),
    get: (keys) => items.get(keys),
    serviceTime: () => items.serviceTime(),
  };
}

describe.each(['item', 'partition'] as const)('compareTable with a log per %s', (per) => {
  test('leaves a table alone whose revisions are complete', async () => {
    const table = new RevisedTable({ per });
    for (let i = 0; i < 12; i++) table.put(ownedItem(`owner ${i % 3}`, i));
    table.remove(ownedItem('owner 0', 0));
    await table.deliver();
    const done = { waiting: 0, continued: false, complete: true, incompleteSeconds: 0 };
    expect(await table.compare()).toEqual({ items: 22, gaps: 0, failed: 0, ...done });
    expect(await changesOf(table, 'owner 0', 0)).toEqual(['1 Put first', '2 Delete']);
  });

  test('records each lost change as a gap: a put, an update, a removal, and a put after a removal', async () => {
    const table = new RevisedTable({ per });
    for (const number of [2, 3, 4]) table.put(ownedItem('ann', number));
    table.remove(ownedItem('ann', 4));
    await table.deliver();
    table.put(ownedItem('ann', 1));
    table.put(ownedItem('ann', 2, 'second'));
    table.remove(ownedItem('ann', 3));
    table.put(ownedItem('ann', 4, 'again'));
    table.lose();
    expect(await table.compare()).toMatchObject({ gaps: 4, failed: 0, complete: true });
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Gap first']);
    expect(await changesOf(table, 'ann', 2)).toEqual(['1 Put first', '2 Gap second']);
    expect(await changesOf(table, 'ann', 3)).toEqual(['1 Put first', '2 Gap']);
    expect(await changesOf(table, 'ann', 4)).toEqual(['1 Put first', '2 Delete', '3 Gap again']);
    expect(await table.export()).toEqual(await table.lines());
    expect(await table.compare()).toMatchObject({ gaps: 0, complete: true });
  });

  test('the next change follows a gap without another one', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    table.lose();
    await table.compare();
    table.put(ownedItem('ann', 1, 'second'));
    await table.deliver();
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Gap first', '2 Put second']);
  });

  test('a comparison knows the revisions that another process has recorded', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    await table.deliver();
    table.remove(ownedItem('ann', 1));
    await table.deliver(table.recorder());
    table.put(ownedItem('ann', 1, 'third'));
    table.lose();
    expect(await table.compare()).toMatchObject({ gaps: 1 });
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Put first', '2 Delete', '3 Gap third']);
  });

  test('a change that arrives during the wait is not a gap', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    const waits: number[] = [];
    const sleep = async (ms: number) => {
      waits.push(ms);
      table.nowMs += ms;
      await table.deliver();
    };
    expect(await table.compare({}, { sleep })).toMatchObject({ gaps: 0, complete: true });
    expect(waits).toEqual([SETTLE * 1000]);
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Put first']);
  });

  test('an item that changes during the wait is left to the record of the change, which shows the gap', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1, 'lost'));
    table.lose();
    const sleep = async (ms: number) => {
      table.nowMs += ms;
      table.put(ownedItem('ann', 1, 'second'));
    };
    expect(await table.compare({}, { sleep })).toMatchObject({ gaps: 0 });
    await table.deliver();
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Gap lost', '2 Put second']);
  });

  test('an item that changes after the scan and then changes back is not a gap', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    await table.deliver();
    const items = {
      ...readsOf(table),
      async *scan(part: ItemScanPart) {
        for await (const page of table.items.scan(part)) {
          table.put(ownedItem('ann', 1, 'second'));
          await table.deliver();
          yield page;
        }
      },
    };
    const sleep = async (ms: number) => {
      table.nowMs += ms;
      table.put(ownedItem('ann', 1));
    };
    expect(await table.compare({}, { items, sleep })).toMatchObject({ gaps: 0, complete: true });
    await table.deliver();
    expect(await changesOf(table, 'ann', 1)).toEqual(['1 Put first', '2 Put second']);
  });

  test('a run whose time is up continues where it stopped', async () => {
    const table = new RevisedTable({ per });
    for (let i = 0; i < 60; i++) table.put(ownedItem(`owner ${i}`, i));
    table.lose();
    const gaps: number[] = [];
    for (let complete = false; !complete; ) {
      const result = await table.compare({ deadline: table.nowMs + SETTLE * 1000 });
      gaps.push(result.gaps);
      complete = result.complete;
      expect(result.continued).toBe(gaps.length > 1);
      expect(gaps.length).toBeLessThan(100);
    }
    expect(gaps.length).toBeGreaterThan(3);
    expect(gaps.reduce((sum, each) => sum + each)).toBe(60);
    expect(await table.export()).toEqual(await table.lines());
    expect(await table.compare({})).toMatchObject({ continued: false });
  });

  test('a run that ends before its second look leaves the differences to the next run', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    table.lose();
    const stop = new AbortController();
    const sleep = async () => stop.abort();
    expect(await table.compare({ stop: stop.signal }, { sleep })).toMatchObject({ gaps: 0, complete: false });
    expect(await table.compare()).toMatchObject({ gaps: 1, complete: true });
  });

  test('the note of another table does not count', async () => {
    const table = new RevisedTable({ per });
    for (let i = 0; i < 60; i++) table.put(ownedItem(`owner ${i}`, i));
    await table.deliver();
    expect(await table.compare({ deadline: table.nowMs })).toMatchObject({ complete: false });
    const other = new RevisedTable({ per, table: 'invoices' });
    expect(await other.compare({}, { blobs: table.blobs })).toMatchObject({ continued: false });
  });
});

const [HOUR_MS, DAY_MS] = [3_600_000, 24 * 3_600_000];

describe.each(['item', 'partition'] as const)('a scheduled comparison with a log per %s', (per) => {
  test('it leaves a change on its way alone, however long the stream lags', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    await table.deliver();
    table.nowMs += 1000;
    table.put(ownedItem('ann', 1, 'second'));
    table.put(ownedItem('ann', 2));
    const made = table.nowMs / 1000;
    for (let hours = 0; hours < 24; hours += 5) {
      expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 2, complete: true });
      table.nowMs += 5 * HOUR_MS;
    }
    await table.deliver();
    expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 0 });
    const revisions = await table.revisionsOf(ownedItem('ann', 1));
    expect(revisions.map(({ change, created }) => [change, created])).toEqual([
      ['Put', made - 1],
      ['Put', made],
    ]);
  });

  test('it records all gaps of a partition, although it saw them at different times', async () => {
    const table = new RevisedTable({ per });
    const numbers = Array.from({ length: 20 }, (_, i) => i);
    for (const number of numbers) {
      table.put(ownedItem('ann', number));
      await table.compareLater();
      table.nowMs += 60_000;
    }
    table.lose();
    table.nowMs += 26 * HOUR_MS;
    expect(await table.compareLater()).toMatchObject({ gaps: 20, waiting: 0, complete: true });
    expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 0 });
  });

  test('it records a lost change 25 hours after it saw the difference, with the time of that look', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    await table.deliver();
    table.put(ownedItem('ann', 1, 'second'));
    table.remove(ownedItem('ann', 1));
    table.put(ownedItem('ann', 2));
    table.lose();
    table.nowMs += HOUR_MS;
    const seen = table.nowMs / 1000;
    expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 2 });
    table.nowMs += 25 * HOUR_MS - 1000;
    expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 2 });
    table.nowMs += 1000;
    expect(await table.compareLater()).toMatchObject({ gaps: 2, waiting: 0, complete: true });
    for (const number of [1, 2]) {
      const revisions = await table.revisionsOf(ownedItem('ann', number));
      expect(revisions.at(-1)).toMatchObject({ change: 'Gap', created: seen });
    }
    expect(await table.export()).toEqual(await table.lines());
  });

  test('a difference that a comparison did not see again starts from zero', async () => {
    const table = new RevisedTable({ per });
    table.put(ownedItem('ann', 1));
    await table.deliver();
    table.put(ownedItem('ann', 1, 'second'));
    table.lose();
    expect(await table.compareLater()).toMatchObject({ waiting: 1 });
    table.put(ownedItem('ann', 1));
    table.lose();
    expect(await table.compareLater()).toMatchObject({ waiting: 0 });
    table.put(ownedItem('ann', 1, 'second'));
    table.nowMs += 26 * HOUR_MS;
    expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 1 });
  });

  test.each([30, -30])(
    'a clock that is wrong by %i days neither dates a gap nor decides when it is recorded',
    async (days) => {
      const table = new RevisedTable({ per });
      table.put(ownedItem('ann', 1));
      table.lose();
      const seen = table.nowMs / 1000;
      const wrong = { clockErrorMs: days * DAY_MS };
      expect(await table.compareLater(wrong)).toMatchObject({ gaps: 0, waiting: 1 });
      table.nowMs += HOUR_MS;
      expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 1 });
      expect(await table.compareLater(wrong)).toMatchObject({ gaps: 0, waiting: 1 });
      table.nowMs += DAY_MS;
      expect(await table.compareLater(wrong)).toMatchObject({ gaps: 1 });
      expect(await table.revisionsOf(ownedItem('ann', 1))).toMatchObject([{ change: 'Gap', created: seen }]);
      expect(await table.export({ at: new Date(table.nowMs) })).toEqual(await table.lines());
    },
  );
});

test('a comparison in several runs notes what each of them saw, and since when it goes on', async () => {
  const table = new RevisedTable();
  for (let i = 0; i < 60; i++) table.put(ownedItem(`owner ${i}`, i));
  table.lose();
  const run = () => table.compare({ settleSeconds: undefined, deadline: table.nowMs + 60_000 });
  const rounds: number[] = [];
  for (let round = 0; round < 2; round++) {
    let gaps = 0;
    for (let complete = false, runs = 0; !complete; runs++) {
      const result = await run();
      ({ complete } = result);
      gaps += result.gaps;
      expect(result.incompleteSeconds).toBe(complete ? 0 : runs * 60);
      expect(runs).toBeLessThan(100);
      if (!complete) table.nowMs += 60_000;
    }
    rounds.push(gaps);
    table.nowMs += 25 * HOUR_MS;
  }
  expect(rounds).toEqual([0, 60]);
  expect(await table.export()).toEqual(await table.lines());
});

test('a first look in the future, from a wrong clock, does not delay a gap', async () => {
  const table = new RevisedTable();
  table.put(ownedItem('ann', 1));
  table.lose();
  table.nowMs += 30 * DAY_MS;
  await table.compareLater();
  table.nowMs -= 30 * DAY_MS;
  expect(await table.compareLater()).toMatchObject({ gaps: 0, waiting: 1 });
  table.nowMs += 25 * HOUR_MS;
  expect(await table.compareLater()).toMatchObject({ gaps: 1 });
});

test('a log that cannot be read does not end a comparison', async () => {
  const table = new RevisedTable();
  for (const number of [1, 2, 3]) table.put(ownedItem('ann', number));
  await table.deliver();
  for (const number of [1, 2, 3]) table.put(ownedItem('ann', number, 'second'));
  table.lose();
  const bad = table.logOf(ownedItem('ann', 2));
  await table.logs.client.addEntry(bad, { type: 'Other', version: 1 });
  expect(await table.compare()).toMatchObject({ gaps: 2, failed: 1, complete: true });
  expect(table.failures.map(({ log }) => log)).toEqual([bad]);
});

test('a store that does not answer ends a comparison, which continues later', async () => {
  const table = new RevisedTable();
  for (let i = 0; i < 30; i++) table.put(ownedItem(`owner ${i}`, i));
  table.lose();
  let left = 3;
  const items = {
    ...readsOf(table),
    get: async (keys: Parameters<typeof table.items.get>[0]) => {
      if (--left < 0) throw new StoreUnavailableError('no answer');
      return table.items.get(keys);
    },
  };
  await expect(table.compare({}, { items })).rejects.toThrow(StoreUnavailableError);
  expect(await table.compare()).toMatchObject({ complete: true });
  expect(await table.export()).toEqual(await table.lines());
});

test('a note that cannot be read is an error, and nothing is compared', async () => {
  const table = new RevisedTable();
  table.put(ownedItem('ann', 1));
  table.lose();
  await table.blobs.put(COMPARE_KEY, new TextEncoder().encode('{"format":2}'));
  await expect(table.compare()).rejects.toThrow(ObjectInvalidError);
  await expect(table.export()).rejects.toThrow(UsageError);
});

describe('exportTable', () => {
  test.each(['item', 'partition'] as const)('gives every item as it was at a time, with a log per %s', async (per) => {
    const table = new RevisedTable({ per });
    const models = new Map<number, string[]>();
    const logs = new Set<LogId>();
    for (let i = 0; i < 40; i++) {
      const item = ownedItem(`owner ${i % 3}`, i % 7, `value ${i}`);
      if (i % 5 === 4) table.remove(item);
      else table.put(item);
      models.set(Math.floor(table.nowMs / 1000), await table.lines());
      if (i % 4 === 0) table.nowMs += 7_000;
      if (i % 3 !== 0) continue;
      // The records waited in the stream, so entries before them are younger than they are.
      for (const log of logs) await table.snapshot(log, { startsSegment: i % 2 === 0 });
      for (const { keys } of table.stream) logs.add(table.logOf(keys));
      await table.deliver();
    }
    await table.deliver();
    for (const [seconds, lines] of models) {
      expect(await table.export({ at: new Date(seconds * 1000) }), String(seconds)).toEqual(lines);
    }
    expect(await table.export()).toEqual(await table.lines());
    expect(await table.export({ at: new Date(0) })).toEqual([]);
  });
});

test('an export of a deployment with several tables needs the name of one', async () => {
  const orders = new RevisedTable();
  const invoices = new RevisedTable({ table: 'invoices' }, orders);
  for (let i = 0; i < 40; i++) {
    orders.put(ownedItem(`owner ${i}`, i));
    invoices.put(ownedItem(`owner ${i}`, i, 'invoice'));
  }
  await orders.deliver();
  await invoices.deliver();
  await expect(orders.export()).rejects.toThrow(UsageError);
  await expect(orders.export({ at: new Date(0) })).rejects.toThrow(UsageError);
  await expect(orders.export({ table: 'order' })).rejects.toThrow(UsageError);
  expect(await orders.export({ table: 'orders' })).toEqual(await orders.lines());
  expect(await orders.export({ table: 'invoices' })).toEqual(await invoices.lines());
  // Nor does the comparison of one table touch the revisions of the other.
  expect(await orders.compare()).toMatchObject({ items: 80, gaps: 0 });
});

test('a lost change of an attribute with the name of a prototype is a gap', async () => {
  const table = new RevisedTable();
  table.put({ ...ownedItem('ann', 1), ['__proto__']: { S: 'first' } });
  await table.deliver();
  expect(await table.compare()).toMatchObject({ gaps: 0 });
  table.put({ ...ownedItem('ann', 1), ['__proto__']: { S: 'second' } });
  table.lose();
  expect(await table.compare()).toMatchObject({ gaps: 1 });
});

test('after a change of the kind of logs, an export needs the kind, and gives no item twice', async () => {
  const items = new RevisedTable();
  for (let i = 0; i < 20; i++) items.put(ownedItem(`owner ${i % 3}`, i));
  items.remove(ownedItem('owner 0', 0));
  await items.deliver();
  const before = await items.lines();
  const partitions = new RevisedTable({ per: 'partition' }, items);
  for (let i = 10; i < 30; i++) partitions.put(ownedItem(`owner ${i % 3}`, i, 'second'));
  await partitions.deliver();
  await expect(items.export()).rejects.toThrow(UsageError);
  expect(await items.export({ per: 'item' })).toEqual(before);
  expect(await items.export({ per: 'partition' })).toEqual(await partitions.lines());
});

test('the items of a large partition are read and compared 100 at a time', async () => {
  const table = new RevisedTable({ per: 'partition' });
  for (let i = 0; i < 250; i++) table.put(ownedItem('ann', i));
  await table.deliver();
  for (let i = 0; i < 250; i++) table.remove(ownedItem('ann', i));
  table.lose();
  const steps: string[] = [];
  const items = {
    ...readsOf(table),
    get: async (keys: Parameters<typeof table.items.get>[0]) => {
      steps.push(`get ${keys.length}`);
      return table.items.get(keys);
    },
  };
  const onProgress = (compared: number) => void steps.push(`compared ${compared}`);
  expect(await table.compare({}, { items, onProgress })).toMatchObject({ items: 250, gaps: 250, complete: true });
  expect(steps).toEqual([
    ...['get 100', 'compared 100', 'get 100', 'compared 200', 'get 50', 'compared 250'],
    ...['get 100', 'get 100', 'get 50'],
  ]);
});

test('a feed beside the revisions has no items of a plain table', async () => {
  const table = new RevisedTable();
  table.put(ownedItem('ann', 1));
  await table.deliver();
  const fed = { log: table.logOf(ownedItem('ann', 1)), after: undefined, to: { segment: 0, entry: 1 } };
  await table.logs.client.createLog(FEED_LOG);
  await table.logs.client.addEntry(FEED_LOG, appendsEntry([fed]));
  expect(await table.compare()).toMatchObject({ items: 2, gaps: 0, failed: 0, complete: true });
  expect(await table.export()).toEqual(await table.lines());
});

test('lines of an export are those of an import of DynamoDB', async () => {
  const table = new RevisedTable({ keyNames: ['pk'] });
  const item = { pk: { B: new Uint8Array([1, 2]) }, tags: { SS: ['b', 'a'] }, price: { N: '1.50' } };
  table.put(item);
  await table.deliver();
  expect(await table.export()).toEqual(['{"Item":{"pk":{"B":"AQI="},"price":{"N":"1.50"},"tags":{"SS":["a","b"]}}}']);
  expect(encodeItemLine(plainItem(item))).toBe((await table.export())[0]);
});
