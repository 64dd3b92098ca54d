import { readFile } from 'node:fs/promises';
import { test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { expectGoldenText } from '../support/golden.ts';
import { SheetLog } from '../support/sheet-log.ts';
import { xlsxBytes } from '../support/xlsx.ts';

const FIELDS = ['1.50', '007', '9007199254740993.0', '1e-400', '-0', 'TRUE', '2026-01-05 10:30', '2026-02-31', 'text'];
const CELLS = [
  '<c t="b"><v>TRUE</v></c><c t="d"><v>2026-01-05T10:30</v></c><c t="d" s="1"><v>1900-01-15</v></c>',
  '<c t="str"><v>a_xD83D_b_x000A_c</v></c><c s="1"><v>46027.4375</v></c><c><v>0.30000000000000004</v></c>',
  '<c t="s"><v>0</v></c><c t="e"><v>#N/A</v></c><c t="str"><f>1</f><v></v></c>',
];

/** The state hash of a sheet after one import, or how the import stopped the log. */
async function outcome(bytes: Uint8Array, body: Value): Promise<string> {
  const sheet = await SheetLog.create();
  await sheet.append({ type: 'Import', version: 1, body, file: await sheet.saveFile(bytes) });
  const position = await sheet.snapshot();
  const { outcome: result } = await sheet.complete(position);
  return result === 'built' ? sheet.stateHash(position) : result;
}

test('imports by each rules have the state hashes of the golden file', async () => {
  const row = `<row>${CELLS.join('')}</row>`;
  const after = '<!-- <mergeCell ref="A1:B1"/> -->';
  const content = { sheets: { Data: [row] }, after, strings: ['<t>shared</t>'], formats: ['yyyy-mm-dd hh:mm'] };
  const program = (name: string) => readFile(new URL(`../support/workbooks/${name}.xlsx`, import.meta.url));
  const files: readonly (readonly [name: string, format: 'csv' | 'xlsx', bytes: Uint8Array])[] = [
    ['fields', 'csv', new TextEncoder().encode(FIELDS.join(','))],
    ['cells', 'xlsx', await xlsxBytes(content)],
    ['values', 'xlsx', await program('values')],
    ['openpyxl-iso-dates', 'xlsx', await program('openpyxl-iso-dates')],
    ['openpyxl-formulas', 'xlsx', await program('openpyxl-formulas')],
  ];
  const lines: string[] = [];
  for (const [name, format, bytes] of files) {
    for (const values of ['text', 'typed'] as const) {
      for (const body of [{ format, values }, importBody({ format, values })]) {
        lines.push(`${name} ${JSON.stringify(body)} ${await outcome(bytes, body)}`);
      }
    }
  }
  await expectGoldenText('imports.txt', `${lines.join('\n')}\n`);
});
