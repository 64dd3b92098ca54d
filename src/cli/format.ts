import { UsageError } from '../errors.ts';

/** A number with what it counts, for a person: `1 entry`, `2 entries`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** `1 entry` or `2 entries`, which nearly every command tells of. */
export function countEntries(number: number): string {
  return count(number, 'entry', 'entries');
}

const SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 24 * 3600 };

/**
 * Seconds from a text such as `90s`, `30m`, `24h` or `7d`; a number alone is seconds.
 * @throws UsageError
 */
export function parseDuration(text: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  const unit = SECONDS[match?.[2] ?? '?'];
  if (match === null || unit === undefined) {
    throw new UsageError(`'${text}' is not a duration`, { advice: "Write a number and s, m, h or d, such as '24h'" });
  }
  return Number(match[1]) * unit;
}

/** Seconds for a person, in the largest unit that they fill. */
export function formatDuration(seconds: number): string {
  const [unit, size] = Object.entries(SECONDS).findLast(([, size]) => seconds >= size && seconds % size === 0) ?? [
    's',
    1,
  ];
  return `${seconds / size}${unit === '' ? 's' : unit}`;
}

/** Epoch seconds as a date and time for a person, in UTC. */
export function formatDate(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace('.000', '');
}
