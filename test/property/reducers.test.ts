import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { LogfoldError } from '../../src/errors.ts';
import { encodeBody } from '../../src/log/body.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { foldEntries } from '../../src/snapshot/fold.ts';
import { Draft } from '../../src/state/draft.ts';
import { flushState, saveState } from '../../src/state/state.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { flushedHash } from '../support/models/flushed-hash.ts';
import {
  type RandomEntry,
  type RandomReducerOptions,
  type Reads,
  randomEntries,
  randomReducer,
  show,
} from '../support/models/random-reducers.ts';
import { reloaded } from '../support/models/reloaded.ts';
import { propertyRuns } from '../support/property-runs.ts';

/**
 * An event between two entries: nothing, a write of the draft as for a large batch, a snapshot that
 * another process loads and continues from, or the same with a flushed snapshot.
 */
type Between = 'nothing' | 'write' | 'snapshot' | 'flush';

const options = { shape: SMALL_SHAPE, cacheBytes: 5000 };

function entryOf({ body, once }: RandomEntry, entry: number): Entry {
  const position = { segment: 0, entry };
  const stored = { format: 'bytes', bytes: encodeBody(body) } as const;
  return { log: LOG, position, created: 1, type: 'Change', version: 1, body: stored, once };
}

async function* onePage(entry: Entry): AsyncGenerator<readonly Entry[]> {
  yield [entry];
}

/**
 * All observable results of a fold: the entry that stopped it, the reads of the reducer, and the
 * state.
 */
async function outcome(
  entries: readonly RandomEntry[],
  between: (index: number) => Between,
  late?: RandomReducerOptions,
): Promise<unknown> {
  const chunks = new MemoryChunks();
  const reads: Reads = [];
  const random = randomReducer(entries, reads, late);
  let nodes = nodeStore(options, chunks);
  let draft = new Draft(nodes);
  for (const [index, each] of entries.entries()) {
    const blobs = new MemoryBlobStore();
    try {
      await foldEntries(draft, onePage(entryOf(each, index)), { reducer: random, blobs, types: RESERVED_TYPES });
    } catch (error) {
      if (!(error instanceof LogfoldError)) throw error;
      expect(error).toMatchObject({ stopsLog: true, log: LOG, segment: 0, entry: index });
      return { stopped: index, code: error.code, reads };
    }
    const then = between(index);
    if (then === 'nothing') continue;
    const state = await draft.state({ savesEarly: true });
    await saveState(nodes, state);
    if (then === 'write') continue;
    const next = await reloaded(nodes, then === 'flush' ? await flushState(nodes, state) : state, index + 1);
    nodes = nodeStore(options, chunks);
    draft = new Draft(nodes, next);
  }
  const state = await reloaded(nodes, await draft.state(), entries.length);
  const reader = nodeStore(options, chunks);
  const maps: unknown[] = [];
  for (const [name, map] of (await flushState(reader, state)).maps) {
    maps.push([name, map.kind, show(await Array.fromAsync(mergedValues(reader, map)))]);
  }
  const meta = show([...new Draft(reader, state).meta]);
  return { hash: await flushedHash(chunks, state, options), reads, maps, meta };
}

describe('a fold of a random reducer', () => {
  test('a snapshot after every entry changes neither the reads nor the state of a fold', {
    tags: ['I9'],
  }, async () => {
    let [stopped, ended] = [0, 0];
    await fc.assert(
      fc.asyncProperty(randomEntries, async (entries) => {
        const plain = await outcome(entries, () => 'nothing');
        expect(await outcome(entries, () => 'snapshot')).toEqual(plain);
        if (Object.hasOwn(Object(plain), 'stopped')) stopped++;
        else ended++;
      }),
      { numRuns: propertyRuns(400, 80) },
    );
    // The test needs folds that stop and folds that do not.
    expect(Math.min(stopped, ended)).toBeGreaterThan(propertyRuns(20));
  });

  test('snapshots, writes and flushes at any entry change neither the reads nor the state of a fold', {
    tags: ['I9'],
  }, async () => {
    const between = fc.constantFrom<Between[]>('nothing', 'write', 'snapshot', 'flush');
    const plan = fc.array(between, { minLength: 13, maxLength: 13 });
    await fc.assert(
      fc.asyncProperty(randomEntries, plan, async (entries, where) => {
        const plain = await outcome(entries, () => 'nothing');
        expect(await outcome(entries, (index) => where[index] ?? 'nothing')).toEqual(plain);
      }),
      { numRuns: propertyRuns(250) },
    );
  });

  test('late values give the reads and the state that values give, and are evaluated once at most', {
    tags: ['I9'],
  }, async () => {
    const between = fc.constantFrom<Between[]>('nothing', 'nothing', 'write', 'snapshot', 'flush');
    const plan = fc.array(between, { minLength: 13, maxLength: 13 });
    const counts = { put: 0, evaluated: 0 };
    await fc.assert(
      fc.asyncProperty(randomEntries, plan, async (entries, where) => {
        const plain = await outcome(entries, () => 'nothing', { eager: true });
        expect(await outcome(entries, (index) => where[index] ?? 'nothing', { counts })).toEqual(plain);
      }),
      { numRuns: propertyRuns(400, 80) },
    );
    expect(counts.evaluated).toBeLessThan(counts.put);
  });
});
