import type { LogId } from '../log/log-id.ts';
import { chunkStore } from '../snapshot/snapshots.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { FilesystemBlobStore } from './filesystem-blob-store.ts';
import { makeTemporaryDirectory } from './temporary-paths.ts';

/** Does work that needs room for chunks of its own: a temporary directory, which is removed afterwards. */
export async function withScratch<T>(log: LogId, work: (scratch: ChunkStore) => Promise<T>): Promise<T> {
  const { path, remove } = makeTemporaryDirectory('logfold-scratch-');
  try {
    return await work(chunkStore(new FilesystemBlobStore(path, { fsync: false }), log));
  } finally {
    remove();
  }
}
