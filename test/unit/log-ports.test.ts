import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { LogReader, TableReader } from '../../src/log/log-store.ts';
import { testDeployment } from '../support/test-deployment.ts';

const tables = new MemoryLogStore();
const { store } = testDeployment({ tables, blobs: new MemoryBlobStore() });

// The type checker fails if one of these lines compiles without an error.
describe('the compiler', () => {
  test('refuses the tables to a reader of whole logs', () => {
    // @ts-expect-error: a snapshot of the tables alone would miss expired entries.
    const reader: LogReader = tables;
    expect(reader.reads).toBe('tables');
  });

  test('refuses a reader of whole logs to those who look at the tables alone', () => {
    // @ts-expect-error: an archived entry would pass for one that is still in the table.
    const reader: TableReader = store;
    expect(reader.reads).toBe('tables and archives');
  });
});
