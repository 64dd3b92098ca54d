import {
  type BlobInfo,
  type BlobPart,
  type BlobRange,
  type BlobStore,
  type ListOptions,
  STREAM_PART_BYTES,
  type UploadInfo,
} from '../store/blob-store.ts';

/** Keys in one list or delete request of S3. */
const KEYS_PER_REQUEST = 1000;

/** Requests as S3 would count them, and bytes of objects. */
export interface BlobUsage {
  /**
   * One for each object or range that is read, and one for each object that is checked before it is
   * deleted.
   */
  readonly gets: number;
  /**
   * One for each object. A stream of more than 8 MiB takes one for each part of 8 MiB, and two
   * more.
   */
  readonly puts: number;
  /** One for every 1,000 keys or uploads, and at least one for each listing. */
  readonly lists: number;
  /** One for every 1,000 deleted keys, and one for each aborted upload. */
  readonly deletes: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
}

/**
 * Counts the requests to another blob store. A request counts when it starts, its bytes after it
 * has succeeded.
 */
export class MeteredBlobStore implements BlobStore {
  readonly #inner: BlobStore;
  readonly #usage = { gets: 0, puts: 0, lists: 0, deletes: 0, bytesRead: 0, bytesWritten: 0 };

  constructor(inner: BlobStore) {
    this.#inner = inner;
  }

  /** The counts so far. */
  usage(): BlobUsage {
    return { ...this.#usage };
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    this.#usage.gets++;
    const bytes = await this.#inner.get(key);
    this.#usage.bytesRead += bytes?.byteLength ?? 0;
    return bytes;
  }

  async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    this.#usage.gets++;
    const part = await this.#inner.getRange(key, range);
    this.#usage.bytesRead += part?.bytes.byteLength ?? 0;
    return part;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    this.#usage.puts++;
    await this.#inner.put(key, bytes);
    this.#usage.bytesWritten += bytes.byteLength;
  }

  async putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    let streamed = 0;
    async function* counted(): AsyncGenerator<Uint8Array> {
      for await (const part of bytes) {
        streamed += part.byteLength;
        yield part;
      }
    }
    try {
      await this.#inner.putStream(key, counted());
    } finally {
      const parts = Math.max(1, Math.ceil(streamed / STREAM_PART_BYTES));
      this.#usage.puts += parts === 1 ? 1 : parts + 2;
    }
    this.#usage.bytesWritten += streamed;
  }

  async delete(keys: readonly string[]): Promise<void> {
    this.#usage.deletes += Math.ceil(keys.length / KEYS_PER_REQUEST);
    await this.#inner.delete(keys);
  }

  async deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number> {
    this.#usage.gets += blobs.length;
    const gone = await this.#inner.deleteUnchanged(blobs);
    this.#usage.deletes += Math.ceil(gone / KEYS_PER_REQUEST);
    return gone;
  }

  /** Counts each try: a GET, and a PUT if there is something to write. */
  async update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void> {
    await this.#inner.update(key, (bytes) => {
      this.#usage.gets++;
      this.#usage.bytesRead += bytes?.byteLength ?? 0;
      const changed = change(bytes);
      if (changed !== undefined) this.#usage.puts++;
      this.#usage.bytesWritten += changed?.byteLength ?? 0;
      return changed;
    });
  }

  list(prefix: string, options?: ListOptions): AsyncGenerator<BlobInfo> {
    return this.#countPages(this.#inner.list(prefix, options));
  }

  uploads(prefix: string): AsyncGenerator<UploadInfo> {
    return this.#countPages(this.#inner.uploads(prefix));
  }

  async abort(upload: UploadInfo): Promise<void> {
    this.#usage.deletes++;
    await this.#inner.abort(upload);
  }

  async *#countPages<T>(listing: AsyncIterable<T>): AsyncGenerator<T> {
    this.#usage.lists++;
    let listed = 0;
    for await (const item of listing) {
      // The first item after a full page needs the next request.
      if (listed > 0 && listed % KEYS_PER_REQUEST === 0) this.#usage.lists++;
      listed++;
      yield item;
    }
  }
}
