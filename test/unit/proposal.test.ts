import { describe, expect, test } from 'vitest';
import type { Item } from '../../src/log/attribute.ts';
import { type Proposal, partitionsToRead, propose } from '../../src/proposal/proposal.ts';
import type { TableKeys, TableSample } from '../../src/proposal/table-sample.ts';
import { ORDERS_DOCUMENT } from '../support/orders.ts';

const PK_SK: TableKeys = { partition: { name: 'pk', type: 'S' }, sort: { name: 'sk', type: 'N' } };
const TEXT_SK: TableKeys = { ...PK_SK, sort: { name: 'sk', type: 'S' } };

function order(id: string, number: number, overrides: Item = {}): Item {
  return {
    pk: { S: `order#${id}` },
    sk: { N: String(number) },
    type: { S: number === 0 ? 'OrderPlaced' : 'OrderPaid' },
    ts: { S: `2026-01-01T00:00:${String(number).padStart(2, '0')}.000Z` },
    payload: { M: { amount: { N: '7' } } },
    ...overrides,
  };
}

function log(id: string, items: number, first = 0): Item[] {
  return Array.from({ length: items }, (_, i) => order(id, i + first));
}

/** A sample whose partitions were all read as a whole. */
function sampleOf(items: readonly Item[], overrides: Partial<TableSample> = {}): TableSample {
  const partitions = [...Map.groupBy(items, ({ pk }) => JSON.stringify(pk)).values()];
  // The scan and the queries return different objects.
  return { keys: PK_SK, ttl: undefined, scanned: structuredClone(items), partitions, ...overrides };
}

/** The reasons for items that do not fit, with the keys of the items. */
function misfits({ misfits: found }: Proposal): Record<string, readonly string[]> {
  return Object.fromEntries(found.map(({ reason, items }) => [reason, items]));
}

describe('the proposed mapping', () => {
  test('has the prefix of the partition key, and the attributes by their usual names', () => {
    const proposal = propose(sampleOf([...log('1', 5), ...log('2', 3)]));
    expect(proposal).toMatchObject({
      mapping: ORDERS_DOCUMENT,
      readyMade: 'pk-sk:order',
      misfits: [],
      beside: [],
      recognized: undefined,
    });
  });

  test('is for the events of a table with several kinds of items, and leaves the others alone', () => {
    const customers = Array.from({ length: 9 }, (_, i) => ({ pk: { S: `customer#${i}` }, sk: { S: 'META' } }));
    const events = ['1', '2'].flatMap((id) =>
      [1, 2, 3].map((n) => ({ ...order(id, n), sk: { S: `event#${String(n).padStart(6, '0')}` } })),
    );
    const meta = { pk: { S: 'order#1' }, sk: { S: 'META' } };
    const { mapping, kinds, misfits: found } = propose(sampleOf([...customers, ...events, meta], { keys: TEXT_SK }));
    expect(mapping).toEqual({
      ...ORDERS_DOCUMENT,
      sortKey: { name: 'sk', type: 'S', first: 1, pattern: 'event#{n:6}' },
    });
    expect(kinds.map(({ partitionKey, sortKey, items, isLog }) => [partitionKey, sortKey, items, isLog])).toEqual([
      ['customer#{id}', 'META…', 9, false],
      ['order#{id}', 'event#{n}', 6, true],
      ['order#{id}', 'META…', 1, false],
    ]);
    expect(found).toEqual([]);
  });

  test("is of Castore's items, whose numbers start at 1 and whose first item has more attributes", () => {
    const keys: TableKeys = {
      partition: { name: 'aggregateId', type: 'S' },
      sort: { name: 'version', type: 'N' },
    };
    const items = ['pikachu', 'snorlax'].flatMap((id) =>
      [1, 2, 3].map((version) => ({
        aggregateId: { S: `POKEMONS#${id}` },
        version: { N: String(version) },
        type: { S: version === 1 ? 'POKEMON_APPEARED' : 'POKEMON_CAUGHT' },
        timestamp: { S: '2026-01-01T00:00:00.000Z' },
        payload: { M: { level: { N: '4' } } },
        metadata: { M: {} },
        ...(version === 1 && { isInitialEvent: { N: '1' }, eventStoreId: { S: 'POKEMONS' } }),
      })),
    );
    const partitions = [items.slice(0, 3), items.slice(3)];
    expect(propose({ keys, ttl: undefined, scanned: items, partitions })).toMatchObject({
      recognized: 'Castore',
      readyMade: 'castore+metadata:POKEMONS',
      mapping: {
        partitionKey: { name: 'aggregateId', type: 'S', pattern: 'POKEMONS#{id}' },
        sortKey: { name: 'version', type: 'N', first: 1 },
        type: 'type',
        version: { constant: 1 },
        time: { name: 'timestamp', format: 'iso' },
        body: 'payload',
      },
      beside: ['eventStoreId', 'isInitialEvent'],
      misfits: [],
    });
  });

  test("names a mapping without metadata if Castore's items have none", () => {
    const keys: TableKeys = { partition: { name: 'aggregateId', type: 'S' }, sort: { name: 'version', type: 'N' } };
    const items = [1, 2, 3].map((version) => ({
      aggregateId: { S: 'POKEMONS#pikachu' },
      version: { N: String(version) },
      type: { S: 'POKEMON_APPEARED' },
      timestamp: { S: '2026-01-01T00:00:00.000Z' },
      payload: { M: { level: { N: String(version) } } },
    }));
    expect(propose({ keys, ttl: undefined, scanned: items, partitions: [items] }).readyMade).toBe('castore:POKEMONS');
  });

  test.each([
    ['JSON text', { payload: { S: '{"amount":7}' } }, { body: { name: 'payload', format: 'json' } }],
    ['a body of another name', { order: { M: {} } }, { body: 'order' }],
    ['no body', { amount: { N: '7' }, city: { S: 'Denver' } }, { body: { item: true } }],
    ['a type under another name', { eventType: { S: 'Paid' } }, { type: 'eventType' }],
    ['no type', {}, { type: { constant: 'order' } }],
    ['a version', { schemaVersion: { N: '2' } }, { version: 'schemaVersion' }],
    ['a time in seconds', { at: { N: '1767225600' } }, { time: { name: 'at', format: 's' } }],
    ['a time in milliseconds', { at: { N: '1767225600000' } }, { time: { name: 'at', format: 'ms' } }],
  ] as const)('is right for items with %s', (_, attributes, expected) => {
    const items = [0, 1, 2].map((n) => ({ pk: { S: `order#${n % 1}` }, sk: { N: String(n) }, ...attributes }));
    expect(propose(sampleOf(items)).mapping).toMatchObject(expected);
  });

  test('names the TTL attribute of the table if no item has it', () => {
    expect(propose(sampleOf(log('1', 3), { ttl: 'expiresAt' })).mapping).toMatchObject({ ttl: 'expiresAt' });
  });

  test('leaves out a TTL attribute that the application sets, names these items, and does not take it for a time', () => {
    const [first, ...others] = log('1', 3).map(({ ts: _, ...item }) => item);
    const proposal = propose(sampleOf([{ ...first, expiresAt: { N: '1767225600' } }, ...others], { ttl: 'expiresAt' }));
    expect(proposal.mapping).not.toHaveProperty('ttl');
    expect(proposal.mapping).not.toHaveProperty('time');
    expect(proposal.misfits).toMatchObject([
      { reason: expect.stringContaining("TTL attribute 'expiresAt'"), items: ['order#1, 0'], othersGoOn: true },
    ]);
  });

  test.each(['$init', 'Order$Placed', 'com.example.Order$Placed', 'Orders+Placed', '_Placed'])(
    'takes %s for a type',
    (type) => {
      const items = [0, 1, 2].map((n) => ({ ...order('1', n), type: { S: type } }));
      expect(propose(sampleOf(items)).mapping).toMatchObject({ type: 'type' });
    },
  );

  test.each(['-event', '.json'])('has the text %s after each number', (suffix) => {
    const keys = ['000000', '000001', '000002'];
    const items = keys.map((number) => ({ ...order('1', 0), sk: { S: `event#${number}${suffix}` } }));
    const { mapping, misfits: found } = propose(sampleOf(items, { keys: TEXT_SK }));
    expect(mapping?.sortKey).toEqual({ name: 'sk', type: 'S', first: 0, pattern: `event#{n:6}${suffix}` });
    expect(found).toEqual([]);
  });

  test('says that logs of several categories get one type', () => {
    const ids = ['order-1', 'order-2', 'invoice-1', 'invoice-2'];
    const items = ids.flatMap((id) => log('1', 2).map(({ type: _, ...item }) => ({ ...item, pk: { S: id } })));
    const proposal = propose(sampleOf(items));
    expect(proposal.mapping).toMatchObject({ partitionKey: { pattern: '{id}' }, type: { constant: 'Event' } });
    expect(proposal.misfits).toMatchObject([
      {
        reason: expect.stringContaining("all categories (invoice, order) get the type 'Event'"),
        items: ['order-1, 0', 'invoice-1, 0'],
      },
    ]);
  });

  test('is for one category, and names the logs of the others', () => {
    const items = [...log('1', 5), ...log('2', 2).map((item) => ({ ...item, pk: { S: 'invoice#2' } }))];
    expect(misfits(propose(sampleOf(items)))).toEqual({
      'the partition key is invoice#{id}, while the mapping is for order#{id}: the mapping leaves these items alone': [
        'invoice#2, 0',
        'invoice#2, 1',
      ],
    });
  });

  test('has no prefix if the ids of logs are the partition keys', () => {
    const ids = ['5f0c1a52-6a3c-4a39-9f3c-0e6a4b1f9a01', 'b1946ac9-2490-4a5b-8f3c-0e6a4b1f9a01', 'alice', 'bob-2'];
    const items = ids.flatMap((id) => log('1', 2).map((item) => ({ ...item, pk: { S: id } })));
    expect(propose(sampleOf(items)).mapping?.partitionKey.pattern).toBe('{id}');
  });

  test('has the id at the front if each partition key has a different prefix', () => {
    const names = ['alice', 'bob', 'carol', 'dan', 'erin', 'frank', 'grace', 'heidi', 'ivan'];
    const items = names.flatMap((name) => log('1', 2).map((item) => ({ ...item, pk: { S: `${name}#orders` } })));
    expect(propose(sampleOf(items)).mapping?.partitionKey.pattern).toBe('{id}');
  });

  test('has the longest prefix that all logs share', () => {
    const items = ['1', '2'].flatMap((id) => log(id, 2).map((i) => ({ ...i, pk: { S: `tenant#t1#order#${id}` } })));
    expect(propose(sampleOf(items)).mapping?.partitionKey.pattern).toBe('tenant#t1#order#{id}');
  });
});

describe('items that do not fit', () => {
  const item = order('1', 0);
  const { type: _, ...withoutType } = order('2', 1);
  const cases: readonly (readonly [string, readonly Item[], Record<string, readonly string[]>])[] = [
    ['a gap', [order('2', 0), order('2', 2)], { 'there is a gap before the item': ['order#2, 2'] }],
    [
      'a log that starts later',
      [order('2', 5), order('2', 6)],
      { 'the log starts at neither 0 nor 1: its first items are missing': ['order#2, 5'] },
    ],
    [
      'a log that starts at the other number',
      [order('2', 1), order('2', 2)],
      { 'the log starts at 1, most logs at 0: its first items are missing': ['order#2, 1'] },
    ],
    ['an item without a type', [order('2', 0), withoutType], { "attribute 'type' is missing": ['order#2, 1'] }],
    [
      'a number that is not whole',
      [order('2', 0), order('2', 0.5)],
      { "attribute 'sk' is '0.5', not a whole number of at least 0": ['order#2, 0.5'] },
    ],
    [
      'an id that is too long',
      [order('x'.repeat(2001), 0)],
      { "attribute 'pk' has no log id of 1 to 2000 bytes": [`order#${'x'.repeat(74)}…, 0`] },
    ],
    [
      'a partition key without an id',
      [order('', 0)],
      { "attribute 'pk' has no log id of 1 to 2000 bytes, but an empty one": ['order#, 0'] },
    ],
  ];

  test.each(cases)('are named: %s', (_, items, expected) => {
    const proposal = propose(sampleOf([item, order('1', 1), ...log('3', 3), ...items]));
    expect(proposal.mapping).toMatchObject({ sortKey: { first: 0 } });
    expect(misfits(proposal)).toEqual(expected);
  });

  test('are named if the numbers of sort keys have other numbers of digits', () => {
    const keys = ['000001', '000002', '000003', '4'];
    const items = keys.map((number) => ({ ...order('1', 0), sk: { S: `event#${number}` } }));
    expect(misfits(propose(sampleOf(items, { keys: TEXT_SK })))).toEqual({
      "attribute 'sk' is 'event#4', whose number does not have exactly 6 digits": ['order#1, event#4'],
    });
  });

  test('are named if the numbers are not padded at all', () => {
    for (const first of [0, 1, 8]) {
      const numbers = Array.from({ length: 11 - first }, (_, i) => first + i);
      const items = numbers.map((number) => ({ ...order('1', 0), sk: { S: `event#${number}` } }));
      const { mapping, misfits: found } = propose(sampleOf(items, { keys: TEXT_SK }));
      expect(found).toMatchObject([{ items: ['order#1, event#10'], othersGoOn: false }]);
      expect(mapping).toBeUndefined();
    }
  });

  test('are named if items of the same partition count with another prefix', () => {
    const under = (prefix: string) => (n: number) => ({ ...order('1', 0), sk: { S: `${prefix}${n}` } });
    const items = [...[1, 2, 3].map(under('event#')), ...[1].map(under('revision#'))];
    const [reason = ''] = Object.keys(misfits(propose(sampleOf(items, { keys: TEXT_SK }))));
    expect(reason).toContain('the sort key is revision#{n}, while the mapping is for event#{n}');
  });
});

describe('no mapping is proposed', () => {
  const cases: readonly (readonly [string, TableKeys, (n: number) => Item, string])[] = [
    [
      'ULIDs',
      TEXT_SK,
      (n) => ({ pk: { S: 'order#1' }, sk: { S: `01JGFJJZ0${n}ABCDEFGHJKMNPQRS` } }),
      'the sort key is a ULID and not a number that counts',
    ],
    [
      'times as text',
      TEXT_SK,
      (n) => ({ pk: { S: 'order#1' }, sk: { S: `event#2026-01-0${n}T00:00:00.000Z` } }),
      'the sort key is a time and not a number that counts',
    ],
    [
      'times as numbers',
      PK_SK,
      (n) => ({ pk: { S: 'order#1' }, sk: { N: String(1_767_225_600_000 + 7 * n) } }),
      'the sort key is a time and not a number that counts',
    ],
    [
      'texts after the number that differ',
      TEXT_SK,
      (n) => ({ pk: { S: 'order#1' }, sk: { S: `00000${n}#Placed${'x'.repeat(n)}` } }),
      'the texts after the number in the sort key differ; a mapping needs the same text after each number',
    ],
    [
      'the bytes of UUIDs as partition key',
      { ...PK_SK, partition: { name: 'pk', type: 'B' } },
      (n) => ({ ...order('1', n), pk: { B: Uint8Array.from([0xff, 0x80, n, 0xc0]) } }),
      'the partition key is Binary and not UTF-8 text, such as the bytes of a UUID; the id of a log is text',
    ],
    [
      'no sort key',
      { ...PK_SK, sort: undefined },
      (n) => ({ pk: { S: `order#${n}` } }),
      'the table has no sort key, so each partition has one item',
    ],
    [
      'a Number as partition key',
      { ...PK_SK, partition: { name: 'pk', type: 'N' } },
      (n) => ({ pk: { N: '1' }, sk: { N: String(n) } }),
      'the partition key is a Number; a mapping needs a String or Binary',
    ],
  ];

  test.each(cases)('for a table with %s', (_, keys, item, reason) => {
    const { mapping, misfits: found } = propose(sampleOf([1, 2, 3].map(item), { keys }));
    expect(mapping).toBeUndefined();
    expect(found).toMatchObject([{ reason, count: 3 }]);
  });

  test('for logs whose item at 0 is not an entry but a head item, which it names', () => {
    const head = (id: string) => ({ pk: { S: `order#${id}` }, sk: { N: '0' }, latest: { N: '3' } });
    const proposal = propose(sampleOf(['1', '2'].flatMap((id) => [head(id), ...log(id, 3, 1)])));
    expect(proposal.mapping).toBeUndefined();
    expect(proposal.misfits).toMatchObject([
      {
        reason: expect.stringContaining("not 'type' and 'ts'"),
        items: ['order#1, 0', 'order#2, 0'],
        othersGoOn: false,
      },
    ]);
  });

  test('for an empty table', () => {
    expect(propose(sampleOf([]))).toMatchObject({ mapping: undefined, kinds: [], misfits: [] });
  });

  test("for logfold's own tables, which it recognizes", () => {
    const keys: TableKeys = { partition: { name: 'S', type: 'B' }, sort: { name: 'N', type: 'N' } };
    const entry = { S: { B: new Uint8Array(20) }, N: { N: '0' }, T: { S: 'Snapshot' } };
    const segment = { S: { B: new Uint8Array(16) }, N: { N: '0' }, C: { N: '0' } };
    const read = (items: readonly Item[]) => propose(sampleOf(items, { keys }));
    expect(read([entry])).toMatchObject({ recognized: "logfold's Entry table", mapping: undefined });
    expect(read([segment])).toMatchObject({ recognized: "logfold's Segment table", mapping: undefined });
  });
});

test('the partitions to read are the largest of each numbered kind', () => {
  const scanned = [...log('1', 1), ...log('2', 3), ...log('3', 2)].map((item) => ({ ...item }));
  const invoices = [{ pk: { S: 'invoice#1' }, sk: { N: '0' } }];
  const chosen = partitionsToRead({ keys: PK_SK, scanned: [...scanned, ...invoices] }, 3);
  expect(chosen.map(({ pk }) => pk?.S)).toEqual(['order#2', 'invoice#1', 'order#3']);
});
