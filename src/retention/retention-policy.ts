import { type ErrorDetails, PolicyInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { mayLackEntries, type Segment } from '../log/segment.ts';

/** What becomes of a log's old segments and snapshots. */
export interface RetentionPolicy {
  /** The newest so many segments stay in the table, the open one among them; 1 at least. */
  readonly keepSegments: number;
  /**
   * A segment stays for so many days after it was closed: when the next one was begun, by its client's clock, and not
   * before it was begun itself.
   */
  readonly keepDays: number;
  /** Whether segments that need not stay are archived; those that expire are archived before. */
  readonly archive: boolean;
  /** Whether, and how, segments that need not stay leave the table. */
  readonly expire: 'never' | 'ttl' | 'delete';
  /**
   * Seconds from the decision that something may go to the moment when it goes: longer than any build, than any client
   * takes to load, and than the clocks here can be wrong.
   */
  readonly graceSeconds: number;
  /** Which snapshots of segments in the table are kept. Of an archived segment it is the last one in any case. */
  readonly keepSnapshots: 'all' | 'last';
}

/** Archives, and lets nothing go. */
export const DEFAULT_POLICY: RetentionPolicy = {
  keepSegments: 2,
  keepDays: 30,
  archive: true,
  expire: 'never',
  graceSeconds: 24 * 3600,
  keepSnapshots: 'all',
};

/** Below this grace period, in seconds, a build may be under way when what it starts from is collected. */
export const MIN_GRACE_SECONDS = 3600;

/** The longest grace period, in seconds: 366 days. */
export const MAX_GRACE_SECONDS = 366 * 24 * 3600;

/** The most newest segments that a policy may keep. */
export const MAX_KEEP_SEGMENTS = 1_000_000;

/** The longest time for which a policy may keep a closed segment, in days: a century. */
export const MAX_KEEP_DAYS = 100 * 366;

const DAY_MS = 24 * 3600 * 1000;

/**
 * Holds a policy to what makes sense.
 * @param log whose it is, for the error; left out where it is the deployment's
 * @returns the policy
 * @throws PolicyInvalidError where a number is out of range or two settings contradict each other
 */
export function checkPolicy(policy: RetentionPolicy, log?: LogId): RetentionPolicy {
  const invalid = (reason: string, details: Required<Pick<ErrorDetails, 'advice'>>): PolicyInvalidError =>
    new PolicyInvalidError(`the retention policy makes no sense: ${reason}`, { log, ...details });
  const { keepSegments, keepDays, graceSeconds, archive, expire } = policy;
  if (!Number.isSafeInteger(keepSegments) || keepSegments < 1 || keepSegments > MAX_KEEP_SEGMENTS) {
    const advice = `Keep 1 segment at least, which is the one that is written to, and ${MAX_KEEP_SEGMENTS} at most`;
    throw invalid(`keepSegments is ${keepSegments}`, { advice });
  }
  // Written so that it holds for what is no number as well.
  if (!(keepDays >= 0 && keepDays <= MAX_KEEP_DAYS)) {
    throw invalid(`keepDays is ${keepDays}`, { advice: `Give a number of days from 0 to ${MAX_KEEP_DAYS}` });
  }
  if (!Number.isSafeInteger(graceSeconds) || graceSeconds < 0 || graceSeconds > MAX_GRACE_SECONDS) {
    throw invalid(`graceSeconds is ${graceSeconds}`, {
      advice: `Give whole seconds from 0 to ${MAX_GRACE_SECONDS}, which is 366 days`,
    });
  }
  // Whoever lets go of entries that are nowhere else has to say for how long they stay.
  if (expire !== 'never' && !archive && keepDays === 0) {
    throw invalid('segments are to expire without an archive on the day on which they are closed', {
      advice: 'Archive them, or say with keepDays for how many days their entries stay',
    });
  }
  return policy;
}

/** What retention asks for next. */
export interface RetentionJob {
  readonly kind: 'archive' | 'expire';
  readonly log: LogId;
  readonly segment: number;
}

/**
 * What is to be done with a log's old segments now: for each at most its next step, oldest first. Plans nothing for a
 * segment that is open, not covered, or to be kept; expires nothing that is not archived where the policy archives.
 * @param segments all of one log, ascending
 * @param nowMs epoch milliseconds
 */
export function planRetention(segments: readonly Segment[], policy: RetentionPolicy, nowMs: number): RetentionJob[] {
  const jobs: RetentionJob[] = [];
  for (const [i, segment] of segments.entries()) {
    const next = segments[i + 1];
    if (next === undefined || !isCovered(segment, next)) continue;
    const kept = nowMs < keptUntil(segments, i, policy);
    const kind = kept ? undefined : nextStep(segment, policy, nowMs);
    if (kind !== undefined) jobs.push({ kind, log: segment.log, segment: segment.segment });
  }
  return jobs;
}

/**
 * Since when a job of {@link planRetention} is due, in epoch milliseconds, by the clocks of the clients that began the
 * segments. A policy that was changed counts as if it had always been so.
 * @param segments those that the job was planned from
 */
export function dueSince(segments: readonly Segment[], job: RetentionJob, policy: RetentionPolicy): number {
  const at = segments.findIndex(({ segment }) => segment === job.segment);
  const expiry = segments[at]?.expiry;
  const announced = job.kind === 'expire' && policy.expire === 'delete' && expiry?.state === 'expiring';
  const outnumbered = segments[at + policy.keepSegments]?.created ?? 0;
  return Math.max(keptUntil(segments, at, policy), outnumbered * 1000, announced ? expiry.at * 1000 : 0);
}

/** Until when a segment is kept, in epoch milliseconds: for ever if it is one of the newest. */
function keptUntil(segments: readonly Segment[], at: number, { keepSegments, keepDays }: RetentionPolicy): number {
  // Counted, not subtracted: if numbers are missing, fewer segments than that would stay.
  const [segment, next, last] = [segments[at], segments[at + 1], segments[at + keepSegments]];
  if (segment === undefined || next === undefined || last === undefined) return Number.POSITIVE_INFINITY;
  // By the clocks of the clients that began them, of which one may be far behind.
  const closedMs = Math.max(segment.created, next.created) * 1000;
  return closedMs + keepDays * DAY_MS;
}

/** Whether a segment's entries are all in a completed snapshot of the segment that follows it. */
export function isCovered(segment: Segment, next: Segment | undefined): boolean {
  return next !== undefined && next.segment === segment.segment + 1 && next.lastSnapshot !== undefined;
}

function nextStep(segment: Segment, policy: RetentionPolicy, nowMs: number): RetentionJob['kind'] | undefined {
  const { archive, expiry } = segment;
  // If entries may be missing, no archive can hold all of them.
  if (policy.archive && archive === undefined) return expiry === undefined ? 'archive' : undefined;
  if (policy.expire === 'never' || expiry?.state === 'expired') return undefined;
  const waits = policy.expire === 'delete' && expiry?.state === 'expiring' && nowMs < expiry.at * 1000;
  return waits ? undefined : 'expire';
}

/** Whether a completed snapshot is kept: its chunks stay, and it may be loaded. */
export function keepsSnapshot(segment: Segment, entry: number, keep: RetentionPolicy['keepSnapshots']): boolean {
  if (entry === segment.lastSnapshot) return true;
  // Last Snapshot is about to move onto one that lies behind it: whoever completed that may be slow, or have died.
  return segment.archive === undefined && (keep === 'all' || entry > (segment.lastSnapshot ?? -1));
}

/**
 * Segments that leave the table without an archive although the policy archives: they were announced by another policy.
 * Nothing can be planned for them before somebody takes back that they expire, since their entries may be gone already.
 * @param segments all of one log
 */
export function expiringUnarchived(segments: readonly Segment[], policy: RetentionPolicy): Segment[] {
  if (!policy.archive) return [];
  return segments.filter((segment) => mayLackEntries(segment) && segment.expiry?.state !== 'expired');
}
