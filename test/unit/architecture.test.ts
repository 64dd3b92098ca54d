import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const MAX_LINES = 450;

const architecture = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');

/** Returns the lines of the document from a heading to the next one. */
function section(heading: string): string[] {
  const found = architecture.split(/^## /m).find((each) => each.startsWith(`${heading}\n`));
  if (found === undefined) throw new Error(`docs/architecture.md has no section "${heading}"`);
  return found.split('\n').slice(1);
}

/** Returns the texts between backquotes. */
function codeIn(text: string): string[] {
  return Array.from(text.matchAll(/`([^`]+)`/g), ([, code = '']) => code);
}

function filesIn(folder: string): string[] {
  const found = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return found
    .filter((each) => each.isFile() && /\.(ts|mjs)$/.test(each.name))
    .map((each) => join(each.parentPath, each.name).slice(ROOT.length + 1));
}

/** The text and the imported source files of each source file. */
const sources = new Map(
  ['src', 'handlers', 'examples'].flatMap(filesIn).map((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const relative = Array.from(text.matchAll(/\b(?:from|import)[\s(]*'(\.[^']+)'/g), ([, path = '']) => path);
    return [file, { text, imports: relative.map((path) => normalize(join(dirname(file), path))) }];
  }),
);

const imports = Array.from(sources, ([file, { imports }]) =>
  imports.map((imported) => [file, imported] as const),
).flat();
/** Returns the folder of a file. `src/errors.ts` belongs to `src/errors`. */
function folderOf(file: string): string {
  return file === 'src/errors.ts' ? 'src/errors' : dirname(file);
}

const folders = new Set(Array.from(sources.keys(), folderOf));

function describeImport([file, imported]: readonly [string, string]): string {
  return `${file} imports ${imported}`;
}

/** The rows of the folder table from top to bottom. Most rows have one folder. */
const rows = section('Folders')
  .filter((line) => line.startsWith('| `'))
  .map((line) => codeIn(line.split('|')[1] ?? ''));

function rowOf(file: string): number {
  return rows.findIndex((row) => row.includes(folderOf(file)));
}

/** Returns the subject of the maps that a file belongs to: a top folder, or a folder of workers. */
function subjectOf(file: string): string {
  const [top = '', second = '', third = ''] = folderOf(file).split('/');
  if (top !== 'src') return folderOf(file);
  return second === 'workers' ? third : second;
}

/** Reads the arrows of the maps: each subject with the subjects that its arrows point to. */
function arrows(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const line of section('Map of the folders')) {
    const [from, to] = line.split(' --> ');
    if (from === undefined || to === undefined) continue;
    const targets = found.get(from.trim()) ?? new Set();
    found.set(from.trim(), targets);
    for (const target of to.split('&')) targets.add(target.trim());
  }
  return found;
}

function reaches(graph: ReadonlyMap<string, Iterable<string>>, from: string, to: string): boolean {
  const seen = new Set<string>();
  const open = [from];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const target of graph.get(next) ?? []) {
      if (target === to) return true;
      if (!seen.has(target)) open.push(target);
      seen.add(target);
    }
  }
  return false;
}

describe('the folder table', () => {
  test('it names every source folder exactly once', () => {
    expect(rows.flat().toSorted()).toEqual([...folders].toSorted());
  });

  test('a folder imports only folders below it', () => {
    const upward = imports.filter(([file, imported]) => rowOf(imported) < rowOf(file));
    expect(upward.map(describeImport)).toEqual([]);
  });
});

describe('the maps', () => {
  test('they show every import between subjects, directly or through other arrows', () => {
    const graph = arrows();
    const isWorker = (file: string) => file.startsWith('src/workers/');
    const missing = imports.filter(([file, imported]) => {
      const outside = isWorker(file) !== isWorker(imported);
      const from = outside && isWorker(file) ? 'workers' : subjectOf(file);
      const to = outside && isWorker(imported) ? 'workers' : subjectOf(imported);
      return to !== 'errors' && from !== to && !reaches(graph, from, to);
    });
    expect(missing.map(describeImport)).toEqual([]);
  });
});

describe.each(['From stream record to chunk', 'From page to chunk', 'From an open document to its listeners'])(
  '%s',
  (heading) => {
    const steps = section(heading)
      .join('\n')
      .split(/^\d+\. /m)
      .slice(1);

    test('it names files and definitions that exist', () => {
      expect(steps.length).toBeGreaterThan(5);
      const missing = steps.flatMap((step) => {
        const [file = '', ...names] = codeIn(step);
        const text = sources.get(file)?.text;
        if (text === undefined) return [file];
        return names.filter((name) => !definition(name).test(text)).map((name) => `${file} ${name}`);
      });
      expect(missing).toEqual([]);
    });

    test('each step names at least one definition', () => {
      expect(steps.filter((step) => codeIn(step).length < 2)).toEqual([]);
    });
  },
);

/** Matches the definition of a function, a class, a constant or a method. */
function definition(name: string): RegExp {
  return new RegExp(`\\b(?:function\\*?|class|const) ${name}\\b|^ +(?:async )?\\*?${name}(?:<.*>)?\\(`, 'm');
}

test('no chain of imports is circular', () => {
  const graph = new Map(Array.from(sources, ([file, source]) => [file, source.imports]));
  expect([...sources.keys()].filter((file) => reaches(graph, file, file))).toEqual([]);
});

test(`no file in src has more than ${MAX_LINES} lines`, () => {
  const lines = Array.from(sources, ([file, { text }]) => ({ file, lines: text.split('\n').length - 1 }));
  const long = lines.filter((each) => each.file.startsWith('src/') && each.lines > MAX_LINES);
  expect(long).toEqual([]);
});
