import { expect, test } from 'vitest';
import { encodeValue } from '../../src/codec/canonical.ts';
import type { ChunkId, ChunkStore } from '../../src/codec/chunk.ts';
import { isLeaf, type Leaf, NodeRef } from '../../src/tree/node.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';

function leaf(key: number): Leaf {
  const bytes = encodeValue(`value ${key}`);
  return { level: 0, keys: [key], bytes, ends: Uint32Array.of(bytes.length), weights: undefined, count: 1, weight: 1 };
}

/** A chunk store whose writes wait for a gate. */
class GatedChunks extends MemoryChunks {
  readonly gate = Promise.withResolvers<void>();

  override async put(id: ChunkId, stored: Uint8Array): Promise<void> {
    await this.gate.promise;
    return super.put(id, stored);
  }
}

async function keysOf(chunks: ChunkStore, refs: readonly NodeRef[], store = nodeStore({ cacheBytes: 0 }, chunks)) {
  const nodes = await Promise.all(refs.map((ref) => store.load(ref)));
  return nodes.map((node) => (isLeaf(node) ? node.keys[0] : undefined));
}

test('a read finds a node whose write is in flight', async () => {
  const chunks = new GatedChunks();
  const store = nodeStore({ cacheBytes: 0 }, chunks);
  const refs = [1, 2, 3].map((key) => NodeRef.to(leaf(key)));
  await store.saveEarly(refs);
  expect(chunks.stored.size).toBe(0);
  expect(await keysOf(chunks, refs, store)).toEqual([1, 2, 3]);
  chunks.gate.resolve();
  await store.save([]);
  expect(await keysOf(chunks, refs)).toEqual([1, 2, 3]);
  expect(store.counts.written).toBe(3);
});

test('a failed early write fails the save, and reads still find the node', async () => {
  const chunks = new GatedChunks();
  const store = nodeStore({ cacheBytes: 0 }, chunks);
  const refs = [NodeRef.to(leaf(1))];
  await store.saveEarly(refs);
  chunks.gate.reject(new Error('no answer'));
  await expect(store.save([])).rejects.toThrow('no answer');
  expect(await keysOf(chunks, refs, store)).toEqual([1]);
});

test('early writes wait when too many bytes are in flight', async () => {
  const chunks = new GatedChunks();
  const store = nodeStore({}, chunks);
  const bytes = encodeValue(new Uint8Array(3_000_000));
  const refs = Array.from({ length: 6 }, (_, key) =>
    NodeRef.to({ ...leaf(key), bytes, ends: Uint32Array.of(bytes.length) }),
  );
  let done = false;
  const saving = store.saveEarly(refs).then(() => {
    done = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(done).toBe(false);
  expect(refs.filter(({ node }) => node === undefined).length).toBeLessThan(refs.length);
  chunks.gate.resolve();
  await saving;
  await store.save([]);
  expect(chunks.stored.size).toBe(6);
});
