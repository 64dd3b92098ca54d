import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They need programs in Python, and have a configuration of their own.
    exclude: [...configDefaults.exclude, 'test/stack/**'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // By default one core is left alone, which on a machine of two is half of it.
    maxWorkers: 2,
  },
});
