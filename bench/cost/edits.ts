import { parseLogId } from '../../src/ids/log-id.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { newEntryId } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { type CellEdit, type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { Random } from '../random.ts';
import type { UsageModel } from './model.ts';

const COLUMNS = 8;
/** The edits of one day are in this number of adjacent rows. */
const AREA_ROWS = 200;
const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
/**
 * The texts are parts of a pool of letters. The pool is too large for compression to find
 * repetitions.
 */
const POOL_LETTERS = 1_000_000;

/** The edits of a user: rows with random letters, in another area of the sheet each day. */
export class Edits {
  readonly #model: Pick<UsageModel, 'rows' | 'entryBytes'>;
  readonly #random = new Random(1);
  readonly #pool = Array.from({ length: POOL_LETTERS }, () => LETTERS[this.#random.below(LETTERS.length)]).join('');
  #area = 0;

  constructor(model: Pick<UsageModel, 'rows' | 'entryBytes'>) {
    this.#model = model;
  }

  /** Moves to another area. */
  nextDay(): void {
    this.#area = this.#random.below(Math.max(1, this.#model.rows - AREA_ROWS));
  }

  /** An entry that fills a row. It has the size of the model, or is a few bytes smaller. */
  next(): NewEntry {
    const row = this.#area + this.#random.below(Math.min(AREA_ROWS, this.#model.rows));
    let letters = Math.max(0, this.#model.entryBytes - bytesOf(this.#fill(row, 0)));
    // Longer texts have longer headers.
    letters -= Math.max(0, bytesOf(this.#fill(row, letters)) - this.#model.entryBytes);
    return newEntry(this.#fill(row, letters));
  }

  #fill(row: number, letters: number): SheetEdit {
    const cells = Array.from({ length: COLUMNS }, (_, column): CellEdit => {
      const length = Math.floor((letters + column) / COLUMNS);
      return [row, column, this.#text(Math.max(1, length))];
    });
    return { type: 'Set', cells };
  }

  #text(length: number): string {
    const start = this.#random.below(POOL_LETTERS - length);
    return this.#pool.slice(start, start + length);
  }
}

function newEntry(edit: SheetEdit): NewEntry {
  return { type: edit.type, version: 1, body: sheetBody(edit) };
}

/** Bytes of an edit's item. */
function bytesOf(edit: SheetEdit): number {
  const log = parseLogId('00000000-0000-4000-8000-000000000000');
  const body = { format: 'bytes', bytes: encodeBody(sheetBody(edit)) } as const;
  const position = { segment: 0, entry: 9999 };
  const entry = { log, position, id: newEntryId(() => 0), created: 1_700_000_000, type: edit.type, version: 1, body };
  return itemBytes(encodeEntry(entry));
}
