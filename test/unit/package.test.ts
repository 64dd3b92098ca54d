import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import manifestJson from '../../package.json' with { type: 'json' };
import { explainMissing, SDK_PACKAGES } from '../../src/adapters/platform/installed.ts';
import { PackageMissingError } from '../../src/errors.ts';
import buildJson from '../../tsconfig.package.json' with { type: 'json' };
import { importsOf } from '../support/imported-packages.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Programs that the command line and the embedded engine start. No application imports them. */
const PROGRAMS = ['src/cli/main.ts', 'src/local/supervisor.ts'];
/** Packages that another package needs beside itself, although no source imports them. */
const PEERS_OF_DEPENDENCIES = ['commander'];

const target = z.object({ types: z.string(), module: z.string().optional(), default: z.string() });

/** Each entry of the package, such as `logfold/aws`, with its source. */
const entries = Object.entries(manifestJson.exports).flatMap(([path, value]) => {
  const { data } = target.safeParse(value);
  if (data === undefined) return [];
  // Node gets a module that explains which package is missing, bundlers the entry itself.
  const file = data.module ?? data.default;
  return [{ name: path.replace('.', 'logfold'), source: sourceOf(file), file, ...data }];
});

function sourceOfEntry(name: string): string {
  const entry = entries.find((each) => each.name === name);
  if (entry === undefined) throw new Error(`the package has no entry ${name}`);
  return join(ROOT, entry.source);
}

function sourceOf(emitted: string): string {
  return emitted.replace('./dist/', 'src/').replace(/\.js$/, '.ts');
}

/** Reads the table of the entries: each entry with the packages that it loads. */
function documented(): Record<string, string[]> {
  const text = readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8');
  const [, table = ''] = /^\| entry.*\n\|.*\n((?:\|.*\n)+)/m.exec(text) ?? [];
  const rows = table.split('\n').filter((line) => line !== '');
  return Object.fromEntries(
    rows.map((row) => {
      const [, entry = '', packages = ''] = row.split('|');
      const names = Array.from(packages.matchAll(/`([^`]+)`/g), ([, name = '']) => name);
      return [entry.replaceAll('`', '').trim(), names.sort()];
    }),
  );
}

describe('the entries of the package', () => {
  test('the build emits the file and the declarations of each of them', () => {
    expect(entries.map(({ name }) => name)).toContain('logfold/react');
    expect(buildJson.files).toEqual(expect.arrayContaining(entries.map(({ source }) => source)));
    for (const entry of entries) expect(entry.types).toBe(entry.file.replace(/\.js$/, '.d.ts'));
  });

  test.each(['logfold', 'logfold/collections', 'logfold/items', 'logfold/spreadsheet', 'logfold/react'])(
    '%s imports no SDK and no module of Node',
    async (name) => {
      const { packages, builtins } = await importsOf(sourceOfEntry(name));
      expect(builtins).toEqual([]);
      expect(packages.filter((each) => /^@(aws|smithy)/.test(each))).toEqual([]);
    },
  );

  test('each loads the packages that the documentation lists', async () => {
    const found = await Promise.all(
      entries.map(async ({ name, source }) => [name, (await importsOf(join(ROOT, source))).packages] as const),
    );
    expect(documented()).toEqual(Object.fromEntries(found));
  });
});

test('the package depends on exactly the packages that its code imports', async () => {
  const sources = [...entries.map(({ source }) => source), ...PROGRAMS];
  const found = (await Promise.all(sources.map((source) => importsOf(join(ROOT, source))))).flatMap(
    ({ packages }) => packages,
  );
  const needed = [...new Set([...found, ...PEERS_OF_DEPENDENCIES])].sort();
  const { dependencies, peerDependencies } = manifestJson;
  expect([...Object.keys({ ...dependencies, ...peerDependencies }), ...SDK_PACKAGES].sort()).toEqual(needed);
});

test('npm can leave out the SDK and the database binaries, and nothing else', () => {
  const binaries = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'win32-x64'];
  const optional = [...SDK_PACKAGES, ...binaries.map((name) => `@dynoxide/${name}`)];
  expect(Object.keys(manifestJson.optionalDependencies).sort()).toEqual(optional.sort());
});

test('an error of another package, or of a file, is not explained as a missing package', () => {
  const [name = ''] = SDK_PACKAGES;
  const missing = explainMissing(new Error(`Cannot find package '${name}' imported from /a.js`));
  expect(missing).toBeInstanceOf(PackageMissingError);
  for (const message of ["Cannot find package 'other' imported from /a.js", `Cannot find module '/${name}.js'`, name]) {
    const error = new Error(message);
    expect(explainMissing(error)).toBe(error);
  }
  expect(explainMissing('text')).toBe('text');
});

test('the command line and the logs ask for the Node version that the package needs', () => {
  const needed = manifestJson.engines.node.replace('>=', '');
  const starter = readFileSync(join(ROOT, manifestJson.bin.logfold), 'utf8');
  expect(starter).toContain(`isPackage ? '${needed}'`);
  const platform = readFileSync(join(ROOT, 'src/adapters/platform/native.ts'), 'utf8');
  expect(platform).toContain(`Install Node ${needed} or newer`);
});
