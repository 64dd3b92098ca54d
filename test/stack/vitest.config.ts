import { defineConfig } from 'vitest/config';

/** What needs more than `npm ci`: the bundles that `npm run build` made, the SAM CLI and an emulator. */
export default defineConfig({
  test: {
    include: ['test/stack/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
  },
});
