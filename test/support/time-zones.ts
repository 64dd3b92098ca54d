/** Two time zones that no other test uses. Neither has whole hours, and both have a summer time. */
export const TIME_ZONES = ['Pacific/Chatham', 'America/St_Johns'] as const;
export type TimeZone = (typeof TIME_ZONES)[number];

const NEW_YEAR_OFFSETS: Readonly<Record<TimeZone, number>> = { 'Pacific/Chatham': -825, 'America/St_Johns': 210 };

/**
 * Sets the time zone of this process.
 * @returns a function that sets the previous one
 * @throws Error if the process ignores it
 */
export function enterTimeZone(zone: TimeZone): () => void {
  const before = process.env.TZ;
  process.env.TZ = zone;
  const offset = new Date(2026, 0, 1).getTimezoneOffset();
  if (offset !== NEW_YEAR_OFFSETS[zone]) throw new Error(`TZ=${zone} has no effect: the offset is ${offset} minutes`);
  return () => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  };
}

/** Runs a function once in each time zone. */
export async function inTimeZones<T>(run: () => T | Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (const zone of TIME_ZONES) {
    const leave = enterTimeZone(zone);
    try {
      results.push(await run());
    } finally {
      leave();
    }
  }
  return results;
}
