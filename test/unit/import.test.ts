import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { importBody, type SheetImport } from '../../src/state/spreadsheet/import.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

const CSV: SheetImport = { format: 'csv' };

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Appends an import of a text. */
async function append(sheet: SheetLog, text: string, body: Value = importBody(CSV)): Promise<void> {
  await sheet.append({ type: 'Import', version: 1, body, file: await sheet.saveFile(bytesOf(text)) });
}

async function rowsOf(sheet: SheetLog): Promise<string[][]> {
  return sheet.rows(await sheet.completed());
}

describe('an import', () => {
  test('it puts the cells of a file into the sheet, and later entries change them', async () => {
    const sheet = await SheetLog.create();
    await append(sheet, 'city,"state, or ""district"""\nDenver,CO\r\nAustin,TX\n');
    await sheet.edit(set(1, 1, 'Colorado'), { type: 'Insert Rows', position: 1, count: 1 });
    expect(await rowsOf(sheet)).toEqual([
      ['city', 'state, or "district"'],
      [],
      ['Denver', 'Colorado'],
      ['Austin', 'TX'],
    ]);
  });

  test('it goes to the given place, by positions of that moment, and empty fields leave cells as they are', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(1, 2, 'kept'), set(2, 2, 'replaced'), set(3, 0, 'moved'));
    await sheet.edit({ type: 'Delete Rows', position: 0, count: 1 });
    await append(sheet, 'a;;c\n;e;f\n', importBody({ ...CSV, delimiter: ';', row: 0, column: 1 }));
    expect(await rowsOf(sheet)).toEqual([['', 'a', 'kept', 'c'], ['', '', 'e', 'f'], ['moved']]);
  });

  test('its cells are texts, or values if the entry says so', async () => {
    const sheet = await SheetLog.create();
    await append(sheet, '007,1.50,true\n', importBody({ ...CSV, row: 0 }));
    await append(sheet, '007,1.50,true\n', importBody({ ...CSV, row: 1, values: 'typed' }));
    const [texts, values] = await rowsOf(sheet);
    expect(texts).toEqual(['007', '1.50', 'true']);
    expect(values).toEqual(['007', '1.5', 'true']);
  });

  test('a file gives the state of the same cells set one by one, with the same chunks', { tags: ['I9'] }, async () => {
    const field = fc.oneof(
      fc.constant(''),
      fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replaceAll('\0', '')),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(field, { maxLength: 200, size: '+1' }), { maxLength: 40 }),
        fc.nat(3),
        fc.nat(300),
        async (rows, row, column) => {
          const csv = rows
            .map((fields) => fields.map((text) => `"${text.replaceAll('"', '""')}"`).join(','))
            .join('\n');
          const imported = await SheetLog.create();
          await append(imported, csv, importBody({ ...CSV, row, column }));
          const edited = await SheetLog.create();
          const cells = rows.flatMap((fields, i) => fields.map((text, j) => [row + i, column + j, text] as const));
          await edited.edit({ type: 'Set', cells: cells.filter(([, , text]) => text !== '') });
          const [a, b] = [await imported.completed(), await edited.completed()];
          expect(await imported.stateHash(a)).toBe(await edited.stateHash(b));
        },
      ),
      { numRuns: propertyRuns(20) },
    );
  });

  const wrong: [string, Value, string][] = [
    ['no object', ['csv'], 'BODY_INVALID'],
    ['no format', {}, 'BODY_INVALID'],
    ['another format', { format: 'ods' }, 'BODY_INVALID'],
    ['an unknown field', { format: 'csv', rows: 1 }, 'BODY_INVALID'],
    ['a sheet that is not text', { format: 'csv', sheet: 1 }, 'BODY_INVALID'],
    ['a delimiter that is not text', { format: 'csv', delimiter: 9 }, 'BODY_INVALID'],
    ['other values', { format: 'csv', values: 'numbers' }, 'BODY_INVALID'],
    ['a negative row', { format: 'csv', row: -1 }, 'BODY_INVALID'],
    ['a column that is not a whole number', { format: 'csv', column: 0.5 }, 'BODY_INVALID'],
    ['a row outside the sheet', { format: 'csv', row: 2 ** 32 }, 'SHEET_LIMIT'],
    ['a column outside the sheet', { format: 'csv', column: 2 ** 20 - 1 }, 'SHEET_LIMIT'],
    ['a sheet of a CSV file', { format: 'csv', sheet: 'Cities' }, 'WORKBOOK_INVALID'],
  ];
  test.each(wrong)('a body with %s stops the log', async (_, body, code) => {
    const sheet = await SheetLog.create();
    await append(sheet, 'a,b\n', body);
    expect(await sheet.complete(await sheet.snapshot())).toMatchObject({
      outcome: 'stopped',
      stop: { code, entry: 1 },
    });
  });

  test('an entry without a file stops the log, and so does a file that is not CSV', async () => {
    const sheet = await SheetLog.create();
    await sheet.append({ type: 'Import', version: 1, body: importBody(CSV) });
    const stopped = { outcome: 'stopped', stop: { code: 'BODY_INVALID', entry: 1 } };
    expect(await sheet.complete(await sheet.snapshot())).toMatchObject(stopped);
    const other = await SheetLog.create();
    await append(other, 'a,"b');
    const refused = { outcome: 'stopped', stop: { code: 'WORKBOOK_INVALID', entry: 1 } };
    expect(await other.complete(await other.snapshot())).toMatchObject(refused);
  });
});
