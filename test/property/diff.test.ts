import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { decodeRoot, encodeRoot } from '../../src/snapshot/root.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import type { FoldEntry, Reducer } from '../../src/state/reducer.ts';
import { type SheetEdit, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { diffAxis, diffSheets } from '../../src/state/spreadsheet/sheet-diff.ts';
import { flushState, saveState } from '../../src/state/state.ts';
import { diffStates } from '../../src/state/state-diff.ts';
import { lowerBound } from '../../src/tree/key.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { randomEntries, randomReducer } from '../support/models/random-reducers.ts';
import { sheetEdits, sheetEntry } from '../support/models/sheet-model.ts';
import { applyDiff, dumpItems, dumpSheet, movedBy } from '../support/models/state-diff.ts';
import { propertyRuns } from '../support/property-runs.ts';

/**
 * An event between two entries: nothing, a new draft of the same state, or a snapshot that another
 * process loads.
 */
type Then = 'nothing' | 'new draft' | 'snapshot' | 'flush';

const thens = fc.array(fc.constantFrom<Then[]>('nothing', 'nothing', 'new draft', 'snapshot', 'flush'), {
  minLength: 20,
  maxLength: 20,
});
const options = { shape: SMALL_SHAPE, cacheBytes: 5000 };

/** The states after each entry, up to the first that the reducer refuses. */
async function statesOf(
  reducer: Reducer,
  entries: readonly FoldEntry[],
  then: readonly Then[],
): Promise<FrozenState[]> {
  const chunks = new MemoryChunks();
  let nodes = nodeStore(options, chunks);
  let draft = new Draft(nodes);
  const states = [new FrozenState(nodes, await draft.state())];
  for (const [i, entry] of entries.entries()) {
    try {
      await reducer.fold(draft, entry);
      await draft.checkEntry();
      states.push(new FrozenState(nodes, await draft.state()));
    } catch {
      return states;
    }
    const next = then[i % then.length];
    if (next === 'new draft') draft = new Draft(nodes, await draft.state());
    if (next !== 'snapshot' && next !== 'flush') continue;
    const state = next === 'flush' ? await flushState(nodes, await draft.state()) : await draft.state();
    await saveState(nodes, state);
    const at = { log: LOG, position: { segment: 0, entry: i + 1 } };
    const { id, stored } = encodeRoot(nativePlatform, { ...at, reducer, state });
    nodes = nodeStore(options, chunks);
    const loaded = decodeRoot(nativePlatform, stored, { ...at, id }).state;
    draft = new Draft(nodes, loaded);
    if (i % 2 === 0) states[states.length - 1] = new FrozenState(nodes, loaded);
  }
  return states;
}

/** Enough cells for several leaves. A sheet of one leaf buffers no edits. */
const FULL: SheetEdit = {
  type: 'Set',
  cells: Array.from({ length: 120 }, (_, i) => [i % 30, Math.floor(i / 30), `cell ${i}`] as const),
};

/** Two of the states, in any order. */
function pick(states: readonly FrozenState[], a: number, b: number): [FrozenState, FrozenState] {
  const [before, after] = [states[a % states.length], states[b % states.length]];
  if (before === undefined || after === undefined) throw new Error('there is no state');
  return [before, after];
}

describe('a diff of states', () => {
  test('the changes of a sheet make one state of the other, and name each cell that differs once', async () => {
    const indexes = fc.tuple(fc.nat(), fc.nat());
    await fc.assert(
      fc.asyncProperty(sheetEdits(40), thens, indexes, async (edits, then, [a, b]) => {
        const states = await statesOf(spreadsheet, [FULL, ...edits].map(sheetEntry), then);
        const [before, after] = pick(states, a, b);
        const changes = await Array.fromAsync(diffSheets(before, after));
        expect(applyDiff(await dumpSheet(before), changes)).toEqual(await dumpSheet(after));
        const [left, right] = await Promise.all([before, after].map(dumpItems));
        const cells = [...new Set([...(left?.keys() ?? []), ...(right?.keys() ?? [])])].filter(
          (place) => place.startsWith('item cells') && left?.get(place) !== right?.get(place),
        );
        expect(changes.filter(({ kind }) => kind === 'cell')).toHaveLength(cells.length);
      }),
      { numRuns: propertyRuns(250) },
    );
  });

  test('the changes of other states make one state of the other', async () => {
    const indexes = fc.tuple(fc.nat(), fc.nat());
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(randomEntries, thens, indexes, async (entries, then, [a, b]) => {
        const folded = entries.map(({ body }, entry): FoldEntry => {
          return {
            position: { segment: 0, entry },
            log: LOG,
            created: 0,
            createdMs: 0,
            type: 'Change',
            version: 1,
            body,
          };
        });
        const [before, after] = pick(await statesOf(randomReducer(entries, []), folded, then), a, b);
        const changes = await Array.fromAsync(diffStates(before, after));
        const [left, right] = [await dumpItems(before), await dumpItems(after)];
        expect(applyDiff(left, changes)).toEqual(right);
        if (changes.length > 0) compared++;
      }),
      { numRuns: propertyRuns(200, 40) },
    );
    expect(compared).toBeGreaterThan(propertyRuns(20));
  });
});

describe('a diff of rows', () => {
  test('it says where each row went, and takes as few as possible out of their order', () => {
    // All edits happen in the first part. Deleted rows stay in the last part.
    const [size, part] = [2400, 200];
    const move = fc.record({ inserts: fc.boolean(), position: fc.nat({ max: 40 }), count: fc.nat({ max: 6 }) });
    const moves = fc.array(move, { maxLength: 12, size: 'max' });
    const edited = (
      ids: readonly number[],
      steps: readonly { inserts: boolean; position: number; count: number }[],
    ) => {
      const edits = [...ids];
      for (const { inserts, position, count } of steps) {
        if (inserts) edits.splice(position, 0, ...edits.splice(size - count, count));
        else edits.push(...edits.splice(position, count));
      }
      return edits;
    };
    const runs = (ids: readonly number[]) => ids.map((id, start) => ({ id, length: 1, start }));
    fc.assert(
      fc.property(moves, moves, (first, later) => {
        const before = edited(
          Array.from({ length: size }, (_, id) => id),
          first,
        );
        const after = edited(before, later);
        const found = diffAxis(runs(before), runs(after));
        const places = new Map(after.map((id, position) => [id, position]));
        const fates = before.map((id) => places.get(id) ?? -1);
        const removed = new Set(
          found.flatMap((each) => (each.change === 'removed' ? span(each.from, each.count) : [])),
        );
        const inserted = new Set(
          found.flatMap((each) => (each.change === 'inserted' ? span(each.to, each.count) : [])),
        );
        for (const [position, to] of fates.slice(0, part).entries()) {
          expect(removed.has(position)).toBe(to >= size / 2);
          if (to < size / 2) expect(movedBy(found, position)).toBe(to);
        }
        for (let to = 0; to < part; to++) expect(inserted.has(to)).toBe(fates.indexOf(to) >= size / 2);
        const taken = found.reduce((total, { count }) => total + count, 0);
        expect(taken).toBeLessThanOrEqual(size - longestAscending(fates));
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

function span(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

/** The length of the longest ascending subsequence. */
function longestAscending(numbers: readonly number[]): number {
  /** The least last number of the subsequences of each length. */
  const lasts: number[] = [];
  for (const number of numbers) lasts[lowerBound(lasts, number)] = number;
  return lasts.length;
}
