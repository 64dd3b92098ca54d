import { type ErrorDetails, PolicyInvalidError } from '../errors.ts';

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

/** A division policy as parameters and options give it; 0 or undefined is off. */
export interface DivisionSettings {
  readonly snapshotEveryEntries?: number | undefined;
  readonly snapshotEveryBytes?: number | undefined;
  readonly snapshotEveryMinutes?: number | undefined;
  readonly segmentEveryEntries?: number | undefined;
  readonly segmentEveryBytes?: number | undefined;
}

/** Divides nothing: the default of logs in logfold's own schema. */
export const NO_DIVISION: DivisionPolicy = { snapshotEvery: {}, segmentEvery: {} };

/** Items of a mapped log's segment, if the policy does not say how many. */
const MAPPED_SEGMENT_EVERY = 1_000;

/** The default of mapped logs, which no application divides. */
export const MAPPED_DIVISION: DivisionPolicy = {
  snapshotEvery: { entries: 100 },
  segmentEvery: { entries: MAPPED_SEGMENT_EVERY },
};

/** The policy of revisions by default: nobody asks for snapshots of their logs. */
export const REVISIONS_DIVISION: DivisionPolicy = {
  snapshotEvery: { entries: 100 },
  segmentEvery: { entries: 1_000 },
};

/** The highest value of each setting. */
export const MAX_DIVISION = {
  snapshotEveryEntries: 1_000_000,
  snapshotEveryBytes: 1_000_000_000,
  snapshotEveryMinutes: 366 * 24 * 60,
  segmentEveryEntries: 1_000_000,
  segmentEveryBytes: 1_000_000_000,
} as const satisfies { readonly [Name in keyof DivisionSettings]: number };

/** The lowest value of the settings in bytes: below it nearly every entry would be asked about. */
export const MIN_DIVISION_BYTES = 1_000;

/** Items from one virtual Snapshot entry of a mapped log to the next, unless the policy says it. */
const MAPPED_SNAPSHOT_EVERY = 10;

/**
 * Parses and validates a division policy.
 * @param isMapped whether the policy is that of mapped logs. Their parts that are not set come from
 * {@link MAPPED_DIVISION}
 * @throws PolicyInvalidError if a number is out of range, or if it does not fit mapped logs
 */
export function divisionOf(settings: DivisionSettings, isMapped = false): DivisionPolicy {
  const on = (value: number | undefined): number | undefined => (value === 0 ? undefined : value);
  const policy: DivisionPolicy = {
    snapshotEvery: {
      entries: on(settings.snapshotEveryEntries),
      bytes: on(settings.snapshotEveryBytes),
      minutes: on(settings.snapshotEveryMinutes),
    },
    segmentEvery: { entries: on(settings.segmentEveryEntries), bytes: on(settings.segmentEveryBytes) },
  };
  if (!isMapped) return checkDivision(policy);
  const { segmentEvery } = policy;
  const snapshotEvery = hasLimit(policy.snapshotEvery) ? policy.snapshotEvery : MAPPED_DIVISION.snapshotEvery;
  const entries = mappedLayout({ snapshotEvery, segmentEvery }).items;
  return checkDivision({ snapshotEvery, segmentEvery: { ...segmentEvery, entries } }, true);
}

/**
 * Validates a division policy.
 * @param isMapped whether it is the policy of mapped logs
 * @returns the policy
 * @throws PolicyInvalidError if a number is out of range, or if it does not fit mapped logs
 */
export function checkDivision(policy: DivisionPolicy, isMapped = false): DivisionPolicy {
  const { snapshotEvery, segmentEvery } = policy;
  checkNumber('snapshotEvery.entries', snapshotEvery.entries, { min: 1, max: MAX_DIVISION.snapshotEveryEntries });
  checkNumber('snapshotEvery.bytes', snapshotEvery.bytes, {
    min: MIN_DIVISION_BYTES,
    max: MAX_DIVISION.snapshotEveryBytes,
  });
  checkNumber('snapshotEvery.minutes', snapshotEvery.minutes, { min: 1, max: MAX_DIVISION.snapshotEveryMinutes });
  checkNumber('segmentEvery.entries', segmentEvery.entries, { min: 1, max: MAX_DIVISION.segmentEveryEntries });
  checkNumber('segmentEvery.bytes', segmentEvery.bytes, {
    min: MIN_DIVISION_BYTES,
    max: MAX_DIVISION.segmentEveryBytes,
  });
  if (!isMapped) return policy;
  if (segmentEvery.bytes !== undefined) {
    throw invalid('segmentEvery.bytes is set, but segments of mapped logs are counted in items', {
      advice: 'Set segmentEvery.entries instead',
    });
  }
  const { items, snapshotEvery: every } = mappedLayout(policy);
  if (items % every !== 0) {
    throw invalid(`segmentEvery.entries is ${items}, which is not a multiple of the ${every} items per snapshot`, {
      advice: `Set segmentEvery.entries to a multiple of ${every}, such as ${Math.ceil(items / every) * every}`,
    });
  }
  return policy;
}

/** Whether the policy divides logs at all. */
export function divides({ snapshotEvery, segmentEvery }: DivisionPolicy): boolean {
  return hasLimit(snapshotEvery) || hasLimit(segmentEvery);
}

/** How the segments of mapped logs begin: their items, and the items per virtual Snapshot entry. */
export function mappedLayout({ snapshotEvery, segmentEvery }: DivisionPolicy): {
  readonly items: number;
  readonly snapshotEvery: number;
} {
  const every = snapshotEvery.entries ?? MAPPED_SNAPSHOT_EVERY;
  return {
    items: segmentEvery.entries ?? Math.ceil(MAPPED_SEGMENT_EVERY / every) * every,
    snapshotEvery: every,
  };
}

/** A new entry, as the stream shows it. */
export interface NewItem {
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
const ASKS_PER_BYTES = 4;

/**
 * Whether a new entry asks for a divide job. Knows nothing of other entries: the job counts them.
 * An entry asks at multiples of `snapshotEvery.entries`; from `segmentEvery.entries` on again and
 * again; and by its share of the bytes.
 */
export function asksAt({ snapshotEvery, segmentEvery }: DivisionPolicy, { entry, bytes, share }: NewItem): boolean {
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

/**
 * Whether a new item of a mapped log asks for a divide job. The first one does, to register the
 * log, and the last one before each Snapshot entry and End Segment entry. Each other one asks by
 * its share of the bytes.
 * @param item `entry` is its index in its log, from 0
 */
export function asksAtIndex(policy: DivisionPolicy, { entry: index, bytes, share }: NewItem): boolean {
  const { items } = mappedLayout(policy);
  const { entries = items, bytes: limit = Number.POSITIVE_INFINITY } = policy.snapshotEvery;
  const count = index + 1;
  return index === 0 || count % entries === 0 || count % items === 0 || share < (ASKS_PER_BYTES * bytes) / limit;
}

/** The end of a log's newest segment, counted from its newest Snapshot entry on. */
export interface Tail {
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
export function isSegmentDue({ segmentEvery }: DivisionPolicy, { snapshot, newest, segmentBytes }: Tail): boolean {
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
export function isSnapshotDue({ snapshotEvery }: DivisionPolicy, tail: Tail, nowSeconds: number): boolean {
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

/**
 * The end of a mapped log's newest segment. Its Snapshot entries are virtual: they exist anyway.
 */
export interface VirtualTail {
  readonly segment: number;
  /** Number of its newest Snapshot entry with a complete snapshot; -1 without one. */
  readonly complete: number;
  /** Number of the newest Snapshot entry; -1 if it is in an earlier segment. */
  readonly snapshot: number;
  /** Bytes of the items after `complete`. */
  readonly bytes: number;
  /** Creation time of the first of them in epoch seconds; undefined if there is none. */
  readonly oldest: number | undefined;
}

/**
 * Whether the newest Snapshot entry of a mapped log gets its snapshot. The first one of a segment
 * always does, because it covers the segment before; only that of the empty state is not needed.
 * @param nowSeconds epoch seconds
 */
export function isVirtualDue({ snapshotEvery }: DivisionPolicy, tail: VirtualTail, nowSeconds: number): boolean {
  const { segment, complete, snapshot, bytes, oldest = nowSeconds } = tail;
  if (snapshot <= complete || (segment === 0 && snapshot === 0)) return false;
  if (complete === -1 && segment > 0) return true;
  return (
    snapshotEvery.entries !== undefined ||
    bytes >= (snapshotEvery.bytes ?? Number.POSITIVE_INFINITY) ||
    (nowSeconds - oldest) / 60 >= (snapshotEvery.minutes ?? Number.POSITIVE_INFINITY)
  );
}

function hasLimit(limits: { readonly [name: string]: number | undefined }): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}

function checkNumber(
  name: string,
  value: number | undefined,
  { min, max }: { readonly min: number; readonly max: number },
): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= min && value <= max)) return;
  throw invalid(`${name} is ${value}`, { advice: `Give a whole number from ${min} to ${max}, or 0 to switch it off` });
}

function invalid(reason: string, details: Required<Pick<ErrorDetails, 'advice'>>): PolicyInvalidError {
  return new PolicyInvalidError(`the division policy is invalid: ${reason}`, details);
}
