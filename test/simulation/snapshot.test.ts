import { describe, expect, test } from 'vitest';
import { runHistory } from '../support/history.ts';

const HISTORIES = 320;
const GROUP = 20;

/** A failed history prints its seed: `SEED=17 npx vitest run test/simulation` runs that one alone. */
const asked = process.env.SEED;

/** How often each kind of thing happened in all histories. */
const happened = new Map<string, number>();

async function run(seed: number): Promise<readonly string[]> {
  const lines = await runHistory(seed);
  for (const line of lines) {
    const kind = /crashBefore|crashAfter|throttle|timeout|delay|twin|poison \d|built|present|stopped/.exec(line)?.[0];
    if (kind !== undefined) happened.set(kind, (happened.get(kind) ?? 0) + 1);
  }
  return lines;
}

describe.skipIf(asked === undefined)('the history of one seed', () => {
  test(`${asked}`, async () => {
    expect(await run(Number(asked))).not.toEqual([]);
  });
});

describe.skipIf(asked !== undefined)('logs, a stream and workers that fail in every way', () => {
  const groups = Array.from({ length: HISTORIES / GROUP }, (_, i) => [i * GROUP + 1, (i + 1) * GROUP] as const);

  test.each(groups)(
    'histories %i to %i end with snapshots that are the plain folds of their logs',
    async (from, to) => {
      for (let seed = from; seed <= to; seed++) expect(await run(seed)).not.toEqual([]);
    },
  );

  test('a seed gives the same history again, step for step', async () => {
    for (const seed of [1, 2, 3]) expect(await run(seed)).toEqual(await run(seed));
  });

  test('every kind of fault, poison and outcome has occurred in them', () => {
    const poisons = Array.from({ length: 7 }, (_, i) => `poison ${i}`);
    const faults = ['crashBefore', 'crashAfter', 'throttle', 'timeout', 'delay', 'twin'];
    for (const kind of [...poisons, ...faults, 'built', 'present', 'stopped']) {
      expect(happened.get(kind) ?? 0, kind).toBeGreaterThan(0);
    }
  });
});
