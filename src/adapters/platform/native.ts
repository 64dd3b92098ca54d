import { hash } from 'node:crypto';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { frameBytes, statesContentSize } from '../../codec/zstd-frame.ts';

/** Level 3, Zstandard's own default: on the leaves of a million cells, level 9 took 2.6 times as long for 1.5 % fewer bytes. */
const LEVEL = { [constants.ZSTD_c_compressionLevel]: 3 };

/** Zstandard and SHA-256 in native code, as Node brings them. */
export const nativePlatform: ChunkPlatform = {
  compress: (bytes) => firstFrame(zstdCompressSync(bytes, { params: LEVEL })),
  // An output limit of 0 is refused by Node, and a frame for no bytes at all is never written.
  decompress: (frame, limit) => {
    // Zstandard in WebAssembly cannot bound such a frame, so nobody reads one.
    if (!statesContentSize(frame)) throw new Error('the Zstandard frame does not state its content size');
    return zstdDecompressSync(frame, { maxOutputLength: Math.max(1, limit) });
  },
  sha256: (bytes) => hash('sha256', bytes, 'buffer'),
};

/** Node 24 puts an empty frame behind one that exactly fills its output buffers of 16 KiB; chunks hold a single one. */
function firstFrame(frames: Uint8Array): Uint8Array {
  return frames.subarray(0, frameBytes(frames));
}
