import { describe, expect, test } from 'vitest';
import { fromHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { decodeValue } from '../../src/codec/message-pack.ts';
import { at } from '../../src/tree/array.ts';
import { encodeNode, type Inner, type Leaf, NodeRef } from '../../src/tree/node.ts';
import { ALL_IDS, Marks, partOf } from '../../src/workers/gc/mark.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';

test('a value with the same bytes as a node does not hide the chunks below that node', async () => {
  const store = nodeStore();
  const leaves = Array.from({ length: 150 }, (_, key) => NodeRef.to(leafOf(key, encodeValue(`value ${key}`))));
  const inner: Inner = { level: 1, keys: leaves.map((_, key) => key), children: leaves, count: 150, weight: 150 };
  const ref = NodeRef.to(inner);
  const top: Inner = { level: 2, keys: [0], children: [ref], count: 150, weight: 150 };
  await store.save([top]);
  const bytes = encodeNode(inner);
  expect(encodeValue(decodeValue(bytes))).toEqual(bytes);
  const id = store.addValue(bytes);
  expect(id).toBe(ref.id);
  const marks = new Marks(store);
  await marks.addBelow(leafOf(0, reference(id)));
  expect([marks.size, marks.has(id)]).toEqual([1, true]);
  await marks.addBelow(top);
  expect(leaves.filter((leaf) => leaf.id === undefined || !marks.has(leaf.id))).toEqual([]);
});

test.each([1, 4, 16, 64, 256])('each id is marked only in its part of %i', async (of) => {
  const ids = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0') + 'c5'.repeat(31));
  const marked: string[] = [];
  for (let index = 0; index < of; index++) {
    const marks = new Marks(nodeStore(), { index, of });
    for (const [i, id] of ids.entries()) await marks.addBelow(leafOf(i, reference(id)));
    const listed = ids.filter((id) => partOf(id, of).index === index);
    expect(ids.filter((id) => marks.has(id))).toEqual(listed);
    expect(marks.size).toBe(256 / of);
    marked.push(...listed);
  }
  expect(marked).toEqual(ids);
});

describe('trees that share all leaves except one', () => {
  const LEAVES = 150;
  const VERSIONS = 10;

  async function versions() {
    const chunks = new MemoryChunks();
    const writer = nodeStore({}, chunks);
    const tops: Inner[] = [];
    for (let version = 0; version < VERSIONS; version++) {
      const leaves = Array.from({ length: LEAVES }, (_, key) =>
        NodeRef.to(leafOf(key, encodeValue(key === version ? `version ${version}` : `value ${key}`))),
      );
      const inner: Inner = { level: 1, keys: leaves.map((_, i) => i), children: leaves, count: LEAVES, weight: LEAVES };
      tops.push({ level: 2, keys: [0], children: [NodeRef.to(inner)], count: LEAVES, weight: LEAVES });
    }
    await writer.save(tops);
    const store = nodeStore({ cacheBytes: 0 }, chunks);
    const marked = async (marks: Marks): Promise<string[]> => {
      for (const top of tops) await marks.addBelow(top);
      return [...chunks.stored.keys()].filter((id) => marks.has(id)).sort();
    };
    return { store, tops, ids: [...chunks.stored.keys()].sort(), marked };
  }

  test.each([1, 4, 256])('each chunk is read once if there is room for all ids, in part 0 of %i', async (of) => {
    const { store, ids, marked } = await versions();
    await marked(new Marks(store, { index: 0, of }, ids.length));
    expect(store.counts.read).toBe(ids.length);
  });

  test('the marks are the same with little room', async () => {
    const { store, ids, marked } = await versions();
    for (let index = 0; index < 256; index += 32) {
      const part = { index, of: 256 };
      const found = await marked(new Marks(store, part));
      const inPart = ids.filter((id) => partOf(id, part.of).index === index);
      expect(found).toEqual(expect.arrayContaining(inPart));
      for (const room of [0, 1, VERSIONS, VERSIONS + 20]) {
        expect(await marked(new Marks(store, part, room))).toEqual(found);
      }
    }
  });

  test('marking stops early if there are too many ids for one part', async () => {
    const { store, tops, ids, marked } = await versions();
    const marks = new Marks(store, ALL_IDS, 20);
    await marks.addBelow(at(tops, 0));
    expect([marks.isFull, marks.size]).toEqual([true, 21]);
    expect(store.counts.read).toBeLessThan(LEAVES / 2);
    const roomy = new Marks(store, ALL_IDS, ids.length);
    expect(await marked(roomy)).toEqual(ids);
    expect(roomy.isFull).toBe(false);
  });
});

/** An encoded reference to a value: an extension of type 1 that holds the hash. */
function reference(id: string): Uint8Array {
  return Uint8Array.of(0xc7, 32, 1, ...fromHex(id));
}

function leafOf(key: number, bytes: Uint8Array): Leaf {
  return { level: 0, keys: [key], bytes, ends: Uint32Array.of(bytes.length), weights: undefined, count: 1, weight: 1 };
}
