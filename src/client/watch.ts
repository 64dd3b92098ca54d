import { UsageError } from '../errors.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { callSafely, checkFunction } from './listeners.ts';

export interface WatchOptions {
  /**
   * Milliseconds between two refreshes while the content changes, up to 2^31 - 1. 1,000 by default.
   */
  readonly intervalMs?: number;
  /**
   * The longest interval, in milliseconds, from `intervalMs` up to 2^31 - 1. By default 30,000, or
   * `intervalMs` if that is longer.
   */
  readonly maxIntervalMs?: number;
  /** Called for each refresh that failed. The watch goes on, also if this function throws. */
  readonly onError: (error: unknown) => void;
}

export interface WatchDeps {
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Stops the watch. */
  readonly signal: AbortSignal;
}

/** How fast the interval grows while nothing changes, and after errors. */
const GROWTH = 1.5;
const ERROR_GROWTH = 2;
/** A timer with a longer time runs out immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Calls `refresh` again and again until it is stopped. The interval grows while `refresh` returns
 * false or fails. Half of each interval is random, so that many clients do not read in step.
 * @returns a function that stops
 * @throws UsageError if an interval is invalid or `onError` is not a function
 */
export function watch(refresh: () => Promise<boolean>, deps: WatchDeps, options: WatchOptions): () => void {
  const names = ['intervalMs', 'maxIntervalMs', 'onError'] satisfies (keyof WatchOptions)[];
  checkOptionNames('watch', options, names);
  const { intervalMs = 1_000, onError } = options;
  checkInterval('intervalMs', intervalMs);
  const { maxIntervalMs: maxMs = Math.max(30_000, intervalMs) } = options;
  checkInterval('maxIntervalMs', maxMs);
  if (maxMs < intervalMs)
    throw new UsageError(`maxIntervalMs is ${maxMs}, less than intervalMs, which is ${intervalMs}`);
  checkFunction('onError of a watch', onError);
  const stopped = new AbortController();
  const signal = AbortSignal.any([stopped.signal, deps.signal]);
  const run = async (): Promise<void> => {
    for (let waitMs = intervalMs; ; ) {
      await deps.sleep(waitMs * (0.5 + deps.random() / 2), signal);
      if (signal.aborted) return;
      try {
        waitMs = (await refresh()) ? intervalMs : Math.min(waitMs * GROWTH, maxMs);
      } catch (error) {
        if (signal.aborted) return;
        callSafely(() => onError(error));
        waitMs = Math.min(waitMs * ERROR_GROWTH, maxMs);
      }
    }
  };
  void run();
  return () => stopped.abort();
}

function checkInterval(option: string, ms: unknown): void {
  if (typeof ms === 'number' && ms > 0 && ms <= MAX_TIMER_MS) return;
  throw new UsageError(`${option} is ${String(ms)}, not a number above 0 and up to ${MAX_TIMER_MS}`);
}
