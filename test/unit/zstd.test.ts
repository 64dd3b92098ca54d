import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { loadWasmPlatform } from '../../src/adapters/platform/wasm.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { chunkId, frameBytes, openChunk, packChunk } from '../../src/codec/chunk.ts';
import { ChunkCorruptError, TooLargeError } from '../../src/errors.ts';
import { decodeRoot, encodeRoot } from '../../src/snapshot/root.ts';
import { stateHash } from '../../src/state/state.ts';
import { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { bitFlips, damaged, truncations } from '../support/damage.ts';
import { LOG } from '../support/logs.ts';
import { SMALL_SHEET, savedSheet, sheetRows } from '../support/models/saved-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';

const wasmPlatform = await loadWasmPlatform();
const MB = 1024 * 1024;

/** Contents of 0 to a few hundred kilobytes, with little or much repetition. */
const contents = fc
  .record({ part: fc.uint8Array({ maxLength: 3000 }), times: fc.oneof(fc.constant(1), fc.nat({ max: 100 })) })
  .map(({ part, times }) => {
    const bytes = new Uint8Array(part.length * times);
    for (let i = 0; i < times; i++) bytes.set(part, i * part.length);
    return bytes;
  });

const pairs = [
  { from: 'native', to: 'WebAssembly', writer: nativePlatform, reader: wasmPlatform },
  { from: 'WebAssembly', to: 'native', writer: wasmPlatform, reader: nativePlatform },
  { from: 'WebAssembly', to: 'WebAssembly', writer: wasmPlatform, reader: wasmPlatform },
] as const;

describe.each(pairs)('chunks from $from code to $to code', ({ writer, reader }) => {
  test('every frame is read back', () => {
    fc.assert(
      fc.property(contents, (bytes) => {
        const read = reader.decompress(writer.compress(bytes), bytes.length);
        expect(Buffer.compare(read, bytes)).toBe(0);
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('every chunk is read back under the same id', () => {
    fc.assert(
      fc.property(contents, (bytes) => {
        const id = chunkId(writer, bytes);
        expect(chunkId(reader, bytes)).toBe(id);
        expect(Buffer.compare(openChunk(reader, id, packChunk(writer, bytes)), bytes)).toBe(0);
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('a whole snapshot is read back', async () => {
    const chunks = new MemoryChunks();
    const written = new NodeStore(chunks, writer, { shape: SMALL_SHAPE });
    const state = await savedSheet(written, SMALL_SHEET);
    const position = { segment: 0, entry: 9 };
    const hash = stateHash(writer, state);
    const root = { log: LOG, position, reducer: { name: 'spreadsheet', version: 1 }, stateHash: hash, state };
    const { id, stored } = encodeRoot(writer, root);
    const read = decodeRoot(reader, stored, { log: LOG, position, id });
    expect(read.stateHash).toBe(hash);
    const store = new NodeStore(chunks, reader, { shape: SMALL_SHAPE });
    expect(await sheetRows(store, read.state)).toEqual(await sheetRows(written, state));
    expect(store.counts.read).toBeGreaterThan(3);
  });
});

// Magic number, a window but no content size, and a raw block of three bytes.
const WITHOUT_SIZE = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x19, 0, 0, 1, 2, 3);

test.each([
  ['native code', nativePlatform],
  ['WebAssembly', wasmPlatform],
])('a frame that states no content size is refused by %s', (_, platform) => {
  expect(() => platform.decompress(WITHOUT_SIZE, 100)).toThrow(/states? its content size/);
  const chunk = Uint8Array.of(0x4c, 0x47, 0x46, 1, 1, 0, 0, 0, 3, ...WITHOUT_SIZE);
  const id = chunkId(platform, Uint8Array.of(1, 2, 3));
  expect(() => openChunk(platform, id, chunk)).toThrow(ChunkCorruptError);
});

describe('Zstandard in WebAssembly', () => {
  const bytes = new TextEncoder().encode('a line of text, '.repeat(40));
  const id = chunkId(wasmPlatform, bytes);
  const stored = packChunk(nativePlatform, bytes);

  function opened(altered: Uint8Array): string {
    try {
      return toHex(openChunk(wasmPlatform, id, altered));
    } catch (error) {
      if (error instanceof ChunkCorruptError) return 'corrupt';
      throw error;
    }
  }

  test('a damaged chunk is refused or has the same content', () => {
    for (const beginning of truncations(stored)) expect(opened(beginning)).toBe('corrupt');
    for (const altered of bitFlips(stored)) expect([toHex(bytes), 'corrupt']).toContain(opened(altered));
    fc.assert(
      fc.property(damaged(stored), (altered) => {
        expect([toHex(bytes), 'corrupt']).toContain(opened(altered));
      }),
      { numRuns: propertyRuns(1000) },
    );
    expect(opened(stored)).toBe(toHex(bytes));
  });

  test('a frame that states more than the limit is refused', () => {
    const bomb = nativePlatform.compress(new Uint8Array(MB));
    expect(() => wasmPlatform.decompress(bomb, MB - 1)).toThrow(/states 1048576 bytes, over the limit/);
    expect(wasmPlatform.decompress(bomb, MB)).toHaveLength(MB);
  });

  test('a frame that states a wrong size is refused', () => {
    const frame = nativePlatform.compress(bytes);
    // A frame header of one segment and a content size of 2 bytes, which counts from 256.
    expect(toHex(frame.subarray(4, 7))).toBe('608001');
    for (const size of [-1, 1]) {
      const lying = frame.slice();
      new DataView(lying.buffer, lying.byteOffset).setUint16(5, bytes.length - 256 + size, true);
      expect(() => wasmPlatform.decompress(lying, 10_000)).toThrow(/damaged/);
    }
  });

  test('content that is too large for the memory is an error, and later chunks are read', () => {
    const large = new Uint8Array(3 * MB);
    const frame = nativePlatform.compress(large);
    expect(() => wasmPlatform.decompress(frame, large.length)).toThrow(TooLargeError);
    expect(() => wasmPlatform.decompress(new Uint8Array(3 * MB), large.length)).toThrow(TooLargeError);
    const chunk = packChunk(wasmPlatform, large);
    expect(Buffer.compare(openChunk(nativePlatform, chunkId(nativePlatform, large), chunk), large)).toBe(0);
    expect(Buffer.compare(openChunk(wasmPlatform, chunkId(wasmPlatform, large), chunk), large)).toBe(0);
    expect(opened(stored)).toBe(toHex(bytes));
  });
});

test('a frame that exactly fills the output buffers of Node is a single frame', () => {
  const noise = new Uint8Array(16_416);
  for (let i = 0, block = nativePlatform.sha256(noise); i < noise.length; i += block.length) {
    noise.set(block, i);
    block = nativePlatform.sha256(block);
  }
  const lengths = new Set<number>();
  for (let length = 16_350; length < noise.length; length++) {
    const frame = nativePlatform.compress(noise.subarray(0, length));
    lengths.add(frame.length);
    expect(frame.length).toBe(frameBytes(frame));
  }
  expect(lengths).toContain(16 * 1024);
});
