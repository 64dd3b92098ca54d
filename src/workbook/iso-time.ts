import { dateAt } from '../codec/value.ts';

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIME = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|([+-])(\d\d):(\d\d))?$/;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/**
 * The time of a date in ISO 8601, with or without a time after `T` or a space, in epoch
 * milliseconds. Without an offset it is UTC, on every machine.
 * @returns undefined if the text is no such time, or there is no such day
 */
export function isoTime(text: string): number | undefined {
  const day = isoDay(text.slice(0, 10));
  if (day === undefined || text.length === 10) return day;
  const time = 'T '.includes(text.charAt(10)) ? isoTimeOfDay(text.slice(11)) : undefined;
  return time === undefined ? undefined : day + time;
}

/**
 * The milliseconds of a time in ISO 8601 since the beginning of its day in UTC. Fractions of
 * a millisecond are cut.
 * @returns undefined if the text is no such time
 */
export function isoTimeOfDay(text: string): number | undefined {
  const parts = TIME.exec(text);
  if (parts === null) return undefined;
  const [, hours, minutes, seconds = '0', fraction = '', sign, offsetHours = '0', offsetMinutes = '0'] = parts;
  const rest = Number(minutes) * MINUTE_MS + Number(seconds) * 1000 + Number(fraction.slice(0, 3).padEnd(3, '0'));
  // 24:00 is the end of a day.
  const isInRange = Number(minutes) < 60 && Number(seconds) < 60 && Number(hours) < (rest === 0 ? 25 : 24);
  if (!isInRange || Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return undefined;
  const offset = Number(offsetHours) * HOUR_MS + Number(offsetMinutes) * MINUTE_MS;
  return Number(hours) * HOUR_MS + rest - (sign === '-' ? -offset : offset);
}

/** The beginning of a day in UTC. */
function isoDay(text: string): number | undefined {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (year === undefined) return undefined;
  // Date.UTC takes the years 0 to 99 for 1900 to 1999, and has the same calendar every 400 years.
  const [cycleYears, cycleDays] = [400, 146_097];
  const time = Date.UTC(Number(year) + cycleYears, Number(month) - 1, Number(day)) - cycleDays * DAY_MS;
  return dateAt(time).toISOString().slice(0, 10) === text ? time : undefined;
}
