import { AttemptsExhaustedError, type Where } from '../errors.ts';

/** Waits that double with each failure in a row. */
export interface Backoff {
  /** Upper bound of the first wait, in milliseconds. It doubles with every attempt. */
  readonly baseMs: number;
  /** Upper bound of every wait, in milliseconds. */
  readonly capMs: number;
}

export interface RetryLimits extends Backoff {
  /** Attempts in total, at least 1. */
  readonly attempts: number;
  /**
   * More than `attempts` are made until this time has passed since the first one, in milliseconds;
   * 0 by default.
   */
  readonly forMs?: number;
}

export interface AttemptOptions extends RetryLimits {
  readonly sleep: (ms: number) => Promise<void>;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Epoch milliseconds, for `forMs`. By default only the waits count. */
  readonly now?: () => number;
  /** Failures before the first attempt, which make the waits longer; 0 by default. */
  readonly before?: number;
  /** Start of the error message, such as `Adding an entry failed`. */
  readonly failure?: string;
  readonly where?: Where;
}

export interface RetryOptions extends AttemptOptions {
  /** Whether another attempt may succeed after this error. */
  readonly retryable: (error: unknown) => boolean;
}

/** The longest wait after this many failures in a row, at least 1, in milliseconds. */
export function backoffMs({ baseMs, capMs }: Backoff, failures: number): number {
  return Math.min(capMs, baseMs * 2 ** (failures - 1));
}

/**
 * The attempts of one operation. Between two of them is a random time below a bound that doubles up
 * to a cap. This "full jitter" spreads competing clients best:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export class Attempts {
  readonly #options: AttemptOptions;
  readonly #startedMs: number;
  #failures = 0;
  /** The expected time of all waits so far, in milliseconds. It does not depend on the clock. */
  #waitedMs = 0;

  /** Call it directly before the first attempt. */
  constructor(options: AttemptOptions) {
    this.#options = options;
    this.#startedMs = options.now?.() ?? 0;
  }

  /**
   * Waits before the next attempt.
   * @param cause why the last one failed
   * @throws AttemptsExhaustedError, with the cause, if no attempt is left
   */
  async failed(cause: unknown): Promise<void> {
    const { attempts, forMs = 0, failure = 'Failed', where } = this.#options;
    this.#failures++;
    if (this.#failures >= attempts && this.#elapsedMs >= forMs) {
      const advice = 'Try again later, or find out what else writes to the same log';
      throw new AttemptsExhaustedError(this.#failures, failure, { ...where, advice, cause });
    }
    await this.wait();
  }

  /** Waits as after the failures so far; not at all if there are none. */
  async wait(): Promise<void> {
    const { before = 0, sleep, random } = this.#options;
    if (before + this.#failures === 0) return;
    const boundMs = backoffMs(this.#options, before + this.#failures);
    this.#waitedMs += boundMs / 2;
    await sleep(random() * boundMs);
  }

  /** The failures so far, without those before the first attempt. */
  get failures(): number {
    return this.#failures;
  }

  /** A clock that was set back does not make the operation longer. */
  get #elapsedMs(): number {
    return Math.max(this.#waitedMs, (this.#options.now?.() ?? 0) - this.#startedMs);
  }
}

/**
 * Repeats a failed operation: see {@link Attempts}.
 * @param attempt the operation; its argument counts the attempts from 1
 * @throws AttemptsExhaustedError, with the last error as cause, if every attempt failed
 * @throws the error of an attempt if it is not retryable
 */
export async function retry<T>(options: RetryOptions, attempt: (number: number) => Promise<T>): Promise<T> {
  const attempts = new Attempts(options);
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (cause) {
      if (!options.retryable(cause)) throw cause;
      await attempts.failed(cause);
    }
  }
}

/** After this time without a lost race, a writer no longer waits before its first attempt. */
const CONTENDED_MS = 10_000;

/**
 * How often one writer of a log was too late recently. Its next write waits before the first
 * attempt too. Without this, a writer that was just faster is so again: it knows the end of the
 * log, and the others wait for longer and longer times.
 */
export class Contention {
  readonly #limits: RetryLimits;
  readonly #now: () => number;
  #lost = 0;
  #lostMs = 0;

  /** @param now epoch milliseconds */
  constructor(limits: RetryLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  /** The number for {@link AttemptOptions.before}. */
  get before(): number {
    const age = this.#now() - this.#lostMs;
    return age >= 0 && age < CONTENDED_MS ? this.#lost : 0;
  }

  /** Notes how a write ended: each success makes the next wait half as long. */
  ended({
    before,
    failures,
    isWritten,
  }: {
    readonly before: number;
    readonly failures: number;
    readonly isWritten: boolean;
  }): void {
    if (failures > 0) this.#lostMs = this.#now();
    // More failures would not make a wait longer.
    const { baseMs, capMs } = this.#limits;
    const most = Math.ceil(Math.log2(capMs / baseMs)) + 1;
    this.#lost = Math.max(0, Math.min(most, before + failures) - (isWritten ? 1 : 0));
  }
}
