import { type ItemInvalidError, LogNotFoundError, PolicyInvalidError } from '../../errors.ts';
import { type LogId, textLogId } from '../../ids/log-id.ts';
import type { SegmentReader } from '../../log/log-store.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { CONDEMNED_PREFIX, LOGS_PREFIX, type LogName, logName, logOfName, parseKey } from '../../store/keys.ts';

/** Milliseconds after which an unfinished upload may be abandoned. */
const ABANDONED_MS = 24 * 3600 * 1000;

export interface GcCandidatesDeps {
  readonly tables: Pick<SegmentReader, 'allSegments'>;
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

export interface GcCandidates {
  readonly logs: ReadonlyMap<LogId, GcCandidate>;
  /** Names in the bucket that are hashes of ids, where the Segment table has no such log. */
  readonly unknown: readonly LogName[];
}

/** An object or an upload that makes a log a candidate. */
interface Sign {
  readonly name: LogName;
  readonly why: string;
  /** Epoch milliseconds by the bucket's clock. */
  readonly since: number;
  /** The least age at which the log is due, in milliseconds. */
  readonly least: number;
}

/**
 * Finds the logs with condemned objects or unfinished uploads, by two listings of the bucket. If
 * some of these objects name their log by a hash, it also scans the Segment table for the id.
 * @param only leaves out all other logs, and needs no scan; all logs by default
 */
export async function findGcCandidates(deps: GcCandidatesDeps, only?: LogId): Promise<GcCandidates> {
  const logs = new Map<LogId, GcCandidate>();
  const add = (log: LogId, { why, since, least }: Sign): void => {
    // A collection aborts no upload that is younger than a grace period.
    const due = since + Math.max(least, graceMs(deps, log));
    const known = logs.get(log);
    if (deps.now() >= due && (known === undefined || due < known.due)) logs.set(log, { why, due });
  };
  const hashed: Sign[] = [];
  for await (const sign of signs(deps.blobs)) {
    const log = only !== undefined && sign.name === logName(only) ? only : logOfName(sign.name);
    if (only !== undefined && log !== only) continue;
    if (log === undefined) hashed.push(sign);
    else add(log, sign);
  }
  const names = new Set(hashed.map(({ name }) => name));
  const ids = names.size > 0 ? await idsOf(deps.tables, names) : new Map<LogName, LogId>();
  for (const sign of hashed) {
    const log = ids.get(sign.name);
    if (log !== undefined) add(log, sign);
    // The scan may not see a log that has just begun.
    else if (deps.now() < sign.since + ABANDONED_MS) names.delete(sign.name);
  }
  return { logs, unknown: [...names].filter((name) => !ids.has(name)) };
}

async function* signs(blobs: BlobStore): AsyncGenerator<Sign> {
  for await (const { key, modified } of blobs.list(CONDEMNED_PREFIX)) {
    const name = parseKey(key)?.name;
    if (name !== undefined) yield { name, why: 'an earlier collection requested this one', since: modified, least: 0 };
  }
  for await (const { key, started } of blobs.uploads(LOGS_PREFIX)) {
    const name = parseKey(key)?.name;
    if (name !== undefined) yield { name, why: 'an upload was never finished', since: started, least: ABANDONED_MS };
  }
}

/** The ids of all logs that have one of these names, from a scan of the Segment table. */
async function idsOf(tables: GcCandidatesDeps['tables'], names: ReadonlySet<LogName>): Promise<Map<LogName, LogId>> {
  const ids = new Map<LogName, LogId>();
  const add = (log: LogId): void => {
    const name = logName(log);
    if (names.has(name)) ids.set(name, log);
  };
  // The sweep reports malformed segments.
  const onInvalid = (error: ItemInvalidError): void => {
    if (error.log !== undefined) add(textLogId(error.log));
  };
  for await (const { log } of tables.allSegments(undefined, onInvalid)) add(log);
  return ids;
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
    throw notInTables(logName(log), { log, cause });
  }
}

/** The error for a log that only the bucket has. */
export function notInTables(
  name: LogName,
  details: { readonly log?: LogId; readonly cause?: unknown } = {},
): LogNotFoundError {
  const objects = `${LOGS_PREFIX}${name}/`;
  const record = `${CONDEMNED_PREFIX}${name}`;
  return new LogNotFoundError('the bucket has objects of this log, but the Segment table has none of its segments', {
    ...details,
    advice: `Restore the tables. If the log was deleted on purpose, remove all objects under '${objects}' and '${record}'`,
  });
}
