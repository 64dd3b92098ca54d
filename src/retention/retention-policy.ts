import * as z from 'zod';
import { PolicyInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import { shownParts } from '../log/guard.ts';
import { coveredEntries, lastSnapshotOf, type Segment } from '../log/segment.ts';
import { checkSettings, settingTexts } from '../log/settings.ts';

/** The longest grace period, in seconds: 366 days. */
const MAX_GRACE_SECONDS = 366 * 24 * 3600;

/** The most days for which a policy may keep a closed segment: a century. */
export const MAX_KEEP_DAYS = 100 * 366;

/** The settings of a retention policy. */
export const RETENTION = z.object({
  /** The number of newest segments, including the open one, that stay in the table; at least 1. */
  keepSegments: z.int().min(1).max(1_000_000).register(settingTexts, {
    help: 'newest segments that stay in the table, including the open one',
  }),
  /**
   * Days for which a segment stays after its end. A segment ends when the next one starts, by the
   * clock of the client that starts the next one, but never before its own start.
   */
  keepDays: z.number().min(0).max(MAX_KEEP_DAYS).register(settingTexts, {
    help: 'days that a closed segment stays in the table',
  }),
  /** Whether segments are archived when they need not stay, and before they expire. */
  archive: z.boolean().register(settingTexts, {
    help: 'archive segments that need not stay in the table',
    off: 'expire segments without an archive',
  }),
  /** Whether and how segments expire when they need not stay. */
  expire: z.enum(['never', 'ttl', 'delete']).register(settingTexts, {
    help: 'how entries leave the table',
    option: '--expire <how>',
  }),
  /**
   * Seconds between the decision to remove something and its removal, from 0 to
   * {@link MAX_GRACE_SECONDS}. Safe only if it is longer than any build, any load by a client, and
   * the error of any clock. Nothing measures these: below {@link MIN_GRACE_SECONDS} the commands
   * and the functions warn, and the template refuses the value.
   */
  graceSeconds: z.int().min(0).max(MAX_GRACE_SECONDS).register(settingTexts, {
    help: 'time between the decision to remove something and its removal',
    option: '--grace <duration>',
  }),
  /**
   * Which snapshots of unarchived segments are kept. An archived segment always keeps only its last
   * one.
   */
  keepSnapshots: z.enum(['all', 'last']).register(settingTexts, {
    help: 'which snapshots to keep of a segment in the table',
    option: '--keep-snapshots <which>',
  }),
});

/** Decides which segments and snapshots of a log are archived, expired and kept, and when. */
export type RetentionPolicy = Readonly<z.infer<typeof RETENTION>>;

/** Archives segments and expires none. */
export const DEFAULT_POLICY: RetentionPolicy = {
  keepSegments: 2,
  keepDays: 30,
  archive: true,
  expire: 'never',
  graceSeconds: 24 * 3600,
  keepSnapshots: 'all',
};

/** With a shorter grace period, in seconds, a collection may remove the base of a running build. */
export const MIN_GRACE_SECONDS = 3600;

const MS_PER_DAY = 24 * 3600 * 1000;

/**
 * Validates a policy.
 * @param log the log of the policy, for the error; undefined for the deployment's policy
 * @returns the policy
 * @throws PolicyInvalidError if a number is out of range or two settings contradict each other
 */
export function checkPolicy(policy: RetentionPolicy, log?: LogId): RetentionPolicy {
  const { expire, archive, keepDays } = checkSettings('retention', RETENTION, policy, log);
  // If entries expire without an archive, the policy must state how long they stay.
  if (expire !== 'never' && !archive && keepDays === 0) {
    const reason = 'segments expire without an archive on the day on which they are closed';
    throw new PolicyInvalidError(`the retention policy is invalid: ${reason}`, {
      log,
      advice: 'Archive them, or set keepDays to the number of days for which their entries stay',
    });
  }
  return policy;
}

/** The next step of retention for a segment. */
export interface RetentionJob {
  readonly kind: 'archive' | 'expire';
  readonly log: LogId;
  readonly segment: number;
}

/**
 * Plans the due steps for a log's segments, oldest first, at most one per segment. Plans nothing
 * for a segment that is open, not covered or kept. If the policy archives, never expires an
 * unarchived segment.
 * @param segments all of one log, in ascending order
 * @param nowMs epoch milliseconds
 */
export function planRetention(segments: readonly Segment[], policy: RetentionPolicy, nowMs: number): RetentionJob[] {
  const jobs: RetentionJob[] = [];
  const snapshot = lastSnapshotOf(segments.toReversed());
  for (const [i, segment] of segments.entries()) {
    const next = segments[i + 1];
    if (next === undefined || !isCovered(segment, next, snapshot)) continue;
    const kept = nowMs < keptUntil(segments, i, policy);
    const kind = kept ? undefined : nextStep(segment, policy, nowMs);
    if (kind === 'expire' && !hasItemsAfter(segment, segments.slice(i + 1, i + 3))) continue;
    if (kind !== undefined) jobs.push({ kind, log: segment.log, segment: segment.segment });
  }
  return jobs;
}

/**
 * When a job of {@link planRetention} became due, in epoch milliseconds, by the clocks of the
 * clients that started the segments. Assumes that the policy never changed.
 * @param segments the segments of which the job was planned
 */
export function dueSince(segments: readonly Segment[], job: RetentionJob, policy: RetentionPolicy): number {
  const at = segments.findIndex(({ segment }) => segment === job.segment);
  const expiry = segments[at]?.expiry;
  const announced = job.kind === 'expire' && policy.expire === 'delete' && expiry?.state === 'expiring';
  const outnumbered = segments[at + policy.keepSegments]?.created ?? 0;
  return Math.max(keptUntil(segments, at, policy), outnumbered * 1000, announced ? expiry.at * 1000 : 0);
}

/** When a segment need no longer stay, in epoch milliseconds; infinite for one of the newest. */
function keptUntil(segments: readonly Segment[], at: number, { keepSegments, keepDays }: RetentionPolicy): number {
  // By index, not by number: if numbers are missing, subtraction would keep fewer segments.
  const [segment, next, last] = [segments[at], segments[at + 1], segments[at + keepSegments]];
  if (segment === undefined || next === undefined || last === undefined) return Number.POSITIVE_INFINITY;
  // The clocks of two clients, one of which may be far behind.
  const closedMs = Math.max(segment.created, next.created) * 1000;
  return closedMs + keepDays * MS_PER_DAY;
}

/**
 * Whether the next segment has a complete snapshot, which contains all entries of this one. In a
 * scheduled log, the snapshot may also be in a later segment.
 * @param newest the newest complete snapshot of the log, as far as it is known
 */
export function isCovered({ segment }: Segment, next: Segment | undefined, newest?: Position): boolean {
  if (next?.segment !== segment + 1) return false;
  return (
    next.lastSnapshot !== undefined || (next.schedule !== undefined && newest !== undefined && newest.segment > segment)
  );
}

/**
 * Whether entries may expire without the newest item of a scheduled log, from which its application
 * may take the number of the next one. True for every other log, whose open segment has an entry.
 * @param after the next segments
 */
function hasItemsAfter({ schedule }: Segment, after: readonly Segment[]): boolean {
  return schedule === undefined || after.length > 1 || coveredEntries(after[0]) > 1;
}

function nextStep(segment: Segment, policy: RetentionPolicy, nowMs: number): RetentionJob['kind'] | undefined {
  const { archive, expiry } = segment;
  // Another program may have moved the entries.
  if (shownParts(segment).length > 0) return undefined;
  // If entries may be missing, no archive can hold all of them.
  if (policy.archive && archive === undefined) return expiry === undefined ? 'archive' : undefined;
  if (policy.expire === 'never' || expiry?.state === 'expired') return undefined;
  const waits = policy.expire === 'delete' && expiry?.state === 'expiring' && nowMs < expiry.at * 1000;
  return waits ? undefined : 'expire';
}

/** Whether a complete snapshot is kept: its chunks stay, and clients may load it. */
export function keepsSnapshot(segment: Segment, entry: number, keep: RetentionPolicy['keepSnapshots']): boolean {
  if (entry === segment.lastSnapshot?.position.entry) return true;
  // A worker is about to move Last Snapshot to a later snapshot. The worker may be slow, or have
  // died.
  return segment.archive === undefined && (keep === 'all' || entry >= coveredEntries(segment));
}

/**
 * Segments that expire without an archive although the policy archives: an earlier policy expired
 * them. Nothing can be planned for them until somebody undoes the expiry, since entries may already
 * be missing.
 * @param segments all segments of one log
 */
export function expiringUnarchived(segments: readonly Segment[], policy: RetentionPolicy): Segment[] {
  if (!policy.archive) return [];
  return segments.filter(
    ({ archive, expiry }) => archive === undefined && expiry !== undefined && expiry.state !== 'expired',
  );
}
