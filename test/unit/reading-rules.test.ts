import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import type { WorkbookReading } from '../../src/workbook/workbook.ts';
import { readRows, slicesOf } from '../support/workbooks.ts';
import { xlsxBytes } from '../support/xlsx.ts';

const FORMATS = ['yyyy-mm-dd hh:mm'];

/** The values in the cells of a row with this XML. */
async function readRow(cells: string, options: Partial<WorkbookReading>, after = ''): Promise<Value[]> {
  const rows = [`<row r="1">${cells}</row>`];
  const bytes = await xlsxBytes({ sheets: { Data: rows }, formats: FORMATS, after, strings: ['<t>shared</t>'] });
  const [[, ...row] = [0]] = await readRows(slicesOf(bytes), { format: 'xlsx', ...options });
  return row.map(([, value]) => value);
}

/** A cell, and its value by the rules 1 and by the rules 2, or why it is refused. */
const CELLS: readonly (readonly [cell: string, first: Value | RegExp, newest: Value | RegExp])[] = [
  ['<c t="b"><v>1</v></c>', 'TRUE', 'TRUE'],
  ['<c t="b"><v>false</v></c>', 'FALSE', 'FALSE'],
  ['<c t="b"><v>TRUE</v></c>', 'FALSE', 'TRUE'],
  ['<c t="b"><v> 1 </v></c>', 'FALSE', 'TRUE'],
  ['<c t="b"><v>yes</v></c>', 'FALSE', /cell A1 has the boolean 'yes'/],
  ['<c t="b"><v>2</v></c>', 'FALSE', /cell A1 has the boolean '2'/],
  ['<c t="b"><v/></c>', 'FALSE', ''],
  ['<c t="e"><v/></c>', '', ''],
  ['<c t="s"><v/></c>', /shared text ''/, ''],
  ['<c><v>1.50</v></c>', '1.5', '1.5'],
  ['<c><v> +1e3 </v></c>', '1000', '1000'],
  ['<c><v>0x10</v></c>', '16', /cell A1 has the number '0x10'/],
  ['<c><v>0b11</v></c>', '3', /cell A1 has the number '0b11'/],
  ['<c><v>1e999</v></c>', /the number '1e999'/, /the number '1e999'/],
  ['<c><v>1_000</v></c>', /the number '1_000'/, /the number '1_000'/],
  ['<c t="str"><v>a_xD83D_b_x000A_c</v></c>', 'a_xD83D_b_x000A_c', 'a_xD83D_b\nc'],
  ['<c t="str"><v>_xd83d__xde00__xDE00_</v></c>', '_xd83d__xde00__xDE00_', '😀_xDE00_'],
  ['<c t="str"><v>_x005F_x000A_</v></c>', '_x000A_', '_x000A_'],
  ['<c t="d" s="1"><v>2026-01-05</v></c>', '2026-01-05 00:00', '2026-01-05 00:00'],
  ['<c t="d" s="1"><v>2026-01-05T10:30</v></c>', '2026-01-05 10:30', '2026-01-05 10:30'],
  ['<c t="d" s="1"><v>2026-01-05T10:30:00+02:00</v></c>', '2026-01-05 08:30', '2026-01-05 08:30'],
  // The first rules read these in the zone of the machine, and now in UTC.
  ['<c t="d" s="1"><v>2026-01-05 10:30</v></c>', '2026-01-05 10:30', '2026-01-05 10:30'],
  ['<c t="d" s="1"><v>1/5/2026</v></c>', '2026-01-05 00:00', /cell A1 has the date '1\/5\/2026'/],
  ['<c t="d" s="1"><v>Jan 5, 2026</v></c>', /the date 'Jan 5, 2026'/, /the date 'Jan 5, 2026'/],
  ['<c t="d" s="1"><v>2026-02-31</v></c>', '2026-03-03 00:00', /cell A1 has the date '2026-02-31'/],
  ['<c t="d" s="1"><v>1900-01-15</v></c>', '1900-01-16 00:00', '1900-01-15 00:00'],
  ['<c t="d"><v>06:00:00</v></c>', /the date '06:00:00'/, '0.25'],
  ['<c t="d"><v>PT1H</v></c>', /the date 'PT1H'/, /the date 'PT1H'/],
];

describe.each([1, 2] as const)('by the rules %i', (rules) => {
  test.each(CELLS)('a cell %s has one value everywhere', async (cell, first, newest) => {
    const expected = rules === 1 ? first : newest;
    const reading = readRow(`${cell}<c t="s"><v>0</v></c>`, { rules });
    if (expected instanceof RegExp) {
      await expect(reading).rejects.toMatchObject({ code: 'WORKBOOK_INVALID' });
      await expect(reading).rejects.toThrow(expected);
    } else expect(await reading).toEqual([...(expected === '' ? [] : [expected]), 'shared']);
  });
});

describe('a formula without a result', () => {
  const types = ['', 't="n"', 't="b"', 't="e"', 't="s"', 't="d"'];
  const results = ['', '<v/>', '<v></v>', '<v> </v>', '<v><!-- 1 --></v>'];
  const cells = types.flatMap((type) => results.map((result) => `<c ${type}><f>A2</f>${result}</c>`));

  test.each([...cells, '<c t="str"><f>A2</f></c>', '<c t="inlineStr"><f>A2</f></c>'])(
    '%s is an error',
    async (cell) => {
      await expect(readRow(cell, {})).rejects.toThrow(
        "row 1 of sheet 'Data': cell A1 has a formula without its result. Open the file",
      );
      let invalid = 0;
      const onInvalidResult = () => invalid++;
      expect(await readRow(`${cell}<c><v>1</v></c>`, { formulas: 'stored', onInvalidResult })).toEqual(['1']);
      expect(invalid).toBe(1);
    },
  );

  test('an empty text is a result', async () => {
    expect(await readRow('<c t="str"><f>A2</f><v></v></c><c><v>1</v></c>', {})).toEqual(['1']);
  });

  test('the first rules take an empty result as an empty cell, and only refuse a missing one', async () => {
    const options = { rules: 1 } as const;
    expect(await readRow('<c><f>A2</f><v/></c><c t="b"><f>A2</f><v/></c>', options)).toEqual(['FALSE']);
    await expect(readRow('<c><f>A2</f></c>', options)).rejects.toThrow('cell A1 has a formula without its result');
  });
});

describe('text that looks like a merged area', () => {
  const cells = '<c><v>1</v></c><c><v>2</v></c>';
  const area = '<mergeCell ref="A1:B1"/>';

  test.each([
    ['a comment', `<!-- ${area} -->`],
    ['a comment in the list', `<mergeCells><!-- ${area} --></mergeCells>`],
    ['character data', `<x><![CDATA[${area}]]></x>`],
    ['an instruction', `<?x ${area} ?>`],
    ['an element elsewhere', `<extLst><mergeCells>${area}</mergeCells></extLst>`],
  ])('%s hides no cell, but does by the first rules', async (_, after) => {
    expect(await readRow(cells, {}, after)).toEqual(['1', '2']);
    expect(await readRow(cells, { rules: 1 }, after)).toEqual(['1']);
  });

  test('an area hides cells, for slices of any size', async () => {
    const after = `<x:mergeCells xmlns:x="urn:x"><x:mergeCell\n ref = 'A1:B1' /></x:mergeCells>`;
    const sheets = { Data: [`<row>${cells}</row>`] };
    const bytes = await xlsxBytes({ sheets, after });
    for (const size of [1, 7, 64, 1000]) {
      expect(await readRows(slicesOf(bytes, size), { format: 'xlsx' })).toEqual([[0, [0, '1']]]);
    }
  });

  test.each(['B1:A1', 'A1:', 'A1:B1:C1', 'x'])('an area %s is an error', async (ref) => {
    const after = `<mergeCells><mergeCell ref="${ref}"/></mergeCells>`;
    await expect(readRow(cells, {}, after)).rejects.toThrow(`merges the cells ${ref}`);
  });
});

describe('a typed field of CSV', () => {
  async function read(text: string, rules: 1 | 2): Promise<Value | undefined> {
    const file = slicesOf(new TextEncoder().encode(text));
    return (await readRows(file, { format: 'csv', values: 'typed', rules }))[0]?.[1]?.[1];
  }

  test.each([
    ['9007199254740993.0', 9007199254740992],
    ['1e-400', 0],
    ['12345678901234567890e0', 12345678901234567000],
    ['0.10000000000000000001', 0.1],
    ['-0', -0],
    [`0.${'0'.repeat(200_000)}1`, 0],
  ])('%s stays a text, and was a number by the first rules', async (text, number) => {
    expect(await read(text, 2)).toBe(text);
    expect(await read(text, 1)).toBe(number);
  });

  test.each([
    ['1.50', 1.5],
    ['1e16', 1e16],
    ['100e-2', 1],
    ['0.000', 0],
    ['1E+2', 100],
    ['0.30000000000000004', 0.30000000000000004],
    ['5e-324', 5e-324],
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', '9007199254740993'],
    ['2026-01-05T24:00', new Date('2026-01-06T00:00:00Z')],
    ['0000-02-29', new Date('0000-02-29T00:00:00Z')],
    ['2026-02-29', '2026-02-29'],
    ['2026-01-05T10:00+24:00', '2026-01-05T10:00+24:00'],
  ])('%s is the same by all rules', async (text, value) => {
    expect([await read(text, 1), await read(text, 2)]).toEqual([value, value]);
  });
});
