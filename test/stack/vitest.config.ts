import { defineConfig } from 'vitest/config';

/** These tests need the bundles of `npm run build`, the SAM CLI and an emulator. */
export default defineConfig({
  test: {
    include: ['test/stack/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    // Each file has its own emulator.
    fileParallelism: false,
  },
});
