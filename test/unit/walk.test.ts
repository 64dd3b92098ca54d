import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ChunkId, ChunkStore } from '../../src/codec/chunk.ts';
import type { Value } from '../../src/codec/value.ts';
import { at } from '../../src/tree/array.ts';
import { EditBatch } from '../../src/tree/batch.ts';
import { editTree } from '../../src/tree/edit.ts';
import { emptyTree, type Inner, isLeaf, type Node, NodeRef, valueBytes } from '../../src/tree/node.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { referencedId } from '../../src/tree/read.ts';
import { type ReachedChunk, walkChunks } from '../../src/tree/walk.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';

const AT_ONCE = 16;
const KEYS = 6_000;

/** A chunk store that answers reads in rounds: all reads requested so far together. */
class RoundsOfChunks implements ChunkStore {
  readonly rounds: number[] = [];
  readonly #inner: ChunkStore;
  #pending: PromiseWithResolvers<void>[] = [];

  constructor(inner: ChunkStore) {
    this.#inner = inner;
  }

  async get(id: ChunkId): Promise<Uint8Array | undefined> {
    const read = Promise.withResolvers<void>();
    this.#pending.push(read);
    await read.promise;
    return this.#inner.get(id);
  }

  put(): Promise<void> {
    throw new Error('a walk does not write');
  }

  get reads(): number {
    return this.rounds.reduce((sum, round) => sum + round, 0);
  }

  /** Answers reads until a promise resolves or rejects. */
  async until<T>(done: Promise<T>): Promise<T> {
    let isDone = false;
    const noted = done.finally(() => {
      isDone = true;
    });
    noted.catch(() => undefined);
    for (;;) {
      // Let all code run that does not wait for a read.
      for (let i = 0; i < 3; i++) await setImmediate();
      if (isDone) return noted;
      if (this.#pending.length > 0) this.rounds.push(this.#pending.length);
      for (const read of this.#pending.splice(0)) read.resolve();
    }
  }
}

/** A saved tree of several levels with some large values. */
async function largeTree(): Promise<{ readonly chunks: MemoryChunks; readonly top: Inner }> {
  const chunks = new MemoryChunks();
  const store = nodeStore({ shape: SMALL_SHAPE, cacheBytes: 0 }, chunks);
  const batch = new EditBatch('number');
  for (let key = 0; key < KEYS; key++) batch.put(key, valueAt(key), 1);
  const empty = emptyTree('number');
  const { top } = await editTree(store, empty, batch.resolve(store));
  if (top === undefined || isLeaf(top)) throw new Error('the tree is too small');
  await store.save([top]);
  expect(top.level).toBeGreaterThan(2);
  return { chunks, top };
}

function valueAt(key: number): Value {
  return key % 100 === 7 ? `${key} `.repeat(2_000) : `value ${key * 7919}`;
}

function reader(chunks: ChunkStore): NodeStore {
  return nodeStore({ shape: SMALL_SHAPE, cacheBytes: 0 }, chunks);
}

/** The chunks below a node, by a simple recursion. */
async function* plainWalk(store: NodeStore, node: Node): AsyncGenerator<ReachedChunk> {
  if (isLeaf(node)) {
    for (let i = 0; i < node.keys.length; i++) {
      const id = referencedId(valueBytes(node, i));
      if (id !== undefined) yield { id, holds: 'value' };
    }
    return;
  }
  for (const child of node.children) {
    if (child.id === undefined) throw new Error('the tree is not saved');
    yield { id: child.id, holds: node.level === 1 ? 'leaf' : 'inner' };
    yield* plainWalk(store, await store.load(child));
  }
}

/** The yielded chunks and the final error. */
async function outcomeOf(walk: AsyncIterable<ReachedChunk>) {
  const reached: ReachedChunk[] = [];
  try {
    for await (const each of walk) reached.push(each);
    return { reached };
  } catch (error) {
    return { reached, error };
  }
}

test('a walk fetches 16 chunks in parallel, reads each node once, and gives the result of a simple recursion', async () => {
  const { chunks, top } = await largeTree();
  const plain = await Array.fromAsync(plainWalk(reader(chunks), top));
  const nodes = plain.filter(({ holds }) => holds !== 'value').length;
  expect([plain.length > nodes, nodes > 300]).toEqual([true, true]);
  const gated = new RoundsOfChunks(chunks);
  const walked = await gated.until(Array.fromAsync(walkChunks(reader(gated), top, { values: true })));
  expect(walked).toEqual(plain);
  expect(gated.reads).toBe(nodes);
  expect(Math.max(...gated.rounds)).toBe(AT_ONCE);
  expect(gated.rounds.length).toBeLessThan(nodes / 8);
});

test('a walk that skips shared chunks fetches distant chunks in parallel', async () => {
  const { chunks, top } = await largeTree();
  const leaves = (await Array.fromAsync(plainWalk(reader(chunks), top))).filter(({ holds }) => holds === 'leaf');
  const wanted = new Set(leaves.filter((_, i) => i % 20 === 0).map(({ id }) => id));
  const known = new Set(leaves.map(({ id }) => id).filter((id) => !wanted.has(id)));
  const gated = new RoundsOfChunks(chunks);
  const options = { values: true, skip: (id: ChunkId) => known.has(id) };
  const walked = await gated.until(Array.fromAsync(walkChunks(reader(gated), top, options)));
  expect(walked.filter(({ holds }) => holds === 'leaf').map(({ id }) => id)).toEqual([...wanted]);
  expect(gated.rounds.length).toBeLessThan(gated.reads / 4);
});

test('a walk reads only a few chunks per level ahead of a slow consumer', async () => {
  const { chunks, top } = await largeTree();
  const gated = new RoundsOfChunks(chunks);
  const walk = walkChunks(reader(gated), top, { values: true });
  let followed = 0;
  for (let next = await gated.until(walk.next()); next.done !== true; next = await gated.until(walk.next())) {
    // Check that the walk does not read on without a request.
    await gated.until(setImmediate());
    followed++;
    expect(gated.reads).toBeLessThanOrEqual(followed + (AT_ONCE + 1) * top.level);
  }
});

test('a walk yields all chunks before a missing node, and then fails', async () => {
  const { chunks, top } = await largeTree();
  const nodes = (await Array.fromAsync(plainWalk(reader(chunks), top))).filter(({ holds }) => holds !== 'value');
  for (let i = 0; i < nodes.length; i += 7) {
    const { id } = at(nodes, i);
    const stored = chunks.stored.get(id) ?? new Uint8Array();
    chunks.stored.delete(id);
    const plain = await outcomeOf(plainWalk(reader(chunks), top));
    expect(plain).toMatchObject({ error: { code: 'CHUNK_MISSING' } });
    expect(await outcomeOf(walkChunks(reader(chunks), top, { values: true }))).toEqual(plain);
    chunks.stored.set(id, stored);
  }
});

test('a walk visits all chunks below a node with a wrong level', async () => {
  const { chunks, top } = await largeTree();
  const ref = NodeRef.to(top);
  const odd: Inner = { level: 1, keys: [0], children: [ref], count: top.count, weight: top.weight };
  await nodeStore({ shape: SMALL_SHAPE }, chunks).save([odd]);
  const ids = (await Array.fromAsync(walkChunks(reader(chunks), odd, { values: true }))).map(({ id }) => id);
  expect(new Set(ids)).toEqual(new Set(chunks.stored.keys()));
});
