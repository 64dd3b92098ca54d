import type { ByteSource } from '../../codec/bytes.ts';
import { isObject, type Value } from '../../codec/value.ts';
import { BodyInvalidError } from '../../errors.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import type { RulesNumber } from '../../workbook/typed-text.ts';
import type { WorkbookOptions, WorkbookReading } from '../../workbook/workbook.ts';
import type { FoldEntry } from '../reducer.ts';
import { checkCellPlace } from './cell-key.ts';
import type { Sheet } from './sheet.ts';

/**
 * An import puts the cells of a workbook, the entry's file, into the sheet. Empty fields of the
 * workbook leave cells as they are.
 */
export interface SheetImport extends WorkbookOptions {
  /** Position in the sheet of the workbook's first row; 0 by default. */
  readonly row?: number | undefined;
  /** Position in the sheet of the workbook's first column; 0 by default. */
  readonly column?: number | undefined;
}

/** The rules that `importBody` names. */
const NEWEST: RulesNumber = 2;

const NAMES = ['format', 'sheet', 'delimiter', 'values', 'formulas', 'row', 'column'] satisfies (keyof SheetImport)[];
const ADVICE = "Append such entries with 'logfold import', or give the fields of a `SheetImport` and a file";

/**
 * The body of an Import entry in version 1, which names the newest rules for the file.
 * @throws UsageError if a field has a wrong name
 * @throws BodyInvalidError if a field has a wrong value
 */
export function importBody(given: SheetImport): Value {
  checkOptionNames('importBody', given, NAMES);
  const { format, sheet, delimiter, values, formulas, row, column } = given;
  const fields = { format, sheet, delimiter, values, formulas, row, column, rules: NEWEST };
  const named: [string, Value | undefined][] = Object.entries(fields);
  const body = Object.fromEntries(named.filter((field): field is [string, Value] => field[1] !== undefined));
  parseImport(body);
  return body;
}

/**
 * Reads the body of an Import entry.
 * @throws BodyInvalidError
 */
function parseImport(body: Value): SheetImport & { readonly rules: RulesNumber } {
  if (!isObject(body)) throw invalid('its body is not an object');
  const { format, sheet, delimiter, values, formulas, row, column, rules = 1 } = body;
  const unknown = Object.keys(body).find((name) => ![...NAMES, 'rules'].includes(name));
  if (unknown !== undefined) throw invalid(`'${unknown}' is not a field of its body`);
  if (format !== 'csv' && format !== 'xlsx') throw invalid("'format' is neither 'csv' nor 'xlsx'");
  if (values !== undefined && values !== 'text' && values !== 'typed') {
    throw invalid("'values' is neither 'text' nor 'typed'");
  }
  if (rules !== 1 && rules !== 2) throw invalid("'rules' is neither 1 nor 2");
  if (formulas !== undefined && rules === 1) throw invalid("'formulas' is not a field of its body by the rules 1");
  if (formulas !== undefined && formulas !== 'computed' && formulas !== 'stored') {
    throw invalid("'formulas' is neither 'computed' nor 'stored'");
  }
  if (!isOptionalText(sheet)) throw invalid("'sheet' is not a text");
  if (!isOptionalText(delimiter)) throw invalid("'delimiter' is not a text");
  if (!isOptionalPlace(row)) throw invalid("'row' is not a whole number of at least 0");
  if (!isOptionalPlace(column)) throw invalid("'column' is not a whole number of at least 0");
  return { format, sheet, delimiter, values, formulas, row, column, rules };
}

/**
 * Reads the cells of a workbook, at their positions in the sheet, in bounded memory. Folds and the
 * check before an import use it, so both accept the same files.
 * @param put gets each cell that is not empty; its promise is awaited
 * @throws WorkbookInvalidError if the file cannot be read
 * @throws SheetLimitError if a cell is outside the sheet
 */
export async function readImport(
  file: ByteSource,
  { row: top = 0, column: left = 0, ...options }: SheetImport & WorkbookReading,
  put: (row: number, column: number, value: Value) => undefined | Promise<void>,
): Promise<void> {
  // Most sheets import nothing. A page loads this code only if it folds an import.
  const { readWorkbook } = await import('../../workbook/workbook.ts');
  for await (const rows of readWorkbook(file, options)) {
    for (const { row, cells } of rows) {
      for (const [column, value] of cells) {
        checkCellPlace(top + row, left + column);
        const fetched = put(top + row, left + column, value);
        if (fetched !== undefined) await fetched;
      }
    }
  }
}

/**
 * Folds an Import entry into a sheet.
 * @throws BodyInvalidError if the body is malformed, or the entry has no file
 * @throws the errors of {@link readImport}
 */
export function foldImport(sheet: Sheet, { body, file }: FoldEntry): Promise<void> {
  const parsed = parseImport(body);
  if (file === undefined) throw invalid('it has no file');
  return readImport(
    () => file.bytes(),
    parsed,
    (row, column, value) => sheet.set(row, column, value),
  );
}

function isOptionalText(value: Value | undefined): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isOptionalPlace(value: Value | undefined): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0);
}

function invalid(reason: string): BodyInvalidError {
  return new BodyInvalidError(`an 'Import' entry cannot be read: ${reason}`, { advice: ADVICE });
}
