import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nextPosition, type Position, START } from '../../src/ids/position.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import { type SheetEdit, sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { HistoryLog, type LogStep } from '../support/history-log.ts';
import { show } from '../support/models/random-reducers.ts';
import { SheetModel, sheetEdits } from '../support/models/sheet-model.ts';
import { applyDiff, type Dump, dumpItems } from '../support/models/state-diff.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** A step of the pipeline after some of the entries. */
const steps = fc.array(fc.option(fc.constantFrom<LogStep[]>('snapshot', 'segment', 'flush', 'archive'), { freq: 2 }), {
  minLength: 25,
  maxLength: 25,
});
const pairs = fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 3, maxLength: 3 });

/** Appends entries, each followed by a step. Returns the positions before and after them. */
async function play(
  log: HistoryLog,
  entries: readonly Parameters<HistoryLog['append']>[0][],
  plan: readonly (LogStep | null)[],
) {
  const positions: Position[] = [START];
  for (const [i, entry] of entries.entries()) {
    positions.push(nextPosition(await log.append(entry)));
    const step = plan[i % plan.length];
    if (step !== null && step !== undefined) await log.take(step);
  }
  return positions;
}

function itemAt<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error('there are no items');
  return item;
}

/** The cells of a model, as `dumpSheet` names them. */
function dumpModel(edits: readonly SheetEdit[]): Dump {
  const model = new SheetModel();
  for (const edit of edits) model.apply(edit);
  const cells = model.rows.flatMap((texts, row) => texts.map((text, column) => [`${row}:${column}`, text] as const));
  return new Map(cells.filter(([, text]) => text !== '').map(([place, text]) => [place, show(text)]));
}

/** The edit with texts instead of other values, as the model has them. */
function asTexts(edit: SheetEdit): SheetEdit {
  if (edit.type !== 'Set') return edit;
  return { ...edit, cells: edit.cells.map(([row, column, value]) => [row, column, String(value ?? '')] as const) };
}

const words = fc.constantFrom('a', 'b', 'c');
const documentEntry = fc.oneof(
  fc.record({
    type: fc.constant('Put'),
    body: fc.record({ collection: words, id: words, value: fc.oneof(words, fc.constant('x'.repeat(5000))) }),
  }),
  fc.record({ type: fc.constant('Put'), body: fc.record({ name: words, value: fc.nat() }) }),
  fc.record({ type: fc.constant('Delete'), body: fc.record({ collection: words, id: words }) }),
);

describe('the differences between two moments, across snapshots, flushes and archives', () => {
  test('they make the model of one sheet from that of the other', async () => {
    await fc.assert(
      fc.asyncProperty(sheetEdits(25), steps, pairs, fc.boolean(), async (made, plan, chosen, keepsHistory) => {
        const edits = made.map(asTexts);
        const log = await HistoryLog.create(keepsHistory ? withHistory(spreadsheet) : spreadsheet);
        const positions = await play(
          log,
          edits.map((edit) => ({ type: edit.type, body: sheetBody(edit) })),
          plan,
        );
        const document = await log.open();
        for (const [a, b] of chosen) {
          const [before, after] = [a % positions.length, b % positions.length];
          const changes = await Array.fromAsync(document.diff(itemAt(positions, before), itemAt(positions, after)));
          expect(applyDiff(dumpModel(edits.slice(0, before)), changes)).toEqual(dumpModel(edits.slice(0, after)));
        }
      }),
      { numRuns: propertyRuns(60, 12) },
    );
  });

  test('they make the items of one document from those of the other', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(documentEntry, { maxLength: 25, size: 'max' }),
        steps,
        pairs,
        async (entries, plan, chosen) => {
          const log = await HistoryLog.create(collections);
          const positions = await play(log, entries, plan);
          const document = await log.open();
          for (const [a, b] of chosen) {
            const [before, after] = [itemAt(positions, a), itemAt(positions, b)];
            const [left, right] = [
              await dumpItems(await document.at(before)),
              await dumpItems(await document.at(after)),
            ];
            const changes = await Array.fromAsync(document.diff(before, after));
            expect(applyDiff(left, changes)).toEqual(right);
          }
        },
      ),
      { numRuns: propertyRuns(40, 8) },
    );
  });
});
