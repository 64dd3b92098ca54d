import { ValueUnsupportedError } from '../errors.ts';
import { ByteWriter } from './bytes.ts';
import { isArray, MAX_VALUE_DEPTH, type Value } from './value.ts';

/**
 * The MessagePack extension type of a reference to a large value. Its 32 bytes are the id of the
 * value's chunk.
 */
export const VALUE_REF_TYPE = 1;
/** Length of an encoded reference, in bytes. */
export const VALUE_REF_BYTES = 35;

const TIMESTAMP_TYPE = 0xff;
const TWO_32 = 2 ** 32;
const TWO_34 = 2 ** 34;

const utf8 = new TextEncoder();

/**
 * The canonical bytes of a value, in MessagePack. Equal values give equal bytes, so a hash of the
 * bytes is a hash of the value.
 *
 * - Numbers, strings, arrays and maps have their shortest form.
 * - Whole numbers are integers. Other numbers are float 32 if that loses nothing, otherwise float
 *   64.
 * - Keys of maps are in ascending order of UTF-16 code units.
 * @throws ValueUnsupportedError if MessagePack cannot represent the value exactly
 */
export function encodeValue(value: Value): Uint8Array {
  const writer = new ByteWriter(64);
  writeValue(writer, value);
  return writer.take();
}

/** Appends the canonical bytes of a value; see {@link encodeValue}. */
export function writeValue(writer: ByteWriter, value: Value, depth = 0): void {
  switch (typeof value) {
    case 'number':
      return writeNumber(writer, value);
    case 'string':
      return writeString(writer, value);
    case 'boolean':
      return writeByte(writer, value ? 0xc3 : 0xc2);
    case 'bigint':
      return writeBigint(writer, value);
    case 'object':
      return writeObject(writer, value, depth);
    default:
      throw new ValueUnsupportedError(`a value of type ${typeof value} cannot be stored`, {
        advice: 'Use null, booleans, numbers, bigints, strings, bytes, dates, arrays and plain objects',
      });
  }
}

function writeObject(writer: ByteWriter, value: Extract<Value, object> | null, depth: number): void {
  if (value === null) return writeByte(writer, 0xc0);
  if (value instanceof Uint8Array) return writeBinary(writer, value);
  if (value instanceof Date) return writeDate(writer, value);
  if (depth >= MAX_VALUE_DEPTH) {
    throw new ValueUnsupportedError(`a value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
  }
  if (isArray(value)) {
    writeArrayHeader(writer, value.length);
    for (const item of value) writeValue(writer, item, depth + 1);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new ValueUnsupportedError('only plain objects can be stored, not instances of classes');
  }
  // Array.prototype.sort without a comparator sorts by UTF-16 code units, as `<` does.
  const keys = Object.keys(value).sort();
  writeHeader(writer, keys.length, 0x80, 0xde);
  for (const key of keys) {
    writeString(writer, key);
    writeValue(writer, value[key] as Value, depth + 1);
  }
}

function writeByte(writer: ByteWriter, byte: number): void {
  if (writer.length === writer.bytes.length) {
    writer.grow(1);
    writer.length--;
  }
  writer.bytes[writer.length++] = byte;
}

/** Appends the header of an array of `length` items. */
export function writeArrayHeader(writer: ByteWriter, length: number): void {
  writeHeader(writer, length, 0x90, 0xdc);
}

function writeHeader(writer: ByteWriter, length: number, fix: number, sixteen: number): void {
  if (length < 16) return writeByte(writer, fix | length);
  if (length < 0x10000) {
    const at = writer.grow(3);
    writer.bytes[at] = sixteen;
    writer.view.setUint16(at + 1, length);
    return;
  }
  const at = writer.grow(5);
  writer.bytes[at] = sixteen + 1;
  writer.view.setUint32(at + 1, length);
}

function writeNumber(writer: ByteWriter, value: number): void {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) return writeInteger(writer, value);
  if (Number.isNaN(value) || Math.fround(value) === value) {
    const at = writer.grow(5);
    writer.bytes[at] = 0xca;
    // A single bit pattern for NaN, on all engines.
    if (Number.isNaN(value)) writer.view.setUint32(at + 1, 0x7fc00000);
    else writer.view.setFloat32(at + 1, value);
    return;
  }
  const at = writer.grow(9);
  writer.bytes[at] = 0xcb;
  writer.view.setFloat64(at + 1, value);
}

/** Appends a safe integer in its shortest form. */
export function writeInteger(writer: ByteWriter, value: number): void {
  if (value >= 0) {
    if (value < 0x80) return writeByte(writer, value);
    if (value < 0x100) return writeUint(writer, 0xcc, 1, value);
    if (value < 0x10000) return writeUint(writer, 0xcd, 2, value);
    if (value < TWO_32) return writeUint(writer, 0xce, 4, value);
    return writeUint(writer, 0xcf, 8, value);
  }
  if (value >= -0x20) return writeByte(writer, value & 0xff);
  if (value >= -0x80) return writeUint(writer, 0xd0, 1, value & 0xff);
  if (value >= -0x8000) return writeUint(writer, 0xd1, 2, value & 0xffff);
  if (value >= -0x80000000) return writeUint(writer, 0xd2, 4, value >>> 0);
  const at = writer.grow(9);
  writer.bytes[at] = 0xd3;
  writer.view.setBigInt64(at + 1, BigInt(value));
}

function writeUint(writer: ByteWriter, tag: number, size: 1 | 2 | 4 | 8, value: number): void {
  const at = writer.grow(size + 1);
  writer.bytes[at] = tag;
  if (size === 1) writer.bytes[at + 1] = value;
  else if (size === 2) writer.view.setUint16(at + 1, value);
  else if (size === 4) writer.view.setUint32(at + 1, value);
  else {
    writer.view.setUint32(at + 1, Math.floor(value / TWO_32));
    writer.view.setUint32(at + 5, value % TWO_32);
  }
}

function writeBigint(writer: ByteWriter, value: bigint): void {
  if (value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER)) {
    return writeInteger(writer, Number(value));
  }
  if (value >= 2n ** 64n || value < -(2n ** 63n)) {
    throw new ValueUnsupportedError('an integer does not fit into 64 bits', { advice: 'Store it as a string' });
  }
  const at = writer.grow(9);
  writer.bytes[at] = value >= 0n ? 0xcf : 0xd3;
  if (value >= 0n) writer.view.setBigUint64(at + 1, value);
  else writer.view.setBigInt64(at + 1, value);
}

function writeString(writer: ByteWriter, text: string): void {
  const length = text.length;
  if (length < 32) {
    // Most strings are short and ASCII. Writing these byte by byte is several times faster than
    // TextEncoder.
    const at = writer.grow(length + 1);
    const bytes = writer.bytes;
    bytes[at] = 0xa0 | length;
    let i = 0;
    for (; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code >= 0x80) break;
      bytes[at + 1 + i] = code;
    }
    if (i === length) return;
    writer.length = at;
  }
  if (!text.isWellFormed()) {
    throw new ValueUnsupportedError(
      'a string with a lone surrogate cannot be stored, since UTF-8 cannot represent it',
      {
        advice: 'Replace the surrogate before you append, for instance with toWellFormed()',
      },
    );
  }
  const encoded = utf8.encode(text);
  writeSized(writer, encoded.length, encoded.length < 32 ? 0xa0 | encoded.length : 0, 0xd9);
  writer.append(encoded);
}

function writeBinary(writer: ByteWriter, bytes: Uint8Array): void {
  writeSized(writer, bytes.length, 0, 0xc4);
  writer.append(bytes);
}

/**
 * Appends the header of a string or binary: `fix` if it is not 0, otherwise the tag with 1, 2 or 4
 * bytes of length.
 */
function writeSized(writer: ByteWriter, length: number, fix: number, tag: number): void {
  if (fix !== 0) writeByte(writer, fix);
  else if (length < 0x100) writeUint(writer, tag, 1, length);
  else if (length < 0x10000) writeUint(writer, tag + 1, 2, length);
  else writeUint(writer, tag + 2, 4, length);
}

/**
 * Appends a date as MessagePack's timestamp extension (type -1) in its shortest form. Dates have
 * milliseconds.
 */
function writeDate(writer: ByteWriter, date: Date): void {
  const ms = date.getTime();
  if (!Number.isFinite(ms)) throw new ValueUnsupportedError('a date is invalid');
  const seconds = Math.floor(ms / 1000);
  const nanoseconds = (ms - seconds * 1000) * 1_000_000;
  if (seconds >= 0 && seconds < TWO_34) {
    if (nanoseconds === 0 && seconds < TWO_32) {
      const at = writer.grow(6);
      writer.bytes[at] = 0xd6;
      writer.bytes[at + 1] = TIMESTAMP_TYPE;
      writer.view.setUint32(at + 2, seconds);
      return;
    }
    const at = writer.grow(10);
    writer.bytes[at] = 0xd7;
    writer.bytes[at + 1] = TIMESTAMP_TYPE;
    writer.view.setBigUint64(at + 2, (BigInt(nanoseconds) << 34n) | BigInt(seconds));
    return;
  }
  const at = writer.grow(15);
  writer.bytes[at] = 0xc7;
  writer.bytes[at + 1] = 12;
  writer.bytes[at + 2] = TIMESTAMP_TYPE;
  writer.view.setUint32(at + 3, nanoseconds);
  writer.view.setBigInt64(at + 7, BigInt(seconds));
}
