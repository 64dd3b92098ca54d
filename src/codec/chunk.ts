import { ChunkCorruptError, LogfoldError, REBUILD_ADVICE, type Where } from '../errors.ts';
import { toHex } from './bytes.ts';

/**
 * The id of a chunk: the SHA-256 of its uncompressed canonical bytes, as 64 lower-case hexadecimal
 * digits.
 */
export type ChunkId = string & { readonly __brand: 'ChunkId' };

/** The store of one log's chunks, in their stored form. */
export interface ChunkStore {
  /** The log of the chunks, for errors; none by default. */
  readonly where?: Where | undefined;
  /** The stored bytes of a chunk; undefined if it is missing. */
  get(id: ChunkId): Promise<Uint8Array | undefined>;
  /**
   * Writes a chunk, even if it exists: the write renews its age, so that garbage collection does
   * not remove it.
   */
  put(id: ChunkId, stored: Uint8Array): Promise<void>;
}

/**
 * Port for compression and hashes: native code if the platform has it, otherwise WebAssembly or
 * plain code.
 */
export interface ChunkPlatform {
  /**
   * Returns a Zstandard frame that states its content size, or the same bytes if compression does
   * not pay.
   */
  readonly compress: (bytes: Uint8Array) => Uint8Array;
  /**
   * Returns the content of a frame. Throws if it is damaged, states no content size, or exceeds
   * `limit` bytes.
   */
  readonly decompress: (frame: Uint8Array, limit: number) => Uint8Array;
  /** Returns the 32 bytes of the SHA-256. */
  readonly sha256: (bytes: Uint8Array) => Uint8Array;
}

const MAGIC = [0x4c, 0x47, 0x46] as const;
const FORMAT_VERSION = 1;
const CODEC_NONE = 0;
const CODEC_ZSTD = 1;
/** Length of the header: magic (3), format version (1), codec (1), uncompressed length (4). */
export const CHUNK_HEADER_BYTES = 9;
/**
 * Limit of a chunk's uncompressed size, in bytes, so that damaged bytes cannot make a reader
 * allocate more.
 */
export const MAX_CHUNK_BYTES = 64 * 1024 * 1024;
/** Below this many bytes a Zstandard frame is never shorter than its content. */
const WORTH_COMPRESSING = 64;

/** The id of the chunk with these canonical bytes. */
export function chunkId(platform: ChunkPlatform, canonical: Uint8Array): ChunkId {
  return toHex(platform.sha256(canonical)) as ChunkId;
}

/**
 * The stored form of canonical bytes: a header, then a Zstandard frame, or the bytes themselves if
 * the frame is not shorter.
 */
export function packChunk(platform: ChunkPlatform, canonical: Uint8Array): Uint8Array {
  if (canonical.length > MAX_CHUNK_BYTES) {
    throw new ChunkCorruptError(`a chunk of ${canonical.length} bytes exceeds the limit of ${MAX_CHUNK_BYTES}`);
  }
  const frame = canonical.length < WORTH_COMPRESSING ? canonical : platform.compress(canonical);
  const shorter = frame.length < canonical.length;
  const payload = shorter ? frame : canonical;
  const stored = new Uint8Array(CHUNK_HEADER_BYTES + payload.length);
  stored.set(MAGIC);
  stored[3] = FORMAT_VERSION;
  stored[4] = shorter ? CODEC_ZSTD : CODEC_NONE;
  new DataView(stored.buffer).setUint32(5, canonical.length);
  stored.set(payload, CHUNK_HEADER_BYTES);
  return stored;
}

/**
 * Whether bytes begin like the stored form of a chunk, of this or any other version. They may still
 * be damaged.
 */
export function isChunkForm(stored: Uint8Array): boolean {
  return MAGIC.every((byte, i) => stored[i] === byte);
}

/**
 * The inverse of {@link packChunk}. Checks magic, version, codec and length before it allocates.
 * The caller checks the hash.
 * @throws ChunkCorruptError if the bytes are not a stored chunk
 */
export function unpackChunk(platform: ChunkPlatform, stored: Uint8Array): Uint8Array {
  if (stored.length < CHUNK_HEADER_BYTES) throw damaged(`it ends after ${stored.length} bytes, within its header`);
  if (!isChunkForm(stored)) throw damaged('it does not start with the magic bytes LGF');
  const version = stored[3];
  if (version !== FORMAT_VERSION) {
    throw new ChunkCorruptError(`stored in format version ${version}, and only version ${FORMAT_VERSION} is known`, {
      advice: 'Read it with the release of logfold that wrote it, or a newer one',
    });
  }
  const length = new DataView(stored.buffer, stored.byteOffset).getUint32(5);
  if (length > MAX_CHUNK_BYTES) throw damaged(`it claims ${length} bytes and exceeds the limit of ${MAX_CHUNK_BYTES}`);
  const canonical = readPayload(platform, stored, length);
  if (canonical.length !== length) throw damaged(`it holds ${canonical.length} bytes and claims ${length}`);
  return canonical;
}

/**
 * The canonical bytes of a stored chunk with a known id.
 * @throws ChunkCorruptError if the bytes are not a stored chunk, or do not have the hash in the id
 */
export function openChunk(platform: ChunkPlatform, id: ChunkId, stored: Uint8Array): Uint8Array {
  try {
    const canonical = unpackChunk(platform, stored);
    if (chunkId(platform, canonical) !== id) throw damaged('its bytes do not have the hash in its name');
    return canonical;
  } catch (error) {
    if (!(error instanceof ChunkCorruptError)) throw error;
    throw new ChunkCorruptError(`chunk ${id}: ${error.reason}`, { advice: error.advice, cause: error });
  }
}

function readPayload(platform: ChunkPlatform, stored: Uint8Array, length: number): Uint8Array {
  const payload = stored.subarray(CHUNK_HEADER_BYTES);
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

/** Bytes of the magic number and the frame header descriptor after it. */
const FIXED_BYTES = 5;
const BLOCK_HEADER_BYTES = 3;
const CHECKSUM_BYTES = 4;
const DICTIONARY_ID_BYTES: readonly number[] = [0, 1, 2, 4];
const CONTENT_SIZE_BYTES: readonly number[] = [0, 2, 4, 8];
const RUN_BLOCK = 1;

/**
 * The length of the Zstandard frame at the start of some bytes, from its headers. Decompressors
 * stop at a frame's end and ignore the rest. The result exceeds the number of bytes if the frame is
 * truncated. Source: RFC 8878, section 3.1.1.
 */
export function frameBytes(bytes: Uint8Array): number {
  const descriptor = bytes[FIXED_BYTES - 1] ?? 0;
  const singleSegment = (descriptor & 0x20) !== 0;
  const window = singleSegment ? 0 : 1;
  const dictionaryId = DICTIONARY_ID_BYTES[descriptor & 3] ?? 0;
  const sizeFlag = descriptor >> 6;
  const contentSize = sizeFlag === 0 && singleSegment ? 1 : (CONTENT_SIZE_BYTES[sizeFlag] ?? 0);
  let end = FIXED_BYTES + window + dictionaryId + contentSize;
  for (let last = false; !last; ) {
    const header = (bytes[end] ?? 0) | ((bytes[end + 1] ?? 0) << 8) | ((bytes[end + 2] ?? 0) << 16);
    last = (header & 1) !== 0;
    end += BLOCK_HEADER_BYTES + (((header >> 1) & 3) === RUN_BLOCK ? 1 : header >> 3);
    if (end > bytes.length) return end;
  }
  return end + ((descriptor & 4) === 0 ? 0 : CHECKSUM_BYTES);
}

/**
 * Whether a Zstandard frame's header states the content size. A frame with a single segment always
 * does. Source: RFC 8878, section 3.1.1.1.1.
 */
export function statesContentSize(frame: Uint8Array): boolean {
  return ((frame[FIXED_BYTES - 1] ?? 0) & 0xe0) !== 0;
}
