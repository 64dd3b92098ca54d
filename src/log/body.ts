import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { Packr, Unpackr } from 'msgpackr';
import {
  BodyUndecodableError,
  ExternalCorruptError,
  ExternalMissingError,
  LogfoldError,
  type Where,
} from '../errors.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { bodyKey, parseKey, randomHex } from '../store/keys.ts';
import type { Entry, StoredBody } from './entry.ts';
import type { LogId } from './log-id.ts';
import { checkValue, type Value } from './value.ts';

/** Encoded bodies larger than this many bytes go to the blob store: from there on S3 is cheaper to read. */
export const EXTERNAL_BODY_BYTES = 16 * 1024;

const EXACT = 2n ** 53n;

const packr = new Packr({ useRecords: false, mapsAsObjects: false });
// Maps are read as Map, so that no key can be mistaken for something of JavaScript's (`__proto__`), and all that
// is msgpackr's own (records, references, errors) shows as what it is and can be refused.
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: false, structuredClone: false });

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
    const value: unknown = format === 'json' ? JSON.parse(stored.text) : decodeBytes(stored.bytes);
    checkValue(value);
    return value;
  } catch (cause) {
    const reason = cause instanceof LogfoldError ? cause.reason : String(cause);
    throw new BodyUndecodableError(`the body (${format}) cannot be decoded: ${reason}`, {
      advice: 'Find out what wrote this entry; bodies are MessagePack, JSON or native DynamoDB values',
      cause,
    });
  }
}

/**
 * An entry's body, fetched where it lies in an external object. null where the entry has none.
 * @throws ExternalMissingError where the object does not exist
 * @throws ExternalCorruptError where the key says what the object hashes to, and it does not
 * @throws BodyUndecodableError where the body cannot be decoded
 */
export async function loadBody(blobs: BlobStore, entry: Entry): Promise<Value> {
  const where: Where = { log: entry.log, segment: entry.position.segment, entry: entry.position.entry };
  try {
    if (entry.external !== undefined) {
      return decodeBody({ format: 'bytes', bytes: await fetchExternal(blobs, entry.external) });
    }
    return entry.body === undefined ? null : decodeBody(entry.body);
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

async function fetchExternal(blobs: BlobStore, key: string): Promise<Uint8Array> {
  const bytes = await blobs.get(key);
  if (bytes === undefined) {
    throw new ExternalMissingError(`the object '${key}' with the body does not exist`, {
      advice: 'Restore it, from a version or a backup of the bucket',
    });
  }
  const parsed = parseKey(key);
  if (parsed?.kind === 'body' && parsed.id !== bytesToHex(sha256(bytes))) {
    throw new ExternalCorruptError(`the object '${key}' with the body does not hash to its name`, {
      advice: 'Restore it, from a version or a backup of the bucket',
    });
  }
  return bytes;
}

function decodeBytes(bytes: Uint8Array): unknown {
  const [first] = bytes;
  if (first !== undefined && first < 0x80 && bytes.length > 1) {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  }
  // A view of its own, since msgpackr leaves a property behind on the one that it reads.
  return unpacked(unpackr.unpack(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
}

// A Map is written by its entries alone, whereas msgpackr asks an object for `constructor` and `toJSON`.
function packable(value: Value): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map(packable);
  return new Map(Object.entries(value).map(([key, item]) => [key, packable(item)]));
}

function unpacked(value: unknown): unknown {
  if (typeof value === 'bigint') return value >= -EXACT && value <= EXACT ? Number(value) : value;
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value)) return value.map(unpacked);
  if (!(value instanceof Map)) {
    if (isPlainObject(value)) throw new BodyUndecodableError('a record of msgpackr is not plain MessagePack');
    return value;
  }
  const entries = [...value].map(([key, item]): [string, unknown] => [keyText(key), unpacked(item)]);
  // fromEntries defines keys instead of assigning them, so a key `__proto__` is a key like any other.
  const object: unknown = Object.fromEntries(entries);
  if (new Set(entries.map(([key]) => key)).size < value.size) throw new BodyUndecodableError('two keys are the same');
  return object;
}

function keyText(key: unknown): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'bigint') return String(key);
  throw new BodyUndecodableError('a key is neither string nor number');
}

function isPlainObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
