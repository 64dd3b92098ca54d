import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { isoSeconds } from '../../src/mapping/item-time.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLog } from '../support/sheet-log.ts';
import { inTimeZones, TIME_ZONES } from '../support/time-zones.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';
import { xlsxBytes } from '../support/xlsx.ts';

/** Texts that are dates, or nearly. */
const dates = fc
  .array(
    fc.constantFrom(
      ...['2026-01-05', '2026-03-29', '2026-11-01', '2026-02-31', '1/5/2026', '2026', '2026-1-5', '1900-01-15'],
      ...['T', ' ', ',', '-', ':', '/', '01:30', '02:30', '24:00', '99:99', ':59', '.5', '.123456'],
      ...['Z', 'z', '+02:00', '-05:30', '+0200', 'UTC', ' EST', 'gmt', ' PM', 'Jan 5 ', '(', ')', '45000', '5'],
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((parts) => parts.join(''));
const numbers = fc.double({ noNaN: true, min: -1e6, max: 3e6 }).map(String);
const rules = fc.constantFrom(1 as const, 2 as const);
const values = fc.constantFrom('text' as const, 'typed' as const);

/** The result, or the message of the error. */
async function outcome<T>(run: () => Promise<T>): Promise<T | string> {
  return run().catch((error: unknown) => String(error));
}

test('the time zone of the process changes between runs of a property', async () => {
  const seen: (string | undefined)[] = [];
  fc.assert(
    fc.property(fc.nat(), () => void seen.push(process.env.TZ)),
    { numRuns: 4 },
  );
  await fc.assert(
    fc.asyncProperty(fc.nat(), async () => void seen.push(process.env.TZ)),
    { numRuns: 2 },
  );
  expect(new Set(seen)).toEqual(new Set(TIME_ZONES));
  expect(TIME_ZONES).not.toContain(process.env.TZ);
  const [first, second] = await inTimeZones(() => new Date(2026, 0, 1).getTime());
  expect(first).not.toBe(second);
});

test('fields of CSV have the same values in every time zone', { tags: ['I9'] }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(dates, numbers), rules, async (text, version) => {
      const file = slicesOf(new TextEncoder().encode(`"${text}"`));
      const [one, other] = await inTimeZones(() => readRows(file, { format: 'csv', values: 'typed', rules: version }));
      expect(other).toEqual(one);
    }),
    { numRuns: propertyRuns(2000) },
  );
});

test('cells of XLSX have the same values in every time zone, and dates are read in UTC', { tags: ['I9'] }, async () => {
  const types = fc.constantFrom('d', 'd', 'n', 'str', 'b');
  await fc.assert(
    fc.asyncProperty(types, fc.oneof(dates, numbers), rules, values, async (type, text, version, kind) => {
      const row = `<row><c t="${type}" s="1"><v>${text}</v></c></row>`;
      const file = slicesOf(await xlsxBytes({ sheets: { Data: [row] }, formats: ['yyyy-mm-dd hh:mm:ss'] }));
      const read = () => outcome(() => readRows(file, { format: 'xlsx', values: kind, rules: version }));
      const [one, other] = await inTimeZones(read);
      expect(other).toEqual(one);
    }),
    { numRuns: propertyRuns(600, 100) },
  );
});

test('an import gives the same state in every time zone', { tags: ['I9'] }, async () => {
  const rows = fc.array(fc.array(fc.oneof(dates, numbers), { minLength: 1, maxLength: 4 }), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(rows, rules, async (table, version) => {
      const csv = table.map((row) => row.map((text) => `"${text}"`).join(',')).join('\n');
      const newest = importBody({ format: 'csv', values: 'typed' });
      const body: Value = version === 1 ? { format: 'csv', values: 'typed' } : newest;
      const [one, other] = await inTimeZones(async () => {
        const sheet = await SheetLog.create();
        const file = await sheet.saveFile(new TextEncoder().encode(csv));
        await sheet.append({ type: 'Import', version: 1, body, file });
        return sheet.stateHash(await sheet.completed());
      });
      expect(other).toBe(one);
    }),
    { numRuns: propertyRuns(100) },
  );
});

test('times of items are the same in every time zone', { tags: ['I9'] }, async () => {
  await fc.assert(
    fc.asyncProperty(dates, async (text) => {
      const [one, other] = await inTimeZones(() => isoSeconds(text));
      expect(other).toBe(one);
    }),
    { numRuns: propertyRuns(2000) },
  );
});
