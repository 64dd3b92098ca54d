import { setImmediate } from 'node:timers/promises';
import pLimit from 'p-limit';
import { sleep } from '../adapters/platform/node-logs.ts';
import { UsageError } from '../errors.ts';

/** 2025-01-01T00:00:00Z: the time of a new {@link FakeClock}, in epoch milliseconds. */
const START_MS = 1_735_689_600_000;
/** The largest time of a `Date`. */
const MAX_MS = 8.64e15;
/** A timer of Node with a longer time ends immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A wait that ends when the clock shows `untilMs`. */
interface Sleeper {
  readonly untilMs: number;
  readonly wake: () => void;
}

/**
 * A clock that stands still until a test moves it, so that equal tests write equal entries. It has
 * milliseconds, which reducers see as `createdMs`.
 */
export class FakeClock {
  #nowMs: number;
  readonly #sleepers = new Set<Sleeper>();
  /** Calls of {@link advance}: one at a time. */
  readonly #moves = pLimit(1);

  /**
   * @param start a time, or epoch milliseconds; 2025-01-01T00:00:00Z by default
   * @throws UsageError if it is not a valid time since 1970
   */
  constructor(start: Date | number = START_MS) {
    this.#nowMs = checkClockTime(Number(start));
  }

  /** The time of the clock, in epoch milliseconds. */
  readonly now = (): number => this.#nowMs;

  /**
   * Sets the clock, also to an earlier time, as clocks of machines are set. Ends no wait.
   * @param time a time, or epoch milliseconds
   * @throws UsageError if it is not a valid time since 1970
   */
  set(time: Date | number): void {
    this.#nowMs = checkClockTime(Number(time));
  }

  /**
   * Moves the clock forward. Waits that are over by then end one after the other, each at its time,
   * so that a `watch` refreshes as often as it would by itself. Resolves after the work that
   * follows in memory.
   * @param ms milliseconds, at least 0
   * @throws UsageError if it is not such a number
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new UsageError(`a clock cannot be moved forward by ${String(ms)} milliseconds`);
    await this.#moves(async () => {
      const endMs = checkClockTime(this.#nowMs + ms);
      for (;;) {
        await setImmediate();
        const [next] = [...this.#sleepers].sort((a, b) => a.untilMs - b.untilMs);
        if (next === undefined || next.untilMs > endMs) break;
        this.#nowMs = Math.max(this.#nowMs, next.untilMs);
        this.#sleepers.delete(next);
        next.wake();
      }
      this.#nowMs = endMs;
    });
  }

  /**
   * Waits until the clock has moved by so many milliseconds, or the signal is aborted. Also ends
   * after that time in reality: a client that tries again after a conflict must not wait for a test
   * that waits for the client.
   */
  readonly sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
    const woken = new AbortController();
    // At least one millisecond, so that no loop of short waits keeps the clock where it is.
    const sleeper = { untilMs: this.#nowMs + Math.max(1, ms), wake: () => woken.abort() };
    this.#sleepers.add(sleeper);
    const ends = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
    await sleep(Math.min(ms, MAX_TIMER_MS), ends);
    this.#sleepers.delete(sleeper);
  };
}

function checkClockTime(ms: number): number {
  if (ms >= 0 && ms <= MAX_MS) return ms;
  throw new UsageError(`a clock cannot show the time ${ms} in epoch milliseconds`);
}
