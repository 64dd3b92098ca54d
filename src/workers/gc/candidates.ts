import { LogNotFoundError, PolicyInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { SegmentReader } from '../../log/log-store.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { CONDEMNED_PREFIX, condemnedKey, LOGS_PREFIX, logPrefix, parseKey } from '../../store/keys.ts';

/** Milliseconds after which an unfinished upload may be abandoned. */
const ABANDONED_MS = 24 * 3600 * 1000;

export interface GcCandidatesDeps {
  readonly blobs: BlobStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly policyOf: (log: LogId) => RetentionPolicy;
}

/** A log that may have garbage. */
export interface GcCandidate {
  readonly why: string;
  /** When its oldest garbage may be removed, in epoch milliseconds by the bucket's clock. */
  readonly due: number;
}

/**
 * Finds the logs with condemned objects or unfinished uploads, by two listings of the bucket.
 * @returns the logs to collect
 */
export async function findGcCandidates(deps: GcCandidatesDeps): Promise<ReadonlyMap<LogId, GcCandidate>> {
  const { blobs, now } = deps;
  const logs = new Map<LogId, GcCandidate>();
  const add = (log: LogId, candidate: GcCandidate): void => {
    const known = logs.get(log);
    if (known === undefined || candidate.due < known.due) logs.set(log, candidate);
  };
  for await (const { key, modified } of blobs.list(CONDEMNED_PREFIX)) {
    const parsed = parseKey(key);
    if (parsed === undefined) continue;
    const due = modified + graceMs(deps, parsed.log);
    if (now() >= due) add(parsed.log, { why: 'an earlier collection requested this one', due });
  }
  for await (const { key, started } of blobs.uploads(LOGS_PREFIX)) {
    const parsed = parseKey(key);
    // A collection aborts no upload that is younger than a grace period.
    if (parsed === undefined) continue;
    const due = started + Math.max(ABANDONED_MS, graceMs(deps, parsed.log));
    if (now() >= due) add(parsed.log, { why: 'an upload was never finished', due });
  }
  return logs;
}

/** Infinite if the log's policy is invalid. The sweep of the log reports that. */
function graceMs({ policyOf }: GcCandidatesDeps, log: LogId): number {
  try {
    return policyOf(log).graceSeconds * 1000;
  } catch (error) {
    if (error instanceof PolicyInvalidError) return Number.POSITIVE_INFINITY;
    throw error;
  }
}

/**
 * Checks that the tables have the log. Without segments its collection would fail after every
 * sweep.
 * @throws LogNotFoundError if the Segment table has no segment of the log
 */
export async function requireInTables(tables: SegmentReader, log: LogId): Promise<void> {
  try {
    await queryNewestSegments(tables, log);
  } catch (cause) {
    if (!(cause instanceof LogNotFoundError)) throw cause;
    const advice = `Restore the tables. If the log was deleted on purpose, remove all objects under '${logPrefix(log)}' and '${condemnedKey(log)}'`;
    throw new LogNotFoundError('the bucket has objects of this log, but the Segment table has none of its segments', {
      log,
      advice,
      cause,
    });
  }
}
