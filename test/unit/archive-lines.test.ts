import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { type Archive, openArchive } from '../../src/archive/reader.ts';
import { ArchiveCorruptError } from '../../src/errors.ts';
import type { AttributeValue } from '../../src/log/attribute.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import {
  allItems,
  FIRST_SEGMENT,
  joined,
  keyOf,
  linesOf,
  partsOf,
  segmentItems,
  storeArchive,
} from '../support/archives.ts';
import { LOG, MALFORMED, malformedItem } from '../support/logs.ts';

const ITEMS = segmentItems(3);
const [FIRST = {}, SECOND = {}, THIRD = {}] = ITEMS;
const LINE = encodeItemLine(SECOND);

/** The line of the second entry with one more attribute. */
function withAttribute(json: string, name = 'x'): string {
  return `{"Item":{"${name}":${json},${LINE.slice(9)}\n`;
}

/** A text whose characters are bytes. */
function bytes(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}

/** An archive of three entries. The second has this line. */
async function archiveWith(line: string | Uint8Array): Promise<Archive> {
  const parts = [linesOf([FIRST]), Buffer.from(line), linesOf([THIRD])];
  const content = Uint8Array.from(Buffer.concat(parts));
  const blobs = new MemoryBlobStore();
  const segment = await storeArchive(blobs, joined(partsOf([{ content, entries: 3 }])));
  return openArchive({ blobs, platform: nativePlatform }, segment);
}

const NO_JSON = 'a line is not JSON';
const NO_ITEM = 'a line is not an item in DynamoDB JSON';
const OTHER = 'line 2 is another entry';
const COUNT = 'a frame has a wrong number of lines';
const NO_TEXT = 'a frame is not UTF-8';

describe('a frame with the right hash', () => {
  test.each<[string, string, string | Uint8Array]>([
    ['text', NO_JSON, 'Set\n'],
    ['nothing', NO_JSON, '\n'],
    ['half an item', NO_JSON, `${LINE.slice(0, -20)}\n`],
    ['two items', NO_JSON, `${LINE}${LINE}\n`],
    ['two items with a comma', NO_JSON, `${LINE},${LINE}\n`],
    ['a brace too many', NO_JSON, `${LINE}}\n`],
    ['a brace too few', NO_JSON, `${LINE.slice(0, -1)}\n`],
    ['a comma too many', NO_JSON, `${LINE.slice(0, -2)},}}\n`],
    ['a byte order mark', NO_JSON, `\ufeff${LINE}\n`],
    ['a control character in a string', NO_JSON, withAttribute('{"S":"a\tb"}')],
    ['an unknown escape', NO_JSON, withAttribute('{"S":"\\x41"}')],
    ['an unknown escape in an attribute that entries do not have', NO_JSON, withAttribute('{"S":"\\x41"}', 'A')],
    ['half an escape', NO_JSON, withAttribute('{"S":"\\u004"}')],
    ['an array', NO_ITEM, '[{"Item":{}}]\n'],
    ['null', NO_ITEM, 'null\n'],
    ['no item', NO_ITEM, '{}\n'],
    ['an item beside another field', NO_ITEM, `${LINE.slice(0, -1)},"x":1}\n`],
    ['an item that is an array', NO_ITEM, '{"Item":[]}\n'],
    ['an attribute with two types', NO_ITEM, withAttribute('{"S":"a","N":"1"}')],
    ['an attribute without a type', NO_ITEM, withAttribute('{}')],
    ['an attribute of an unknown type', NO_ITEM, withAttribute('{"T":"a"}')],
    ['an attribute with a short name and an unknown type', NO_ITEM, withAttribute('{"T":"a"}', 'A')],
    ['an attribute that is null', NO_ITEM, withAttribute('null')],
    ['a String that is a number', NO_ITEM, withAttribute('{"S":1}')],
    ['a Number that is a number', NO_ITEM, withAttribute('{"N":1}')],
    ['a Boolean that is a string', NO_ITEM, withAttribute('{"BOOL":"true"}')],
    ['a NULL that is false', NO_ITEM, withAttribute('{"NULL":false}')],
    ['a Map that is an array', NO_ITEM, withAttribute('{"M":[]}')],
    ['a List that is an object', NO_ITEM, withAttribute('{"L":{}}')],
    ['a set that is an object', NO_ITEM, withAttribute('{"SS":{}}')],
    ['a set with a member of another type', NO_ITEM, withAttribute('{"NS":["1",2]}')],
    ['Base64 without padding', NO_ITEM, withAttribute('{"B":"AA"}')],
    ['Base64 with white space', NO_ITEM, withAttribute('{"B":"AA ="}')],
    ['Base64 of the other alphabet', NO_ITEM, withAttribute('{"B":"_-8="}')],
    ['Base64 that is only padding', NO_ITEM, withAttribute('{"BS":["===="]}')],
    ['a key whose Base64 has no padding', NO_ITEM, `${LINE.replace(/=+"/, '"')}\n`],
    ['the number of another entry', OTHER, `${encodeItemLine({ ...SECOND, N: { N: '2' } })}\n`],
    ['a number with an exponent', OTHER, `${encodeItemLine({ ...SECOND, N: { N: '1E0' } })}\n`],
    ['a number that is a String', OTHER, `${encodeItemLine({ ...SECOND, N: { S: '1' } })}\n`],
    ['a second number', OTHER, `${LINE.slice(0, -2)},"N":{"N":"7"}}}\n`],
    ['the key of another segment', OTHER, `${encodeItemLine({ ...SECOND, S: { B: new Uint8Array(20) } })}\n`],
    ['the key of no segment', OTHER, `${encodeItemLine({ ...SECOND, S: { B: Uint8Array.of(1) } })}\n`],
    ['no key', OTHER, '{"Item":{}}\n'],
    ['no line end', COUNT, LINE],
    ['a line end in its middle', COUNT, `${LINE.replace(',', ',\n')}\n`],
    ['an empty line after it', COUNT, `${LINE}\n\n`],
    ['a byte that UTF-8 does not have', NO_TEXT, bytes(withAttribute('{"S":"\xff"}'))],
    ['half a character', NO_TEXT, bytes(withAttribute('{"S":"\xe2\x82"}'))],
    ['a surrogate in UTF-8', NO_TEXT, bytes(withAttribute('{"S":"\xed\xa0\x80"}'))],
    ['an overlong character', NO_TEXT, bytes(withAttribute('{"S":"\xc0\xaf"}'))],
    ['such a byte in an attribute that entries do not have', NO_TEXT, bytes(withAttribute('{"S":"\xff"}', 'A'))],
    ['such a byte in a name', NO_TEXT, bytes(`{"Item":{"\xff":{"S":"a"},${LINE.slice(9)}\n`)],
  ])('is refused if its second line has %s: %s', async (_, problem, line) => {
    const archive = await archiveWith(line);
    for (const reading of [allItems(archive.items(0, 3)), allItems(archive.entries(0, 3))]) {
      const error: unknown = await reading.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(ArchiveCorruptError);
      expect(error).toMatchObject({
        log: LOG,
        segment: 0,
        reason: `the archive '${keyOf(FIRST_SEGMENT)}' cannot be read: ${problem}`,
        advice: 'No part of it was used. Restore the original object from a version or a backup of the bucket',
      });
    }
  });

  test.each<[string, AttributeValue, string]>([
    ['white space', { S: 'a' }, ' { "S" :\t"a" } '],
    ['escapes that no writer needs', { S: 'é/A' }, '{"S":"\\u00E9\\/\\u0041"}'],
    ['an escape in the name of a type', { S: 'a' }, '{"\\u0053":"a"}'],
    ['a surrogate without its pair', { S: '\ud800x' }, '{"S":"\\ud800x"}'],
    ['an escaped pair of surrogates', { S: '😀' }, '{"S":"\\ud83d\\ude00"}'],
    ['the same type twice', { N: '2' }, '{"N":"1","N":"2"}'],
    ['the same key twice', { M: { a: { N: '2' } } }, '{"M":{"a":{"N":"1"},"a":{"N":"2"}}}'],
    ['bits after the last byte of Base64', { B: Uint8Array.of(0) }, '{"B":"AB=="}'],
    ['an empty set', { SS: [] }, '{"SS":[]}'],
  ])('is read if a line of another program has %s', async (_, attribute, json) => {
    const items = [FIRST, { ...SECOND, x: attribute }, THIRD];
    const archive = await archiveWith(withAttribute(json));
    expect(await allItems(archive.items(0, 3))).toEqual(items);
    expect(await allItems(archive.entries(0, 3))).toEqual(items.map(decodeEntry));
    const inBody = await archiveWith(`{"Item":{"B":${json},${LINE.slice(LINE.indexOf('"C"'))}\n`);
    const expected = { ...SECOND, B: attribute };
    expect(await allItems(inBody.items(1, 2))).toEqual([expected]);
    expect(await allItems(inBody.entries(1, 2))).toEqual([decodeEntry(expected)]);
  });

  test('has the last of two attributes with the same name', async () => {
    const archive = await archiveWith(`${LINE.slice(0, -2)},"T":{"S":"Put"}}}\n`);
    const expected = { ...SECOND, T: { S: 'Put' } };
    expect(await allItems(archive.items(1, 2))).toEqual([expected]);
    expect(await allItems(archive.entries(1, 2))).toEqual([decodeEntry(expected)]);
  });

  test.each(MALFORMED)('gives an entry with %s, or the error of its item', async (fault) => {
    const item = malformedItem(LOG, { segment: 0, entry: 1 }, fault);
    const archive = await archiveWith(`${encodeItemLine(item)}\n`);
    expect(await outcome(() => allItems(archive.entries(0, 3)))).toEqual(
      await outcome(() => [FIRST, item, THIRD].map(decodeEntry)),
    );
    expect(await allItems(archive.items(0, 3))).toEqual([FIRST, item, THIRD]);
  });
});

/** The result of a call, or all parts of its error that a user sees. */
async function outcome<T>(call: () => T | Promise<T>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { ...error, name: error.name, message: error.message };
  }
}
