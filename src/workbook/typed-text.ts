import { dateAt, type Value } from '../codec/value.ts';
import { isoTime } from './iso-time.ts';

/**
 * The rules by which the texts of a file become values. They never change, so an Import entry that
 * names them gives the same cells in every version of logfold.
 */
export type RulesNumber = 1 | 2;

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;
const DIGITS = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** A date of ISO 8601, with a time if it has one. Further digits of a second would be lost. */
const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

/**
 * The number, the boolean or the date that a text shows; otherwise the text. Texts that would lose
 * a digit stay texts: numbers with leading zeros, integers beyond 2^53, and by the newest rules all
 * numbers that are written with other digits than their double.
 */
export function typedValue(text: string, rules: RulesNumber): Value {
  const first = text.charCodeAt(0);
  // Most texts begin with neither a digit nor a minus sign.
  if (first !== 0x2d && (first < 0x30 || first > 0x39)) return booleanText(text) ?? text;
  if (NUMBER.test(text)) return numberOfText(text, rules) ?? text;
  const time = DATE.test(text) ? isoTime(text) : undefined;
  return time === undefined ? text : dateAt(time);
}

/** Whether a text is `true` or `false`, in any case. */
export function booleanText(text: string): boolean | undefined {
  if (text.length > 'false'.length) return undefined;
  const lower = text.toLowerCase();
  return lower === 'true' ? true : lower === 'false' ? false : undefined;
}

function numberOfText(text: string, rules: RulesNumber): number | undefined {
  const number = Number(text);
  if (!Number.isFinite(number) || (INTEGER.test(text) && !Number.isSafeInteger(number))) return undefined;
  if (rules === 1) return number;
  const kept = String(number);
  return kept === text || significant(kept) === significant(text) ? number : undefined;
}

/** A number without the zeros around its digits. Equal numbers have equal texts. */
function significant(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = DIGITS.exec(text) ?? [];
  const digits = `${whole}${fraction}`;
  let [from, to] = [0, digits.length];
  while (digits[from] === '0') from++;
  while (to > from && digits[to - 1] === '0') to--;
  const zeros = Number(exponent) - fraction.length + digits.length - to;
  return from === to ? `${sign}0` : `${sign}${digits.slice(from, to)}e${zeros}`;
}
