import { setTimeout } from 'node:timers/promises';

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
