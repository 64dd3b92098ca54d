import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { parseSheetEdit, sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';

/** A reducer with a sheet, comments and a title. */
const planner: Reducer = {
  name: 'planner',
  version: 1,
  async fold(draft, { type, body }) {
    if (type === 'Title') draft.meta.set('title', body);
    if (type === 'Comment') draft.map('comments', 'string').put(String(body), 'open');
    if (type !== 'Set') return;
    const edit = parseSheetEdit('Set', body);
    if (edit.type !== 'Set') return;
    for (const [row, column, value] of edit.cells) await sheetOf(draft).set(row, column, value);
  },
};
const votes: Reducer = {
  name: 'votes',
  version: 1,
  fold: (draft, { body }) => draft.map('rows', 'number').put(Number(body), true),
};

const CORNER = { rows: { from: 0, to: 2 }, columns: { from: 0, to: 1 } };
const entry = (type: string, body: string | [number, number, string][]) => ({ type, version: 1, body });

test.each([
  ['no rectangle', undefined, 'a rectangle takes an object with names, not undefined'],
  ['no columns', { rows: CORNER.rows }, '`columns` of a rectangle takes an object with names, not undefined'],
  ['a number of rows', { ...CORNER, rows: 2 }, '`rows` of a rectangle takes an object with names, not 2'],
])('a view of %s is refused with a clear error', async (_, rectangle, reason) => {
  const document = await (await LiveLog.create()).open({ reducer: planner });
  const refused = Reflect.apply(document.view, document, [rectangle]);
  await expect(refused).rejects.toMatchObject({ code: 'USAGE', reason });
});

describe('a document whose reducer has another name and edits a sheet', () => {
  test.each([planner, withHistory(planner)])('it has views, differences and histories of cells', async (reducer) => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer });
    expect(await document.view(CORNER)).toEqual([[null], [null]]);
    const empty = document.state;
    await document.append(entry('Title', 'Plan'));
    expect(await document.view(CORNER)).toEqual([[null], [null]]);
    await document.append(entry('Set', [[1, 0, 'Denver']]));
    const before = document.state;
    await document.append([entry('Comment', 'Why?'), entry('Set', [[1, 0, 'Austin']])]);
    expect(await document.view(CORNER)).toEqual([[null], ['Austin']]);

    expect(await Array.fromAsync(before.diff(document.state))).toEqual([
      { kind: 'cell', before: { row: 1, column: 0, value: 'Denver' }, after: { row: 1, column: 0, value: 'Austin' } },
      { kind: 'item', map: 'comments', key: 'Why?', after: 'open' },
    ]);
    expect(await Array.fromAsync(empty.diff(before))).toEqual([
      { kind: 'cell', after: { row: 1, column: 0, value: 'Denver' } },
      { kind: 'meta', name: 'title', after: 'Plan' },
    ]);
    const values = async (place: { row: number; column?: number }) =>
      (await Array.fromAsync(document.history(place))).map(({ value }) => value);
    expect(await values({ row: 1, column: 0 })).toEqual(['Denver', 'Austin']);
    expect(await values({ row: 1 })).toEqual([[[0, 'Denver']], [[0, 'Austin']]]);
  });

  test('a map with the name of a part of a sheet, but with other keys, is not a sheet', async () => {
    const document = await (await LiveLog.create()).open({ reducer: votes });
    const empty = document.state;
    await document.append(entry('Vote', '7'));
    await expect(document.view(CORNER)).rejects.toThrow(UsageError);
    await expect(document.history({ row: 0, column: 0 }).next()).rejects.toThrow(UsageError);
    expect(await Array.fromAsync(empty.diff(document.state))).toEqual([
      { kind: 'item', map: 'rows', key: 7, after: true },
    ]);
  });
});
