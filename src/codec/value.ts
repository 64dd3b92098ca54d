import { printable, ValueUnsupportedError } from '../errors.ts';

/**
 * A value that MessagePack can represent: the content of entry bodies and maps. Integers beyond
 * 2^53 are bigint. A Date is a MessagePack timestamp. A value must not change after it was passed
 * on.
 *
 * Declare the type of an object with `type`, not with `interface`. An interface is not assignable
 * to `Value`, because another declaration may add properties to it.
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

/**
 * The date of a time in epoch milliseconds. The core makes dates only here: `new Date` also takes
 * texts, and reads many of them in the time zone of the machine.
 */
export function dateAt(milliseconds: number): Date {
  // biome-ignore lint/plugin: the type admits no text
  return new Date(milliseconds);
}

/** The limit for nesting of values, so that no stored value can exhaust a reader's stack. */
export const MAX_VALUE_DEPTH = 128;

const MIN_INT64 = -(2n ** 63n);
const MAX_UINT64 = 2n ** 64n - 1n;

/** Whether MessagePack and DynamoDB bodies can hold an integer: from -2^63 up to 2^64 - 1. */
export function fits64Bits(integer: bigint): boolean {
  return integer >= MIN_INT64 && integer <= MAX_UINT64;
}

/**
 * Checks that anything is a {@link Value}.
 * @throws ValueUnsupportedError if it cannot be stored exactly: undefined, functions, symbols,
 * instances of classes, invalid dates, integers beyond 64 bits, strings with lone surrogates,
 * nesting deeper than {@link MAX_VALUE_DEPTH}
 * @param subject the value's name in the error, such as `the metadata`
 */
export function checkValue(value: unknown, subject?: string): asserts value is Value {
  checkParts(value, subject, (part) => check(part, 0));
}

/**
 * Runs a check of a value that throws ValueUnsupportedError. The error then names the part that the
 * check refuses, such as `lines[2].item`, and the subject.
 */
export function checkParts(value: unknown, subject: string | undefined, checkPart: (part: unknown) => void): void {
  try {
    checkPart(value);
  } catch (error) {
    if (!(error instanceof ValueUnsupportedError)) throw error;
    const path = pathOfRefused(value, checkPart);
    const place = [...(subject === undefined ? [] : [`in ${subject}`]), ...(path === '' ? [] : [`at \`${path}\``])];
    const reason = place.length === 0 ? error.reason : `${error.reason}, ${place.join(' ')}`;
    throw new ValueUnsupportedError(reason, { advice: error.advice });
  }
}

/** UTF-16 code units after which the path of a part is cut. */
const MAX_PATH = 100;

/** The innermost part that a check refuses, as a path; empty for the value itself. */
function pathOfRefused(value: unknown, checkPart: (part: unknown) => void): string {
  const isRefused = (part: unknown): boolean => {
    try {
      checkPart(part);
      return false;
    } catch {
      return true;
    }
  };
  let path = '';
  for (let at = value; typeof at === 'object' && at !== null; ) {
    const found: [string, unknown] | undefined = Object.entries(at).find(([, part]) => isRefused(part));
    if (found === undefined) break;
    const [name, part] = found;
    const isPlainName = /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name);
    if (Array.isArray(at)) path += `[${name}]`;
    else path += isPlainName ? `${path === '' ? '' : '.'}${name}` : `[${printable(JSON.stringify(name))}]`;
    if (path.length > MAX_PATH) return `${path.slice(0, MAX_PATH)}…`;
    at = part;
  }
  return path;
}

/**
 * Copies anything that can be stored. As JSON does, leaves out properties that are undefined, and
 * gives null for undefined items of arrays: for objects of other libraries, whose types are
 * interfaces with optional properties.
 * @throws ValueUnsupportedError as {@link checkValue}
 */
export function toValue(given: unknown): Value {
  const value = withoutUndefined(given, 0);
  checkValue(value);
  return value;
}

function withoutUndefined(given: unknown, depth: number): unknown {
  if (typeof given !== 'object' || given === null || depth > MAX_VALUE_DEPTH) return given;
  // `from` also visits the holes of an array.
  if (Array.isArray(given)) return Array.from(given, (item) => withoutUndefined(item, depth + 1) ?? null);
  if (given instanceof Uint8Array) return new Uint8Array(given);
  if (given instanceof Date) return dateAt(given.getTime());
  if (!isPlain(given)) return given;
  const defined = Object.entries(given).filter(([, value]) => value !== undefined);
  // `fromEntries` defines keys instead of assigning them, so the key `__proto__` is one of them.
  return Object.fromEntries(defined.map(([key, value]) => [key, withoutUndefined(value, depth + 1)]));
}

function isPlain(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null;
}

function check(value: unknown, depth: number): void {
  switch (typeof value) {
    case 'boolean':
    case 'number':
      return;
    case 'bigint':
      if (!fits64Bits(value)) throw new ValueUnsupportedError(`the integer ${value} does not fit into 64 bits`);
      return;
    case 'string':
      return checkString(value);
    case 'object':
      return checkObject(value, depth);
    case 'undefined':
      throw new ValueUnsupportedError('a value of type undefined cannot be stored', {
        advice: "Leave it out or give null, as toValue of 'logfold' does",
      });
    default:
      throw new ValueUnsupportedError(`a value of type ${typeof value} cannot be stored`, {
        advice: 'Use null, booleans, numbers, bigints, strings, bytes, dates, arrays and plain objects',
      });
  }
}

function checkString(text: string): void {
  if (!text.isWellFormed()) {
    throw new ValueUnsupportedError(
      'a string with a lone surrogate cannot be stored, since UTF-8 cannot represent it',
      {
        advice: 'Replace the surrogate, for example with String.prototype.toWellFormed',
      },
    );
  }
}

function checkObject(value: object | null, depth: number): void {
  if (value === null || value instanceof Uint8Array) return;
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new ValueUnsupportedError('an invalid date cannot be stored');
    return;
  }
  if (depth >= MAX_VALUE_DEPTH) {
    throw new ValueUnsupportedError(`a value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
  }
  if (Array.isArray(value)) {
    for (const item of value) check(item, depth + 1);
    return;
  }
  if (!isPlain(value)) {
    throw new ValueUnsupportedError('only plain objects can be stored, not instances of classes');
  }
  for (const [key, item] of Object.entries(value)) {
    checkString(key);
    check(item, depth + 1);
  }
}

/** Sets a key of an object, even `__proto__`, which an assignment would take as the prototype. */
export function setKey<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
  else object[key] = value;
}

/** A copy that shares no object with the value. */
export function copyValue(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (value instanceof Date) return dateAt(value.getTime());
  if (isArray(value)) return value.map(copyValue);
  // A spread defines keys instead of assigning them, so the key `__proto__` needs no special case.
  const copy = { ...value };
  for (const [key, item] of Object.entries(copy)) copy[key] = copyValue(item);
  return copy;
}

/** Whether a value is an array. Array.isArray does not narrow readonly arrays. */
export function isArray(value: Value | object): value is readonly Value[] {
  return Array.isArray(value);
}

/** A value with named fields. */
export type ValueObject = { readonly [key: string]: Value };

/** Whether a value has named fields. Dates and bytes are values without fields. */
export function isObject(value: Value | undefined): value is ValueObject {
  if (typeof value !== 'object' || value === null) return false;
  return !(Array.isArray(value) || value instanceof Date || value instanceof Uint8Array);
}

/** The limit for the approximate memory of a decoded value, in bytes. */
const MAX_DECODED_BYTES = 512 * 1024 * 1024;
/** Approximate memory of an array or a map without its items, in bytes. */
export const CONTAINER_BYTES = 64;
/** Approximate memory of an item without its content, in bytes. */
export const ITEM_BYTES = 16;

/**
 * Limits the memory of a value during decoding. A few bytes may become many: an empty array has one
 * byte in MessagePack and 64 in memory.
 * @throws ValueUnsupportedError if the value exceeds {@link MAX_DECODED_BYTES}
 */
export function checkDecodedBytes(bytes: number): void {
  if (bytes <= MAX_DECODED_BYTES) return;
  throw new ValueUnsupportedError(`the items of the value take over ${MAX_DECODED_BYTES} bytes of memory`);
}
