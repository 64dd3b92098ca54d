import { describe, expect, test } from 'vitest';
import { AttemptsExhaustedError } from '../../src/errors.ts';
import { type RetryOptions, retry } from '../../src/log/backoff.ts';
import { LOG } from '../support/logs.ts';

function options(overrides: Partial<RetryOptions> = {}): { readonly slept: number[]; readonly retry: RetryOptions } {
  const slept: number[] = [];
  const sleep = async (ms: number) => {
    slept.push(ms);
  };
  const base = { attempts: 6, baseMs: 100, capMs: 500, sleep, random: () => 0.5, retryable: () => true };
  return { slept, retry: { ...base, ...overrides } };
}

describe('retry', () => {
  test('it returns the result of the first attempt without a wait', async () => {
    const { slept, retry: given } = options();
    expect(await retry(given, async (number) => number)).toBe(1);
    expect(slept).toEqual([]);
  });

  test('it waits for a random share of a bound that doubles up to the cap', async () => {
    const { slept, retry: given } = options();
    const result = await retry(given, async (number) => {
      if (number < 6) throw new Error('not yet');
      return number;
    });
    expect(result).toBe(6);
    expect(slept).toEqual([50, 100, 200, 250, 250]);
  });

  test('its error has the number of attempts, the last cause and the log', async () => {
    const { slept, retry: given } = options({ attempts: 3, failure: 'Adding failed', where: { log: LOG } });
    const tried = retry(given, async (number) => {
      throw new Error(`no ${number}`);
    });
    await expect(tried).rejects.toThrow(AttemptsExhaustedError);
    await expect(tried).rejects.toThrow('Adding failed after 3 attempts (last cause: no 3)');
    await expect(tried).rejects.toMatchObject({ attempts: 3, log: LOG, cause: new Error('no 3') });
    expect(slept).toHaveLength(2);
  });

  test.each([
    ['a clock', 100, 0.5],
    ['a clock that stands still', 0, 0.5],
    ['a clock that is set back', -1_000, 0.5],
    ['waits of no time', 0, 0],
  ])('it goes on until the time has passed, with %s', async (_, stepMs, random) => {
    let nowMs = 0;
    const now = (): number => nowMs;
    const { slept, retry: given } = options({ attempts: 2, forMs: 2_000, now, random: () => random });
    const tried = retry(given, async () => {
      nowMs += stepMs;
      throw new Error('never');
    });
    await expect(tried).rejects.toThrow(AttemptsExhaustedError);
    // The bounds are 100, 200, 400 and from then on 500 ms. Half of each counts.
    expect(slept.length).toBeLessThanOrEqual(10);
    expect(slept.length).toBeGreaterThan(5);
  });

  test('it throws a permanent error immediately', async () => {
    const cause = new Error('never');
    const { slept, retry: given } = options({ retryable: (error) => error !== cause });
    await expect(retry(given, () => Promise.reject(cause))).rejects.toBe(cause);
    expect(slept).toEqual([]);
  });
});
