import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

function read(file: string): string {
  return readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
}

const text = read('docs/invariants.md');
const named = [...text.matchAll(/^- `(test\/[^`]+)`: (.+)$/gm)].map(([, file = '', title = '']) => ({ file, title }));

test('every test that the invariants name exists', () => {
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter(({ file, title }) => !read(file).includes(title))).toEqual([]);
});

test('every test that noticed a planted fault still exists', () => {
  const files = new Set(['test/unit/read-entries.test.ts', ...named.map(({ file }) => file)]);
  const sources = [...files].map(read).join('\n');
  const noticed = [...text.matchAll(/^\| .+ \| (.+) \|$/gm)].map(([, cell = '']) => cell);
  // A title may be cut off with an ellipsis.
  const titles = noticed.flatMap((cell) => [...cell.matchAll(/_(.+?)( …)?_/g)].map(([, title = '']) => title));
  expect(titles.length).toBeGreaterThan(20);
  expect(titles.filter((title) => !sources.includes(title))).toEqual([]);
});
