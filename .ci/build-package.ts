/**
 * Writes the JavaScript of the package into `dist`, after the compiler has written the
 * declarations. Each entry is a file, and the code that entries share is in a few more: Node takes
 * half a millisecond of processor time to load a file, and there are hundreds of source files.
 */
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import uuid from '../node_modules/uuid/package.json' with { type: 'json' };
import zstd from '../node_modules/zstd-codec/package.json' with { type: 'json' };
import manifest from '../package.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '..');
const SOURCES = join(ROOT, 'src');
const DIST = join(ROOT, 'dist');

/** The copy of zstd-codec is a separate file, which only pages load. */
const ZSTD = 'adapters/platform/zstd';
/** All files of `dist` are in a folder of `dist`, so that their URLs relative to it agree. */
const separateZstd: Plugin = {
  name: 'zstd-codec in a separate file',
  setup: ({ onResolve }) => onResolve({ filter: /\/zstd\.ts$/ }, () => ({ path: `../${ZSTD}.js`, external: true })),
};

/** The package has a copy of uuid, which has a file for each function. */
const packages = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies };

/** The entries of the package. Those with `module` need packages that npm may have left out. */
const entries = Object.values(manifest.exports).flatMap((each) => (typeof each === 'string' ? [] : [each]));
const nameOf = ({ types }: { readonly types: string }): string => basename(types, '.d.ts');

const { outputs } = await build({
  entryPoints: [
    ...entries.map((entry) => `exports/${nameOf(entry)}`),
    ...['adapters/platform/installed', 'cli/main', 'local/supervisor'],
  ].map((name) => ({ in: join(SOURCES, `${name}.ts`), out: name })),
  outdir: DIST,
  absWorkingDir: ROOT,
  bundle: true,
  splitting: true,
  chunkNames: 'shared/[hash]',
  external: [
    'node:*',
    ...Object.keys(packages)
      .filter((name) => name !== 'uuid')
      .flatMap((name) => [name, `${name}/*`]),
  ],
  format: 'esm',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  // The notices of the licenses of packages that are copied.
  banner: { js: `/* with parts of uuid ${uuid.version} by Robert Kieffer and other contributors (MIT) */` },
  target: 'es2024',
  // No `keepNames`: bundlers of pages could not leave out a class that nobody uses.
  metafile: true,
  logLevel: 'warning',
  plugins: [separateZstd],
}).then(({ metafile }) => metafile);

// A static import of a missing package fails before any code runs, so Node gets these modules. They
// load an entry with `require`, which does not wait. Bundlers get the entry itself.
for (const name of entries.filter((entry) => 'module' in entry).map(nameOf)) {
  const names = outputs[`dist/exports/${name}.js`]?.exports.toSorted() ?? [];
  await writeFile(
    join(DIST, `exports/installed-${name}.js`),
    `import { createRequire } from 'node:module';
import { loadInstalled } from '../adapters/platform/installed.js';

const require = createRequire(import.meta.url);
export const { ${names.join(', ')} } = loadInstalled(() => require('./${name}.js'));
`,
  );
}

/**
 * zstd-codec names modules of Node, which it needs only for files, and has a second copy of the
 * library for browsers without WebAssembly.
 */
const withoutNode: Plugin = {
  name: 'without modules of Node',
  setup({ onResolve, onLoad }) {
    const path = 'absent';
    onResolve({ filter: /^(fs|path|crypto)$|\/zstd-codec-binding\.js$/ }, () => ({ path, namespace: path }));
    onLoad({ filter: /.*/, namespace: path }, () => ({ contents: 'module.exports = undefined;' }));
  },
};

await build({
  entryPoints: [join(SOURCES, `${ZSTD}.ts`)],
  outfile: join(DIST, `${ZSTD}.js`),
  bundle: true,
  minify: true,
  platform: 'browser',
  format: 'esm',
  target: 'es2022',
  define: { __dirname: '""' },
  banner: { js: `/* zstd-codec ${zstd.version} by ${zstd.author} (MIT), with Zstandard by Meta (BSD) */` },
  logLevel: 'warning',
  plugins: [withoutNode],
});
