import type { WorkbookOptions } from '../../../src/workbook/workbook.ts';
import { readRows, slicesOf } from '../../support/workbooks.ts';
import { xlsxBytes, zipArchive } from '../../support/xlsx.ts';
import { type Cases, type Follow, quoted } from './case.ts';

interface Given extends Partial<WorkbookOptions> {
  /** Content of the file: bytes, or a text in UTF-8. */
  readonly file?: string | Uint8Array;
}

function read({ file = 'a,b\n', ...options }: Given) {
  const bytes = typeof file === 'string' ? new TextEncoder().encode(file) : file;
  return readRows(slicesOf(bytes), { format: 'csv', ...options });
}

/** Reads a workbook that is refused, then the workbook that the advice asks for. */
function workbook(wrong: Given, right: Given): Follow {
  return async (refused) => {
    await refused(() => read(wrong));
    await read(right);
  };
}

/** An XLSX file whose first sheet has rows. */
function xlsx(rows = '<row><c><v>1</v></c></row>') {
  return xlsxBytes({ sheets: { Data: [rows] } });
}

/** Reads a file that is refused as XLSX, then the same sheet in a usual file. */
function savedAsXlsx(wrong: () => Uint8Array | Promise<Uint8Array>): Follow {
  return async (refused) => {
    const file = await wrong();
    await refused(() => read({ format: 'xlsx', file }));
    await read({ format: 'xlsx', file: await xlsx() });
  };
}

export const WORKBOOKS: Cases = {
  'Correct the row in the file: quotes around a field are closed, and quotes inside it are doubled': async (
    refused,
  ) => {
    for (const file of ['"a', '"a"b"']) await refused(() => read({ file }));
    await read({ file: '"a""b"' });
  },
  'Save the file again as CSV in UTF-8': workbook({ file: new Uint8Array([0xe9]) }, { file: 'é' }),
  'Use one character, for example a comma, a semicolon or a tab': workbook({ delimiter: '::' }, { delimiter: ';' }),
  'Name no sheet': workbook({ sheet: 'Data' }, {}),
  'Name no delimiter': async (refused) => {
    const file = await xlsx();
    await refused(() => read({ format: 'xlsx', file, delimiter: ';' }));
    await read({ format: 'xlsx', file });
  },
  'Name one of its sheets: …': async (refused) => {
    const file = await xlsx();
    const [sheet = ''] = quoted(await refused(() => read({ format: 'xlsx', file, sheet: 'Other' })));
    await read({ format: 'xlsx', file, sheet });
  },
  "Read it with the format 'xlsx'": async (refused) => {
    const file = await xlsx();
    await refused(() => read({ file }));
    await read({ format: 'xlsx', file });
  },
  "Save it as XLSX, or read it with the format 'csv' if it is text": workbook({ format: 'xlsx' }, {}),
  'Save it as XLSX without a password': savedAsXlsx(() => new Uint8Array([0xd0, 0xcf, 0x11, 0xe0])),
  'Get a complete copy of the file, or open it in a spreadsheet program and save it again as XLSX': savedAsXlsx(
    async () => (await xlsx()).subarray(0, -1),
  ),
  'Open the file in a spreadsheet program and save it as XLSX': savedAsXlsx(async () =>
    Buffer.concat(await Array.fromAsync(zipArchive([{ name: 'mimetype', content: ['ods'] }]))),
  ),
  "Open the file in a spreadsheet program, compute all formulas (in LibreOffice with Ctrl+Shift+F9) and save it, or import the results as they are stored: give `formulas: 'stored'`, on the command line --formulas stored":
    async (refused) => {
      const file = await xlsx('<row><c><f>1+1</f><v/></c></row>');
      await refused(() => read({ format: 'xlsx', file }));
      await read({ format: 'xlsx', file, formulas: 'stored' });
    },
  "Leave out 'formulas'": workbook({ formulas: 'stored' }, {}),
  'Save the sheet as CSV, which has no such limit': async (refused) => {
    const file = await xlsx(' '.repeat(20_000_000));
    await refused(() => read({ format: 'xlsx', file }));
    await read({});
  },
};
