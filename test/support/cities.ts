import { onTestFinished } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import type { Value } from '../../src/codec/value.ts';
import type { NewEntry } from '../../src/log/client.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { type CellEdit, sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog, rowsOf } from './live-logs.ts';

export const entryOf = (type: string, body: Value): NewEntry => ({ type, version: 1, body });
export const cells = (...edits: CellEdit[]): NewEntry => entryOf('Set', sheetBody({ type: 'Set', cells: edits }));
export const insertRows = (position: number, count = 1): NewEntry => entryOf('Insert Rows', [position, count]);
export const deleteRows = (position: number, count = 1): NewEntry => entryOf('Delete Rows', [position, count]);

/** How an entry gets into the log. */
export const WAYS = ['append', 'mutate'] as const;
export const send = (document: Document, way: (typeof WAYS)[number], entry: NewEntry) =>
  way === 'append' ? document.append(entry) : document.mutate(entry);

/** A log with a table of cities, opened by two clients. */
export async function cities(
  options: { readonly reducer?: Reducer; readonly reloadAfter?: { readonly entries: number } } = {},
) {
  const live = await LiveLog.create();
  const { reducer = spreadsheet, ...others } = options;
  await live.sheet.edit({
    type: 'Set',
    cells: [
      [0, 0, 'city'],
      [1, 0, 'Austin'],
      [2, 0, 'Denver'],
      [3, 0, 'Provo'],
    ],
  });
  const ann = await live.open({ reducer, ...others });
  const ben = await live.open({ reducer });
  // Otherwise a fault could let a pending entry be sent again without an end.
  onTestFinished(() => ann.close());
  return { live, ann, ben };
}

export async function firstColumn(document: Document): Promise<string[]> {
  await document.refresh();
  return (await rowsOf(document)).map(([first = '']) => first);
}
