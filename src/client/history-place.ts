import { UsageError } from '../errors.ts';
import { ITEMS_MAP, itemKey } from '../state/collections/collection-maps.ts';
import { foldsCollections } from '../state/collections/reducer.ts';
import type { HistoryKeys } from '../state/history/key-changes.ts';
import type { Reducer, ReducerDraft } from '../state/reducer.ts';
import { CELLS_MAP, cellKey, keyColumn, MAX_COLUMNS, MAX_ROWS, rowCells } from '../state/spreadsheet/cell-key.ts';
import { foldsSheets, sheetOf } from '../state/spreadsheet/reducer.ts';
import type { Key } from '../tree/key.ts';

/**
 * A place with a history: a key of a map; a cell or a row of a sheet, by position from 0; or an
 * item of a collection.
 */
export type HistoryPlace =
  | { readonly map: string; readonly key: Key }
  | { readonly row: number; readonly column: number }
  | { readonly row: number }
  | { readonly collection: string; readonly id: string };

export interface PlaceKeys {
  readonly keys: HistoryKeys;
  /** For a row: the column of a cell, by the cell's key. */
  readonly columnOf?: (key: Key) => number;
}

/**
 * The keys of a place, as a state has them.
 * @throws UsageError if it is not a place, or if the reducer folds neither sheets nor collections
 */
export async function keysOfPlace(place: HistoryPlace, draft: ReducerDraft, reducer: Reducer): Promise<PlaceKeys> {
  if ('map' in place && typeof place.map === 'string' && isKey(place.key)) return { keys: place };
  if ('collection' in place && typeof place.collection === 'string' && typeof place.id === 'string') {
    requireReducer('collections', foldsCollections(reducer), reducer);
    return { keys: { map: ITEMS_MAP, key: itemKey(place.collection, place.id) } };
  }
  if (!('row' in place) || !isBelow(place.row, MAX_ROWS) || ('column' in place && !isBelow(place.column, MAX_COLUMNS)))
    throw new UsageError('this place has no history', {
      advice: 'Give { map, key }, { row, column }, { row } or { collection, id }; rows and columns count from 0',
    });
  requireReducer('sheets', foldsSheets(reducer), reducer);
  const sheet = sheetOf(draft);
  const row = await sheet.rows.idAt(place.row);
  if ('column' in place) {
    return { keys: { map: CELLS_MAP, key: cellKey(row, await sheet.columns.idAt(place.column)) } };
  }
  const columns = await Array.fromAsync(sheet.columns.runs());
  return {
    keys: { map: CELLS_MAP, range: rowCells(row, 1) },
    columnOf: (key) => {
      const id = keyColumn(Number(key));
      const run = columns.find((each) => id >= each.id && id < each.id + each.length);
      return run === undefined ? MAX_COLUMNS : run.start + id - run.id;
    },
  };
}

function requireReducer(kind: string, folds: boolean, { name }: Reducer): void {
  if (folds) return;
  throw new UsageError(`the states of reducer '${name}' are not ${kind}`, {
    advice: 'Give the place as a map and a key',
  });
}

function isKey(key: unknown): key is Key {
  return typeof key === 'string' || (typeof key === 'number' && Number.isSafeInteger(key) && key >= 0);
}

function isBelow(number: unknown, limit: number): boolean {
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 && number < limit;
}
