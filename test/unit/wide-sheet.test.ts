import { afterEach, expect, test, vi } from 'vitest';
import { Draft } from '../../src/state/draft.ts';
import { EditableMap } from '../../src/state/draft-map.ts';
import { MAX_ROWS } from '../../src/state/spreadsheet/cell-key.ts';
import { type SheetEdit, sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import type { Cell } from '../../src/state/spreadsheet/sheet.ts';
import { saveState } from '../../src/state/state.ts';
import { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { sheetEntry } from '../support/models/sheet-model.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const STRIPES = 1000;
const INSERTIONS = 100;
/** Columns of 1,000 stripes, one in each. */
const columns = Array.from({ length: STRIPES }, (_, stripe) => stripe * 128 + 5);

/**
 * A saved sheet with a cell of row 0 in each of these columns, and many runs of empty rows below
 * it.
 */
async function wideSheet(more: readonly SheetEdit[] = []): Promise<{ draft: Draft; chunks: number; store: NodeStore }> {
  const chunks = new MemoryChunks();
  const writer = nodeStore({ shape: SMALL_SHAPE }, chunks);
  const draft = new Draft(writer);
  const edits: SheetEdit[] = [
    { type: 'Set', cells: columns.map((column) => [0, column, 'wide']) },
    ...Array.from(
      { length: INSERTIONS },
      (_, i): SheetEdit => ({ type: 'Insert Rows', position: 2 * i + 1, count: 1 }),
    ),
    ...more,
  ];
  for (const edit of edits) await spreadsheet.fold(draft, sheetEntry(edit));
  const state = await draft.state();
  await saveState(writer, state);
  const store = nodeStore({ shape: SMALL_SHAPE }, chunks);
  return { draft: new Draft(store, state), chunks: chunks.stored.size, store };
}

/** Reads cells, and counts visited nodes and started walks. */
async function counted(cells: AsyncIterable<Cell>): Promise<{ cells: Cell[]; nodes: number; walks: number }> {
  const loads = vi.spyOn(NodeStore.prototype, 'load');
  const walks = vi.spyOn(EditableMap.prototype, 'items');
  const found = await Array.fromAsync(cells);
  return { cells: found, nodes: loads.mock.calls.length, walks: walks.mock.calls.length };
}

test('reading empty rows visits each node a few times, for any number of stripes and runs', async () => {
  const { draft, chunks, store } = await wideSheet();
  const { cells, nodes, walks } = await counted(sheetOf(draft).cells({ from: 1, to: MAX_ROWS }));
  expect(cells).toEqual([]);
  expect(nodes).toBeLessThan(8 * chunks);
  expect(store.counts.read).toBeLessThanOrEqual(chunks);
  // The two walks are the runs of both axes. No stripe is walked.
  expect(walks).toBeLessThanOrEqual(2);
});

test('reading a wide sheet walks only stripes and runs with cells', async () => {
  const set: SheetEdit = { type: 'Set', cells: [120, 60, 9].map((row) => [row, row * 1000, 'deep']) };
  const { draft } = await wideSheet([set]);
  const { cells, walks } = await counted(sheetOf(draft).cells());
  expect(walks).toBeLessThanOrEqual(2 + STRIPES + 3);
  expect(cells.slice(0, STRIPES)).toEqual(columns.map((column) => ({ row: 0, column, value: 'wide' })));
  expect(cells.slice(STRIPES).map(({ row, column }) => [row, column])).toEqual([
    [9, 9000],
    [60, 60_000],
    [120, 120_000],
  ]);
  expect(await sheetOf(draft).usedRange()).toEqual({ rows: 121, columns: STRIPES * 128 - 122 });
});

test('deleting rows of a wide sheet reads nothing until the edits are applied, and then each node once', async () => {
  const { draft, chunks, store } = await wideSheet();
  const loads = vi.spyOn(NodeStore.prototype, 'load');
  for (let i = 0; i < INSERTIONS; i++) {
    await spreadsheet.fold(draft, sheetEntry({ type: 'Delete Rows', position: 3 * i + 1, count: 1 }));
  }
  const axis = loads.mock.calls.length;
  await draft.state();
  expect(loads.mock.calls.length - axis).toBeLessThan(8 * chunks);
  expect(store.counts.read).toBeLessThanOrEqual(chunks);
});

test('the used range is found without reading large values', async () => {
  const { draft, store } = await wideSheet([{ type: 'Set', cells: [[3, 3, 'x'.repeat(10_000)]] }]);
  const values = vi.spyOn(store, 'loadValue');
  expect(await sheetOf(draft).usedRange()).toEqual({ rows: 4, columns: STRIPES * 128 - 122 });
  expect(values).not.toHaveBeenCalled();
});
