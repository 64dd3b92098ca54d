import { dateAt } from '../codec/value.ts';
import type { StoredAttribute } from '../log/attribute.ts';
import type { TimeFormat } from './schema-mapping.ts';

/** A date, and optionally a time, a fraction of a second and an offset from UTC. */
const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?)?$/i;

/** The form of nearly all times; 0 stands for any digit. */
const COMMON_FORM = '0000-00-00T00:00:00.000Z';

/** Decimal digits, with an optional fraction. */
const DECIMAL = /^(\d+)(?:\.\d+)?$/;

/**
 * The time of an item in epoch seconds; fractions are cut. Without an offset, ISO 8601 is UTC.
 * @returns undefined if the attribute holds no time of this format, in 1970 or later
 */
export function itemSeconds(attribute: StoredAttribute, format: TimeFormat): number | undefined {
  const seconds = format === 'iso' ? secondsOfIso(attribute.S ?? '') : decimalSeconds(attribute.N ?? '', format);
  return seconds !== undefined && Number.isSafeInteger(seconds) && seconds >= 0 ? seconds : undefined;
}

/**
 * The milliseconds of an item's time after its {@link itemSeconds}, 0 if it has none. Smaller
 * fractions are cut.
 */
export function itemMilliseconds(attribute: StoredAttribute, format: TimeFormat): number {
  if (format === 'ms') return Number(/^\d+/.exec(attribute.N ?? '')?.[0].slice(-3) ?? 0);
  if (format === 'iso' && attribute.S !== undefined && hasCommonForm(attribute.S)) return digits(attribute.S, 20, 23);
  const text = (format === 'iso' ? attribute.S : attribute.N) ?? '';
  const [, fraction = ''] = (format === 'iso' ? ISO_FRACTION : /\.(\d+)$/).exec(text) ?? [];
  return Number(fraction.slice(0, 3).padEnd(3, '0'));
}

/** The fraction of a second of {@link ISO}, which follows two colons. */
const ISO_FRACTION = /:\d\d:\d\d[.,](\d+)/;

function decimalSeconds(text: string, format: 's' | 'ms'): number | undefined {
  const [, whole] = DECIMAL.exec(text) ?? [];
  if (whole === undefined) return undefined;
  return format === 's' ? Number(whole) : Math.floor(Number(whole) / 1000);
}

function secondsOfIso(text: string): number | undefined {
  return commonSeconds(text) ?? isoSeconds(text);
}

/** Like {@link isoSeconds}, but undefined also for other forms and for the last days of a month. */
function commonSeconds(text: string): number | undefined {
  if (!hasCommonForm(text)) return undefined;
  const [year, month, day] = [digits(text, 0, 4), digits(text, 5, 7), digits(text, 8, 10)];
  const [hours, minutes, seconds] = [digits(text, 11, 13), digits(text, 14, 16), digits(text, 17, 19)];
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 28) return undefined;
  if (hours > 23 || minutes > 59 || seconds > 59) return undefined;
  return Date.UTC(year, month - 1, day, hours, minutes, seconds) / 1000;
}

function hasCommonForm(text: string): boolean {
  if (text.length !== COMMON_FORM.length) return false;
  for (let i = 0; i < text.length; i++) {
    const [code, form] = [text.charCodeAt(i), COMMON_FORM.charCodeAt(i)];
    if (form === ZERO ? code < ZERO || code > NINE : code !== form) return false;
  }
  return true;
}

const [ZERO, NINE] = [0x30, 0x39];

function digits(text: string, from: number, to: number): number {
  let number = 0;
  for (let i = from; i < to; i++) number = number * 10 + text.charCodeAt(i) - ZERO;
  return number;
}

/**
 * The epoch seconds of a time in ISO 8601; fractions are cut. Without an offset, it is UTC:
 * `Date.parse` would use the time zone of the machine.
 * @returns undefined if the text is no such time
 */
export function isoSeconds(text: string): number | undefined {
  const parts = ISO.exec(text);
  if (parts === null) return undefined;
  const [year = 0, month = 0, day = 0, hours = 0, minutes = 0, seconds = 0] = parts
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const date = dateAt(Date.UTC(year, month - 1, day));
  if (date.getUTCFullYear() !== year || date.getUTCMonth() !== month - 1) return undefined;
  const [offsetHours, offsetMinutes] = [Number(parts[8] ?? 0), Number(parts[9] ?? 0)];
  // 24:00 is the end of a day, and :60 is a leap second.
  if (hours > 24 || minutes > 59 || seconds > 60 || offsetHours > 23 || offsetMinutes > 59) return undefined;
  const offset = (parts[7] === '-' ? -1 : 1) * (offsetHours * 3600 + offsetMinutes * 60);
  return date.getTime() / 1000 + hours * 3600 + minutes * 60 + seconds - offset;
}
