import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { EMPTY_STATE } from '../../src/state/state.ts';
import { nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { sheetEntry } from '../support/models/sheet-model.ts';

/** A state with a map of each kind of keys, and a metadata record. */
async function frozenState() {
  const store = nodeStore({ shape: SMALL_SHAPE });
  const draft = new Draft(store);
  draft.meta.set('title', 'orders').set('tags', ['a', 'b']);
  for (let i = 0; i < 100; i++) draft.map('numbers', 'number').put(i, { i });
  draft.map('texts', 'string').put('one', 1);
  return { frozen: new FrozenState(store, await draft.state()), draft };
}

describe('a frozen state', () => {
  test('it names its maps and gives the kinds of their keys', async () => {
    const { frozen } = await frozenState();
    expect(frozen.mapNames).toEqual(['numbers', 'texts']);
    expect([frozen.map('numbers').kind, frozen.map('texts').kind]).toEqual(['number', 'string']);
    expect(frozen.map('numbers')).toBe(frozen.map('numbers', 'number'));
  });

  test('a map that it does not have is empty', async () => {
    const { frozen } = await frozenState();
    const map = frozen.map('other', 'number');
    expect(map.kind).toBeUndefined();
    expect([await map.get(1), await map.has(1), await Array.fromAsync(map.range())]).toEqual([undefined, false, []]);
    expect(frozen.mapNames).not.toContain('other');
  });

  test('a value that a reader changes stays the same for other readers', async () => {
    const { frozen } = await frozenState();
    const map = frozen.map('numbers');
    Object.assign(Object(await map.get(3)), { i: 'changed' });
    Object.assign(Object(frozen.meta.get('tags')), { 0: 'changed' });
    expect(await map.get(3)).toEqual({ i: 3 });
    expect(frozen.meta.get('tags')).toEqual(['a', 'b']);
  });

  test('edits through its draft throw and change nothing', async () => {
    const { frozen, draft } = await frozenState();
    const map = frozen.draft.map('numbers', 'number');
    const edits: (() => unknown)[] = [
      () => map.put(1, 'x'),
      () => map.put(1, 'x', 2),
      () => map.delete(1),
      () => map.deleteRange({ from: 0, to: 9 }),
      () => frozen.draft.map('new', 'string').put('x', 1),
      () => frozen.draft.meta.set('title', 'x'),
      () => frozen.draft.meta.delete('title'),
      () => frozen.draft.meta.clear(),
    ];
    for (const edit of edits) {
      expect(edit).toThrow(
        new UsageError('a loaded state is read-only', { advice: 'Append an entry that makes the change' }),
      );
    }
    expect(await map.get(1)).toEqual({ i: 1 });
    expect([await map.count(), await map.firstKey(5)]).toEqual([100, 5]);
    expect([...frozen.draft.meta]).toEqual([...draft.meta]);
    expect(await draft.state()).toEqual(frozen.state);
  });

  test('the wrong kind of keys is refused, and later reads work', async () => {
    const { frozen } = await frozenState();
    expect(() => frozen.map('numbers', 'string')).toThrow("map 'numbers' has number keys, not string keys");
    expect(() => frozen.draft.map('numbers', 'string')).toThrow(UsageError);
    expect(() => frozen.map('numbers').range({ from: 'a' })).toThrow(UsageError);
    expect(() => frozen.map('numbers').range({ to: Number.NaN })).toThrow(UsageError);
    await expect(frozen.map('texts').get(1)).rejects.toThrow("1 cannot be a key of map 'texts', which has string keys");
    await expect(frozen.map('texts').has(1)).rejects.toThrow(UsageError);
    expect(await frozen.draft.map('numbers', 'number').get(1)).toEqual({ i: 1 });
    expect(await frozen.map('texts').get('one')).toBe(1);
  });

  test.each([-1, 1.5, Number.NaN, Number.NEGATIVE_INFINITY])('a range refuses the limit %s', async (limit) => {
    const { frozen } = await frozenState();
    expect(() => frozen.map('numbers').range({ limit })).toThrow(UsageError);
  });

  test('a range ends at its limit', async () => {
    const { frozen } = await frozenState();
    const keys = async (limit: number) =>
      (await Array.fromAsync(frozen.map('numbers').range({ from: 10, limit }))).map(({ key }) => key);
    expect([await keys(0), await keys(3)]).toEqual([[], [10, 11, 12]]);
    expect(await keys(1000)).toHaveLength(90);
  });

  test('the empty state has no maps and no metadata', async () => {
    const frozen = new FrozenState(nodeStore(), EMPTY_STATE);
    expect([frozen.mapNames, frozen.meta.size, await frozen.map('a').get('x')]).toEqual([[], 0, undefined]);
  });
});

test('a sheet reads a frozen state and cannot edit it', async () => {
  const store = nodeStore({ shape: SMALL_SHAPE });
  const draft = new Draft(store);
  await spreadsheet.fold(
    draft,
    sheetEntry({
      type: 'Set',
      cells: [
        [2, 3, 'a'],
        [2, 400, 'b'],
      ],
    }),
  );
  const frozen = new FrozenState(store, await draft.state());
  await spreadsheet.fold(draft, sheetEntry({ type: 'Delete Rows', position: 0, count: 2 }));
  const sheet = sheetOf(frozen.draft);
  const cells = [
    { row: 2, column: 3, value: 'a' },
    { row: 2, column: 400, value: 'b' },
  ];
  expect(await Array.fromAsync(sheet.cells())).toEqual(cells);
  await expect(sheet.insertRows(0, 1)).rejects.toThrow(UsageError);
  await expect(Promise.try(() => sheet.set(2, 3, 'c'))).rejects.toThrow(UsageError);
  expect(await Array.fromAsync(sheet.cells())).toEqual(cells);
  expect(await sheet.usedRange()).toEqual({ rows: 3, columns: 401 });
  expect(sheetOf(frozen.draft)).toBe(sheet);
});
