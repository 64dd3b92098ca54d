import { test } from 'vitest';
import { requireLinear } from '../support/steps.ts';

const documents = new URL('../programs/growing-documents.ts', import.meta.url).href;
const queues = new URL('../programs/growing-queues.ts', import.meta.url).href;
const tables = new URL('../programs/growing-tables.ts', import.meta.url).href;

test.each(['appends', 'refreshes', 'repetitions', 'mutations'])(
  '%s of a document take steps in proportion to their number',
  async (name) => {
    await requireLinear(documents, name, 200);
  },
);

test.each(['groups', 'oneGroup', 'inFlight'])(
  'a queue in memory takes steps in proportion to its messages: %s',
  async (name) => {
    await requireLinear(queues, name, 200);
  },
);

test('a table for people takes steps in proportion to its rows', async () => {
  await requireLinear(tables, 'rows', 200);
});
