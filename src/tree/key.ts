import { KeyInvalidError } from '../errors.ts';
import { keyAt, uint32At } from './array.ts';

/**
 * A map's keys are all numbers (whole, from 0 to 2^53 - 1) or all strings. Both compare with `<`.
 */
export type Key = number | string;

/** The type of a map's keys. */
export type KeyKind = 'number' | 'string';

export const MAX_STRING_KEY_LENGTH = 1024;

/**
 * Checks a key before a put.
 * @param longest the most UTF-16 code units of a string key
 * @throws KeyInvalidError if the key has the other kind, is out of range, or is too long
 */
export function checkKey(key: Key, kind: KeyKind, longest = MAX_STRING_KEY_LENGTH): void {
  if (typeof key === 'number') {
    if (kind === 'number' && Number.isSafeInteger(key) && key >= 0 && !Object.is(key, -0)) return;
  } else if (typeof key === 'string' && kind === 'string' && key.length <= longest && key.isWellFormed()) return;
  throw new KeyInvalidError(`${describeKey(key)} cannot be a key of a map with ${kind} keys`, {
    advice:
      kind === 'number'
        ? 'Use whole numbers from 0 to 2^53 - 1'
        : `Use well-formed strings of at most ${longest} UTF-16 code units`,
  });
}

/**
 * A key or a name for an error message. It may have any type, since untyped programs may pass
 * anything.
 */
export function describeKey(key: unknown): string {
  if (typeof key === 'string') return JSON.stringify(key.slice(0, 100));
  return typeof key === 'number' ? String(key) : `a value of type ${typeof key}`;
}

/** Index of the first key that is not less than `key`; the length if all keys are less. */
export function lowerBound(keys: readonly Key[], key: Key): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    // Keys of one map have one kind, which the type of the array does not express.
    if ((keys[middle] as Key) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Like {@link lowerBound}, from index `start` on. Searches close to `start` first, since keys are
 * often close together.
 */
export function lowerBoundFrom(keys: readonly Key[], key: Key, start: number): number {
  let step = 1;
  let low = start;
  while (low + step < keys.length && (keys[low + step] as Key) < key) {
    low += step;
    step *= 2;
  }
  let high = Math.min(keys.length, low + step);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as Key) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Sorts keys in place.
 * @returns the keys without duplicates
 */
export function sortedUnique(keys: Key[]): Key[] {
  keys.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return keys.filter((key, i) => i === 0 || key !== keys[i - 1]);
}

const DIGIT_BITS = 11;
const DIGIT = 2 ** DIGIT_BITS;

/**
 * The indexes of keys in ascending order of key. Equal keys keep their order. Numbers are sorted by
 * a least significant digit radix sort, which skips digits that all keys share. Source: Knuth, The
 * Art of Computer Programming 3, 5.2.5.
 */
export function ascendingOrder(keys: readonly Key[]): Uint32Array<ArrayBuffer> {
  const order = new Uint32Array(keys.length);
  for (let i = 0; i < order.length; i++) order[i] = i;
  if (typeof keys[0] === 'string') {
    return order.sort((a, b) => {
      const [left, right] = [keyAt(keys, a), keyAt(keys, b)];
      return left < right ? -1 : left > right ? 1 : a - b;
    });
  }
  return radixSort(keys, order);
}

function radixSort(keys: readonly Key[], order: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  let from = order;
  let to = new Uint32Array(order.length);
  const digits = new Uint32Array(order.length);
  let largest = 0;
  for (let i = 0; i < order.length; i++) largest = Math.max(largest, Number(keys[i]));
  for (let unit = 1; unit <= largest; unit *= DIGIT) {
    const starts = new Uint32Array(DIGIT);
    for (let i = 0; i < digits.length; i++) {
      const value = Math.floor(Number(keys[i]) / unit) % DIGIT;
      digits[i] = value;
      starts[value] = uint32At(starts, value) + 1;
    }
    if (starts.includes(digits.length)) continue;
    let sum = 0;
    for (let value = 0; value < DIGIT; value++) {
      const count = uint32At(starts, value);
      starts[value] = sum;
      sum += count;
    }
    for (let i = 0; i < from.length; i++) {
      const index = uint32At(from, i);
      const value = uint32At(digits, index);
      const place = uint32At(starts, value);
      to[place] = index;
      starts[value] = place + 1;
    }
    [from, to] = [to, from];
  }
  return from;
}

/** 64 digits in ascending order of their code units. */
const DIGITS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';
const BASE = DIGITS.length;
/** Above every number that a key can hold. */
const TOO_LARGE = 2 ** 53;

/**
 * A whole number as a part of a string key: a digit for the number of digits, then the digits to
 * base 64. Texts have the order of their numbers, and none begins with another one.
 * @param number from 0 to 2^53
 */
export function numberText(number: number): string {
  let text = '';
  for (let rest = number; rest > 0; rest = Math.floor(rest / BASE)) text = DIGITS.charAt(rest % BASE) + text;
  return DIGITS.charAt(text.length) + text;
}

/** The text of the least key that is not below a bound, which may be any number. */
export function boundText(bound: number): string {
  return numberText(Math.min(Math.max(Math.ceil(bound), 0), TOO_LARGE));
}

/** A number in a key, and the index after it. */
export interface ReadNumber {
  readonly number: number;
  readonly end: number;
}

/** Reads the number that {@link numberText} wrote at an index of a key. */
export function readNumber(key: string, start: number): ReadNumber {
  const end = start + 1 + DIGITS.indexOf(key.charAt(start));
  let number = 0;
  for (let i = start + 1; i < end; i++) number = number * BASE + DIGITS.indexOf(key.charAt(i));
  return { number, end };
}

/** The number after a prefix of a key; undefined if the key does not have the prefix. */
export function numberInKey(prefix: string, key: Key): number | undefined {
  if (typeof key !== 'string' || !key.startsWith(prefix) || key.length === prefix.length) return undefined;
  return readNumber(key, prefix.length).number;
}
