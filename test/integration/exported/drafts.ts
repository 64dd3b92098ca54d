import { expect } from 'vitest';
import type { Draft } from '../../../src/state/draft.ts';
import type { DraftMap } from '../../../src/state/draft-map.ts';
import type { DraftMeta } from '../../../src/state/meta.ts';
import type { Reducer, ReducerDraft } from '../../../src/state/reducer.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import type { Sheet } from '../../../src/state/spreadsheet/sheet.ts';
import { rangeSet } from '../../../src/tree/range-delete.ts';
import type { Call, MemberCalls } from './recorder.ts';
import { EDITS, PAST, SEGMENTS, type World } from './world.ts';

/** Folds the log from its beginning, which is in archives, and runs at its second entry. */
async function inFold(world: World, run: (draft: ReducerDraft) => unknown): Promise<void> {
  const reducer: Reducer = {
    name: 'numbers',
    version: 1,
    fold: async (draft, { number = 0 }) => {
      draft.map('numbers', 'number').put(number, 'value');
      draft.meta.set('newest', number);
      if (number === 2) await run(draft);
    },
  };
  const { number } = await world.logs.open(world.log, { reducer });
  expect(number).toBeGreaterThanOrEqual(SEGMENTS * EDITS);
}

const inMap = (check: (map: DraftMap) => unknown): Call => {
  return (world) => inFold(world, (draft) => check(world.record('DraftMap', draft.map('numbers', 'number'))));
};

export const DRAFT_MAP: MemberCalls<DraftMap> = {
  kind: inMap((map) => expect(map.kind).toBe('number')),
  buffers: inMap((map) => expect(map.buffers).toBe(false)),
  put: inMap(async (map) => {
    map.put(3, 'three', 5);
    expect(await map.get(3)).toBe('three');
  }),
  delete: inMap(async (map) => {
    map.delete(1);
    expect(await map.get(1)).toBeUndefined();
  }),
  deleteRange: inMap(async (map) => {
    map.deleteRange({ from: 1, to: 2 });
    expect(await map.count()).toBe(1);
  }),
  get: inMap(async (map) => expect(await map.get(2)).toBe('value')),
  count: inMap(async (map) => expect(await map.count()).toBe(2)),
  weight: inMap(async (map) => expect(await map.weight()).toBe(2)),
  atOffset: inMap(async (map) => expect(await map.atOffset(1)).toMatchObject({ key: 2 })),
  items: inMap(async (map) => expect(await Array.fromAsync(map.items(), ({ key }) => key)).toEqual([1, 2])),
  firstKey: inMap(async (map) => expect(await map.firstKey(2)).toBe(2)),
  keys: inMap(async (map) => expect((await Array.fromAsync(map.keys())).flat()).toEqual([1, 2])),
  firstKeys: inMap(async (map) => expect(await map.firstKeys(rangeSet({ from: 1, to: 2 }))).toEqual([1])),
};

const inMeta = (check: (meta: DraftMeta) => unknown): Call => {
  return (world) => inFold(world, (draft) => check(world.record('DraftMeta', draft.meta)));
};

export const DRAFT_META: MemberCalls<DraftMeta> = {
  size: inMeta((meta) => expect(meta.size).toBe(1)),
  has: inMeta((meta) => expect([meta.has('newest'), meta.has('none')]).toEqual([true, false])),
  get: inMeta((meta) => expect(meta.get('newest')).toBe(2)),
  set: inMeta((meta) => {
    meta.set('more', [1]);
    expect(meta.get('more')).toEqual([1]);
  }),
  delete: inMeta((meta) => expect([meta.delete('newest'), meta.size]).toEqual([true, 0])),
  clear: inMeta((meta) => {
    meta.clear();
    expect(meta.size).toBe(0);
  }),
  keys: inMeta((meta) => expect([...meta.keys()]).toEqual(['newest'])),
  values: inMeta((meta) => expect([...meta.values()]).toEqual([2])),
  entries: inMeta((meta) => expect([...meta.entries()]).toEqual([['newest', 2]])),
  forEach: inMeta((meta) => {
    const seen: unknown[] = [];
    meta.forEach((value, name) => void seen.push([name, value]));
    expect(seen).toEqual([['newest', 2]]);
  }),
};

/** The draft of the log before its entry number 4. */
async function loaded(world: World): Promise<Draft> {
  const { deps, types } = world.stores();
  return (await world.logfold.loadState({ ...deps, types, reducer: spreadsheet }, world.log, { at: PAST })).draft;
}

const inDraft = (check: (draft: Draft) => unknown): Call => {
  return async (world) => check(world.record('Draft', await loaded(world)));
};

export const DRAFT: MemberCalls<Draft> = {
  meta: inDraft(({ meta }) => expect(meta.size).toBe(0)),
  use: inDraft(({ use }) => expect(use.isFolding).toBe(false)),
  map: inDraft(async (draft) => {
    const cells = draft.map('cells', 'number', { buffers: true }).items();
    expect(await Array.fromAsync(cells, ({ value }) => value)).toEqual(['value 1', 'value 2', 'value 3']);
  }),
  mutations: inDraft(async ({ mutations }) => expect(await mutations.get('nobody')).toBeUndefined()),
  history: inDraft(async ({ history }) => expect(await Array.fromAsync(history.items())).toEqual([])),
  checkEntry: inDraft((draft) => expect(draft.checkEntry()).toBeUndefined()),
  hasUnchecked: inDraft(({ hasUnchecked }) => expect(hasUnchecked).toBe(false)),
  heldBytes: inDraft((draft) => {
    const before = draft.heldBytes;
    draft.map('cells', 'number', { buffers: true }).put(7, 'x'.repeat(1000));
    expect(draft.heldBytes).toBeGreaterThan(before);
  }),
  evaluate: inDraft((draft) => {
    let evaluated = 0;
    draft.map('cells', 'number', { buffers: true }).put(7, () => ++evaluated);
    draft.evaluate();
    expect(evaluated).toBe(1);
  }),
  state: inDraft(async (draft) => expect([...(await draft.state()).maps.keys()]).toEqual(['cells'])),
};

/** Checks the rows of the sheet, which were `value 1` to `value 3`, after an edit. */
const inSheet = (edit: (sheet: Sheet) => unknown, rows: readonly string[][]): Call => {
  return async (world) => {
    const sheet = world.spreadsheet.sheetOf(await loaded(world));
    await edit(world.record('Sheet', sheet));
    expect(await Array.fromAsync(world.spreadsheet.sheetRows(sheet))).toEqual(rows);
  };
};

const ROWS = [['value 1'], ['value 2'], ['value 3']];
const [FIRST = [], SECOND = [], THIRD = []] = ROWS;

export const SHEET: MemberCalls<Sheet> = {
  rows: inSheet(async ({ rows }) => expect(await rows.idAt(0)).toBeTypeOf('number'), ROWS),
  columns: inSheet(async ({ columns }) => expect(await columns.idAt(0)).toBeTypeOf('number'), ROWS),
  set: inSheet((sheet) => sheet.set(1, 0, 'other'), [FIRST, ['other'], THIRD]),
  insertRows: inSheet((sheet) => sheet.insertRows(1, 1), [FIRST, [], SECOND, THIRD]),
  deleteRows: inSheet((sheet) => sheet.deleteRows(0, 1), [SECOND, THIRD]),
  insertColumns: inSheet(
    (sheet) => sheet.insertColumns(0, 1),
    ROWS.map((row) => ['', ...row]),
  ),
  deleteColumns: inSheet((sheet) => sheet.deleteColumns(0, 1), []),
  cells: inSheet(async (sheet) => {
    const cells = sheet.cells({ from: 1, to: 2 });
    expect(await Array.fromAsync(cells)).toMatchObject([{ row: 1, column: 0, value: 'value 2' }]);
  }, ROWS),
  usedRange: inSheet(async (sheet) => expect(await sheet.usedRange()).toEqual({ rows: 3, columns: 1 }), ROWS),
};
