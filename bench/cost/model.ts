import type { RetentionPolicy } from '../../src/retention/retention-policy.ts';

/** Days of a month. */
export const MONTH_DAYS = 30;

/** How a log is used that somebody works on, and what the deployment does with it. */
export interface UsageModel {
  readonly entriesADay: number;
  /** Bytes of an entry's item, as DynamoDB counts them. */
  readonly entryBytes: number;
  /** Rows of the sheet that the log's entries edit, each one row. */
  readonly rows: number;
  /** Entries from one snapshot to the next. */
  readonly snapshotEvery: number;
  /** Entries from one segment to the next. */
  readonly segmentEvery: number;
  /** Days for which the log has been used like this before the month begins. */
  readonly ageDays: number;
  /** Hours from one sweep to the next; a whole number of them is a day. */
  readonly sweepHours: number;
  readonly policy: RetentionPolicy;
}

/** Somebody makes fifty edits a day; what is older than a month is archived and leaves the table. */
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

/** Memory of the functions in megabytes, as the template gives it to them: what a second of them costs goes by it. */
export const MEMORY_MB = { stream: 256, jobs: 1769, sweep: 1769 };

/** Write units that expiring may spend in a second, as the template has it: it waits for the rest of the time. */
export const EXPIRE_WRITE_UNITS = 100;
