import { plainBytes } from '../codec/bytes.ts';
import { ItemInvalidError, LogfoldError, type Where } from '../errors.ts';
import { type StoredAttribute, type StoredItem, wholeNumber } from './attribute.ts';

/**
 * Reads an item's attributes one by one. Its errors name the attribute and the position of the
 * item.
 */
export class ItemReader {
  /** The part of the position that has been read. */
  where: Where = {};
  readonly #item: StoredItem;

  constructor(item: StoredItem) {
    this.#item = item;
  }

  /** @throws ItemInvalidError always */
  fail(name: string, problem: string, cause?: unknown): never {
    throw new ItemInvalidError(`attribute '${name}' ${problem}`, {
      ...this.where,
      advice: 'Correct the item, or find out what else writes to this table',
      cause,
    });
  }

  /** Decodes an attribute. An error of `decode` becomes an error of that attribute. */
  parsed<T>(name: string, decode: () => T): T {
    try {
      return decode();
    } catch (error) {
      if (!(error instanceof LogfoldError)) throw error;
      return this.fail(name, `cannot be read: ${error.reason}`, error);
    }
  }

  /** Reads an attribute; undefined if the item does not have it. */
  optional<T>(name: string, read: () => T): T | undefined {
    return this.#item[name] === undefined ? undefined : read();
  }

  /** A Binary, of exactly `length` bytes if `length` is given. */
  binary(name: string, length?: number): Uint8Array {
    const bytes = this.#attribute(name).B;
    if (bytes === undefined) return this.fail(name, 'is not Binary');
    if (length !== undefined && bytes.length !== length) {
      return this.fail(name, `has ${bytes.length} bytes, not ${length}`);
    }
    return plainBytes(bytes);
  }

  /** A String of at least one character. */
  string(name: string): string {
    const text = this.#attribute(name).S;
    if (text === undefined) return this.fail(name, 'is not a String');
    return text === '' ? this.fail(name, 'is empty') : text;
  }

  /** A Number that is an integer from 0 up to `max`. */
  integer(name: string, max: number = Number.MAX_SAFE_INTEGER): number {
    const text = this.#attribute(name).N;
    if (text === undefined) return this.fail(name, 'is not a Number');
    const integer = wholeNumber(text);
    if (integer !== undefined && integer <= max) return integer;
    return this.fail(name, `is '${text}', not an integer from 0 to ${max}`);
  }

  #attribute(name: string): StoredAttribute {
    return this.#item[name] ?? this.fail(name, 'is missing');
  }
}
