import { setTimeout as sleepFor } from 'node:timers/promises';

export interface RateLimiterOptions {
  /** Units a second, on average; more than 0. */
  readonly perSecond: number;
  /** Milliseconds of a clock that never goes back; the process's own by default. */
  readonly monotonic?: () => number;
  /** Really by default. */
  readonly sleep?: (ms: number) => Promise<void>;
}

/** Spreads work over time: whoever takes more than a second's worth ahead of it waits. */
export class RateLimiter {
  readonly #options: RateLimiterOptions;
  /** When everything that was taken so far is paid for. */
  #paidMs = Number.NEGATIVE_INFINITY;

  constructor(options: RateLimiterOptions) {
    this.#options = options;
  }

  /** Resolves once so many units may be spent. */
  async take(units: number): Promise<void> {
    const { perSecond, monotonic = () => performance.now(), sleep = (ms: number) => sleepFor(ms) } = this.#options;
    const now = monotonic();
    // Time in which nothing was taken is not saved up, but for a second.
    this.#paidMs = Math.max(this.#paidMs, now - 1000) + (units / perSecond) * 1000;
    if (this.#paidMs > now) await sleep(this.#paidMs - now);
  }
}
