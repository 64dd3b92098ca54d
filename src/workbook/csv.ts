import type { ByteSource } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { WorkbookInvalidError } from '../errors.ts';
import { checkSignature } from './invalid-workbook.ts';
import { MAX_CELL_CHARACTERS, MAX_ROW_CHARACTERS, RowBatch, type WorkbookCell, type WorkbookRow } from './row.ts';
import { decodeText } from './text-decoding.ts';
import { type RulesNumber, typedValue } from './typed-text.ts';

const MAX_CSV_COLUMNS = 2 ** 20;

const QUOTES_ADVICE = 'Correct the row in the file: quotes around a field are closed, and quotes inside it are doubled';
const ENCODING_ADVICE = 'Save the file again as CSV in UTF-8';

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

/** How to read a CSV file. */
export interface CsvOptions {
  readonly delimiter?: string | undefined;
  readonly values: 'text' | 'typed';
  readonly rules: RulesNumber;
}

/**
 * Reads a CSV file as RFC 4180 defines it, in UTF-8, or in UTF-16 with a byte order mark. A row may
 * have fewer fields than others. Quotes inside a field that does not begin with one are text.
 * @throws WorkbookInvalidError if the file is not text, a quote is not closed, text follows a
 * closing quote, or a row exceeds a limit
 */
export async function* readCsv(file: ByteSource, options: CsvOptions): AsyncGenerator<WorkbookRow[]> {
  const parser = new CsvParser(options);
  const notText = () => parser.error('the text after it is not UTF-8', ENCODING_ADVICE);
  for await (const text of decodeText(file(), notText, (first) => checkSignature(first, 'csv'))) {
    parser.write(text);
    if (parser.batch.full) yield parser.batch.take();
  }
  parser.end();
  const last = parser.batch.take();
  if (last.length > 0) yield last;
}

type FieldPart = 'start' | 'plain' | 'quoted' | 'after quote';

class CsvParser {
  readonly batch = new RowBatch();
  readonly #delimiter: number;
  readonly #typed: boolean;
  readonly #rules: RulesNumber;
  #row = 0;
  #column = 0;
  #cells: WorkbookCell[] = [];
  #rowCharacters = 0;
  #in: FieldPart = 'start';
  /** The field's text from earlier slices and before doubled quotes. */
  #held = '';
  #skipLf = false;

  constructor({ delimiter = ',', values, rules }: CsvOptions) {
    if (delimiter.length !== 1 || '"\r\n'.includes(delimiter)) {
      throw new WorkbookInvalidError(`the delimiter ${JSON.stringify(delimiter)} cannot separate fields`, {
        advice: 'Use one character, for example a comma, a semicolon or a tab',
      });
    }
    this.#delimiter = delimiter.charCodeAt(0);
    this.#typed = values === 'typed';
    this.#rules = rules;
  }

  end(): void {
    if (this.#in === 'quoted') throw this.error('a quote is not closed', QUOTES_ADVICE);
    if (this.#in === 'start' && this.#column === 0) return;
    this.#endField(this.#held);
    this.#endRow();
  }

  write(text: string): void {
    if (text.includes('\0')) throw this.error('binary data follows it', ENCODING_ADVICE);
    let from = 0;
    let i = 0;
    if (this.#skipLf && text.length > 0) {
      this.#skipLf = false;
      if (text.charCodeAt(0) === LF) from = i = 1;
    }
    for (; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (this.#in === 'quoted') {
        const quote = text.indexOf('"', i);
        if (quote < 0) break;
        this.#hold(text.slice(from, quote));
        this.#in = 'after quote';
        from = i = quote;
        from++;
      } else if (c === this.#delimiter) {
        this.#endField(this.#held + text.slice(from, i));
        from = i + 1;
      } else if (c === LF || c === CR) {
        // An empty line is a row without cells.
        this.#endField(this.#held + text.slice(from, i));
        this.#endRow();
        if (c === CR) {
          if (i + 1 === text.length) this.#skipLf = true;
          else if (text.charCodeAt(i + 1) === LF) i++;
        }
        from = i + 1;
      } else if (this.#in === 'after quote') {
        if (c !== QUOTE) throw this.error('text follows a closing quote', QUOTES_ADVICE);
        // The second of two quotes is text, and so begins the next part of the field.
        this.#in = 'quoted';
      } else if (this.#in === 'start') {
        if (c === QUOTE) from = i + 1;
        this.#in = c === QUOTE ? 'quoted' : 'plain';
      }
    }
    this.#hold(text.slice(from));
  }

  #hold(text: string): void {
    this.#held += text;
    this.#check(this.#held);
  }

  #endField(text: string): void {
    this.#check(text);
    if (text !== '') this.#cells.push([this.#column, this.#value(text)]);
    this.#rowCharacters += text.length;
    if (this.#rowCharacters > MAX_ROW_CHARACTERS) {
      throw this.error(`its texts exceed ${MAX_ROW_CHARACTERS} characters`, QUOTES_ADVICE);
    }
    if (this.#column >= MAX_CSV_COLUMNS) throw this.error(`it has over ${MAX_CSV_COLUMNS} fields`, QUOTES_ADVICE);
    this.#held = '';
    this.#in = 'start';
    this.#column++;
  }

  #value(text: string): Value {
    return this.#typed ? typedValue(text, this.#rules) : text;
  }

  #endRow(): void {
    if (this.#cells.length > 0) this.batch.add({ row: this.#row, cells: this.#cells }, this.#rowCharacters);
    this.#row++;
    this.#column = 0;
    this.#cells = [];
    this.#rowCharacters = 0;
  }

  #check(text: string): void {
    if (text.length > MAX_CELL_CHARACTERS) {
      throw this.error(`field ${this.#column + 1} exceeds ${MAX_CELL_CHARACTERS} characters`, QUOTES_ADVICE);
    }
  }

  /** An error in the current row. */
  error(reason: string, advice: string): WorkbookInvalidError {
    return new WorkbookInvalidError(reason, { row: this.#row + 1, advice });
  }
}
