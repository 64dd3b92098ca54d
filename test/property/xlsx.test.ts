import fc from 'fast-check';
import { expect, test } from 'vitest';
import { WorkbookInvalidError } from '../../src/errors.ts';
import { cellReference } from '../../src/workbook/cell-reference.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';
import { escaped, xlsxBytes } from '../support/xlsx.ts';

const texts = fc.string({
  unit: fc.constantFrom('<', '&', '"', ' ', 'a', '_x', 'é', '𝄞', '\n'),
  minLength: 1,
  maxLength: 8,
});
/** Rows of a sheet by number, each with its texts by column. */
const sheets = fc.uniqueArray(
  fc.tuple(
    fc.nat(50),
    fc.uniqueArray(fc.tuple(fc.nat(25), texts), { minLength: 1, maxLength: 4, selector: ([at]) => at }),
  ),
  { maxLength: 5, selector: ([at]) => at },
);
const byPlace = (a: readonly [number, unknown], b: readonly [number, unknown]) => a[0] - b[0];

test('a sheet has the shared and inline texts that were written, for slices of any size', async () => {
  await fc.assert(
    fc.asyncProperty(sheets, fc.integer({ min: 1, max: 500 }), async (sheet, size) => {
      const strings: string[] = [];
      const rows = sheet.toSorted(byPlace).map(([row, cells]) => [row, ...cells.toSorted(byPlace)] as const);
      const xml = rows.map(([row, ...cells]) => {
        const tags = cells.map(([column, text], i) => {
          const place = `r="${String.fromCharCode(65 + column)}${row + 1}"`;
          if (i % 2 === 0) return `<c ${place} t="inlineStr"><is><t>${escaped(text)}</t></is></c>`;
          return `<c ${place} t="s"><v>${strings.push(`<t>${escaped(text)}</t>`) - 1}</v></c>`;
        });
        return `<row r="${row + 1}">${tags.join('')}</row>`;
      });
      const bytes = await xlsxBytes({ sheets: { Data: xml }, strings });
      expect(await readRows(slicesOf(bytes, size), { format: 'xlsx' })).toEqual(rows);
    }),
    { numRuns: propertyRuns(200) },
  );
});

/** Merged areas, each within its part of the sheet so that no two have a common cell. */
const [PART_ROWS, PART_COLUMNS] = [4, 3];
const areas = fc.uniqueArray(
  fc
    .record({
      part: fc.tuple(fc.nat(2), fc.nat(2)),
      row: fc.nat(PART_ROWS - 1),
      column: fc.nat(PART_COLUMNS - 1),
      rows: fc.integer({ min: 1, max: PART_ROWS }),
      columns: fc.integer({ min: 1, max: PART_COLUMNS }),
    })
    .map(({ part: [y, x], row, column, rows, columns }) => ({
      first: { row: y * PART_ROWS + row, column: x * PART_COLUMNS + column },
      last: {
        row: y * PART_ROWS + Math.min(row + rows, PART_ROWS) - 1,
        column: x * PART_COLUMNS + Math.min(column + columns, PART_COLUMNS) - 1,
      },
      part: `${y} ${x}`,
    })),
  { maxLength: 9, selector: ({ part }) => part },
);

test('a sheet shows of each merged area the first cell, for slices of any size', async () => {
  const sizes = { rows: 3 * PART_ROWS, columns: 3 * PART_COLUMNS };
  await fc.assert(
    fc.asyncProperty(areas, fc.integer({ min: 1, max: 500 }), fc.boolean(), async (merged, size, isPacked) => {
      const isShown = (row: number, column: number): boolean =>
        merged.every(({ first, last }) => {
          const isInside = row >= first.row && row <= last.row && column >= first.column && column <= last.column;
          return !isInside || (row === first.row && column === first.column);
        });
      const columns = Array.from({ length: sizes.columns }, (_, column) => column);
      const rows = Array.from({ length: sizes.rows }, (_, row) => row);
      const xml = rows.map((row) => {
        const cells = columns.map((column) => `<c r="${cellReference({ row, column })}"><v>${row}</v></c>`);
        return `<row r="${row + 1}">${cells.join('')}</row>`;
      });
      const tags = merged.map(({ first, last }) => `<mergeCell ref="${cellReference(first)}:${cellReference(last)}"/>`);
      const after = merged.length === 0 ? '' : `<mergeCells>${tags.join('')}</mergeCells>`;
      const bytes = await xlsxBytes({ sheets: { Data: xml }, after }, { level: isPacked ? 9 : 0 });
      const shown = rows.map((row) => [
        row,
        ...columns.filter((column) => isShown(row, column)).map((column) => [column, String(row)]),
      ]);
      const read = await readRows(slicesOf(bytes, size), { format: 'xlsx' });
      expect(read).toEqual(shown.filter((row) => row.length > 1));
    }),
    { numRuns: propertyRuns(200, 20) },
  );
});

test('a changed or cut file gives the same cells or WorkbookInvalidError', async () => {
  const rows = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" s="1"><v>45000</v></c></row>';
  const content = { sheets: { Data: [rows] }, strings: ['<t>text</t>'], formats: ['yyyy-mm-dd'] };
  const bytes = await xlsxBytes(content);
  const cells = [[0, [0, 'text'], [1, '2023-03-15']]];
  const changes = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 })), { maxLength: 3 });
  const lengths = fc.oneof(
    { weight: 3, arbitrary: fc.constant(bytes.length) },
    { weight: 1, arbitrary: fc.nat(bytes.length) },
  );
  await fc.assert(
    fc.asyncProperty(changes, lengths, async (changed, length) => {
      const wrong = Uint8Array.from(bytes);
      for (const [at, bits] of changed) wrong[at] = (wrong[at] ?? 0) ^ bits;
      try {
        expect(await readRows(slicesOf(wrong.subarray(0, length)), { format: 'xlsx' })).toEqual(cells);
      } catch (error) {
        if (!(error instanceof WorkbookInvalidError)) throw error;
      }
    }),
    { numRuns: propertyRuns(1000) },
  );
});
