import { UploadAbortedError } from '../../errors.ts';
import {
  type BlobInfo,
  type BlobPart,
  type BlobRange,
  type BlobStore,
  clampRange,
  isSameWrite,
  type ListOptions,
  type UploadInfo,
} from '../../store/blob-store.ts';
import { checkBlobKey } from '../../store/keys.ts';

interface StoredBlob extends BlobInfo {
  readonly content: Uint8Array;
}

/** Blobs in this process's memory. It is the reference for the other blob stores. */
export class MemoryBlobStore implements BlobStore {
  readonly #blobs = new Map<string, StoredBlob>();
  readonly #uploads = new Map<string, UploadInfo>();
  readonly #now: () => number;
  #writes = 0;

  /** @param now epoch milliseconds, for `modified` */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#blobs.get(key)?.content.slice();
  }

  async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    const content = this.#blobs.get(key)?.content;
    if (content === undefined) return undefined;
    const { from, to } = clampRange(range, content.byteLength);
    return { bytes: content.slice(from, to), size: content.byteLength };
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    // Copied on the way in and out, so that no caller can change the stored bytes.
    this.#write(checkBlobKey(key), Uint8Array.from(bytes));
  }

  async putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const id = String(++this.#writes);
    this.#uploads.set(id, { key: checkBlobKey(key), id, started: this.#now() });
    try {
      const parts: Uint8Array[] = [];
      for await (const part of bytes) {
        parts.push(Uint8Array.from(part));
        this.#checkUpload(key, id);
      }
      this.#checkUpload(key, id);
      this.#write(key, new Uint8Array(Buffer.concat(parts)));
    } finally {
      this.#uploads.delete(id);
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkBlobKey(key);
    for (const key of keys) this.#blobs.delete(key);
  }

  async deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number> {
    for (const { key } of blobs) checkBlobKey(key);
    for (const blob of blobs) {
      const now = this.#blobs.get(blob.key);
      if (now !== undefined && isSameWrite(blob, now)) this.#blobs.delete(blob.key);
    }
    return blobs.filter(({ key }) => !this.#blobs.has(key)).length;
  }

  async update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void> {
    const changed = change(this.#blobs.get(checkBlobKey(key))?.content.slice());
    if (changed !== undefined) this.#write(key, Uint8Array.from(changed));
  }

  async *list(prefix: string, { after = '' }: ListOptions = {}): AsyncGenerator<BlobInfo> {
    const keys = [...this.#blobs.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    for (const key of keys) {
      const blob = this.#blobs.get(key);
      if (blob === undefined) continue;
      const { bytes, modified, version } = blob;
      yield { key, bytes, modified, version };
    }
  }

  async *uploads(prefix: string): AsyncGenerator<UploadInfo> {
    yield* [...this.#uploads.values()].filter(({ key }) => key.startsWith(prefix));
  }

  async abort({ key, id }: UploadInfo): Promise<void> {
    checkBlobKey(key);
    this.#uploads.delete(id);
  }

  #write(key: string, content: Uint8Array): void {
    const version = String(++this.#writes);
    this.#blobs.set(key, { key, bytes: content.byteLength, modified: this.#now(), version, content });
  }

  #checkUpload(key: string, id: string): void {
    if (!this.#uploads.has(id)) throw new UploadAbortedError(`the upload of '${key}' was aborted`);
  }
}
