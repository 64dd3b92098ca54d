import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { ItemInvalidError, LogIdInvalidError, ValueUnsupportedError } from '../../src/errors.ts';
import { decodeSegmentId, encodeSegmentId, parseLogId } from '../../src/ids/log-id.ts';
import type { Item, StoredAttribute, StoredItem } from '../../src/log/attribute.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import { rootOf, snapshotStatus } from '../../src/log/entry.ts';
import {
  decodeEntry,
  decodeEntryHead,
  decodeSegment,
  encodeEntry,
  encodeSegment,
  entryKey,
  entryPlace,
} from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import type { Segment } from '../../src/log/segment.ts';
import { archiveKey, bodyKey, rootKey, rootPrefix } from '../../src/store/keys.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import { entryAt, LOG, NOON } from '../support/logs.ts';
import { show } from '../support/models/random-reducers.ts';
import { expired, expiring, lastAt, ON_HOLD } from '../support/segments.ts';

const LOG_BYTES = [0x01, 0x92, 0xf7, 0xa0, 0x5b, 0x1c, 0x7d, 0x3e, 0x8f, 0x10, 0x2a, 0x3b, 0x4c, 0x5d, 0x6e, 0x7f];
const position = { segment: 258, entry: 17 };
const OTHER_LOG = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e70');

describe('segment id', () => {
  test('it is the log id and the segment number in big-endian order', () => {
    expect([...encodeSegmentId(LOG, 0x01020304)]).toEqual([...LOG_BYTES, 1, 2, 3, 4]);
  });

  test.each([0, 1, 255, 2 ** 31, 2 ** 32 - 1])('segment %d is read back', (segment) => {
    const padded = new Uint8Array(30);
    padded.set(encodeSegmentId(LOG, segment), 7);
    expect(decodeSegmentId(padded.subarray(7, 27))).toEqual({ log: LOG, segment });
  });

  test.each([0, 16, 19, 21])('%d bytes are refused', (length) => {
    expect(() => decodeSegmentId(new Uint8Array(length))).toThrow(LogIdInvalidError);
  });

  test('20 bytes that start with no UUID are refused', () => {
    expect(() => decodeSegmentId(new Uint8Array(20).fill(0x55))).toThrow(LogIdInvalidError);
  });
});

// These items are in users' tables: they must never change.
const S = { B: Uint8Array.from([...LOG_BYTES, 0, 0, 1, 2]) };
const golden: readonly (readonly [string, Entry, StoredItem])[] = [
  [
    'an entry with a body in MessagePack',
    entryAt(LOG, position, { type: 'Set', version: 3 }),
    {
      S,
      N: { N: '17' },
      C: { N: '1732104000' },
      T: { S: 'Set' },
      V: { N: '3' },
      B: { B: Uint8Array.of(0x93, 17, 2, 3) },
    },
  ],
  [
    'an expiring entry with an external body',
    {
      log: LOG,
      position,
      created: NOON,
      type: 'Import',
      version: 1,
      external: 'logs/x/bodies/y',
      expires: NOON + 1,
    },
    {
      S,
      N: { N: '17' },
      C: { N: '1732104000' },
      T: { S: 'Import' },
      V: { N: '1' },
      E: { S: 'logs/x/bodies/y' },
      X: { N: '1732104001' },
    },
  ],
  [
    'a Snapshot entry',
    { log: LOG, position: { segment: 258, entry: 0 }, created: NOON, type: 'Snapshot', version: 1 },
    { S, N: { N: '0' }, C: { N: '1732104000' }, T: { S: 'Snapshot' }, V: { N: '1' } },
  ],
  [
    'an entry with a body in JSON',
    entryAt(LOG, position, { body: { format: 'json', text: '{}' } }),
    { S, N: { N: '17' }, C: { N: '1732104000' }, T: { S: 'Set' }, V: { N: '1' }, B: { S: '{}' } },
  ],
  [
    'an entry with a native body',
    entryAt(LOG, position, { body: { format: 'native', value: { a: [1, -2.5, 2n ** 60n], b: null } } }),
    {
      S,
      N: { N: '17' },
      C: { N: '1732104000' },
      T: { S: 'Set' },
      V: { N: '1' },
      B: { M: { a: { L: [{ N: '1' }, { N: '-2.5' }, { N: '1152921504606846976' }] }, b: { NULL: true } } },
    },
  ],
  [
    'an entry with a number',
    entryAt(LOG, position, { body: undefined, number: 4711 }),
    { S, N: { N: '17' }, C: { N: '1732104000' }, T: { S: 'Set' }, V: { N: '1' }, Q: { N: '4711' } },
  ],
  [
    'an entry with a mutation of a client',
    entryAt(LOG, position, { body: { format: 'json', text: '{}' }, once: { client: 'laptop', mutation: 9 } }),
    {
      S,
      N: { N: '17' },
      C: { N: '1732104000' },
      T: { S: 'Set' },
      V: { N: '1' },
      B: { S: '{}' },
      W: { L: [{ S: 'laptop' }, { N: '9' }] },
    },
  ],
  [
    'an entry with metadata',
    entryAt(LOG, position, {
      body: { format: 'json', text: '{}' },
      metadata: { correlation: 'order-7', causation: '0/16', step: 2, tags: ['a', null] },
    }),
    {
      S,
      N: { N: '17' },
      C: { N: '1732104000' },
      T: { S: 'Set' },
      V: { N: '1' },
      B: { S: '{}' },
      M: {
        M: {
          correlation: { S: 'order-7' },
          causation: { S: '0/16' },
          step: { N: '2' },
          tags: { L: [{ S: 'a' }, { NULL: true }] },
        },
      },
    },
  ],
];

describe('entry items', () => {
  test.each(golden)('%s is written in the format and read back', (_what, entry, item) => {
    expect(encodeEntry(entry)).toEqual(item);
    expect(decodeEntry(item)).toEqual(entry);
  });

  test('an entry has no body if B is NULL', () => {
    const item = { ...encodeEntry(entryAt(LOG, position)), B: { NULL: true } };
    expect(decodeEntry(item)).not.toHaveProperty('body');
  });

  test.each<[string, StoredAttribute]>([
    ['a String', { S: 'x' }],
    ['a List', { L: [{ M: { correlation: { S: 'x' } } }] }],
    ['nothing', {}],
    ['an empty Map', { M: {} }],
    ['a Map whose correlation is a Number', { M: { correlation: { N: '7' } } }],
    ['a Map whose causation is NULL', { M: { causation: { NULL: true }, step: { N: '1' } } }],
    ['a Map with a Number that DynamoDB does not store', { M: { pi: { N: '1e999' } } }],
    ['a Map with a value of no type', { M: { a: { L: [{}] } } }],
  ])('an M that is %s belongs to another program, and the entry has no metadata', (_what, M) => {
    const item = { ...encodeEntry(entryAt(LOG, position)), M };
    expect(decodeEntry(item)).toEqual(entryAt(LOG, position));
  });

  test.each<[string, StoredAttribute]>([
    ['a String', { S: '7' }],
    ['negative', { N: '-1' }],
    ['a fraction', { N: '1.5' }],
    ['2^53', { N: '9007199254740992' }],
    ['a List', { L: [{ N: '7' }] }],
  ])('a Q that is %s belongs to another program, and the entry has no number', (_what, Q) => {
    const item = { ...encodeEntry(entryAt(LOG, position)), Q };
    expect(decodeEntry(item)).toEqual(entryAt(LOG, position));
    expect(decodeEntryHead(item)).toEqual({ log: LOG, position, type: 'Set' });
  });

  test.each<[string, StoredAttribute]>([
    ['a String', { S: 'laptop' }],
    ['a Map', { M: { client: { S: 'laptop' }, mutation: { N: '9' } } }],
    ['nothing', {}],
    ['a List of one', { L: [{ S: 'laptop' }] }],
    ['a List of three', { L: [{ S: 'laptop' }, { N: '9' }, { N: '9' }] }],
    ['a List in another order', { L: [{ N: '9' }, { S: 'laptop' }] }],
    ['a List without a client', { L: [{ S: '' }, { N: '9' }] }],
    ['a List with a long client', { L: [{ S: 'x'.repeat(257) }, { N: '9' }] }],
    ['a List with mutation 0', { L: [{ S: 'laptop' }, { N: '0' }] }],
    ['a List with a fraction', { L: [{ S: 'laptop' }, { N: '1.5' }] }],
    ['a List with 2^53', { L: [{ S: 'laptop' }, { N: '9007199254740992' }] }],
  ])('a W that is %s belongs to another program, and the entry has no mutation', (_what, W) => {
    const item = { ...encodeEntry(entryAt(LOG, position)), W };
    expect(decodeEntry(item)).toEqual(entryAt(LOG, position));
  });

  test('metadata is the same in any order of its names, and from an archive', { tags: ['I9'] }, () => {
    const names = Object.entries({ b: { N: '1' }, a: { M: { y: { SS: ['2', '1'] }, x: { BOOL: true } } } });
    const items = [names, names.toReversed()].map((attributes) => {
      return { ...encodeEntry(entryAt(LOG, position)), M: { M: Object.fromEntries(attributes) } };
    });
    const read = [...items, ...items.map((item) => decodeItemLine(encodeItemLine(item)))].map((item) => {
      return show(decodeEntry(item).metadata);
    });
    expect(new Set(read).size).toBe(1);
    expect(decodeEntry(items[0] ?? {}).metadata).toEqual({ a: { x: true, y: ['1', '2'] }, b: 1 });
  });

  test('a root by key, an inline root and a missing root are distinct', () => {
    const snapshot: Entry = { log: LOG, position, created: NOON, type: 'Snapshot', version: 1 };
    expect(rootOf(snapshot)).toBeUndefined();
    const key = rootKey(LOG, position, '0'.repeat(64));
    expect(rootOf({ ...snapshot, external: key })).toEqual({ key });
    expect(rootOf({ ...snapshot, body: { format: 'bytes', bytes: DAMAGED_ROOT } })).toEqual({ inline: DAMAGED_ROOT });
  });

  test.each<[string, Partial<Entry>]>([
    ['the key of a root of another log', { external: rootKey(OTHER_LOG, position, '0'.repeat(64)) }],
    ['a name below the roots of its log', { external: `${rootPrefix(LOG)}latest` }],
    ['the key of a body of its log', { external: bodyKey(LOG, '0'.repeat(64), '0'.repeat(12)) }],
    ['a URL', { external: 's3://snapshots/1' }],
    ['other bytes', { body: { format: 'bytes', bytes: Uint8Array.of(0x4c, 0x47) } }],
    ['no bytes', { body: { format: 'bytes', bytes: new Uint8Array() } }],
    ['a text', { body: { format: 'json', text: '{}' } }],
    ['a native value', { body: { format: 'native', value: [1] } }],
  ])('a Snapshot entry with %s carries a foreign root', (_what, carried) => {
    const snapshot: Entry = { log: LOG, position, created: NOON, type: 'Snapshot', version: 1, ...carried };
    expect(rootOf(snapshot)).toBeUndefined();
    expect(snapshotStatus(snapshot)).toBe('foreign');
  });

  test('a pending Snapshot entry, and a root of any version, are not foreign', () => {
    const snapshot: Entry = { log: LOG, position, created: NOON, type: 'Snapshot', version: 1 };
    expect(snapshotStatus(snapshot)).not.toBe('foreign');
    const bytes = Uint8Array.of(0x4c, 0x47, 0x46, 9);
    expect(snapshotStatus({ ...snapshot, body: { format: 'bytes', bytes } })).not.toBe('foreign');
  });

  test.each<[string, StoredAttribute, unknown]>([
    ['a safe integer', { N: '-9007199254740992' }, -9007199254740992],
    ['a 64-bit integer', { N: '9007199254740993' }, 9007199254740993n],
    ['the largest 64-bit integer', { N: '18446744073709551615' }, 18446744073709551615n],
    ['a larger integer of few digits', { N: '100000000000000000000' }, 1e20],
    ['a decimal of 17 digits', { N: '0.12345678901234566' }, 0.12345678901234566],
    ['an exponent', { N: '-1.5E-120' }, -1.5e-120],
    ['an integer with a fraction of zeros', { N: '-5.00' }, -5],
    ['a large integer with an exponent', { N: '+1.152921504606846977E18' }, 1152921504606846977n],
    ['an integer with an exponent and no digit before the point', { N: '.9007199254740993e+16' }, 9007199254740993n],
    ['a larger integer with zeros that are not digits', { N: '00123456789012345670000' }, 1.2345678901234567e20],
    ['a list of decimals of more digits', { L: [{ N: '-0.123456789012345678' }] }, ['-0.123456789012345678']],
    ['a map with a larger integer', { M: { n: { N: '18446744073709551616' } } }, { n: '18446744073709551616' }],
    ['a number set with both', { NS: ['1.2345678901234567891E-5', '7'] }, ['0.000012345678901234567891', 7]],
    [
      'the same decimal in every form',
      { L: [{ N: '1.23456789012345678E+21' }, { N: '1234567890123456780000.00' }, { N: '+.00123456789012345678e24' }] },
      ['1234567890123456780000', '1234567890123456780000', '1234567890123456780000'],
    ],
    [
      '38 digits',
      { L: [{ N: '9.9999999999999999999999999999999999999E+125' }] },
      [`${'9'.repeat(38)}${'0'.repeat(88)}`],
    ],
    ['zero in every form', { L: [{ N: '0' }, { N: '-0' }, { N: '0.00' }, { N: '0E+9' }] }, [0, 0, 0, 0]],
    ['a string set', { SS: ['a', 'b'] }, ['a', 'b']],
    ['a number set', { NS: ['1', '2.5'] }, [1, 2.5]],
    ['a binary set', { BS: [Buffer.from([1])] }, [Uint8Array.of(1)]],
    ['a map', { M: { a: { L: [{ BOOL: true }, { S: 'x' }, { NULL: true }] } } }, { a: [true, 'x', null] }],
  ])('a native body is read: %s', (_what, attribute, value) => {
    const item = { ...encodeEntry(entryAt(LOG, position)), B: attribute };
    expect(decodeEntry(item).body).toStrictEqual({ format: 'native', value });
  });

  test.each<[string, StoredAttribute, StoredAttribute]>([
    [
      'the keys of a map',
      { M: { a: { M: { x: { N: '1' }, y: { N: '2' } } }, b: { N: '1' } } },
      { M: { b: { N: '1' }, a: { M: { y: { N: '2' }, x: { N: '1' } } } } },
    ],
    [
      'the members of a string set',
      { SS: ['b', '\u{1f600}', '\uffff', 'a'] },
      { SS: ['a', '\uffff', 'b', '\u{1f600}'] },
    ],
    ['the members of a number set', { NS: ['10', '9', '-1'] }, { NS: ['-1', '10', '9'] }],
    [
      'the members of a binary set',
      { BS: [Uint8Array.of(251), Uint8Array.of(4, 1), Uint8Array.of(4)] },
      { BS: [Uint8Array.of(4), Uint8Array.of(251), Uint8Array.of(4, 1)] },
    ],
  ])('a native body is the same in any order of %s, and from an archive', { tags: ['I9'] }, (_what, one, other) => {
    const items = [one, other].map((attribute) => ({ ...encodeEntry(entryAt(LOG, position)), B: attribute }));
    const archived = items.map((item) => decodeItemLine(encodeItemLine(item)));
    // As text, because toEqual ignores the order of keys.
    const read = [...items, ...archived].map((item) => show(decodeEntry(item).body));
    expect(new Set(read).size).toBe(1);
  });

  test('a key __proto__ of a native body is an ordinary key', () => {
    const item = { ...encodeEntry(entryAt(LOG, position)), B: { M: Object.fromEntries([['__proto__', { N: '1' }]]) } };
    const { body } = decodeEntry(item);
    const value = body?.format === 'native' ? body.value : undefined;
    expect(Object.keys(value ?? {})).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(encodeEntry(decodeEntry(item)).B).toEqual(item.B);
  });

  test('a Number with too many digits for a number is a body of JSON, the text of the Number', () => {
    const item = { ...encodeEntry(entryAt(LOG, position)), B: { N: '3.14159265358979323846' } };
    const entry = decodeEntry(item);
    expect(decodeEntryBody(entry)).toBe('3.14159265358979323846');
    expect(decodeEntryBody(decodeEntry(encodeEntry(entry)))).toBe('3.14159265358979323846');
  });

  const where = { code: 'ITEM_INVALID', log: LOG, segment: 258, entry: 17 };
  test.each<[string, StoredItem, object]>([
    ["'S' is missing", { S: undefined }, { log: undefined, segment: undefined }],
    ["'S' is not Binary", { S: { S: 'x' } }, { log: undefined }],
    ["'S' cannot be read", { S: { B: new Uint8Array(16) } }, { log: undefined }],
    ["'N' is missing", { N: undefined }, { log: LOG, segment: 258, entry: undefined }],
    ["'N' is '-1'", { N: { N: '-1' } }, { log: LOG, segment: 258, entry: undefined }],
    ["'N' is '1.5'", { N: { N: '1.5' } }, { entry: undefined }],
    ["'N' is '4294967296'", { N: { N: '4294967296' } }, { entry: undefined }],
    ["'N' is not a Number", { N: { S: '17' } }, { entry: undefined }],
    ["'C' is missing", { C: undefined }, where],
    ["'C' is '1e400'", { C: { N: '1e400' } }, where],
    ["'C' is '1.5'", { C: { N: '1.5' } }, where],
    ["'C' is '9007199254740992'", { C: { N: '9007199254740992' } }, where],
    ["'V' is '1.0'", { V: { N: '1.0' } }, where],
    ["'V' is '1e3'", { V: { N: '1e3' } }, where],
    ["'T' is missing", { T: undefined }, where],
    ["'T' is empty", { T: { S: '' } }, where],
    ["'V' is not a Number", { V: { S: '1' } }, where],
    ["'B' cannot be read", { B: {} }, where],
    ["'B' cannot be read", { B: { NS: ['1e999'] } }, where],
    ["'B' cannot be read", { B: { N: '1e-999' } }, where],
    ["'B' cannot be read", { B: { N: '.' } }, where],
    ["'B' cannot be read", { B: { N: '' } }, where],
    ["'B' is present beside 'E'", { E: { S: 'k' } }, where],
    ["'E' is not a String", { B: undefined, E: { N: '5' } }, where],
    ["'X' is 'soon'", { X: { N: 'soon' } }, where],
  ])('an entry item is refused if %s', (problem, change, place) => {
    const decode = () => decodeEntry({ ...encodeEntry(entryAt(LOG, position)), ...change });
    expect(decode).toThrow(ItemInvalidError);
    expect(decode).toThrow(problem);
    expect(decode).toThrow(expect.objectContaining(place));
  });

  test.each([null, 'text', Uint8Array.of(1), new Date(0), Number.NaN, 1e300, 1e-300, [Number.POSITIVE_INFINITY]])(
    '%o is refused as a native body',
    (value) => {
      const entry = entryAt(LOG, position, { body: { format: 'native', value } });
      expect(() => encodeEntry(entry)).toThrow(ValueUnsupportedError);
    },
  );
});

describe("an entry's position", () => {
  test('it is read from only the key', () => {
    expect(entryPlace({ ...entryKey(LOG, position), T: { N: 'nonsense' } })).toEqual({ log: LOG, position });
  });

  test('an invalid key is refused', () => {
    expect(() => entryPlace({ ...entryKey(LOG, position), N: { N: '-1' } })).toThrow(ItemInvalidError);
  });
});

const ARCHIVE_7 = archiveKey(LOG, 7, '0'.repeat(32));

describe('segment items', () => {
  test('a hash is plain bytes, even if it was computed as a Buffer', () => {
    const hash = createHash('sha256').digest();
    const segment = { log: LOG, segment: 7, created: NOON, archive: { key: 'k', hash } };
    expect(encodeSegment(segment).H).toStrictEqual({ B: Uint8Array.from(hash) });
  });

  const partition = { B: Uint8Array.from(LOG_BYTES) };
  test.each<[string, Segment, StoredItem]>([
    ['a new segment', { log: LOG, segment: 0, created: NOON }, { S: partition, N: { N: '0' }, C: { N: '1732104000' } }],
    [
      'an archived segment',
      {
        log: LOG,
        segment: 7,
        created: NOON,
        lastSnapshot: lastAt(7, 0),
        archive: { key: ARCHIVE_7, hash: new Uint8Array(32).fill(0xa7) },
      },
      {
        S: partition,
        N: { N: '7' },
        C: { N: '1732104000' },
        L: { N: '0' },
        A: { S: ARCHIVE_7 },
        H: { B: new Uint8Array(32).fill(0xa7) },
      },
    ],
    [
      'a segment whose entries expired without an archive',
      { log: LOG, segment: 7, created: NOON, expiry: expired(NOON + 86_400, 1200) },
      { S: partition, N: { N: '7' }, C: { N: '1732104000' }, G: { N: '1732190400' }, D: { N: '1200' } },
    ],
    [
      'an expiring segment',
      { log: LOG, segment: 7, created: NOON, expiry: expiring(NOON + 86_400) },
      { S: partition, N: { N: '7' }, C: { N: '1732104000' }, G: { N: '1732190400' } },
    ],
    [
      'a segment on hold, which expires in the year 2200',
      { log: LOG, segment: 7, created: NOON, expiry: ON_HOLD },
      { S: partition, N: { N: '7' }, C: { N: '1732104000' }, G: { N: '7258118400' } },
    ],
    [
      'a segment of a mapped log',
      { log: LOG, segment: 7, created: NOON, schedule: { first: 7000, items: 1000, snapshotEvery: 100 } },
      {
        S: partition,
        N: { N: '7' },
        C: { N: '1732104000' },
        F: { N: '7000' },
        K: { N: '1000' },
        J: { N: '100' },
      },
    ],
  ])('%s is written in the format and read back', (_what, segment, item) => {
    expect(encodeSegment(segment)).toEqual(item);
    expect(decodeSegment(item)).toEqual(segment);
  });

  const H = { B: new Uint8Array(32) };
  test.each<[string, Item]>([
    ['an archive without a hash', { A: { S: ARCHIVE_7 } }],
    ['an empty archive name', { A: { S: '' } }],
    ['an archive name that is not a String', { A: { M: { bucket: { S: 'b' }, parts: { NS: ['1', '2'] } } } }],
    ['a hash of another length', { A: { S: ARCHIVE_7 }, H: { B: new Uint8Array(31) } }],
    ['a hash that is not Binary', { A: { S: ARCHIVE_7 }, H: { S: 'a7' } }],
    ['the archive of another log', { A: { S: archiveKey(OTHER_LOG, 7, '0'.repeat(32)) }, H }],
    ['an archive at another place', { A: { S: 's3://archives/7' }, H }],
    ['a Last Snapshot that is a text', { L: { S: 's3://snapshots/7' } }],
    ['a Last Snapshot that is negative', { L: { N: '-1' } }],
    ['a Last Snapshot beyond all entries', { L: { N: '4294967296' } }],
    ['an archive and a Last Snapshot', { A: { BOOL: true }, L: { NULL: true } }],
  ])('a segment item with %s is foreign and keeps it', (_what, attributes) => {
    const own = { log: LOG, segment: 7, created: NOON, expiry: expiring(NOON) };
    const item = { ...encodeSegment(own), ...attributes };
    expect(decodeSegment(item)).toEqual({ ...own, foreign: attributes });
    expect(encodeSegment(decodeSegment(item))).toEqual(item);
  });

  test.each<[string, StoredItem]>([
    ["'S' cannot be read", { S: { B: new Uint8Array(20) } }],
    ["'N' is '-1'", { N: { N: '-1' } }],
    ["'C' is missing", { C: undefined }],
    ["'H' is present without 'A'", { H: { B: new Uint8Array(32) } }],
    ["'G' is '1.5'", { G: { N: '1.5' } }],
    ["'D' is '-1'", { D: { N: '-1' } }],
    ["'F' is missing", { K: { N: '10' }, J: { N: '5' } }],
    ["'J' is missing", { F: { N: '0' }, K: { N: '10' } }],
    ["'K' is '0', but a segment has items", { F: { N: '0' }, K: { N: '0' }, J: { N: '5' } }],
    ["'K' is '2147483648'", { F: { N: '0' }, K: { N: '2147483648' }, J: { N: '5' } }],
    ["'J' is '0'", { F: { N: '0' }, K: { N: '10' }, J: { N: '0' } }],
    ["'D' is present without 'G'", { D: { N: '7' } }],
    ["'D' is present although 'G' says that the segment is on hold", { D: { N: '7' }, G: { N: '7258118400' } }],
  ])('a segment item is refused if %s', (problem, change) => {
    const decode = () => decodeSegment({ ...encodeSegment({ log: LOG, segment: 7, created: NOON }), ...change });
    expect(decode).toThrow(ItemInvalidError);
    expect(decode).toThrow(problem);
  });
});

describe('the size of an item', () => {
  test('it counts names and values as DynamoDB does', () => {
    // 5 names of one letter, 20 bytes of segment id, numbers with a byte per two digits and one
    // more, text, bytes.
    const item = encodeEntry(entryAt(LOG, position, { type: 'Sët' }));
    expect(itemBytes(item)).toBe(6 + 20 + (1 + 1) + (5 + 1) + 4 + (1 + 1) + 4);
  });

  test('it counts nested values', () => {
    expect(itemBytes({ a: { M: { bc: { L: [{ BOOL: true }, { NULL: true }] } } } })).toBe(1 + 3 + 1 + 2 + 3 + 2 * 2);
    expect(itemBytes({ a: { SS: ['x', '😀'] }, b: { NS: ['12', '345'] }, c: { BS: [new Uint8Array(9)] } })).toBe(
      1 + 5 + 1 + 5 + 1 + 9,
    );
  });
});
