import type { Key } from './key.ts';

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
export function numberAfter(prefix: string, key: Key): number | undefined {
  if (typeof key !== 'string' || !key.startsWith(prefix) || key.length === prefix.length) return undefined;
  return readNumber(key, prefix.length).number;
}
