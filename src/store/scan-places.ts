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

/** Part number `index` of the `of` parts of a scan. Parts can be read in parallel. */
export interface ItemScanPart {
  readonly index: number;
  readonly of: number;
  /** Continues after a place in the same part, as a page of the part names it. */
  readonly after?: string | undefined;
}
