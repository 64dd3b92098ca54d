import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadPastState, type PastState } from '../../src/client/document-state.ts';
import type { Value } from '../../src/codec/value.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import { entryPlace } from '../../src/log/item-codec.ts';
import { collectionsOf } from '../../src/state/collections/collections.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { type SheetEdit, sheetBody, sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { batches } from '../support/archives.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { collectAfterEachGrace } from '../support/gc-scenario.ts';
import { SheetModel, sheetEdits } from '../support/models/sheet-model.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLog } from '../support/sheet-log.ts';

/** An edit of a document, and its effect on a simple model. */
interface Edit {
  readonly type: string;
  readonly body: Value;
}

/** A reducer, and a model that shares no code with it. */
interface Kind {
  readonly reducer: Reducer;
  /** Content that does not fit into the root of a snapshot. */
  readonly first: readonly Edit[];
  readonly edits: fc.Arbitrary<readonly Edit[]>;
  /** The result of a plain loop over edits. */
  readonly plainly: (edits: readonly Edit[]) => unknown;
  /** The same, read from a state. */
  readonly read: (state: PastState) => Promise<unknown>;
}

const entryOf = (edit: SheetEdit): Edit => ({ ...edit, body: sheetBody(edit) });

const SHEETS: Kind = {
  reducer: spreadsheet,
  first: [entryOf({ type: 'Set', cells: Array.from({ length: 150 }, (_, i) => [i >> 2, i & 3, `text ${i}`]) })],
  edits: sheetEdits(25).map((edits) => edits.map(entryOf)),
  plainly: (edits) => {
    const model = new SheetModel();
    for (const edit of edits) model.apply(edit as Edit & SheetEdit);
    return model.trimmed();
  },
  read: (state) => Array.fromAsync(sheetRows(sheetOf(state.draft))),
};

const id = fc.constantFrom('a', 'b', 'c', 'd');
const DOCUMENTS: Kind = {
  reducer: collections,
  first: Array.from({ length: 12 }, (_, i) => {
    return { type: 'Put', body: { collection: 'first', id: `item ${i}`, value: `${i} `.repeat(60) } };
  }),
  edits: fc.array(
    fc.oneof(
      fc.record({
        type: fc.constant('Put'),
        body: fc.record({ collection: id, id, value: fc.string({ maxLength: 3000 }) }),
      }),
      fc.record({ type: fc.constant('Delete'), body: fc.record({ collection: id, id }) }),
      fc.record({ type: fc.constant('Put'), body: fc.record({ name: id, value: fc.integer() }) }),
    ),
    { maxLength: 25 },
  ),
  plainly: (edits) => {
    const [scalars, items] = [new Map<string, Value>(), new Map<string, Value>()];
    for (const { type, body } of edits) {
      const { collection, id, name, value } = body as { readonly [name: string]: string };
      if (name !== undefined) scalars.set(name, value ?? '');
      else if (type === 'Put') items.set(`${collection}/${id}`, value ?? '');
      else items.delete(`${collection}/${id}`);
    }
    return { scalars: [...scalars].sort(), items: [...items].sort() };
  },
  read: async (state) => {
    const all = collectionsOf(state);
    const items: [string, Value][] = [];
    for (const name of await all.names()) {
      for await (const { id, value } of all.collection(name).items()) items.push([`${name}/${id}`, value]);
    }
    return { scalars: Object.entries(await all.scalars()).sort(), items: items.sort() };
  },
};

/** Steps between two edits of a log. */
const CHORES = ['snapshot', 'pending', 'flush', 'segment', 'archive', 'collect', 'wait'] as const;
type Chore = (typeof CHORES)[number];

/** A log with edits and chores. Remembers the edits. */
class Past {
  readonly sheet: SheetLog;
  readonly #reducer: Reducer;
  /** The edits by their positions. */
  readonly edits = new Map<string, Edit>();
  #segment = 0;
  #archived = 0;

  constructor(sheet: SheetLog, reducer: Reducer) {
    this.sheet = sheet;
    this.#reducer = reducer;
  }

  async edit(edit: Edit): Promise<void> {
    const position = await this.sheet.append({ type: edit.type, version: 1, body: edit.body });
    this.edits.set(formatPosition(position), edit);
  }

  async do(chore: Chore): Promise<void> {
    const { sheet } = this;
    const deps = { reducer: this.#reducer };
    switch (chore) {
      case 'snapshot':
        return void (await sheet.completed(deps));
      case 'pending':
        return void (await sheet.snapshot());
      case 'flush':
        return void (await sheet.flush(await sheet.completed(deps), deps));
      case 'segment':
        await sheet.complete({ segment: this.#segment, entry: 0 }, deps);
        await sheet.complete(await sheet.segment(), deps);
        this.#segment++;
        return;
      case 'archive':
        if (this.#archived < this.#segment) await this.#archive(this.#archived++);
        return;
      case 'collect':
        // Drops snapshots, condemns their chunks, and removes these.
        return void (await collectAfterEachGrace(sheet, 4, { keepSnapshots: 'last' }));
      case 'wait':
        sheet.nowMs += 7_000;
    }
  }

  /** Archives a segment, and removes its entries from the table. */
  async #archive(segment: number): Promise<void> {
    await this.sheet.archive(segment);
    const { tables, log } = this.sheet;
    const numbers = (await this.sheet.items(segment)).map((item) => entryPlace(item).position.entry);
    for (const batch of batches(numbers)) await tables.deleteEntries(log, segment, batch);
  }
}

/** Each position of the log with the time of its entry, and the position after the end. */
async function placesOf(sheet: SheetLog): Promise<{ readonly position: Position; readonly created: number }[]> {
  const places: { position: Position; created: number }[] = [];
  for await (const { segment } of sheet.tables.segments(sheet.log)) {
    const range = { segment, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of sheet.deps.store.entries(sheet.log, range, { consistent: true })) places.push(...page);
  }
  const { segment, entry } = places.at(-1)?.position ?? { segment: 0, entry: 0 };
  return [...places, { position: { segment, entry: entry + 1 }, created: Number.POSITIVE_INFINITY }];
}

test.each([
  ['sheets', SHEETS],
  ['documents', DOCUMENTS],
])('the states of %s at all positions and times are folds of the entries before', async (_, kind) => {
  const chores = fc.array(
    fc.oneof({ weight: 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...CHORES) }),
    { minLength: 25, maxLength: 25 },
  );
  await fc.assert(
    fc.asyncProperty(kind.edits, chores, async (edits, chores) => {
      const past = new Past(await SheetLog.create({ shape: SMALL_SHAPE }), kind.reducer);
      for (const edit of kind.first) await past.edit(edit);
      for (const [i, edit] of edits.entries()) {
        const chore = chores[i];
        if (chore !== undefined) await past.do(chore);
        await past.edit(edit);
      }
      const { sheet } = past;
      const deps = { ...sheet.deps, reducer: kind.reducer };
      const before: Edit[] = [];
      const places = await placesOf(sheet);
      for (const [i, { position, created }] of places.entries()) {
        const expected = kind.plainly(before);
        const state = await loadPastState(deps, sheet.log, position);
        expect(await kind.read(state)).toEqual(expected);
        const last = places[i - 1]?.created ?? 0;
        if (last < created) {
          const then = await loadPastState(deps, sheet.log, new Date(last * 1000 + 999));
          expect(then.position).toEqual(position);
          expect(await kind.read(then)).toEqual(expected);
        }
        const edit = past.edits.get(formatPosition(position));
        if (edit !== undefined) before.push(edit);
      }
    }),
    { numRuns: propertyRuns(40, 8) },
  );
});
