import type { BlobInfo, BlobStore } from '../store/blob-store.ts';
import { checkBlobKey } from '../store/keys.ts';

interface StoredBlob {
  readonly bytes: Uint8Array;
  readonly modified: number;
}

/** Blobs in this process's memory: the reference for every other blob store. */
export class MemoryBlobStore implements BlobStore {
  readonly #blobs = new Map<string, StoredBlob>();
  readonly #now: () => number;

  /** @param now epoch milliseconds, for `modified` */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#blobs.get(key)?.bytes.slice();
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    // Copied both ways, so that no caller can change what is stored.
    this.#blobs.set(checkBlobKey(key), { bytes: Uint8Array.from(bytes), modified: this.#now() });
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkBlobKey(key);
    for (const key of keys) this.#blobs.delete(key);
  }

  async *list(prefix: string): AsyncGenerator<BlobInfo> {
    const keys = [...this.#blobs.keys()].filter((key) => key.startsWith(prefix)).sort();
    for (const key of keys) {
      const blob = this.#blobs.get(key);
      if (blob !== undefined) yield { key, bytes: blob.bytes.byteLength, modified: blob.modified };
    }
  }
}
