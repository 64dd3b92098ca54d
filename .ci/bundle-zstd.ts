/**
 * Replaces `dist/adapters/platform/zstd.js` by a copy of zstd-codec for all environments.
 * zstd-codec names modules of Node, which it needs only for files, and has a second copy of the
 * library for browsers without WebAssembly.
 */
import { join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import manifest from '../node_modules/zstd-codec/package.json' with { type: 'json' };

const ROOT = join(import.meta.dirname, '..');

const withoutNode: Plugin = {
  name: 'without modules of Node',
  setup({ onResolve, onLoad }) {
    const path = 'absent';
    onResolve({ filter: /^(fs|path|crypto)$|\/zstd-codec-binding\.js$/ }, () => ({ path, namespace: path }));
    onLoad({ filter: /.*/, namespace: path }, () => ({ contents: 'module.exports = undefined;' }));
  },
};

await build({
  entryPoints: [join(ROOT, 'src/adapters/platform/zstd.ts')],
  outfile: join(ROOT, 'dist/adapters/platform/zstd.js'),
  bundle: true,
  minify: true,
  platform: 'browser',
  format: 'esm',
  target: 'es2022',
  define: { __dirname: '""' },
  banner: { js: `/* zstd-codec ${manifest.version} by ${manifest.author} (MIT), with Zstandard by Meta (BSD) */` },
  logLevel: 'warning',
  plugins: [withoutNode],
});
