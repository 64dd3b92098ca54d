import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import { DocumentStoppedError, isLogfoldError } from '../../src/errors.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { entryKey } from '../../src/log/item-codec.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';
import { FAULTY, foldPlainly, readRows } from '../support/models/versioned-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { set } from '../support/sheet-log.ts';

const STOP = { onBadEntry: 'stop' } as const;
const C = { N: '1732104000' };
const V = { N: '1' };

/** Items of entries that cannot be decoded or folded. */
const BAD_ITEMS: readonly Item[] = [
  { C, V, T: { S: FAULTY } },
  { C, V, T: { S: 'Set' }, B: { B: Uint8Array.of(0xc1) } },
  { C, V, T: { S: 'Set' }, E: { S: 'imports/lost.json' } },
  { C, V },
];

type Step =
  | { readonly step: 'edit'; readonly edit: SheetEdit }
  | { readonly step: 'bad'; readonly item: Item }
  | { readonly step: 'snapshot' | 'complete' | 'segment' | 'wait' | 'open' | 'repair' }
  | { readonly step: 'refresh' | 'append'; readonly document: number };

const edit = fc.oneof(
  fc.record({ row: fc.nat(3), column: fc.nat(3) }).map(({ row, column }) => set(row, column, `${row}:${column}`)),
  fc.nat(2).map((position): SheetEdit => ({ type: 'Insert Rows', position, count: 1 })),
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ step: fc.constant('edit' as const), edit }) },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('bad' as const), item: fc.constantFrom(...BAD_ITEMS) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      step: fc.constantFrom('snapshot', 'complete', 'segment', 'wait', 'open', 'repair'),
    }),
  },
  { weight: 6, arbitrary: fc.record({ step: fc.constantFrom('refresh', 'append'), document: fc.nat(3) }) },
);

/** A log, clients of it, and the model of both. */
class History {
  readonly #live: LiveLog;
  readonly #edits: { readonly position: Position; readonly edit: SheetEdit }[] = [];
  readonly #bad: Position[] = [];
  readonly #snapshots: Position[] = [];
  readonly #documents: Document[] = [];

  constructor(live: LiveLog) {
    this.#live = live;
  }

  async run(given: Step): Promise<void> {
    const { sheet } = this.#live;
    switch (given.step) {
      case 'edit':
        this.#edits.push({ position: await sheet.edit(given.edit), edit: given.edit });
        return;
      case 'bad': {
        const position = await sheet.append({ type: FAULTY, version: 1 });
        await sheet.tables.putItems([{ ...entryKey(sheet.log, position), ...given.item }]);
        this.#bad.push(position);
        return;
      }
      case 'snapshot':
        this.#snapshots.push(await sheet.snapshot());
        return;
      case 'segment':
        return this.#refusable(async () => void this.#snapshots.push(await sheet.segment()));
      case 'complete': {
        const position = this.#snapshots.shift();
        if (position !== undefined) await this.#refusable(() => sheet.complete(position));
        return;
      }
      case 'wait':
        // After this time, a state moves onto the chunks of a newer snapshot.
        sheet.nowMs += 11 * 60_000;
        return;
      case 'repair':
        return this.#repair();
      case 'open':
        this.#documents.push(await this.#live.open(STOP));
        return this.#check(this.#documents.length - 1);
      case 'refresh':
        await this.#documents[given.document]?.refresh();
        return this.#check(given.document);
      case 'append':
        return this.#append(given.document);
    }
  }

  /** Checks a new document and a loaded state. */
  async end(): Promise<void> {
    await this.run({ step: 'open' });
    const { draft, badEntry } = await loadState(this.#live.sheet.deps, this.#live.sheet.log, STOP);
    expect({ rows: await readRows(draft), bad: badEntry?.position }).toEqual({ rows: this.#rows, bad: this.#firstBad });
  }

  /** Segments and snapshots may be impossible, for example after a bad entry. */
  async #refusable(run: () => Promise<unknown>): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (!isLogfoldError(error)) throw error;
    }
  }

  async #repair(): Promise<void> {
    const { sheet } = this.#live;
    const position = this.#bad.shift();
    if (position === undefined) return;
    const item = { C, V, T: { S: 'Set' }, B: { S: '[[0, 0, "repaired"]]' } };
    await sheet.tables.putItems([{ ...entryKey(sheet.log, position), ...item }]);
    this.#edits.push({ position, edit: set(0, 0, 'repaired') });
  }

  async #append(index: number): Promise<void> {
    const document = this.#documents[index];
    if (document === undefined) return;
    const added = set(3, 3, 'appended');
    const entry = { type: added.type, version: 1, body: sheetBody(added) };
    if (this.#firstBad === undefined) {
      const { first } = (await document.append(entry)) ?? {};
      if (first !== undefined) this.#edits.push({ position: first, edit: added });
      return this.#check(index);
    }
    const before = await this.#live.sheet.contents();
    await expect(document.append(entry)).rejects.toThrow(DocumentStoppedError);
    expect(await this.#live.sheet.contents()).toEqual(before);
    await this.#check(index);
  }

  async #check(index: number): Promise<void> {
    const document = this.#documents[index];
    if (document === undefined) return;
    const shown = { rows: await rowsOf(document), bad: document.badEntry?.position };
    expect(shown).toEqual({ rows: this.#rows, bad: this.#firstBad });
  }

  get #firstBad(): Position | undefined {
    return this.#bad.toSorted(comparePositions)[0];
  }

  /** The plain fold of the entries before the first bad one. */
  get #rows(): string[][] {
    const bad = this.#firstBad;
    const before = this.#edits.filter(({ position }) => bad === undefined || comparePositions(position, bad) < 0);
    const ordered = before.toSorted((a, b) => comparePositions(a.position, b.position));
    return foldPlainly(
      ordered.map(({ edit }) => edit),
      1,
    );
  }
}

test('documents that stop show the plain fold of the entries before the first bad one, and append nothing after it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
      const history = new History(await LiveLog.create());
      for (const each of steps) await history.run(each);
      await history.end();
    }),
    { numRuns: propertyRuns(500) },
  );
});
