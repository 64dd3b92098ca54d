import { describe, expect, test } from 'vitest';
import { type FeedHistoryResult, runFeedHistory } from '../support/simulation/feed-history.ts';
import { inTimeZones } from '../support/time-zones.ts';

/** The long tests run more and larger histories than `npm test`. */
const IS_LONG = Number(process.env.LOGFOLD_HISTORIES) >= 500;
/** A failed history prints its seed. SEED=17 runs only this one. */
const onlySeed = process.env.SEED;
const SEEDS = onlySeed === undefined ? Array.from({ length: IS_LONG ? 60 : 4 }, (_, i) => i + 1) : [Number(onlySeed)];
const SIZE = IS_LONG ? { logs: 12, appends: 80, consumers: 4 } : { logs: 6, appends: 30, consumers: 3 };
const LARGE = { logs: 1_000, appends: 2_500, consumers: 10, restores: true };

const results: FeedHistoryResult[] = [];

describe('a simulated feed', () => {
  test.each(SEEDS)(
    'gives each consumer every entry of every log, in order (seed %i)',
    { tags: ['I10'] },
    async (seed) => {
      const result = await runFeedHistory(seed, SIZE);
      expect(result.processed).toBeGreaterThanOrEqual(result.entries);
      results.push(result);
    },
  );

  test('has the same history for the same seed, in every time zone', async () => {
    const [one, other] = await inTimeZones(() => runFeedHistory(SEEDS[0] ?? 1, SIZE));
    expect([one, other]).toEqual([results[0], results[0]]);
  });

  if (IS_LONG && onlySeed === undefined) {
    test('has archived epochs, and begins again in some histories', () => {
      const sum = (of: (result: FeedHistoryResult) => number) => results.reduce((total, each) => total + of(each), 0);
      expect(sum(({ expiredEpochs }) => expiredEpochs)).toBeGreaterThan(100);
      expect(sum(({ restarts }) => restarts)).toBeGreaterThan(10);
    });

    test('gives ten consumers every entry of 1,000 logs, in order', async () => {
      const { entries, processed, restarts } = await runFeedHistory(42, LARGE);
      expect(entries).toBeGreaterThan(5_000);
      expect(processed).toBeGreaterThanOrEqual(10 * entries);
      expect(restarts).toBeGreaterThan(0);
    });
  }
});
