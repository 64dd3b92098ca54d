import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { Choices } from '../../examples/demo/actors.ts';
import { areaAt, review } from '../../examples/demo/edits.ts';
import { compareSheets, PlainSheet } from '../../examples/demo/plain-sheet.ts';
import { priceOf } from '../../examples/demo/prices.ts';
import { type Between, describeSharing } from '../../examples/demo/report.ts';
import { compareChunks, type Moment, TouchedCells } from '../../examples/demo/sharing.ts';
import { SNAPSHOT_EVERY } from '../../examples/demo/team.ts';
import { Draft } from '../../src/state/draft.ts';
import { type SheetEdit, sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { savedSheet } from '../support/models/saved-sheet.ts';

const ROWS = 2000;

/** A table like the demo's table with its new column. */
const filled: readonly SheetEdit[] = Array.from({ length: ROWS }, (_, row) => ({
  type: 'Set',
  cells: [String(10_000 + 3 * row), row / 7, -row / 7, -5, `City ${row % 90}`, 'TN', `County ${row % 40}`].map(
    (value, column) => [row, column, value] as const,
  ),
}));

/** The table before and after a review, and the touched cells. */
async function reviewed() {
  const store = nodeStore({ shape: SMALL_SHAPE });
  const plain = new PlainSheet();
  for (const edit of filled) plain.apply(edit);
  const older: Moment = { state: await savedSheet(store, filled), rows: [...plain.rows] };
  const touched = new TouchedCells();
  const edits: SheetEdit[] = [];
  for (const edit of touched.noting(review(plain, areaAt(plain, 0.5), 100, new Choices(1)), plain)) {
    plain.apply(edit);
    edits.push(edit);
  }
  const newer: Moment = { state: await savedSheet(store, [...filled, ...edits]), rows: [...plain.rows] };
  return { store, plain, older, newer, touched, edits };
}

describe('the checks of the demo', () => {
  test('compareChunks finds that untouched chunks are shared', async () => {
    const { store, older, newer, touched, edits } = await reviewed();
    expect(new Set(edits.map(({ type }) => type))).toEqual(new Set(['Set', 'Insert Rows', 'Delete Rows']));
    const { olderChunks, shared, recut, lost, ...found } = await compareChunks(store, older, newer, touched);
    expect(lost).toBe(0);
    expect(shared).toBe(olderChunks - found.touched - recut);
    expect(shared).toBeGreaterThan(olderChunks / 2);
  });

  test('compareChunks finds chunks that should be shared and are not', async () => {
    const { store, older, newer } = await reviewed();
    const { touched, lost } = await compareChunks(store, older, newer, new TouchedCells());
    expect(touched).toBe(0);
    expect(lost).toBeGreaterThan(0);
  });

  test('compareSheets finds a cell that differs or is missing', async () => {
    const { store, plain, newer } = await reviewed();
    const compare = () => compareSheets(sheetOf(new Draft(store, newer.state)), plain);
    expect(await compare()).toMatchObject({ equal: true, difference: null, rows: plain.rows.length });
    plain.apply({ type: 'Set', cells: [[plain.rows.length, 0, 'more']] });
    expect((await compare()).equal).toBe(false);
    plain.apply({ type: 'Delete Rows', position: plain.rows.length - 1, count: 1 });
    plain.apply({ type: 'Set', cells: [[7, 4, 'Elsewhere']] });
    expect((await compare()).difference).toBe('row 7, column 4 is City 7, not Elsewhere');
  });
});

describe('the description of two snapshots', () => {
  const between: Between = {
    edits: 20,
    place: 'Ohio',
    older: { segment: 1, entry: 7 },
    newer: { segment: 1, entry: 28 },
    olderChunks: 2,
    newerChunks: 2,
    shared: 2,
    touched: 1,
    buffered: 1,
    recut: 0,
    lost: 0,
  };

  test('explains that all chunks are shared because all edits are buffered', () => {
    expect(describeSharing(between)).toBe(
      'The snapshots at 1/7 and 1/28 (segment/entry) share 2 of 2 chunks.\n' +
        'The edits, all around Ohio, belong to 1 chunk and are too few to rewrite any.\n' +
        'The root stores them in its write buffer, so the snapshots share every chunk.',
    );
  });

  test('mentions no write buffer if no edit belongs to a chunk', () => {
    expect(describeSharing({ ...between, touched: 0, buffered: 0 })).not.toContain('buffer');
  });

  test('explains which chunks are not shared, and reports a lost chunk', () => {
    const some = { ...between, olderChunks: 9, newerChunks: 9, shared: 6, touched: 3, buffered: 1, recut: 1 };
    expect(describeSharing(some)).toMatch(
      /share 6 of 9 chunks\.\n.*touched 3 chunks, and 1 chunk after them has a new boundary/,
    );
    expect(describeSharing(some)).toMatch(
      /Every other chunk is shared\.\n1 touched chunk is unchanged: the root stores/,
    );
    expect(describeSharing({ ...some, lost: 1 })).toMatch(/1 OTHER CHUNK IS NOT SHARED\./);
  });
});

test('priceOf multiplies requests by their list prices', () => {
  const dynamodb = { requests: 9, writeUnits: 1_000_000, readUnits: 2_000_000 };
  expect(priceOf({ dynamodb, s3: { puts: 0, gets: 0, lists: 0 } })).toBeCloseTo(0.875, 12);
  const s3 = { puts: 1000, gets: 1000, lists: 1000 };
  expect(priceOf({ dynamodb: { requests: 0, writeUnits: 0, readUnits: 0 }, s3 })).toBeCloseTo(0.0104, 12);
});

test('the prices in the README follow from its numbers of requests', () => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const told = /^## Costs\n.*?(?=^## )/ms.exec(readme)?.[0].replaceAll(/\s+/g, ' ') ?? '';
  const numbers = (pattern: RegExp): number[] =>
    (pattern.exec(told) ?? []).slice(1).map((text) => Number(text.replaceAll(',', '')));
  const [entries = 0, appended = 0] = numbers(/[Aa]ppending ([\d,]+) entries takes ([\d,]+) write units/);
  const [writeUnits = 0, readUnits = 0] = numbers(/cells takes (\d+) write units, ([\d.]+) read units/);
  const [puts = 0, gets = 0, lists = 0] = numbers(/(\d+) PUTs, (\d+) GETs and (\d+) LISTs/);
  const nothing = { puts: 0, gets: 0, lists: 0 };
  const appending = priceOf({ dynamodb: { requests: 0, writeUnits: appended, readUnits: 0 }, s3: nothing });
  const folding = priceOf({ dynamodb: { requests: 0, writeUnits, readUnits }, s3: { puts, gets, lists } });
  const forMillion = (dollars: number): string => `$${((dollars / entries) * 1e6).toFixed(2)}`;
  expect(told).toContain(`| entries, to append | ${forMillion(appending)} |`);
  expect(told).toContain(`| entries, to fold into snapshots | ${forMillion(folding)} |`);
  expect(told).toContain(`one snapshot every ${SNAPSHOT_EVERY} entries`);
});
