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
}

export interface RetryOptions extends RetryLimits {
  readonly sleep: (ms: number) => Promise<void>;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Whether another attempt may succeed after this error. */
  readonly retryable: (error: unknown) => boolean;
  /** Start of the error message, such as `Adding an entry failed`. */
  readonly failure?: string;
  readonly where?: Where;
}

/** The longest wait after so many failures in a row, at least 1, in milliseconds. */
export function backoffMs({ baseMs, capMs }: Backoff, failures: number): number {
  return Math.min(capMs, baseMs * 2 ** (failures - 1));
}

/**
 * Repeats a failed operation. Between attempts, waits for a random time below a bound that doubles
 * up to a cap. This "full jitter" spreads competing clients best:
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 * @param attempt the operation; its argument counts the attempts from 1
 * @throws AttemptsExhaustedError, with the last error as cause, if every attempt failed
 * @throws the error of an attempt if it is not retryable
 */
export async function retry<T>(options: RetryOptions, attempt: (number: number) => Promise<T>): Promise<T> {
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (cause) {
      if (!options.retryable(cause)) throw cause;
      if (number >= options.attempts) {
        throw new AttemptsExhaustedError(number, options.failure ?? 'Failed', {
          ...options.where,
          advice: 'Try again later, or find out what else writes to the same log',
          cause,
        });
      }
      await options.sleep(options.random() * backoffMs(options, number));
    }
  }
}
