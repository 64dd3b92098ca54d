import fc from 'fast-check';
import { Unpackr } from 'msgpackr';
import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { ByteReader, decodeValue, readValue, skipValue } from '../../src/codec/message-pack.ts';
import { MAX_VALUE_DEPTH, type Value } from '../../src/codec/value.ts';
import { ChunkCorruptError, ValueUnsupportedError } from '../../src/errors.ts';
import { damaged, truncations } from '../support/damage.ts';
import { asRead, keysReversed, nested, values } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** Bytes that resemble MessagePack more often than random bytes do. */
const almostValues = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  values.map(encodeValue).filter(isShort).chain(damaged),
);

function isShort(bytes: Uint8Array): boolean {
  return bytes.length < 2000;
}

/**
 * The offset at which a read ends; undefined if the bytes are corrupt. The test fails on any other
 * error.
 */
function endOf(bytes: Uint8Array, read: (reader: ByteReader) => unknown): number | undefined {
  const reader = new ByteReader(bytes);
  try {
    read(reader);
    return reader.offset;
  } catch (error) {
    if (error instanceof ChunkCorruptError) return undefined;
    throw error;
  }
}

describe('the canonical encoding', () => {
  test('every value is read back', () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(decodeValue(encodeValue(value))).toEqual(asRead(value));
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('equal values have equal bytes, regardless of the order of keys', () => {
    fc.assert(
      fc.property(values, (value) => {
        const bytes = toHex(encodeValue(value));
        expect(toHex(encodeValue(keysReversed(value)))).toBe(bytes);
        expect(toHex(encodeValue(decodeValue(encodeValue(value))))).toBe(bytes);
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('another MessagePack library reads the same value', () => {
    const other = new Unpackr({ useRecords: false, mapsAsObjects: false });
    const plain = (read: unknown): unknown => {
      if (read instanceof Map) return Object.fromEntries([...read].map(([key, item]) => [key, plain(item)]));
      if (Array.isArray(read)) return read.map(plain);
      if (typeof read === 'bigint') return asRead(read);
      return read instanceof Uint8Array ? Uint8Array.from(read) : read;
    };
    fc.assert(
      fc.property(values, (value) => {
        expect(plain(other.unpack(encodeValue(value)))).toEqual(asRead(value));
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test.each<[string, unknown]>([
    ['undefined', undefined],
    ['a function', () => 0],
    ['a symbol', Symbol('x')],
    ['an instance of a class', new Map()],
    ['undefined in an object', { a: undefined }],
    ['a hole in an array', new Array(1)],
    ['an invalid date', new Date(Number.NaN)],
    ['an integer of 65 bits', 2n ** 64n],
    ['a negative integer of 65 bits', -(2n ** 63n) - 1n],
    ['a lone high surrogate', 'a\ud800'],
    ['a lone low surrogate', '\udc00 and more'],
    ['a lone surrogate in a long string', `${'x'.repeat(100)}\udfff`],
    ['a lone surrogate in a key', { '\ud83d': 1 }],
    ['nesting that is too deep', nested(MAX_VALUE_DEPTH + 1)],
  ])('encodeValue refuses %s', (_, value) => {
    expect(() => encodeValue(value as Value)).toThrow(ValueUnsupportedError);
  });

  test('values of the maximum depth are read back, with bytes and dates at the bottom', () => {
    for (const bottom of [[], {}, 'text', Uint8Array.of(1, 2), new Date(1)]) {
      let value: Value = bottom;
      const levels = Array.isArray(bottom) || bottom.constructor === Object ? MAX_VALUE_DEPTH - 1 : MAX_VALUE_DEPTH;
      for (let level = 0; level < levels; level++) value = [value];
      expect(decodeValue(encodeValue(value))).toEqual(value);
      expect(() => encodeValue([value])).toThrow(ValueUnsupportedError);
    }
  });
});

test('decoded bytes are plain copies, even if they are read from a Buffer', () => {
  const stored = Buffer.from(encodeValue([Uint8Array.of(1, 2, 3)]));
  const read = decodeValue(stored);
  stored.fill(0);
  expect(read).toStrictEqual([Uint8Array.of(1, 2, 3)]);
});

describe('reading damaged bytes', () => {
  test('a read gives a value or an error, and skipping ends at the same offset', () => {
    fc.assert(
      fc.property(almostValues, (bytes) => {
        const end = endOf(bytes, (reader) => readValue(reader));
        const skipped = endOf(bytes, skipValue);
        if (end !== undefined) expect(skipped).toBe(end);
        if (end !== bytes.length) expect(() => decodeValue(bytes)).toThrow(ChunkCorruptError);
      }),
      { numRuns: propertyRuns(3000) },
    );
  });

  test('every truncated value is corrupt', () => {
    fc.assert(
      fc.property(values.map(encodeValue).filter(isShort), (bytes) => {
        for (const beginning of truncations(bytes)) {
          expect(endOf(beginning, (reader) => readValue(reader))).toBeUndefined();
          expect(endOf(beginning, skipValue)).toBeUndefined();
        }
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test.each([
    ['an array that claims 2^32 - 1 items', [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ['a map that claims 2^32 - 1 items', [0xdf, 0xff, 0xff, 0xff, 0xff]],
    ['bytes that claim to be 4 GB', [0xc6, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]],
    ['a string that claims to be 4 GB', [0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]],
    ['a string that is not UTF-8', [0xa2, 0xc3, 0x28]],
    ['a string with an encoded surrogate', [0xa3, 0xed, 0xa0, 0x80]],
    ['the unused tag', [0xc1]],
    ['a number as key of a map', [0x81, 0x01, 0x02]],
    ['an extension of an unknown type', [0xd6, 0x05, 0, 0, 0, 0]],
    ['an extension of a length that timestamps do not have', [0xc7, 3, 0xff, 0, 0, 0]],
    ['a timestamp with more than a second of nanoseconds', [0xd7, 0xff, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0]],
    ['a timestamp beyond all dates', [0xc7, 12, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]],
    ['a reference to a value elsewhere', [0xc7, 32, 1, ...new Uint8Array(32)]],
    ['a value with bytes after its end', [0xc0, 0xc0]],
    ['an empty array of bytes', []],
  ])('%s is corrupt', (_, bytes) => {
    expect(() => decodeValue(Uint8Array.from(bytes))).toThrow(ChunkCorruptError);
  });

  test('the decoder stops at the maximum depth, regardless of the depth of the bytes', () => {
    expect(decodeValue(encodeValue(nested(MAX_VALUE_DEPTH)))).toEqual(nested(MAX_VALUE_DEPTH));
    for (const levels of [MAX_VALUE_DEPTH + 1, 1_000_000]) {
      const arrays = new Uint8Array(levels + 1).fill(0x91);
      arrays[levels] = 0xc0;
      expect(() => decodeValue(arrays)).toThrow(ChunkCorruptError);
      expect(endOf(arrays, skipValue)).toBe(levels + 1);
    }
  });
});

test('bytes with too many items for the memory limit are refused', () => {
  const bytes = new Uint8Array(5 + 10_000_000).fill(0x90);
  bytes.set([0xdd, 0x00, 0x98, 0x96, 0x80]);
  expect(() => decodeValue(bytes)).toThrow('bytes of memory');
});
