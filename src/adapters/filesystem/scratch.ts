import type { ChunkStore } from '../../codec/chunk.ts';
import type { LogId } from '../../ids/log-id.ts';
import { chunkStore } from '../../snapshot/snapshots.ts';
import { FilesystemBlobStore } from './blob-store.ts';
import { makeTemporaryDirectory, removeAbandonedDirectories } from './temporary-paths.ts';

const PREFIX = 'logfold-scratch-';

/** Runs work with a chunk store in a temporary directory, and removes the directory afterwards. */
export async function withScratch<T>(log: LogId, work: (scratch: ChunkStore) => Promise<T>): Promise<T> {
  const { path, remove } = makeTemporaryDirectory(PREFIX);
  try {
    return await work(chunkStore(new FilesystemBlobStore(path, { fsync: false }), log));
  } finally {
    remove();
  }
}

/**
 * `withScratch` for a process with this environment. In Lambda it first removes the scratch
 * directories of earlier invocations: if a function runs out of time or memory, Lambda kills it,
 * and the next invocation finds its files in `/tmp`. No other invocation loses its chunks, because
 * each execution environment has its own `/tmp` and runs one invocation at a time.
 */
export function scratchOf(environment: Readonly<Record<string, string | undefined>>): typeof withScratch {
  if (environment.AWS_LAMBDA_FUNCTION_NAME === undefined) return withScratch;
  return async (log, work) => {
    await removeAbandonedDirectories(PREFIX);
    return await withScratch(log, work);
  };
}
