import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory-blob-store.ts';
import { encodeBody } from '../../src/log/body.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import type { Value } from '../../src/log/value.ts';
import { foldEntries, saveWhenOver } from '../../src/snapshot/fold.ts';
import { Draft } from '../../src/state/draft.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { aroundBlobStore } from '../support/around.ts';
import { nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';

const AT_ONCE = 16;
const BATCH_BYTES = 1_000_000;

/** A page of entries, of which some have their bodies in a bucket; each body is the entry's number. */
async function pageOf(length: number, isExternal: (entry: number) => boolean) {
  const blobs = new MemoryBlobStore();
  const page: Entry[] = [];
  for (let entry = 0; entry < length; entry++) {
    const bytes = encodeBody(entry);
    const external = isExternal(entry) ? `bodies/${entry}` : undefined;
    if (external !== undefined) await blobs.put(external, bytes);
    const body = external === undefined ? ({ format: 'bytes', bytes } as const) : undefined;
    page.push({ log: LOG, position: { segment: 3, entry }, created: 1, type: 'Set', version: 1, body, external });
  }
  return { blobs, page };
}

async function fold(
  blobs: BlobStore,
  pages: readonly (readonly Entry[])[],
  onFold: (body: Value, draft: Draft) => Promise<void> | void,
  nodes = nodeStore(),
): Promise<number> {
  const reducer: Reducer = {
    name: 'numbers',
    version: 1,
    fold: async (draft, { body }) => {
      await onFold(body, draft);
    },
  };
  async function* each(): AsyncGenerator<readonly Entry[]> {
    yield* pages;
  }
  const keepBounded = saveWhenOver(nodes, BATCH_BYTES);
  return foldEntries(new Draft(nodes), each(), { reducer, blobs, types: RESERVED_TYPES, keepBounded });
}

test('few bodies are held at once however many a page has, each until it is folded, and all are folded in order', async () => {
  const { blobs, page } = await pageOf(100, (entry) => entry % 3 !== 0);
  let fetched = 0;
  const counted = aroundBlobStore(blobs, async (_, effect) => {
    fetched++;
    return effect();
  });
  const folded: Value[] = [];
  const held: number[] = [];
  let done = 0;
  expect(
    await fold(counted, [page, page], async (body) => {
      await setImmediate();
      held.push(fetched - done);
      folded.push(body);
      if (Number(body) % 3 !== 0) done++;
    }),
  ).toBe(200);
  const numbers = page.map(({ position }) => position.entry);
  expect(folded).toEqual([...numbers, ...numbers]);
  expect(Math.max(...held)).toBe(AT_ONCE);
  expect(fetched).toBe(2 * 66);
});

test('as many bodies as are held at once are on their way at once, though entries between them have theirs inside', async () => {
  const { blobs, page } = await pageOf(96, (entry) => entry % 2 === 1);
  let waiting: PromiseWithResolvers<void>[] = [];
  const rounds: number[] = [];
  const gated = aroundBlobStore(blobs, async (_, effect) => {
    const gate = Promise.withResolvers<void>();
    waiting.push(gate);
    await gate.promise;
    return effect();
  });
  let folded = 0;
  const folding = fold(gated, [page], () => {
    folded++;
  });
  while (folded < page.length) {
    await setImmediate();
    if (waiting.length === 0) continue;
    rounds.push(waiting.length);
    for (const gate of waiting) gate.resolve();
    waiting = [];
  }
  await folding;
  expect(rounds).toEqual([AT_ONCE, AT_ONCE, AT_ONCE]);
});

test.each([1, 20])('a body that is missing fails its own entry, %i after the first, and none before it', async (at) => {
  const { blobs, page } = await pageOf(50, () => true);
  await blobs.delete([`bodies/${at}`]);
  const folded: Value[] = [];
  const folding = fold(blobs, [page], async (body) => {
    // Long enough for the loads that fail meanwhile to count as unhandled, were they.
    for (let i = 0; i < 5; i++) await setImmediate();
    folded.push(body);
  });
  await expect(folding).rejects.toMatchObject({ code: 'EXTERNAL_MISSING', log: LOG, segment: 3, entry: at });
  expect(folded).toEqual(page.slice(0, at).map(({ position }) => position.entry));
});

test('a body that is missing is nothing to a fold that fails before its entry', async () => {
  const { blobs, page } = await pageOf(5, () => true);
  await blobs.delete(['bodies/2']);
  const folding = fold(blobs, [page], () => {
    throw new Error('no');
  });
  await expect(folding).rejects.toMatchObject({ code: 'FOLD_FAILED', log: LOG, segment: 3, entry: 0 });
  await setImmediate();
});

test('what large bodies leave behind is written out before their page is at its end', async () => {
  const { blobs, page } = await pageOf(50, (entry) => entry % 2 === 1);
  const nodes = nodeStore();
  const text = 'x'.repeat(BATCH_BYTES / 5);
  const held: number[] = [];
  await fold(
    blobs,
    [page],
    (body, draft) => {
      const map = draft.map('texts', 'number');
      if (Number(body) % 2 === 1) map.put(Number(body), `${body} ${text}`);
      held.push(draft.heldBytes);
    },
    nodes,
  );
  expect(Math.max(...held)).toBeGreaterThan(BATCH_BYTES);
  expect(Math.max(...held)).toBeLessThan(BATCH_BYTES * 1.3);
  expect(nodes.counts.written).toBeGreaterThan(20);
});
