// Packs only: msgpackr's decoder behaves differently with and without its native addon.
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { Packr } from 'msgpackr/pack';
import { parseJson } from '../codec/json.ts';
import { decodeLenientValue } from '../codec/message-pack.ts';
import { CONTAINER_BYTES, checkDecodedBytes, checkValue, ITEM_BYTES, type Value } from '../codec/value.ts';
import {
  BodyUndecodableError,
  ExternalCorruptError,
  ExternalMissingError,
  LogfoldError,
  TooLargeError,
  textOf,
  UsageError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobPart, BlobStore } from '../store/blob-store.ts';
import { bodyKey, parseKey, randomHex } from '../store/keys.ts';
import type { EncodedBody, Entry, StoredBody } from './entry.ts';

const packr = new Packr({ useRecords: false, mapsAsObjects: false });
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Encoded bodies with more bytes go to the blob store, where they are cheaper to read. */
export const EXTERNAL_BODY_BYTES = 16 * 1024;

/**
 * The most bytes of an encoded body. Decoded, larger ones would not fit into the memory of a
 * function.
 */
export const MAX_BODY_BYTES = 64 * 1024 * 1024;

/**
 * Encodes a value as MessagePack. {@link decodeBody} is the inverse, with two exceptions: a bigint
 * from -2^53 to 2^53 comes back as a number, and -0 as 0.
 * @throws ValueUnsupportedError if the value cannot be stored exactly, see {@link checkValue}
 */
export function encodeBody(value: Value): Uint8Array {
  checkValue(value, 'the body');
  // A copy: msgpackr returns a view of a buffer that it uses for other documents too.
  return Uint8Array.from(packr.pack(packable(value)));
}

/**
 * Decodes a stored body. Bytes are MessagePack or JSON text, and the first byte says which. JSON
 * text starts with an ASCII character. In MessagePack, a first byte below 0x80 is a small integer
 * and the whole document. So several bytes that start below 0x80 are JSON, and all other bytes are
 * MessagePack. Numbers in JSON are doubles, as in `JSON.parse`.
 * @throws BodyUndecodableError, without a position, if the body has no such format or is not a
 * {@link Value}
 */
export function decodeBody(stored: StoredBody): Value {
  if (stored.format === 'native') return stored.value;
  const { format } = stored;
  try {
    return format === 'json' ? decodeJson(stored.text) : decodeBytes(stored.bytes);
  } catch (cause) {
    const reason = cause instanceof LogfoldError ? cause.reason : textOf(cause);
    throw new BodyUndecodableError(`the body (${format}) cannot be decoded: ${reason}`, {
      advice: 'Find out what wrote this entry; bodies are MessagePack, JSON or native DynamoDB values',
      cause,
    });
  }
}

/**
 * Loads an entry's body, from its external object if it has one. null if the entry has no body.
 * @throws ExternalMissingError if the object does not exist
 * @throws ExternalCorruptError if the object does not have the hash in its key
 * @throws BodyUndecodableError if the body cannot be decoded, or is too large
 */
export async function loadBody(blobs: BlobStore, entry: Entry): Promise<Value> {
  const { external } = entry;
  return external === undefined
    ? decodeEntryBody(entry)
    : decodeExternalBody(entry, external, await blobs.get(external));
}

/**
 * Decodes the body in an entry's item. null if there is none.
 * @throws BodyUndecodableError if the body cannot be decoded
 * @throws UsageError if the body is in an object, as large ones are: use {@link loadBody}
 */
export function decodeEntryBody(entry: Entry): Value {
  const { body, external, log, position } = entry;
  if (external !== undefined) {
    throw new UsageError(`the body of the entry is in the object '${external}', not in its item`, {
      log,
      ...position,
      advice: 'Load it with `logs.client.loadBody(entry)`',
    });
  }
  return body === undefined ? null : placed(entry, () => decodeBody(body));
}

/**
 * Decodes the body in an external object.
 * @param bytes the content of the object; undefined if it does not exist
 * @throws ExternalMissingError, ExternalCorruptError, BodyUndecodableError as {@link loadBody} does
 */
function decodeExternalBody(entry: Entry, key: string, bytes: Uint8Array | undefined): Value {
  return placed(entry, () => decodeBody({ format: 'bytes', bytes: checkExternal(key, bytes) }));
}

/** @throws BodyUndecodableError if a body has more bytes than {@link MAX_BODY_BYTES} */
export function checkBodyBytes(bytes: number): void {
  if (bytes <= MAX_BODY_BYTES) return;
  throw new BodyUndecodableError(`the body has ${bytes} bytes, over the limit of ${MAX_BODY_BYTES}`, {
    advice: 'Replace the entry with several entries that have smaller bodies',
  });
}

function placed<T>({ log, position }: Entry, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log, ...position }) : error;
  }
}

/**
 * Makes room for the body of an entry. Up to {@link EXTERNAL_BODY_BYTES} stay in the entry, and
 * more go into an object, which is written here, before an entry names it.
 * @throws TooLargeError if the body is beside a file, and too large for the entry
 * @throws UsageError if the file does not exist
 */
export async function saveBody(
  to: { readonly blobs: BlobStore; readonly random: () => number },
  log: LogId,
  { body, file }: { readonly body?: EncodedBody | undefined; readonly file?: string | undefined },
): Promise<Pick<Entry, 'body' | 'external' | 'file'>> {
  if (body === undefined) return {};
  const { bytes } = body;
  if (file !== undefined) await checkFileBody(to.blobs, file, bytes);
  if (file !== undefined) return { body, file };
  if (bytes.length <= EXTERNAL_BODY_BYTES) return { body };
  const external = bodyKey(log, bytesToHex(sha256(bytes)), randomHex(to.random, 12));
  await to.blobs.put(external, bytes);
  return { external };
}

/** Refuses an entry that no reader could fold, which would stop the log. */
async function checkFileBody(blobs: BlobStore, file: string, bytes: Uint8Array): Promise<void> {
  if (bytes.length > EXTERNAL_BODY_BYTES) {
    throw new TooLargeError(`a body of ${bytes.length} bytes beside a file is over ${EXTERNAL_BODY_BYTES}`, {
      advice: 'Keep only the parameters of the file in the body',
    });
  }
  if ((await blobs.getRange(file, { from: 0, to: 1 })) !== undefined) return;
  throw new UsageError(`the file '${file}' does not exist`, { advice: 'Save it again with `saveFile`' });
}

function checkExternal(key: string, bytes: Uint8Array | undefined): Uint8Array {
  if (bytes === undefined) {
    throw new ExternalMissingError(`the object '${key}' with the body does not exist`, {
      advice: 'Restore it, from a version or a backup of the bucket',
    });
  }
  checkBodyBytes(bytes.length);
  const parsed = parseKey(key);
  if (parsed?.kind === 'body' && parsed.id !== bytesToHex(sha256(bytes))) {
    throw new ExternalCorruptError(`the object '${key}' with the body does not hash to its name`, {
      advice: 'Restore it, from a version or a backup of the bucket',
    });
  }
  return bytes;
}

function decodeBytes(bytes: Uint8Array): Value {
  const [first] = bytes;
  if (first === undefined || first >= 0x80 || bytes.length === 1) return decodeLenientValue(bytes);
  return decodeJson(utf8.decode(bytes));
}

function decodeJson(text: string): Value {
  checkJsonSize(text);
  const value = parseJson(text);
  checkValue(value);
  return value;
}

/** JSON text up to this length, in UTF-16 code units, always takes little memory. */
const SMALL_JSON = 1_000_000;

/** Estimates the decoded size of a text by its brackets and commas outside of strings. */
function checkJsonSize(text: string): void {
  if (text.length <= SMALL_JSON) return;
  let bytes = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = endOfString(text, i);
    else if (code === COMMA) bytes += ITEM_BYTES;
    else if (code === BRACKET || code === BRACE) bytes += CONTAINER_BYTES + ITEM_BYTES;
  }
  checkDecodedBytes(bytes);
}

/**
 * The index of the quote that ends a JSON string, or the length of the text. @param start index of
 * the first quote
 */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) return i;
    if (code === BACKSLASH) i++;
  }
  return text.length;
}

const [QUOTE, COMMA, BRACKET, BRACE, BACKSLASH] = [0x22, 0x2c, 0x5b, 0x7b, 0x5c];

// msgpackr writes only the entries of a Map, but reads `constructor` and `toJSON` of an object.
function packable(value: Value): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map(packable);
  return new Map(Object.entries(value).map(([key, item]) => [key, packable(item)]));
}

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
