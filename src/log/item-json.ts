import { base64Length, decodeBase64, plainBytes } from '../codec/bytes.ts';
import { parseJsonString } from '../codec/json.ts';
import { setKey } from '../codec/value.ts';
import type { AttributeValue, Item, StoredItem } from './attribute.ts';

/** Makes something of each item that is read. Both functions give the same for the same item. */
export interface ItemDecoder<T> {
  /**
   * Decodes the item at the position of the reader, and moves the reader past it.
   * @throws ItemJsonError if the reader does not know the form
   */
  readonly fromJson: (json: ItemJson) => T;
  readonly fromItem: (item: StoredItem) => T;
}

/** Items as they are stored. */
export const storedItems: ItemDecoder<StoredItem> = {
  fromJson: (json) => json.item(),
  fromItem: (item) => item,
};

/** Like {@link storedItems}, but a general parser reads them all. */
export const parsedItems: ItemDecoder<StoredItem> = {
  fromJson: (json) => {
    throw json.unknown();
  },
  fromItem: (item) => item,
};

/**
 * The bytes are not in the form that {@link ItemJson} reads. They may still be correct JSON, so the
 * caller reads them with a general parser.
 */
export class ItemJsonError extends Error {
  override readonly name = 'ItemJsonError';
}

/** DynamoDB stores 32 levels of lists and maps. */
const MAX_DEPTH = 64;
/** Up to this length, a loop is quicker than the decoder of the platform. */
const SHORT_TEXT = 24;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const CODE = {
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  listStart: 0x5b,
  backslash: 0x5c,
  listEnd: 0x5d,
  mapStart: 0x7b,
  mapEnd: 0x7d,
} as const;

/**
 * Reads DynamoDB JSON straight from its UTF-8 bytes. Knows the form that DynamoDB and archives
 * write: no white space, one type for each attribute, Base64 with padding. In that form it reads
 * what {@link parseJson} and the SDK's deserializer read. Anything else is an
 * {@link ItemJsonError}.
 */
export class ItemJson {
  readonly bytes: Uint8Array;
  /** The index at which the next read starts. */
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    // `slice` of a Buffer is a view, which would keep the whole answer in memory.
    this.bytes = plainBytes(bytes);
    this.at = at;
  }

  /** Reads an item, or the content of a Map. */
  item(depth = 0): Item {
    const item: Item = {};
    this.members((name) => setKey(item, name, this.attribute(depth)));
    return item;
  }

  attribute(depth = 0): AttributeValue {
    if (depth > MAX_DEPTH) throw this.unknown();
    this.expect(CODE.mapStart);
    const type = this.text();
    this.expect(CODE.colon);
    const attribute = this.#content(type, depth);
    this.expect(CODE.mapEnd);
    return attribute;
  }

  #content(type: string, depth: number): AttributeValue {
    switch (type) {
      case 'S':
        return { S: this.text() };
      case 'N':
        return { N: this.text() };
      case 'B':
        return { B: this.binary() };
      case 'BOOL':
        return { BOOL: this.#word('true') || !this.#expectWord('false') };
      case 'NULL':
        return { NULL: this.#expectWord('true') };
      case 'M':
        return { M: this.item(depth + 1) };
      case 'L':
        return { L: this.list(() => this.attribute(depth + 1)) };
      case 'SS':
        return { SS: this.list(() => this.text()) };
      case 'NS':
        return { NS: this.list(() => this.text()) };
      case 'BS':
        return { BS: this.list(() => this.binary()) };
      default:
        throw this.unknown();
    }
  }

  /** Reads an array. `read` reads one of its values. */
  list<T>(read: () => T): T[] {
    const values: T[] = [];
    this.expect(CODE.listStart);
    if (this.#isClosed(CODE.listEnd)) return values;
    do values.push(read());
    while (this.#hasNext(CODE.listEnd));
    return values;
  }

  text(): string {
    const start = this.stringStart();
    const end = this.stringEnd(start);
    this.at = end + 1;
    return this.textOf(start, end);
  }

  /** Reads a string of Base64. */
  binary(): Uint8Array {
    const start = this.stringStart();
    const end = this.stringEnd(start);
    this.at = end + 1;
    const bytes = new Uint8Array(this.binaryLength(start, end));
    this.binaryInto(start, end, bytes, 0);
    return bytes;
  }

  /** Moves past one value of any type, with the checks that its end needs. */
  skip(): void {
    const code = this.bytes[this.at];
    if (code === CODE.quote) this.at = this.stringEnd(this.at + 1) + 1;
    else if (code === CODE.listStart) this.list(() => this.skip());
    else if (code === CODE.mapStart) this.members(() => this.skip());
    else this.#skipWord();
  }

  /** Reads an object. `read` reads the value of one of its names. */
  members(read: (name: string) => void): void {
    this.expect(CODE.mapStart);
    if (this.#isClosed(CODE.mapEnd)) return;
    do {
      const name = this.text();
      this.expect(CODE.colon);
      read(name);
    } while (this.#hasNext(CODE.mapEnd));
  }

  /** The first byte of the string at the position of the reader. */
  stringStart(): number {
    this.expect(CODE.quote);
    return this.at;
  }

  /** The index of the quote that ends a string. */
  stringEnd(start: number): number {
    const { bytes } = this;
    for (let i = start; i < bytes.length; i++) {
      const code = bytes[i] ?? 0;
      if (code === CODE.quote) return i;
      if (code < 0x20) break;
      if (code === CODE.backslash) i++;
    }
    throw this.unknown();
  }

  /** The text of a string between its quotes. */
  textOf(start: number, end: number): string {
    const { bytes } = this;
    let all = 0;
    for (let i = start; i < end; i++) {
      const code = bytes[i] ?? 0;
      if (code === CODE.backslash) return this.#escaped(start, end);
      all |= code;
    }
    if (all >= 0x80 || end - start > SHORT_TEXT) return this.#decoded(start, end);
    let text = '';
    for (let i = start; i < end; i++) text += String.fromCharCode(bytes[i] ?? 0);
    return text;
  }

  /** The number of bytes that the Base64 of a string has. */
  binaryLength(start: number, end: number): number {
    return base64Length(this.bytes, { from: start, to: end });
  }

  /** Decodes the Base64 of a string into `target` from index `at`. */
  binaryInto(start: number, end: number, target: Uint8Array, at: number): void {
    if (!decodeBase64(this.bytes, { from: start, to: end }, target, at)) throw this.unknown();
  }

  expect(code: number): void {
    if (this.bytes[this.at] !== code) throw this.unknown();
    this.at++;
  }

  unknown(): ItemJsonError {
    return new ItemJsonError(`byte ${this.at} is not DynamoDB JSON in a form that this reader knows`);
  }

  /** Moves past the end of an array or object that is empty. */
  #isClosed(close: number): boolean {
    if (this.bytes[this.at] !== close) return false;
    this.at++;
    return true;
  }

  /** Moves past the comma after a value, or past the end of its array or object. */
  #hasNext(close: number): boolean {
    const code = this.bytes[this.at++];
    if (code === CODE.comma) return true;
    if (code === close) return false;
    throw this.unknown();
  }

  #word(word: string): boolean {
    for (let i = 0; i < word.length; i++) if (this.bytes[this.at + i] !== word.charCodeAt(i)) return false;
    this.at += word.length;
    return true;
  }

  #expectWord(word: string): true {
    if (!this.#word(word)) throw this.unknown();
    return true;
  }

  /** Skips a number, `true`, `false` or `null`. */
  #skipWord(): void {
    const start = this.at;
    while (/[-+.\w]/.test(String.fromCharCode(this.bytes[this.at] ?? 0))) this.at++;
    const word = this.#decoded(start, this.at);
    if (!/^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)$/.test(word)) throw this.unknown();
  }

  #escaped(start: number, end: number): string {
    try {
      const text = parseJsonString(`"${this.#decoded(start, end)}"`);
      if (text !== undefined) return text;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    throw this.unknown();
  }

  #decoded(start: number, end: number): string {
    try {
      return utf8.decode(this.bytes.subarray(start, end));
    } catch (error) {
      if (error instanceof TypeError) throw this.unknown();
      throw error;
    }
  }
}
