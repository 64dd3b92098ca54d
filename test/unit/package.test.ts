import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import manifestJson from '../../package.json' with { type: 'json' };
import buildJson from '../../tsconfig.package.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '../..');
/** Programs that the command line and the embedded engine start. No application imports them. */
const PROGRAMS = ['src/cli/main.ts', 'src/local/supervisor.ts'];
/** Packages that another package needs beside itself, although no source imports them. */
const PEERS_OF_DEPENDENCIES = ['commander'];

const target = z.object({ types: z.string(), default: z.string() });

/** Each entry of the package, such as `logfold/aws`, with its source. */
const entries = Object.entries(manifestJson.exports).flatMap(([path, value]) => {
  const { data } = target.safeParse(value);
  return data === undefined ? [] : [{ name: path.replace('.', 'logfold'), source: sourceOf(data.default), ...data }];
});

function sourceOf(emitted: string): string {
  return emitted.replace('./dist/', 'src/').replace(/\.js$/, '.ts');
}

/** Returns what a source imports from outside the repository, directly or through other sources. */
async function importsOf(source: string): Promise<{ readonly packages: string[]; readonly builtins: string[] }> {
  const { metafile } = await build({
    entryPoints: [source],
    absWorkingDir: ROOT,
    bundle: true,
    format: 'esm',
    packages: 'external',
    write: false,
    metafile: true,
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  const unique = (names: string[]) => [...new Set(names)].sort();
  return {
    packages: unique(imports.filter((path) => !isBuiltin(path)).map(packageOf)),
    builtins: unique(imports.filter((path) => isBuiltin(path))),
  };
}

/** Returns the package of an import such as `@scope/name/file.js`. */
function packageOf(path: string): string {
  return path
    .split('/')
    .slice(0, path.startsWith('@') ? 2 : 1)
    .join('/');
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
    for (const entry of entries) expect(entry.types).toBe(entry.default.replace(/\.js$/, '.d.ts'));
  });

  test.each(['logfold', 'logfold/spreadsheet', 'logfold/react'])(
    '%s imports no SDK and no module of Node',
    async (name) => {
      const { packages, builtins } = await importsOf(entries.find((entry) => entry.name === name)?.source ?? '');
      expect(builtins).toEqual([]);
      expect(packages.filter((each) => /^@(aws|smithy)/.test(each))).toEqual([]);
    },
  );

  test('each loads the packages that the documentation lists', async () => {
    const found = await Promise.all(
      entries.map(async ({ name, source }) => [name, (await importsOf(source)).packages] as const),
    );
    expect(documented()).toEqual(Object.fromEntries(found));
  });
});

test('the package depends on exactly the packages that its code imports', async () => {
  const sources = [...entries.map(({ source }) => source), ...PROGRAMS];
  const found = (await Promise.all(sources.map(importsOf))).flatMap(({ packages }) => packages);
  const needed = [...new Set([...found, ...PEERS_OF_DEPENDENCIES])].sort();
  const { dependencies, peerDependencies } = manifestJson;
  expect(Object.keys({ ...dependencies, ...peerDependencies }).sort()).toEqual(needed);
});

test('the command line asks for the Node version that the package needs', () => {
  const starter = readFileSync(join(ROOT, manifestJson.bin.logfold), 'utf8');
  expect(starter).toContain(`isPackage ? '${manifestJson.engines.node.replace('>=', '')}'`);
});
