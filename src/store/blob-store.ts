export interface BlobInfo {
  readonly key: string;
  /** Size as stored, in bytes. */
  readonly bytes: number;
  /** When the object was last written, in epoch milliseconds. */
  readonly modified: number;
}

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
  /** Writes all of the bytes or nothing. An object that exists is replaced, which renews its `modified`. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Removes keys; one that does not exist is no error. */
  delete(keys: readonly string[]): Promise<void>;
  /** Every object whose key starts with the prefix, in ascending order of key (byte order). */
  list(prefix: string): AsyncIterable<BlobInfo>;
}
