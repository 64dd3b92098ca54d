export interface BlobInfo {
  readonly key: string;
  /** Size as stored, in bytes. */
  readonly bytes: number;
  /** When the object was last written, in epoch milliseconds. */
  readonly modified: number;
  /** What the store itself tells writes of this key apart by, where it has something: it means nothing elsewhere. */
  readonly version?: string | undefined;
}

/** A part of an object: bytes from `from` up to but not including `to`, or the `last` so many. */
export type BlobRange = { readonly from: number; readonly to: number } | { readonly last: number };

export interface BlobPart {
  /** What the object has of the range: fewer bytes, or none, where it is shorter. */
  readonly bytes: Uint8Array;
  /** Size of the whole object, in bytes. */
  readonly size: number;
}

/** Something that was begun to be written and is not an object yet; nobody knows whether anybody still works on it. */
export interface UploadInfo {
  /** The key that it is to have. */
  readonly key: string;
  readonly id: string;
  /** When it was begun, in epoch milliseconds. */
  readonly started: number;
}

export interface ListOptions {
  /** Lists keys behind this one only. What lies before costs nothing. */
  readonly after?: string | undefined;
}

/** How much of a stream goes to the store at once, in bytes. */
export const STREAM_PART_BYTES = 8 * 1024 * 1024;

/**
 * Named immutable bytes: S3, a directory, or memory. What is written and deleted here has slash-separated ASCII keys as
 * `checkBlobKey` wants them, and none is the folder of another (`a` and `a/b`). What `put` has returned from, `get` and
 * `list` see, from anywhere.
 *
 * Every method throws BlobKeyInvalidError for a key that it does not take.
 */
export interface BlobStore {
  /**
   * The bytes under a key, or undefined where there are none. Other software may have written them, under any key that
   * is possible where they lie: entries name external bodies by keys that are not ours.
   */
  get(key: string): Promise<Uint8Array | undefined>;
  /** A part of an object, or undefined where there is none under this key. */
  getRange(key: string, range: BlobRange): Promise<BlobPart | undefined>;
  /** Writes all of the bytes or nothing. An object that exists is replaced, which renews its `modified`. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /**
   * Writes what a stream yields as one object, whatever its size, holding no more of it in memory than some megabytes:
   * all of it or, where the stream or the store fails, nothing. What a process that died had begun, `uploads` names.
   * Bytes that were yielded must not change any more.
   * @throws UploadAbortedError where `abort` has given it up meanwhile
   */
  putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Removes keys; one that does not exist is no error. */
  delete(keys: readonly string[]): Promise<void>;
  /**
   * Removes objects that `list` gave, but for those that were written anew since: they stay.
   * @returns how many of them are gone, those included that were so already
   */
  deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number>;
  /**
   * Changes one small object atomically: reads it, calls `change` with its bytes (undefined if there is none), and writes
   * the result, unless that is undefined. If another `update` wrote the object in between, it reads and calls `change`
   * again. After a lost answer `change` may meet its own result, so changing twice must be the same as changing once.
   * What `change` throws is thrown, and nothing is written.
   * @throws AttemptsExhaustedError if others are faster every time
   */
  update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void>;
  /** Every object whose key starts with the prefix, in ascending order of key (byte order). */
  list(prefix: string, options?: ListOptions): AsyncIterable<BlobInfo>;
  /** What was begun under keys that start with the prefix, by anybody, and neither finished nor given up. */
  uploads(prefix: string): AsyncIterable<UploadInfo>;
  /** Gives up something that was begun, which frees its room; no error where it is gone or has been finished. */
  abort(upload: UploadInfo): Promise<void>;
}

/** Where a range begins and ends in an object of so many bytes; `from` equals `to` where it has nothing of it. */
export function clampRange(range: BlobRange, size: number): { readonly from: number; readonly to: number } {
  if ('last' in range) return { from: Math.max(0, size - range.last), to: size };
  const from = Math.min(range.from, size);
  return { from, to: Math.max(from, Math.min(range.to, size)) };
}

/** Whether two looks at one key saw the same write. A listing that was kept without its `version` has only the rest. */
export function isSameWrite(before: Omit<BlobInfo, 'key'>, after: Omit<BlobInfo, 'key'>): boolean {
  const sameVersion = before.version === undefined || before.version === after.version;
  return sameVersion && before.bytes === after.bytes && before.modified === after.modified;
}

/** What a listing says of one object; undefined if it does not exist. One LIST, which needs no right to read objects. */
export async function findBlob(blobs: Pick<BlobStore, 'list'>, key: string): Promise<BlobInfo | undefined> {
  for await (const blob of blobs.list(key)) if (blob.key === key) return blob;
  return undefined;
}
