import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import type { ChunkPlatform } from '../../src/codec/chunk.ts';
import {
  CHUNK_HEADER_BYTES,
  chunkId,
  MAX_CHUNK_BYTES,
  openChunk,
  packChunk,
  unpackChunk,
} from '../../src/codec/chunk.ts';
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
  { name: 'short', canonical: Uint8Array.of(0x93, 1, 2, 3), codec: 0 },
  { name: 'incompressible', canonical: RANDOM, codec: 0 },
  { name: 'empty', canonical: new Uint8Array(), codec: 0 },
];

function stored({ canonical }: Chunk) {
  return { bytes: packChunk(nativePlatform, canonical), id: chunkId(nativePlatform, canonical), canonical };
}

/** The content in hexadecimal, or 'corrupt'. The test fails on any other error. */
function opened(bytes: Uint8Array, chunk: ReturnType<typeof stored>): string {
  try {
    return toHex(openChunk(nativePlatform, chunk.id, bytes));
  } catch (error) {
    if (error instanceof ChunkCorruptError) return 'corrupt';
    throw error;
  }
}

/** Stored bytes that claim another uncompressed length. */
function claiming(bytes: Uint8Array, length: number): Uint8Array {
  const changed = bytes.slice();
  new DataView(changed.buffer).setUint32(5, length);
  return changed;
}

describe.each(chunks)('a chunk that is $name', (chunk) => {
  const whole = stored(chunk);

  test('a chunk is opened to its content, and has at most the length of content and header', () => {
    expect(toHex(whole.bytes.subarray(0, 5))).toBe(`4c474601${toHex(Uint8Array.of(chunk.codec))}`);
    expect(whole.bytes.length).toBeLessThanOrEqual(CHUNK_HEADER_BYTES + chunk.canonical.length);
    expect(opened(whole.bytes, whole)).toBe(toHex(chunk.canonical));
  });

  test('a truncated chunk is refused', () => {
    for (const beginning of truncations(whole.bytes)) expect(opened(beginning, whole)).toBe('corrupt');
  });

  test('a chunk with bytes after its end is refused', () => {
    for (const more of [[0], [1, 2, 3], [...whole.bytes], [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]]) {
      expect(opened(Uint8Array.from([...whole.bytes, ...more]), whole)).toBe('corrupt');
    }
  });

  test('a chunk with a flipped bit is refused or has the same content', () => {
    const results = new Set<string>();
    for (const altered of bitFlips(whole.bytes)) results.add(opened(altered, whole));
    expect([toHex(chunk.canonical), 'corrupt']).toEqual(expect.arrayContaining([...results]));
  });

  test('a damaged chunk is refused or has the same content', () => {
    fc.assert(
      fc.property(damaged(whole.bytes), (altered) => {
        expect([toHex(chunk.canonical), 'corrupt']).toContain(opened(altered, whole));
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  test('a chunk under the id of another chunk is refused', () => {
    const other = chunkId(nativePlatform, Uint8Array.of(0xc0));
    expect(() => openChunk(nativePlatform, other, whole.bytes)).toThrow(/do not have the hash in its name/);
    expect(() => openChunk(nativePlatform, other, whole.bytes)).toThrow(ChunkCorruptError);
  });

  test.each([
    ['other magic bytes', (bytes: Uint8Array) => withByte(bytes, 0, 0x6c), /magic/],
    ['an older version', (bytes: Uint8Array) => withByte(bytes, 3, 0), /format version 0/],
    ['a newer version', (bytes: Uint8Array) => withByte(bytes, 3, 2), /format version 2/],
    ['an unknown codec', (bytes: Uint8Array) => withByte(bytes, 4, 2), /codec 2/],
    [
      'a length that is one byte too large',
      (bytes: Uint8Array) => claiming(bytes, chunk.canonical.length + 1),
      /claims/,
    ],
    ['a length of 4 GB', (bytes: Uint8Array) => claiming(bytes, 2 ** 32 - 1), /exceeds the limit/],
    [
      'a length one byte above the limit',
      (bytes: Uint8Array) => claiming(bytes, MAX_CHUNK_BYTES + 1),
      /exceeds the limit/,
    ],
  ])('a chunk with %s is refused', (_, alter, reason) => {
    expect(() => openChunk(nativePlatform, whole.id, alter(whole.bytes))).toThrow(ChunkCorruptError);
    expect(() => openChunk(nativePlatform, whole.id, alter(whole.bytes))).toThrow(reason);
  });
});

describe('opening a chunk', () => {
  test('any bytes that are not a chunk are refused', () => {
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

  test('a chunk with a bad header is refused before decompression', () => {
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

  test('decompression stops at the claimed length', () => {
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

  test('a limit of the platform is not reported as damage', () => {
    const small: ChunkPlatform = {
      ...nativePlatform,
      decompress: () => {
        throw new TooLargeError('too large for here');
      },
    };
    expect(() => unpackChunk(small, packChunk(nativePlatform, REPETITIVE))).toThrow(TooLargeError);
  });
});

test('bytes above the limit are not packed', () => {
  expect(() => packChunk(nativePlatform, new Uint8Array(MAX_CHUNK_BYTES + 1))).toThrow(/exceeds the limit/);
});
