import { join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { bundledSources } from './test/support/bundled-sources.ts';
import { INVARIANTS } from './test/support/invariants.ts';

const { plugin, file } = bundledSources();

/**
 * Whole command lines, deployments, real histories, and crashes at every step. Only the long tests
 * run these.
 */
const LONG = [
  'test/integration/{documented-page,exported-calls}.test.ts',
  'test/integration/cli-{bad-input,divide,feed,flush,import,interrupt,life,manners,mapping,matrix,next-steps,poison,reducer,revisions,screen,tools}.test.ts',
  'test/integration/{archive-file,bench-read,busy-log,castore-life,chosen-ids-life,cost-report,demo,deployed,deployed-revisions,edit-history,edit-history-import,edit-history-life,engine,feed-engine,feed-life,large-items}.test.ts',
  'test/integration/{chromium,contended-append,handlers,hanging-reducer,kill,package,revised-table,throttling}.test.ts',
  'test/unit/{archive-continuations,busy-log,collect-worker-race}.test.ts',
];
/** Random inputs and histories. `npm test` runs fewer of them than the long tests. */
const RANDOM = [
  'test/property/**/*.test.ts',
  'test/simulation/**/*.test.ts',
  'test/integration/{example-*,memory-logs-engine}.test.ts',
  'test/unit/{canonical,chunk-codec,node,root,zstd}.test.ts',
];
/** Tests of how bytes become values and values become bytes. They also run on the bundle. */
const ENCODING = [
  'test/bundles/**/*.test.ts',
  'test/golden/**/*.test.ts',
  'test/unit/{body,canonical,item-codec,node}.test.ts',
  'test/property/{item-codec,keys,reducers,spreadsheet,text}.test.ts',
];
/** Unit tests that start an engine or other processes, or that compute for more than 5 seconds. */
const SLOW_UNIT = [
  'test/unit/{advice,archive-continuations,body,busy-log,cli-*,collect-worker-race,cost,rebuild-worker,scratch}.test.ts',
];

const FEW = { LOGFOLD_HISTORIES: '5', LOGFOLD_RUN_SHARE: '0.1' };
const MANY = { LOGFOLD_HISTORIES: '500', LOGFOLD_RUN_SHARE: '1' };

/** The stack needs Python and has its own configuration. */
const NEVER = [...configDefaults.exclude, 'test/stack/**'];
const HANG_MS = 20 * 60_000;

/** Tests of the code as deployed: Node loads the bundle as it is. */
function onBundle(name: string, include: string[], env: Record<string, string>) {
  return {
    extends: true as const,
    plugins: [plugin],
    test: { name, include, env: { ...env, LOGFOLD_BUNDLE: file }, server: { deps: { external: [file] } } },
  };
}

function onSources(name: string, include: string[], exclude: string[], env: Record<string, string>) {
  return { extends: true as const, test: { name, include, exclude: [...NEVER, ...exclude], env } };
}

/** The sources of a peer that no registry has; see examples/infinisheet. */
const infinisheet = process.env.LOGFOLD_INFINISHEET ?? '';

export default defineConfig({
  resolve: {
    alias: [
      // Examples import the package, which tests do not build.
      { find: /^logfold$/, replacement: join(import.meta.dirname, 'src/exports/logfold.ts') },
      { find: /^logfold\/([a-z]+)$/, replacement: join(import.meta.dirname, 'src/exports/$1.ts') },
      { find: /^@candidstartup\/([\w-]+)$/, replacement: join(infinisheet, 'packages/$1/src/index.ts') },
    ],
  },
  test: {
    // A time limit is for tests that hang. A busy machine must not fail a test.
    testTimeout: HANG_MS,
    hookTimeout: HANG_MS,
    setupFiles: ['test/support/alternate-time-zones.ts'],
    pool: 'forks',
    // Loading the same modules for each file again took longer than most tests.
    isolate: false,
    // Many tests wait: for a time to pass, or for another process. Two workers leave a core idle.
    maxWorkers: 3,
    tags: Object.entries(INVARIANTS).map(([name, description]) => ({ name, description })),
    projects: [
      onSources('unit', ['test/unit/**/*.test.ts'], SLOW_UNIT, FEW),
      onSources('sources', ['test/**/*.test.ts'], ['test/bundles/**', ...LONG], FEW),
      onBundle('bundles', ENCODING, FEW),
      onSources('long', [...LONG, ...RANDOM], [], MANY),
      onBundle('long-bundles', ['test/property/{reducers,spreadsheet}.test.ts'], MANY),
    ],
  },
});
