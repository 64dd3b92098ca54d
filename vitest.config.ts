import { configDefaults, defineConfig } from 'vitest/config';
import { bundledSources } from './test/support/bundled-sources.ts';

const { plugin, file } = bundledSources();

export default defineConfig({
  test: {
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // By default one core is left alone, which on a machine of two is half of it.
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: 'sources',
          include: ['test/**/*.test.ts'],
          // The stack needs programs in Python, and has a configuration of its own.
          exclude: [...configDefaults.exclude, 'test/stack/**', 'test/bundles/**'],
        },
      },
      {
        extends: true,
        plugins: [plugin],
        test: {
          // How bytes become values and values become bytes, once more as deployed.
          name: 'bundles',
          include: [
            'test/bundles/**/*.test.ts',
            'test/golden/**/*.test.ts',
            'test/unit/{body,canonical,item-codec,node}.test.ts',
            'test/property/{item-codec,keys,spreadsheet,text}.test.ts',
          ],
          env: { LOGFOLD_BUNDLE: file },
          // Node loads the bundle as it is.
          server: { deps: { external: [file] } },
        },
      },
    ],
  },
});
