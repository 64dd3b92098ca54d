import { sleep } from '../adapters/platform/node-logs.ts';
import type { Backoff } from '../log/backoff.ts';

/** The waits before a batch or request is retried. */
export const STREAM_BACKOFF: Backoff = { baseMs: 100, capMs: 30_000 };

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

/** A clock. Tests replace it. */
export interface Time {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The machine's clock. */
export const systemTime: Time = { now: Date.now, sleep };
