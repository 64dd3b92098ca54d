import fc from 'fast-check';
import { expect, test } from 'vitest';
import { WorkbookInvalidError } from '../../src/errors.ts';
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
