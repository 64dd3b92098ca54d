import { beforeAll, describe, expect, test } from 'vitest';
import { EditBatch } from '../../src/tree/batch.ts';
import { emptyBufferedTree, mapTops } from '../../src/tree/buffered-tree.ts';
import { editTree } from '../../src/tree/edit.ts';
import { emptyTree, type Tree } from '../../src/tree/node.ts';
import { hashKey, meanNodeBytes, NODE_SHAPE, treeItemBytes } from '../../src/tree/node-builder.ts';
import { findItem } from '../../src/tree/read.ts';
import { bufferEdits, flushThresholdBytes } from '../../src/tree/write-buffer.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { Random } from '../support/models/random.ts';

const MB = 2 ** 20;
const VALUE_BYTES = 100;
/** Bytes of an item besides its key. */
const PAYLOAD_BYTES = VALUE_BYTES + 2;
const { minBytes, maxBytes, spreadBytes } = NODE_SHAPE;
/** An item with a hash below this may end a node before the node is full. */
const HIGHEST_THRESHOLD =
  treeItemBytes('0'.repeat(12), PAYLOAD_BYTES) * (maxBytes - minBytes) * (2 ** 32 / spreadBytes ** 2);

const random = new Random(1);

/** A value that does not compress. */
function value(): Uint8Array {
  return Uint8Array.from({ length: VALUE_BYTES }, () => random.integer(0, 255));
}

/** A random key that never ends a leaf. 987 of 1,000 keys are such keys. */
function chosenKey(prefix = ''): string {
  for (;;) {
    const key =
      prefix +
      random
        .integer(0, 2 ** 48 - 1)
        .toString(16)
        .padStart(12, '0')
        .slice(prefix.length);
    if (hashKey(key, 0) >= HIGHEST_THRESHOLD) return key;
  }
}

/** A batch of items with chosen keys. */
function batch(items: number, prefix = ''): EditBatch {
  const edits = new EditBatch('string');
  for (let i = 0; i < items; i++) edits.put(chosenKey(prefix), value(), 1);
  return edits;
}

describe('keys that were chosen so that they end no leaf', () => {
  const chunks = new MemoryChunks();
  const store = nodeStore({}, chunks);
  let tree: Tree;
  /** Stored bytes of the whole tree. */
  let treeBytes: number;
  let leaves: number;

  beforeAll(async () => {
    tree = await editTree(store, emptyTree('string'), batch(26_000).resolve(store));
    if (tree.top !== undefined) await store.save([tree.top]);
    treeBytes = store.counts.bytesWritten;
    leaves = store.counts.written;
    expect(leaves).toBeGreaterThan(20);
  });

  async function written(run: () => Promise<void>) {
    const before = { ...store.counts };
    await run();
    return {
      chunks: store.counts.written - before.written,
      bytes: store.counts.bytesWritten - before.bytesWritten,
    };
  }

  test('no leaf is larger than a full one and its last item', () => {
    const largest = Math.max(...Array.from(chunks.stored.values(), ({ length }) => length));
    expect(largest).toBeLessThan(maxBytes + 2 * PAYLOAD_BYTES);
  });

  test('a reader of an item fetches one node of each level', async () => {
    const reader = nodeStore({}, chunks);
    await findItem(reader, tree, chosenKey());
    expect(reader.counts.read).toBe(tree.top?.level);
  });

  test('one item before all others moves the end of every leaf, so the whole tree is written', async () => {
    const cost = await written(async () => {
      const { top } = await editTree(store, tree, batch(1, '0000').resolve(store));
      if (top !== undefined) await store.save([top]);
    });
    expect(cost.chunks).toBe(leaves);
    expect(cost.bytes).toBeLessThan(1.01 * treeBytes);
  });

  test('snapshots write the whole tree at most once per threshold of edits, since the edits are buffered', async () => {
    const [snapshots, items] = [60, 20];
    let map = { ...emptyBufferedTree('string'), tree };
    let full = 0;
    for (let i = 0; i < snapshots; i++) {
      const cost = await written(async () => {
        map = await bufferEdits(store, map, batch(items, '0000').resolve(store));
        await store.save(mapTops(map));
      });
      expect(cost.bytes).toBeLessThan(1.1 * treeBytes + MB);
      if (cost.chunks > leaves / 2) full++;
    }
    const edited = snapshots * items * treeItemBytes('0'.repeat(12), PAYLOAD_BYTES);
    expect(full).toBeGreaterThan(0);
    expect(full).toBeLessThanOrEqual(edited / flushThresholdBytes(NODE_SHAPE));
    expect(flushThresholdBytes(NODE_SHAPE)).toBeGreaterThan(meanNodeBytes(NODE_SHAPE) / 8);
  });
});
