import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HistoryPlace, Revision } from '../../src/client/history.ts';
import type { Value } from '../../src/codec/value.ts';
import { comparePositions, type Position, START } from '../../src/ids/position.ts';
import {
  type CollectionsEntryType,
  collections,
  mergePatch,
  parseCollectionsEdit,
} from '../../src/state/collections/reducer.ts';
import { type SheetEdit, sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import {
  bothWays,
  type HistoryLog,
  historyOf,
  type LogStep,
  type MadeEntry,
  type ModelChange,
  revision,
  revisionsOf,
} from '../support/history-log.ts';
import { sheetEdits } from '../support/models/sheet-model.ts';
import { propertyRuns } from '../support/property-runs.ts';

const logSteps = fc.constantFrom<LogStep[]>('snapshot', 'segment', 'flush', 'archive');

/** Mixes entries with steps of the pipeline. */
function plans<T>(edits: fc.Arbitrary<T[]>): fc.Arbitrary<(T | LogStep)[]> {
  return edits.chain((all) =>
    fc
      .array(fc.option(logSteps, { freq: 2, nil: undefined }), { minLength: all.length, maxLength: all.length })
      .map((steps) => all.flatMap((edit, i) => (steps[i] === undefined ? [edit] : [edit, steps[i]]))),
  );
}

/** Checks that both ways to read a history agree with the model, now and at earlier positions. */
async function checkHistories(
  logs: readonly HistoryLog[],
  places: readonly HistoryPlace[],
  expected: (place: HistoryPlace, entries: readonly MadeEntry[]) => Revision[],
): Promise<void> {
  for (const log of logs) {
    const { entries } = log;
    const document = await log.open();
    const middle: Position = entries[entries.length >> 1]?.position ?? START;
    const before = entries.filter(({ position }) => comparePositions(position, middle) < 0);
    for (const place of places) {
      const now = expected(place, entries);
      expect(await historyOf(document, place), log.reducer.name).toEqual(now);
      expect(await historyOf(document, place, { limit: 2 })).toEqual(now.slice(-2));
      expect(await historyOf(document, place, { at: middle }), log.reducer.name).toEqual(expected(place, before));
    }
  }
}

/** Rows and columns of a sheet by identity, and the changes of each cell. */
class SheetHistory {
  readonly #rows: number[] = [];
  readonly #columns: number[] = [];
  readonly #changes = new Map<string, ModelChange[]>();
  #ids = 0;

  constructor(entries: readonly MadeEntry[], edits: ReadonlyMap<string, SheetEdit>) {
    for (const entry of entries) {
      const edit = edits.get(JSON.stringify(entry.position));
      if (edit !== undefined) this.#apply(edit, entry);
    }
  }

  #apply(edit: SheetEdit, entry: MadeEntry): void {
    if (edit.type === 'Set') {
      for (const [row, column, value] of edit.cells) {
        const id = this.#cell(row, column);
        const changes = this.#changes.get(id) ?? [];
        this.#changes.set(id, changes);
        changes.push({ entry, value: value === '' || value === null ? undefined : value });
      }
      return;
    }
    const axis = edit.type.endsWith('Rows') ? this.#rows : this.#columns;
    this.#id(axis, edit.position + edit.count);
    if (edit.type.startsWith('Delete')) axis.splice(edit.position, edit.count);
    else axis.splice(edit.position, 0, ...Array.from({ length: edit.count }, () => this.#ids++));
  }

  #id(axis: number[], position: number): number {
    while (axis.length <= position) axis.push(this.#ids++);
    return axis[position] ?? -1;
  }

  #cell(row: number, column: number): string {
    return `${this.#id(this.#rows, row)} ${this.#id(this.#columns, column)}`;
  }

  ofCell(row: number, column: number): Revision[] {
    return revisionsOf(this.#changes.get(this.#cell(row, column)) ?? []);
  }

  ofRow(row: number): Revision[] {
    const cells = new Map<string, { readonly position: Position; readonly values: [number, Value][] }>();
    this.#id(this.#columns, 400);
    for (const column of this.#columns.keys()) {
      for (const { position, value } of this.ofCell(row, column)) {
        const text = JSON.stringify(position);
        const found = cells.get(text) ?? { position, values: [] };
        cells.set(text, found);
        found.values.push([column, value ?? null]);
      }
    }
    const sorted = [...cells.values()].sort((a, b) => comparePositions(a.position, b.position));
    return sorted.map(({ position, values }, i) => ({ number: i + 1, position, created: 0, value: values }));
  }
}

describe('the history of a sheet', () => {
  test('both ways give the values that a plain model has for cells and rows', async () => {
    await fc.assert(
      fc.asyncProperty(plans(sheetEdits(30)), async (plan) => {
        const logs = await bothWays(spreadsheet);
        const edits = new Map<string, SheetEdit>();
        for (const step of plan) {
          for (const log of logs) {
            if (typeof step === 'string') await log.take(step);
            else {
              const position = await log.append({ type: step.type, body: sheetBody(step) });
              edits.set(JSON.stringify(position), step);
            }
          }
        }
        const cells = plan.flatMap((step) => (typeof step === 'object' && step.type === 'Set' ? step.cells : []));
        const places: HistoryPlace[] = [{ row: 3 }, { row: 1, column: 1 }];
        for (const [row, column] of cells.slice(0, 2)) places.push({ row, column });
        for (const [row] of cells.slice(-1)) places.push({ row });
        await checkHistories(logs, places, (place, entries) => {
          const model = new SheetHistory(entries, edits);
          if (!('row' in place)) throw new Error('the place is not in a sheet');
          if ('column' in place) return model.ofCell(place.row, place.column);
          return model.ofRow(place.row).map(({ number, position, value }) => {
            const entry = entries.find((each) => comparePositions(each.position, position) === 0);
            if (entry === undefined) throw new Error('a revision has no entry');
            return revision(entry, number, value);
          });
        });
      }),
      { numRuns: propertyRuns(60, 12) },
    );
  });
});

const names = fc.constantFrom('a', 'b', 'c');
const values = fc.oneof(
  fc.constantFrom<Value[]>('x', 'y', 1, null, { done: true }, { done: false, text: 'buy' }),
  fc.constant('large '.repeat(1000)),
);
const documentEdits: fc.Arbitrary<readonly [CollectionsEntryType, Value]> = fc.oneof(
  fc.tuple(fc.constant('Put' as const), fc.record({ collection: names, id: names, value: values })),
  fc.tuple(fc.constant('Put' as const), fc.record({ name: names, value: values })),
  fc.tuple(fc.constant('Patch' as const), fc.record({ collection: names, id: names, patch: values })),
  fc.tuple(
    fc.constant('Patch' as const),
    fc.record({ patch: fc.dictionary(names, values, { noNullPrototype: true }) }),
  ),
  fc.tuple(fc.constant('Delete' as const), fc.record({ collection: names, id: names })),
  fc.tuple(fc.constant('Delete' as const), fc.record({ name: names })),
);

/** The changes of each item and scalar, by the text of its place. */
function documentChanges(entries: readonly MadeEntry[]): Map<string, ModelChange[]> {
  const items = new Map<string, Value>();
  const all = new Map<string, ModelChange[]>();
  const change = (id: string, entry: MadeEntry, value: Value | undefined): void => {
    if (value === undefined) items.delete(id);
    else items.set(id, value);
    all.set(id, [...(all.get(id) ?? []), { entry, value }]);
  };
  for (const entry of entries) {
    if (entry.type !== 'Put' && entry.type !== 'Patch' && entry.type !== 'Delete') continue;
    const edit = parseCollectionsEdit(entry.type, entry.body);
    if (edit.type === 'Patch' && !('collection' in edit)) {
      for (const [name, patch] of Object.entries(edit.patch)) {
        change(`/${name}`, entry, patch === null ? undefined : mergePatch(items.get(`/${name}`), patch));
      }
      continue;
    }
    const id = 'collection' in edit ? `${edit.collection}/${edit.id}` : 'name' in edit ? `/${edit.name}` : '';
    if (edit.type === 'Put') change(id, entry, edit.value);
    else if (edit.type === 'Delete') change(id, entry, undefined);
    else change(id, entry, mergePatch(items.get(id), edit.patch));
  }
  return all;
}

describe('the history of a document', () => {
  test('both ways give the values that a plain model has for items and scalars', async () => {
    await fc.assert(
      fc.asyncProperty(plans(fc.array(documentEdits, { maxLength: 30, size: 'max' })), async (plan) => {
        const logs = await bothWays(collections);
        for (const step of plan) {
          for (const log of logs) {
            if (typeof step === 'string') await log.take(step);
            else await log.append({ type: step[0], body: step[1] });
          }
        }
        const places: HistoryPlace[] = [];
        for (const id of ['a', 'b', 'c']) {
          places.push({ map: 'scalars', key: id });
          for (const collection of ['a', 'b']) places.push({ collection, id });
        }
        await checkHistories(logs, places, (place, entries) => {
          const id = 'map' in place ? `/${place.key}` : 'id' in place ? `${place.collection}/${place.id}` : '';
          return revisionsOf(documentChanges(entries).get(id) ?? []);
        });
      }),
      { numRuns: propertyRuns(60, 12) },
    );
  });
});
