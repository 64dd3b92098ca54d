import { deepStrictEqual } from 'node:assert';
import { describe, expect, test } from 'vitest';
import { manualTime } from '../../src/cli/reducer.ts';
import { EntryRejectedError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Item } from '../../src/log/attribute.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { gapRevision } from '../../src/revisions/new-revisions.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import { type ItemRevision, readItemRevision } from '../../src/state/items/edit.ts';
import { itemKey } from '../../src/state/items/item-key.ts';
import { ITEMS_MAP, items, lastRevisions, liveItems, sourceTableOf } from '../../src/state/items/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { type RecordResult, recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import type { RevisionLogs } from '../../src/workers/revisions/revision-logs.ts';
import { NOON, recordRequests, unarchived } from '../support/logs.ts';
import { type Interceptor, interceptLogStore } from '../support/stores/interceptor.ts';
import { PARTS, StreamedTable } from '../support/stores/streamed-table.ts';

const BOLT: Item = { id: { S: 'bolt' }, part: { N: '1' } };
const NUT: Item = { id: { S: 'nut' }, part: { N: '1' } };

function part(color: string, by = 'ann', keys = BOLT): Item {
  return { ...keys, color: { S: color }, by: { S: by } };
}

/** Records changes of a table in one batch, by their indexes; all of them by default. */
function record(
  table: StreamedTable,
  indexes: readonly number[] = [...table.records.keys()],
  logs: RevisionLogs = table.recorder(),
): Promise<RecordResult> {
  return recordRevisions(
    { logs },
    indexes.flatMap((i) => table.records.slice(i, i + 1)),
  );
}

/** The revisions of an item, as another process reads them. */
async function revisionsOf(table: StreamedTable, keys: Item): Promise<ItemRevision[]> {
  const logs = table.logs();
  const document = await logs.open(table.logOf(keys), { reducer: table.reducer });
  const history = await Array.fromAsync(document.history({ map: ITEMS_MAP, key: itemKey(table.source, keys) }));
  await logs.close();
  return history.map(({ value = null }) => readItemRevision(value));
}

/** Each revision in short: number, change, colour, actor, seconds since noon. */
async function story(table: StreamedTable, keys = BOLT): Promise<string[]> {
  return (await revisionsOf(table, keys)).map(({ revision, change, item, actor, created }) => {
    const color = item === undefined ? '(none)' : Object.values(item.color ?? {}).join();
    return [revision, change, color, actor ?? '-', created - NOON].join(' ');
  });
}

function bytes(byte: number): Uint8Array {
  return Uint8Array.of(byte);
}

/** Puts an item in three colours, a second apart. */
function threeColors(table = new StreamedTable()): StreamedTable {
  for (const color of ['red', 'green', 'blue']) {
    table.put(part(color));
    table.time++;
  }
  return table;
}

const THREE_COLORS = ['1 Put red ann 0', '2 Put green ann 1', '3 Put blue ann 2'];

describe('recording changes', () => {
  test('numbers puts, deletions and expiries of an item, and says who changed it', async () => {
    const table = new StreamedTable();
    table.put(part('red'));
    table.time += 5;
    table.put(part('blue', 'bob'));
    table.remove(BOLT);
    table.time += 60;
    table.put(part('green'));
    table.remove(BOLT, 'Expire');
    expect(await record(table)).toEqual({ recorded: 5, gaps: 0, failed: [] });
    expect(await story(table)).toEqual([
      '1 Put red ann 0',
      '2 Put blue bob 5',
      '3 Delete (none) - 5',
      '4 Put green ann 65',
      '5 Expire (none) - 65',
    ]);
  });

  test.each([
    ['item', 2],
    ['partition', 1],
  ] as const)('keeps one log per %s', async (per, logs) => {
    const table = new StreamedTable({ per });
    const other: Item = { ...BOLT, part: { N: '2' } };
    table.put(part('red'));
    table.put(part('blue', 'bob', other));
    await record(table);
    expect((await Array.fromAsync(table.logs().list())).length).toBe(logs);
    expect(await story(table, other)).toEqual(['1 Put blue bob 0']);
    const document = await table.logs().open(table.logOf(other), { reducer: items });
    expect(sourceTableOf(document.state)).toBe('Parts');
    expect((await Array.fromAsync(liveItems(document.state))).length).toBe(3 - logs);
  });

  test('leaves out what is recorded, also from a stream that was enabled again', async () => {
    const table = new StreamedTable();
    table.put(part('red'));
    await record(table);
    expect(await record(table)).toEqual({ recorded: 0, gaps: 0, failed: [] });
    table.label = '2025-01-01T00:00:00.000';
    table.put(part('blue'));
    // A new stream may begin with smaller numbers.
    const changes = table.records.map((each, i) => (i === 1 ? { ...each, sequence: '7' } : each));
    expect((await recordRevisions({ logs: table.recorder() }, changes)).recorded).toBe(1);
    expect((await recordRevisions({ logs: table.recorder() }, changes)).recorded).toBe(0);
    expect(await story(table)).toEqual(['1 Put red ann 0', '2 Put blue ann 0']);
  });

  test('turns lost records into gaps that hold the item before the next record', async () => {
    const table = new StreamedTable();
    table.put(part('red'));
    table.put(part('green', 'bob'));
    table.time += 9;
    table.put(part('blue'));
    table.remove(BOLT);
    table.put(part('white'));
    expect(await record(table, [0, 2, 4])).toEqual({ recorded: 3, gaps: 2, failed: [] });
    expect(await story(table)).toEqual([
      '1 Put red ann 0',
      '2 Gap green bob 9',
      '3 Put blue ann 9',
      '4 Gap (none) - 9',
      '5 Put white ann 9',
    ]);
  });

  test('begins with a gap for an item that is older than the stream', async () => {
    const table = threeColors();
    await record(table, [2]);
    expect(await story(table)).toEqual(['1 Gap green ann 2', '2 Put blue ann 2']);
  });

  test('goes on after a gap that a comparison found, and not back in time', async () => {
    const table = threeColors();
    await record(table, [0]);
    await table.recorder().use(table.logOf(BOLT), async (document) => {
      const last = await lastRevisions(document.state, itemKey(PARTS, BOLT));
      await document.append(gapRevision(PARTS, last, { keys: BOLT, item: part('green'), created: NOON + 300 }));
    });
    // The first record comes again; the second one was only late.
    expect(await record(table)).toEqual({ recorded: 2, gaps: 1, failed: [] });
    expect(await story(table)).toEqual([
      '1 Put red ann 0',
      '2 Gap green ann 300',
      '3 Gap red ann 300',
      '4 Put green ann 300',
      '5 Put blue ann 300',
    ]);
  });

  test.each<[string, number, Item, Item]>([
    ['sets have no order', 0, { set: { SS: ['b', 'a'] } }, { set: { SS: ['a', 'b'] } }],
    ['nor have sets in lists', 0, { l: { L: [{ NS: ['9', '10'] }] } }, { l: { L: [{ NS: ['10', '9'] }] } }],
    ['nor sets of bytes', 0, { set: { BS: [bytes(2), bytes(1)] } }, { set: { BS: [bytes(1), bytes(2)] } }],
    ['nor have names', 0, { a: { NULL: true }, b: { BOOL: false } }, { b: { BOOL: false }, a: { NULL: true } }],
    ['lists have an order', 1, { l: { L: [{ S: 'a' }, { S: 'b' }] } }, { l: { L: [{ S: 'b' }, { S: 'a' }] } }],
    ['types count', 1, { a: { N: '1' } }, { a: { S: '1' } }],
    ['an empty map is a value', 1, { a: { M: {} } }, {}],
  ])('compares attributes: %s', async (_, gaps, stored, oldImage) => {
    const table = new StreamedTable();
    table.put({ ...BOLT, ...stored });
    table.put(part('red'));
    const changes = table.records.map((each, i) => (i === 1 ? { ...each, oldImage: { ...BOLT, ...oldImage } } : each));
    expect(await recordRevisions({ logs: table.recorder() }, changes)).toEqual({ recorded: 2, gaps, failed: [] });
  });
});

describe('two processes', { tags: ['I11'] }, () => {
  test('that record the same changes at the same time record each once', async () => {
    const table = threeColors();
    const results = await Promise.all(Array.from({ length: 4 }, () => record(table)));
    expect(results.flatMap(({ failed }) => failed)).toEqual([]);
    expect(results.reduce((sum, { recorded }) => sum + recorded, 0)).toBe(3);
    expect(await story(table)).toEqual(THREE_COLORS);
  });

  test('take turns, each with the documents of earlier calls', async () => {
    const table = threeColors(threeColors());
    const logs = [table.recorder(), table.recorder()];
    for (const i of table.records.keys()) await record(table, [i], logs[i % 2]);
    expect((await revisionsOf(table, BOLT)).map(({ change }) => change)).toEqual(
      Array.from({ length: 6 }, () => 'Put'),
    );
  });
});

test('the times in the log of a partition never go back, whichever process records', async () => {
  const table = new StreamedTable({ per: 'partition' });
  const [first, second]: Item[] = [BOLT, { ...BOLT, part: { N: '2' } }];
  table.put(part('red', 'ann', first));
  table.put(part('red', 'ann', second));
  table.time += 60;
  table.put(part('blue', 'ann', first));
  const slow = table.recorder();
  await record(table, [0], slow);
  await record(table, [2]);
  expect(await record(table, [1], slow)).toEqual({ recorded: 1, gaps: 0, failed: [] });
  expect(await story(table, second)).toEqual(['1 Put red ann 60']);
});

describe('after a failure', { tags: ['I11'] }, () => {
  const failing = (table: StreamedTable, intercept: Interceptor): LogStore =>
    interceptLogStore(table.deployment.tables, intercept);

  test('the changes after it in the same log wait, and those of other logs are recorded', async () => {
    const table = threeColors();
    table.put(part('white', 'bob', NUT));
    const refused = table.logOf(BOLT);
    const tables: LogStore = {
      ...failing(table, (_, effect) => effect()),
      putEntries: async (entries) => {
        if (entries.some(({ log, position }) => log === refused && position.entry === 2)) throw new Error('refused');
        await table.deployment.tables.putEntries(entries);
      },
    };
    const failures: string[] = [];
    const onFailure = (error: unknown, { sequence }: { sequence: string }) =>
      failures.push(`${sequence} ${String(error)}`);
    const result = await recordRevisions({ logs: table.recorder(tables), onFailure }, table.records);
    const [, second, third] = table.records.map(({ sequence }) => sequence);
    expect(result).toEqual({ recorded: 2, gaps: 0, failed: [second, third] });
    expect(failures).toEqual([`${second} Error: refused`]);
    expect(await story(table, NUT)).toEqual(['1 Put white bob 3']);
    expect((await record(table)).recorded).toBe(2);
    expect(await story(table)).toEqual(THREE_COLORS);
  });

  test('a change whose key is not that of the table fails alone', async () => {
    const table = threeColors();
    const malformed = table.records.slice(0, 1).map((first) => {
      return { ...first, sequence: '1', keys: { other: { S: 'bolt' } } };
    });
    const failures: string[] = [];
    const onFailure = (error: unknown) => failures.push(String(error));
    const result = await recordRevisions({ logs: table.recorder(), onFailure }, [...malformed, ...table.records]);
    expect(result).toEqual({ recorded: 3, gaps: 0, failed: ['1'] });
    expect(failures).toEqual([expect.stringContaining("no String, Number or Binary 'id'")]);
  });

  test.each(['before', 'after'])('%s any request, another call completes what is missing', async (when) => {
    for (let crash = 1; ; crash++) {
      const table = threeColors();
      let requests = 0;
      const tables = failing(table, async (_, effect) => {
        requests++;
        if (requests < crash) return effect();
        if (requests === crash && when === 'after') await effect();
        throw new Error('the process died');
      });
      await record(table, [0, 2], table.recorder(tables));
      if (requests < crash) return;
      expect((await record(table, [0, 2])).failed).toEqual([]);
      expect(await story(table)).toEqual(['1 Put red ann 0', '2 Gap green ann 2', '3 Put blue ann 2']);
    }
  });
});

describe('documents', () => {
  test('a change of an open log takes one request', async () => {
    const table = threeColors();
    const requests: string[] = [];
    const logs = table.recorder(recordRequests(table.deployment.tables, requests));
    await record(table, [0], logs);
    requests.length = 0;
    await record(table, [1, 2], logs);
    expect(requests).toEqual(['putEntries', 'putEntries']);
  });

  test('only those that were used last stay open', async () => {
    const table = new StreamedTable();
    for (const id of 'abcd') table.put(part('red', 'ann', { ...BOLT, id: { S: id } }));
    for (const id of 'abcd') table.put(part('blue', 'ann', { ...BOLT, id: { S: id } }));
    const requests: string[] = [];
    const logs = table.recorder(recordRequests(table.deployment.tables, requests), 2);
    await record(table, [0, 1, 2, 3], logs);
    requests.length = 0;
    await record(table, [6, 7], logs);
    expect(requests).toEqual(['putEntries', 'putEntries']);
    await record(table, [4, 5], logs);
    expect(requests.filter((name) => name === 'newestSegments').length).toBeGreaterThan(0);
    await logs.close();
  });
});

describe('states of the past', () => {
  test.each([items, withHistory(items)])(
    '$name shows the items of that time, also after late records',
    async (reducer) => {
      const table = threeColors(new StreamedTable({}, reducer));
      // The pipeline is an hour ahead of the records, and takes a snapshot between them.
      table.deployment.nowMs += 3_600_000;
      await record(table, [0, 1]);
      await table.divide(table.logOf(BOLT), 2, 2);
      await record(table, [2]);
      const document = await table.logs().open(table.logOf(BOLT), { reducer });
      const colors: unknown[] = [];
      for (let second = -1; second < 4; second++) {
        const past = await document.at(new Date((NOON + second) * 1000));
        colors.push((await Array.fromAsync(liveItems(past))).map(({ item }) => item.color));
      }
      expect(colors).toEqual([[], [{ S: 'red' }], [{ S: 'green' }], [{ S: 'blue' }], [{ S: 'blue' }]]);
      expect((await Array.fromAsync(document.diff(new Date(NOON * 1000)))).map((each) => each.kind)).toEqual([
        'meta',
        'item',
      ]);
    },
  );
});

test.each([items, spreadsheet])(
  'a snapshot by hand does not hide late records; the command has the reducer $name',
  async (reducer) => {
    const table = threeColors();
    const log = table.logOf(BOLT);
    table.deployment.nowMs += 3_600_000;
    await record(table, [0, 1]);
    // The pipeline completes the first snapshot, whose root names the reducer.
    await table.divide(log, 100);
    const { deps } = table.deployment;
    const { client } = table.logs();
    const stores = { ...deps, store: unarchived(table.deployment.tables), types: RESERVED_TYPES, reducer };
    await client.addSnapshot(log, await manualTime(stores, log));
    table.put(part('white'));
    await record(table, [2, 3]);
    const past = await (await table.logs().open(log, { reducer: items })).at(new Date((NOON + 2) * 1000));
    expect((await Array.fromAsync(liveItems(past))).map(({ item }) => item.color)).toEqual([{ S: 'blue' }]);
    expect(await manualTime(stores, parseLogId('01890a5d-ac96-774b-bcce-b302099a8057'))).toEqual({});
  },
);

test('the largest item, and one as deep as DynamoDB stores, come back as they were', async () => {
  const table = new StreamedTable();
  let deep: Item[string] = { S: 'deep' };
  for (let level = 0; level < 31; level++) deep = level % 2 === 0 ? { M: { '': deep } } : { L: [deep] };
  const large = {
    ...part('red'),
    bytes: { B: new Uint8Array(390_000).fill(7) },
    ['__proto__']: { NULL: true as const },
  };
  table.put(large);
  table.put({ ...part('blue'), deep });
  expect(await record(table)).toEqual({ recorded: 2, gaps: 0, failed: [] });
  const [first, second] = await revisionsOf(table, BOLT);
  deepStrictEqual(first?.item, large);
  expect(second?.item).toEqual({ ...part('blue'), deep });
});

test('a log refuses a revision of another table, one that is not the next, and one that is older', async () => {
  const table = threeColors();
  await record(table);
  const document = await table.logs().open(table.logOf(BOLT), { reducer: items });
  const body = { table: 'Parts', key: itemKey(PARTS, BOLT), revision: 4 };
  const append = (changes: object, created = table.time) => {
    return document.append({ type: 'Delete', version: 1, body: { ...body, ...changes }, created });
  };
  for (const revision of [3, 5]) await expect(append({ revision })).rejects.toThrow(EntryRejectedError);
  await expect(append({ table: 'Others' })).rejects.toThrow(/of table 'Others'/);
  await expect(append({}, NOON)).rejects.toThrow(/its time \d+ is before/);
  await append({});
  expect((await story(table)).at(-1)).toBe('4 Delete (none) - 3');
});
