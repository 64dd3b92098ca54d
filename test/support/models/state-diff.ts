import { expect } from 'vitest';
import type { StateChange } from '../../../src/client/document-state.ts';
import type { FrozenState } from '../../../src/state/frozen-state.ts';
import { sheetOf } from '../../../src/state/spreadsheet/reducer.ts';
import type { Cell } from '../../../src/state/spreadsheet/sheet.ts';
import type { AxisMove } from '../../../src/state/spreadsheet/sheet-diff.ts';
import { show } from './random-reducers.ts';

/** The values of a state as texts, by place. */
export type Dump = ReadonlyMap<string, string>;

/** The cells of a sheet. Places are `row:column`. */
export async function dumpSheet(state: Pick<FrozenState, 'draft'>): Promise<Dump> {
  const dump = new Map<string, string>();
  for await (const cell of sheetOf(state.draft).cells()) dump.set(placeOfCell(cell), show(cell.value));
  return dump;
}

/** The metadata record and the items of a state. */
export async function dumpItems(state: Pick<FrozenState, 'meta' | 'mapNames' | 'map'>): Promise<Dump> {
  const dump = new Map<string, string>();
  for (const [name, value] of state.meta) dump.set(placeOf({ kind: 'meta', name }), show(value));
  for (const map of state.mapNames) {
    for await (const { key, value } of state.map(map).range())
      dump.set(placeOf({ kind: 'item', map, key }), show(value));
  }
  return dump;
}

/**
 * The dump that a diff makes of a dump. Fails if the dump does not have the old values of the diff,
 * or if a change changes nothing.
 */
export function applyDiff(before: Dump, changes: readonly StateChange[]): Dump {
  const left = new Map(before);
  const added = new Map<string, string>();
  const [rows, columns]: [AxisMove[], AxisMove[]] = [[], []];
  for (const change of changes) {
    if (change.kind === 'rows') rows.push(change);
    else if (change.kind === 'columns') columns.push(change);
    else if (change.kind === 'cell') {
      expect(change.before && show(change.before.value)).not.toBe(change.after && show(change.after.value));
      if (change.before) remove(left, placeOfCell(change.before), show(change.before.value));
      if (change.after) added.set(placeOfCell(change.after), show(change.after.value));
    } else {
      const [old, now] = [change.before, change.after].map((value) => value !== undefined && show(value));
      expect(old).not.toBe(now);
      if (change.before !== undefined) remove(left, placeOf(change), show(change.before));
      if (change.after !== undefined) added.set(placeOf(change), show(change.after));
    }
  }
  for (const [place, value] of left) {
    const [row, column] = place.split(':').map(Number);
    const isCell = row !== undefined && column !== undefined && rows.length + columns.length > 0;
    added.set(isCell ? `${movedBy(rows, row)}:${movedBy(columns, column)}` : place, value);
  }
  return added;
}

/** The position that a row or column has afterwards. Fails if it was removed. */
export function movedBy(moves: readonly AxisMove[], position: number): number {
  let kept = position;
  for (const move of moves) {
    if (move.change === 'inserted' || position < move.from) continue;
    if (position >= move.from + move.count) kept -= move.count;
    else if (move.change === 'moved') return move.to + position - move.from;
    else throw new Error(`position ${position} was removed`);
  }
  const places = moves.flatMap((move) => (move.change === 'removed' ? [] : [move]));
  for (const { to, count } of places.sort((a, b) => a.to - b.to)) if (to <= kept) kept += count;
  return kept;
}

function remove(dump: Map<string, string>, place: string, value: string): void {
  expect(dump.get(place)).toBe(value);
  dump.delete(place);
}

function placeOfCell({ row, column }: Cell): string {
  return `${row}:${column}`;
}

type ItemPlace =
  | { readonly kind: 'meta'; readonly name: string }
  | { readonly kind: 'item'; readonly map: string; readonly key: number | string };

function placeOf(place: ItemPlace): string {
  return place.kind === 'meta' ? `meta ${place.name}` : `item ${place.map} ${typeof place.key} ${place.key}`;
}
