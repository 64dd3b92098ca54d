import { expect, test } from 'vitest';
import { Draft } from '../../src/state/draft.ts';
import { Axis } from '../../src/state/spreadsheet/axis.ts';
import { nodeStore } from '../support/chunks.ts';

test.each([
  ['at one place', () => 1],
  ['one after another', (i: number) => 1 + i],
])('any number of insertions %s keeps keys short', async (_, position) => {
  const map = new Draft(nodeStore()).map('rows', 'string');
  const axis = new Axis(map, 2 ** 32);
  // A key that is never renewed grows by one character in five insertions.
  for (let i = 0; i < 1000; i++) await axis.insert(position(i), 1);
  let longest = 0;
  for await (const { key } of map.items()) longest = Math.max(longest, String(key).length);
  expect(longest).toBeLessThanOrEqual(64);
  expect(await map.weight()).toBe(2 ** 32);
  expect(await axis.idAt(0)).toBe(0);
  expect(await axis.idAt(1001)).toBe(1);
  expect(await axis.idAt(position(0))).toBe(position(1) === 1 ? 2 ** 32 - 1000 : 2 ** 32 - 1);
});
