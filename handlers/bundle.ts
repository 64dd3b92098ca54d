import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');

/**
 * The functions. `<name>.ts` in this folder exports the handler, and `build/<name>` is the
 * function's code.
 */
export const FUNCTIONS = ['stream', 'snapshot', 'maintain', 'sweep', 'replay', 'revisions'] as const;

/**
 * The modules of each function, beside that with its name. The template chooses one by its
 * parameters. With two modules, a stack loads only what it uses.
 */
const FURTHER_MODULES: Readonly<Partial<Record<(typeof FUNCTIONS)[number], string>>> = {
  stream: 'stream-feed',
  sweep: 'sweep-feed',
};

/** esbuild's options for the deployed code. Code that measures or tests a bundle uses them too. */
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
  // The SDK uses these modules if the environment has no credentials. A function's environment
  // always has them. In the bundle, every start would load their code.
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
 * Bundles every module of every function into `<directory>/<function>/<module>.mjs`, with a source
 * map beside it. Removes earlier content of `<directory>/<function>` first.
 * @returns esbuild's description of inputs and outputs, with paths relative to the repository
 */
export async function buildFunctions(directory: string): Promise<Metafile> {
  for (const name of FUNCTIONS) await rm(join(directory, name), { recursive: true, force: true });
  const entryPoints = FUNCTIONS.flatMap((name) =>
    [name, FURTHER_MODULES[name] ?? []].flat().map((each) => ({ in: `handlers/${each}.ts`, out: `${name}/${each}` })),
  );
  const { metafile } = await build({ ...BUNDLE_OPTIONS, entryPoints, outdir: directory });
  return metafile;
}
