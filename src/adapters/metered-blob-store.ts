import type { BlobInfo, BlobStore } from '../store/blob-store.ts';

/** Keys that one list or delete request of S3 carries. */
const KEYS_PER_REQUEST = 1000;

/** Requests as S3 would count them, and bytes of objects. */
export interface BlobUsage {
  readonly gets: number;
  readonly puts: number;
  /** One for every 1,000 keys listed, and at least one a listing. */
  readonly lists: number;
  /** One for every 1,000 keys deleted. */
  readonly deletes: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/** Counts what goes to another blob store. A request counts when it is made, its bytes once it has succeeded. */
export class MeteredBlobStore implements BlobStore {
  readonly #inner: BlobStore;
  readonly #usage = { gets: 0, puts: 0, lists: 0, deletes: 0, bytesRead: 0, bytesWritten: 0 };

  constructor(inner: BlobStore) {
    this.#inner = inner;
  }

  /** What was counted so far. */
  usage(): BlobUsage {
    return { ...this.#usage };
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    this.#usage.gets++;
    const bytes = await this.#inner.get(key);
    this.#usage.bytesRead += bytes?.byteLength ?? 0;
    return bytes;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    this.#usage.puts++;
    await this.#inner.put(key, bytes);
    this.#usage.bytesWritten += bytes.byteLength;
  }

  async delete(keys: readonly string[]): Promise<void> {
    this.#usage.deletes += Math.ceil(keys.length / KEYS_PER_REQUEST);
    await this.#inner.delete(keys);
  }

  async *list(prefix: string): AsyncGenerator<BlobInfo> {
    this.#usage.lists++;
    let listed = 0;
    for await (const blob of this.#inner.list(prefix)) {
      // The first key beyond a full page is what needs the next request.
      if (listed > 0 && listed % KEYS_PER_REQUEST === 0) this.#usage.lists++;
      listed++;
      yield blob;
    }
  }
}
