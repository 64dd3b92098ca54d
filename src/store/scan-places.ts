import * as z from 'zod';

/**
 * The point at which to continue each part of a scan: at its beginning, after the last page that
 * was read, or not at all.
 */
export type ScanPlaces = readonly ScanPlace[];

export type ScanPlace = z.infer<typeof place>;

const place = z.union([z.literal(['beginning', 'end']), z.object({ after: z.string() })]);

/** Places as notes in the bucket have them. */
export const scanPlaces = z.array(place).readonly();

/** Whether nothing is left to scan. */
export function isAtEnd(places: ScanPlaces): boolean {
  return places.every((each) => each === 'end');
}
