import { workbookTooLarge } from './invalid-workbook.ts';
import type { XlsxRules } from './reading-rules.ts';
import { MAX_CELL_CHARACTERS } from './row.ts';
import type { XmlHandler } from './xml-parser.ts';

/** The texts of all cells, in UTF-8. */
const MAX_BYTES = 256 * 1024 * 1024;
/** UTF-8 takes at most 3 bytes for a UTF-16 unit, so each text fits into a block. */
const BLOCK_BYTES = 3 * MAX_CELL_CHARACTERS;
/** Texts whose places are kept together. */
const PAGE_TEXTS = 2 ** 16;

/**
 * The texts that cells of an XLSX file share, by their numbers. They are kept in UTF-8: millions of
 * strings would take several times the memory.
 */
export class SharedStrings implements XmlHandler {
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #blocks: Uint8Array[] = [];
  /** The used bytes of each block. */
  readonly #used: number[] = [];
  /** The place of each text: block * BLOCK_BYTES + place in the block. */
  readonly #starts: Uint32Array[] = [];
  #length = 0;
  readonly #text: CellText;

  constructor({ unescaped }: Pick<XlsxRules, 'unescaped'>) {
    this.#text = new CellText(unescaped, () =>
      workbookTooLarge(`text ${this.#length} that its cells share is too long`),
    );
  }

  open(name: string): void {
    this.#text.open(name);
  }

  text(text: string): void {
    this.#text.text(text);
  }

  close(name: string): void {
    this.#text.close(name);
    if (name === 'si') this.#add(this.#text.take());
  }

  /** The text with a number; undefined if there is none. */
  get(index: number): string | undefined {
    if (index >= this.#length) return undefined;
    const start = this.#start(index);
    const block = Math.floor(start / BLOCK_BYTES);
    const first = block * BLOCK_BYTES;
    const used = this.#used[block] ?? 0;
    const next = index + 1 < this.#length ? this.#start(index + 1) - first : used;
    return this.#decoder.decode(this.#blocks[block]?.subarray(start - first, Math.min(next, used)));
  }

  #start(index: number): number {
    return this.#starts[Math.floor(index / PAGE_TEXTS)]?.[index % PAGE_TEXTS] ?? 0;
  }

  #add(text: string): void {
    let block = this.#blocks.length - 1;
    let used = this.#used[block] ?? BLOCK_BYTES;
    if (used + 3 * text.length > BLOCK_BYTES) {
      used = 0;
      block = this.#blocks.push(new Uint8Array(BLOCK_BYTES)) - 1;
      if (this.#blocks.length * BLOCK_BYTES > MAX_BYTES) {
        throw workbookTooLarge(`its different texts take over ${MAX_BYTES} bytes`);
      }
    }
    if (this.#length % PAGE_TEXTS === 0) this.#starts.push(new Uint32Array(PAGE_TEXTS));
    const page = this.#starts.at(-1) ?? new Uint32Array();
    page[this.#length++ % PAGE_TEXTS] = block * BLOCK_BYTES + used;
    const target = this.#blocks[block]?.subarray(used) ?? new Uint8Array();
    this.#used[block] = used + this.#encoder.encodeInto(text, target).written;
  }
}

/**
 * Collects the text of a cell from the elements of a shared or inline string. The runs of a rich
 * text follow each other; notes on the pronunciation (`rPh`) are left out.
 */
export class CellText {
  readonly #unescaped: (text: string) => string;
  readonly #tooLong: () => Error;
  #text = '';
  #isText = false;
  #isPhonetic = false;

  /** @param tooLong makes the error for a text that is longer than that of any cell */
  constructor(unescaped: (text: string) => string, tooLong: () => Error) {
    this.#unescaped = unescaped;
    this.#tooLong = tooLong;
  }

  open(name: string): void {
    if (name === 't') this.#isText = !this.#isPhonetic;
    else if (name === 'rPh') this.#isPhonetic = true;
  }

  close(name: string): void {
    if (name === 't') this.#isText = false;
    else if (name === 'rPh') this.#isPhonetic = false;
  }

  text(text: string): void {
    if (!this.#isText) return;
    this.#text += text;
    if (this.#text.length > MAX_CELL_CHARACTERS) throw this.#tooLong();
  }

  /** The collected text. The next text begins empty. */
  take(): string {
    const text = this.#unescaped(this.#text);
    this.clear();
    return text;
  }

  clear(): void {
    this.#text = '';
  }
}
