import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import type { ChunkStore } from '../../../src/codec/chunk.ts';
import { flushState, hashFlushedState, type State, saveState } from '../../../src/state/state.ts';
import { NodeStore, type NodeStoreOptions } from '../../../src/tree/node-store.ts';
import { MemoryChunks } from '../chunks.ts';

/**
 * The state hash of a saved state. If the state has buffered edits, a copy in scratch memory is
 * flushed first.
 */
export async function flushedHash(own: ChunkStore, state: State, options?: NodeStoreOptions): Promise<string> {
  const scratch = new MemoryChunks();
  const chunks: ChunkStore = {
    get: async (id) => (await scratch.get(id)) ?? (await own.get(id)),
    put: (id, stored) => scratch.put(id, stored),
  };
  const nodes = new NodeStore(chunks, nativePlatform, options);
  const tree = await flushState(nodes, state);
  await saveState(nodes, tree);
  return hashFlushedState(nativePlatform, tree);
}
