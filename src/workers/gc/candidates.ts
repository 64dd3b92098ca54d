import { LogNotFoundError, PolicyInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { SegmentReader } from '../../log/log-store.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { CONDEMNED_PREFIX, condemnedKey, LOGS_PREFIX, logPrefix, parseKey } from '../../store/keys.ts';

/** How old an unfinished upload is before somebody looks whether it was abandoned, in milliseconds. */
const ABANDONED_MS = 24 * 3600 * 1000;

export interface GcCandidatesDeps {
  readonly blobs: BlobStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly policyOf: (log: LogId) => RetentionPolicy;
}

/** Something in the bucket that a collection removes. */
export interface GcCandidate {
  readonly why: string;
  /** Since when it may be removed, in epoch milliseconds by the bucket's clock. */
  readonly due: number;
}

/**
 * Finds what collections left for later, and uploads that nobody finished, in all logs: by two listings of the bucket.
 * @returns the logs to collect, each with its oldest leftover
 */
export async function findGcCandidates(deps: GcCandidatesDeps): Promise<ReadonlyMap<LogId, GcCandidate>> {
  const { blobs, now } = deps;
  const logs = new Map<LogId, GcCandidate>();
  const add = (log: LogId, leftover: GcCandidate): void => {
    const known = logs.get(log);
    if (known === undefined || leftover.due < known.due) logs.set(log, leftover);
  };
  for await (const { key, modified } of blobs.list(CONDEMNED_PREFIX)) {
    const parsed = parseKey(key);
    if (parsed === undefined) continue;
    const due = modified + graceMs(deps, parsed.log);
    if (now() >= due) add(parsed.log, { why: 'something was left over a grace period ago', due });
  }
  for await (const { key, started } of blobs.uploads(LOGS_PREFIX)) {
    const parsed = parseKey(key);
    // A collection gives up none that is younger than a grace period.
    if (parsed === undefined) continue;
    const due = started + Math.max(ABANDONED_MS, graceMs(deps, parsed.log));
    if (now() >= due) add(parsed.log, { why: 'an upload was never finished', due });
  }
  return logs;
}

/** Endless where the log's policy makes no sense, which is reported where the log is looked at. */
function graceMs({ policyOf }: GcCandidatesDeps, log: LogId): number {
  try {
    return policyOf(log).graceSeconds * 1000;
  } catch (error) {
    if (error instanceof PolicyInvalidError) return Number.POSITIVE_INFINITY;
    throw error;
  }
}

/**
 * A collection begins with the log's segments: of a log that has none it would fail, after each sweep anew.
 * @throws LogNotFoundError
 */
export async function requireInTables(tables: SegmentReader, log: LogId): Promise<void> {
  try {
    await queryNewestSegments(tables, log);
  } catch (cause) {
    if (!(cause instanceof LogNotFoundError)) throw cause;
    const advice = `Restore the tables; or, if the log is to be gone, remove all objects under '${logPrefix(log)}' and '${condemnedKey(log)}'`;
    throw new LogNotFoundError('the bucket has objects of this log, and the Segment table has none of its segments', {
      log,
      advice,
      cause,
    });
  }
}
