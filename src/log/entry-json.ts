import { LogfoldError } from '../errors.ts';
import { decodeSegmentId } from '../ids/log-id.ts';
import { MAX_NUMBER } from '../ids/position.ts';
import { EXACT_DIGITS, type StoredAttribute } from './attribute.ts';
import type { Entry, MutableEntry } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import { CODE, type ItemDecoder, type ItemJson } from './item-json.ts';
import { decodeMetadata } from './metadata.ts';
import { decodeMutation } from './mutation.ts';

/**
 * Decodes entries straight from the bytes of DynamoDB JSON, as {@link decodeEntry} decodes items.
 * Make a decoder for each range: it remembers what neighbouring entries have in common, and their
 * ids and bodies share blocks of memory. Both functions of the decoder throw the errors of {@link
 * decodeEntry}.
 */
export function entryDecoder(): ItemDecoder<Entry> {
  const common = new CommonEntries();
  return {
    fromJson(json) {
      const start = json.at;
      const entry = common.read(json);
      if (entry !== undefined) return entry;
      // The careful decoder knows the other forms, and what is wrong with a bad item.
      json.at = start;
      return decodeEntry(json.item());
    },
    fromItem: decodeEntry,
  };
}

/** An attribute whose JSON is one string, such as `{"N":"7"}`. */
interface StringAttribute {
  /** The code of the letter of its type; 0 if the item does not have the attribute. */
  type: number;
  /** The place of its string in the bytes. */
  start: number;
  end: number;
}

const [TYPE_S, TYPE_N, TYPE_B] = [0x53, 0x4e, 0x42];
const FIRST_LETTER = 0x41;
const LETTERS = 26;
/**
 * The first and the longest block. Each is twice as long as the previous one, since an entry that
 * is kept keeps its whole block in memory, and a client keeps thousands of answers with one entry.
 */
const FIRST_BLOCK_BYTES = 256;
const BLOCK_BYTES = 32 * 1024;
/** Longer binaries do not share memory. */
const SHARED_BYTES = 4 * 1024;

/**
 * Reads entries whose attributes have the forms that logfold writes: nearly all entries. Any other
 * form ends the read, since speed matters only here.
 */
class CommonEntries {
  /** The attributes of the current item that are one string each. */
  readonly #strings: StringAttribute[] = [];
  /** The same by the letter of their names. Other letters have no place here. */
  readonly #byLetter: (StringAttribute | undefined)[] = Array.from({ length: LETTERS }, () => undefined);
  readonly #S = this.#string('S');
  readonly #N = this.#string('N');
  readonly #C = this.#string('C');
  readonly #T = this.#string('T');
  readonly #V = this.#string('V');
  readonly #I = this.#string('I');
  readonly #B = this.#string('B');
  readonly #E = this.#string('E');
  readonly #P = this.#string('P');
  readonly #Q = this.#string('Q');
  readonly #X = this.#string('X');
  #metadata: StoredAttribute | undefined;
  #mutation: StoredAttribute | undefined;
  /** The last entry's segment and type, and their bytes. */
  #segment: { readonly bytes: Uint8Array; readonly value: ReturnType<typeof decodeSegmentId> } | undefined;
  #type: { readonly bytes: Uint8Array; readonly value: string } | undefined;
  #block = new Uint8Array(0);
  #blockUsed = 0;

  #string(name: string): StringAttribute {
    const attribute = { type: 0, start: 0, end: 0 };
    this.#strings.push(attribute);
    this.#byLetter[name.charCodeAt(0) - FIRST_LETTER] = attribute;
    return attribute;
  }

  /** @returns undefined if the entry has another form; the reader may then be anywhere */
  read(json: ItemJson): Entry | undefined {
    if (!this.#scan(json)) return undefined;
    const place = this.#place(json);
    const entry = integer(json, this.#N);
    const created = integer(json, this.#C);
    const type = this.#typeName(json);
    const version = integer(json, this.#V);
    if (place === undefined || created < 0 || type === '' || version < 0) return undefined;
    if (entry < 0 || entry > MAX_NUMBER) return undefined;
    const { log, segment } = place;
    const read: MutableEntry = { log, position: { segment, entry }, created, type, version };
    return this.#addOptional(json, read) ? read : undefined;
  }

  /** Adds what an entry may lack. @returns false if it has another form */
  #addOptional(json: ItemJson, entry: MutableEntry): boolean {
    if (this.#I.type !== 0) {
      if (this.#I.type !== TYPE_B) return false;
      const id = this.#binary(json, this.#I);
      if (id.length > 0) entry.id = id;
    }
    if (this.#B.type === TYPE_B) entry.body = { format: 'bytes', bytes: this.#binary(json, this.#B) };
    else if (this.#B.type === TYPE_S) entry.body = { format: 'json', text: json.textOf(this.#B.start, this.#B.end) };
    else if (this.#B.type !== 0) return false;
    if (this.#E.type !== 0) {
      if (this.#E.type !== TYPE_S || this.#E.start === this.#E.end || entry.body !== undefined) return false;
      entry.external = json.textOf(this.#E.start, this.#E.end);
    }
    const metadata = this.#metadata && decodeMetadata(this.#metadata);
    if (metadata !== undefined) entry.metadata = metadata;
    if (this.#P.type !== 0) {
      const part = integer(json, this.#P);
      if (part < 1 || part > 999) return false;
      entry.milliseconds = part;
    }
    if (this.#Q.type !== 0) {
      entry.number = integer(json, this.#Q);
      if (entry.number < 0) return false;
    }
    const once = this.#mutation && decodeMutation(this.#mutation);
    if (once !== undefined) entry.once = once;
    if (this.#X.type === 0) return true;
    entry.expires = integer(json, this.#X);
    return entry.expires >= 0;
  }

  /** Finds the attributes of an item, and ignores those of other programs. */
  #scan(json: ItemJson): boolean {
    const { bytes } = json;
    for (const attribute of this.#strings) attribute.type = 0;
    this.#metadata = undefined;
    this.#mutation = undefined;
    json.expect(CODE.mapStart);
    for (;;) {
      const { at } = json;
      const attribute = isStringAttribute(bytes, at) ? this.#byLetter[(bytes[at + 1] ?? 0) - FIRST_LETTER] : undefined;
      if (attribute === undefined) {
        if (!this.#scanOther(json)) return false;
      } else {
        if (attribute.type !== 0) return false;
        attribute.type = bytes[at + 6] ?? 0;
        attribute.start = at + STRING_START;
        attribute.end = json.stringEnd(attribute.start);
        json.at = attribute.end + 1;
        json.expect(CODE.mapEnd);
      }
      const code = bytes[json.at++];
      if (code === CODE.mapEnd) return true;
      if (code !== CODE.comma) return false;
    }
  }

  /** Reads an attribute with a longer name, or of a type that JSON does not state as one string. */
  #scanOther(json: ItemJson): boolean {
    const name = json.text();
    json.expect(CODE.colon);
    const attribute = json.attribute();
    if (name === 'M' && this.#metadata === undefined) this.#metadata = attribute;
    else if (name === 'W' && this.#mutation === undefined) this.#mutation = attribute;
    else if (name.length === 1) return false;
    return true;
  }

  /** The log and the segment that `S` names. */
  #place(json: ItemJson): ReturnType<typeof decodeSegmentId> | undefined {
    const { type, start, end } = this.#S;
    if (type !== TYPE_B) return undefined;
    if (this.#segment !== undefined && isAt(json.bytes, start, end, this.#segment.bytes)) return this.#segment.value;
    const id = this.#binary(json, this.#S);
    try {
      this.#segment = { bytes: json.bytes.slice(start, end), value: decodeSegmentId(id) };
      return this.#segment.value;
    } catch (error) {
      if (error instanceof LogfoldError) return undefined;
      throw error;
    }
  }

  /** The text of `T`; empty if it has another type. */
  #typeName(json: ItemJson): string {
    const { type, start, end } = this.#T;
    if (type !== TYPE_S) return '';
    if (this.#type === undefined || !isAt(json.bytes, start, end, this.#type.bytes)) {
      this.#type = { bytes: json.bytes.slice(start, end), value: json.textOf(start, end) };
    }
    return this.#type.value;
  }

  /** Decodes Base64 into memory that entries share. */
  #binary(json: ItemJson, { start, end }: StringAttribute): Uint8Array {
    const length = json.binaryLength(start, end);
    if (length > SHARED_BYTES) {
      const own = new Uint8Array(length);
      json.binaryInto(start, end, own, 0);
      return own;
    }
    if (length > this.#block.length - this.#blockUsed) {
      const bytes = Math.min(Math.max(2 * this.#block.length, FIRST_BLOCK_BYTES), BLOCK_BYTES);
      this.#block = new Uint8Array(Math.max(bytes, length));
      this.#blockUsed = 0;
    }
    const from = this.#blockUsed;
    json.binaryInto(start, end, this.#block, from);
    this.#blockUsed += length;
    return this.#block.subarray(from, this.#blockUsed);
  }
}

/** Bytes from the start of an attribute to that of its string: `"N":{"N":"`. */
const STRING_START = 10;

/** Whether an attribute has a name of one byte, a type of one letter, and one string. */
function isStringAttribute(bytes: Uint8Array, at: number): boolean {
  return (
    bytes[at] === CODE.quote &&
    bytes[at + 2] === CODE.quote &&
    bytes[at + 3] === CODE.colon &&
    bytes[at + 4] === CODE.mapStart &&
    bytes[at + 5] === CODE.quote &&
    bytes[at + 7] === CODE.quote &&
    bytes[at + 8] === CODE.colon &&
    bytes[at + 9] === CODE.quote
  );
}

/** Whether a part of the bytes equals others. */
function isAt(bytes: Uint8Array, start: number, end: number, others: Uint8Array): boolean {
  if (end - start !== others.length) return false;
  for (let i = 0; i < others.length; i++) if (bytes[start + i] !== others[i]) return false;
  return true;
}

/** A Number of digits; -1 for any other attribute. */
function integer({ bytes }: ItemJson, { type, start, end }: StringAttribute): number {
  if (type !== TYPE_N || start === end || end - start > EXACT_DIGITS) return -1;
  let integer = 0;
  for (let i = start; i < end; i++) {
    const digit = (bytes[i] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    integer = integer * 10 + digit;
  }
  return integer;
}
