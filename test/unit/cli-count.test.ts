import { expect, test } from 'vitest';
import { count, countEntries } from '../../src/cli/format.ts';

test.each([
  [count(0, 'snapshot'), '0 snapshots'],
  [count(1, 'snapshot'), '1 snapshot'],
  [count(2, 'snapshot'), '2 snapshots'],
  [count(1, 'try', 'tries'), '1 try'],
  [count(2, 'try', 'tries'), '2 tries'],
  [countEntries(1), '1 entry'],
  [countEntries(3), '3 entries'],
])('%s', (said, expected) => {
  expect(said).toBe(expected);
});
