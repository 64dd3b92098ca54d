import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const DECLARATION = /^(export )?(?:abstract )?(?:async )?(function\*?|class|const|let|interface|type) (\w+)/gm;

/** A declaration at the top level of a module of `src`. */
interface Declared {
  readonly file: string;
  readonly isExported: boolean;
}

/** The declarations of each name. An overload counts once. */
function declarations(): Map<string, Declared[]> {
  const found = new Map<string, Declared[]>();
  // The entries of the package share names on purpose: each has its `openLogs`.
  const files = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) => !file.startsWith('src/exports/'));
  for (const file of files.sort()) {
    const names = new Map<string, Declared>();
    for (const [, exported, , name = ''] of readFileSync(join(ROOT, file), 'utf8').matchAll(DECLARATION)) {
      names.set(name, { file, isExported: exported !== undefined });
    }
    for (const [name, declared] of names) found.set(name, [...(found.get(name) ?? []), declared]);
  }
  return found;
}

/** The terms of the glossary, as names of types: `last snapshot` is `LastSnapshot`. */
function glossaryNames(): Set<string> {
  const [, glossary = ''] = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8').split('## Glossary');
  const terms = [...glossary.matchAll(/^\| ([^|]+?) +\|/gm)].flatMap(([, term = '']) =>
    term.replaceAll(/\(.*?\)/g, '').split(','),
  );
  const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
  return new Set(terms.map((term) => term.trim().split(/[ -]+/).map(capital).join('')));
}

test('an exported name, and a term of the glossary, has one meaning in the whole of src', () => {
  const terms = glossaryNames();
  expect(terms).toContain('LastSnapshot');
  const shared = [...declarations()].filter(
    ([name, declared]) => declared.length > 1 && (terms.has(name) || declared.some(({ isExported }) => isExported)),
  );
  expect(shared.map(([name, declared]) => `${name}: ${declared.map(({ file }) => file).join(', ')}`)).toEqual([]);
});
