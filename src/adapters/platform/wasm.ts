import { sha256 } from '@noble/hashes/sha2.js';
import { type Zstd, ZstdCodec } from 'zstd-codec';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { TooLargeError } from '../../errors.ts';

/** The level that the native platform uses too, so that both write frames of about the same size. */
const LEVEL = 3;
/** The library's memory is 16 MB and cannot grow; source, target and workspace of this many bytes fit together. */
const MAX_BYTES = 2 * 1024 * 1024;

/**
 * Zstandard in WebAssembly and SHA-256 in JavaScript, for where there is no native code, such as in browsers. Its
 * frames and those of the native platform are read by both. Every call starts an instance with 16 MB of memory.
 *
 * Before `decompress` allocates, it checks that the frame states its content size and that this is within the limit;
 * the library then allocates as much as stated and refuses a frame that holds more or less. Frames that do not state
 * their size are refused, since the library cannot bound them.
 *
 * More than 2 MB is never compressed, and cannot be decompressed: `decompress` throws TooLargeError. Nodes are far
 * smaller; only a value of its own can be that large.
 */
export async function loadWasmPlatform(): Promise<ChunkPlatform> {
  const zstd = await new Promise<Zstd>((resolve) => ZstdCodec.run(resolve));
  const generic = new zstd.Generic();
  const simple = new zstd.Simple();
  return {
    compress: (bytes) => {
      if (bytes.length > MAX_BYTES) return bytes;
      const frame = simple.compress(bytes, LEVEL);
      if (frame === null) throw new Error(`Zstandard could not compress ${bytes.length} bytes`);
      return frame;
    },
    decompress: (frame, limit) => {
      if (frame.length > MAX_BYTES) throw tooLarge(`a frame of ${frame.length} bytes`);
      const size = generic.contentSize(frame);
      if (size === null) throw new Error('the bytes are no Zstandard frame, or one that does not state its size');
      if (size > limit) throw new Error(`the Zstandard frame states ${size} bytes, over the limit of ${limit}`);
      if (size > MAX_BYTES) throw tooLarge(`a frame that holds ${size} bytes`);
      // The library takes a frame of nothing for a failure.
      if (size === 0) return new Uint8Array();
      const content = simple.decompress(frame);
      if (content === null) throw new Error('the Zstandard frame is damaged');
      return content;
    },
    sha256,
  };
}

function tooLarge(what: string): TooLargeError {
  return new TooLargeError(`${what} does not fit the memory of Zstandard in WebAssembly`, {
    advice: 'Read it where Zstandard is native, as in Node',
  });
}
