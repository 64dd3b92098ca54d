import { gzipSync } from 'node:zlib';
import { build, type Plugin } from 'esbuild';

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

/** Bundles a module for a page as an application does. */
export async function bundlePage(
  entry: string,
  options: { readonly external?: string[]; readonly globalName?: string } = {},
): Promise<PageBundle> {
  const { outputFiles, metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    platform: 'browser',
    minify: true,
    format: options.globalName === undefined ? 'esm' : 'iife',
    ...options,
    write: false,
    metafile: true,
    logLevel: 'silent',
    plugins: [ZSTD_IN_PAGES],
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error('nothing was bundled');
  return { script: output.text, modules: Object.keys(metafile.inputs) };
}

/** Bytes of a script as servers send it. */
export function gzippedBytes(script: string): number {
  return gzipSync(script, { level: 9 }).length;
}
