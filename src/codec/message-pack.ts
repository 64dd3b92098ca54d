import { ChunkCorruptError, REBUILD_ADVICE, ValueUnsupportedError } from '../errors.ts';
import { plainBytes } from './bytes.ts';
import {
  CONTAINER_BYTES,
  checkDecodedBytes,
  dateAt,
  ITEM_BYTES,
  MAX_VALUE_DEPTH,
  setKey,
  type Value,
} from './value.ts';

const EXACT = 2n ** 53n;

// By default a decoder removes a byte order mark, but texts from spreadsheets may start with one.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads MessagePack. Every read checks that it stays inside the bytes. */
export class ByteReader {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Whether another program may have written the bytes, see {@link decodeLenientValue}. */
  readonly lenient: boolean;
  /** Approximate memory of all values read so far, in bytes. */
  decodedBytes = 0;
  offset: number;

  constructor(bytes: Uint8Array, offset = 0, lenient = false) {
    // `slice` of a Buffer is a view. Values would be Buffers and keep the whole chunk in memory.
    this.bytes = plainBytes(bytes);
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.offset = offset;
    this.lenient = lenient;
  }

  /**
   * Skips `size` bytes.
   * @returns their start
   */
  advance(size: number): number {
    const start = this.offset;
    if (size > this.bytes.length - start) throw corrupt('a value reaches past the end');
    this.offset = start + size;
    return start;
  }

  byte(): number {
    return this.view.getUint8(this.advance(1));
  }

  uint(size: 1 | 2 | 4): number {
    const at = this.advance(size);
    return size === 1 ? this.view.getUint8(at) : size === 2 ? this.view.getUint16(at) : this.view.getUint32(at);
  }

  take(size: number): Uint8Array {
    const at = this.advance(size);
    return this.bytes.subarray(at, at + size);
  }
}

function corrupt(reason: string): ChunkCorruptError {
  return new ChunkCorruptError(reason, { advice: REBUILD_ADVICE });
}

/**
 * Decodes the canonical bytes of one value.
 * @throws ChunkCorruptError if the bytes are not exactly one value
 */
export function decodeValue(bytes: Uint8Array): Value {
  return decodeAll(new ByteReader(bytes));
}

/**
 * Decodes the bytes of one value that another program may have written. In addition to {@link
 * decodeValue}, keys of maps may be integers, which become decimal text, and 2^53 and -2^53 become
 * numbers.
 * @throws ChunkCorruptError if the bytes are not exactly one value
 */
export function decodeLenientValue(bytes: Uint8Array): Value {
  return decodeAll(new ByteReader(bytes, 0, true));
}

function decodeAll(reader: ByteReader): Value {
  const value = readValue(reader);
  if (reader.offset !== reader.bytes.length) throw corrupt('bytes follow the end of a value');
  return value;
}

/** Reads one value; see {@link decodeValue}. */
export function readValue(reader: ByteReader, depth = 0): Value {
  const tag = reader.byte();
  if (tag < 0x80) return tag;
  if (tag < 0x90) return readMap(reader, tag & 0x0f, depth);
  if (tag < 0xa0) return readArray(reader, tag & 0x0f, depth);
  if (tag < 0xc0) return readText(reader, tag & 0x1f);
  if (tag >= 0xe0) return tag - 0x100;
  switch (tag) {
    case 0xc0:
      return null;
    case 0xc2:
      return false;
    case 0xc3:
      return true;
    case 0xc4:
      return reader.take(reader.uint(1)).slice();
    case 0xc5:
      return reader.take(reader.uint(2)).slice();
    case 0xc6:
      return reader.take(reader.uint(4)).slice();
    case 0xca:
      return reader.view.getFloat32(reader.advance(4));
    case 0xcb:
      return reader.view.getFloat64(reader.advance(8));
    case 0xd9:
      return readText(reader, reader.uint(1));
    case 0xda:
      return readText(reader, reader.uint(2));
    case 0xdb:
      return readText(reader, reader.uint(4));
    case 0xdc:
      return readArray(reader, reader.uint(2), depth);
    case 0xdd:
      return readArray(reader, reader.uint(4), depth);
    case 0xde:
      return readMap(reader, reader.uint(2), depth);
    case 0xdf:
      return readMap(reader, reader.uint(4), depth);
    case 0xd6:
    case 0xd7:
    case 0xc7:
      return readTimestamp(reader, tag);
    default:
      return readWideInteger(reader, tag);
  }
}

function readWideInteger(reader: ByteReader, tag: number): number | bigint {
  const view = reader.view;
  switch (tag) {
    case 0xcc:
      return reader.uint(1);
    case 0xcd:
      return reader.uint(2);
    case 0xce:
      return reader.uint(4);
    case 0xcf:
      return narrow(reader, view.getBigUint64(reader.advance(8)));
    case 0xd0:
      return view.getInt8(reader.advance(1));
    case 0xd1:
      return view.getInt16(reader.advance(2));
    case 0xd2:
      return view.getInt32(reader.advance(4));
    case 0xd3:
      return narrow(reader, view.getBigInt64(reader.advance(8)));
    default:
      throw corrupt(`no value starts with byte 0x${tag.toString(16)}`);
  }
}

function narrow({ lenient }: ByteReader, value: bigint): number | bigint {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  // 2^53 is exact as a number but not a safe integer, since 2^53 + 1 rounds to it.
  return lenient && (value === EXACT || value === -EXACT) ? number : value;
}

function readText(reader: ByteReader, length: number): string {
  const at = reader.advance(length);
  const bytes = reader.bytes;
  if (length < 24) {
    let text = '';
    let i = at;
    for (; i < at + length; i++) {
      const code = bytes[i] ?? 0;
      if (code >= 0x80) break;
      text += String.fromCharCode(code);
    }
    if (i === at + length) return text;
  }
  try {
    return utf8.decode(bytes.subarray(at, at + length));
  } catch {
    throw corrupt('a string is not UTF-8');
  }
}

function readArray(reader: ByteReader, length: number, depth: number): Value[] {
  checkDepth(depth);
  countItems(reader, length);
  const items: Value[] = [];
  for (let i = 0; i < length; i++) items.push(readValue(reader, depth + 1));
  return items;
}

function readMap(reader: ByteReader, length: number, depth: number): Value {
  checkDepth(depth);
  countItems(reader, 2 * length);
  const map: Record<string, Value> = {};
  for (let i = 0; i < length; i++) {
    const key = readKey(reader, depth);
    if (Object.hasOwn(map, key)) throw corrupt(`a map has the key ${JSON.stringify(key)} twice`);
    const value = readValue(reader, depth + 1);
    setKey(map, key, value);
  }
  return map;
}

function readKey(reader: ByteReader, depth: number): string {
  const key = readValue(reader, depth + 1);
  if (typeof key === 'string') return key;
  // A float that is a safe integer equals that integer, as in all values.
  const isInteger = typeof key === 'bigint' || (Number.isSafeInteger(key) && !Object.is(key, -0));
  if (!reader.lenient || !isInteger)
    throw corrupt(`a key of a map is not a string${reader.lenient ? ' or an integer' : ''}`);
  return String(key);
}

function countItems(reader: ByteReader, items: number): void {
  // Each item has at least one byte. So a wrong length cannot make the reader reserve memory.
  if (items > reader.bytes.length - reader.offset) throw corrupt('a value reaches past the end');
  reader.decodedBytes += CONTAINER_BYTES + items * ITEM_BYTES;
  try {
    checkDecodedBytes(reader.decodedBytes);
  } catch (error) {
    throw error instanceof ValueUnsupportedError ? corrupt(error.reason) : error;
  }
}

function checkDepth(depth: number): void {
  if (depth >= MAX_VALUE_DEPTH) throw corrupt(`a value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
}

function readTimestamp(reader: ByteReader, tag: number): Date {
  const size = tag === 0xd6 ? 4 : tag === 0xd7 ? 8 : reader.uint(1);
  const type = reader.byte();
  if (type !== 0xff || (tag === 0xc7 && size !== 12)) throw corrupt(`an extension of type ${type} is not a value`);
  const at = reader.advance(size);
  if (size === 4) return dateOf(reader.view.getUint32(at), 0);
  if (size === 8) {
    const packed = reader.view.getBigUint64(at);
    return dateOf(Number(packed & 0x3ffffffffn), Number(packed >> 34n));
  }
  return dateOf(Number(reader.view.getBigInt64(at + 4)), reader.view.getUint32(at));
}

function dateOf(seconds: number, nanoseconds: number): Date {
  const milliseconds = nanoseconds / 1_000_000;
  // Round towards 1970 before the addition. A sum of 16 digits could round the fraction up.
  const date = dateAt(seconds * 1000 + (seconds < 0 ? Math.ceil(milliseconds) : Math.floor(milliseconds)));
  if (nanoseconds >= 1_000_000_000 || Number.isNaN(date.getTime())) throw corrupt('a timestamp is out of range');
  return date;
}

/**
 * Reads the header of an array.
 * @returns number of items
 */
export function readArrayHeader(reader: ByteReader): number {
  const tag = reader.byte();
  if (tag >= 0x90 && tag < 0xa0) return tag & 0x0f;
  if (tag === 0xdc) return reader.uint(2);
  if (tag === 0xdd) return reader.uint(4);
  throw corrupt('the value is not an array');
}

/** Skips one value without decoding it. */
export function skipValue(reader: ByteReader): void {
  let pending = 1;
  while (pending > 0) {
    pending--;
    const tag = reader.byte();
    if (tag < 0x80 || tag >= 0xe0) continue;
    if (tag < 0x90) pending += (tag & 0x0f) * 2;
    else if (tag < 0xa0) pending += tag & 0x0f;
    else if (tag < 0xc0) reader.advance(tag & 0x1f);
    else pending += skipTagged(reader, tag);
  }
}

/**
 * Skips the payload of a value with a separate tag byte.
 * @returns number of values inside it
 */
function skipTagged(reader: ByteReader, tag: number): number {
  switch (tag) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return 0;
    case 0xcc:
    case 0xd0:
      reader.advance(1);
      return 0;
    case 0xcd:
    case 0xd1:
      reader.advance(2);
      return 0;
    case 0xca:
    case 0xce:
    case 0xd2:
      reader.advance(4);
      return 0;
    case 0xcb:
    case 0xcf:
    case 0xd3:
      reader.advance(8);
      return 0;
    case 0xd6:
      reader.advance(5);
      return 0;
    case 0xd7:
      reader.advance(9);
      return 0;
    case 0xc4:
    case 0xd9:
      reader.advance(reader.uint(1));
      return 0;
    case 0xc5:
    case 0xda:
      reader.advance(reader.uint(2));
      return 0;
    case 0xc6:
    case 0xdb:
      reader.advance(reader.uint(4));
      return 0;
    case 0xc7:
      reader.advance(reader.uint(1) + 1);
      return 0;
    case 0xdc:
      return reader.uint(2);
    case 0xdd:
      return reader.uint(4);
    case 0xde:
      return reader.uint(2) * 2;
    case 0xdf:
      return reader.uint(4) * 2;
    default:
      throw corrupt(`no value starts with byte 0x${tag.toString(16)}`);
  }
}
