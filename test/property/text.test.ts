import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { decodeLenientValue, decodeValue } from '../../src/codec/message-pack.ts';
import type { Value } from '../../src/codec/value.ts';
import { BodyUndecodableError, ChunkCorruptError, LogfoldError, ValueUnsupportedError } from '../../src/errors.ts';
import { decodeBody, encodeBody } from '../../src/log/body.ts';

const utf8 = new TextEncoder();

/** Lengths around each limit at which an encoding or a decoder changes. */
const lengths = fc.oneof(
  { weight: 6, arbitrary: fc.nat(200) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(254, 255, 256, 4094, 4095, 4096, 4097, 16_383, 65_534, 65_535, 65_536, 65_537),
  },
);
const beginnings = fc.constantFrom('', '\ufeff', '\ufeff\ufeff', '\ufffe', '\u0000', '𝄞\ufeff');
const units = fc.constantFrom('x', 'é', '\ufeff', '€', '𝄞');
/** Texts of all lengths, some with a byte order mark that a decoder might remove. */
const texts = fc.tuple(beginnings, units, lengths).map(([beginning, unit, length]) => beginning + unit.repeat(length));

/** Bytes that are not UTF-8 in any context. */
const wrongBytes = fc.constantFrom(
  [0xff],
  [0x80],
  [0xc0, 0x80],
  [0xc3, 0x28],
  [0xe2, 0x82, 0x28],
  [0xed, 0xa0, 0x80],
  [0xf0, 0x8f, 0xbf, 0xbf],
  [0xf4, 0x90, 0x80, 0x80],
);
const notUtf8 = fc
  .tuple(lengths, wrongBytes, lengths)
  .map(([before, wrong, after]) => joined(utf8.encode('x'.repeat(before)), wrong, utf8.encode('é'.repeat(after))));

function joined(...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts.map((part) => Uint8Array.from(part))));
}

/** A MessagePack string with these bytes. */
function str32(bytes: Uint8Array): Uint8Array {
  const header = new DataView(new ArrayBuffer(5));
  header.setUint8(0, 0xdb);
  header.setUint32(1, bytes.length);
  return joined(new Uint8Array(header.buffer), bytes);
}

function inMap(key: Uint8Array, value: Uint8Array): Uint8Array {
  return joined([0x81], key, value);
}

function ofMessagePack(bytes: Uint8Array): Value {
  return decodeBody({ format: 'bytes', bytes });
}

describe('a well-formed text', () => {
  test('a text is read back from MessagePack, as a value and as a key', () => {
    fc.assert(
      fc.property(texts, (text) => {
        for (const encode of [encodeBody, encodeValue]) {
          for (const decode of [ofMessagePack, decodeValue, decodeLenientValue]) {
            expect(decode(encode(text))).toBe(text);
            expect(decode(encode([text, { [text]: text }]))).toEqual([text, { [text]: text }]);
          }
        }
      }),
    );
  });

  test('a text is read back from a longer header than needed', () => {
    fc.assert(fc.property(texts, (text) => void expect(ofMessagePack(str32(utf8.encode(text)))).toBe(text)));
  });

  test('a text is read back from JSON, in bytes and in a String', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const json = JSON.stringify([text]);
        expect(ofMessagePack(utf8.encode(json))).toEqual([text]);
        expect(decodeBody({ format: 'json', text: json })).toEqual([text]);
      }),
    );
  });

  test("a text is read back from an archive's line", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const item = { B: { S: text }, [`x${text}`]: { L: [{ S: text }] } };
        expect(decodeItemLine(encodeItemLine(item))).toEqual(item);
      }),
    );
  });
});

describe('a text with a lone surrogate', () => {
  test('a text with a lone surrogate is refused at any length', () => {
    fc.assert(
      fc.property(texts, fc.constantFrom('\ud800', '\udfff', '\udc00\ud800'), texts, (before, lone, after) => {
        const text = before + lone + (lone.endsWith('\ud800') ? `.${after}` : after);
        for (const encode of [encodeBody, encodeValue]) {
          expect(() => encode(text)).toThrow(ValueUnsupportedError);
          expect(() => encode({ [text]: 1 })).toThrow(ValueUnsupportedError);
        }
      }),
    );
  });
});

describe('bytes that are not UTF-8', () => {
  test('bytes that are not UTF-8 are refused in strings of any length', () => {
    fc.assert(
      fc.property(notUtf8, (bytes) => {
        const text = str32(bytes);
        for (const encoded of [text, inMap(text, Uint8Array.of(1)), inMap(encodeValue('a'), text)]) {
          expect(() => ofMessagePack(encoded)).toThrow(BodyUndecodableError);
          expect(() => decodeValue(encoded)).toThrow(ChunkCorruptError);
        }
      }),
    );
  });

  test('bytes that are not UTF-8 are refused in JSON', () => {
    fc.assert(
      fc.property(notUtf8, (bytes) => {
        const json = joined([0x22], bytes, [0x22]);
        expect(() => ofMessagePack(json)).toThrow(BodyUndecodableError);
      }),
    );
  });

  test('the error names UTF-8 as the reason', () => {
    const reasons = [Uint8Array.of(0xa1, 0xff), Uint8Array.of(0x22, 0xff, 0x22)].map((bytes) => {
      try {
        return ofMessagePack(bytes);
      } catch (error) {
        return error instanceof LogfoldError ? error.reason : error;
      }
    });
    for (const reason of reasons) expect(reason).toMatch(/utf-?8/i);
  });
});
