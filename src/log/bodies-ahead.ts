import type { Value } from '../codec/value.ts';
import type { BlobPart, BlobStore } from '../store/blob-store.ts';
import { checkBodyBytes, decodeEntryBody, decodeExternalBody } from './body.ts';
import type { Entry } from './entry.ts';

const OBJECTS_AHEAD = 16;
/**
 * Bytes of the first request for an object, which also returns the object's size. Most bodies are
 * shorter.
 */
const FIRST_BYTES = 128 * 1024;
/** Bytes that are in memory or requested ahead. */
const BYTES_AHEAD = 32 * 1024 * 1024;

interface Ahead {
  readonly key: string;
  readonly first: Promise<BlobPart | undefined>;
  /** The whole object, if it is longer than the first request and fits below the limit. */
  whole: Promise<Uint8Array | undefined> | undefined;
  /** Bytes of the limit that the object uses. */
  reserved: number;
}

/**
 * Loads the bodies of entries in order, and requests the next few external bodies ahead. Decodes
 * each body only when `load` returns it, since a decoded body may take ten times the memory.
 */
export class BodiesAhead {
  readonly #blobs: BlobStore;
  readonly #external: readonly Entry[];
  readonly #ahead = new Map<Entry, Ahead>();
  readonly #skipped = new Set<Entry>();
  #next = 0;
  #reserved = 0;

  constructor(blobs: BlobStore, external: readonly Entry[]) {
    this.#blobs = blobs;
    this.#external = external;
  }

  /**
   * @throws the errors of {@link decodeExternalBody}, of {@link decodeEntryBody} and of the store
   */
  async load(entry: Entry): Promise<Value> {
    if (entry.external === undefined) return decodeEntryBody(entry);
    this.#readAhead();
    const ahead = this.#ahead.get(entry) ?? this.#start(entry, entry.external);
    try {
      const first = await ahead.first;
      const isWhole = first === undefined || first.size <= first.bytes.length;
      const bytes = isWhole ? first?.bytes : await (ahead.whole ?? this.#get(ahead.key, first.size));
      return decodeExternalBody(entry, ahead.key, bytes);
    } finally {
      this.#ahead.delete(entry);
      this.#reserved -= ahead.reserved;
    }
  }

  /** Gives up the body of an entry that is not folded. */
  skip(entry: Entry): void {
    const ahead = this.#ahead.get(entry);
    if (ahead !== undefined) this.#reserved -= ahead.reserved;
    if (!this.#ahead.delete(entry)) this.#skipped.add(entry);
  }

  #readAhead(): void {
    while (this.#ahead.size < OBJECTS_AHEAD && this.#reserved + FIRST_BYTES <= BYTES_AHEAD) {
      const entry = this.#external[this.#next];
      if (entry?.external === undefined) return;
      this.#next++;
      if (!this.#skipped.has(entry)) this.#start(entry, entry.external);
    }
  }

  #start(entry: Entry, key: string): Ahead {
    const first = this.#blobs.getRange(key, { from: 0, to: FIRST_BYTES });
    const ahead: Ahead = { key, first, whole: undefined, reserved: FIRST_BYTES };
    this.#ahead.set(entry, ahead);
    this.#reserved += FIRST_BYTES;
    // `load` reports a failure. Until then it must not count as unhandled.
    first.then((part) => this.#sizeKnown(entry, ahead, part?.size ?? 0)).catch(() => undefined);
    return ahead;
  }

  #sizeKnown(entry: Entry, ahead: Ahead, size: number): void {
    if (this.#ahead.get(entry) !== ahead) return;
    const fits = this.#reserved - ahead.reserved + size <= BYTES_AHEAD;
    if (size > FIRST_BYTES && !fits) return;
    this.#reserved += size - ahead.reserved;
    ahead.reserved = size;
    if (size <= FIRST_BYTES) return;
    ahead.whole = this.#get(ahead.key, size);
    ahead.whole.catch(() => undefined);
  }

  /**
   * Gets the whole object in one request: two parts could be of two objects if another process
   * replaces it.
   */
  async #get(key: string, size: number): Promise<Uint8Array | undefined> {
    checkBodyBytes(size);
    return this.#blobs.get(key);
  }
}
