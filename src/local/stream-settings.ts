import { setTimeout } from 'node:timers/promises';
import { UsageError } from '../errors.ts';

/** How a stream is read, by the names that Lambda's event source mappings have for it. */
export interface StreamSettings {
  /** At most this many records a batch, from 1 to 10,000. */
  readonly batchSize: number;
  /** How long to gather records for a fuller batch, from 0 to 300 seconds. */
  readonly maximumBatchingWindowSeconds: number;
  /** Whether a batch that fails as a whole is split in two, which costs no retry. */
  readonly bisectBatchOnFunctionError: boolean;
  /** How often a batch is tried again before it is given up, from 0 to 10,000; -1 for ever. */
  readonly maximumRetryAttempts: number;
  /** Records older than this are given up instead of tried, from 0 to 604,800 seconds; -1 for never. */
  readonly maximumRecordAgeSeconds: number;
  /** How long to wait before the first retry of a batch or request, in milliseconds; doubled each time. */
  readonly retryBaseMs: number;
  /** The longest that such a wait becomes, in milliseconds. */
  readonly retryCapMs: number;
  /** How often a request is tried before a stream that cannot be reached is given up. */
  readonly requestAttempts: number;
  /** How long to wait before an empty shard is read again, in milliseconds. */
  readonly pollMs: number;
  /** How long to wait before new shards are looked for, in milliseconds. */
  readonly discoverMs: number;
}

/** Lambda's defaults: 100 records, no window, no bisecting, retries for ever, four polls a second. */
export const DEFAULT_STREAM_SETTINGS: StreamSettings = {
  batchSize: 100,
  maximumBatchingWindowSeconds: 0,
  bisectBatchOnFunctionError: false,
  maximumRetryAttempts: -1,
  maximumRecordAgeSeconds: -1,
  retryBaseMs: 100,
  retryCapMs: 30_000,
  requestAttempts: 8,
  pollMs: 250,
  discoverMs: 10_000,
};

type NumberSetting = Exclude<keyof StreamSettings, 'bisectBatchOnFunctionError'>;

const RANGES: readonly (readonly [name: NumberSetting, min: number, max: number])[] = [
  ['batchSize', 1, 10_000],
  ['maximumBatchingWindowSeconds', 0, 300],
  ['maximumRetryAttempts', -1, 10_000],
  ['maximumRecordAgeSeconds', -1, 604_800],
  ['retryBaseMs', 0, 60_000],
  ['retryCapMs', 0, 900_000],
  ['requestAttempts', 1, 1_000],
  ['pollMs', 0, 60_000],
  ['discoverMs', 0, 600_000],
];

/**
 * Settings with the defaults for what is not given.
 * @throws UsageError where a number is out of its range
 */
export function streamSettings(given: Partial<StreamSettings> = {}): StreamSettings {
  const settings = { ...DEFAULT_STREAM_SETTINGS, ...given };
  for (const [name, min, max] of RANGES) {
    const value = settings[name];
    if (!(value >= min && value <= max)) throw new UsageError(`${name} is ${value}, and not from ${min} to ${max}`);
  }
  return settings;
}

/** How long to wait before a retry, in milliseconds: doubling with each failure so far, up to the cap. */
export function backoffMs(failures: number, settings: StreamSettings): number {
  return Math.min(settings.retryCapMs, settings.retryBaseMs * 2 ** (failures - 1));
}

/** The clock, as a port: tests script it. */
export interface Time {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after so many milliseconds, or as soon as the signal aborts. */
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
