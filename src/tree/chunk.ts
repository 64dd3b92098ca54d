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
