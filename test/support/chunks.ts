import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { ChunkId, ChunkStore } from '../../src/codec/chunk.ts';
import { NodeStore, type NodeStoreOptions } from '../../src/tree/node-store.ts';

/** A chunk store in memory that a test can read and change. */
export class MemoryChunks implements ChunkStore {
  readonly stored = new Map<ChunkId, Uint8Array>();

  async get(id: ChunkId): Promise<Uint8Array | undefined> {
    return this.stored.get(id);
  }

  async put(id: ChunkId, stored: Uint8Array): Promise<void> {
    this.stored.set(id, stored);
  }
}

/** Small nodes, so that a few dozen items make a tree of several levels. */
export const SMALL_SHAPE = { minBytes: 150, maxBytes: 600, spreadBytes: 120 };

export function nodeStore(options: NodeStoreOptions = {}, chunks: ChunkStore = new MemoryChunks()): NodeStore {
  return new NodeStore(chunks, nativePlatform, options);
}
