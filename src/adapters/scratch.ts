import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LogId } from '../log/log-id.ts';
import { chunkStore } from '../snapshot/snapshots.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { FilesystemBlobStore } from './filesystem-blob-store.ts';

/** Does work that needs room for chunks of its own: a temporary directory, which is removed afterwards. */
export async function withScratch<T>(log: LogId, work: (scratch: ChunkStore) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-scratch-'));
  try {
    return await work(chunkStore(new FilesystemBlobStore(directory, { fsync: false }), log));
  } finally {
    await rm(directory, { recursive: true });
  }
}
