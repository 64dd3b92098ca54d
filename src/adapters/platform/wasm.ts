import { sha256 } from '@noble/hashes/sha2.js';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { TooLargeError } from '../../errors.ts';
import type { Zstd } from './zstd.ts';

/** The native platform uses this level too, so that both write frames of about the same size. */
const LEVEL = 3;
/**
 * The library has 16 MB of memory, which cannot grow. Source, target and workspace of this size fit
 * together.
 */
const MAX_BYTES = 2 * 1024 * 1024;

/**
 * Zstandard in WebAssembly and SHA-256 in JavaScript, for environments without native code, such as
 * browsers. This platform and the native one read each other's frames. Every call starts an
 * instance with 16 MB of memory.
 *
 * Before `decompress` allocates, it checks that the frame states its content size and that the size
 * is within the limit. The library then allocates this size and refuses a frame that holds more or
 * less. Frames without a content size are refused, because the library cannot limit their output.
 *
 * More than 2 MB is never compressed and cannot be decompressed: `decompress` throws TooLargeError.
 * Nodes are far smaller; only a value in its own chunk can be that large.
 */
export async function loadWasmPlatform(): Promise<ChunkPlatform> {
  // Half a megabyte, which `import 'logfold'` does not wait for.
  const { ZstdCodec } = await import('./zstd.ts');
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
      if (size === null) throw new Error('the bytes are not a Zstandard frame that states its content size');
      if (size > limit) throw new Error(`the Zstandard frame states ${size} bytes, over the limit of ${limit}`);
      if (size > MAX_BYTES) throw tooLarge(`a frame that holds ${size} bytes`);
      // The library treats an empty frame as a failure.
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
    advice: 'Read it with a native Zstandard, for example in Node',
  });
}
