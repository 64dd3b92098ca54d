import { describe, test } from 'vitest';
import { propertyRuns } from '../support/property-runs.ts';
import { runDocumentHistory } from '../support/simulation/document-history.ts';

const HISTORIES = propertyRuns(400);
const GROUP = 20;

/** A failed history prints its seed. SEED=17 repeats it. */
const { SEED } = process.env;
const groups =
  SEED === undefined
    ? Array.from({ length: Math.ceil(HISTORIES / GROUP) }, (_, i) => ({ from: i * GROUP + 1, to: (i + 1) * GROUP }))
    : [{ from: Number(SEED), to: Number(SEED) }];

describe('documents beside a running pipeline', () => {
  test.each(groups)(
    'histories $from to $to show plain folds of their logs, and store each entry once',
    async ({ from, to }) => {
      for (let seed = from; seed <= to; seed++) await runDocumentHistory(seed);
    },
  );
});
