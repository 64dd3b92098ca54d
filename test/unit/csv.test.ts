import { expect, test } from 'vitest';
import type { WorkbookOptions } from '../../src/workbook/workbook.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);

/** Reads a text in slices of one byte, so that each of its places is an end of a slice. */
function read(text: string | Uint8Array, options: Partial<WorkbookOptions> = {}) {
  const bytes = typeof text === 'string' ? utf8(text) : text;
  return readRows(slicesOf(bytes, 1), { format: 'csv', ...options });
}

test('fields keep their text, and empty fields are not cells', async () => {
  expect(await read('a, b ,007\n,,"c, d"\n"",x')).toEqual([
    [0, [0, 'a'], [1, ' b '], [2, '007']],
    [1, [2, 'c, d']],
    [2, [1, 'x']],
  ]);
});

test('quoted fields hold quotes, delimiters and line ends', async () => {
  expect(await read('"say ""hi"", now","two\r\nlines"\n"""",5" pipe')).toEqual([
    [0, [0, 'say "hi", now'], [1, 'two\r\nlines']],
    [1, [0, '"'], [1, '5" pipe']],
  ]);
});

test('rows end with LF, CRLF or CR, and empty lines are rows without cells', async () => {
  const rows = [
    [0, [0, 'a']],
    [2, [0, 'b']],
  ];
  for (const end of ['\n', '\r\n', '\r']) expect(await read(`a${end}${end}b${end}`)).toEqual(rows);
});

test('an empty file has no rows', async () => {
  expect(await read('')).toEqual([]);
  expect(await read('\ufeff')).toEqual([]);
});

test('a byte order mark is not text, and chooses UTF-16', async () => {
  const text = '\ufeffŁódź;€';
  const little = new Uint8Array([...text].flatMap((c) => [c.charCodeAt(0) & 0xff, c.charCodeAt(0) >> 8]));
  const big = little.map((_, i) => little[i ^ 1] ?? 0);
  for (const bytes of [utf8(text), little, big]) {
    expect(await read(bytes, { delimiter: ';' })).toEqual([[0, [0, 'Łódź'], [1, '€']]]);
  }
});

test('typed values are numbers, booleans and dates, unless a text would lose a digit', async () => {
  const text = '1,-2.50,1e3,007,12345678901234567890,TRUE,false,2024-02-29,2023-02-29,2024-01-02T03:04:05Z,1.2.3,-';
  const [row = []] = await read(text, { values: 'typed' });
  expect(row.slice(1).map((cell) => Array.isArray(cell) && cell[1])).toEqual([
    1,
    -2.5,
    1000,
    '007',
    '12345678901234567890',
    true,
    false,
    new Date('2024-02-29T00:00Z'),
    '2023-02-29',
    new Date('2024-01-02T03:04:05Z'),
    '1.2.3',
    '-',
  ]);
});

test.each([
  ['a quote that nothing closes', 'a\nb\n"c\nd\n', 'row 3: a quote is not closed'],
  ['text after a closing quote', 'a\n"b"c\n', 'row 2: text follows a closing quote'],
  ['bytes that are not UTF-8', new Uint8Array([0x61, 0x0a, 0xff, 0x0a]), 'not UTF-8'],
  ['a file that ends inside a character', utf8('Ł').subarray(0, 1), 'not UTF-8'],
  ['binary data', new Uint8Array([1, 2, 0, 3]), 'binary data'],
  ['an XLSX file', utf8('PK\x03\x04rest'), "format 'xlsx'"],
  ['an old workbook', new Uint8Array([0xd0, 0xcf, 0x11, 0xe0, 0xa1]), 'password'],
  ['a field without an end', `a\n"${'x\n'.repeat(600_000)}`, 'row 2: field 1 exceeds 1048576 characters'],
  ['a row of too many characters', `a\n${`${'x'.repeat(2 ** 20)},`.repeat(17)}`, 'row 2: its texts exceed 16777216'],
  ['a row of too many fields', `a\n${','.repeat(2 ** 20)}`, 'row 2: it has over 1048576 fields'],
])('%s is an error that says what to do', async (_, text, message) => {
  const bytes = typeof text === 'string' ? utf8(text) : text;
  const reading = readRows(slicesOf(bytes, 65_536), { format: 'csv' });
  await expect(reading).rejects.toMatchObject({ code: 'WORKBOOK_INVALID', stopsLog: true, advice: expect.any(String) });
  await expect(reading).rejects.toThrow(message);
});

test.each([
  ['a delimiter of two characters', { delimiter: '::' }, 'delimiter "::"'],
  ['a quote as delimiter', { delimiter: '"' }, 'cannot separate'],
  ['the name of a sheet', { sheet: 'Data' }, 'has no sheets'],
])('%s is an error', async (_, options, message) => {
  await expect(read('a,b', options)).rejects.toThrow(message);
});
