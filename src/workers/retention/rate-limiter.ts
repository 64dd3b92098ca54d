import { setTimeout as sleepFor } from 'node:timers/promises';

export interface RateLimiterOptions {
  /** Average units per second, more than 0. */
  readonly perSecond: number;
  /** Milliseconds of a clock that never goes back; `performance.now` by default. */
  readonly monotonic?: () => number;
  /** Waits for this many milliseconds; a timer by default. */
  readonly sleep?: (ms: number) => Promise<void>;
}

/** Limits the average rate of work. A caller waits if it is more than one second of units ahead. */
export class RateLimiter {
  readonly #options: RateLimiterOptions;
  /** Time at which the rate has covered all units taken so far, in milliseconds. */
  #paidMs = Number.NEGATIVE_INFINITY;

  constructor(options: RateLimiterOptions) {
    this.#options = options;
  }

  /**
   * Returns a function that waits until the rate has covered the units since its last call, or
   * since now.
   * @param spent the units that were spent so far
   */
  covering(spent: () => number): () => Promise<void> {
    let covered = spent();
    return async () => {
      const units = spent() - covered;
      covered += units;
      await this.take(units);
    };
  }

  /** Resolves when the caller may spend so many units. */
  async take(units: number): Promise<void> {
    const { perSecond, monotonic = () => performance.now(), sleep = (ms: number) => sleepFor(ms) } = this.#options;
    const now = monotonic();
    // At most one second of unused units is saved.
    this.#paidMs = Math.max(this.#paidMs, now - 1000) + (units / perSecond) * 1000;
    if (this.#paidMs > now) await sleep(this.#paidMs - now);
  }
}
