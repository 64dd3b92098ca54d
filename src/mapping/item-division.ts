import { PolicyInvalidError } from '../errors.ts';
import {
  ASKS_PER_BYTES,
  type DivisionPolicy,
  type DivisionSettings,
  divides,
  divisionOf,
  type MeasuredItem,
} from '../log/division-policy.ts';
import type { Schedule } from '../log/schedule.ts';
import { coveredEntries, type Segment } from '../log/segment.ts';
import type { TailCount } from '../log/tail-count.ts';

/** Items of a segment, if the policy does not say how many. */
const SEGMENT_EVERY = 1_000;

/** Items from one virtual Snapshot entry to the next, unless the policy says it. */
const SNAPSHOT_EVERY = 10;

/** The default of mapped logs, which no application divides. */
export const MAPPED_DIVISION: DivisionPolicy = {
  snapshotEvery: { entries: 100 },
  segmentEvery: { entries: SEGMENT_EVERY },
};

const INVALID = 'the division policy is invalid';

/** The items of a segment, a multiple of those between two Snapshot entries. */
export type SegmentSizes = Omit<Schedule, 'first'>;

/**
 * Parses and validates the division policy of mapped logs. The parts that are not set come from
 * {@link MAPPED_DIVISION}.
 * @throws PolicyInvalidError if a number is out of range, or if it does not fit mapped logs
 */
export function mappedDivisionOf(settings: DivisionSettings): DivisionPolicy {
  const { snapshotEvery: asked, segmentEvery } = divisionOf(settings);
  const snapshotEvery = divides({ snapshotEvery: asked, segmentEvery: {} }) ? asked : MAPPED_DIVISION.snapshotEvery;
  const entries = segmentSizes({ snapshotEvery, segmentEvery }).items;
  return checkMappedDivision({ snapshotEvery, segmentEvery: { ...segmentEvery, entries } });
}

function checkMappedDivision(policy: DivisionPolicy): DivisionPolicy {
  if (policy.segmentEvery.bytes !== undefined) {
    throw new PolicyInvalidError(
      `${INVALID}: segmentEveryBytes is set, but segments of mapped logs are counted in items`,
      {
        advice: 'Set segmentEveryEntries instead',
      },
    );
  }
  const { items, snapshotEvery: every } = segmentSizes(policy);
  if (items % every === 0) return policy;
  const reason = `segmentEveryEntries is ${items}, which is not a multiple of the ${every} items per snapshot`;
  throw new PolicyInvalidError(`${INVALID}: ${reason}`, {
    advice: `Set segmentEveryEntries to a multiple of ${every}, such as ${Math.ceil(items / every) * every}`,
  });
}

/** The sizes with which new segments begin. */
export function segmentSizes({ snapshotEvery, segmentEvery }: DivisionPolicy): SegmentSizes {
  const every = snapshotEvery.entries ?? SNAPSHOT_EVERY;
  return { items: segmentEvery.entries ?? Math.ceil(SEGMENT_EVERY / every) * every, snapshotEvery: every };
}

/**
 * Whether a new item asks for a divide job. The first one does, to register the log, and the last
 * one before each Snapshot entry and End Segment entry. Each other one asks by its share of the
 * bytes.
 * @param item `entry` is its index in its log, from 0
 */
export function asksAtIndex(policy: DivisionPolicy, { entry: index, bytes, share }: MeasuredItem): boolean {
  const { items } = segmentSizes(policy);
  const { entries = items, bytes: limit = Number.POSITIVE_INFINITY } = policy.snapshotEvery;
  const count = index + 1;
  return index === 0 || count % entries === 0 || count % items === 0 || share < (ASKS_PER_BYTES * bytes) / limit;
}

/**
 * Whether the newest Snapshot entry of a mapped log gets its snapshot. The first one of a segment
 * always does, because it covers the previous segment; only that of the empty state is not needed.
 * @param newest the newest segment of the log
 * @param count its entries after its Last Snapshot
 * @param nowSeconds epoch seconds
 */
export function isVirtualDue(
  { snapshotEvery }: DivisionPolicy,
  newest: Segment,
  { tail: { snapshot }, allBytes, first }: TailCount,
  nowSeconds: number,
): boolean {
  const { segment } = newest;
  const covered = coveredEntries(newest);
  if (snapshot < covered || (segment === 0 && snapshot === 0)) return false;
  if (covered === 0 && segment > 0) return true;
  return (
    snapshotEvery.entries !== undefined ||
    allBytes >= (snapshotEvery.bytes ?? Number.POSITIVE_INFINITY) ||
    (nowSeconds - (first ?? nowSeconds)) / 60 >= (snapshotEvery.minutes ?? Number.POSITIVE_INFINITY)
  );
}
