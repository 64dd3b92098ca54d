import { constants, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { frameBytes } from '../../src/codec/chunk.ts';
import { propertyRuns } from '../support/property-runs.ts';

/**
 * Contents that compress to all kinds of blocks: a run of one byte, repetition, and random bytes.
 */
const contents = fc.oneof(
  fc.uint8Array({ maxLength: 600 }),
  fc.tuple(fc.nat({ max: 255 }), fc.nat({ max: 300_000 })).map(([byte, length]) => new Uint8Array(length).fill(byte)),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.nat({ max: 5000 }))
    .map(([part, times]) => Uint8Array.from({ length: part.length * times }, (_, i) => part[i % part.length] ?? 0)),
);

test('frameBytes finds the end of a frame, regardless of the bytes after it', () => {
  fc.assert(
    fc.property(contents, fc.boolean(), fc.uint8Array({ maxLength: 20 }), (content, checksum, more) => {
      const params = { [constants.ZSTD_c_checksumFlag]: checksum ? 1 : 0 };
      const frame = zstdCompressSync(content, { params });
      expect(frameBytes(frame)).toBe(frame.length);
      expect(frameBytes(Uint8Array.from([...frame, ...more]))).toBe(frame.length);
    }),
    { numRuns: propertyRuns(200) },
  );
});

test('frameBytes of a truncated frame exceeds the number of bytes', () => {
  fc.assert(
    fc.property(contents, fc.nat(), (content, cut) => {
      const frame = zstdCompressSync(content);
      const length = cut % frame.length;
      expect(frameBytes(frame.subarray(0, length))).toBeGreaterThan(length);
    }),
    { numRuns: propertyRuns(200) },
  );
});
