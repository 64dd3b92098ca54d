import * as z from 'zod';
import { checkSettings, settingTexts } from './settings.ts';

/**
 * Says after how much of a log a Snapshot entry or an End Segment entry is due, without being asked
 * for. An absent number is off. The application may append such entries too.
 */
export interface DivisionPolicy {
  /** A snapshot is due after any of these since the newest Snapshot entry. */
  readonly snapshotEvery: {
    readonly entries?: number | undefined;
    /** Bytes of items, as DynamoDB counts them. */
    readonly bytes?: number | undefined;
    /** Minutes since the first entry after it. Only the sweep looks at them. */
    readonly minutes?: number | undefined;
  };
  /** A new segment is due after any of these since the first entry of the newest segment. */
  readonly segmentEvery: {
    readonly entries?: number | undefined;
    readonly bytes?: number | undefined;
  };
}

/** Divides nothing: the default of logs in logfold's own schema. */
export const NO_DIVISION: DivisionPolicy = { snapshotEvery: {}, segmentEvery: {} };

/** The policy of revisions by default: nobody asks for snapshots of their logs. */
export const REVISIONS_DIVISION: DivisionPolicy = {
  snapshotEvery: { entries: 100 },
  segmentEvery: { entries: 1_000 },
};

/** The lowest value of the settings in bytes: below it nearly every entry would be asked about. */
export const MIN_DIVISION_BYTES = 1_000;

/** The settings of a division policy; 0 is off, which is the default. */
export const DIVISION = z.object({
  snapshotEveryEntries: limit(1, 1_000_000, { help: 'append a Snapshot entry after this many entries' }),
  snapshotEveryBytes: limit(MIN_DIVISION_BYTES, 1_000_000_000, {
    help: 'append a Snapshot entry after this many bytes of entries',
  }),
  snapshotEveryMinutes: limit(1, 366 * 24 * 60, {
    help: 'append a Snapshot entry this many minutes after a change; only a sweep looks at the time',
  }),
  segmentEveryEntries: limit(1, 1_000_000, { help: 'start a new segment after this many entries' }),
  segmentEveryBytes: limit(MIN_DIVISION_BYTES, 1_000_000_000, {
    help: 'start a new segment after this many bytes of entries',
  }),
});

/** A division policy as parameters and options give it; 0 or undefined is off. */
export type DivisionSettings = Readonly<z.input<typeof DIVISION>>;

/**
 * Validates a division policy.
 * @throws PolicyInvalidError if a number is out of range
 */
export function divisionOf(settings: DivisionSettings): DivisionPolicy {
  const checked = checkSettings('division', DIVISION, settings);
  const on = (value: number): number | undefined => (value === 0 ? undefined : value);
  return {
    snapshotEvery: {
      entries: on(checked.snapshotEveryEntries),
      bytes: on(checked.snapshotEveryBytes),
      minutes: on(checked.snapshotEveryMinutes),
    },
    segmentEvery: { entries: on(checked.segmentEveryEntries), bytes: on(checked.segmentEveryBytes) },
  };
}

function limit(min: number, max: number, texts: { readonly help: string }) {
  return z
    .union([z.literal(0), z.int().min(min).max(max)])
    .default(0)
    .register(settingTexts, texts);
}

/** Whether the policy divides logs at all. */
export function divides({ snapshotEvery, segmentEvery }: DivisionPolicy): boolean {
  return hasLimit(snapshotEvery) || hasLimit(segmentEvery);
}

/** A new entry, as the stream shows it. */
export interface MeasuredItem {
  /** Its number in its segment. */
  readonly entry: number;
  /** Bytes of its item. */
  readonly bytes: number;
  /** A number from 0 up to but not including 1, random but equal for all copies of its record. */
  readonly share: number;
}

/** Entries from one question for a segment to the next, until the segment starts. */
const SEGMENT_AGAIN = 10;

/** How often the entries of `snapshotEvery.bytes` or `segmentEvery.bytes` ask, on average. */
export const ASKS_PER_BYTES = 4;

/**
 * Whether a new entry asks for a divide job. Knows nothing of other entries: the job counts them.
 * An entry asks at multiples of `snapshotEvery.entries`; from `segmentEvery.entries` on again and
 * again; and by its share of the bytes.
 */
export function asksAt(
  { snapshotEvery, segmentEvery }: DivisionPolicy,
  { entry, bytes, share }: MeasuredItem,
): boolean {
  const { entries: perSnapshot = Number.POSITIVE_INFINITY } = snapshotEvery;
  const { entries: perSegment = Number.POSITIVE_INFINITY } = segmentEvery;
  const limit = Math.min(
    snapshotEvery.bytes ?? Number.POSITIVE_INFINITY,
    segmentEvery.bytes ?? Number.POSITIVE_INFINITY,
  );
  return (
    (entry > 0 && entry % perSnapshot === 0) ||
    (entry >= perSegment && (entry - perSegment) % SEGMENT_AGAIN === 0) ||
    share < (ASKS_PER_BYTES * bytes) / limit
  );
}

/** The end of a log's newest segment, counted from its newest Snapshot entry on. */
export interface MeasuredTail {
  /** Number of the newest Snapshot entry; -1 if the segment has none. */
  readonly snapshot: number;
  /** Number of the newest entry; equal to `snapshot` if no entry follows it. */
  readonly newest: number;
  /** Bytes of the items after the newest Snapshot entry. */
  readonly bytes: number;
  /** Creation time of the first of them in epoch seconds; undefined if there is none. */
  readonly oldest: number | undefined;
  /** Bytes of all items of the segment, or an estimate. Needed only for `segmentEvery.bytes`. */
  readonly segmentBytes: number;
}

/**
 * Whether a new segment is due. Never directly after a Snapshot entry: two Snapshot entries in a
 * row stand for the same state.
 */
export function isSegmentDue(
  { segmentEvery }: DivisionPolicy,
  { snapshot, newest, segmentBytes }: MeasuredTail,
): boolean {
  if (newest === snapshot) return false;
  const { entries = Number.POSITIVE_INFINITY, bytes = Number.POSITIVE_INFINITY } = segmentEvery;
  return newest >= entries || segmentBytes >= bytes;
}

/**
 * Whether a Snapshot entry is due: after the policy's entries, bytes or minutes since the newest
 * one. Also due at a multiple of the entries, if half of them follow the newest Snapshot entry. The
 * stream asks only at the multiples, and a Snapshot entry always lies a little after one.
 * @param nowSeconds epoch seconds
 */
export function isSnapshotDue({ snapshotEvery }: DivisionPolicy, tail: MeasuredTail, nowSeconds: number): boolean {
  const { snapshot, newest, bytes, oldest = nowSeconds } = tail;
  const since = newest - snapshot;
  if (since === 0) return false;
  const { entries = Number.POSITIVE_INFINITY } = snapshotEvery;
  const isAtMultiple =
    since * 2 >= entries && Math.floor(newest / entries) > Math.floor(Math.max(0, snapshot) / entries);
  return (
    since >= entries ||
    isAtMultiple ||
    bytes >= (snapshotEvery.bytes ?? Number.POSITIVE_INFINITY) ||
    (nowSeconds - oldest) / 60 >= (snapshotEvery.minutes ?? Number.POSITIVE_INFINITY)
  );
}

function hasLimit(limits: { readonly [name: string]: number | undefined }): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}
