import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Draft } from '../../src/state/draft.ts';
import { Axis } from '../../src/state/spreadsheet/axis.ts';
import { cellKey, keyColumn, keyRow, MAX_COLUMNS, MAX_ROWS } from '../../src/state/spreadsheet/cell-key.ts';
import { type CellEdit, type SheetEdit, sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { flushState, saveState, stateHash } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { SheetModel, sheetEdits, sheetEntry } from '../support/models/sheet-model.ts';
import { readRows } from '../support/models/versioned-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';

/**
 * Folds edits. After each edit with `saves`, saves the state and starts from the saved state again.
 */
async function fold(store: NodeStore, edits: readonly SheetEdit[], saves: readonly boolean[]): Promise<Draft> {
  let draft = new Draft(store);
  for (const [i, edit] of edits.entries()) {
    await spreadsheet.fold(draft, sheetEntry(edit));
    if (saves[i] !== true) continue;
    const state = await draft.state();
    await saveState(store, state);
    draft = new Draft(store, state);
  }
  return draft;
}

async function hashOf(store: NodeStore, draft: Draft): Promise<string> {
  const state = await flushState(store, await draft.state());
  await saveState(store, state);
  return stateHash(store.platform, state) ?? '';
}

describe('the spreadsheet reducer', () => {
  test('the reducer gives the cells and used range of a model with arrays, with saves in between', async () => {
    await fc.assert(
      fc.asyncProperty(sheetEdits(60), fc.array(fc.boolean(), { maxLength: 60 }), async (edits, saves) => {
        const model = new SheetModel();
        for (const edit of edits) model.apply(edit);
        const draft = await fold(nodeStore({ shape: SMALL_SHAPE }), edits, saves);
        expect(await readRows(draft)).toEqual(model.trimmed());
        const rows = model.trimmed();
        const columns = Math.max(0, ...rows.map((row) => row.length));
        expect(await sheetOf(draft).usedRange()).toEqual({ rows: rows.length, columns });
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('equal edits give equal state hashes, regardless of batches and saves', {
    tags: ['I1', 'I9'],
  }, async () => {
    await fc.assert(
      fc.asyncProperty(sheetEdits(60), fc.array(fc.boolean(), { maxLength: 60 }), async (edits, saves) => {
        const [one, other] = [nodeStore({ shape: SMALL_SHAPE }), nodeStore({ shape: SMALL_SHAPE })];
        const whole = await hashOf(one, await fold(one, edits, []));
        expect(await hashOf(other, await fold(other, edits, saves))).toBe(whole);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('equal cells give equal state hashes, regardless of their order and grouping', async () => {
    const cell = fc.tuple(fc.nat({ max: MAX_ROWS - 1 }), fc.nat({ max: MAX_COLUMNS - 1 }), fc.string({ minLength: 1 }));
    const cells = fc.uniqueArray(cell, {
      maxLength: 200,
      size: 'max',
      selector: ([row, column]) => `${row}/${column}`,
    });
    const plan = cells.chain((list) =>
      fc.record({
        list: fc.constant<CellEdit[]>(list),
        shuffled: fc.shuffledSubarray<CellEdit>(list, { minLength: list.length }),
        group: fc.integer({ min: 1, max: 50 }),
        saves: fc.array(fc.boolean(), { maxLength: 60 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(plan, async ({ list, shuffled, group, saves }) => {
        const groups: SheetEdit[] = [];
        for (let i = 0; i < shuffled.length; i += group)
          groups.push({ type: 'Set', cells: shuffled.slice(i, i + group) });
        const [one, other] = [nodeStore({ shape: SMALL_SHAPE }), nodeStore({ shape: SMALL_SHAPE })];
        const whole = await hashOf(one, await fold(one, [{ type: 'Set', cells: list }], []));
        expect(await hashOf(other, await fold(other, groups, saves))).toBe(whole);
      }),
      { numRuns: propertyRuns(1000) },
    );
  });

  test('a rectangle has the cells of the whole sheet in its range', async () => {
    const span = fc
      .tuple(fc.nat({ max: 40 }), fc.nat({ max: 320 }))
      .map(([a, b]) => ({ from: Math.min(a, b), to: Math.max(a, b) }));
    // A rectangle of many stripes is read in another way than a rectangle of few.
    const wide = span.map(({ from, to }) => ({ from, to: from === to ? to : to + 20_000 }));
    await fc.assert(
      fc.asyncProperty(sheetEdits(40), span, fc.oneof(span, wide), async (edits, rows, columns) => {
        const draft = await fold(nodeStore({ shape: SMALL_SHAPE }), edits, []);
        const inside = ({ row, column }: { row: number; column: number }) =>
          row >= rows.from && row < rows.to && column >= columns.from && column < columns.to;
        const order = (a: { row: number; column: number }, b: { row: number; column: number }) =>
          a.row - b.row || a.column - b.column;
        const all = await Array.fromAsync(sheetOf(draft).cells());
        const found = await Array.fromAsync(sheetOf(draft).cells(rows, columns));
        expect(found.sort(order)).toEqual(all.filter(inside).sort(order));
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

test('an axis is the permutation of a model with an array, and undoing all moves empties its map', async () => {
  const size = 40;
  const move = fc.record({ inserts: fc.boolean(), position: fc.nat({ max: size }), count: fc.nat({ max: 10 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(move, { maxLength: 30, size: 'max' }), async (moves) => {
      const map = new Draft(nodeStore({ shape: SMALL_SHAPE })).map('axis', 'string');
      const axis = new Axis(map, size);
      const ids = Array.from({ length: size }, (_, id) => id);
      const done: { readonly inserts: boolean; readonly position: number; readonly count: number }[] = [];
      for (const { inserts, position, count } of moves) {
        if (position + count > size) continue;
        done.push({ inserts, position, count });
        if (inserts) ids.splice(position, 0, ...ids.splice(size - count, count));
        else ids.push(...ids.splice(position, count));
        await (inserts ? axis.insert(position, count) : axis.delete(position, count));
        const found = await Promise.all(ids.map((_, each) => axis.idAt(each)));
        expect(found).toEqual(ids);
      }
      for (const { inserts, position, count } of done.reverse()) {
        await (inserts ? axis.delete(position, count) : axis.insert(position, count));
      }
      expect(await map.count()).toBe(0);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test('a cell key decodes to its row and column, and orders by stripe, row and column', () => {
  const cell = fc.record({ row: fc.nat({ max: MAX_ROWS - 1 }), column: fc.nat({ max: MAX_COLUMNS - 1 }) });
  fc.assert(
    fc.property(cell, cell, (a, b) => {
      const [keyA, keyB] = [cellKey(a.row, a.column), cellKey(b.row, b.column)];
      expect([keyRow(keyA), keyColumn(keyA)]).toEqual([a.row, a.column]);
      const stripe = Math.floor(a.column / 128) - Math.floor(b.column / 128);
      expect(Math.sign(keyA - keyB)).toBe(Math.sign(stripe || a.row - b.row || a.column - b.column));
    }),
  );
});
