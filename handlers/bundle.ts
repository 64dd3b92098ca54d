import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');

/** The functions. `<name>.ts` in this folder exports the handler, and `build/<name>` is the function's code. */
export const FUNCTIONS = ['stream', 'snapshot', 'maintain', 'sweep', 'replay'] as const;

/** How esbuild makes the code that is deployed. Whatever measures or tests that code uses these options. */
export const BUNDLE_OPTIONS = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  outExtension: { '.js': '.mjs' },
  mainFields: ['module', 'main'],
  minify: true,
  sourcemap: true,
  // Node reads the map at each start.
  sourcesContent: false,
  // The SDK looks for credentials here if the environment has none. A function's environment always has them. esbuild would
  // put code for this into the bundle that every start would load.
  external: [
    '@aws-sdk/credential-provider-http',
    '@aws-sdk/credential-provider-ini',
    '@aws-sdk/credential-provider-process',
    '@aws-sdk/credential-provider-sso',
    '@aws-sdk/credential-provider-web-identity',
    '@smithy/credential-provider-imds',
  ],
  // Some packages are CommonJS and call `require` for modules of Node.
  banner: {
    js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
  },
  metafile: true,
  logLevel: 'warning',
} as const satisfies BuildOptions;

/**
 * Bundles every function into `<directory>/<name>/<name>.mjs`, with a source map beside it. Removes what was in
 * `<directory>/<name>` before.
 * @returns esbuild's description of inputs and outputs, with paths relative to the repository
 */
export async function buildFunctions(directory: string): Promise<Metafile> {
  for (const name of FUNCTIONS) await rm(join(directory, name), { recursive: true, force: true });
  const entryPoints = FUNCTIONS.map((name) => ({ in: `handlers/${name}.ts`, out: `${name}/${name}` }));
  const { metafile } = await build({ ...BUNDLE_OPTIONS, entryPoints, outdir: directory });
  return metafile;
}
