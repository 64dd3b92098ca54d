import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { ByteSource } from '../codec/bytes.ts';
import { ExternalCorruptError, ExternalMissingError, LogfoldError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobPart, BlobStore } from '../store/blob-store.ts';
import { bodyKey, parseKey, randomHex } from '../store/keys.ts';
import type { Entry } from './entry.ts';

/** Bytes of one request. The next one is sent ahead, so a reader holds two parts in memory. */
const PART_BYTES = 4 * 1024 * 1024;
/** The most bytes of a slice that a reader gets. */
const SLICE_BYTES = 256 * 1024;

/**
 * Writes a file to the blob store, under a key with its SHA-256. Reads the source twice: for the
 * hash, and for the upload. An entry names the file with `file`. Until then it is garbage, which a
 * collection removes after its grace period.
 * @returns the key
 * @throws UsageError if the source is not a function that returns an async iterable of bytes, or
 * does not give the same bytes twice
 * @throws any error of the source and of the store; then nothing is written
 */
export async function saveFile(
  to: { readonly blobs: BlobStore; readonly random: () => number },
  log: LogId,
  source: ByteSource,
): Promise<string> {
  const hash = sha256.create();
  for await (const slice of slicesOf(log, source)) hash.update(checkSlice(log, slice));
  const id = bytesToHex(hash.digest());
  const key = bodyKey(log, id, randomHex(to.random, 12));
  await to.blobs.putStream(key, sameBytes(log, source, id));
  return key;
}

async function* sameBytes(log: LogId, source: ByteSource, id: string): AsyncGenerator<Uint8Array> {
  const hash = sha256.create();
  for await (const slice of slicesOf(log, source)) {
    hash.update(checkSlice(log, slice));
    yield slice;
  }
  if (bytesToHex(hash.digest()) === id) return;
  throw new UsageError('the file changed while it was read, and nothing was written', {
    log,
    advice: 'Try again when nothing writes to the file',
  });
}

function slicesOf(log: LogId, source: ByteSource): AsyncIterable<Uint8Array> {
  const slices = typeof source === 'function' ? source() : undefined;
  if (isIterable(slices)) return slices;
  throw noBytes(log, 'is not a function that returns an async iterable');
}

function isIterable(slices: AsyncIterable<Uint8Array> | undefined): slices is AsyncIterable<Uint8Array> {
  if (typeof slices !== 'object' || slices === null) return false;
  return Symbol.asyncIterator in slices || Symbol.iterator in slices;
}

function checkSlice(log: LogId, slice: Uint8Array): Uint8Array {
  if (slice instanceof Uint8Array) return slice;
  throw noBytes(log, 'yields something other than bytes');
}

function noBytes(log: LogId, problem: string): UsageError {
  return new UsageError(`the source of the file ${problem}`, {
    log,
    advice: 'Give a function that returns an async iterable of Uint8Array, such as () => createReadStream(path)',
  });
}

/**
 * Opens a file with one request, which also reads its first part.
 * @param key of a form that `isFileKey` accepts
 * @throws ExternalMissingError if it does not exist
 */
export async function openFile(blobs: BlobStore, key: string): Promise<StoredFile> {
  const first = await blobs.getRange(key, { from: 0, to: PART_BYTES });
  if (first === undefined) throw missing(key);
  return new StoredFile(blobs, key, first);
}

/**
 * Opens the file of an entry; undefined if it has none.
 * @throws ExternalMissingError, with the place, if it does not exist
 */
export async function fileOf(
  blobs: BlobStore,
  { file, log, position, type }: Pick<Entry, 'file' | 'log' | 'position' | 'type'>,
): Promise<StoredFile | undefined> {
  if (file === undefined) return undefined;
  try {
    return await openFile(blobs, file);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log, ...position, type }) : error;
  }
}

/** The file of an entry in the blob store. */
export class StoredFile {
  readonly size: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  readonly #blobs: BlobStore;
  readonly #key: string;
  #first: BlobPart | undefined;
  #isOpened = false;
  #isVerified = false;

  constructor(blobs: BlobStore, key: string, first: BlobPart) {
    const parsed = parseKey(key);
    this.sha256 = parsed?.kind === 'body' ? parsed.id : '';
    this.size = first.size;
    this.#blobs = blobs;
    this.#key = key;
    this.#first = first;
  }

  /**
   * The bytes from the beginning, in slices of at most {@link SLICE_BYTES}. Checks the hash after
   * the last one.
   * @throws ExternalMissingError, ExternalCorruptError
   */
  async *bytes(): AsyncGenerator<Uint8Array> {
    this.#isOpened = true;
    const hash = sha256.create();
    let part = this.#first === undefined ? this.#part(0) : Promise.resolve(this.#first);
    this.#first = undefined;
    for (let at = 0; at < this.size || at === 0; at += PART_BYTES) {
      const { bytes } = await part;
      if (at + PART_BYTES < this.size) part = this.#part(at + PART_BYTES);
      for (let from = 0; from < bytes.length; from += SLICE_BYTES) {
        const slice = bytes.subarray(from, from + SLICE_BYTES);
        hash.update(slice);
        yield slice;
      }
    }
    if (bytesToHex(hash.digest()) !== this.sha256) throw corrupt(this.#key);
    this.#isVerified = true;
  }

  /**
   * Checks the hash of a file that was read only in part, as an answer may depend on any byte that
   * was read.
   * @throws ExternalMissingError, ExternalCorruptError
   */
  async verify(): Promise<void> {
    if (!this.#isOpened || this.#isVerified) return;
    for await (const _ of this.bytes());
  }

  #part(from: number): Promise<BlobPart> {
    const part = this.#blobs.getRange(this.#key, { from, to: from + PART_BYTES }).then((found) => {
      if (found === undefined) throw missing(this.#key);
      return found;
    });
    // Awaited later, or never if the reader ends early. A failure must not count as unhandled.
    part.catch(() => undefined);
    return part;
  }
}

function missing(key: string): ExternalMissingError {
  return new ExternalMissingError(`the object '${key}' with the file does not exist`, {
    advice: 'Restore it, from a version or a backup of the bucket',
  });
}

function corrupt(key: string): ExternalCorruptError {
  return new ExternalCorruptError(`the object '${key}' with the file does not hash to its name`, {
    advice: 'Restore it, from a version or a backup of the bucket',
  });
}
