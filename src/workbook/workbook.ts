import type { ByteSource } from '../codec/bytes.ts';
import { WorkbookInvalidError } from '../errors.ts';
import { readCsv } from './csv.ts';
import type { WorkbookRow } from './row.ts';
import type { RulesNumber } from './typed-text.ts';

/** How to read a workbook. */
export interface WorkbookOptions {
  readonly format: 'csv' | 'xlsx';
  /** The sheet of an XLSX file, by name. The first sheet by default. */
  readonly sheet?: string | undefined;
  /** The character between the fields of a CSV file. A comma by default. */
  readonly delimiter?: string | undefined;
  /**
   * `text`, the default: each value is the text that a spreadsheet program shows. `typed`: numbers,
   * booleans and dates are such values, and the rest is text.
   */
  readonly values?: 'text' | 'typed' | undefined;
  /**
   * `computed`, the default: a formula without a valid result is an error. `stored`: the result is
   * the one in the file, and a cell without one is empty.
   */
  readonly formulas?: 'computed' | 'stored' | undefined;
}

/** How to read a stored workbook, and what to count. */
export interface WorkbookReading extends WorkbookOptions {
  /** 2, the newest, by default. */
  readonly rules?: RulesNumber;
  /** Called for each formula that is an error unless `formulas` is `stored`. */
  readonly onInvalidResult?: (() => void) | undefined;
}

/**
 * Reads a sheet of a workbook in batches of rows, in ascending order. Rows without cells are left
 * out. The memory is bounded: it does not grow with the number of rows, except for the distinct
 * texts of an XLSX file. An XLSX file is read several times.
 * @throws WorkbookInvalidError if the file is not a workbook of this format, is damaged or exceeds
 * a limit, if it lacks the sheet, or if an option does not fit the format
 */
export async function* readWorkbook(file: ByteSource, options: WorkbookReading): AsyncGenerator<WorkbookRow[]> {
  const { format, sheet, delimiter, values = 'text', formulas, rules = 2, onInvalidResult } = options;
  if (format === 'csv') {
    if (sheet !== undefined) throw new WorkbookInvalidError('a CSV file has no sheets', { advice: 'Name no sheet' });
    if (formulas !== undefined) {
      throw new WorkbookInvalidError('a CSV file has no formulas', { advice: "Leave out 'formulas'" });
    }
    yield* readCsv(file, { delimiter, values, rules });
    return;
  }
  if (delimiter !== undefined) {
    throw new WorkbookInvalidError('an XLSX file has no delimiter', { advice: 'Name no delimiter' });
  }
  // Pages load this code only when they need it.
  const { readXlsx } = await import('./xlsx.ts');
  yield* readXlsx(file, { sheet, values, formulas: formulas ?? 'computed', rules, onInvalidResult });
}
