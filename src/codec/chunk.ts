import { ChunkCorruptError, LogfoldError, REBUILD_ADVICE } from '../errors.ts';
import { toHex } from './bytes.ts';
import { frameBytes } from './zstd-frame.ts';

/** A chunk's name: the SHA-256 of its uncompressed canonical bytes, as 64 lower-case hexadecimal digits. */
export type ChunkId = string & { readonly __brand: 'ChunkId' };

/** Where one log's chunks lie, in their stored form. */
export interface ChunkStore {
  /** The stored bytes of a chunk, or undefined where there is none. */
  get(id: ChunkId): Promise<Uint8Array | undefined>;
  /** Writes a chunk, also where it exists already: writing it anew keeps it young, so that no collector takes it. */
  put(id: ChunkId, stored: Uint8Array): Promise<void>;
}

/** What the platform lends to the codec: native code where there is some, WebAssembly or plain code elsewhere. */
export interface ChunkPlatform {
  /** A Zstandard frame that states its content size; or, where compressing is of no use, the bytes as they are. */
  readonly compress: (bytes: Uint8Array) => Uint8Array;
  /** What a frame holds; throws if it is damaged, states no content size, or holds more than `limit` bytes. */
  readonly decompress: (frame: Uint8Array, limit: number) => Uint8Array;
  /** The 32 bytes of the SHA-256. */
  readonly sha256: (bytes: Uint8Array) => Uint8Array;
}

const MAGIC = [0x4c, 0x47, 0x46] as const;
const FORMAT_VERSION = 1;
const CODEC_NONE = 0;
const CODEC_ZSTD = 1;
/** Length of what stands before the payload: magic (3), format version (1), codec (1), uncompressed length (4). */
export const HEADER_BYTES = 9;
/** No chunk is larger than this uncompressed, in bytes: a reader never allocates more on a stored byte's word. */
export const MAX_CHUNK_BYTES = 64 * 1024 * 1024;
/** Below this many bytes a Zstandard frame is no shorter than what it holds. */
const WORTH_COMPRESSING = 64;

/** The id of a chunk with these canonical bytes. */
export function chunkId(platform: ChunkPlatform, canonical: Uint8Array): ChunkId {
  return toHex(platform.sha256(canonical)) as ChunkId;
}

/** The stored form of canonical bytes: a header, then a Zstandard frame, or the bytes where that is no shorter. */
export function packChunk(platform: ChunkPlatform, canonical: Uint8Array): Uint8Array {
  if (canonical.length > MAX_CHUNK_BYTES) {
    throw new ChunkCorruptError(`a chunk of ${canonical.length} bytes is over the limit of ${MAX_CHUNK_BYTES}`);
  }
  const frame = canonical.length < WORTH_COMPRESSING ? canonical : platform.compress(canonical);
  const shorter = frame.length < canonical.length;
  const payload = shorter ? frame : canonical;
  const stored = new Uint8Array(HEADER_BYTES + payload.length);
  stored.set(MAGIC);
  stored[3] = FORMAT_VERSION;
  stored[4] = shorter ? CODEC_ZSTD : CODEC_NONE;
  new DataView(stored.buffer).setUint32(5, canonical.length);
  stored.set(payload, HEADER_BYTES);
  return stored;
}

/**
 * Undoes {@link packChunk}. Checks magic, version, codec and length before it allocates; what calls it checks the hash.
 * @throws ChunkCorruptError saying what is wrong
 */
export function unpackChunk(platform: ChunkPlatform, stored: Uint8Array): Uint8Array {
  if (stored.length < HEADER_BYTES) throw damaged(`it ends after ${stored.length} bytes, within its header`);
  if (MAGIC.some((byte, i) => stored[i] !== byte)) throw damaged('it does not start with the magic bytes LGF');
  const version = stored[3];
  if (version !== FORMAT_VERSION) {
    throw new ChunkCorruptError(`stored in format version ${version}, and only version ${FORMAT_VERSION} is known`, {
      advice: 'Read it with the release of logfold that wrote it, or a newer one',
    });
  }
  const length = new DataView(stored.buffer, stored.byteOffset).getUint32(5);
  if (length > MAX_CHUNK_BYTES) throw damaged(`it claims ${length} bytes, over the limit of ${MAX_CHUNK_BYTES}`);
  const canonical = readPayload(platform, stored, length);
  if (canonical.length !== length) throw damaged(`it holds ${canonical.length} bytes and claims ${length}`);
  return canonical;
}

/**
 * The canonical bytes of a chunk whose id is known.
 * @throws ChunkCorruptError also where they do not hash to the id
 */
export function openChunk(platform: ChunkPlatform, id: ChunkId, stored: Uint8Array): Uint8Array {
  try {
    const canonical = unpackChunk(platform, stored);
    if (chunkId(platform, canonical) !== id) throw damaged('its bytes do not hash to its name');
    return canonical;
  } catch (error) {
    if (!(error instanceof ChunkCorruptError)) throw error;
    throw new ChunkCorruptError(`chunk ${id}: ${error.reason}`, { advice: error.advice, cause: error });
  }
}

function readPayload(platform: ChunkPlatform, stored: Uint8Array, length: number): Uint8Array {
  const payload = stored.subarray(HEADER_BYTES);
  switch (stored[4]) {
    case CODEC_NONE:
      return payload;
    case CODEC_ZSTD:
      if (payload.length > frameBytes(payload)) throw damaged('bytes follow its Zstandard frame');
      try {
        return platform.decompress(payload, length);
      } catch (cause) {
        if (cause instanceof LogfoldError) throw cause;
        throw damaged('its Zstandard frame is truncated, altered or longer than claimed', cause);
      }
    default:
      throw damaged(`its codec ${stored[4]} is unknown`);
  }
}

function damaged(reason: string, cause?: unknown): ChunkCorruptError {
  return new ChunkCorruptError(`the stored bytes are damaged: ${reason}`, {
    advice: REBUILD_ADVICE,
    cause,
  });
}
