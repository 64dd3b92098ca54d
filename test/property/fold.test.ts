import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { LogfoldError } from '../../src/errors.ts';
import { encodeBody } from '../../src/log/body.ts';
import { type ClientMutation, type Entry, RESERVED_TYPES, type StoredBody } from '../../src/log/entry.ts';
import { foldEntries, saveWhenOver } from '../../src/snapshot/fold.ts';
import { Draft } from '../../src/state/draft.ts';
import type { FoldEntry, Reducer, ReducerDraft } from '../../src/state/reducer.ts';
import { nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** The possible works of the reducer for an entry. It waits for the draft in `add`. */
const WORKS = ['put', 'add', 'rename', 'throw', 'reject', 'leave a read', 'leave an edit'] as const;

type Work = (typeof WORKS)[number];
type Storage = 'item' | 'object' | 'missing object' | 'damaged item' | 'nothing';

interface Change {
  readonly work: Work;
  readonly key: number;
  readonly type: string;
  readonly storage: Storage;
  readonly once?: ClientMutation | undefined;
  readonly metadata?: { readonly tags: readonly string[] } | undefined;
}

const change: fc.Arbitrary<Change> = fc.record({
  work: fc.oneof({ weight: 40, arbitrary: fc.constantFrom('put', 'add', 'rename') }, fc.constantFrom(...WORKS)),
  key: fc.nat(5),
  type: fc.oneof({ weight: 9, arbitrary: fc.constantFrom('Set', 'Other') }, fc.constantFrom('Snapshot', 'End Segment')),
  storage: fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom('item', 'item', 'object') },
    fc.constantFrom('missing object', 'damaged item', 'nothing'),
  ),
  once: fc.option(fc.record({ client: fc.constantFrom('a', 'b'), mutation: fc.integer({ min: 1, max: 9 }) }), {
    nil: undefined,
    freq: 2,
  }),
  metadata: fc.option(fc.constant({ tags: ['a'] }), { nil: undefined }),
});

interface Outcome {
  /** Numbers of the entries that the reducer saw. */
  readonly seen: number[];
  readonly items: Record<number, number>;
  readonly applied: Record<string, number>;
  readonly name: unknown;
  stopped?: { readonly code: string; readonly entry: number | undefined; readonly type: string | undefined };
}

/** The outcome by the rules of a fold, without drafts and promises. */
function expected(changes: readonly Change[]): Outcome {
  const outcome: Outcome = { seen: [], items: {}, applied: {}, name: undefined };
  const stop = (code: string, entry: number): Outcome => {
    outcome.stopped = { code, entry, type: changes[entry]?.type };
    return outcome;
  };
  for (const [entry, { work, key, type, storage, once }] of changes.entries()) {
    if (RESERVED_TYPES.includes(type)) continue;
    if (once !== undefined) {
      if (once.mutation <= (outcome.applied[once.client] ?? 0)) continue;
      outcome.applied[once.client] = once.mutation;
    }
    if (storage === 'missing object') return stop('EXTERNAL_MISSING', entry);
    if (storage === 'damaged item') return stop('BODY_UNDECODABLE', entry);
    outcome.seen.push(entry);
    if (storage === 'nothing') continue;
    if (work === 'put') outcome.items[key] = entry;
    else if (work === 'add') outcome.items[key] = (outcome.items[key] ?? 0) + entry;
    else if (work === 'rename') Object.assign(outcome, { name: { entry } });
    else return stop('FOLD_FAILED', entry);
  }
  return outcome;
}

function reducerFor(seen: number[]): Reducer {
  const add = async (draft: ReducerDraft, key: number, entry: number): Promise<void> => {
    const items = draft.map('items', 'number');
    const before = await items.get(key);
    await Promise.resolve();
    items.put(key, Number(before ?? 0) + entry);
  };
  const fold = (draft: ReducerDraft, { position: { entry }, body, metadata }: FoldEntry): void | Promise<void> => {
    seen.push(entry);
    if (metadata !== undefined) {
      // Other folds of the entry must not see this.
      if (JSON.stringify(metadata) !== '{"tags":["a"]}') throw new Error('the metadata has changed');
      if (Array.isArray(metadata.tags)) metadata.tags.push('changed');
    }
    if (!Array.isArray(body)) return;
    const [work, key] = body;
    const items = draft.map('items', 'number');
    if (work === 'put') items.put(key, entry);
    else if (work === 'add') return add(draft, key, entry);
    else if (work === 'rename') draft.meta.set('name', { entry });
    else if (work === 'reject') return Promise.reject(new Error('no'));
    else if (work === 'leave a read') void items.get(key);
    else if (work === 'leave an edit') void Promise.resolve().then(() => items.put(key, -1));
    else throw new Error('no');
  };
  return { name: 'random', version: 1, fold };
}

async function entryOf(blobs: MemoryBlobStore, given: Change, entry: number): Promise<Entry> {
  const { work, key, type, storage, once, metadata } = given;
  const bytes = encodeBody([work, key]);
  const external = storage === 'object' || storage === 'missing object' ? `bodies/${entry}` : undefined;
  if (storage === 'object') await blobs.put(`bodies/${entry}`, bytes);
  const body: StoredBody | undefined =
    storage === 'item'
      ? { format: 'bytes', bytes }
      : storage === 'damaged item'
        ? { format: 'json', text: '{' }
        : undefined;
  return { log: LOG, position: { segment: 0, entry }, created: 1, type, version: 1, body, external, once, metadata };
}

async function actual(changes: readonly Change[], pageEntries: number): Promise<Outcome> {
  const blobs = new MemoryBlobStore();
  const entries = await Promise.all(changes.map((each, entry) => entryOf(blobs, each, entry)));
  const nodes = nodeStore();
  const draft = new Draft(nodes);
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    for (let from = 0; from < entries.length; from += pageEntries) yield entries.slice(from, from + pageEntries);
  }
  const seen: number[] = [];
  const keepBounded = saveWhenOver(nodes, 100);
  const reducer = reducerFor(seen);
  const folding = foldEntries(draft, pages(), { reducer, blobs, types: RESERVED_TYPES, keepBounded });
  let stopped: Outcome['stopped'];
  try {
    expect(await folding).toBe(changes.length);
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    expect(error).toMatchObject({ log: LOG, segment: 0, stopsLog: true });
    stopped = { code: error.code, entry: error.entry, type: error.type };
  }
  draft.use.release();
  const contents = async (map: { items(): AsyncIterable<{ key: unknown; value: unknown }> }) =>
    Object.fromEntries((await Array.fromAsync(map.items())).map(({ key, value }) => [String(key), value]));
  return {
    seen,
    items: (await contents(draft.map('items', 'number'))) as Outcome['items'],
    applied: (await contents(draft.mutations)) as Outcome['applied'],
    name: draft.meta.get('name'),
    ...(stopped && { stopped }),
  };
}

test('a fold of any reducer and any bodies has the outcome of folding the entries one by one', { tags: ['I7'] }, () =>
  fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 40 }), fc.integer({ min: 1, max: 40 }), async (changes, entries) => {
      expect(await actual(changes, entries)).toEqual(expected(changes));
    }),
    { numRuns: propertyRuns(500) },
  ),
);
