import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { INVARIANTS } from '../support/invariants.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENT = readFileSync(join(ROOT, 'docs/invariants.md'), 'utf8');
/** The title and the listed test files of each invariant's section. */
const SECTIONS = new Map(
  [...DOCUMENT.matchAll(/^## (I\d+)\. (.+)\n([\s\S]*?)(?=^## )/gm)].map(([, name = '', title = '', text = '']) => {
    const files = [...text.matchAll(/^- `(test\/.+)`$/gm)].map(([, file = '']) => file);
    return [name, { title, files }] as const;
  }),
);

test('the document states each invariant', () => {
  const stated = [...SECTIONS].map(([name, { title }]) => [name, title]);
  expect(stated).toEqual(Object.entries(INVARIANTS));
});

test.each(Object.keys(INVARIANTS))('the document lists exactly the files with tests of %s', (name) => {
  const tag = new RegExp(`\\{\\s*tags: \\[[^\\]]*'${name}'`);
  const tagged = globSync('test/**/*.test.ts', { cwd: ROOT }).filter((file) =>
    tag.test(readFileSync(join(ROOT, file), 'utf8')),
  );
  expect(tagged.length).toBeGreaterThan(0);
  expect(SECTIONS.get(name)?.files).toEqual(tagged.sort());
});

test('each file that the document names exists', () => {
  const files = [...DOCUMENT.matchAll(/`(?:test|src|docs)\/[^`*]+\.\w+`/g)].map(([file]) => file.slice(1, -1));
  expect(files.length).toBeGreaterThan(50);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});
