import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RateLimiter } from '../../src/workers/retention/rate-limiter.ts';

interface PacedClock {
  readonly rateLimiter: RateLimiter;
  /** Milliseconds of each wait. */
  readonly slept: number[];
  readonly clock: { ms: number };
}

/** A rate limiter on a clock that only sleeping, and the test, move on. */
function paced(perSecond: number, startMs = 0): PacedClock {
  const clock = { ms: startMs };
  const slept: number[] = [];
  const sleep = async (ms: number) => {
    slept.push(ms);
    clock.ms += ms;
  };
  return { rateLimiter: new RateLimiter({ perSecond, monotonic: () => clock.ms, sleep }), slept, clock };
}

describe('RateLimiter', () => {
  test.each([0, 5_000_000])(
    "it grants the first second's worth immediately, then waits (clock begins at %i)",
    async (startMs) => {
      const { rateLimiter, slept, clock } = paced(10, startMs);
      for (let i = 0; i < 10; i++) await rateLimiter.take(1);
      expect(slept).toEqual([]);
      for (let i = 0; i < 3; i++) await rateLimiter.take(1);
      expect(slept).toEqual([100, 100, 100]);
      expect(clock.ms).toBe(startMs + 300);
    },
  );

  test('a caller that takes more than a second has waits until it is paid for', async () => {
    const { rateLimiter, slept } = paced(10);
    await rateLimiter.take(50);
    await rateLimiter.take(1);
    expect(slept).toEqual([4000, 100]);
  });

  test('it keeps the rate over a long run', async () => {
    const { rateLimiter, clock } = paced(40);
    for (let i = 0; i < 4000; i++) await rateLimiter.take(i % 3);
    // 3999 units, of which the first 40 need no time.
    expect(clock.ms).toBeCloseTo(((3999 - 40) / 40) * 1000, 3);
  });

  test('it saves no more than a second of idle time', async () => {
    const { rateLimiter, slept, clock } = paced(10);
    await rateLimiter.take(10);
    clock.ms += 3_600_000;
    for (let i = 0; i < 11; i++) await rateLimiter.take(1);
    expect(slept).toEqual([100]);
  });

  test('it saves the actual idle time if that is less than a second', async () => {
    const { rateLimiter, slept, clock } = paced(10);
    await rateLimiter.take(10);
    clock.ms += 300;
    for (let i = 0; i < 4; i++) await rateLimiter.take(1);
    expect(slept).toEqual([100]);
  });

  test('callers that take at the same moment wait one after the other', async () => {
    const slept: number[] = [];
    const sleep = async (ms: number) => {
      slept.push(ms);
    };
    const rateLimiter = new RateLimiter({ perSecond: 10, monotonic: () => 0, sleep });
    await Promise.all([rateLimiter.take(10), rateLimiter.take(5), rateLimiter.take(20), rateLimiter.take(1)]);
    expect(slept).toEqual([500, 2500, 2600]);
  });

  test('a sleep that ends too early pays nothing off sooner', async () => {
    const clock = { ms: 0 };
    const slept: number[] = [];
    const sleep = async (ms: number) => {
      slept.push(ms);
      clock.ms += ms / 2;
    };
    const rateLimiter = new RateLimiter({ perSecond: 10, monotonic: () => clock.ms, sleep });
    await rateLimiter.take(20);
    await rateLimiter.take(10);
    expect(slept).toEqual([1000, 1500]);
  });

  test("it grants in no period more than the period's worth and a second's worth", async () => {
    const step = fc.record({
      idleMs: fc.oneof(fc.constant(0), fc.nat({ max: 4000 })),
      units: fc.integer({ min: 0, max: 30 }),
    });
    const runs = fc.array(step, { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(runs, fc.integer({ min: 30, max: 100 }), async (steps, perSecond) => {
        const { rateLimiter, clock } = paced(perSecond);
        const taken: { readonly at: number; readonly before: number; readonly after: number }[] = [];
        let total = 0;
        for (const { idleMs, units } of steps) {
          clock.ms += idleMs;
          await rateLimiter.take(units);
          taken.push({ at: clock.ms, before: total, after: total + units });
          total += units;
        }
        for (const [i, first] of taken.entries()) {
          for (const last of taken.slice(i)) {
            const room = ((last.at - first.at) / 1000 + 1) * perSecond;
            expect(last.after - first.before).toBeLessThanOrEqual(room + 1e-6);
          }
        }
      }),
    );
  });
});
