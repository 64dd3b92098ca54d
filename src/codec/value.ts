import { ValueUnsupportedError } from '../errors.ts';

/**
 * Whatever MessagePack can say: what an entry's body and a map's values are made of. Integers beyond 2^53 are
 * bigint; a Date is a MessagePack timestamp. Values are never changed once handed over.
 */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Date
  | readonly Value[]
  | { readonly [key: string]: Value };

/** Values may be nested this deep, so that no stored value can exhaust a reader's stack. */
export const MAX_VALUE_DEPTH = 128;

const MIN_INT64 = -(2n ** 63n);
const MAX_UINT64 = 2n ** 64n - 1n;

/** Whether MessagePack and DynamoDB bodies have an integer type for it: from -2^63 up to 2^64 - 1. */
export function fits64Bits(integer: bigint): boolean {
  return integer >= MIN_INT64 && integer <= MAX_UINT64;
}

/**
 * Holds anything to the {@link Value} type.
 * @throws ValueUnsupportedError where it cannot be stored exactly: undefined, functions, symbols, instances of
 * classes, invalid dates, integers beyond 64 bits, strings with lone surrogates (UTF-8 cannot carry them), and
 * nesting deeper than {@link MAX_VALUE_DEPTH}
 */
export function checkValue(value: unknown): asserts value is Value {
  check(value, 0);
}

function check(value: unknown, depth: number): void {
  switch (typeof value) {
    case 'boolean':
    case 'number':
      return;
    case 'bigint':
      if (!fits64Bits(value)) throw new ValueUnsupportedError(`the integer ${value} does not fit 64 bits`);
      return;
    case 'string':
      return checkString(value);
    case 'object':
      return checkObject(value, depth);
    default:
      throw new ValueUnsupportedError(`A value of type ${typeof value} cannot be stored`, {
        advice: 'Use null, booleans, numbers, bigints, strings, bytes, dates, arrays and plain objects',
      });
  }
}

function checkString(text: string): void {
  if (!text.isWellFormed()) {
    throw new ValueUnsupportedError('A string with a lone surrogate cannot be stored, since UTF-8 cannot carry it', {
      advice: 'Replace it, for example with String.prototype.toWellFormed',
    });
  }
}

function checkObject(value: object | null, depth: number): void {
  if (value === null || value instanceof Uint8Array) return;
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new ValueUnsupportedError('an invalid date cannot be stored');
    return;
  }
  if (depth >= MAX_VALUE_DEPTH) {
    throw new ValueUnsupportedError(`A value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
  }
  if (Array.isArray(value)) {
    for (const item of value) check(item, depth + 1);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new ValueUnsupportedError('only plain objects can be stored, not instances of classes');
  }
  for (const [key, item] of Object.entries(value)) {
    checkString(key);
    check(item, depth + 1);
  }
}

/** No value may take more memory than about this, in bytes, once it is decoded. */
export const MAX_DECODED_BYTES = 512 * 1024 * 1024;
/** About what an array or a map takes beside its items, in bytes. */
export const CONTAINER_BYTES = 64;
/** About what an item takes beside its content, in bytes. */
export const ITEM_BYTES = 16;

/**
 * Limits the memory that a value takes while it is decoded. A few bytes may stand for many: an empty array has one byte
 * in MessagePack, and 64 in memory.
 * @throws ValueUnsupportedError if this is too much
 */
export function checkDecodedBytes(bytes: number): void {
  if (bytes <= MAX_DECODED_BYTES) return;
  throw new ValueUnsupportedError(`so many items take over ${MAX_DECODED_BYTES} bytes of memory`);
}
