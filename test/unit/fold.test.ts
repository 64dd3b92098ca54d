import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { NodeFoldWatch } from '../../src/adapters/platform/fold-watch.ts';
import type { ChunkId } from '../../src/codec/chunk.ts';
import type { Value } from '../../src/codec/value.ts';
import { BodyInvalidError, StateUnsupportedError, StoreUnavailableError } from '../../src/errors.ts';
import { encodeBody, MAX_BODY_BYTES } from '../../src/log/body.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { foldEntries, saveWhenOver } from '../../src/snapshot/fold.ts';
import { Draft, MAX_MAPS } from '../../src/state/draft.ts';
import type { FoldEntry, Reducer, ReducerDraft } from '../../src/state/reducer.ts';
import { saveState } from '../../src/state/state.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { interceptBlobStore } from '../support/stores/interceptor.ts';

const AT_ONCE = 16;
const BATCH_BYTES = 1_000_000;

/** A page of entries, some with external bodies. Each body is the entry's number. */
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
  const draft = new Draft(nodes);
  const reducer: Reducer = {
    name: 'numbers',
    version: 1,
    fold: async (_, { body }) => {
      await onFold(body, draft);
    },
  };
  async function* each(): AsyncGenerator<readonly Entry[]> {
    yield* pages;
  }
  const keepBounded = saveWhenOver(nodes, BATCH_BYTES);
  return foldEntries(draft, each(), { reducer, blobs, types: RESERVED_TYPES, keepBounded });
}

test('a fold holds 16 external bodies at a time, each until it is folded, and folds all entries in order', async () => {
  const { blobs, page } = await pageOf(100, (entry) => entry % 3 !== 0);
  let fetched = 0;
  const counted = interceptBlobStore(blobs, async (_, effect) => {
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

test('a fold fetches 16 external bodies in parallel, even with inline bodies between them', async () => {
  const { blobs, page } = await pageOf(96, (entry) => entry % 2 === 1);
  let pending: PromiseWithResolvers<void>[] = [];
  const rounds: number[] = [];
  const gated = interceptBlobStore(blobs, async (_, effect) => {
    const gate = Promise.withResolvers<void>();
    pending.push(gate);
    await gate.promise;
    return effect();
  });
  let folded = 0;
  const folding = fold(gated, [page], () => {
    folded++;
  });
  while (folded < page.length) {
    await setImmediate();
    if (pending.length === 0) continue;
    rounds.push(pending.length);
    for (const gate of pending) gate.resolve();
    pending = [];
  }
  await folding;
  expect(rounds).toEqual([AT_ONCE, AT_ONCE, AT_ONCE]);
});

test.each([1, 20])('a missing body fails only its own entry, %i after the first', async (at) => {
  const { blobs, page } = await pageOf(50, () => true);
  await blobs.delete([`bodies/${at}`]);
  const folded: Value[] = [];
  const folding = fold(blobs, [page], async (body) => {
    // Give loads that fail in the meantime time to become unhandled rejections.
    for (let i = 0; i < 5; i++) await setImmediate();
    folded.push(body);
  });
  await expect(folding).rejects.toMatchObject({ code: 'EXTERNAL_MISSING', log: LOG, segment: 3, entry: at });
  expect(folded).toEqual(page.slice(0, at).map(({ position }) => position.entry));
});

test('a missing body has no effect on a fold that fails before its entry', async () => {
  const { blobs, page } = await pageOf(5, () => true);
  await blobs.delete(['bodies/2']);
  const folding = fold(blobs, [page], () => {
    throw new Error('no');
  });
  await expect(folding).rejects.toMatchObject({ code: 'FOLD_FAILED', log: LOG, segment: 3, entry: 0 });
  await setImmediate();
});

test('edits from large external bodies are written before the end of their page', async () => {
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

test('edits from a page of many entries are written before its end', async () => {
  const { blobs, page } = await pageOf(2000, () => false);
  const nodes = nodeStore();
  const text = 'x'.repeat(2000);
  const held: number[] = [];
  const onFold = (body: Value, draft: Draft): void => {
    draft.map('texts', 'number').put(Number(body), `${body} ${text}`);
    held.push(draft.heldBytes);
  };
  await fold(blobs, [page], onFold, nodes);
  expect(Math.max(...held)).toBeGreaterThan(BATCH_BYTES);
  // 500 entries are folded between two checks.
  expect(Math.max(...held)).toBeLessThan(BATCH_BYTES + 500 * 2200);
});

/** A proxy of a LogfoldError that throws on every access. */
function hostile(): unknown {
  const fail = (): never => {
    throw new TypeError('touched');
  };
  return new Proxy(new BodyInvalidError('x'), { get: fail, getPrototypeOf: fail, ownKeys: fail, set: fail });
}

function cyclic(): Error {
  const error = new Error('a cycle');
  error.cause = error;
  return error;
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const THROWN: readonly (readonly [string, unknown, string])[] = [
  ['null', null, 'null'],
  ['undefined', undefined, 'undefined'],
  ['a symbol', Symbol('odd'), 'Symbol(odd)'],
  ['a function', Object.assign(() => undefined, { toString: null }), 'a function without a text'],
  ['an object without a prototype', Object.create(null), 'an object without a text'],
  ['a revoked proxy', revoked(), 'an object without a text'],
  ['an object whose getters throw', hostile(), 'an object without a text'],
  ['an error with itself as its cause', cyclic(), 'a cycle'],
  ['a very long text', 'x'.repeat(1e6), 'xxx'],
  ['an object with the prototype of a LogfoldError', Object.create(BodyInvalidError.prototype), ''],
  ['a frozen LogfoldError', Object.freeze(new BodyInvalidError('frozen')), 'frozen'],
  ['a transient LogfoldError that no store threw', new StoreUnavailableError('made up'), 'made up'],
];

test.each(THROWN)('a reducer that throws %s stops its log with a code', async (_, thrown, text) => {
  const { blobs, page } = await pageOf(3, () => false);
  const folding = fold(blobs, [page], (body) => {
    if (body === 1) throw thrown;
  });
  const error = await folding.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(error).toMatchObject({ code: 'FOLD_FAILED', stopsLog: true, log: LOG, segment: 3, entry: 1 });
  expect(error).toMatchObject({ message: expect.stringContaining(text) });
  // Loggers print these.
  expect(inspect(error, { depth: 10 }).length).toBeLessThan(100_000);
  expect(JSON.stringify(error)).toContain('FOLD_FAILED');
});

test('a LogfoldError of a reducer gets the place of the folded entry', async () => {
  const { blobs, page } = await pageOf(3, () => false);
  const folding = fold(blobs, [page], (body) => {
    if (body === 2) throw new BodyInvalidError('no', { segment: 99, entry: 99 });
  });
  await expect(folding).rejects.toMatchObject({ code: 'BODY_INVALID', log: LOG, segment: 3, entry: 2 });
});

const LEFT: readonly (readonly [string, (draft: Draft) => Promise<void> | void])[] = [
  ['a running operation', (draft) => void draft.map('numbers', 'number').firstKey(0)],
  ['an edit after an operation', (draft) => void editAfter(draft, draft.map('numbers', 'number').count())],
  ['a later edit of a map', (draft) => void editAfter(draft, setImmediate())],
  ['a later edit of metadata', (draft) => void setImmediate().then(() => draft.meta.set('late', 1))],
  ['a later read', (draft) => void setImmediate().then(() => draft.map('numbers', 'number').get(1))],
];

async function editAfter(draft: ReducerDraft, before: Promise<unknown>): Promise<void> {
  await before;
  draft.map('numbers', 'number').put(1, 'late');
}

test.each(LEFT)('a reducer that leaves %s behind stops its log', { tags: ['I7'] }, async (_, leave) => {
  const { blobs, page } = await pageOf(2, (entry) => entry === 1);
  const slow = interceptBlobStore(blobs, async (_call, effect) => {
    for (let i = 0; i < 5; i++) await setImmediate();
    return effect();
  });
  const folding = fold(slow, [page], (body, draft) => {
    if (body === 0) return leave(draft);
  });
  await expect(folding).rejects.toMatchObject({ code: 'FOLD_FAILED', log: LOG, segment: 3, entry: 0 });
  await expect(folding).rejects.toThrow('left work behind');
});

test('a reducer that leaves an edit behind stops its log, even if it waits in the next entry', {
  tags: ['I7'],
}, async () => {
  const { blobs, page } = await pageOf(2, () => false);
  const draft = new Draft(nodeStore());
  const fold = (handed: ReducerDraft, { body }: FoldEntry): void | Promise<void> => {
    if (body === 1) return setImmediate();
    void editAfter(handed, Promise.resolve());
  };
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    yield page;
  }
  const options = { reducer: { name: 'late', version: 1, fold }, blobs, types: RESERVED_TYPES };
  const folding = foldEntries(draft, pages(), options);
  await expect(folding).rejects.toMatchObject({ code: 'FOLD_FAILED', log: LOG, segment: 3, entry: 0 });
  await expect(folding).rejects.toThrow('left work behind');
});

test('a late edit has no effect, and the check before publishing finds it', async () => {
  const { blobs, page } = await pageOf(1, () => false);
  const draft = new Draft(nodeStore());
  const reducer: Reducer = { name: 'late', version: 1, fold: (handed) => void editAfter(handed, setImmediate()) };
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    yield page;
  }
  await foldEntries(draft, pages(), { reducer, blobs, types: RESERVED_TYPES });
  draft.use.check();
  await setImmediate();
  await setImmediate();
  expect((await draft.state()).maps.size).toBe(0);
  expect(() => draft.use.check()).toThrow('left work behind');
});

test('an error of the store reaches the job even if the reducer catches or replaces it', async () => {
  const { blobs, page } = await pageOf(1, () => false);
  const unavailable = new StoreUnavailableError('a slow day');
  let isDown = false;
  const chunks = new MemoryChunks();
  const get = (id: ChunkId) => (isDown ? Promise.reject(unavailable) : chunks.get(id));
  const nodes = nodeStore({ cacheBytes: 0 }, { get, put: (id, stored) => chunks.put(id, stored) });
  const base = new Draft(nodes);
  const map = base.map('numbers', 'number');
  for (let key = 0; key < 100_000; key++) map.put(key, key);
  const state = await base.state();
  await saveState(nodes, state);
  isDown = true;
  for (const answer of [undefined, new Error('gave up')]) {
    const draft = new Draft(nodes, state);
    const reducer: Reducer = {
      name: 'careless',
      version: 1,
      fold: async (handed) => {
        await handed
          .map('numbers', 'number')
          .get(1)
          .catch(() => undefined);
        if (answer !== undefined) throw answer;
      },
    };
    async function* pages(): AsyncGenerator<readonly Entry[]> {
      yield page;
    }
    await expect(foldEntries(draft, pages(), { reducer, blobs, types: RESERVED_TYPES })).rejects.toBe(unavailable);
  }
});

test('a reducer reads the metadata of an entry, and its changes do not reach the entry', async () => {
  const { blobs, page } = await pageOf(2, () => false);
  const metadata = { correlation: 'order-7', tags: ['a'] };
  const seen: unknown[] = [];
  const reducer: Reducer = {
    name: 'tags',
    version: 1,
    fold: (_, entry) => {
      seen.push(inspect(entry.metadata));
      if (Array.isArray(entry.metadata?.tags)) entry.metadata.tags.push('changed');
    },
  };
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    yield page.map((entry, i) => (i === 0 ? { ...entry, metadata } : entry));
  }
  for (let times = 0; times < 2; times++) {
    await foldEntries(new Draft(nodeStore()), pages(), { reducer, blobs, types: RESERVED_TYPES });
  }
  expect(seen).toEqual([inspect(metadata), 'undefined', inspect(metadata), 'undefined']);
});

test.each([
  [100_000, 16, 20],
  [3_000_000, 11, 20],
  [20_000_000, 3, 6],
  [50_000_000, 2, 6],
])('a fold of bodies of %i bytes holds at most %i of them at a time', async (bytes, atMost, bodies) => {
  const blobs = new MemoryBlobStore();
  const stored = encodeBody('x'.repeat(bytes));
  const page: Entry[] = [];
  for (let entry = 0; entry < bodies; entry++) {
    await blobs.put(`bodies/${entry}`, stored);
    const external = `bodies/${entry}`;
    page.push({ log: LOG, position: { segment: 0, entry }, created: 1, type: 'Set', version: 1, external });
  }
  // Count whole objects only, since parts of large objects are small.
  let [given, folded, most] = [0, 0, 0];
  const counted = interceptBlobStore(blobs, async (name, effect) => {
    if (name === 'get' || stored.length <= 131_072) most = Math.max(most, ++given - folded);
    return effect();
  });
  await fold(counted, [page], async () => {
    for (let i = 0; i < 5; i++) await setImmediate();
    folded++;
  });
  expect(given).toBe(bodies);
  expect(most).toBeLessThanOrEqual(atMost);
  expect(most).toBeGreaterThan(0);
});

test('a watched fold lets the process do other work after each page, even if it waits for nothing', async () => {
  const { blobs, page } = await pageOf(5, () => false);
  let folded = 0;
  const reducer: Reducer = { name: 'numbers', version: 1, fold: () => void folded++ };
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    for (let i = 0; i < 10; i++) yield page;
  }
  let [turns, most] = [0, 0];
  const folding = foldEntries(new Draft(nodeStore()), pages(), {
    reducer,
    blobs,
    types: RESERVED_TYPES,
    watch: new NodeFoldWatch(),
  });
  while (folded < 50) {
    const before = folded;
    await setImmediate();
    turns++;
    most = Math.max(most, folded - before);
  }
  expect(await folding).toBe(50);
  expect(turns).toBeGreaterThan(5);
  expect(most).toBeLessThanOrEqual(2 * page.length);
});

test('a body above the limit is refused before it is fetched', async () => {
  const { page } = await pageOf(3, (entry) => entry === 1);
  class Huge extends MemoryBlobStore {
    override getRange = async () => ({ bytes: new Uint8Array(131_072), size: MAX_BODY_BYTES + 1 });
    override get = () => Promise.reject(new Error('fetched'));
  }
  const huge = new Huge();
  const folding = fold(huge, [page], () => undefined);
  await expect(folding).rejects.toMatchObject({ code: 'BODY_UNDECODABLE', log: LOG, segment: 3, entry: 1 });
});

test('maps count towards the memory of a draft, and their number is limited', async () => {
  const draft = new Draft(nodeStore());
  for (let i = 0; i < MAX_MAPS; i++) draft.map(`map ${i}`, 'number').put(1, 1);
  expect(draft.heldBytes).toBeGreaterThan(MAX_MAPS * 2000);
  await draft.map('empty', 'number').get(1);
  await draft.checkEntry();
  draft.map('another', 'number').put(1, 1);
  await expect(draft.checkEntry()).rejects.toThrow(StateUnsupportedError);
  draft.map('map 7', 'number').delete(1);
  await draft.checkEntry();
});
