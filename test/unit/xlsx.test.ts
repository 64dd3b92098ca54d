import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import type { WorkbookOptions } from '../../src/workbook/workbook.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';
import { type XlsxContent, xlsxBytes, xlsxFiles, zipArchive } from '../support/xlsx.ts';

const FOLDER = new URL('../support/workbooks/', import.meta.url);

/** Reads a workbook that has one sheet with this XML in its `<sheetData>`. */
async function read(rows: string, content: Partial<XlsxContent> = {}, options: Partial<WorkbookOptions> = {}) {
  const bytes = await xlsxBytes({ sheets: { Data: [rows] }, ...content });
  return readRows(slicesOf(bytes), { format: 'xlsx', ...options });
}

/** Reads the cells of a row with this XML. */
async function readRow(cells: string, content: Partial<XlsxContent> = {}, options: Partial<WorkbookOptions> = {}) {
  const [[, ...row] = [0]] = await read(`<row r="1">${cells}</row>`, content, options);
  return row.map(([, value]) => value);
}

describe('a workbook of another program', () => {
  test.each([
    ['values', undefined],
    ['second', 'Second & last'],
    ['dates-from-1904', 'Dates'],
    ['openpyxl-dates', 'Values'],
    ['openpyxl-iso-dates', 'Values'],
    ['xlsxwriter-values', 'Values'],
    ['libreoffice-formulas', undefined],
  ])('the cells of %s have the texts that LibreOffice shows', async (name, sheet) => {
    const file = name === 'second' ? 'values' : name;
    const xlsx = slicesOf(await readFile(new URL(`${file}.xlsx`, FOLDER)), 1000);
    const csv = slicesOf(await readFile(new URL(`${name}.csv`, FOLDER)));
    const shown = await readRows(csv, { format: 'csv' });
    expect(shown.length).toBeGreaterThan(0);
    expect(await readRows(xlsx, { format: 'xlsx', sheet })).toEqual(shown);
  });

  test('dates are the same values, whether numbers or texts of ISO 8601 hold them', async () => {
    const [numbers, texts] = await Promise.all(
      ['openpyxl-dates', 'openpyxl-iso-dates'].map(async (name) => {
        const file = slicesOf(await readFile(new URL(`${name}.xlsx`, FOLDER)));
        return readRows(file, { format: 'xlsx', values: 'typed' });
      }),
    );
    expect(texts?.toSpliced(3, 1)).toEqual(numbers?.toSpliced(3, 1));
    const times = [
      3,
      [0, new Date('2026-01-05T10:30:15Z')],
      [1, new Date('2026-01-05T00:00:00Z')],
      [2, expect.closeTo((10 * 3600 + 30 * 60 + 15) / 86_400, 12)],
      [3, expect.closeTo(30 / 24 + 5 / 1440, 12)],
    ];
    expect([texts?.[3], numbers?.[3]]).toEqual([times, times]);
  });

  test.each(['openpyxl-formulas', 'xlsxwriter-formulas'])(
    '%s is refused, since nothing computed its formulas; their stored results are read if asked for',
    async (name) => {
      const file = slicesOf(await readFile(new URL(`${name}.xlsx`, FOLDER)));
      await expect(readRows(file, { format: 'xlsx' })).rejects.toMatchObject({
        code: 'WORKBOOK_INVALID',
        message: expect.stringMatching(/row 1 of sheet '(Sheet|Formulas)': cell A1 has a formula/),
        advice: expect.stringContaining('--formulas stored'),
      });
      let invalid = 0;
      const stored = await readRows(file, { format: 'xlsx', formulas: 'stored', onInvalidResult: () => invalid++ });
      if (name === 'openpyxl-formulas') {
        expect([stored, invalid]).toEqual([[[1, [2, 'plain']]], 7]);
      } else {
        const first = [0, [0, '0'], [1, '3'], [3, 'TRUE'], [4, '#N/A']];
        expect([stored, invalid]).toEqual([[first, [1, [0, 'plain']]], 5]);
      }
    },
  );
});

test('cells of every type are texts by default', async () => {
  const strings = [
    '<t>plain</t>',
    '<r><t>rich </t></r><r><t>text</t></r><rPh><t>note</t></rPh>',
    '<t>a_x000a_b _xD800_</t>',
  ];
  const cells = [
    '<c t="s"><v>1</v></c><c t="s"><v>0</v></c><c t="s"><v>2</v></c>',
    '<c t="inlineStr"><is><t>inline</t></is></c><c t="str"><f>1</f><v>result</v></c>',
    '<c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c><c><v>0.30000000000000004</v></c><c><v>12345678901</v></c>',
    '<c t="d" s="1"><v>2024-02-29T06:00:00</v></c><c s="1"><v>45351.25</v></c><c s="2"><v>-1234.5</v></c>',
    '<c t="str" s="3"><v>x</v></c><c s="4"><v>45000.999999999</v></c>',
  ];
  const formats = ['yyyy-mm-dd hh:mm', '#,##0.00 [$€-407]', '@" kg"', 'm/d/yy h:mm'];
  expect(await readRow(cells.join(''), { strings, formats })).toEqual([
    'rich text',
    'plain',
    'a\nb _xD800_',
    'inline',
    'result',
    'TRUE',
    '#N/A',
    '0.3',
    '12345678901',
    '2024-02-29 06:00',
    '2024-02-29 06:00',
    '-1,234.50 €',
    'x kg',
    '3/16/23 0:00',
  ]);
});

test('typed values are numbers, booleans and dates', async () => {
  const cells =
    '<c s="1"><v>45351.25</v></c><c s="2"><v>0.5</v></c><c><v>0.1</v></c><c t="b"><v>0</v></c><c t="str"><v>7</v></c>';
  const formats = ['d. mmmm yyyy', 'h:mm'];
  const typed = { values: 'typed' } as const;
  const rest = [0.5, 0.1, false, '7'];
  expect(await readRow(cells, { formats }, typed)).toEqual([new Date('2024-02-29T06:00Z'), ...rest]);
  expect(await readRow(cells, { formats, date1904: true }, typed)).toEqual([new Date('2028-03-01T06:00Z'), ...rest]);
});

test('rows and cells may have gaps, and need no references', async () => {
  const rows = '<row r="3"><c r="B3"><v>1</v></c><c r="XFD3"><v>2</v></c></row><row><c><v>3</v></c><c><v/></c></row>';
  expect(await read(rows)).toEqual([
    [2, [1, '1'], [16_383, '2']],
    [3, [0, '3']],
  ]);
});

test('a merged area has only its cell at the top left', async () => {
  const row = (r: number) =>
    `<row r="${r}">${['A', 'B', 'C', 'D'].map((c) => `<c r="${c}${r}"><v>${r}</v></c>`).join('')}</row>`;
  const after = '<mergeCells count="2"><mergeCell ref="B1:C2"/><mergeCell ref="A2:A3"/></mergeCells>';
  expect(await read([1, 2, 3].map(row).join(''), { after })).toEqual([
    [0, [0, '1'], [1, '1'], [3, '1']],
    [1, [0, '2'], [3, '2']],
    [2, [1, '3'], [2, '3'], [3, '3']],
  ]);
});

test('the parts may have namespace prefixes', async () => {
  const files = xlsxFiles({ sheets: { Data: ['<row><c><v>1</v></c></row>'] } }).map(({ name, content }) => {
    const text = [...content].join('');
    return {
      name,
      content: [/sheet1/.test(name) ? text.replaceAll(/<(\/?)(\w)/g, '<$1x:$2').replace('xmlns=', 'xmlns:x=') : text],
    };
  });
  const bytes = Buffer.concat(await Array.fromAsync(zipArchive(files)));
  expect(await readRows(slicesOf(bytes), { format: 'xlsx' })).toEqual([[0, [0, '1']]]);
});

describe('a wrong file is an error that says what to do:', () => {
  const CELL = '<row r="1"><c r="A1"><v>1</v></c></row>';

  async function expectInvalid(bytes: Uint8Array, message: string | RegExp, options: Partial<WorkbookOptions> = {}) {
    const reading = readRows(slicesOf(bytes), { format: 'xlsx', ...options });
    await expect(reading).rejects.toMatchObject({
      code: 'WORKBOOK_INVALID',
      stopsLog: true,
      advice: expect.any(String),
    });
    await expect(reading).rejects.toThrow(message);
  }

  test.each([
    ['a number', '<row r="2"><c r="B2"><v>x</v></c></row>', "row 2 of sheet 'Data': .*cell B2 has the number 'x'"],
    ['a shared text that is missing', '<row><c t="s"><v>7</v></c></row>', "cell A1 has the shared text '7'"],
    ['a formula without its result', '<row><c><f>1+2</f></c></row>', 'cell A1 has a formula without its result'],
    ['rows in a wrong order', '<row r="2"/><row r="1"/>', "row '1' follows"],
    ['cells in a wrong order', '<row r="1"><c r="B1"/><c r="A1"/></row>', "cell 'A1' is at a wrong place"],
    ['a cell in another row', '<row r="1"><c r="A2"/></row>', "cell 'A2' is at a wrong place"],
    ['a cell outside of any sheet', '<row r="1"><c r="XFE1"/></row>', "cell 'XFE1' is at a wrong place"],
    ['a tag that is not closed', '<row><c></row>', 'not well-formed'],
    ['an unknown entity', '<row><c t="str"><v>&own;</v></c></row>', 'not well-formed'],
    ['elements without an end', '<a>'.repeat(300), 'deeper than 256'],
    ['a text without an end', `<row><c><v>${'1'.repeat(5_000_000)}`, 'without an end'],
    ['a long text', `<row><c t="str"><v>${'1'.repeat(1_100_000)}</v></c></row>`, 'too large: the text up to cell A1'],
  ])('%s', async (_, rows, message) => {
    await expectInvalid(await xlsxBytes({ sheets: { Data: [rows] } }), new RegExp(message));
  });

  test('a file that ends early', async () => {
    const bytes = await xlsxBytes({ sheets: { Data: [CELL] } });
    for (const length of [3, 100, bytes.length - 30, bytes.length - 1]) {
      await expectInvalid(bytes.subarray(0, length), length === 3 ? 'not a ZIP archive' : 'damaged');
    }
  });

  test('a file with a wrong byte', async () => {
    const bytes = await xlsxBytes({ sheets: { Data: ['<row><c><v>123456789</v></c></row>'] } });
    const sheet = Buffer.from(bytes).indexOf('xl/worksheets/sheet1.xml');
    const wrong = Uint8Array.from(bytes);
    wrong[sheet + 60] = (wrong[sheet + 60] ?? 0) ^ 0x10;
    await expectInvalid(wrong, /cannot be decompressed|changed or cut|well-formed/);
  });

  test('a password', async () => {
    const files = xlsxFiles({ sheets: { Data: [CELL] } }).map((file) => ({ ...file, flags: 1 }));
    await expectInvalid(Buffer.concat(await Array.fromAsync(zipArchive(files))), 'password');
    await expectInvalid(new Uint8Array([0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1]), 'password');
  });

  test('a bomb', async () => {
    const spaces = Array.from({ length: 300 }, () => ' '.repeat(64 * 1024));
    await expectInvalid(await xlsxBytes({ sheets: { Data: spaces } }), /too large: .* grows from \d+ to \d+ bytes/);
  });

  test('another ZIP archive', async () => {
    const bytes = Buffer.concat(await Array.fromAsync(zipArchive([{ name: 'a.txt', content: ['a'] }])));
    await expectInvalid(bytes, 'not an XLSX workbook');
  });

  test('a text file', async () => {
    await expectInvalid(new TextEncoder().encode('a,b\n1,2\n'), "format 'csv'");
  });

  test('a sheet that the workbook lacks', async () => {
    const bytes = await xlsxBytes({ sheets: { Data: [CELL], Other: [] } });
    await expectInvalid(bytes, /no sheet 'data'.*'Data', 'Other'/, { sheet: 'data' });
  });
});

describe('a text that is longer than that of any cell', () => {
  const runs = Array.from({ length: 2 ** 12 }, (_, i) => `<r><t>${String(i).padEnd(257, '\u6f22')}</t></r>`).join('');

  test.each([
    ['a shared text', '<c t="s"><v>0</v></c>', [runs]],
    ['an inline text', `<c t="inlineStr"><is>${runs}</is></c>`, []],
    ['a value', `<c><v>${'<![CDATA[111]]>'.repeat(2 ** 19)}</v></c>`, []],
  ])('%s stops the reader while it grows, and is never cut', async (_, cells, strings) => {
    await expect(readRow(cells, { strings })).rejects.toMatchObject({
      code: 'WORKBOOK_INVALID',
      reason: expect.stringContaining('too long'),
    });
  });
});

test('text of a cell that shows a number does not reach the next cell', async () => {
  const cells = '<c><is><t>other</t></is><v>1</v></c><c t="inlineStr"><is><t>own</t></is></c><c><v> </v></c>';
  expect(await readRow(cells)).toEqual(['1', 'own']);
});

test('a number that its format cannot show is shown without it', async () => {
  expect(await readRow('<c s="1"><v>60</v></c>', { formats: ['b2yyyy'] })).toEqual(['60']);
});
