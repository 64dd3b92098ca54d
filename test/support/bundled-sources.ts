import { globSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import type { Plugin } from 'vitest/config';
import { BUNDLE_OPTIONS } from '../../handlers/bundle.ts';

const ROOT = join(import.meta.dirname, '../..');
/**
 * Modules that a test may import: the folders without side effects, and the adapters without
 * external services.
 */
const MODULES = globSync(
  [
    'src/errors.ts',
    'src/{ids,codec,store,log,mapping,tree,state,retention,feed,revisions,snapshot,archive,workers}/**/*.ts',
    'src/adapters/{memory/*,filesystem/blob-store,metered-blob-store,platform/native,platform/wasm}.ts',
  ],
  { cwd: ROOT },
).sort();
const VIRTUAL = '\0bundled:';

/** Replaces the sources in tests. */
export interface BundledSources {
  readonly plugin: Plugin;
  /**
   * Path of the bundle. It is outside the repository, so that it finds only modules that are
   * deployed.
   */
  readonly file: string;
}

/**
 * Makes tests run against a bundle of the sources, built with the options of the deployed bundles.
 * Every import of a file below `src` resolves to its copy in the bundle. The first import builds
 * the bundle.
 */
export function bundledSources(): BundledSources {
  const directory = join(tmpdir(), `logfold-bundled-sources-${process.pid}`);
  const file = join(directory, 'stdin.mjs');
  let bundled: Promise<Readonly<Record<string, object>>> | undefined;
  const plugin: Plugin = {
    name: 'bundled-sources',
    enforce: 'pre',
    resolveId(source, importer) {
      if (importer === undefined || !source.startsWith('.')) return undefined;
      const path = relative(ROOT, resolve(dirname(importer), source));
      return path.startsWith('src/') ? VIRTUAL + path : undefined;
    },
    async load(id) {
      if (!id.startsWith(VIRTUAL)) return undefined;
      const index = MODULES.indexOf(id.slice(VIRTUAL.length));
      if (index < 0)
        throw new Error(`${id.slice(VIRTUAL.length)} is not in the tests' bundle. Add its folder to MODULES.`);
      bundled ??= bundle(directory, file);
      const names = Object.keys((await bundled)[`m${index}`] ?? {});
      const lines = names.map((name) => `export const ${name} = m${index}.${name};`);
      return [`import { m${index} } from ${JSON.stringify(file)};`, ...lines].join('\n');
    },
  };
  return { plugin, file };
}

async function bundle(directory: string, file: string): Promise<Readonly<Record<string, object>>> {
  mkdirSync(directory);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const contents = MODULES.map((path, i) => `export * as m${i} from './${path}';`).join('\n');
  await build({ ...BUNDLE_OPTIONS, stdin: { contents, resolveDir: ROOT }, outdir: directory });
  return await import(pathToFileURL(file).href);
}
