import { test } from 'vitest';
import { requireLinear } from '../support/steps.ts';

const documents = new URL('../support/growing-documents.ts', import.meta.url).href;

test.each(['appends', 'refreshes', 'mutations'])(
  '%s of a document take steps in proportion to their number',
  async (name) => {
    await requireLinear(documents, name, 200);
  },
);
