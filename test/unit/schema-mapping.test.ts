import { describe, expect, test } from 'vitest';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { textLogId } from '../../src/ids/log-id.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import {
  indexOfKey,
  keyOf,
  logOfKey,
  maxIndex,
  parseMappedLog,
  sortKeyOf,
  streamFilterOf,
} from '../../src/mapping/key-pattern.ts';
import {
  isMappingName,
  MAPPING_NAMES,
  type MappingDocument,
  parseMapping,
  readMapping,
  type SchemaMapping,
} from '../../src/mapping/schema-mapping.ts';
import { toApplicationItem, toEntry, toEntryItem } from '../../src/mapping/translate.ts';
import { passesFilter } from '../support/deployed/event-filter.ts';
import { ORDERS_DOCUMENT } from '../support/orders.ts';

const IN_TEXT = { name: 'sk', type: 'S', first: 1, pattern: 'event#{n:6}' } as const;
const LOG = textLogId('17');
const PLACE = { log: LOG, position: { segment: 0, entry: 3 }, index: 2 };
const PLACED: Item = {
  pk: { S: 'order#17' },
  sk: { N: '2' },
  type: { S: 'OrderPlaced' },
  ts: { S: '2026-01-02T03:04:05.678Z' },
  payload: { M: { total: { N: '12.50' } } },
};

function orders(changes: Partial<MappingDocument> = {}): SchemaMapping {
  return parseMapping({ ...ORDERS_DOCUMENT, ...changes });
}

describe('an item of an application', () => {
  test('becomes an entry, and a reducer gets type, version, time and body', () => {
    const item = { ...PLACED, customer: { S: 'Ada' }, T: { S: 'tag' } };
    const translated = toEntryItem(orders(), item, PLACE);
    expect(decodeEntry(translated)).toEqual({
      log: LOG,
      position: PLACE.position,
      created: Date.parse('2026-01-02T03:04:05Z') / 1000,
      milliseconds: 678,
      type: 'OrderPlaced',
      version: 1,
      number: 3,
      body: { format: 'native', value: { total: 12.5 } },
    });
    expect(translated).toMatchObject({ ts: PLACED.ts, customer: { S: 'Ada' }, O: { M: { T: { S: 'tag' } } } });
    for (const name of ['pk', 'sk', 'type', 'payload']) expect(translated).not.toHaveProperty(name);
  });

  test.each([
    [{ M: { by: { S: 'Ada' }, correlation: { S: 'c' } } }, { by: 'Ada', correlation: 'c' }],
    [{ M: { by: { N: '7' } } }, { by: 7 }],
    [{ M: { correlation: { N: '7' } } }, undefined],
    [{ M: {} }, undefined],
    [{ S: '{"by":"Ada"}' }, undefined],
    [undefined, undefined],
  ])('has the metadata of its item, if it has the form of metadata: %j', (meta, metadata) => {
    const item: Item = { ...PLACED, ...(meta !== undefined && { meta }) };
    const mapping = orders({ metadata: 'meta' });
    const translated = toEntryItem(mapping, item, PLACE);
    expect(decodeEntry(translated).metadata).toEqual(metadata);
    expect(toEntry(mapping, item, PLACE)).toEqual(decodeEntry(translated));
    expect(toApplicationItem(mapping, decodeItemLine(encodeItemLine(translated)))).toEqual(item);
    expect(decodeEntry(toEntryItem(orders(), item, PLACE)).metadata).toBeUndefined();
  });

  test.each([
    ['iso', { S: '2026-01-02T03:04:05.678Z' }, 678],
    ['iso', { S: '2026-01-02T03:04:05.6789Z' }, 678],
    ['iso', { S: '2026-01-02T03:04:05,5+02:00' }, 500],
    ['iso', { S: '2026-01-31T03:04:05.001Z' }, 1],
    ['iso', { S: '2026-01-02T03:04:05Z' }, undefined],
    ['iso', { S: '2026-01-02 03:04' }, undefined],
    ['iso', { S: '2026-01-02' }, undefined],
    ['s', { N: '1767323045.0123' }, 12],
    ['s', { N: '1767323045' }, undefined],
    ['ms', { N: '1767323045678' }, 678],
    ['ms', { N: '1767323045678.9' }, 678],
    ['ms', { N: '45' }, 45],
    ['ms', { N: '1767323045000' }, undefined],
  ] as const)('has the milliseconds of its time in the format %s: %j', (format, ts, milliseconds) => {
    const mapping = orders({ time: { name: 'ts', format } });
    const item = { ...PLACED, ts };
    expect(toEntry(mapping, item, PLACE).milliseconds).toBe(milliseconds);
    expect(decodeEntry(toEntryItem(mapping, item, PLACE)).milliseconds).toBe(milliseconds);
  });

  test('keeps what the body does not have as application attributes, or has everything in its body', () => {
    const item = { ...PLACED, customer: { S: 'Ada' }, note: { S: 'fast' } };
    const { body } = decodeEntry(toEntryItem(orders({ body: { item: true } }), item, PLACE));
    expect(body).toEqual({
      format: 'native',
      value: { customer: 'Ada', note: 'fast', payload: { total: 12.5 } },
    });
  });

  test.each([
    ['iso', { S: '2026-01-02T03:04:05+01:00' }, '2026-01-02T02:04:05Z'],
    ['iso', { S: '2026-01-02 03:04:05.999999' }, '2026-01-02T03:04:05Z'],
    ['iso', { S: '2026-01-02T03:04:05-0530' }, '2026-01-02T08:34:05Z'],
    ['iso', { S: '2024-02-29' }, '2024-02-29T00:00:00Z'],
    ['s', { N: '1767323045.5' }, '2026-01-02T03:04:05Z'],
    ['ms', { N: '1767323045999' }, '2026-01-02T03:04:05Z'],
  ] as const)('has its time in seconds: %s %j', (format, ts, time) => {
    const mapping = orders({ time: { name: 'ts', format } });
    expect(decodeEntry(toEntryItem(mapping, { ...PLACED, ts }, PLACE)).created).toBe(Date.parse(time) / 1000);
  });

  test('has the time 0 if the mapping names no time', () => {
    const { time: _, ...timeless } = ORDERS_DOCUMENT;
    expect(decodeEntry(toEntryItem(parseMapping(timeless), PLACED, PLACE)).created).toBe(0);
  });

  test.each([
    [{ S: 'a "text"' }, 'a "text"'],
    [{ S: 'null' }, 'null'],
    [{ B: Uint8Array.of(1, 2) }, Uint8Array.of(1, 2)],
    [{ NULL: true }, null],
    [{ L: [{ N: '1' }] }, [1]],
    [undefined, null],
  ] as const)('has a body of any type: %j', (payload, value) => {
    const { payload: _, ...others } = PLACED;
    const item: StoredItem = { ...others, payload };
    const entry = decodeEntry(toEntryItem(orders(), item, PLACE));
    expect(decodeEntryBody(entry)).toEqual(value);
  });

  test('has JSON text as its body if the mapping says so', () => {
    const mapping = orders({ body: { name: 'payload', format: 'json' } });
    const entry = decodeEntry(toEntryItem(mapping, { ...PLACED, payload: { S: '{"total": 1e2}' } }, PLACE));
    expect(decodeEntryBody(entry)).toEqual({ total: 100 });
  });

  test('has its TTL as expiry', () => {
    const translated = toEntryItem(orders({ ttl: 'expiresAt' }), { ...PLACED, expiresAt: { N: '1800000000' } }, PLACE);
    expect(decodeEntry(translated).expires).toBe(1_800_000_000);
    expect(translated).not.toHaveProperty('expiresAt');
  });

  test.each<[string, Partial<MappingDocument>, StoredItem, string, string]>([
    ['without a type', {}, { type: undefined }, "'type' is missing", 'type'],
    ['with a number as type', {}, { type: { N: '1' } }, "'type' is '1', not a type", 'type'],
    ['with an empty type', {}, { type: { S: '' } }, "'type' is '', not a type", 'type'],
    [
      'with a type of virtual entries',
      {},
      { type: { S: 'logfold Snapshot' } },
      "'type' is 'logfold Snapshot', a type that logfold uses",
      'type',
    ],
    ['without a version', { version: 'v' }, {}, "'v' is missing", 'version'],
    ['with a version that is not whole', { version: 'v' }, { v: { N: '1.5' } }, "'v' is '1.5', not a whole", 'version'],
    ['with a version that is text', { version: 'v' }, { v: { S: '1' } }, "'v' is '1', not a whole Number", 'version'],
    ['without a time', {}, { ts: undefined }, "'ts' is missing", 'time'],
    ['with a time that is none', {}, { ts: { S: 'yesterday' } }, "'ts' is 'yesterday', not a time", 'time'],
    ['with a day that does not exist', {}, { ts: { S: '2025-02-29' } }, "'ts' is '2025-02-29', not a time", 'time'],
    ['with a time before 1970', {}, { ts: { S: '1969-12-31' } }, "'ts' is '1969-12-31', not a time", 'time'],
    ['with a time in seconds', {}, { ts: { N: '1767323045' } }, 'in ISO 8601 (a String)', 'time'],
    [
      'with a time in ISO 8601',
      { time: { name: 'ts', format: 'ms' } },
      {},
      'not a time in 1970 or later in epoch milliseconds',
      'time',
    ],
    [
      'with a body that is not JSON',
      { body: { name: 'payload', format: 'json' } },
      { payload: { S: '{total: 1}' } },
      "'payload' is '{total: 1}', which is not JSON",
      'body',
    ],
    [
      'with a native body',
      { body: { name: 'payload', format: 'json' } },
      {},
      "'payload' is of type M, not a String with JSON",
      'body',
    ],
    ['with a TTL that is text', { ttl: 'x' }, { x: { S: 'soon' } }, "'x' is 'soon', not a whole Number", 'ttl'],
    ['of another log', {}, { pk: { S: 'order#18' } }, "'pk' is not the key of log '17'", 'partitionKey'],
    ['at another place', {}, { sk: { N: '3' } }, "'sk' is not the key of item 2 of the log", 'sortKey'],
  ])('%s is refused, by its key, the attribute and the part of the mapping', (_, changes, item, problem, part) => {
    const refused = expect(() => toEntryItem(orders(changes), { ...PLACED, ...item }, PLACE));
    refused.toThrow(
      expect.objectContaining({
        code: 'ITEM_INVALID',
        log: LOG,
        ...PLACE.position,
        advice: `Correct the item, or change '${part}' of the mapping`,
        message: expect.stringContaining(problem),
      }),
    );
    refused.toThrow(/, in the item with pk 'order#1[78]', sk '[23]' \[log 17, segment 0, entry 3\]/);
  });
});

describe('the item of an entry', () => {
  const translated = toEntryItem(orders(), PLACED, PLACE);

  test.each<[string, StoredItem]>([
    ['has no number', { Q: undefined }],
    ['has the number 0', { Q: { N: '0' } }],
    ['is virtual', { T: { S: 'logfold End Segment' } }],
    ['has JSON as its body that is not text', { B: { S: '{"a":1}' } }],
    ['has JSON as its body that is malformed', { B: { S: '"' } }],
    ['has MessagePack as its body that is not bytes', { B: { B: Uint8Array.of(1) } }],
    ['has bytes as its body that are not MessagePack', { B: { B: Uint8Array.of(0xc1) } }],
  ])('is not translated back if it %s', (_, changes) => {
    const item = decodeItemLine(encodeItemLine({ ...translated, ...changes }));
    expect(() => toApplicationItem(orders(), item)).toThrow(
      expect.objectContaining({ code: 'ITEM_INVALID', log: LOG, ...PLACE.position }),
    );
  });
});

describe('a key', () => {
  test('belongs to no log if it has other texts around the id or the number', () => {
    const mapping = orders({ sortKey: IN_TEXT });
    expect(logOfKey(mapping, { pk: { S: 'customer#17' }, sk: { S: 'event#000001' } })).toBeUndefined();
    expect(logOfKey(mapping, { pk: { S: 'order' }, sk: { S: 'event#000001' } })).toBeUndefined();
    expect(logOfKey(mapping, { pk: { S: 'order#17' }, sk: { S: 'META' } })).toBeUndefined();
    expect(logOfKey(mapping, { pk: { S: 'order#17' }, sk: { S: 'event#000001' } })).toBe('17');
  });

  test('can have texts before and after the id, which may contain them', () => {
    const mapping = orders({ partitionKey: { name: 'pk', type: 'S', pattern: 'a{id}a' } });
    expect(logOfKey(mapping, { pk: { S: 'aaaa' }, sk: { N: '0' } })).toBe('aa');
    expect(logOfKey(mapping, { pk: { S: 'a' }, sk: { N: '0' } })).toBeUndefined();
  });

  test('can be Binary, with the id in UTF-8', () => {
    const mapping = orders({ partitionKey: { name: 'pk', type: 'B', pattern: 'é{id}' } });
    const B = new TextEncoder().encode('éß');
    expect(logOfKey(mapping, { pk: { B }, sk: { N: '0' } })).toBe('ß');
    expect(keyOf(mapping, textLogId('ß'), 0)).toEqual({ pk: { B }, sk: { N: '0' } });
    expect(logOfKey(mapping, { pk: { B: Uint8Array.of(0xff) }, sk: { N: '0' } })).toBeUndefined();
    expect(() => logOfKey(mapping, { pk: { B: Uint8Array.of(...B, 0xff) }, sk: { N: '0' } })).toThrow(
      /'pk' is not text in UTF-8, in the item with pk 'c3a9c39fff'/,
    );
  });

  test.each<[string, StoredItem, RegExp]>([
    [
      'is empty',
      { pk: { S: 'order#' }, sk: { N: '0' } },
      /'pk' has no log id .* but an empty one, in the item with pk/,
    ],
    [
      'is too long',
      { pk: { S: `order#${'x'.repeat(2001)}` }, sk: { N: '0' } },
      /'pk' has no log id of 1 to 2000 bytes/,
    ],
    ['is Binary', { pk: { B: Uint8Array.of(1) }, sk: { N: '0' } }, /'pk' is not a String, in the item with pk '01'/],
    ['is missing', { sk: { N: '0' } }, /'pk' is not a String, in the item with pk \(missing\), sk '0'/],
  ])('whose id %s is refused', (_, key, problem) => {
    expect(() => logOfKey(orders(), key)).toThrow(expect.objectContaining({ code: 'ITEM_INVALID' }));
    expect(() => logOfKey(orders(), key)).toThrow(problem);
  });

  test.each<[string, Partial<MappingDocument>, StoredItem, RegExp]>([
    ['a fraction', {}, { sk: { N: '1.5' } }, /'sk' is '1.5', not a whole number of at least 0/],
    ['negative', {}, { sk: { N: '-1' } }, /'sk' is '-1', not a whole number of at least 0/],
    ['text', {}, { sk: { S: '1' } }, /'sk' is not a Number/],
    ['missing', {}, {}, /'sk' is not a Number/],
    ['too large', {}, { sk: { N: '9007199254740993' } }, /'sk' is '9007199254740993', a number above/],
    ['below the first', { sortKey: { name: 'sk', type: 'N', first: 1 } }, { sk: { N: '0' } }, /'0', a number below 1/],
    ['not padded', { sortKey: IN_TEXT }, { sk: { S: 'event#17' } }, /does not have exactly 6 digits/],
    ['beyond the digits', { sortKey: IN_TEXT }, { sk: { S: 'event#1000000' } }, /does not have exactly 6 digits/],
    ['no number', { sortKey: IN_TEXT }, { sk: { S: 'event#00x001' } }, /does not have exactly 6 digits/],
    ['signed', { sortKey: IN_TEXT }, { sk: { S: 'event#-00001' } }, /does not have exactly 6 digits/],
    ['without the text before it', { sortKey: IN_TEXT }, { sk: { S: '000001' } }, /has other texts around/],
  ])('whose number is %s is refused', (_, changes, key, problem) => {
    const item = { pk: { S: 'order#17' }, ...key };
    const read = () => indexOfKey(orders(changes), item);
    expect(read).toThrow(expect.objectContaining({ code: 'ITEM_INVALID' }));
    expect(read).toThrow(problem);
    expect(read).toThrow(/in the item with pk 'order#17'.*change 'sortKey' of the mapping/);
  });

  test('an item whose number is malformed is reported with its log', () => {
    const item = { pk: { S: 'order#17' }, sk: { N: '0.5' } };
    expect(() => indexOfKey(orders(), item)).toThrow(expect.objectContaining({ log: LOG }));
  });

  test('ends with the last number that has enough digits', () => {
    const mapping = orders({ sortKey: IN_TEXT });
    expect(keyOf(mapping, LOG, maxIndex(mapping))).toEqual({ pk: { S: 'order#17' }, sk: { S: 'event#999999' } });
    expect(() => sortKeyOf(mapping, maxIndex(mapping) + 1)).toThrow(
      'no sort key of the mapping has the number 1000000',
    );
    expect(maxIndex(orders())).toBe(Number.MAX_SAFE_INTEGER);
  });

  test('fits a log id that a user types, unless its key would be too long', () => {
    expect(parseMappedLog(orders(), '17')).toBe('17');
    const long = orders({ partitionKey: { name: 'pk', type: 'S', pattern: `${'t'.repeat(100)}{id}` } });
    expect(() => parseMappedLog(long, 'x'.repeat(1949))).toThrow(expect.objectContaining({ code: 'LOG_ID_INVALID' }));
    expect(parseMappedLog(long, 'x'.repeat(1948))).toHaveLength(1948);
  });
});

describe('a mapping', () => {
  test.each<[string, object, string]>([
    ['is missing a part', { type: undefined }, "'type' is wrong (expected the name of an attribute"],
    ['has an unknown part', { reducer: 'x' }, 'the schema mapping is wrong (Unrecognized key: "reducer")'],
    ['has an empty name', { body: '' }, "'body' is wrong"],
    ['has another type of key', { partitionKey: { name: 'pk', type: 'N' } }, "'partitionKey.type' is wrong"],
    ['counts from 2', { sortKey: { name: 'sk', type: 'N', first: 2 } }, "'sortKey.first' is wrong"],
    ['has a format that does not exist', { time: { name: 'ts', format: 'ns' } }, "'time.format' is wrong"],
    ['has a version that is not whole', { version: { constant: 0.5 } }, "'version' is wrong"],
    ['names an attribute twice', { body: 'ts' }, "'body' names the attribute 'ts', which 'time.name' names too"],
    ['has its key as TTL', { ttl: 'sk' }, "'ttl' names the attribute 'sk', which 'sortKey.name' names too"],
    ['has no {id}', pattern('order#'), "'order#', which does not have exactly one {id}"],
    ['has two {id}', pattern('{id}#{id}'), 'does not have exactly one {id}'],
    ['has another placeholder', pattern('{tenant}#{id}'), 'no other braces'],
    ['has a lone surrogate', pattern('\ud800{id}'), "'partitionKey.pattern' is wrong (has a lone surrogate)"],
    [
      'leaves no room for an id',
      pattern(`${'é'.repeat(513)}{id}`),
      'has 1026 bytes around {id}, over the limit of 1024',
    ],
    ['has no {n}', sortPattern('event#'), 'does not have exactly one {n:DIGITS}'],
    ['has two {n}', sortPattern('{n:3}{n:3}'), 'does not have exactly one {n:DIGITS}'],
    ['has a number without digits', sortPattern('event#{n}'), 'as a String, 10 sorts before 9'],
    ['has no digit', sortPattern('{n:0}'), 'has 0 digits, not 1 to 32'],
    ['has too many digits', sortPattern('{n:33}'), 'has 33 digits, not 1 to 32'],
    ['has long texts around a number', sortPattern(`${'x'.repeat(1020)}{n:6}`), 'gives keys of 1026 bytes'],
    ['has no pattern for text', { sortKey: { name: 'sk', type: 'S', first: 0 } }, "'sortKey.pattern' is wrong"],
    [
      'has a pattern for a Number',
      { sortKey: { name: 'sk', type: 'N', first: 0, pattern: '{n:6}' } },
      'Unrecognized key: "pattern"',
    ],
    ['has a type of virtual entries', { type: { constant: 'logfold Snapshot' } }, 'a type that logfold uses'],
  ])('that %s is refused', (_, changes, problem) => {
    const parse = () => parseMapping({ ...ORDERS_DOCUMENT, ...changes });
    expect(parse).toThrow(expect.objectContaining({ code: 'MAPPING_INVALID' }));
    expect(parse).toThrow(problem);
  });

  test.each([null, 17, 'orders', []])('%j is refused', (document) => {
    expect(() => parseMapping(document)).toThrow(expect.objectContaining({ code: 'MAPPING_INVALID' }));
  });

  test('has a filter that passes its inserted items, and nothing else that it can tell apart', () => {
    const mapping = orders({ sortKey: IN_TEXT });
    const passed = (pk: unknown, sk: unknown, eventName = 'INSERT') =>
      passesFilter([JSON.parse(streamFilterOf(mapping))], { eventName, dynamodb: { Keys: { pk, sk } } });
    expect(passed({ S: 'order#17' }, { S: 'event#000001' })).toBe(true);
    expect(passed({ S: 'customer#17' }, { S: 'event#000001' })).toBe(false);
    expect(passed({ S: 'order#17' }, { S: 'META' })).toBe(false);
    expect(passed({ S: 'order#17' }, { S: 'event#000001' }, 'MODIFY')).toBe(false);
  });

  test.each<[string, Partial<MappingDocument>]>([
    ['keys are Binary', { partitionKey: { name: 'pk', type: 'B', pattern: 'order#{id}' } }],
    ['keys begin with the id', { partitionKey: { name: 'pk', type: 'S' } }],
    [
      'Lambda takes no filter so long',
      { partitionKey: { name: 'pk', type: 'S', pattern: `${'\u0001'.repeat(900)}{id}` } },
    ],
  ])('has a filter that passes every insert if %s', (_, changes) => {
    expect(streamFilterOf(orders(changes))).toBe('{"eventName":["INSERT"]}');
  });
});

describe('a ready-made mapping', () => {
  test.each(MAPPING_NAMES)('%s has a name that is neither a file nor JSON', (name) => {
    expect(isMappingName(name)).toBe(true);
    expect(isMappingName(`${name}.json`)).toBe(false);
    expect(readMapping(name)?.partitionKey.prefix).toBe(name === 'logfold' ? undefined : '');
  });

  test('has the text before the id as its parameter', () => {
    expect(readMapping('pk-sk:order')?.partitionKey).toEqual({ name: 'pk', type: 'S', prefix: 'order#', suffix: '' });
    expect(readMapping('castore:A:B')?.partitionKey.prefix).toBe('A:B#');
    expect(() => readMapping('castore:{id}')).toThrow(expect.objectContaining({ code: 'MAPPING_INVALID' }));
    expect(() => readMapping('logfold:x')).toThrow("'logfold:x' is not a ready-made schema mapping");
  });

  test('has metadata only if its name says so, since buckets of earlier releases have the other names', () => {
    for (const name of ['castore', 'pk-sk']) {
      const [without, named] = [readMapping(`${name}:A`), readMapping(`${name}+metadata:A`)];
      expect(without).toBeDefined();
      expect(without).toEqual({ ...named, metadata: undefined, names: without?.names });
      expect(named?.metadata).toBe('metadata');
    }
  });

  test('is absent for logfold itself, whose items are entries already', () => {
    expect(readMapping('')).toBeUndefined();
    expect(readMapping('logfold')).toBeUndefined();
  });

  test('may be any JSON document instead', () => {
    expect(readMapping(JSON.stringify(ORDERS_DOCUMENT))).toEqual(orders());
    expect(() => readMapping('{')).toThrow(/^the schema mapping is not JSON: /);
  });
});

function pattern(text: string): object {
  return { partitionKey: { name: 'pk', type: 'S', pattern: text } };
}

function sortPattern(text: string): object {
  return { sortKey: { name: 'sk', type: 'S', first: 0, pattern: text } };
}
