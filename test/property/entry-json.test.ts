import { deepStrictEqual } from 'node:assert';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromBase64, toBase64 } from '../../src/codec/bytes.ts';
import { parseJson } from '../../src/codec/json.ts';
import { ItemInvalidError, LogfoldError } from '../../src/errors.ts';
import type { StoredAttribute, StoredItem } from '../../src/log/attribute.ts';
import { entryDecoder } from '../../src/log/entry-json.ts';
import { decodeEntry, encodeEntry } from '../../src/log/item-codec.ts';
import { ItemJson, ItemJsonError, storedItems } from '../../src/log/item-json.ts';
import { entryAt, LOG } from '../support/logs.ts';
import { anyCharacter, texts } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';

const utf8 = new TextEncoder();
const someBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => Uint8Array.from(bytes));
const numbers = fc.oneof(
  fc.maxSafeNat().map(String),
  fc.constantFrom('', '-1', '1E2', '007', '0.5', '9007199254740993'),
);
const anyText = fc.oneof(
  texts,
  fc.string({ unit: anyCharacter }),
  fc.constantFrom('"', '\\', '\u0000', '\ud800', '\ufeff'),
);
const names = fc.oneof(anyText, fc.constantFrom(...'SNCTVIBEMPQWXA', 'constructor', '10', '', '__proto__', '\\', '\n'));

const attributes = fc.letrec<{ attribute: StoredAttribute; item: StoredItem }>((tie) => ({
  attribute: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    anyText.map((S) => ({ S })),
    numbers.map((N) => ({ N })),
    someBytes.map((B) => ({ B })),
    fc.boolean().map((BOOL) => ({ BOOL })),
    fc.constant({ NULL: true }),
    fc.array(anyText, { maxLength: 3 }).map((SS) => ({ SS })),
    fc.array(numbers, { maxLength: 3 }).map((NS) => ({ NS })),
    fc.array(someBytes, { maxLength: 3 }).map((BS) => ({ BS })),
    fc.array(tie('attribute'), { maxLength: 4 }).map((L) => ({ L })),
    tie('item').map((M) => ({ M })),
  ),
  item: fc.array(fc.tuple(names, tie('attribute')), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
}));

/** An item of an entry in any order, with some attributes changed, added or missing. */
const entryItem = fc
  .record({
    entry: fc.record({
      created: fc.maxSafeNat(),
      type: fc.oneof(fc.constantFrom('Set', 'Snapshot'), anyText),
      version: fc.nat(),
      id: someBytes,
      body: fc.oneof(
        someBytes.map((bytes) => ({ format: 'bytes' as const, bytes })),
        anyText.map((text) => ({ format: 'json' as const, text })),
      ),
    }),
    optional: fc.record(
      {
        number: fc.maxSafeNat(),
        milliseconds: fc.integer({ min: 1, max: 999 }),
        expires: fc.nat(),
        metadata: fc.constantFrom({ correlation: 'a' }, { who: 'Zoë', at: [1, 2] }),
        once: fc.record({ client: fc.constantFrom('c', 'Zoë'), mutation: fc.integer({ min: 1 }) }),
      },
      { requiredKeys: [] },
    ),
    position: fc.record({ segment: fc.nat(3), entry: fc.nat(2 ** 32 - 1) }),
    changed: fc.array(fc.tuple(names, attributes.attribute), { maxLength: 2 }),
    missing: fc.subarray([...'SNCTVIBQ'], { maxLength: 2 }),
    order: fc.infiniteStream(fc.nat()),
    isPlain: fc.boolean(),
  })
  .map(({ entry, optional, position, changed, missing, order, isPlain }): StoredItem => {
    const item = encodeEntry({ ...entryAt(LOG, position), ...entry, ...optional });
    const all: [string, StoredAttribute][] = [...Object.entries(item), ...(isPlain ? [] : changed)];
    const present = new Map(all.filter(([name]) => isPlain || !missing.includes(name)));
    const keyed = Array.from(present, (pair) => ({ pair, at: order.next().value ?? 0 }));
    return Object.fromEntries(keyed.sort((a, b) => a.at - b.at).map(({ pair }) => pair));
  });

/** As DynamoDB writes an item. */
function jsonOf(item: StoredItem): string {
  return JSON.stringify(item, (_, value) => (value instanceof Uint8Array ? toBase64(value) : value));
}

function readerOf(json: string): ItemJson {
  return new ItemJson(utf8.encode(json));
}

/** Clears the last bits of Base64, which mean nothing, in the Binaries of DynamoDB JSON. */
function withCleanBase64(name: string, value: unknown): unknown {
  if (typeof value === 'string') return name === 'B' ? toBase64(fromBase64(value) ?? new Uint8Array()) : value;
  if (Array.isArray(value)) return value.map((item) => withCleanBase64(name === 'BS' ? 'B' : '', item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withCleanBase64(key, item)]));
}

/** The result of a function, or the error that it throws. */
function outcome<T>(work: () => T): unknown {
  try {
    return { returned: work() };
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    return { thrown: error.name, message: error.message, advice: error.advice };
  }
}

describe('items', () => {
  test('are read from bytes as they were written, in any order and of every type', () => {
    fc.assert(
      fc.property(fc.array(attributes.item, { maxLength: 3 }), (items) => {
        const json = readerOf(`[${items.map(jsonOf).join()}]`);
        deepStrictEqual(
          json.list(() => storedItems.fromJson(json)),
          items,
        );
        expect(json.at).toBe(json.bytes.length);
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('in another form are refused, never read otherwise than by a general parser', () => {
    const pieces = fc.constantFrom(
      ' ',
      '\n',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      '\\u',
      'S',
      'N',
      'B',
      '=',
      'true',
      '\u0001',
    );
    fc.assert(
      fc.property(attributes.item, fc.nat(), fc.nat(3), pieces, (item, where, removed, piece) => {
        const json = jsonOf(item);
        const at = where % (json.length + 1);
        const changed = `${json.slice(0, at)}${piece}${json.slice(at + removed)}`;
        const reader = readerOf(changed);
        let read: StoredItem;
        try {
          read = reader.item();
        } catch (error) {
          expect(error).toBeInstanceOf(ItemJsonError);
          return;
        }
        const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(reader.bytes.subarray(0, reader.at));
        deepStrictEqual(parseJson(jsonOf(read)), withCleanBase64('', parseJson(whole)));
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test.each([
    ['white space', '{"a": {"S":"x"}}'],
    ['two types', '{"a":{"S":"x","N":"1"}}'],
    ['no type', '{"a":{}}'],
    ['an unknown type', '{"a":{"Z":"x"}}'],
    ['a number that is not a string', '{"a":{"N":1}}'],
    ['Base64 without padding', '{"a":{"B":"AAA"}}'],
    ['Base64 with other characters', '{"a":{"B":"AA_="}}'],
    ['Base64 with padding inside', '{"a":{"B":"A===AAAA"}}'],
    ['an unfinished string', '{"a":{"S":"x'],
    ['a raw control character', '{"a":{"S":"\u0007"}}'],
    ['a bad escape', '{"a":{"S":"\\x"}}'],
    ['a comma at the end', '{"a":{"S":"x"},}'],
    ['more than 64 levels', `${'{"a":{"M":'.repeat(80)}{}${'}}'.repeat(80)}`],
  ])('with %s are refused', (_, json) => {
    expect(() => readerOf(json).item()).toThrow(ItemJsonError);
  });

  test('with bytes that are not UTF-8 are refused', () => {
    const bytes = utf8.encode('{"a":{"S":"x"}}');
    bytes[bytes.indexOf(0x78)] = 0xff;
    expect(() => new ItemJson(bytes).item()).toThrow(ItemJsonError);
  });

  test('may follow values of any kind that are skipped', () => {
    fc.assert(
      fc.property(fc.jsonValue(), attributes.item, (value, item) => {
        const json = readerOf(`[${JSON.stringify(value)},${jsonOf(item)}]`);
        json.at = 1;
        json.skip();
        json.expect(0x2c);
        deepStrictEqual(json.item(), item);
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

describe('entries', () => {
  test('are read from bytes as from items, with the same errors, word for word', () => {
    fc.assert(
      fc.property(fc.array(entryItem, { maxLength: 4 }), (items) => {
        const decoder = entryDecoder();
        for (const item of items) {
          const json = readerOf(`${jsonOf(item)},`);
          deepStrictEqual(
            outcome(() => decoder.fromJson(json)),
            outcome(() => decodeEntry(item)),
          );
        }
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('leave the reader after their item, whatever its form', () => {
    const common = jsonOf(encodeEntry(entryAt(LOG, { segment: 0, entry: 1 })));
    const other = jsonOf({ ...encodeEntry(entryAt(LOG, { segment: 0, entry: 2 })), B: { M: { a: { N: '1' } } } });
    const json = readerOf(`[${common},${other},${common}]`);
    const decoder = entryDecoder();
    const numbers = json.list(() => decoder.fromJson(json)).map(({ position }) => position.entry);
    expect(numbers).toEqual([1, 2, 1]);
    expect(json.at).toBe(json.bytes.length);
  });

  test('keep their places if one answer has several segments', () => {
    const items = [0, 1, 0].map((segment) => encodeEntry(entryAt(LOG, { segment, entry: segment + 5 })));
    const decoder = entryDecoder();
    const places = items.map((item) => decoder.fromJson(readerOf(jsonOf(item))));
    expect(places.map(({ log, position }) => [log, position.segment, position.entry])).toEqual([
      [LOG, 0, 5],
      [LOG, 1, 6],
      [LOG, 0, 5],
    ]);
  });

  test('keep their bodies when later entries are read', () => {
    const bodies = Array.from({ length: 300 }, (_, i) => new Uint8Array(i * 40).fill(i));
    const decoder = entryDecoder();
    const read = bodies.map((bytes, entry) => {
      const item = encodeEntry({ ...entryAt(LOG, { segment: 0, entry }), body: { format: 'bytes', bytes } });
      return decoder.fromJson(readerOf(jsonOf(item))).body;
    });
    deepStrictEqual(
      read,
      bodies.map((bytes) => ({ format: 'bytes', bytes })),
    );
  });

  test('keep little memory if their answer is short', () => {
    const item = { ...encodeEntry(entryAt(LOG, { segment: 0, entry: 0 })), I: { B: new Uint8Array(16) } };
    const { id } = entryDecoder().fromJson(readerOf(jsonOf(item)));
    expect(id?.buffer.byteLength).toBeLessThanOrEqual(256);
  });

  test('are read from the bytes of the current answer, also if these overwrite the bytes before', () => {
    const decoder = entryDecoder();
    const items = [1, 2].map((segment) => encodeEntry(entryAt(LOG, { segment, entry: 0 })));
    const texts = items.map((item) => Buffer.from(jsonOf(item)));
    const bytes = Buffer.alloc(texts[0]?.length ?? 0);
    const read = texts.map((text) => {
      bytes.set(text);
      return decoder.fromJson(new ItemJson(bytes));
    });
    deepStrictEqual(read, items.map(decodeEntry));
  });

  test('with a bad attribute name their place in the error', () => {
    const item = { ...encodeEntry(entryAt(LOG, { segment: 2, entry: 7 })), V: { N: '-1' } };
    expect(() => entryDecoder().fromJson(readerOf(jsonOf(item)))).toThrow(ItemInvalidError);
    expect(() => entryDecoder().fromJson(readerOf(jsonOf(item)))).toThrow(`${LOG}`);
  });
});

test('Base64 in bytes is decoded like Base64 in text', () => {
  const digits = fc.string({ unit: fc.constantFrom(...'AZaz09+/=_ é'), maxLength: 12 });
  fc.assert(
    fc.property(fc.oneof(someBytes.map(toBase64), digits), (text) => {
      const json = readerOf(JSON.stringify(text));
      let read: Uint8Array | undefined;
      try {
        read = json.binary();
      } catch (error) {
        expect(error).toBeInstanceOf(ItemJsonError);
      }
      expect(read).toEqual(fromBase64(text));
    }),
    { numRuns: propertyRuns(500) },
  );
});
