import { isDeepStrictEqual } from 'node:util';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import type { Workload } from '../workload.ts';
import { endOf, LOG, TABLES, workerClient } from './engine-log.ts';
import type { ReadSystem } from './system.ts';

/** The whole snapshot job, as the snapshot function runs it: from the answers to written chunks. */
export const buildSnapshot: ReadSystem = async ({ endpoint, workload, directory }, clock) => {
  const client = workerClient(endpoint);
  const read = { requests: 0, readUnits: 0 };
  const tables = new DynamoDbLogStore({
    client,
    ...TABLES,
    meter: (_, { readUnits }) => {
      if (readUnits === 0) return;
      read.requests++;
      read.readUnits += readUnits;
    },
  });
  const blobs = new MeteredBlobStore(new FilesystemBlobStore(directory, { fsync: false }));
  const platform = nativePlatform;
  const store = new ArchivedLogStore(tables, { blobs, platform });
  const deps = { store, tables, blobs, platform, types: RESERVED_TYPES, reducer: spreadsheet, now: Date.now };
  const job = { kind: 'snapshot', log: LOG, position: endOf(workload) } as const;
  const result = await clock.time(() => completeSnapshot(deps, job));
  if (result.outcome !== 'built') throw new Error(`the snapshot job ended with '${result.outcome}' instead of 'built'`);
  const finish = async (): Promise<void> => {
    await checkCells(deps, workload);
    client.destroy();
  };
  return { ...read, entries: result.entries, objects: blobs.usage().puts, finish };
};

async function checkCells(deps: Parameters<typeof loadState>[0], workload: Workload): Promise<void> {
  const { rows, columns } = workload.view();
  const { draft } = await loadState(deps, LOG);
  const cells = await Array.fromAsync(sheetOf(draft).cells(rows, columns));
  const shown = cells.map(({ row, column, value }) => ({ row, column, value }));
  if (!isDeepStrictEqual(shown, workload.viewed({ rows, columns }, []))) {
    throw new Error('the snapshot shows other cells than the log has');
  }
}
