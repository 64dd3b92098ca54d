import { configDefaults, defineConfig } from 'vitest/config';
import { bundledSources } from './test/support/bundled-sources.ts';

const { plugin, file } = bundledSources();

/** Whole command lines, deployments and histories: `npm run test:all` runs them, `npm test` does not. */
const LONG = [
  'test/integration/cli-{bad-input,flush,interrupt,life,manners,poison,reducer}.test.ts',
  'test/integration/{archive-file,demo,deployed,edit-history,edit-history-life,engine}.test.ts',
  'test/integration/{handlers,hanging-reducer,kill,throttling}.test.ts',
];
const SIMULATION = 'test/simulation/**/*.test.ts';
const HANG_MS = 20 * 60_000;

export default defineConfig({
  test: {
    // Only what hangs may fail by a time limit: a machine that is busy with other things is no fault.
    testTimeout: HANG_MS,
    hookTimeout: HANG_MS,
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
          exclude: [...configDefaults.exclude, 'test/stack/**', 'test/bundles/**', ...LONG],
          env: { LOGFOLD_HISTORIES: '20' },
        },
      },
      {
        extends: true,
        test: { name: 'long', include: [...LONG, SIMULATION], env: { LOGFOLD_HISTORIES: '500' } },
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
            'test/property/{item-codec,keys,reducers,spreadsheet,text}.test.ts',
          ],
          env: { LOGFOLD_BUNDLE: file },
          // Node loads the bundle as it is.
          server: { deps: { external: [file] } },
        },
      },
    ],
  },
});
