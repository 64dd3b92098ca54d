import { equalBytes } from '../../../src/codec/bytes.ts';
import type {
  BlobInfo,
  BlobPart,
  BlobRange,
  BlobStore,
  ListOptions,
  UploadInfo,
} from '../../../src/store/blob-store.ts';

/** A blob store that counts losses of objects. */
export class WatchedBlobStore implements BlobStore {
  /**
   * Incremented when an object is deleted or gets other bytes. Objects that were readable before
   * may be unreadable since.
   */
  losses = 0;
  readonly #inner: BlobStore;

  constructor(inner: BlobStore) {
    this.#inner = inner;
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.#inner.get(key);
  }

  getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    return this.#inner.getRange(key, range);
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const before = await this.#inner.get(key);
    if (before !== undefined && !equalBytes(before, bytes)) this.losses++;
    await this.#inner.put(key, bytes);
  }

  async putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const before = await this.#inner.get(key);
    await this.#inner.putStream(key, bytes);
    const after = await this.#inner.get(key);
    if (before !== undefined && (after === undefined || !equalBytes(before, after))) this.losses++;
  }

  async delete(keys: readonly string[]): Promise<void> {
    this.losses++;
    await this.#inner.delete(keys);
  }

  async deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number> {
    this.losses++;
    return this.#inner.deleteUnchanged(blobs);
  }

  update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void> {
    return this.#inner.update(key, change);
  }

  list(prefix: string, options?: ListOptions): AsyncIterable<BlobInfo> {
    return this.#inner.list(prefix, options);
  }

  uploads(prefix: string): AsyncIterable<UploadInfo> {
    return this.#inner.uploads(prefix);
  }

  abort(upload: UploadInfo): Promise<void> {
    return this.#inner.abort(upload);
  }
}
