import { deepStrictEqual } from 'node:assert';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { decodeBody, encodeBody } from '../../src/log/body.ts';
import type { Entry, EntryMetadata, StoredBody } from '../../src/log/entry.ts';
import { decodeEntry, decodeSegment, encodeEntry, encodeSegment } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { copyMetadata, MAX_METADATA_BYTES, storableMetadata } from '../../src/log/metadata.ts';
import type { Expiry, Segment } from '../../src/log/segment.ts';
import { archiveKey } from '../../src/store/keys.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { expired, expiring, lastAt, ON_HOLD } from '../support/segments.ts';

const number32 = fc.nat(2 ** 32 - 1);
const seconds = fc.nat(Number.MAX_SAFE_INTEGER);
const logId: fc.Arbitrary<LogId> = fc.uuid().map(parseLogId);
// fast-check varies the buffers of byte arrays. Only the bytes count here.
const someBytes = fc.uint8Array().map((bytes) => Uint8Array.from(bytes));
const text = fc.string({ unit: 'grapheme' });
const positiveZero = (number: number) => (Object.is(number, -0) ? 0 : number);
const beyond53 = fc.oneof(
  fc.bigInt({ min: 2n ** 53n + 1n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: -(2n ** 63n), max: -(2n ** 53n) - 1n }),
);

/** Values of all kinds, with numbers and dates that the format can represent. */
function values(scalars: readonly fc.Arbitrary<Value>[]): fc.Arbitrary<Value> {
  const keys = fc.oneof(text, fc.constantFrom('__proto__', 'constructor', 'toJSON', 'length'));
  return fc.letrec<{ value: Value }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      ...scalars,
      fc.array(tie('value')),
      fc.array(fc.tuple(keys, tie('value'))).map((entries): Value => Object.fromEntries(entries)),
    ),
  })).value;
}

const common: readonly fc.Arbitrary<Value>[] = [
  fc.constant(null),
  fc.boolean(),
  text,
  someBytes,
  beyond53,
  fc.integer(),
];
const messagePack = values([
  ...common,
  fc.double().map(positiveZero),
  // Up to the year 9999, with milliseconds before 1970 too.
  fc.date({ noInvalidDate: true, min: new Date('0001-01-01'), max: new Date('9999-12-31') }),
]);
const nativeNumber = fc
  .double({ noNaN: true, noDefaultInfinity: true, min: -1e120, max: 1e120 })
  .filter((number) => Math.abs(number) > 1e-120 && !(Number.isInteger(number) && Math.abs(number) > 2 ** 53));
const nativeValues = values([...common, nativeNumber]);
const native = nativeValues.filter(
  (value) => value !== null && typeof value !== 'string' && !(value instanceof Uint8Array),
);

const body: fc.Arbitrary<StoredBody> = fc.oneof(
  someBytes.map((bytes): StoredBody => ({ format: 'bytes', bytes })),
  text.map((json): StoredBody => ({ format: 'json', text: json })),
  native.map((value): StoredBody => ({ format: 'native', value })),
);
const names = fc.oneof(
  text.filter((name) => name !== ''),
  fc.constantFrom('__proto__', 'constructor', 'toJSON'),
);
const metadata = fc
  .tuple(
    fc.record({ correlation: text, causation: text }, { requiredKeys: [], noNullPrototype: true }),
    fc.array(fc.tuple(names, nativeValues), { maxLength: 4 }),
  )
  .map(([ids, free]): EntryMetadata => ({ ...Object.fromEntries(free), ...ids }))
  .filter((given) => Object.keys(given).length > 0);
const place = fc.oneof(
  fc.constant({}),
  body.map((stored) => ({ body: stored })),
  fc.string({ minLength: 1 }).map((external) => ({ external })),
);
const entry: fc.Arbitrary<Entry> = fc
  .record(
    {
      log: logId,
      position: fc.record({ segment: number32, entry: number32 }, { noNullPrototype: true }),
      created: seconds,
      type: fc.string({ minLength: 1 }),
      version: seconds,
      id: fc.uint8Array({ minLength: 1, maxLength: 16 }).map((bytes) => Uint8Array.from(bytes)),
      metadata,
      milliseconds: fc.integer({ min: 1, max: 999 }),
      number: seconds,
      once: fc.record(
        {
          client: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
          mutation: fc.maxSafeNat().map((n) => n || 1),
        },
        { noNullPrototype: true },
      ),
      expires: seconds,
    },
    { requiredKeys: ['log', 'position', 'created', 'type', 'version'], noNullPrototype: true },
  )
  .chain((base) => place.map((where) => ({ ...base, ...where })));
const expiry: fc.Arbitrary<Expiry> = fc.oneof(
  seconds.map(expiring),
  fc.tuple(seconds, seconds).map(([at, entries]) => expired(at, entries)),
  fc.constant(ON_HOLD),
);
const schedule = fc.record(
  { first: seconds, items: fc.integer({ min: 1, max: 2 ** 31 - 1 }), snapshotEvery: fc.integer({ min: 1 }) },
  { noNullPrototype: true },
);
const segment: fc.Arbitrary<Segment> = fc
  .record(
    { log: logId, segment: number32, created: seconds, last: number32, expiry, schedule },
    { requiredKeys: ['log', 'segment', 'created'], noNullPrototype: true },
  )
  .map(({ last, ...bare }) => ({
    ...bare,
    ...(last !== undefined && { lastSnapshot: lastAt(bare.segment, last) }),
  }));
const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Uint8Array.from(bytes));
const upload = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 32, maxLength: 32 });
const archivedSegment: fc.Arbitrary<Segment> = fc
  .record({ segment, hash, upload }, { noNullPrototype: true })
  .map(({ segment: bare, hash, upload }) => ({
    ...bare,
    archive: { key: archiveKey(bare.log, bare.segment, upload), hash },
  }));

test('every entry is read back from its item', () => {
  fc.assert(
    fc.property(entry, (given) => {
      deepStrictEqual(decodeEntry(encodeEntry(given)), given);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('metadata is refused, or read back as its writer folds it', () => {
  const log = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');
  const position = { segment: 0, entry: 1 };
  fc.assert(
    fc.property(fc.dictionary(text, messagePack), (given) => {
      let stored: EntryMetadata | undefined;
      try {
        stored = storableMetadata(log, given);
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^(USAGE|VALUE_UNSUPPORTED|TOO_LARGE)$/), log });
        return;
      }
      const item = encodeEntry({ log, position, created: 1, type: 'Set', version: 1, metadata: stored });
      deepStrictEqual(decodeEntry(item).metadata, stored);
      expect(itemBytes({ M: item.M })).toBeLessThanOrEqual(MAX_METADATA_BYTES);
    }),
    { numRuns: propertyRuns(1000) },
  );
});

/** The objects within a value, and their buffers. */
function objectsIn(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value, ...(value instanceof Uint8Array ? [value.buffer] : Object.values(value).flatMap(objectsIn))];
}

test('a copy of metadata equals it and shares no object with it', () => {
  fc.assert(
    fc.property(metadata, (given) => {
      const copy = copyMetadata(given);
      deepStrictEqual(copy, given);
      const objects = new Set(objectsIn(given));
      expect(objectsIn(copy).filter((object) => objects.has(object))).toEqual([]);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('every segment is read back from its item', () => {
  fc.assert(
    fc.property(fc.oneof(segment, archivedSegment), (given) => {
      deepStrictEqual(decodeSegment(encodeSegment(given)), given);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('every value is read back from its MessagePack', () => {
  fc.assert(
    fc.property(messagePack, (value) => {
      deepStrictEqual(decodeBody({ format: 'bytes', bytes: encodeBody(value) }), value);
    }),
    { numRuns: propertyRuns(1000) },
  );
});

test('every JSON text of more than one byte is recognized as JSON', () => {
  fc.assert(
    fc.property(
      fc.json().filter((json) => json.length > 1),
      (json) => {
        const bytes = new TextEncoder().encode(json);
        deepStrictEqual(decodeBody({ format: 'bytes', bytes }), JSON.parse(json));
      },
    ),
  );
});

test('arbitrary bytes decode or are refused as undecodable', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 60 }), (bytes) => {
      try {
        encodeBody(decodeBody({ format: 'bytes', bytes: Uint8Array.from(bytes) }));
      } catch (error) {
        expect(error).toMatchObject({ code: 'BODY_UNDECODABLE' });
      }
    }),
    { numRuns: propertyRuns(3000) },
  );
});
