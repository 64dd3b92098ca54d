import { deepStrictEqual } from 'node:assert';
import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import {
  type ArchiveIndex,
  decodeArchiveIndex,
  encodeArchiveIndex,
  skippableContent,
  skippableFrame,
} from '../../src/archive/archive-index.ts';
import type { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { type Archive, openArchive } from '../../src/archive/reader.ts';
import { decodeSeekTable, encodeSeekTable, type SeekEntry, seekTableBytesOf } from '../../src/archive/seek-table.ts';
import { sameEntry } from '../../src/archive/verify-archive.ts';
import { withoutExpiry } from '../../src/archive/writer.ts';
import { fromBase64, toBase64 } from '../../src/codec/bytes.ts';
import { ArchiveCorruptError, LogfoldError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import type { AttributeValue, Item } from '../../src/log/attribute.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { decodeEntry, encodeEntry, entryKey, HASH_BYTES } from '../../src/log/item-codec.ts';
import type { LogReader, LogStore, TableReader } from '../../src/log/log-store.ts';
import { type EntryRange, readEntries } from '../../src/log/read-entries.ts';
import {
  allItems,
  batches,
  FIRST_SEGMENT,
  joined,
  keyOf,
  linesOf,
  partsOf,
  partsOfItems,
  segmentItems,
  storeArchive,
  written,
} from '../support/archives.ts';
import { damaged } from '../support/damage.ts';
import { allEntries, entryAt, LOG, NOON, recordRequests } from '../support/logs.ts';
import { texts } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { testDeployment } from '../support/test-deployment.ts';

const number32 = fc.nat(2 ** 32 - 1);
// fast-check varies the buffers of byte arrays. Only the bytes count here.
const someBytes = fc.uint8Array({ maxLength: 40 }).map((bytes) => Uint8Array.from(bytes));
const numbers = fc.oneof(
  fc.integer().map(String),
  fc.constantFrom('0', '-1.5', '1E+125', '9.9999999999999999999999999999999999999', `1${'0'.repeat(125)}`),
);
const names = fc.oneof(texts, fc.constantFrom('__proto__', '10', '9', '', 'constructor', 'toJSON', '\u2028', 'Łódź'));
const sets = <T>(member: fc.Arbitrary<T>, name: (member: T) => string): fc.Arbitrary<T[]> =>
  fc.uniqueArray(member, { minLength: 1, maxLength: 5, selector: name });

const { attribute, item } = fc.letrec<{ attribute: AttributeValue; item: Item }>((tie) => ({
  attribute: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    texts.map((S) => ({ S })),
    numbers.map((N) => ({ N })),
    someBytes.map((B) => ({ B })),
    fc.boolean().map((BOOL) => ({ BOOL })),
    fc.constant<AttributeValue>({ NULL: true }),
    sets(texts, String).map((SS) => ({ SS })),
    sets(numbers, String).map((NS) => ({ NS })),
    sets(someBytes, toBase64).map((BS) => ({ BS })),
    fc.array(tie('attribute'), { maxLength: 5 }).map((L) => ({ L })),
    tie('item').map((M) => ({ M })),
  ),
  item: fc.array(fc.tuple(names, tie('attribute')), { maxLength: 5 }).map((entries) => Object.fromEntries(entries)),
}));

/** The same item with its sets in the order of the line: numbers and bytes by their text. */
function ordered(value: Item): Item {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, orderedAttribute(member)]));
}

function orderedAttribute(value: AttributeValue): AttributeValue {
  if ('SS' in value) return { SS: value.SS.toSorted() };
  if ('NS' in value) return { NS: value.NS.toSorted() };
  if ('BS' in value) {
    const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
    return { BS: value.BS.toSorted((a, b) => (text(a) < text(b) ? -1 : 1)) };
  }
  if ('L' in value) return { L: value.L.map(orderedAttribute) };
  return 'M' in value ? { M: ordered(value.M) } : value;
}

/** The same item with attributes, keys and members of sets in reverse order. */
function turned(value: Item): Item {
  const entries = Object.entries(value).toReversed();
  return Object.fromEntries(entries.map(([name, member]) => [name, turnedAttribute(member)]));
}

function turnedAttribute(value: AttributeValue): AttributeValue {
  if ('SS' in value) return { SS: value.SS.toReversed() };
  if ('NS' in value) return { NS: value.NS.toReversed() };
  if ('BS' in value) return { BS: value.BS.toReversed() };
  if ('L' in value) return { L: value.L.map(turnedAttribute) };
  return 'M' in value ? { M: turned(value.M) } : value;
}

describe('a line', () => {
  test('a line decodes to its item, with sets in order', () => {
    fc.assert(
      fc.property(item, (value) => {
        const line = encodeItemLine(value);
        expect(line).not.toMatch(/[\n\r]/);
        deepStrictEqual(decodeItemLine(line), ordered(value));
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('equal items have equal lines, regardless of order', () => {
    fc.assert(
      fc.property(item, (value) => {
        expect(encodeItemLine(turned(value))).toBe(encodeItemLine(value));
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('items with different attributes have different lines', () => {
    fc.assert(
      fc.property(item, names, attribute, attribute, (value, name, a, b) => {
        fc.pre(encodeItemLine({ a }) !== encodeItemLine({ a: b }));
        const [withA, withB] = [a, b].map((member) => Object.fromEntries([...Object.entries(value), [name, member]]));
        expect(encodeItemLine(withA ?? {})).not.toBe(encodeItemLine(withB ?? {}));
      }),
    );
  });

  test('two items count as the same entry if their lines are equal', () => {
    const of = { segment: { ...FIRST_SEGMENT, created: NOON }, types: RESERVED_TYPES };
    fc.assert(
      fc.property(item, names, fc.array(attribute, { maxLength: 2 }), (value, name, others) => {
        const changed = others.map((other) => Object.fromEntries([...Object.entries(value), [name, other]]));
        for (const a of [value, ...changed]) {
          for (const b of [value, turned(value), ...changed]) {
            expect(sameEntry(a, b, of)).toBe(encodeItemLine(a) === encodeItemLine(withoutExpiry(b)));
          }
        }
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test('any text decodes to an item or fails with ArchiveCorruptError', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          texts,
          fc.json().map((json) => `{"Item":${json}}`),
        ),
        (line) => {
          try {
            // A decoded item can be encoded again.
            decodeItemLine(encodeItemLine(decodeItemLine(line)));
          } catch (error) {
            expect(error).toBeInstanceOf(ArchiveCorruptError);
          }
        },
      ),
      { numRuns: propertyRuns(1000) },
    );
  });
});

describe('Base64', () => {
  test('toBase64 agrees with Node, and fromBase64 returns the bytes', () => {
    // Beyond 24 KiB, toBase64 works in pieces.
    const long = fc
      .integer({ min: 24_570, max: 49_160 })
      .map((size) => Uint8Array.from({ length: size }, (_, i) => i * 7));
    fc.assert(
      fc.property(fc.oneof({ weight: 5, arbitrary: fc.uint8Array() }, { weight: 1, arbitrary: long }), (bytes) => {
        const text = toBase64(bytes);
        expect(text).toBe(Buffer.from(bytes).toString('base64'));
        deepStrictEqual(fromBase64(text), Uint8Array.from(bytes));
      }),
    );
  });

  test('fromBase64 refuses other texts', () => {
    for (const text of ['A', 'AA', 'AAA', 'A===', '====', 'AAA=AAAA', 'AA A', 'AAA\n', 'AA-_', 'ÄAAA']) {
      expect(fromBase64(text), text).toBeUndefined();
    }
  });
});

describe('a seek table', () => {
  const table: fc.Arbitrary<SeekEntry[]> = fc.array(fc.record({ stored: number32, content: number32 }), {
    maxLength: 50,
  });

  test('a seek table decodes to its sizes, and its footer gives its length', () => {
    fc.assert(
      fc.property(table, fc.uint8Array(), (entries, before) => {
        const bytes = encodeSeekTable(entries);
        expect(decodeSeekTable(bytes)).toEqual(entries);
        expect(seekTableBytesOf(Uint8Array.from([...before, ...bytes]))).toBe(bytes.length);
      }),
    );
  });

  test('a damaged seek table gives undefined, or a table that encodes to the same bytes', () => {
    const damagedTable = table.chain((entries) => damaged(encodeSeekTable(entries)));
    fc.assert(
      fc.property(fc.oneof(damagedTable, fc.uint8Array()), (bytes) => {
        const entries = decodeSeekTable(bytes);
        if (entries !== undefined) expect(encodeSeekTable(entries)).toEqual(bytes);
      }),
      { numRuns: propertyRuns(500) },
    );
  });
});

describe('an index', () => {
  const index: fc.Arbitrary<ArchiveIndex> = fc
    .record({
      log: fc.uuid().map(parseLogId),
      segment: number32,
      bytes: fc.maxSafeNat(),
      others: fc.uniqueArray(fc.integer({ min: 1, max: 2 ** 32 - 2 }), { maxLength: 20 }),
      more: fc.integer({ min: 1, max: 1000 }),
      fill: fc.nat(255),
    })
    .map(({ log, segment, bytes, others, more, fill }) => {
      const firsts = [0, ...others.toSorted((a, b) => a - b)];
      const hashes = new Uint8Array(firsts.length * HASH_BYTES).fill(fill);
      return { log, segment, entries: (firsts.at(-1) ?? 0) + more, bytes, firsts, hashes };
    });

  test('an index decodes to its fields from its frame', () => {
    fc.assert(
      fc.property(index, (value) => {
        const content = skippableContent(skippableFrame(encodeArchiveIndex(value)));
        deepStrictEqual(decodeArchiveIndex(content ?? new Uint8Array()), value);
      }),
    );
  });

  test('a damaged index gives a valid index or ArchiveCorruptError', () => {
    const damagedIndex = index.chain((value) => damaged(encodeArchiveIndex(value)));
    fc.assert(
      fc.property(fc.oneof(damagedIndex, fc.uint8Array()), (bytes) => {
        try {
          const { firsts, entries, hashes } = decodeArchiveIndex(bytes);
          expect(firsts[0]).toBe(0);
          expect(firsts.every((first, i) => first < (firsts[i + 1] ?? entries))).toBe(true);
          expect(hashes.length).toBe(firsts.length * HASH_BYTES);
        } catch (error) {
          expect(error).toBeInstanceOf(ArchiveCorruptError);
        }
      }),
      { numRuns: propertyRuns(500) },
    );
  });
});

/** A closed segment of small entries and some large ones, two or three of which fill a frame. */
const closedSegment: fc.Arbitrary<Item[]> = fc
  .array(
    fc.record({
      size: fc.oneof(
        { weight: 3, arbitrary: fc.nat(50) },
        { weight: 1, arbitrary: fc.integer({ min: 250_000, max: 390_000 }) },
      ),
      fill: fc.nat(255),
      expires: fc.option(number32, { nil: undefined }),
      foreign: fc.option(fc.record({ owner: attribute }), { nil: {} }),
    }),
    { maxLength: 30, size: 'max' },
  )
  .map((entries) => {
    const items = entries.map(({ size, fill, expires, foreign }, entry) => {
      const body = { format: 'bytes', bytes: new Uint8Array(size).fill(fill) } as const;
      return { ...encodeEntry(entryAt(LOG, { segment: 0, entry }, { body, expires })), ...foreign };
    });
    const end = { type: RESERVED_TYPES.endSegment, body: undefined };
    return [...items, encodeEntry(entryAt(LOG, { segment: 0, entry: items.length }, end))];
  });

/** Two numbers up to `count`, in order. */
function rangeOf(count: number): fc.Arbitrary<[number, number]> {
  return fc.tuple(fc.nat(count), fc.nat(count)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)]);
}

test('an archive returns every range of its entries, without expiry', { tags: ['I3'] }, async () => {
  let several = 0;
  const segments = closedSegment.chain((items) =>
    fc.tuple(
      fc.constant(items),
      fc.array(rangeOf(items.length + 1), { minLength: 3, maxLength: 8 }),
      fc.integer({ min: 1, max: 9 }),
    ),
  );
  await fc.assert(
    fc.asyncProperty(segments, async ([items, ranges, pageItems]) => {
      const { pieces, archive: stated } = await written(items, undefined, pageItems);
      const bytes = Uint8Array.from(Buffer.concat(pieces));
      const blobs = new MemoryBlobStore();
      const segment = await storeArchive(blobs, { bytes, hash: stated.hash });
      const archive = await openArchive({ blobs, platform: nativePlatform }, segment);
      expect(archive.end).toBe(items.length);
      expect(stated).toMatchObject({ entries: items.length, stored: bytes.length, bytes: archive.bytes });
      expect([archive.frames, pieces.length]).toEqual([stated.frames, stated.frames + 2]);
      if (archive.frames > 1) several++;
      const originals = items.map((original) => ordered(decodedAgain(withoutExpiry(original))));
      for (const [from, to] of [...ranges, [0, items.length] as const]) {
        deepStrictEqual(await allItems(archive.items(from, to)), originals.slice(from, to));
      }
    }),
    { numRuns: propertyRuns(100, 20) },
  );
  // The test must cover borders between frames.
  expect(several).toBeGreaterThan(0);
});

/** A copy in the types that the reader returns. */
function decodedAgain(value: ReturnType<typeof withoutExpiry>): Item {
  return decodeItemLine(encodeItemLine(value));
}

/** An archive of frames that hold three entries each, except for the last frame. */
async function archiveOf(contents: readonly Uint8Array[], entries: number): Promise<Archive> {
  const frames = contents.map((content, i) => ({ content, entries: Math.min(3, entries - 3 * i) }));
  const blobs = new MemoryBlobStore();
  return openArchive({ blobs, platform: nativePlatform }, await storeArchive(blobs, joined(partsOf(frames))));
}

/** The result of a call, or all parts of its error that a user sees. */
async function outcome<T>(call: () => T | Promise<T>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    return { ...error, message: error.message, cause: undefined };
  }
}

/** Attributes of an entry: mostly those of a valid one, but each may have any type. */
const entryAttributes: fc.Arbitrary<Item> = (() => {
  const mostly = (valid: fc.Arbitrary<AttributeValue>): fc.Arbitrary<AttributeValue> =>
    fc.oneof({ weight: 30, arbitrary: valid }, { weight: 1, arbitrary: attribute });
  const natural = fc.nat().map((number) => ({ N: String(number) }));
  const binary = someBytes.map((B) => ({ B }));
  return fc.record(
    {
      C: mostly(natural),
      T: mostly(fc.string({ minLength: 1 }).map((S) => ({ S }))),
      V: mostly(natural),
      B: fc.oneof(binary, attribute),
      E: texts.map((S) => ({ S })),
      I: fc.oneof(binary, attribute),
      M: attribute,
      Q: fc.oneof(natural, attribute),
      W: attribute,
      X: mostly(natural),
    },
    { requiredKeys: ['C', 'T', 'V'] },
  );
})();

/** The items of entries, which may have any attributes beside their keys. */
const entryItems: fc.Arbitrary<Item[]> = fc
  .array(fc.tuple(item, entryAttributes), { minLength: 1, maxLength: 10 })
  .map((all) => all.map(([others, own], entry) => ({ ...others, ...own, ...entryKey(LOG, { segment: 0, entry }) })));

function inFrames(items: readonly Item[]): Uint8Array[] {
  return Array.from({ length: Math.ceil(items.length / 3) }, (_, i) => linesOf(items.slice(3 * i, 3 * i + 3)));
}

test('an archive gives the entries of its items, or the same errors, for all attributes', async () => {
  await fc.assert(
    fc.asyncProperty(entryItems, async (given) => {
      const archive = await archiveOf(inFrames(given), given.length);
      const items = given.map((each) => ordered(decodedAgain(each)));
      deepStrictEqual(await allItems(archive.items(0, items.length)), items);
      deepStrictEqual(
        await outcome(() => allItems(archive.entries(0, items.length))),
        await outcome(() => items.map(decodeEntry)),
      );
      const ranges = items.map((_, i) => [i, i + 1] as const);
      for (const [from, to] of [...ranges, [1, items.length - 1] as const]) {
        deepStrictEqual(
          await outcome(() => allItems(archive.entries(from, to))),
          await outcome(() => items.slice(from, Math.max(from, to)).map(decodeEntry)),
        );
      }
    }),
    { numRuns: propertyRuns(1000) },
  );
});

/** Reads a frame of an archive's first entries as docs/format.md says it. */
function itemsOfFrame(content: Uint8Array, entries: number): Item[] {
  const refuse = (reason: string): never => {
    throw new ArchiveCorruptError(reason);
  };
  if (!isUtf8(content)) refuse('a frame is not UTF-8');
  const lines = Buffer.from(content).toString('utf8').split('\n');
  if (lines.pop() !== '' || lines.length !== entries) refuse('a frame has a wrong number of lines');
  return lines.map((line, entry) => {
    const { S, N, ...rest } = decodeItemLine(line);
    const key = entryKey(LOG, { segment: 0, entry });
    if (!isDeepStrictEqual({ S, N }, key)) refuse(`line ${entry + 1} is another entry`);
    return { ...rest, ...key };
  });
}

test('a damaged frame with the right hash gives the items of its lines, or the same errors', async () => {
  const frame = entryItems
    .map((items) => items.slice(0, 3))
    .chain((items) => fc.record({ entries: fc.constant(items.length), content: damaged(linesOf(items)) }));
  await fc.assert(
    fc.asyncProperty(frame, async ({ content, entries }) => {
      const archive = await archiveOf([content], entries);
      const expected = await outcome(() => itemsOfFrame(content, entries));
      const items = await outcome(() => allItems(archive.items(0, entries)));
      const read = await outcome(() => allItems(archive.entries(0, entries)));
      if (Array.isArray(expected)) {
        deepStrictEqual(items, expected);
        deepStrictEqual(read, await outcome(() => expected.map(decodeEntry)));
      } else {
        const { reason } = Object(expected);
        for (const found of [items, read]) {
          expect(found).toMatchObject({ reason: `the archive '${keyOf(FIRST_SEGMENT)}' cannot be read: ${reason}` });
        }
      }
    }),
    { numRuns: propertyRuns(2000) },
  );
});

interface World {
  readonly tables: LogStore;
  readonly store: ArchivedLogStore;
  readonly requests: string[];
  readonly blobs: MeteredBlobStore;
  readonly originals: readonly Entry[];
}

/** A log of two segments: the first is archived with some entries expired, the second is open. */
async function world(count: number, gone: readonly number[], pageItems: number): Promise<World> {
  const items = segmentItems(count);
  const open = segmentItems(4, { log: LOG, segment: 1 }).slice(0, 3);
  const requests: string[] = [];
  const tables = recordRequests(new MemoryLogStore({ pageItems }), requests);
  const blobs = new MeteredBlobStore(new MemoryBlobStore());
  // Frames of three entries give many borders.
  const segment = await storeArchive(blobs, joined(partsOfItems(items, 3)));
  await tables.putSegment(segment);
  await tables.putSegment({ log: LOG, segment: 1, created: NOON });
  for (const batch of batches([...items, ...open])) await tables.putItems(batch);
  for (const batch of batches(gone)) await tables.deleteEntries(LOG, 0, batch);
  requests.length = 0;
  const { store } = testDeployment({ tables, blobs });
  return { tables, store, requests, blobs, originals: [...items, ...open].map(decodeEntry) };
}

const reading = fc.integer({ min: 1, max: 40 }).chain((count) =>
  fc.record({
    count: fc.constant(count),
    gone: fc.oneof(
      fc.uniqueArray(fc.nat(count - 1), { maxLength: count }),
      fc.nat(count).map((first) => Array.from({ length: first }, (_, i) => i)),
      fc.nat(count).map((first) => Array.from({ length: count - first }, (_, i) => first + i)),
    ),
    numbers: rangeOf(count),
    pageItems: fc.integer({ min: 1, max: 9 }),
    rangeEntries: fc.oneof(fc.integer({ min: 2, max: 5 }), fc.constant(undefined)),
    concurrency: fc.integer({ min: 1, max: 4 }),
  }),
);

describe('an archived log store', () => {
  test('readEntries reads every range as if no entry had expired', async () => {
    await fc.assert(
      fc.asyncProperty(reading, async ({ count, gone, numbers: [from, to], pageItems, ...how }) => {
        const { store, originals } = await world(count, gone, pageItems);
        const read = (range: EntryRange): Promise<Entry[]> =>
          allEntries(readEntries({ store, types: RESERVED_TYPES, ...how }, LOG, range));
        const start = { segment: 0, entry: from };
        expect(await read({ from: start, to: { segment: 0, entry: to } })).toEqual(originals.slice(from, to));
        expect(await read({ from: start, to: { segment: 1, entry: 2 } })).toEqual(originals.slice(from, count + 2));
        expect(await read({ from: start, to: 'end' })).toEqual(originals.slice(from));
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('a consistent read returns the whole range, regardless of expired entries', async () => {
    await fc.assert(
      fc.asyncProperty(reading, fc.boolean(), async ({ count, gone, numbers: [from, end], pageItems }, open) => {
        const { store, originals } = await world(count, gone, pageItems);
        const [to, expected] = open
          ? [MAX_NUMBER + 1, originals.slice(from, count)]
          : [end, originals.slice(from, end)];
        const range = { segment: 0, from, to };
        const pages = await Array.fromAsync(store.entries(LOG, range, { consistent: true }));
        expect(pages.flat()).toEqual(expected);
        expect(pages.every((page) => page.length > 0)).toBe(true);
        const items = await allItems(store.items(LOG, range, { consistent: true }));
        expect(items.map(decodeEntry)).toEqual(expected);
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('an eventually consistent read returns a prefix, or the whole range if a gap shows', async () => {
    await fc.assert(
      fc.asyncProperty(reading, async ({ count, gone, numbers: [from], pageItems }) => {
        const { store, originals } = await world(count, gone, pageItems);
        const range = { segment: 0, from, to: MAX_NUMBER + 1 };
        const read = await allEntries(store.entries(LOG, range, { consistent: false }));
        const all = originals.slice(from, count);
        expect(read).toEqual(all.slice(0, read.length));
        const shows = gone.some((number) => number >= from && !gone.includes(number + 1) && number + 1 < count);
        if (shows || gone.includes(from)) expect(read).toEqual(all);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('getEntry finds every entry and no others', async () => {
    await fc.assert(
      fc.asyncProperty(reading, async ({ count, gone, pageItems }) => {
        const { store, originals } = await world(count, gone, pageItems);
        for (const entry of originals) {
          expect(await store.getEntry(LOG, entry.position, { consistent: false })).toEqual(entry);
        }
        const after = { segment: 0, entry: count };
        expect(await store.getEntry(LOG, after, { consistent: true })).toBeUndefined();
        expect(await store.getEntry(LOG, { segment: 2, entry: 0 }, { consistent: true })).toBeUndefined();
      }),
      { numRuns: 50 },
    );
  });

  test('newestEntry returns the last entry if all entries have expired', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), async (count) => {
        const { store, originals } = await world(
          count,
          Array.from({ length: count }, (_, i) => i),
          5,
        );
        const { log, position, type } = originals[count - 1] ?? {};
        expect(await store.newestEntry(LOG, 0, { consistent: true })).toEqual({ log, position, type });
        expect(await store.newestEntry(LOG, 2, { consistent: true })).toBeUndefined();
      }),
      { numRuns: 30 },
    );
  });

  test('a store without expired entries makes the same requests as the tables alone', async () => {
    await fc.assert(
      fc.asyncProperty(reading, async ({ count, numbers: [from, to], pageItems, ...how }) => {
        const { tables, store, requests, blobs } = await world(count, [], pageItems);
        const before = blobs.usage().gets;
        const requestsOf = async (place: LogReader | TableReader): Promise<string[]> => {
          requests.length = 0;
          const start = { segment: 0, entry: from };
          await allEntries(
            readEntries({ store: place, types: RESERVED_TYPES, ...how }, LOG, {
              from: start,
              to: { segment: 0, entry: to },
            }),
          );
          await allEntries(
            readEntries({ store: place, types: RESERVED_TYPES, ...how }, LOG, { from: start, to: 'end' }),
          );
          await place.getEntry(LOG, { segment: 0, entry: count - 1 }, { consistent: false });
          await place.newestEntry(LOG, 0, { consistent: false });
          return [...requests];
        };
        expect(await requestsOf(store)).toEqual(await requestsOf(tables));
        expect(blobs.usage().gets).toBe(before);
      }),
      { numRuns: propertyRuns(100) },
    );
  });
});
