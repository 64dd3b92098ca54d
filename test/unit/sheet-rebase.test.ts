import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { MAX_COLUMNS, MAX_ROWS } from '../../src/state/spreadsheet/cell-key.ts';
import { rebaseSheetEntry } from '../../src/state/spreadsheet/rebase.ts';
import { propertyRuns } from '../support/property-runs.ts';

const entry = (type: string, body: Value) => ({ type, version: 1, body });
const insert = (position: number, count: number) => entry('Insert Rows', [position, count]);
const remove = (position: number, count: number) => entry('Delete Rows', [position, count]);
const set = (...cells: (readonly [number, number, Value])[]) => entry('Set', cells);
type Case = readonly [string, ReturnType<typeof entry>, ReturnType<typeof entry>, Value[] | undefined];

/** The bodies of an entry that is appended after another one. */
const later = (mine: ReturnType<typeof entry>, other: ReturnType<typeof entry>) =>
  rebaseSheetEntry(mine, other, 'later')?.bodies;

describe('an entry of a sheet over an entry of others', () => {
  test.each<Case>([
    ['a cell above an insertion stays', set([4, 0, 'a']), insert(5, 2), undefined],
    ['a cell at an insertion moves down', set([5, 0, 'a']), insert(5, 2), [[[7, 0, 'a']]]],
    ['a cell above a deletion stays', set([4, 0, 'a']), remove(5, 2), undefined],
    ['a cell after a deletion moves up', set([7, 0, 'a']), remove(5, 2), [[[5, 0, 'a']]]],
    ['a cell in the first deleted row is dropped', set([5, 0, 'a']), remove(5, 2), []],
    ['a cell in the last deleted row is dropped', set([6, 0, 'a']), remove(5, 2), []],
    ['a cell that is pushed off the end is dropped', set([MAX_ROWS - 1, 0, 'a']), insert(0, 1), []],
    [
      'the last cell that stays on the sheet moves',
      set([MAX_ROWS - 2, 0, 'a']),
      insert(0, 1),
      [[[MAX_ROWS - 1, 0, 'a']]],
    ],
    ['a Set without cells stays', set(), remove(0, 9), undefined],
    ['a cell moves with columns only', set([5, 5, 'a']), entry('Insert Columns', [2, 3]), [[[5, 8, 'a']]]],
    ['a cell in a deleted column is dropped', set([5, 5, 'a']), entry('Delete Columns', [5, 1]), []],
    ['a cell pushed off the right is dropped', set([0, MAX_COLUMNS - 1, 'a']), entry('Insert Columns', [0, 1]), []],
    ['an insertion above stays', insert(4, 1), insert(5, 2), undefined],
    ['an insertion at the same row comes after it', insert(5, 1), insert(5, 2), [[7, 1]]],
    ['an insertion within a deletion goes to its place', insert(6, 1), remove(5, 3), [[5, 1]]],
    ['an insertion after a deletion moves up', insert(8, 1), remove(5, 3), [[5, 1]]],
    ['an insertion at the first deleted row stays', insert(5, 1), remove(5, 3), undefined],
    ['an insertion that no longer fits is dropped', insert(MAX_ROWS - 2, 2), insert(0, 1), []],
    ['a deletion above stays', remove(3, 2), insert(5, 1), undefined],
    ['a deletion at an insertion moves down', remove(5, 2), insert(5, 1), [[6, 2]]],
    [
      'a deletion around an insertion is split',
      remove(5, 4),
      insert(7, 2),
      [
        [9, 2],
        [5, 2],
      ],
    ],
    ['a deletion loses the rows that are gone', remove(5, 4), remove(7, 5), [[5, 2]]],
    ['a deletion loses its first rows', remove(5, 4), remove(3, 3), [[3, 3]]],
    ['a deletion within a deletion deletes nothing', remove(6, 1), remove(5, 4), [[5, 0]]],
    ['a deletion around a deletion deletes the rest', remove(5, 4), remove(6, 2), [[5, 2]]],
    ['a deletion is cut at the end of the sheet', remove(MAX_ROWS - 3, 3), insert(0, 1), [[MAX_ROWS - 2, 2]]],
    ['a deletion that is pushed off the end deletes nothing', remove(MAX_ROWS - 1, 1), insert(0, 1), [[MAX_ROWS, 0]]],
    ['rows do not move with columns', insert(5, 1), entry('Insert Columns', [2, 3]), undefined],
    ['an import moves down', entry('Import', { format: 'csv', row: 5 }), insert(5, 1), [{ format: 'csv', row: 6 }]],
    ['an import moves up', entry('Import', { format: 'csv', row: 5 }), remove(3, 2), [{ format: 'csv', row: 3 }]],
    ['an import from a deleted row is dropped', entry('Import', { format: 'csv', row: 5 }), remove(3, 3), []],
    ['an import across an insertion is dropped', entry('Import', { format: 'csv' }), insert(1, 1), []],
    [
      'an import before the columns moves',
      entry('Import', { format: 'csv' }),
      entry('Insert Columns', [0, 1]),
      [{ format: 'csv', column: 1 }],
    ],
    ['nothing moves over a Set', remove(5, 2), set([5, 0, 'a']), undefined],
    ['nothing moves over an import', set([5, 0, 'a']), entry('Import', { format: 'csv' }), undefined],
    ['nothing moves over an empty insertion', set([5, 0, 'a']), insert(0, 0), undefined],
  ])('%s', (_, mine, other, bodies) => {
    expect(later(mine, other)).toEqual(bodies);
  });

  test('a Set keeps the cells whose rows are there, and names the others', () => {
    const rebased = rebaseSheetEntry(set([4, 0, 'a'], [5, 0, 'b'], [9, 0, 'c']), remove(5, 2), 'later');
    expect(rebased).toMatchObject({
      bodies: [
        [
          [4, 0, 'a'],
          [7, 0, 'c'],
        ],
      ],
      dropped: [1],
    });
  });

  test.each([
    ['Set', 'x'],
    ['Set', [['a', 0, 1]]],
    ['Set', [7]],
    ['Insert Rows', { position: 1 }],
    ['Delete Rows', ['a', 'b']],
    ['Import', []],
    ['Import', { row: 'first' }],
    ['Vote', 'tea'],
  ] as const)('a malformed %s stays as it is, so that the fold refuses it', (type, body) => {
    expect(rebaseSheetEntry(entry(type, body), insert(0, 1), 'later')).toBeUndefined();
    expect(rebaseSheetEntry(set([0, 0, 'a']), entry(type, body), 'later')).toBeUndefined();
  });
});

/** A plain axis: an inserted row has the name of its writer and its index. */
function apply(rows: readonly string[], { type, body }: ReturnType<typeof entry>, writer: string): string[] {
  const [position = 0, count = 0] = body as number[];
  if (type === 'Delete Rows') return rows.toSpliced(position, count);
  return rows.toSpliced(position, 0, ...Array.from({ length: count }, (_, i) => `${writer}${i}`));
}

const ROWS = Array.from({ length: 12 }, (_, i) => `r${i}`);
const moves = fc
  .tuple(fc.boolean(), fc.nat({ max: 8 }), fc.nat({ max: 4 }))
  .map(([inserts, position, count]) => (inserts ? insert(position, count) : remove(position, count)));

test('two moves of rows lead to the same rows in both orders', () => {
  fc.assert(
    fc.property(moves, moves, (mine, theirs) => {
      const bodies = (rebased: ReturnType<typeof rebaseSheetEntry>, { type, body }: typeof mine) =>
        (rebased?.bodies ?? [body]).map((each) => entry(type, each));
      let one = apply(ROWS, theirs, 't');
      for (const each of bodies(rebaseSheetEntry(mine, theirs, 'later'), mine)) one = apply(one, each, 'm');
      let two = apply(ROWS, mine, 'm');
      for (const each of bodies(rebaseSheetEntry(theirs, mine, 'earlier'), theirs)) two = apply(two, each, 't');
      expect(one).toEqual(two);
    }),
    { numRuns: propertyRuns(20_000) },
  );
});
