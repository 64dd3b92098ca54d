import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { ChunkId } from '../../src/codec/chunk.ts';
import { StateUnsupportedError } from '../../src/errors.ts';
import { encodeBody } from '../../src/log/body.ts';
import { type ClientMutation, type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { foldEntries } from '../../src/snapshot/fold.ts';
import { appliedMutation, Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { MUTATIONS_MAP, type State, saveState } from '../../src/state/state.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** Counts the entries of each text. Fails for the text `faulty`. */
const counter: Reducer = {
  name: 'counter',
  version: 1,
  fold: async (draft, { body }) => {
    if (body === 'faulty') throw new Error('the reducer cannot fold this');
    const counts = draft.map('counts', 'string');
    counts.put(String(body), Number((await counts.get(String(body))) ?? 0) + 1);
  },
};

const by = (client: string, mutation: number): ClientMutation => ({ client, mutation });

function entryOf(text: string, once?: ClientMutation): Entry {
  const body = { format: 'bytes', bytes: encodeBody(text) } as const;
  return { log: LOG, position: { segment: 0, entry: 1 }, created: 1, type: 'Count', version: 1, body, once };
}

async function* pages(entries: readonly Entry[]): AsyncGenerator<readonly Entry[]> {
  yield entries;
}

async function fold(
  nodes: NodeStore,
  entries: readonly Entry[],
  { from, blobs = new MemoryBlobStore() }: { readonly from?: State; readonly blobs?: MemoryBlobStore } = {},
): Promise<State> {
  const draft = new Draft(nodes, from);
  await foldEntries(draft, pages(entries), { reducer: counter, blobs, types: RESERVED_TYPES });
  return draft.state();
}

async function itemsOf(nodes: NodeStore, state: State, name: string): Promise<Record<string, unknown>> {
  const map = state.maps.get(name);
  const items = map === undefined ? [] : await Array.fromAsync(mergedValues(nodes, map));
  return Object.fromEntries(items.map(({ key, value }) => [key, value]));
}

describe('a fold of numbered mutations', () => {
  test('an entry has no effect if this or a later mutation of its client was applied', async () => {
    const nodes = nodeStore();
    const state = await fold(nodes, [
      entryOf('first', by('laptop', 1)),
      entryOf('first', by('laptop', 1)),
      entryOf('of another client', by('phone', 1)),
      entryOf('after a gap', by('laptop', 5)),
      entryOf('too late', by('laptop', 4)),
      entryOf('another text', by('laptop', 5)),
      entryOf('unnumbered'),
      entryOf('unnumbered'),
    ]);
    const counts = { first: 1, 'of another client': 1, 'after a gap': 1, unnumbered: 2 };
    expect(await itemsOf(nodes, state, 'counts')).toEqual(counts);
    expect(await appliedMutation(nodes, state, 'laptop')).toBe(5);
    expect(await appliedMutation(nodes, state, 'phone')).toBe(1);
    expect(await appliedMutation(nodes, state, 'tablet')).toBe(0);
  });

  test('any split of the entries between snapshots gives the same counts as a plain model', {
    tags: ['I8'],
  }, async () => {
    const entry = fc.record({
      text: fc.constantFrom('a', 'b', 'c'),
      once: fc.option(fc.record({ client: fc.constantFrom('x', 'y'), mutation: fc.integer({ min: 1, max: 6 }) })),
      splits: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 30 }), async (entries) => {
        const counts: Record<string, number> = {};
        const applied = new Map<string, number>();
        const nodes = nodeStore();
        let state = await fold(nodes, []);
        let page: Entry[] = [];
        for (const { text, once, splits } of entries) {
          page.push(entryOf(text, once ?? undefined));
          const isNew = once === null || once.mutation > (applied.get(once.client) ?? 0);
          if (isNew) counts[text] = (counts[text] ?? 0) + 1;
          if (isNew && once !== null) applied.set(once.client, once.mutation);
          if (!splits) continue;
          state = await fold(nodes, page, { from: state });
          page = [];
        }
        state = await fold(nodes, page, { from: state });
        expect(await itemsOf(nodes, state, 'counts')).toEqual(counts);
        expect(await itemsOf(nodes, state, MUTATIONS_MAP)).toEqual(Object.fromEntries(applied));
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('the reducer does not see a duplicate, so that a duplicate cannot stop the log', async () => {
    const nodes = nodeStore();
    const undecodable = {
      ...entryOf('', by('laptop', 1)),
      body: { format: 'bytes', bytes: Uint8Array.of(0xc1) },
    } as const;
    const state = await fold(nodes, [entryOf('a', by('laptop', 1)), entryOf('faulty', by('laptop', 1)), undecodable]);
    expect(await itemsOf(nodes, state, 'counts')).toEqual({ a: 1 });
    await expect(fold(nodes, [entryOf('faulty', by('laptop', 2))], { from: state })).rejects.toMatchObject({
      code: 'FOLD_FAILED',
    });
  });

  test('external bodies of duplicates take no room from later bodies', async () => {
    const nodes = nodeStore();
    const blobs = new MemoryBlobStore();
    await blobs.put('bodies/1', encodeBody('a'));
    const { body: _, ...bare } = entryOf('a', by('laptop', 1));
    const external = { ...bare, external: 'bodies/1' };
    const entries = [...Array.from({ length: 300 }, () => external), { ...external, once: by('laptop', 2) }];
    expect(await itemsOf(nodes, await fold(nodes, entries, { blobs }), 'counts')).toEqual({ a: 2 });
  });
});

describe('the state of mutations', () => {
  test('a state without mutations has no map for them', async () => {
    const state = await fold(nodeStore(), [entryOf('a')]);
    expect([...state.maps.keys()]).toEqual(['counts']);
  });

  test('a reducer that asks for its map fails, and the names of the maps of a state leave it out', async () => {
    const nodes = nodeStore();
    expect(() => new Draft(nodes).map(MUTATIONS_MAP, 'string')).toThrow(StateUnsupportedError);
    const state = await fold(nodes, [entryOf('a', by('laptop', 1))]);
    expect([...state.maps.keys()]).toEqual(['counts', MUTATIONS_MAP]);
    expect(new FrozenState(nodes, state).mapNames).toEqual(['counts']);
  });

  test('entries without a mutation read no chunk of the mutations, others one chunk per client at most', async () => {
    const chunks = new MemoryChunks();
    const writer = nodeStore({}, chunks);
    const clients = Array.from({ length: 20_000 }, (_, i) => `0192f7a0-0000-7000-8000-${String(i).padStart(12, '0')}`);
    const state = await fold(
      writer,
      clients.map((client) => entryOf('a', by(client, 1))),
    );
    await saveState(writer, state);
    let gets = 0;
    const get = (id: ChunkId) => chunks.get(id).finally(() => gets++);
    const counting = () => nodeStore({}, { get, put: (id, stored) => chunks.put(id, stored) });

    await fold(
      counting(),
      Array.from({ length: 50 }, () => entryOf('a')),
      { from: state },
    );
    expect(gets).toBe(0);
    const one = Array.from({ length: 50 }, (_, i) => entryOf('a', by('0192f7a0-0000-7000-8000-000000000777', i + 2)));
    await fold(counting(), one, { from: state });
    expect(gets).toBe(1);
    gets = 0;
    expect(await appliedMutation(counting(), state, '0192f7a0-0000-7000-8000-000000000777')).toBe(1);
    expect(gets).toBe(1);
  });
});
