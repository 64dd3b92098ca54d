import type { DivisionPolicy } from '../../src/log/division-policy.ts';
import type { RetentionPolicy } from '../../src/retention/retention-policy.ts';

/** Days in a month. */
export const MONTH_DAYS = 30;

/** The use of an active log, and the settings of the deployment. */
export interface UsageModel {
  readonly entriesADay: number;
  /** Bytes of an entry's item, as DynamoDB counts them. */
  readonly entryBytes: number;
  /** Rows of the sheet. Each entry edits one row. */
  readonly rows: number;
  /** Entries from one snapshot to the next. */
  readonly snapshotEvery: number;
  /** Entries from one segment to the next. */
  readonly segmentEvery: number;
  /** The age of the log in days when the month begins. */
  readonly ageDays: number;
  /** Hours from one sweep to the next; a divisor of 24. */
  readonly sweepHours: number;
  readonly policy: RetentionPolicy;
  /** If given, the application does not ask for snapshots, and the stream carries all entries. */
  readonly division?: Division | undefined;
}

/** A division policy, and the stream that serves it. */
export interface Division {
  readonly policy: DivisionPolicy;
  /** Records that start the stream function together. */
  readonly batchRecords: number;
}

/** Fifty edits a day. Entries older than a month are archived and expire. */
export const DEFAULT_MODEL: UsageModel = {
  entriesADay: 50,
  entryBytes: 500,
  rows: 2000,
  snapshotEvery: 50,
  segmentEvery: 250,
  ageDays: 36,
  sweepHours: 1,
  policy: {
    keepSegments: 2,
    keepDays: 30,
    archive: true,
    expire: 'ttl',
    graceSeconds: 24 * 3600,
    keepSnapshots: 'all',
  },
};

/**
 * Memory of the functions in megabytes, as in the template. It determines the price of a second.
 */
export const MEMORY_MB = { stream: 256, jobs: 1769, sweep: 1769 };

/** Seconds that an invocation may take, as in the template. */
export const TIMEOUT_SECONDS = 900;

/**
 * The most write units per second of expire jobs, as in the template. The rate limiter waits for
 * the rest.
 */
export const EXPIRE_WRITE_UNITS = 100;
