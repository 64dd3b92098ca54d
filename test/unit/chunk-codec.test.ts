import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import type { ChunkPlatform } from '../../src/codec/chunk.ts';
import { chunkId, HEADER_BYTES, MAX_CHUNK_BYTES, openChunk, packChunk, unpackChunk } from '../../src/codec/chunk.ts';
import { ChunkCorruptError, TooLargeError } from '../../src/errors.ts';
import { bitFlips, damaged, truncations, withByte } from '../support/damage.ts';
import { propertyRuns } from '../support/property-runs.ts';

const REPETITIVE = new TextEncoder().encode(Array.from({ length: 60 }, (_, i) => `row ${i},value ${i * 7}\n`).join(''));
const RANDOM = Uint8Array.from({ length: 100 }, (_, i) => (i * 89 + ((i * i) >> 2)) & 0xff);

interface Chunk {
  readonly name: string;
  readonly canonical: Uint8Array;
  readonly codec: number;
}

const chunks: Chunk[] = [
  { name: 'compressed', canonical: REPETITIVE, codec: 1 },
  { name: 'plain because it is short', canonical: Uint8Array.of(0x93, 1, 2, 3), codec: 0 },
  { name: 'plain because compressing gains nothing', canonical: RANDOM, codec: 0 },
  { name: 'empty', canonical: new Uint8Array(), codec: 0 },
];

function stored({ canonical }: Chunk) {
  return { bytes: packChunk(nativePlatform, canonical), id: chunkId(nativePlatform, canonical), canonical };
}

/** The content in hexadecimal, or 'corrupt'. Any other error is the test's to show. */
function opened(bytes: Uint8Array, chunk: ReturnType<typeof stored>): string {
  try {
    return toHex(openChunk(nativePlatform, chunk.id, bytes));
  } catch (error) {
    if (error instanceof ChunkCorruptError) return 'corrupt';
    throw error;
  }
}

/** Stored bytes with another claim of how long they are uncompressed. */
function claiming(bytes: Uint8Array, length: number): Uint8Array {
  const changed = bytes.slice();
  new DataView(changed.buffer).setUint32(5, length);
  return changed;
}

describe.each(chunks)('a chunk that is $name', (chunk) => {
  const whole = stored(chunk);

  test('has a header, is opened to what it was, and is no longer than that and its header', () => {
    expect(toHex(whole.bytes.subarray(0, 5))).toBe(`4c474601${toHex(Uint8Array.of(chunk.codec))}`);
    expect(whole.bytes.length).toBeLessThanOrEqual(HEADER_BYTES + chunk.canonical.length);
    expect(opened(whole.bytes, whole)).toBe(toHex(chunk.canonical));
  });

  test('is refused wherever it ends too early', () => {
    for (const beginning of truncations(whole.bytes)) expect(opened(beginning, whole)).toBe('corrupt');
  });

  test('is refused where anything follows', () => {
    for (const more of [[0], [1, 2, 3], [...whole.bytes], [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]]) {
      expect(opened(Uint8Array.from([...whole.bytes, ...more]), whole)).toBe('corrupt');
    }
  });

  test('is refused or the same, whichever bit is turned', () => {
    for (const altered of bitFlips(whole.bytes)) {
      expect([toHex(chunk.canonical), 'corrupt']).toContain(opened(altered, whole));
    }
  });

  test('is refused or the same, whatever bytes are changed, removed or put in', () => {
    fc.assert(
      fc.property(damaged(whole.bytes), (altered) => {
        expect([toHex(chunk.canonical), 'corrupt']).toContain(opened(altered, whole));
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test('is refused under the id of another', () => {
    const other = chunkId(nativePlatform, Uint8Array.of(0xc0));
    expect(() => openChunk(nativePlatform, other, whole.bytes)).toThrow(/do not have the hash in its name/);
    expect(() => openChunk(nativePlatform, other, whole.bytes)).toThrow(ChunkCorruptError);
  });

  test.each([
    ['other magic bytes', (bytes: Uint8Array) => withByte(bytes, 0, 0x6c), /magic/],
    ['an older version', (bytes: Uint8Array) => withByte(bytes, 3, 0), /format version 0/],
    ['a newer version', (bytes: Uint8Array) => withByte(bytes, 3, 2), /format version 2/],
    ['an unknown codec', (bytes: Uint8Array) => withByte(bytes, 4, 2), /codec 2/],
    ['one byte too many claimed', (bytes: Uint8Array) => claiming(bytes, chunk.canonical.length + 1), /claims/],
    ['4 GB claimed', (bytes: Uint8Array) => claiming(bytes, 2 ** 32 - 1), /exceeds the limit/],
    [
      'one byte over the limit claimed',
      (bytes: Uint8Array) => claiming(bytes, MAX_CHUNK_BYTES + 1),
      /exceeds the limit/,
    ],
  ])('is refused with %s', (_, alter, reason) => {
    expect(() => openChunk(nativePlatform, whole.id, alter(whole.bytes))).toThrow(ChunkCorruptError);
    expect(() => openChunk(nativePlatform, whole.id, alter(whole.bytes))).toThrow(reason);
  });
});

describe('opening a chunk', () => {
  test('refuses any bytes at all that are not a chunk', () => {
    const header = fc.constant(Uint8Array.of(0x4c, 0x47, 0x46, 1, 1, 0, 0));
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      fc.tuple(header, fc.uint8Array({ maxLength: 100 })).map(([start, rest]) => Uint8Array.of(...start, ...rest)),
    );
    fc.assert(
      fc.property(anything, (bytes) => {
        expect(() => openChunk(nativePlatform, chunkId(nativePlatform, REPETITIVE), bytes)).toThrow(ChunkCorruptError);
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test('does not decompress what claims too much, has another version or other magic bytes', () => {
    const untouched: ChunkPlatform = {
      ...nativePlatform,
      decompress: () => {
        throw new TypeError('decompressed without a reason');
      },
    };
    const bytes = packChunk(nativePlatform, REPETITIVE);
    const altered = [
      claiming(bytes, MAX_CHUNK_BYTES + 1),
      withByte(bytes, 3, 9),
      withByte(bytes, 1, 0),
      bytes.slice(0, 8),
    ];
    for (const each of altered) expect(() => unpackChunk(untouched, each)).toThrow(ChunkCorruptError);
  });

  test('gives up on a frame as soon as it holds more than was claimed', () => {
    const bomb = packChunk(nativePlatform, new Uint8Array(32 * 1024 * 1024));
    expect(bomb.length).toBeLessThan(10_000);
    const limits: number[] = [];
    const watched: ChunkPlatform = {
      ...nativePlatform,
      decompress: (frame, limit) => {
        limits.push(limit);
        return nativePlatform.decompress(frame, limit);
      },
    };
    expect(() => unpackChunk(watched, claiming(bomb, 1000))).toThrow(ChunkCorruptError);
    expect(limits).toEqual([1000]);
  });

  test('passes on what a platform says of its own limits', () => {
    const small: ChunkPlatform = {
      ...nativePlatform,
      decompress: () => {
        throw new TooLargeError('too large for here');
      },
    };
    expect(() => unpackChunk(small, packChunk(nativePlatform, REPETITIVE))).toThrow(TooLargeError);
  });
});

test('what is over the limit is not packed', () => {
  expect(() => packChunk(nativePlatform, new Uint8Array(MAX_CHUNK_BYTES + 1))).toThrow(/exceeds the limit/);
});
