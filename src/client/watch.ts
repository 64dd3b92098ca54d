import { UsageError } from '../errors.ts';

export interface WatchOptions {
  /** Milliseconds between two refreshes while the content changes; 1,000 by default. */
  readonly intervalMs?: number;
  /** The longest interval, in milliseconds; 30,000 by default, and at least `intervalMs`. */
  readonly maxIntervalMs?: number;
  /** Called for each refresh that failed. The watch goes on. */
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
const [GROWTH, ERROR_GROWTH] = [1.5, 2];

/**
 * Calls `refresh` again and again until it is stopped. The interval grows while `refresh` returns
 * false or fails. Half of each interval is random, so that many clients do not read in step.
 * @returns a function that stops
 * @throws UsageError if an interval is not a positive number
 */
export function watch(refresh: () => Promise<boolean>, deps: WatchDeps, options: WatchOptions): () => void {
  const { intervalMs = 1_000, onError } = options;
  const maxMs = Math.max(options.maxIntervalMs ?? 30_000, intervalMs);
  for (const ms of [intervalMs, maxMs]) {
    if (!Number.isFinite(ms) || ms <= 0) throw new UsageError(`an interval of ${ms} ms is not a positive number`);
  }
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
        onError(error);
        waitMs = Math.min(waitMs * ERROR_GROWTH, maxMs);
      }
    }
  };
  void run();
  return () => stopped.abort();
}
