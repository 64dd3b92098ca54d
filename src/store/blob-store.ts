export interface BlobInfo {
  readonly key: string;
  /** Size as stored, in bytes. */
  readonly bytes: number;
  /** When the object was last written, in epoch milliseconds. */
  readonly modified: number;
  /**
   * The store's own identifier of this write of the key, if it has one. It has no meaning outside
   * the store.
   */
  readonly version?: string | undefined;
}

/** A part of an object: bytes from `from` up to but not including `to`, or the `last` bytes. */
export type BlobRange = { readonly from: number; readonly to: number } | { readonly last: number };

export interface BlobPart {
  /** The bytes of the range: fewer or none if the object is shorter. */
  readonly bytes: Uint8Array;
  /** Size of the whole object, in bytes. */
  readonly size: number;
}

/** An unfinished upload. Its process may or may not still be running. */
export interface UploadInfo {
  readonly key: string;
  readonly id: string;
  /** When the upload began, in epoch milliseconds. */
  readonly started: number;
}

export interface ListOptions {
  /** List only keys after this one. Keys before it cost nothing. */
  readonly after?: string | undefined;
}

/** Size of the parts in which a stream goes to the store, in bytes. */
export const STREAM_PART_BYTES = 8 * 1024 * 1024;

/**
 * Named immutable bytes: S3, a directory, or memory. Keys of written and deleted objects pass
 * `checkBlobKey`, and no key is the folder of another (`a` and `a/b`). After `put` has returned,
 * `get` and `list` see the object from everywhere.
 *
 * Every method throws BlobKeyInvalidError for an invalid key.
 */
export interface BlobStore {
  /**
   * The bytes under a key; undefined if there is no object. Accepts any key that the store
   * supports, since other programs may write external bodies under their own keys.
   */
  get(key: string): Promise<Uint8Array | undefined>;
  /** A part of an object; undefined if there is no object under this key. */
  getRange(key: string, range: BlobRange): Promise<BlobPart | undefined>;
  /** Writes all bytes or nothing. Replaces an existing object, which renews its `modified`. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /**
   * Writes the bytes of a stream as one object of any size, with at most some megabytes in memory.
   * Writes all of it, or nothing if the stream or the store fails. If the process dies, `uploads`
   * lists the unfinished upload. Yielded bytes must not change any more.
   * @throws UploadAbortedError if a call of `abort` ended the upload
   */
  putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Deletes objects. A missing object is not an error. */
  delete(keys: readonly string[]): Promise<void>;
  /**
   * Deletes objects that `list` returned, except objects that were written again since.
   * @returns number of objects that are gone, including objects that were missing before
   */
  deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number>;
  /**
   * Changes one small object atomically: reads it, calls `change` with its bytes (undefined if
   * there is no object), and writes the result unless it is undefined. If another `update` wrote
   * the object in between, it starts again. After a lost answer `change` may get its own result, so
   * it must be idempotent. If `change` throws, nothing is written and the error is rethrown.
   * @throws AttemptsExhaustedError if other updates win every time
   */
  update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void>;
  /** All objects whose key starts with the prefix, in byte order of key. */
  list(prefix: string, options?: ListOptions): AsyncIterable<BlobInfo>;
  /** All unfinished uploads whose key starts with the prefix, from any process. */
  uploads(prefix: string): AsyncIterable<UploadInfo>;
  /** Aborts an upload, which frees its storage. A missing or finished upload is not an error. */
  abort(upload: UploadInfo): Promise<void>;
}

/**
 * The bounds of a range within an object of `size` bytes. `from` equals `to` if the range is
 * outside the object.
 */
export function clampRange(range: BlobRange, size: number): { readonly from: number; readonly to: number } {
  if ('last' in range) return { from: Math.max(0, size - range.last), to: size };
  const from = Math.min(range.from, size);
  return { from, to: Math.max(from, Math.min(range.to, size)) };
}

/**
 * Whether two listings of one key saw the same write. Compares `version` only if the earlier
 * listing kept it.
 */
export function isSameWrite(before: Omit<BlobInfo, 'key'>, after: Omit<BlobInfo, 'key'>): boolean {
  const sameVersion = before.version === undefined || before.version === after.version;
  return sameVersion && before.bytes === after.bytes && before.modified === after.modified;
}

/**
 * Looks up one object in a listing; undefined if it does not exist. Costs one LIST, which needs no
 * permission to read objects.
 */
export async function findBlob(blobs: Pick<BlobStore, 'list'>, key: string): Promise<BlobInfo | undefined> {
  for await (const blob of blobs.list(key)) if (blob.key === key) return blob;
  return undefined;
}

/**
 * The Range header for a part of an object; undefined for an empty part, which no header can
 * express.
 */
export function rangeHeader(range: BlobRange): string | undefined {
  if ('last' in range) return range.last > 0 ? `bytes=-${range.last}` : undefined;
  return range.from < range.to ? `bytes=${range.from}-${range.to - 1}` : undefined;
}
