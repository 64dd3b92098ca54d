import type { Value } from '../codec/value.ts';

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;
/** A date of ISO 8601, with a time if it has one. Without a zone it is in UTC. */
const DATE = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:\d{2})?)?$/;

/**
 * The number, the boolean or the date that a text shows; otherwise the text. Texts that would lose
 * a digit stay texts: numbers with leading zeros, and integers beyond 2^53.
 */
export function typedValue(text: string): Value {
  const first = text.charCodeAt(0);
  // Most texts begin with neither a digit nor a minus sign.
  if (first !== 0x2d && (first < 0x30 || first > 0x39)) return booleanOf(text) ?? text;
  if (NUMBER.test(text)) return numberOf(text) ?? text;
  return dateOf(text) ?? text;
}

function booleanOf(text: string): boolean | undefined {
  if (text.length > 'false'.length) return undefined;
  const lower = text.toLowerCase();
  return lower === 'true' ? true : lower === 'false' ? false : undefined;
}

function numberOf(text: string): number | undefined {
  const number = Number(text);
  if (!Number.isFinite(number)) return undefined;
  return INTEGER.test(text) && !Number.isSafeInteger(number) ? undefined : number;
}

function dateOf(text: string): Date | undefined {
  const [, day, time = '00:00', zone = 'Z'] = DATE.exec(text) ?? [];
  if (day === undefined) return undefined;
  const date = new Date(`${day}T${time}${zone}`);
  // JavaScript takes 31 February for a day in March.
  const isDay = new Date(`${day}T00:00Z`).getUTCDate() === Number(day.slice(-2));
  return isDay && !Number.isNaN(date.getTime()) ? date : undefined;
}
