import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../support/property-runs.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';

/** Texts of the characters that CSV treats in a special way, and a few others. */
const texts = fc.string({
  unit: fc.constantFrom('"', ',', ';', '\n', '\r', ' ', 'a', 'é', '𝄞', '\ufeff'),
  maxLength: 8,
});
const tables = fc.array(fc.array(texts, { minLength: 1, maxLength: 4 }), { maxLength: 6 });

test('the reader gives the texts that another library wrote, for slices of any size', async () => {
  const delimiters = fc.constantFrom(',', ';', '\t');
  const ends = fc.constantFrom('\n', '\r\n', '\r');
  await fc.assert(
    fc.asyncProperty(tables, delimiters, ends, fc.integer({ min: 1, max: 40 }), async (table, delimiter, end, size) => {
      const text = stringify(table, { delimiter, record_delimiter: end, quoted_match: /[\r\n]/, bom: true });
      const rows = await readRows(slicesOf(new TextEncoder().encode(text), size), { format: 'csv', delimiter });
      const cells = table.map((row, i) => [i, ...row.flatMap((field, j) => (field === '' ? [] : [[j, field]]))]);
      expect(rows).toEqual(cells.filter((row) => row.length > 1));
    }),
    { numRuns: propertyRuns(300) },
  );
});
