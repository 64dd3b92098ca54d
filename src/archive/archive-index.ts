import { fromHex, toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { decodeValue } from '../codec/message-pack.ts';
import type { Value } from '../codec/value.ts';
import { ArchiveCorruptError } from '../errors.ts';
import { type LogId, logIdBytes, logIdFromBytes } from '../ids/log-id.ts';
import { HASH_BYTES } from '../log/item-codec.ts';
import type { Fingerprint } from '../log/meaning.ts';

const FORMAT = 1;
const MAGIC = 0x184d2a5a;
const HEADER_BYTES = 8;
/**
 * The longest frame, in bytes before compression. A frame has a million bytes plus at most the line
 * of an item of 400 KB. A number such as 1e125 takes 3 bytes in a list of an item and 136 in a
 * line, since DynamoDB returns all of its zeros.
 */
export const MAX_FRAME_BYTES = 32 * 1024 * 1024;

/** The index of an archive. It proves the whole archive: its hash is on the segment. */
export interface ArchiveIndex {
  readonly log: LogId;
  readonly segment: number;
  /**
   * Number of entries of the segment, which are numbered from 0. In a part of an archive: the
   * number after its last entry.
   */
  readonly entries: number;
  /** Uncompressed size of all lines. */
  readonly bytes: number;
  /** Number of the first entry of each frame. */
  readonly firsts: readonly number[];
  /**
   * The mapping that gave the entries; undefined for logs in logfold's own schema, and in archives
   * of older releases.
   */
  readonly mapping?: Fingerprint | undefined;
  /** The concatenated SHA-256 of each frame's uncompressed bytes. */
  readonly hashes: Uint8Array;
}

/** The canonical MessagePack of an index; its SHA-256 is the archive's hash. */
export function encodeArchiveIndex(index: ArchiveIndex): Uint8Array {
  const { log, segment, entries, bytes, firsts, hashes, mapping } = index;
  const made = mapping === undefined ? {} : { mapping: fromHex(mapping) };
  return encodeValue({ format: FORMAT, log: logIdBytes(log), segment, entries, bytes, firsts, hashes, ...made });
}

/**
 * The inverse of {@link encodeArchiveIndex}.
 * @param from the first entry that the index must have; above 0 only for a part of an archive
 * @throws ArchiveCorruptError, without place, if the bytes are not an index or have a later format
 */
export function decodeArchiveIndex(bytes: Uint8Array, from = 0): ArchiveIndex {
  const value = decoded(bytes);
  if (value.format !== FORMAT) {
    throw new ArchiveCorruptError(`the index has format ${String(value.format)}, which this version cannot read`, {
      advice: 'Read the archive with the version of logfold that wrote it, or a newer one',
    });
  }
  const { log, hashes, firsts, mapping } = value;
  if (!(log instanceof Uint8Array && hashes instanceof Uint8Array && Array.isArray(firsts))) fail();
  if (mapping !== undefined && !(mapping instanceof Uint8Array)) fail();
  const index = {
    log: logId(log),
    segment: integer(value.segment),
    entries: integer(value.entries),
    bytes: integer(value.bytes),
    firsts: firsts.map(integer),
    hashes,
    ...(mapping !== undefined && { mapping: toHex(mapping) }),
  };
  const ascending = index.firsts.every((first, i) => first > (index.firsts[i - 1] ?? -1) && first < index.entries);
  if (!ascending || index.firsts[0] !== from || hashes.length !== firsts.length * HASH_BYTES) fail();
  return index;
}

/** A skippable frame, which decompressors ignore. Source: RFC 8878, section 3.1.2. */
export function skippableFrame(content: Uint8Array): Uint8Array {
  const frame = new Uint8Array(HEADER_BYTES + content.length);
  const view = new DataView(frame.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, content.length, true);
  frame.set(content, HEADER_BYTES);
  return frame;
}

/** The content of a {@link skippableFrame}; undefined for other bytes. */
export function skippableContent(frame: Uint8Array): Uint8Array | undefined {
  if (frame.length < HEADER_BYTES) return undefined;
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const valid = view.getUint32(0, true) === MAGIC && view.getUint32(4, true) === frame.length - HEADER_BYTES;
  return valid ? frame.subarray(HEADER_BYTES) : undefined;
}

function decoded(bytes: Uint8Array): Readonly<Record<string, Value | undefined>> {
  let value: Value;
  try {
    value = decodeValue(bytes);
  } catch (cause) {
    throw new ArchiveCorruptError('the index cannot be decoded', { cause });
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return fail();
  return Object.fromEntries(Object.entries(value));
}

function logId(bytes: Uint8Array): LogId {
  try {
    return logIdFromBytes(bytes);
  } catch (cause) {
    throw new ArchiveCorruptError('the index has no valid log id', { cause });
  }
}

function integer(value: Value | undefined): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : fail();
}

function fail(): never {
  throw new ArchiveCorruptError('the index does not have the required fields');
}
