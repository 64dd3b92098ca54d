import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { decodeArchiveIndex, encodeArchiveIndex, skippableFrame } from '../../src/archive/archive-index.ts';
import { decodeItemLine } from '../../src/archive/item-line.ts';
import { openArchive } from '../../src/archive/reader.ts';
import { encodeSeekTable } from '../../src/archive/seek-table.ts';
import { writeArchive } from '../../src/archive/writer.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { textLogId } from '../../src/ids/log-id.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { decodeEntry, encodeEntry } from '../../src/log/item-codec.ts';
import { withMilliseconds } from '../../src/log/meaning.ts';
import { parseMapping } from '../../src/mapping/schema-mapping.ts';
import { itemTime, toEntryItem } from '../../src/mapping/translate.ts';
import { allItems, FIRST_SEGMENT, joined, linesOf, partsOfItems, storeArchive, written } from '../support/archives.ts';
import {
  expectGoldenBytes,
  expectGoldenText,
  readGoldenBytes,
  readGoldenText,
  updateGoldenBytes,
} from '../support/golden.ts';
import { entryAt, LOG } from '../support/logs.ts';
import { ORDERS_DOCUMENT } from '../support/orders.ts';

const PLATFORM = nativePlatform;
const TIMED_ORDERS = parseMapping({ ...ORDERS_DOCUMENT, time: { name: 'at', format: 'iso' } });

/**
 * An entry of each kind: bytes, JSON, native, external, no body, foreign attributes, expiry,
 * snapshot, end.
 */
const ITEMS: readonly Item[] = [
  itemAt(0),
  itemAt(1, { body: { format: 'json', text: '["Łódź",1]\n' } }),
  {
    ...itemAt(2),
    B: { M: { z: { N: '1E+2' }, a: { L: [{ NULL: true }, { BOOL: false }, { B: Uint8Array.of(255) }] } } },
  },
  itemAt(3, { body: undefined, external: `logs/${LOG}/bodies/${'ab'.repeat(32)}-0123456789ab` }),
  itemAt(4, { body: undefined, expires: 1_732_104_000 }),
  {
    ...itemAt(5),
    texts: { SS: ['b', 'a'] },
    numbers: { NS: ['9', '10'] },
    binaries: { BS: [Uint8Array.of(2, 1), Uint8Array.of(1)] },
  },
  itemAt(6, { type: RESERVED_TYPES.snapshot, body: { format: 'bytes', bytes: Uint8Array.of(1, 2, 3) } }),
  itemAt(7, { type: RESERVED_TYPES.endSegment, body: undefined }),
];
const LEFT = ITEMS.map(({ X: _, ...item }) => item);

/** Entries with the attributes that older releases did not write: metadata, numbers, mutations. */
const NEWER_ITEMS: readonly Item[] = [
  itemAt(0, { type: RESERVED_TYPES.snapshot, body: undefined, number: 0 }),
  itemAt(1, {
    number: 1,
    metadata: { causation: '0/0', correlation: 'order-7', steps: [1, 2.5, null, { b: true, a: 2n ** 60n }] },
  }),
  itemAt(2, { number: 2, once: { client: 'łaptop', mutation: 7 }, body: undefined }),
  itemAt(3, { type: RESERVED_TYPES.endSegment, body: undefined, number: 2 }),
];

const FILES = ['cd', 'ef'].map((byte) => `logs/${LOG}/bodies/${byte.repeat(32)}-0123456789ab`);
/** Entries with files. */
const FILE_ITEMS: readonly Item[] = [
  itemAt(1, { type: 'Import', file: FILES[0], number: 1 }),
  {
    ...itemAt(2, { type: 'Import', file: FILES[1], number: 2 }),
    B: { M: { format: { S: 'csv' } } },
  },
];

function itemAt(entry: number, overrides: Parameters<typeof entryAt>[2] = {}): Item {
  return encodeEntry(entryAt(LOG, { segment: 0, entry }, overrides));
}

async function itemsOf(bytes: Uint8Array, hash: Uint8Array): Promise<Item[]> {
  const blobs = new MemoryBlobStore();
  const segment = await storeArchive(blobs, { bytes, hash });
  return allItems((await openArchive({ blobs, platform: PLATFORM }, segment)).items(0, ITEMS.length));
}

test('the lines are encoded and decoded as in the golden file', async () => {
  const lines = new TextDecoder().decode(linesOf(LEFT));
  await expectGoldenText('archive.lines.ndjson', lines);
  const read = (await readGoldenText('archive.lines.ndjson')).trimEnd().split('\n').map(decodeItemLine);
  expect(linesOf(read)).toEqual(linesOf(LEFT));
  expect(read).toHaveLength(ITEMS.length);
  expect(read[2]).toEqual(LEFT[2]);
});

test('metadata, numbers and mutations are encoded and decoded as in the golden file', async () => {
  const lines = new TextDecoder().decode(linesOf(NEWER_ITEMS));
  await expectGoldenText('archive.newer.ndjson', lines);
  const read = (await readGoldenText('archive.newer.ndjson')).trimEnd().split('\n').map(decodeItemLine);
  expect(read.map(decodeEntry).map(encodeEntry)).toEqual(NEWER_ITEMS);
});

test('entries with files are encoded and decoded as in the golden file', async () => {
  await expectGoldenText('archive.files.ndjson', new TextDecoder().decode(linesOf(FILE_ITEMS)));
  const read = (await readGoldenText('archive.files.ndjson')).trimEnd().split('\n').map(decodeItemLine);
  expect(read.map((item) => decodeEntry(item).file)).toEqual(FILES);
  expect(read.map(decodeEntry).map(encodeEntry)).toEqual(FILE_ITEMS);
});

test('the index and its hash are those of the golden files', async () => {
  const index = encodeArchiveIndex(partsOfItems(LEFT, 3).index);
  await expectGoldenBytes('archive.index.hex', index);
  await expectGoldenText('archive.hash.txt', `${toHex(PLATFORM.sha256(index))}\n`);
});

test('the index of a mapped log is that of the golden file, and states the mapping', async () => {
  const mapping = 'ab'.repeat(32);
  const index = { ...partsOfItems(LEFT, 3).index, mapping };
  await expectGoldenBytes('archive-mapped.index.hex', encodeArchiveIndex(index));
  expect(decodeArchiveIndex(await readGoldenBytes('archive-mapped.index.hex'))).toEqual(index);
  expect(decodeArchiveIndex(await readGoldenBytes('archive.index.hex')).mapping).toBeUndefined();
});

/** Items of an application, whose times have milliseconds. */
const ORDER_ITEMS: readonly StoredItem[] = [
  { at: { S: '2024-11-20T12:00:00.123Z' }, payload: { L: [{ N: '1' }] } },
  { at: { S: '2024-11-20T12:00:00.999+01:00' }, payload: { S: 'Łódź' }, P: { N: '7' }, meta: { M: {} } },
].map((item, i) => {
  const keys = { pk: { S: 'order#7' }, sk: { N: String(i) }, type: { S: 'Set' } };
  const place = { log: textLogId('7'), position: { segment: 0, entry: i }, index: i };
  return toEntryItem(TIMED_ORDERS, { ...keys, ...item }, place);
});

test('the lines of a mapped log are those of the golden file, which earlier releases wrote too', async () => {
  async function* pages() {
    yield ORDER_ITEMS;
  }
  const of = { log: textLogId('7'), segment: 0, mapping: 'ab'.repeat(32), endSegment: 'Set' };
  const [frame = new Uint8Array()] = await Array.fromAsync(writeArchive(PLATFORM, of, pages()));
  const lines = new TextDecoder().decode(PLATFORM.decompress(frame, 10_000));
  await expectGoldenText('archive-mapped.lines.ndjson', lines);
  const read = (await readGoldenText('archive-mapped.lines.ndjson')).trimEnd().split('\n').map(decodeItemLine);
  expect(read.map((item) => withMilliseconds(item, itemTime(TIMED_ORDERS)))).toEqual(ORDER_ITEMS);
});

// The sizes are fixed, since another version of Zstandard may compress to other sizes.
test('the seek table is that of the golden file', async () => {
  const sizes = [
    { stored: 300, content: 1000 },
    { stored: 65_537, content: 1_000_001 },
    { stored: 180, content: 0 },
  ];
  await expectGoldenBytes('archive.seek-table.hex', encodeSeekTable(sizes));
});

describe('a whole archive', () => {
  test('the stored archive of three frames opens', async () => {
    const { bytes } = joined(partsOfItems(LEFT, 3));
    await updateGoldenBytes('archive.stored.hex', bytes);
    const hash = (await readGoldenText('archive.hash.txt')).trim();
    const read = await itemsOf(await readGoldenBytes('archive.stored.hex'), Uint8Array.from(Buffer.from(hash, 'hex')));
    expect(linesOf(read)).toEqual(linesOf(LEFT));
  });

  test('an archive has the lines, then the index, then the seek table', async () => {
    const { pieces, archive } = await written(ITEMS);
    const { index } = partsOfItems(LEFT, ITEMS.length);
    const [frame = new Uint8Array(), ...rest] = pieces;
    const indexFrame = skippableFrame(encodeArchiveIndex(index));
    const sizes = [
      { stored: frame.length, content: index.bytes },
      { stored: indexFrame.length, content: 0 },
    ];
    expect(PLATFORM.decompress(frame, index.bytes)).toEqual(Buffer.from(linesOf(LEFT)));
    expect(rest).toEqual([indexFrame, encodeSeekTable(sizes)]);
    const bytes = Uint8Array.from(Buffer.concat(pieces));
    expect(linesOf(await itemsOf(bytes, archive.hash))).toEqual(linesOf(LEFT));
    expect(index).toMatchObject({ ...FIRST_SEGMENT, entries: ITEMS.length, firsts: [0] });
  });
});
