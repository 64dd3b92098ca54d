import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
// Packs only: msgpackr's reader depends on whether its native addon is there.
import { Packr } from 'msgpackr/pack';
import { decodeForeignValue } from '../codec/message-pack.ts';
import { CONTAINER_BYTES, checkDecodedBytes, checkValue, ITEM_BYTES, type Value } from '../codec/value.ts';
import {
  BodyUndecodableError,
  ExternalCorruptError,
  ExternalMissingError,
  LogfoldError,
  textOf,
  type Where,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { bodyKey, parseKey, randomHex } from '../store/keys.ts';
import type { Entry, StoredBody } from './entry.ts';

const packr = new Packr({ useRecords: false, mapsAsObjects: false });
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Encoded bodies larger than this many bytes go to the blob store: from there on S3 is cheaper to read. */
export const EXTERNAL_BODY_BYTES = 16 * 1024;

/** Larger bodies are refused before they are fetched: decoded, they would not fit into a function's memory. */
export const MAX_BODY_BYTES = 64 * 1024 * 1024;

/**
 * A value as MessagePack. {@link decodeBody} gives it back, but for two things that MessagePack does not tell apart:
 * a bigint up to 2^53 either way comes back as number, and -0 as 0.
 * @throws ValueUnsupportedError where the value cannot be stored exactly, see {@link checkValue}
 */
export function encodeBody(value: Value): Uint8Array {
  checkValue(value);
  // Copied, since msgpackr hands out a view of a buffer that holds other documents too.
  return Uint8Array.from(packr.pack(packable(value)));
}

/**
 * What a stored body says. Bytes are MessagePack, or else JSON text: JSON text starts with an ASCII character, and a
 * first byte below 0x80 is, in MessagePack, a whole document of one byte (a small integer) that nothing may follow.
 * So of bytes longer than one, those that start below 0x80 can only be JSON, and the others only MessagePack.
 * A single byte is MessagePack. Numbers in JSON are doubles, as `JSON.parse` reads them.
 * @throws BodyUndecodableError, without place, where the body is none of these or says what is no {@link Value}
 */
export function decodeBody(stored: StoredBody): Value {
  if (stored.format === 'native') return stored.value;
  const { format } = stored;
  try {
    return format === 'json' ? parseJson(stored.text) : decodeBytes(stored.bytes);
  } catch (cause) {
    const reason = cause instanceof LogfoldError ? cause.reason : textOf(cause);
    throw new BodyUndecodableError(`the body (${format}) cannot be decoded: ${reason}`, {
      advice: 'Find out what wrote this entry; bodies are MessagePack, JSON or native DynamoDB values',
      cause,
    });
  }
}

/**
 * An entry's body, fetched if it lies in an external object. null if the entry has none.
 * @throws ExternalMissingError if the object does not exist
 * @throws ExternalCorruptError if the key says what the object hashes to, and it does not
 * @throws BodyUndecodableError if the body cannot be decoded, or is too large to be
 */
export async function loadBody(blobs: BlobStore, entry: Entry): Promise<Value> {
  const { external } = entry;
  return external === undefined
    ? decodeEntryBody(entry)
    : decodeExternalBody(entry, external, await blobs.get(external));
}

/**
 * The body that lies inside of an entry. null if there is none.
 * @throws BodyUndecodableError if the body cannot be decoded
 */
export function decodeEntryBody(entry: Entry): Value {
  const { body } = entry;
  return body === undefined ? null : placed(entry, () => decodeBody(body));
}

/**
 * The body that an object holds, whose bytes were fetched.
 * @throws ExternalMissingError, ExternalCorruptError, BodyUndecodableError: see {@link loadBody}
 */
export function decodeExternalBody(entry: Entry, key: string, bytes: Uint8Array | undefined): Value {
  return placed(entry, () => decodeBody({ format: 'bytes', bytes: checkExternal(key, bytes) }));
}

/** @throws BodyUndecodableError if a body of so many bytes is too large to be decoded */
export function checkBodyBytes(bytes: number): void {
  if (bytes <= MAX_BODY_BYTES) return;
  throw new BodyUndecodableError(`the body has ${bytes} bytes, over the limit of ${MAX_BODY_BYTES}`, {
    advice: 'Replace the entry by several with smaller bodies',
  });
}

function placed<T>({ log, position }: Entry, decode: () => T): T {
  const where: Where = { log, segment: position.segment, entry: position.entry };
  try {
    return decode();
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
}

/**
 * Makes a value ready to stand in an entry: nothing for null, up to {@link EXTERNAL_BODY_BYTES} inside of the entry,
 * beyond that in an object that is written here, so before any entry names it.
 * @throws ValueUnsupportedError where the value cannot be stored
 */
export async function saveBody(
  to: { readonly blobs: BlobStore; readonly random: () => number },
  log: LogId,
  value: Value,
): Promise<Pick<Entry, 'body' | 'external'>> {
  if (value === null) return {};
  const bytes = encodeBody(value);
  if (bytes.length <= EXTERNAL_BODY_BYTES) return { body: { format: 'bytes', bytes } };
  const external = bodyKey(log, bytesToHex(sha256(bytes)), randomHex(to.random, 12));
  await to.blobs.put(external, bytes);
  return { external };
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
  if (first === undefined || first >= 0x80 || bytes.length === 1) return decodeForeignValue(bytes);
  return parseJson(utf8.decode(bytes));
}

function parseJson(text: string): Value {
  checkJsonSize(text);
  const value: unknown = JSON.parse(text);
  checkValue(value);
  return value;
}

/** JSON text up to this length, in UTF-16 code units, takes little memory whatever it says. */
const SMALL_JSON = 1_000_000;

/** Estimates what a text takes once it is decoded, by its brackets and commas outside of strings. */
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

/** Where a JSON string ends whose quote stands at an index: at its last quote, or at the end of the text. */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) return i;
    if (code === BACKSLASH) i++;
  }
  return text.length;
}

const [QUOTE, COMMA, BRACKET, BRACE, BACKSLASH] = [0x22, 0x2c, 0x5b, 0x7b, 0x5c];

// A Map is written by its entries alone, whereas msgpackr asks an object for `constructor` and `toJSON`.
function packable(value: Value): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map(packable);
  return new Map(Object.entries(value).map(([key, item]) => [key, packable(item)]));
}
