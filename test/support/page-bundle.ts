import { relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';

export interface PageBundle {
  readonly script: string;
  /** The modules in the bundle, as paths relative to the repository. */
  readonly modules: readonly string[];
}

/**
 * zstd-codec asks for modules of Node, which a page never reaches, and has a second copy of the
 * library for browsers without WebAssembly.
 */
const ZSTD_IN_PAGES: Plugin = {
  name: 'zstd-codec in pages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(fs|path|crypto)$|\/zstd-codec-binding\.js$/ }, ({ importer, path }) =>
      importer.includes('/zstd-codec/') ? { path, namespace: 'absent' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: 'module.exports = undefined;' }));
  },
};

const PAGE_OPTIONS = {
  bundle: true,
  platform: 'browser' as const,
  minify: true,
  write: false as const,
  metafile: true as const,
  logLevel: 'silent' as const,
  plugins: [ZSTD_IN_PAGES],
} satisfies BuildOptions;

interface PageOptions {
  readonly external?: string[];
  readonly globalName?: string;
}

/** Bundles a module for a page as an application does, into a single script. */
export async function bundlePage(entry: string, options: PageOptions = {}): Promise<PageBundle> {
  const format = options.globalName === undefined ? 'esm' : 'iife';
  const { outputFiles, metafile } = await build({ ...PAGE_OPTIONS, ...options, entryPoints: [entry], format });
  const [output] = outputFiles;
  if (output === undefined) throw new Error('nothing was bundled');
  return { script: output.text, modules: Object.keys(metafile.inputs) };
}

/** Bundles the code that a page loads first, without the code that it loads on demand. */
export async function bundleFirstLoad(entry: string, options: PageOptions = {}): Promise<PageBundle> {
  const split = { format: 'esm', splitting: true, outdir: '.' } as const;
  const { outputFiles, metafile } = await build({ ...PAGE_OPTIONS, ...options, ...split, entryPoints: [entry] });
  const loaded = loadedFirst(metafile);
  return {
    script: outputFiles.map(({ path, text }) => (loaded.has(relative('.', path)) ? text : '')).join('\n'),
    modules: [...loaded].flatMap((path) => Object.keys(metafile.outputs[path]?.inputs ?? {})),
  };
}

/**
 * The outputs that a page loads without asking for them: that of the only given entry, and those it
 * imports.
 */
export function loadedFirst({ outputs }: Pick<Metafile, 'outputs'>): Set<string> {
  const imported = new Set(Object.values(outputs).flatMap(({ imports }) => imports.map(({ path }) => path)));
  const isEntry = (path: string) => outputs[path]?.entryPoint !== undefined && !imported.has(path);
  const loaded = new Set(Object.keys(outputs).filter(isEntry));
  // The loop also visits what is added during the loop.
  for (const path of loaded) {
    for (const { path: next, kind } of outputs[path]?.imports ?? []) {
      if (kind === 'import-statement' && outputs[next] !== undefined) loaded.add(next);
    }
  }
  return loaded;
}

/** Bytes of a script as servers send it. */
export function gzippedBytes(script: string): number {
  return gzipSync(script, { level: 9 }).length;
}
