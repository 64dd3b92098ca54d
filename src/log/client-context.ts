import type { LogId, ParseLog, parseLogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type RetryLimits, retry } from './backoff.ts';
import type { ReservedTypes } from './entry.ts';
import type { EntryAppender, LogReader } from './log-store.ts';
import type { NewestCache } from './newest.ts';

/**
 * How long a client tries to write while others are faster, or the tables are busy: two minutes
 * at least.
 */
export const DEFAULT_RETRIES: RetryLimits = { attempts: 16, forMs: 120_000, baseMs: 20, capMs: 2_000 };

export interface LogClientDeps {
  readonly store: LogReader;
  readonly tables: EntryAppender;
  /** Holds the bodies that are too large for the table. */
  readonly blobs: BlobStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly newLogId: () => LogId;
  /** Reads the ids that users give; {@link parseLogId} by default. */
  readonly parseLog?: ParseLog | undefined;
  /** {@link RESERVED_TYPES} by default. */
  readonly types?: ReservedTypes | undefined;
  /** {@link DEFAULT_RETRIES} by default. */
  readonly retries?: RetryLimits;
}

/** The dependencies and the state that all operations of one client share. */
export interface ClientContext extends LogClientDeps {
  readonly types: ReservedTypes;
  readonly retries: RetryLimits;
  readonly parseLog: ParseLog;
  readonly newest: NewestCache;
}

export interface WriteOptions {
  /** Start of the error message, such as `Adding an entry failed`. */
  readonly failure: string;
  /**
   * Whether a new attempt with new queries may succeed after an error that the tables do not call
   * retryable.
   */
  readonly conflict: (error: unknown) => boolean;
  /** Whether the cached end of the log is still right after an error; never by default. */
  readonly keepsEnd?: (error: unknown) => boolean;
}

/**
 * Tries a write to one or several logs with bounded retries. Forgets the cached ends of the logs
 * after every failure, unless `keepsEnd` knows better.
 * @param write the write; `consistent` is true from the second attempt on
 */
export async function writeWithRetries<T>(
  context: ClientContext,
  logs: readonly LogId[],
  options: WriteOptions,
  write: (consistency: { readonly consistent: boolean }) => Promise<T>,
): Promise<T> {
  const { now, sleep, random, retries, tables } = context;
  const retryable = (error: unknown) => tables.isRetryable(error) || options.conflict(error);
  const [log] = logs;
  const where = logs.length === 1 ? { log } : {};
  const how = { ...retries, now, sleep, random, retryable, failure: options.failure, where };
  return retry(how, async (number) => {
    try {
      return await write({ consistent: number > 1 });
    } catch (error) {
      if (!options.keepsEnd?.(error)) for (const of of logs) context.newest.drop(of);
      throw error;
    }
  });
}
