import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
// Packs only: msgpackr's reader depends on whether its native addon is there.
import { Packr } from 'msgpackr/pack';
import {
  BodyUndecodableError,
  ExternalCorruptError,
  ExternalMissingError,
  LogfoldError,
  textOf,
  type Where,
} from '../errors.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { bodyKey, parseKey, randomHex } from '../store/keys.ts';
import type { Entry, StoredBody } from './entry.ts';
import type { LogId } from './log-id.ts';
import { decodeForeignValue } from './message-pack.ts';
import { checkValue, type Value } from './value.ts';

const packr = new Packr({ useRecords: false, mapsAsObjects: false });
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Encoded bodies larger than this many bytes go to the blob store: from there on S3 is cheaper to read. */
export const EXTERNAL_BODY_BYTES = 16 * 1024;

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

function decodeBytes(bytes: Uint8Array): Value {
  const [first] = bytes;
  if (first === undefined || first >= 0x80 || bytes.length === 1) return decodeForeignValue(bytes);
  return parseJson(utf8.decode(bytes));
}

function parseJson(text: string): Value {
  const value: unknown = JSON.parse(text);
  checkValue(value);
  return value;
}

// A Map is written by its entries alone, whereas msgpackr asks an object for `constructor` and `toJSON`.
function packable(value: Value): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date) return value;
  if (Array.isArray(value)) return value.map(packable);
  return new Map(Object.entries(value).map(([key, item]) => [key, packable(item)]));
}
