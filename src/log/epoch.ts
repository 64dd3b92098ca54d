import { ClockInvalidError } from '../errors.ts';

/**
 * The time as items carry it: epoch seconds from 0. Everything that writes a time takes it from here, since readers refuse
 * an item with any other time, and so stop its log.
 * @param nowMs epoch milliseconds, as a clock shows them
 * @throws ClockInvalidError if that is before 1970, or no time
 */
export function epochSeconds(nowMs: number): number {
  const seconds = Math.floor(nowMs / 1000);
  if (Number.isSafeInteger(seconds) && seconds >= 0) return seconds;
  const time = new Date(nowMs);
  throw new ClockInvalidError(
    `the clock shows ${Number.isNaN(time.getTime()) ? nowMs : time.toISOString()}, and nothing was written`,
    { advice: 'Set the clock of this machine to the present time' },
  );
}
