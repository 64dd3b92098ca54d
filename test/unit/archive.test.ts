import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { encodeArchiveIndex, MAX_FRAME_BYTES, skippableFrame } from '../../src/archive/archive-index.ts';
import { RecentFrames } from '../../src/archive/frame-lines.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { type Archive, openArchive } from '../../src/archive/reader.ts';
import { decodeSeekTable, encodeSeekTable, type SeekEntry } from '../../src/archive/seek-table.ts';
import { compareWithArchive, sameEntry, verifyArchive } from '../../src/archive/verify-archive.ts';
import { FRAME_BYTES, writeArchive } from '../../src/archive/writer.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import type { ChunkPlatform } from '../../src/codec/chunk.ts';
import {
  ArchiveCorruptError,
  ArchiveDiffersError,
  ArchiveMissingError,
  EntryGapError,
  TooLargeError,
} from '../../src/errors.ts';
import { logIdBytes } from '../../src/ids/log-id.ts';
import type { AttributeValue, Item, StoredItem } from '../../src/log/attribute.ts';
import { RESERVED_TYPES, ReservedTypes } from '../../src/log/entry.ts';
import { decodeEntry, encodeEntry } from '../../src/log/item-codec.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import type { Segment } from '../../src/log/segment.ts';
import {
  type ArchiveParts,
  allItems,
  FIRST_SEGMENT,
  joined,
  keyOf,
  linesOf,
  partsOf,
  partsOfItems,
  type SegmentOf,
  segmentItems,
  storeArchive,
  written,
} from '../support/archives.ts';
import { withByte } from '../support/damage.ts';
import { entryAt, LOG, NOON, newLogId, recordRequests } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { testDeployment } from '../support/test-deployment.ts';

const platform = nativePlatform;

/** Stores an archive and opens it. */
async function opened(
  archive: { readonly bytes: Uint8Array; readonly hash: Uint8Array },
  of: SegmentOf = FIRST_SEGMENT,
): Promise<{ readonly archive: Archive; readonly blobs: MeteredBlobStore; readonly segment: Segment }> {
  const blobs = new MeteredBlobStore(new MemoryBlobStore());
  const segment = await storeArchive(blobs, archive, of);
  return { archive: await openArchive({ blobs, platform }, segment), blobs, segment };
}

/** All items of an archive. */
async function readAll(archive: { readonly bytes: Uint8Array; readonly hash: Uint8Array }): Promise<Item[]> {
  return allItems((await opened(archive)).archive.items(0, 2 ** 32));
}

/** Asserts that an archive is refused with an error that names its log and segment. */
async function expectCorrupt(reading: Promise<unknown>, of: SegmentOf = FIRST_SEGMENT): Promise<ArchiveCorruptError> {
  const error = await reading.then(
    () => expect.fail('it was read'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ArchiveCorruptError);
  expect(error).toMatchObject({ log: of.log, segment: of.segment, stopsLog: true });
  expect(error).toHaveProperty('message', expect.stringContaining(keyOf(of)));
  if (!(error instanceof ArchiveCorruptError)) throw error;
  return error;
}

/** Replaces the sizes of the seek table. */
function withSizes(parts: ArchiveParts, change: (sizes: SeekEntry[]) => readonly SeekEntry[]): ArchiveParts {
  return { ...parts, sizes: change([...parts.sizes]) };
}

describe('requests', () => {
  test('the first frame takes two requests, another frame one, and a recent frame none', async () => {
    const items = segmentItems(12);
    const blobs = new MeteredBlobStore(new MemoryBlobStore());
    const segment = await storeArchive(blobs, joined(partsOfItems(items, 4)));
    const gets: number[] = [];
    const archive = await openArchive({ blobs, platform }, segment);
    for (const [from, to] of [
      [0, 3],
      [5, 6],
      [2, 7],
      [0, 12],
      [12, 20],
      [3, 3],
    ] as const) {
      expect(await allItems(archive.items(from, to))).toEqual(items.slice(from, to));
      gets.push(blobs.usage().gets);
    }
    expect(gets).toEqual([2, 3, 3, 4, 4, 4]);
  });

  test('two concurrent readers of one frame share a request', async () => {
    const { archive, blobs } = await opened(joined(partsOfItems(segmentItems(8), 4)));
    await Promise.all([allItems(archive.items(0, 2)), allItems(archive.items(1, 4))]);
    expect(blobs.usage().gets).toBe(2);
  });

  test('neighbouring ranges that are read in parallel share the frames between them', async () => {
    const items = segmentItems(40);
    const { archive, blobs } = await opened(joined(partsOfItems(items, 4)));
    const ranges = Array.from({ length: 8 }, (_, i) => allItems(archive.items(5 * i, 5 * i + 5)));
    expect((await Promise.all(ranges)).flat()).toEqual(items);
    expect(blobs.usage().gets).toBe(1 + archive.frames);
  });

  test('archives with common recent frames keep 16 MB of them together', async () => {
    const blobs = new MeteredBlobStore(new MemoryBlobStore());
    const recent = new RecentFrames();
    const body = { format: 'bytes', bytes: new Uint8Array(3_000_000) } as const;
    const archives: Archive[] = [];
    for (const segment of [0, 1]) {
      // Base64 makes each line 4 MB long.
      const of = { log: LOG, segment };
      const stored = await storeArchive(blobs, joined(partsOfItems(segmentItems(4, of, { body }), 1, of)), of);
      archives.push(await openArchive({ blobs, platform, recent }, stored));
    }
    const [first, second] = archives;
    const getsFor = async (archive: Archive | undefined, entry: number): Promise<number> => {
      const before = blobs.usage().gets;
      for await (const [item] of archive?.items(entry, entry + 1) ?? []) expect(item?.N).toEqual({ N: String(entry) });
      return blobs.usage().gets - before;
    };
    for (const entry of [0, 1, 2]) expect(await getsFor(first, entry)).toBe(1);
    for (const entry of [0, 1, 2]) expect(await getsFor(first, entry)).toBe(0);
    for (const entry of [0, 1]) expect(await getsFor(second, entry)).toBe(1);
    expect([await getsFor(first, 2), await getsFor(second, 1)]).toEqual([0, 0]);
    expect([await getsFor(first, 1), await getsFor(first, 0)]).toEqual([0, 1]);
  });

  test('a reader of expired entries asks the table about a megabyte of lines at a time', async () => {
    const items = segmentItems(6000);
    const blobs = new MeteredBlobStore(new MemoryBlobStore());
    const requests: string[] = [];
    const tables = recordRequests(new MemoryLogStore(), requests);
    await tables.putSegment(await storeArchive(blobs, joined(partsOfItems(items, 2000))));
    const { store } = testDeployment({ tables, blobs });
    requests.length = 0;
    const range = { from: { segment: 0, entry: 0 }, to: { segment: 0, entry: 6000 } };
    const entries = await allItems(readEntries({ store, types: RESERVED_TYPES }, LOG, range));
    expect(entries).toEqual(items.map(decodeEntry));
    expect(linesOf(items).length).toBeGreaterThan(800_000);
    // Two short ranges come before the size of the lines is known.
    expect(requests.filter((request) => request.startsWith('entries')).length).toBeLessThanOrEqual(4);
    expect(blobs.usage().gets).toBe(1 + 3);
  });

  test.each([
    ['an index', 1_700],
    ['a seek table', 9_000],
  ])('the first frame takes three requests if %s is longer than the first read', async (_, frames) => {
    const items = segmentItems(frames);
    const { archive, blobs } = await opened(joined(partsOfItems(items, 1)));
    expect(archive.frames).toBe(frames);
    expect(await allItems(archive.items(frames - 2, frames))).toEqual(items.slice(-2));
    expect(blobs.usage().gets).toBe(4);
  });

  test('a failed request is repeated at the next read', async () => {
    const items = segmentItems(4);
    const blobs = new MemoryBlobStore();
    const segment = await storeArchive(blobs, joined(partsOfItems(items, 4)));
    const bytes = await blobs.get(segment.archive.key);
    await blobs.delete([segment.archive.key]);
    const tables = new MemoryLogStore();
    await tables.putSegment(segment);
    const { store } = testDeployment({ tables, blobs });
    const read = () => store.getEntry(LOG, { segment: 0, entry: 1 }, { consistent: true });
    await expect(read()).rejects.toThrow(ArchiveMissingError);
    await blobs.put(segment.archive.key, bytes ?? new Uint8Array());
    expect((await read())?.position).toEqual({ segment: 0, entry: 1 });
  });
});

describe('a missing archive', () => {
  test('the error for a missing archive names its log and segment', async () => {
    const { archive, blobs, segment } = await opened(joined(partsOfItems(segmentItems(8), 4)));
    await blobs.delete([keyOf(FIRST_SEGMENT)]);
    const expected = {
      code: 'ARCHIVE_MISSING',
      log: LOG,
      segment: 0,
      message: expect.stringContaining(keyOf(FIRST_SEGMENT)),
    };
    await expect(openArchive({ blobs, platform }, segment)).rejects.toMatchObject(expected);
    await expect(allItems(archive.items(0, 1))).rejects.toBeInstanceOf(ArchiveMissingError);
    await expect(allItems(archive.items(0, 1))).rejects.toMatchObject(expected);
  });
});

describe('damage', () => {
  const items = segmentItems(20);
  const whole = joined(partsOfItems(items, 4));

  test('a truncated archive is refused', async () => {
    const step = Math.ceil(whole.bytes.length / 60);
    const lengths = new Set([0, 1, 8, 9, whole.bytes.length - 1]);
    for (let length = 0; length < whole.bytes.length; length += step) lengths.add(length);
    expect(lengths.size).toBeGreaterThan(50);
    for (const length of lengths) {
      await expectCorrupt(readAll({ hash: whole.hash, bytes: whole.bytes.slice(0, length) }));
    }
    await expectCorrupt(readAll({ hash: whole.hash, bytes: whole.bytes.slice(1) }));
  });

  test('an archive with a flipped bit is refused or has the same items', async () => {
    let refused = 0;
    let tried = 0;
    for (let at = 0; at < whole.bytes.length; at++) {
      tried++;
      const bytes = withByte(whole.bytes, at, (whole.bytes[at] ?? 0) ^ (1 << (at % 8)));
      const read = await readAll({ hash: whole.hash, bytes }).then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      );
      if ('value' in read) expect(read.value, `byte ${at}`).toEqual(items);
      else {
        refused++;
        await expectCorrupt(Promise.reject(read.error));
      }
    }
    // Each Zstandard frame has an unused bit, and the sizes in the seek table are partly redundant.
    expect(refused).toBeGreaterThan(tried * 0.95);
  });

  test('a damaged frame does not affect other frames', async () => {
    const parts = partsOfItems(items, 4);
    const second = parts.frames[0]?.length ?? 0;
    const { archive } = await opened({ hash: whole.hash, bytes: withByte(whole.bytes, second + 20, 0xff) });
    expect(await allItems(archive.items(0, 4))).toEqual(items.slice(0, 4));
    expect(await allItems(archive.items(8, 20))).toEqual(items.slice(8));
    await expectCorrupt(allItems(archive.items(3, 5)));
  });

  test('an archive of another log or segment is refused', async () => {
    const places: SegmentOf[] = [FIRST_SEGMENT, { log: LOG, segment: 1 }, { log: newLogId(), segment: 0 }];
    const archives = places.map((of) => ({ of, ...joined(partsOfItems(segmentItems(6, of), 3, of)) }));
    for (const mine of archives) {
      for (const other of archives) {
        if (other === mine) continue;
        await expectCorrupt(opened({ bytes: other.bytes, hash: mine.hash }, mine.of), mine.of);
        const error = await expectCorrupt(opened({ bytes: other.bytes, hash: other.hash }, mine.of), mine.of);
        expect(error.message).toContain(`it belongs to segment ${other.of.segment} of log ${other.of.log}`);
      }
    }
  });

  test('an archive that two segments name is refused for the wrong segment', async () => {
    const blobs = new MemoryBlobStore();
    const segment = await storeArchive(blobs, joined(partsOfItems(items, 4)));
    const tables = new MemoryLogStore();
    await tables.putSegment(segment);
    await tables.putSegment({ ...segment, segment: 1 });
    const { store } = testDeployment({ tables, blobs });
    expect(await store.getEntry(LOG, { segment: 0, entry: 2 }, { consistent: true })).toBeDefined();
    await expect(store.getEntry(LOG, { segment: 1, entry: 2 }, { consistent: true })).rejects.toMatchObject({
      code: 'ARCHIVE_CORRUPT',
      segment: 1,
    });
  });

  test.each<[string, (sizes: SeekEntry[]) => SeekEntry[]]>([
    ['moves bytes from one frame to the next', ([a, b, ...rest]) => [less(a, 7), more(b, 7), ...rest]],
    ['moves content from one frame to the next', ([a, b, ...rest]) => [lessContent(a, 7), moreContent(b, 7), ...rest]],
    ['exchanges two frames', ([a = ZERO, b = ZERO, ...rest]) => [moreContent(b, 1), lessContent(a, 1), ...rest]],
    ['states a frame that is too long', ([a, ...rest]) => [more(a, 1_000_000), ...rest]],
    ['states a frame of 4 GB', ([, ...rest]) => [{ stored: 2 ** 32 - 1, content: 2 ** 32 - 1 }, ...rest]],
    [
      'has one frame too few',
      ([a = ZERO, b = ZERO, ...rest]) => [{ stored: a.stored + b.stored, content: a.content + b.content }, ...rest],
    ],
    ['has one frame too many', (sizes) => [ZERO, ...sizes]],
    ['has no frames', () => []],
    ['has only the index', (sizes) => sizes.slice(-1)],
    ['has an index that is too long', (sizes) => [...sizes.slice(0, -1), more(sizes.at(-1), 5)]],
    ['has an index that is the whole file', (sizes) => [...sizes.slice(0, -1), { stored: 2 ** 31, content: 0 }]],
  ])('a seek table that %s is refused', async (_, change) => {
    const parts = withSizes(partsOfItems(items, 4), change);
    await expectCorrupt(readAll(joined(parts)));
  });

  test('a frame above the limit is refused before memory is allocated for it', async () => {
    const limits: number[] = [];
    const watched: ChunkPlatform = {
      ...platform,
      decompress: (frame, limit) => {
        limits.push(limit);
        return platform.decompress(frame, limit);
      },
    };
    const parts = partsOfItems(items, 4);
    const large = MAX_FRAME_BYTES + 1;
    const [first = ZERO, ...rest] = parts.sizes;
    const bytes = parts.index.bytes - first.content + large;
    const lying = joined({
      ...parts,
      index: { ...parts.index, bytes },
      sizes: [{ ...first, content: large }, ...rest],
    });
    const blobs = new MemoryBlobStore();
    const segment = await storeArchive(blobs, lying);
    await expectCorrupt(openArchive({ blobs, platform: watched }, segment));
    expect(limits).toEqual([]);
  });

  test.each([0xff_ff_ff_ff, 0x7f_ff_ff_ff, 1_000_000, 7])(
    'a seek table that claims %i frames is refused',
    async (frames) => {
      const bytes = whole.bytes.slice();
      new DataView(bytes.buffer).setUint32(bytes.length - 9, frames, true);
      await expectCorrupt(readAll({ bytes, hash: whole.hash }));
    },
  );

  test('an altered and recompressed entry is refused', async () => {
    const parts = partsOfItems(items, 4);
    const changed = items.slice(0, 4).map((item, i) => (i === 2 ? { ...item, C: { N: '1' } } : item));
    const content = linesOf(changed);
    const frame = platform.compress(content);
    const [first = ZERO, ...rest] = parts.sizes;
    const sizes = [{ stored: frame.length, content: content.length }, ...rest];
    // All sizes are right.
    const bytes = parts.index.bytes - first.content + content.length;
    const forged = { frames: [frame, ...parts.frames.slice(1)], index: { ...parts.index, bytes }, sizes };
    const error = await expectCorrupt(readAll(joined(forged)));
    expect(error.message).toContain('hash');
    // A matching index does not have the hash on the segment.
    const agreeing = joined(partsOfItems([...changed, ...items.slice(4)], 4));
    await expectCorrupt(readAll({ bytes: agreeing.bytes, hash: whole.hash }));
  });

  test.each<[string, Uint8Array, number]>([
    ['is not UTF-8', Uint8Array.of(0xc3, 0x28, 0x0a), 1],
    ['has no line end', linesOf(segmentItems(1)).slice(0, -1), 1],
    ['has one line more', linesOf(segmentItems(2)), 1],
    ['has one line less', linesOf(segmentItems(2)), 3],
    ['starts with another entry', linesOf(segmentItems(3).slice(1)), 2],
    ['belongs to another segment', linesOf(segmentItems(2, { log: LOG, segment: 1 })), 2],
    ['belongs to no segment', linesOf([{ S: { B: Uint8Array.of(1) }, N: { N: '0' } }]), 1],
    ['has keys of other types', linesOf([{ S: { S: 'x' }, N: { S: '0' } }]), 1],
    ['has no keys', linesOf([{ T: { S: 'Set' } }]), 1],
    ['is not JSON', new TextEncoder().encode('{"Item":\n'), 1],
    ['starts with a byte order mark', new TextEncoder().encode('\ufeff{"Item":{}}\n'), 1],
    ['has other JSON', new TextEncoder().encode('{"Item":{"S":{"B":"AA==","S":""}}}\n'), 1],
  ])('a frame that %s is refused even if its hash is right', async (_, content, entries) => {
    await expectCorrupt(readAll(joined(partsOf([{ content, entries }]))));
  });

  test('a malformed index is refused, and a later format gives the advice to use a newer version', async () => {
    const { index } = partsOfItems(items, 20);
    const fields = {
      format: 1,
      log: logIdBytes(LOG),
      segment: 0,
      entries: 1,
      bytes: 1,
      firsts: [0],
      hashes: index.hashes,
    };
    const read = (bytes: Uint8Array): Promise<unknown> => {
      const frame = skippableFrame(bytes);
      const sizes = [
        { stored: 0, content: 0 },
        { stored: frame.length, content: 0 },
      ];
      const file = Uint8Array.from(Buffer.concat([frame, encodeSeekTable(sizes)]));
      return opened({ bytes: file, hash: platform.sha256(bytes) });
    };
    for (const [change, words] of [
      [{ log: new Uint8Array(16).fill(0xee) }, 'no valid log id'],
      [{ log: 'x' }, 'fields'],
      [{ segment: -1 }, 'fields'],
      [{ entries: 1.5 }, 'fields'],
      [{ firsts: [] }, 'fields'],
      [{ firsts: [1] }, 'fields'],
      [{ firsts: [0, 0] }, 'fields'],
      [{ hashes: new Uint8Array(31) }, 'fields'],
      [{ format: 2 }, 'format 2'],
      [{ format: 2 }, 'the version of logfold that wrote it'],
    ] as const) {
      const changed = { ...fields, ...change };
      expect((await expectCorrupt(read(encodeValue(changed)))).message).toContain(words);
    }
    await expectCorrupt(read(encodeValue([1])));
    await expectCorrupt(read(Uint8Array.of(0xc1)));
  });

  test('a frame that is too large for the platform is not reported as damage', async () => {
    const small: ChunkPlatform = {
      ...platform,
      decompress: () => {
        throw new TooLargeError('a frame of 3,000,000 bytes');
      },
    };
    const blobs = new MemoryBlobStore();
    const segment = await storeArchive(blobs, whole);
    const archive = await openArchive({ blobs, platform: small }, segment);
    const error: unknown = await allItems(archive.items(0, 1)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TooLargeError);
    expect(error).toMatchObject({ log: LOG, segment: 0 });
  });

  test('the seek table is at the end of the archive', () => {
    const table = decodeSeekTable(whole.bytes.slice(-(17 + 6 * 8)));
    expect(table?.map(({ content }) => content)).toEqual([
      ...partsOfItems(items, 4).sizes.map(({ content }) => content),
    ]);
  });
});

const ZERO: SeekEntry = { stored: 0, content: 0 };

function more(entry: SeekEntry = ZERO, by = 0): SeekEntry {
  return { ...entry, stored: entry.stored + by };
}

function less(entry: SeekEntry = ZERO, by = 0): SeekEntry {
  return more(entry, -by);
}

function moreContent(entry: SeekEntry = ZERO, by = 0): SeekEntry {
  return { ...entry, content: entry.content + by };
}

function lessContent(entry: SeekEntry = ZERO, by = 0): SeekEntry {
  return moreContent(entry, -by);
}

describe('the writer', () => {
  test.each<[string, Item[], number]>([
    ['an empty segment', [], 0],
    ['a segment with a gap', segmentItems(6).toSpliced(3, 1), 3],
    ['a segment without its first entry', segmentItems(6).slice(1), 0],
    ['a segment with an entry twice', segmentItems(6).toSpliced(3, 0, ...segmentItems(6).slice(2, 3)), 3],
    ['an open segment', segmentItems(6).slice(0, 5), 5],
  ])('the writer refuses %s', async (_, items, entry) => {
    const error: unknown = await written(items).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(EntryGapError);
    expect(error).toMatchObject({ log: LOG, segment: 0, entry });
  });

  test('a frame ends with the line that makes it a million bytes long', async () => {
    const body = { format: 'bytes', bytes: new Uint8Array(300_000).fill(7) } as const;
    const items = segmentItems(9, FIRST_SEGMENT, { body });
    const { pieces, archive } = await written(items);
    const lengths = pieces.slice(0, -2).map((frame) => platform.decompress(frame, 2 * FRAME_BYTES).length);
    const lines = items.map((item) => linesOf([item]).length);
    const sum = (from: number, to: number): number => lines.slice(from, to).reduce((a, b) => a + b, 0);
    expect(lengths).toEqual([sum(0, 3), sum(3, 6), sum(6, 9)]);
    expect(sum(0, 2)).toBeLessThan(FRAME_BYTES);
    expect(sum(0, 3)).toBeGreaterThanOrEqual(FRAME_BYTES);
    expect(archive.bytes).toBe(sum(0, 9));
  });

  test('equal entries give equal archives, regardless of pages and expiry', async () => {
    const items = segmentItems(9);
    const expiring = items.map((item) => ({ ...item, X: { N: '1732104000' } }));
    const once = await written(items, FIRST_SEGMENT, 9);
    const again = await written(expiring, FIRST_SEGMENT, 2);
    expect(again.pieces).toEqual(once.pieces);
    expect(again.archive).toEqual(once.archive);
  });

  test('the writer gives the same bytes as an archive made by hand', async () => {
    const items = segmentItems(9);
    const { pieces, archive } = await written(items);
    const byHand = joined(partsOfItems(items, 9));
    expect(Uint8Array.from(Buffer.concat(pieces))).toEqual(byHand.bytes);
    expect(Uint8Array.from(archive.hash)).toEqual(Uint8Array.from(byHand.hash));
  });

  test('an item with a very long line is read back', async () => {
    const [first, end] = segmentItems(2);
    const items = [{ ...first, B: { L: manyZeros(70_000) } }, { ...end }];
    const { pieces, archive } = await written(items);
    expect(archive.bytes).toBeGreaterThan(9_000_000);
    const bytes = Uint8Array.from(Buffer.concat(pieces));
    const read = await readAll({ bytes, hash: archive.hash });
    expect(read.map(encodeItemLine)).toEqual(items.map(encodeItemLine));
  });

  test('a frame above the limit of the reader is not written', async () => {
    const [first, end] = segmentItems(2);
    await expect(written([{ ...first, B: { L: manyZeros(250_000) } }, { ...end }])).rejects.toThrow(TooLargeError);
  });

  test('a frame that the platform does not compress is not written', async () => {
    const lazy: ChunkPlatform = { ...platform, compress: (bytes) => bytes };
    async function* pages(): AsyncGenerator<readonly StoredItem[]> {
      yield segmentItems(2);
    }
    const writing = writeArchive(lazy, { ...FIRST_SEGMENT, endSegment: RESERVED_TYPES.endSegment }, pages());
    await expect(allBytes(writing)).rejects.toMatchObject({ code: 'TOO_LARGE', log: LOG, segment: 0 });
  });

  /** Numbers as DynamoDB returns 1e125. An item of 400 KB holds some 130,000 of them. */
  function manyZeros(count: number): AttributeValue[] {
    return Array.from({ length: count }, () => ({ N: `1${'0'.repeat(125)}` }));
  }

  async function allBytes(pieces: AsyncIterable<Uint8Array>): Promise<number> {
    let bytes = 0;
    for await (const piece of pieces) bytes += piece.length;
    return bytes;
  }
});

describe('the comparison of archive and table', () => {
  const segment: Segment = { ...FIRST_SEGMENT, created: NOON, lastSnapshot: { position: { segment: 0, entry: 5 } } };
  const of = { segment, types: RESERVED_TYPES };
  const set = encodeEntry(entryAt(LOG, { segment: 0, entry: 3 }));
  const snapshot = (entry: number, more: Item = {}): Item => ({
    ...encodeEntry(entryAt(LOG, { segment: 0, entry }, { type: RESERVED_TYPES.snapshot, body: undefined })),
    ...more,
  });
  const root = { B: { B: Uint8Array.of(1, 2) } };
  const otherRoot = { E: { S: 'logs/x' } };

  test.each<[string, Item, Item, boolean]>([
    ['equal entries', set, { ...set }, true],
    ['an expiry', set, { ...set, X: { N: '5' } }, true],
    ['another body', set, { ...set, B: { B: Uint8Array.of(1) } }, false],
    ['no body', set, without(set, 'B'), false],
    ['another time', set, { ...set, C: { N: '5' } }, false],
    ['another type', set, { ...set, T: { S: 'Snapshot' } }, false],
    ['a foreign attribute', set, { ...set, owner: { S: 'x' } }, false],
    ['a missing foreign attribute', { ...set, owner: { S: 'x' } }, set, false],
    ['another order of a set', { ...set, owner: { SS: ['a', 'b'] } }, { ...set, owner: { SS: ['b', 'a'] } }, true],
    ['another set', { ...set, owner: { SS: ['a', 'b'] } }, { ...set, owner: { SS: ['b'] } }, false],
    ['a late root of an older snapshot', snapshot(2), snapshot(2, root), true],
    ['another root of an older snapshot', snapshot(2, root), snapshot(2, otherRoot), true],
    ['another time of an older snapshot', snapshot(2), snapshot(2, { C: { N: '1' } }), false],
    ['the same root of the last snapshot', snapshot(5, root), snapshot(5, { ...root, X: { N: '9' } }), true],
    ['another root of the last snapshot', snapshot(5, root), snapshot(5, otherRoot), false],
    ['a missing root of the last snapshot', snapshot(5, root), snapshot(5), false],
    ['another type with a snapshot body', snapshot(2, root), { ...snapshot(2), T: { S: 'Set' } }, false],
  ])('sameEntry gives the right answer for %s', (_, archived, stored, same) => {
    expect(sameEntry(archived, stored, of)).toBe(same);
    expect(sameEntry(decodeItemLine(encodeItemLine(archived)), stored, of)).toBe(same);
  });

  test('sameEntry ignores all roots without Last Snapshot, and uses the configured type names', () => {
    const { lastSnapshot: _, ...none } = segment;
    expect(sameEntry(snapshot(5), snapshot(5, root), { ...of, segment: none })).toBe(true);
    const types = new ReservedTypes({ ...RESERVED_TYPES, snapshot: 'Saved' });
    expect(sameEntry(snapshot(2), snapshot(2, root), { segment, types })).toBe(false);
  });

  const items = segmentItems(20);

  test('a table with holes is compared entry by entry', async () => {
    const { archive } = await opened(joined(partsOfItems(items, 4)));
    const some = items.filter((_, i) => [0, 3, 4, 11, 19].includes(i));
    await compareWithArchive(archive, some, of);
    await compareWithArchive(archive, [], of);
    const changed = some.map((item, i) => (i === 3 ? { ...item, V: { N: '2' } } : item));
    const error: unknown = await compareWithArchive(archive, changed, of).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ArchiveDiffersError);
    expect(error).toMatchObject({ log: LOG, segment: 0, entry: 11 });
  });

  test('an entry that is only in the table is a difference', async () => {
    const { archive } = await opened(joined(partsOfItems(items, 4)));
    const extra = encodeEntry(entryAt(LOG, { segment: 0, entry: 20 }));
    await expect(compareWithArchive(archive, [...items.slice(18), extra], of)).rejects.toMatchObject({
      code: 'ARCHIVE_DIFFERS',
      entry: 20,
    });
  });

  test.each<[string, number, StoredItem[], number | undefined]>([
    ['equal sides', 20, items, undefined],
    ['the first entry missing in the table', 20, items.slice(1), 0],
    ['an entry missing in the table', 20, items.toSpliced(7, 1), 7],
    ['the last entry missing in the table', 20, items.slice(0, -1), 19],
    ['an empty table', 20, [], 0],
    ['the last entry missing in the archive', 19, items, 19],
    ['a changed entry', 20, items.with(12, { ...items[12], V: { N: '2' } }), 12],
  ])('verifyArchive gives the right answer for %s', async (_, archived, stored, entry) => {
    const { archive } = await opened(joined(partsOfItems(items.slice(0, archived), 4)));
    async function* pages(): AsyncGenerator<readonly StoredItem[]> {
      for (let at = 0; at < stored.length; at += 3) yield stored.slice(at, at + 3);
    }
    const verified = verifyArchive(archive, pages(), of);
    if (entry === undefined) await verified;
    else await expect(verified).rejects.toMatchObject({ code: 'ARCHIVE_DIFFERS', log: LOG, segment: 0, entry });
  });

  function without(item: Item, name: string): Item {
    return Object.fromEntries(Object.entries(item).filter(([key]) => key !== name));
  }
});

test('the hash of an archive is the hash of its index, which has the hashes of its frames', () => {
  const parts = partsOfItems(segmentItems(8), 4);
  expect(joined(parts).hash).toEqual(platform.sha256(encodeArchiveIndex(parts.index)));
  expect(parts.index.hashes.slice(32)).toEqual(Uint8Array.from(platform.sha256(linesOf(segmentItems(8).slice(4)))));
});

describe('the frames of an archive as they are stored', () => {
  /** Bytes that do not compress, so that a request has room for two frames. */
  const random = new Random(1);
  const large = Array.from({ length: 5 }, () => ({
    content: Uint8Array.from({ length: 3_000_000 }, () => random.integer(0, 255)),
    entries: 2,
  }));

  test.each([
    [10, 5],
    [7, 3],
    [6, 3],
    [1, 0],
  ])('before entry %i are the first %i, several in a request', async (to, count) => {
    const parts = partsOf(large);
    const { archive, blobs } = await opened(joined(parts));
    const before = blobs.usage().gets;
    const frames = await Array.fromAsync(archive.storedFrames(to));
    expect(frames).toHaveLength(count);
    for (const [i, { first, stored, content }] of frames.entries()) {
      expect([first, content, Buffer.compare(stored, parts.frames[i] ?? Uint8Array.of())]).toEqual([
        2 * i,
        3_000_000,
        0,
      ]);
    }
    expect(blobs.usage().gets - before).toBe(Math.ceil(count / 2));
    expect(archive.framesBefore(to)).toBe(2 * count);
  });

  test('are proven by their hashes', async () => {
    const { bytes, hash } = joined(partsOfItems(segmentItems(8), 4));
    const { archive } = await opened({ bytes: withByte(bytes, 30, (bytes[30] ?? 0) ^ 1), hash });
    await expectCorrupt(Array.fromAsync(archive.storedFrames()));
  });
});
