import type { WorkbookOptions } from '../../../src/workbook/workbook.ts';
import { readRows, slicesOf } from '../../support/workbooks.ts';
import type { Cases, Follow } from './case.ts';

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
};
