import type { BlobInfo, BlobStore } from '../../src/store/blob-store.ts';
import { equalBytes } from '../../src/tree/bytes.ts';

/** A blob store that tells when something that was there is gone or has changed. */
export class WatchedBlobStore implements BlobStore {
  /** Goes up when an object is deleted or gets other bytes: what could be read before may be unreadable since. */
  losses = 0;
  readonly #inner: BlobStore;

  constructor(inner: BlobStore) {
    this.#inner = inner;
  }

  get(key: string): Promise<Uint8Array | undefined> {
    return this.#inner.get(key);
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const before = await this.#inner.get(key);
    if (before !== undefined && !equalBytes(before, bytes)) this.losses++;
    await this.#inner.put(key, bytes);
  }

  async delete(keys: readonly string[]): Promise<void> {
    this.losses++;
    await this.#inner.delete(keys);
  }

  list(prefix: string): AsyncIterable<BlobInfo> {
    return this.#inner.list(prefix);
  }
}
