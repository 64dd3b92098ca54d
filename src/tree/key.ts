import { KeyInvalidError } from '../errors.ts';

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
