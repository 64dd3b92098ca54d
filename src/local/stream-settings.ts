import { setTimeout } from 'node:timers/promises';

/** The wait before the first retry of a batch or request. Each retry doubles it. */
const RETRY_BASE_MS = 100;
/** The longest wait before a retry. */
const RETRY_CAP_MS = 30_000;

/** How to read a stream. The settings have their names in Lambda's event source mappings. */
export interface StreamSettings {
  /** The most records in a batch. A request returns at most 1,000 records. */
  readonly batchSize: number;
  /** Whether a batch that fails as a whole is split in two. A split uses up no retry. */
  readonly bisectBatchOnFunctionError: boolean;
  /** How often a batch is retried before it is discarded; -1 means no limit. */
  readonly maximumRetryAttempts: number;
  /** Records older than this many seconds are discarded; -1 means no limit. */
  readonly maximumRecordAgeSeconds: number;
}

/** Lambda's defaults: 100 records, no bisecting, no limits. */
export const DEFAULT_STREAM_SETTINGS: StreamSettings = {
  batchSize: 100,
  bisectBatchOnFunctionError: false,
  maximumRetryAttempts: -1,
  maximumRecordAgeSeconds: -1,
};

/** The wait before a retry in milliseconds, after `failures` failures in a row. */
export function backoffMs(failures: number): number {
  return Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** (failures - 1));
}

/** A clock. Tests replace it. */
export interface Time {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The machine's clock. */
export const systemTime: Time = {
  now: Date.now,
  async sleep(ms, signal) {
    try {
      await setTimeout(ms, undefined, { signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  },
};
