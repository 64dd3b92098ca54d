import { dateAt, type Value } from '../codec/value.ts';
import { WorkbookInvalidError } from '../errors.ts';
import { type CellFormats, dayNumber } from './cell-format.ts';
import { cellReference, MAX_XLSX_COLUMNS, MAX_XLSX_ROWS, parseReference } from './cell-reference.ts';
import { damagedWorkbook, workbookTooLarge } from './invalid-workbook.ts';
import { DAY_MS } from './iso-time.ts';
import type { MergedCells } from './merged-areas.ts';
import type { XlsxRules } from './reading-rules.ts';
import { MAX_CELL_CHARACTERS, MAX_ROW_CHARACTERS, RowBatch, type WorkbookCell } from './row.ts';
import { CellText, type SharedStrings } from './shared-strings.ts';
import type { XmlAttributes, XmlHandler } from './xml-parser.ts';

const COMPUTE_ADVICE =
  "Open the file in a spreadsheet program, compute all formulas (in LibreOffice with Ctrl+Shift+F9) and save it, or import the results as they are stored: give `formulas: 'stored'`, on the command line --formulas stored";

/** A sheet of an XLSX file, and what its cells refer to. */
export interface XlsxSheet {
  readonly name: string;
  readonly strings: SharedStrings;
  readonly formats: CellFormats;
  readonly merged: MergedCells;
  readonly from1904: boolean;
  /** Whether the workbook asks programs to compute all its formulas again. */
  readonly asksToCompute: boolean;
  readonly rules: XlsxRules;
  readonly values: 'text' | 'typed';
  readonly formulas: 'computed' | 'stored';
  readonly onInvalidResult?: (() => void) | undefined;
}

/** Turns the XML of a sheet into rows. */
export class SheetParser implements XmlHandler {
  readonly batch = new RowBatch();
  readonly #sheet: XlsxSheet;
  readonly #typed: boolean;
  #isIn: 'elsewhere' | 'data' | 'value' | 'string' = 'elsewhere';
  #row = -1;
  #cells: WorkbookCell[] = [];
  #rowCharacters = 0;
  #column = -1;
  #type = 'n';
  #style = 0;
  /** The cell's `<v>`; undefined if it has none. */
  #value: string | undefined;
  #hasFormula = false;
  /** Whether the cell has an `<is>`. */
  #hasString = false;
  readonly #rules: XlsxRules;
  readonly #inline: CellText;

  constructor(sheet: XlsxSheet) {
    this.#sheet = sheet;
    this.#typed = sheet.values === 'typed';
    this.#rules = sheet.rules;
    this.#inline = new CellText(sheet.rules.unescaped, () => this.#tooLong());
  }

  open(name: string, attributes: XmlAttributes): void {
    if (this.#isIn === 'string') return this.#inline.open(name);
    if (name === 'sheetData') this.#isIn = 'data';
    if (this.#isIn !== 'data') return;
    switch (name) {
      case 'row':
        return this.#openRow(attributes);
      case 'c':
        return this.#openCell(attributes);
      case 'v':
        this.#value = '';
        this.#isIn = 'value';
        return;
      case 'is':
        this.#hasString = true;
        this.#isIn = 'string';
        return;
      case 'f':
        this.#hasFormula = true;
    }
  }

  text(text: string): void {
    if (this.#isIn === 'value') {
      this.#value += text;
      if ((this.#value?.length ?? 0) > MAX_CELL_CHARACTERS) throw this.#tooLong();
    } else if (this.#isIn === 'string') this.#inline.text(text);
  }

  close(name: string): void {
    switch (this.#isIn) {
      case 'value':
        if (name === 'v') this.#isIn = 'data';
        return;
      case 'string':
        this.#inline.close(name);
        if (name === 'is') this.#isIn = 'data';
        return;
      case 'data':
        if (name === 'c') this.#closeCell();
        else if (name === 'row') this.#closeRow();
        else if (name === 'sheetData') this.#isIn = 'elsewhere';
    }
  }

  /** An error in the current row. */
  error(reason: string): WorkbookInvalidError {
    return damagedWorkbook(reason, this.#place());
  }

  #place() {
    return { sheet: this.#sheet.name, ...(this.#row < 0 ? {} : { row: this.#row + 1 }) };
  }

  #openRow({ r }: XmlAttributes): void {
    const row = r === undefined ? this.#row + 1 : /^\d{1,7}$/.test(r) ? Number(r) - 1 : Number.NaN;
    if (!(row > this.#row && row < MAX_XLSX_ROWS)) throw this.error(`row '${r ?? row + 1}' follows`);
    this.#row = row;
    this.#column = -1;
    this.#cells = [];
    this.#rowCharacters = 0;
  }

  #openCell({ r, t = 'n', s = '0' }: XmlAttributes): void {
    const place = r === undefined ? { row: this.#row, column: this.#column + 1 } : parseReference(r);
    const follows = place !== undefined && place.row === this.#row && place.column > this.#column;
    if (!follows || place.column >= MAX_XLSX_COLUMNS) throw this.error(`cell '${r ?? ''}' is at a wrong place`);
    this.#column = place.column;
    this.#type = t;
    this.#style = Number(s);
    this.#value = undefined;
    this.#hasFormula = false;
    this.#hasString = false;
    this.#inline.clear();
  }

  #closeCell(): void {
    const place = { row: this.#row, column: this.#column };
    if (this.#hasFormula) this.#checkResult();
    const value = this.#cellValue();
    if (value === '' || this.#sheet.merged.hides(place)) return;
    const characters = typeof value === 'string' ? value.length : 1;
    this.#rowCharacters += characters;
    if (characters > MAX_CELL_CHARACTERS || this.#rowCharacters > MAX_ROW_CHARACTERS) {
      throw this.#tooLong();
    }
    this.#cells.push([this.#column, value]);
  }

  #tooLong(): WorkbookInvalidError {
    const cell = cellReference({ row: this.#row, column: this.#column });
    return workbookTooLarge(`the text up to cell ${cell} is too long`, this.#place());
  }

  #closeRow(): void {
    if (this.#cells.length > 0) this.batch.add({ row: this.#row, cells: this.#cells }, this.#rowCharacters);
  }

  /** The value of the cell; '' if it is empty. */
  #cellValue(): Value {
    if (this.#type === 'inlineStr') return this.#shownText(this.#inline.take());
    const text = this.#value;
    if (text === undefined || this.#rules.isEmpty(this.#type, text)) return '';
    switch (this.#type) {
      case 's':
        return this.#shownText(this.#sharedText(text));
      case 'str':
        return this.#shownText(this.#rules.unescaped(text));
      case 'b':
        return this.#booleanValue(text);
      case 'e':
        return text;
      case 'd':
        return this.#dateValue(text);
      case 'n':
        return this.#numberValue(this.#number(text));
      default:
        throw this.#cellError(`has the unknown type '${this.#type}'`);
    }
  }

  #sharedText(index: string): string {
    const text = /^\d+$/.test(index) ? this.#sheet.strings.get(Number(index)) : undefined;
    if (text === undefined) throw this.#cellError(`has the shared text '${index}', which the file lacks`);
    return text;
  }

  #shownText(text: string): string {
    return this.#typed || text === '' ? text : this.#sheet.formats.of(this.#style).showText(text);
  }

  #booleanValue(text: string): Value {
    const isTrue = this.#rules.booleanOf(text);
    if (isTrue === undefined) throw this.#cellError(`has the boolean '${text}'`);
    return this.#typed ? isTrue : isTrue ? 'TRUE' : 'FALSE';
  }

  #dateValue(text: string): Value {
    const time = this.#rules.timeOf(text);
    if (time === undefined) throw this.#cellError(`has the date '${text}'`);
    if ('dayMs' in time) return this.#numberValue(time.dayMs / DAY_MS);
    if (this.#typed) return dateAt(time.epochMs);
    const { countsLeapDay } = this.#rules;
    return this.#numberValue(dayNumber(time.epochMs, { from1904: this.#sheet.from1904, countsLeapDay }));
  }

  #number(text: string): number {
    const number = this.#rules.numberOf(text);
    if (number === undefined) throw this.#cellError(`has the number '${text}'`);
    return number;
  }

  #numberValue(number: number): Value {
    const format = this.#sheet.formats.of(this.#style);
    return this.#typed ? (format.toDate(number) ?? number) : format.showNumber(number);
  }

  /** @throws WorkbookInvalidError if the formula of the cell has no valid result */
  #checkResult(): void {
    const { asksToCompute, formulas, onInvalidResult } = this.#sheet;
    const isEmpty = this.#hasNoResult();
    if (!isEmpty && !(asksToCompute && this.#rules.needsResults)) return;
    onInvalidResult?.();
    if (formulas === 'stored') return;
    const cell = cellReference({ row: this.#row, column: this.#column });
    const reason = isEmpty
      ? `cell ${cell} has a formula without its result`
      : `cell ${cell} has a formula, and the workbook says that results must be computed again`;
    throw new WorkbookInvalidError(reason, { ...this.#place(), advice: COMPUTE_ADVICE });
  }

  #hasNoResult(): boolean {
    const { needsResults, isEmpty } = this.#rules;
    if (this.#type === 'inlineStr') return needsResults && !this.#hasString;
    if (this.#value === undefined) return true;
    return needsResults && isEmpty(this.#type, this.#value);
  }

  #cellError(reason: string): WorkbookInvalidError {
    return this.error(`cell ${cellReference({ row: this.#row, column: this.#column })} ${reason}`);
  }
}
