import { setImmediate as blocked } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ChunkId } from '../../src/codec/chunk.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { type State, saveState } from '../../src/state/state.ts';
import { EditBatch } from '../../src/tree/batch.ts';
import { type BufferedTree, mergedValues } from '../../src/tree/buffered-tree.ts';
import { editTree } from '../../src/tree/edit.ts';
import { NODE_SHAPE } from '../../src/tree/node-builder.ts';
import { type RangeRead, READ_AHEAD } from '../../src/tree/read.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { sheetEntry } from '../support/models/sheet-model.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** Answers requests in rounds: all requests so far together, when the reader waits for them. */
class RoundChunks extends MemoryChunks {
  readonly requests: ChunkId[] = [];
  rounds = 0;
  /** The most requests of a round. */
  widest = 0;
  #waiting: (() => void)[] = [];

  constructor(like: MemoryChunks) {
    super();
    for (const [id, stored] of like.stored) this.stored.set(id, stored);
  }

  override async get(id: ChunkId): Promise<Uint8Array | undefined> {
    this.requests.push(id);
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return super.get(id);
  }

  /** Runs a reader to its end. Everything except requests is done when the event loop turns. */
  async run<T>(reading: Promise<T>): Promise<T> {
    let done = false;
    const settled = reading.finally(() => {
      done = true;
    });
    settled.catch(() => undefined);
    for (await blocked(); !done; await blocked()) {
      if (this.#waiting.length > 0) this.answer();
    }
    return settled;
  }

  /** Answers all requests so far. */
  answer(): void {
    const answered = this.#waiting.splice(0);
    this.rounds++;
    this.widest = Math.max(this.widest, answered.length);
    for (const answer of answered) answer();
  }
}

/** Leaves of a few items, and inner nodes of about 60 children. */
const SHAPE = { minBytes: 1500, maxBytes: 6000, spreadBytes: 1200 };

/** Folds edits into a draft and saves its state. Folds more edits afterwards, if there are any. */
async function saved(edit: (draft: Draft) => unknown, more?: (draft: Draft) => unknown, shape = SHAPE) {
  const chunks = new MemoryChunks();
  const store = nodeStore({ shape }, chunks);
  const draft = new Draft(store);
  for (const step of [edit, more]) {
    await step?.(draft);
    await saveState(store, await draft.state());
  }
  return { state: await draft.state(), chunks: new RoundChunks(chunks) };
}

/** A map of 500 items, about three per leaf. */
function manyItems(draft: Draft): void {
  for (let i = 0; i < 500; i++) draft.map('items', 'number', { buffers: true }).put(i, `item ${i}`.padEnd(800));
}

/** A reader without a cache. */
function frozen(chunks: RoundChunks, state: State): FrozenState {
  return new FrozenState(nodeStore({ shape: SHAPE, cacheBytes: 0 }, chunks), state);
}

function mapOf(state: State, name: string): BufferedTree {
  const map = state.maps.get(name);
  if (map === undefined) throw new Error(`the state has no map '${name}'`);
  return map;
}

/** The chunks that a reader of a range needs, in order. */
async function needed(state: State, chunks: RoundChunks, range: RangeRead): Promise<ChunkId[]> {
  const again = new RoundChunks(chunks);
  const store = nodeStore({ shape: SHAPE }, again);
  await again.run(Array.fromAsync(mergedValues(store, mapOf(state, 'items'), range)));
  expect(again.widest).toBeLessThanOrEqual(1);
  return again.requests.toSorted();
}

test('edits of many leaves request eight leaves ahead, and fetch each chunk once', async () => {
  const { state, chunks } = await saved(manyItems);
  const store = nodeStore({ shape: SHAPE }, chunks);
  const batch = new EditBatch('number');
  // Values of the same length, so that no leaf is cut elsewhere and reaches into the next one.
  for (let i = 0; i < 500; i += 10) batch.put(i, `edit ${i}`.padEnd(800), 1);
  await chunks.run(editTree(store, mapOf(state, 'items').tree, batch.resolve(store)));
  const fetched = chunks.requests.length;
  expect(fetched).toBeGreaterThan(40);
  expect(new Set(chunks.requests).size).toBe(fetched);
  // Two more rounds for each inner node.
  expect(chunks.rounds).toBeLessThanOrEqual(Math.ceil(fetched / READ_AHEAD) + 10);
  expect(chunks.widest).toBeLessThanOrEqual(READ_AHEAD);
});

describe('a range of a map', () => {
  test('it takes a round per level, and then one per eight leaves', async () => {
    const { state, chunks } = await saved(manyItems);
    const items = await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range()));
    expect(items).toHaveLength(500);
    expect(mapOf(state, 'items').tree.top?.level).toBe(2);
    const leaves = chunks.requests.length;
    expect(leaves).toBeGreaterThan(100);
    // One more round at each change of the inner node.
    expect(chunks.rounds).toBeLessThanOrEqual(1 + Math.ceil(leaves / READ_AHEAD) + 3);
    expect(chunks.widest).toBeLessThanOrEqual(READ_AHEAD + 1);
  });

  test('it fetches each chunk of the range once, and none outside', async () => {
    const { state, chunks } = await saved(manyItems);
    for (const range of [{}, { from: 77, to: 78 }, { from: 100, to: 130 }, { from: 460 }, { to: 40 }, { from: 600 }]) {
      for (const reverse of [false, true]) {
        const own = new RoundChunks(chunks);
        await own.run(
          Array.fromAsync(
            frozen(own, state)
              .map('items')
              .range({ ...range, reverse }),
          ),
        );
        expect(own.requests.toSorted()).toEqual(await needed(state, chunks, { ...range, reverse }));
      }
    }
  });

  test('in reverse it takes as many chunks and rounds, and none below its range', async () => {
    const { state, chunks } = await saved(manyItems);
    const items = await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range({ reverse: true })));
    expect(items.map(({ key }) => key)).toEqual(Array.from({ length: 500 }, (_, i) => 499 - i));
    expect(chunks.requests.toSorted()).toEqual(await needed(state, chunks, {}));
    expect(chunks.rounds).toBeLessThanOrEqual(1 + Math.ceil(chunks.requests.length / READ_AHEAD) + 3);
    const levels = mapOf(state, 'items').tree.top?.level;
    for (let key = 0; key <= 500; key += 7) {
      const own = new RoundChunks(chunks);
      const before = frozen(own, state).map('items').range({ to: key, limit: 1, reverse: true });
      expect((await own.run(Array.fromAsync(before))).map((item) => item.key)).toEqual(key === 0 ? [] : [key - 1]);
      // An inner node and a leaf.
      expect([own.requests.length, own.rounds]).toEqual([levels, levels]);
    }
  });

  test('its last item takes a chunk per level, in the tree and in the write buffer', async () => {
    const { state, chunks } = await saved(manyItems, (draft) => {
      for (let i = 0; i < 500; i += 10) draft.map('items', 'number', { buffers: true }).put(i, 'x'.padEnd(100));
    });
    const last = frozen(chunks, state).map('items').range({ reverse: true, limit: 1 });
    expect((await chunks.run(Array.fromAsync(last))).map(({ key }) => key)).toEqual([499]);
    expect([chunks.requests.length, chunks.rounds]).toEqual([3, 2]);
  });

  test('it requests no leaf after its limit', async () => {
    const { state, chunks } = await saved(manyItems);
    const limit = 20;
    const items = await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range({ from: 50, limit })));
    expect(items.map(({ key }) => key)).toEqual(Array.from({ length: limit }, (_, i) => 50 + i));
    expect(chunks.requests.toSorted()).toEqual(await needed(state, chunks, { from: 50, to: 50 + limit }));
    expect(chunks.rounds).toBe(2);
  });

  test('its tree and its write buffer are read in parallel', async () => {
    const { state, chunks } = await saved(manyItems, (draft) => {
      for (let i = 0; i < 500; i += 10) draft.map('items', 'number', { buffers: true }).put(i, 'x'.padEnd(100));
    });
    expect(mapOf(state, 'items').buffer.top?.level).toBe(1);
    const range = { from: 100, to: 101 };
    const items = await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range(range)));
    expect(items).toEqual([{ key: 100, value: 'x'.padEnd(100) }]);
    expect([chunks.requests.length, chunks.rounds]).toEqual([3, 2]);
  });

  test('large values are requested ahead', async () => {
    const { state, chunks } = await saved((draft) => {
      for (let i = 0; i < 33; i++) draft.map('items', 'number').put(i, `${i}`.padEnd(5000));
    });
    expect(mapOf(state, 'items').tree.top?.level).toBe(0);
    const items = await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range()));
    expect(items.map(({ key, value }) => [key, Number(value)])).toEqual(Array.from({ length: 33 }, (_, i) => [i, i]));
    expect([chunks.requests.length, chunks.widest]).toEqual([33, READ_AHEAD + 1]);
    expect(chunks.rounds).toBeLessThanOrEqual(1 + Math.ceil(33 / READ_AHEAD));
    const own = new RoundChunks(chunks);
    await own.run(Array.fromAsync(frozen(own, state).map('items').range({ limit: 3 })));
    expect([own.requests.length, own.rounds]).toEqual([3, 1]);
  });

  test('an abandoned iteration leaves no unhandled rejection', async () => {
    const { state, chunks } = await saved(manyItems);
    const unhandled: unknown[] = [];
    const keep = (error: unknown): unknown => unhandled.push(error);
    process.on('unhandledRejection', keep);
    const items = frozen(chunks, state).map('items').range();
    expect(await chunks.run(items.next())).toMatchObject({ value: { key: 0 } });
    for (let i = 0; i < 4; i++) await chunks.run(items.next());
    const { length } = chunks.requests;
    chunks.stored.clear();
    await chunks.run(items.return(undefined));
    chunks.answer();
    await blocked();
    await blocked();
    process.off('unhandledRejection', keep);
    expect(chunks.requests).toHaveLength(length);
    expect(chunks.widest).toBeGreaterThan(1);
    expect(unhandled).toEqual([]);
  });

  test('a missing leaf fails the iteration at its place', async () => {
    const { state, chunks } = await saved(manyItems);
    await chunks.run(Array.fromAsync(frozen(chunks, state).map('items').range()));
    const last = chunks.requests.at(-1);
    if (last !== undefined) chunks.stored.delete(last);
    const keys: unknown[] = [];
    const reading = async () => {
      for await (const { key } of frozen(chunks, state).map('items').range()) keys.push(key);
    };
    await expect(chunks.run(reading())).rejects.toThrow(`chunk ${last} is not in the blob store`);
    expect(keys.length).toBeGreaterThan(480);
  });

  test('reading ahead changes neither the items nor the fetched chunks', async () => {
    const edit = fc.record({ key: fc.nat({ max: 500 }), length: fc.oneof(fc.nat({ max: 80 }), fc.constant(4100)) });
    const edits = fc.array(edit, { maxLength: 400, size: 'max' });
    const bound = fc.option(fc.nat({ max: 500 }), { nil: undefined });
    const options = fc.record({ from: bound, to: bound, ahead: fc.nat({ max: 10 }), reverse: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(edits, edits, options, async (first, later, { from, to, ahead, reverse }) => {
        const putAll = (all: typeof first) => (draft: Draft) => {
          const map = draft.map('items', 'number', { buffers: true });
          for (const { key, length } of all) length === 7 ? map.delete(key) : map.put(key, `${key}`.padEnd(length));
        };
        const { state, chunks } = await saved(putAll(first), putAll(later), SMALL_SHAPE);
        const map = state.maps.get('items');
        if (map === undefined) return;
        const read = async (range: RangeRead) => {
          const own = new RoundChunks(chunks);
          const store = nodeStore({ shape: SMALL_SHAPE, cacheBytes: 0 }, own);
          const items = await own.run(Array.fromAsync(mergedValues(store, map, range)));
          return { items, requests: own.requests.toSorted() };
        };
        const plain = await read({ from, to, reverse });
        expect(await read({ from, to, ahead, reverse })).toEqual(plain);
        const forward = await read({ from, to });
        expect(plain.items.toReversed()).toEqual(reverse ? forward.items : forward.items.toReversed());
      }),
      { numRuns: propertyRuns(60) },
    );
  });
});

describe('a view of a sheet', () => {
  test('50 x 20 cells of a million take at most four chunks, in one round', async () => {
    const put = async (draft: Draft): Promise<void> => {
      for (let row = 0; row < 50_000; row += 500) {
        const cells = Array.from({ length: 10_000 }, (_, i) => [row + Math.floor(i / 20), i % 20, row + i] as const);
        await spreadsheet.fold(draft, sheetEntry({ type: 'Set', cells }));
      }
    };
    const change = async (draft: Draft): Promise<void> => {
      const cells = Array.from({ length: 5000 }, (_, i) => [(i * 7919) % 50_000, i % 20, `changed ${i}`] as const);
      await spreadsheet.fold(draft, sheetEntry({ type: 'Set', cells }));
    };
    const { state, chunks } = await saved(put, change, NODE_SHAPE);
    expect(mapOf(state, 'cells').buffer.top).toBeDefined();
    for (let from = 0; from < 50_000; from += 997) {
      const own = new RoundChunks(chunks);
      const sheet = sheetOf(new FrozenState(nodeStore({}, own), state).draft);
      const cells = await own.run(Array.fromAsync(sheet.cells({ from, to: from + 50 }, { from: 0, to: 20 })));
      expect(cells).toHaveLength(20 * Math.min(50, 50_000 - from));
      expect(own.requests.length).toBeLessThanOrEqual(4);
      expect(own.rounds).toBe(1);
    }
  });

  test('rows that were inserted at many places are read in parallel', async () => {
    const { state, chunks } = await saved(
      async (draft) => {
        const cells = Array.from({ length: 3000 }, (_, row) => [row, 0, `row ${row}`.padEnd(200)] as const);
        await spreadsheet.fold(draft, sheetEntry({ type: 'Set', cells }));
      },
      async (draft) => {
        // Row i of the view comes from far below.
        for (let i = 0; i < 24; i++) {
          await spreadsheet.fold(draft, sheetEntry({ type: 'Delete Rows', position: i + 1, count: 100 }));
        }
      },
    );
    const view = { from: 0, to: 24 };
    const sheet = sheetOf(new FrozenState(nodeStore({ shape: SHAPE }, chunks), state).draft);
    const cells = await chunks.run(Array.fromAsync(sheet.cells(view, { from: 0, to: 1 })));
    expect(cells).toHaveLength(24);
    expect(chunks.requests.length).toBeGreaterThan(20);
    expect(chunks.rounds).toBeLessThanOrEqual(Math.ceil(chunks.requests.length / READ_AHEAD) + 6);
    expect(new Set(chunks.requests).size).toBe(chunks.requests.length);
  });
});
