import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { Value } from '../../src/codec/value.ts';
import {
  BodyUndecodableError,
  ExternalCorruptError,
  ExternalMissingError,
  ValueUnsupportedError,
} from '../../src/errors.ts';
import {
  decodeBody,
  decodeEntryBody,
  EXTERNAL_BODY_BYTES,
  encodeBody,
  loadBody,
  saveBody,
} from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import { entryAt, LOG } from '../support/logs.ts';

const position = { segment: 2, entry: 5 };
const bytes = (...all: number[]) => ({ format: 'bytes', bytes: Uint8Array.from(all) }) as const;
const text = (json: string) => ({ format: 'bytes', bytes: new TextEncoder().encode(json) }) as const;
const hex = (digits: string) => Buffer.from(digits, 'hex');
const fixedString = (word: string) => [0xa0 + word.length, ...new TextEncoder().encode(word)];

describe('encodeBody', () => {
  // Tables contain these bytes, so they must never change.
  test.each<[Value, string]>([
    [null, 'c0'],
    [{ a: 1, b: [true, 'ä'] }, '82a16101a16292c3a2c3a4'],
    [[-1, 300, 1.5, 2 ** 40], '94ffcd012ccb3ff8000000000000cb4270000000000000'],
    [[2n ** 63n, -(2n ** 63n)], '92cf8000000000000000d38000000000000000'],
    [Uint8Array.of(1, 2), 'c4020102'],
    [new Date(1_732_104_000_000), 'd6ff673dcf40'],
  ])('%o has its canonical bytes', (value, hex) => {
    expect(Buffer.from(encodeBody(value)).toString('hex')).toBe(hex);
    expect(decodeBody({ format: 'bytes', bytes: encodeBody(value) })).toStrictEqual(value);
  });

  test('each call returns separate bytes', () => {
    const first = encodeBody([1, 2, 3]);
    encodeBody([4, 5, 6]);
    expect(first.buffer.byteLength).toBe(4);
    expect(Object.getPrototypeOf(first)).toBe(Uint8Array.prototype);
  });

  const nested = (depth: number): Value => (depth === 0 ? 1 : [nested(depth - 1)]);
  const cyclic: Value[] = [];
  cyclic.push(cyclic);
  test.each<[string, unknown]>([
    ['a lone surrogate', 'a\ud800'],
    ['a lone surrogate in a key', { '\udfff': 1 }],
    ['an integer beyond 64 bits', 2n ** 64n],
    ['a negative integer beyond 64 bits', [-(2n ** 63n) - 1n]],
    ['undefined', { a: undefined }],
    ['a hole', new Array(1)],
    ['a function', [() => 1]],
    ['a symbol', Symbol('x')],
    ['an instance of a class', { when: new Map() }],
    ['an invalid date', new Date(Number.NaN)],
    ['nesting too deep', nested(129)],
    ['a cycle', cyclic],
  ])('encodeBody refuses %s', (_what, value) => {
    // @ts-expect-error callers in JavaScript may pass anything
    expect(() => encodeBody(value)).toThrow(ValueUnsupportedError);
  });

  test('encodeBody accepts 128 levels', () => {
    expect(decodeBody({ format: 'bytes', bytes: encodeBody(nested(128)) })).toEqual(nested(128));
  });

  test('keys with a meaning in JavaScript are ordinary keys', () => {
    const value = JSON.parse('{"__proto__":{"polluted":1},"constructor":2,"toJSON":3,"__proto_":4}');
    const decoded = decodeBody({ format: 'bytes', bytes: encodeBody(value) });
    expect(Object.entries(decoded ?? {})).toEqual(Object.entries(value));
    expect(Object.getPrototypeOf(decoded)).toBe(Object.prototype);
    expect(decodeBody({ format: 'json', text: JSON.stringify(value) })).toStrictEqual(decoded);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });
});

describe('decodeBody', () => {
  test.each<[string, Parameters<typeof decodeBody>[0], Value]>([
    ['one byte of MessagePack that is an ASCII digit', bytes(0x35), 0x35],
    ['JSON text in bytes', text('{"a":[1,"ä"]}'), { a: [1, 'ä'] }],
    ['JSON text in bytes after a space', text(' 5'), 5],
    ['JSON text in a String', { format: 'json', text: '5' }, 5],
    ['a native value', { format: 'native', value: [1n] }, [1n]],
    ['an integer that another encoder wrote in 64 bits', bytes(0xcf, 0, 0, 1, 0, 0, 0, 0, 0), 2 ** 40],
    ['an integer as key, as text', bytes(0x81, 0x05, 0x01), { 5: 1 }],
    [
      'a 64-bit integer as key, as text',
      bytes(0x81, 0xcf, 0xff, ...new Array(7).fill(0), 1),
      { '18374686479671623680': 1 },
    ],
    ['a float that is a whole number as key, as text', bytes(0x81, 0xca, 0x40, 0xa0, 0, 0, 1), { 5: 1 }],
    ['an integer in more bytes than it needs', bytes(0xd3, 0, 0, 0, 0, 0, 0, 0, 5), 5],
    ['2^53 as a float', bytes(0xcf, 0, 0x20, 0, 0, 0, 0, 0, 0), 2 ** 53],
    ['-2^53 as a float', bytes(0xd3, 0xff, 0xe0, 0, 0, 0, 0, 0, 0), -(2 ** 53)],
    ['2^53 + 1 as an integer', bytes(0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1), 2n ** 53n + 1n],
    ['a timestamp after 1970 cut to its millisecond', bytes(0xd7, 0xff, ...hex('ee6b27fc00000001')), new Date(1999)],
    [
      'a timestamp before 1970 cut to the later millisecond',
      bytes(0xc7, 12, 0xff, ...hex('3b9ac9fffffffffffffffffe')),
      new Date(-1000),
    ],
    ['the last date', bytes(0xc7, 12, 0xff, ...hex('00000000000007dba8218000')), new Date(8.64e15)],
    ['the first date', bytes(0xc7, 12, 0xff, ...hex('00000000fffff82457de8000')), new Date(-8.64e15)],
    ['the last of repeated keys in JSON', text('{"a":1,"b":2,"a":3}'), { a: 3, b: 2 }],
    ['a map of 16-bit length', bytes(0xde, 0, 1, ...fixedString('k'), 1), { k: 1 }],
  ])('decodeBody reads %s', (_what, stored, value) => {
    expect(decodeBody(stored)).toStrictEqual(value);
  });

  test.each<[string, Parameters<typeof decodeBody>[0]]>([
    ['nothing', bytes()],
    ['a truncated array', bytes(0x93, 1)],
    ['an array that claims to be huge', bytes(0xdd, 0xff, 0xff, 0xff, 0xff)],
    ['a map that claims to be huge', bytes(0xdf, 0xff, 0xff, 0xff, 0xff)],
    ['bytes after the document', bytes(0x91, 1, 1)],
    ['the byte that MessagePack never uses', bytes(0xc1)],
    ['undefined', bytes(0xd4, 0x00, 0x00)],
    ['an unknown extension', bytes(0xd4, 0x2a, 0x00)],
    ["msgpackr's records", bytes(0xd4, 0x72, 0x40, 0x91, ...fixedString('a'), 0x01)],
    ["msgpackr's references", bytes(0xd6, 0x69, 0, 0, 0, 1, 0x90)],
    ["msgpackr's sets", bytes(0xd4, 0x73, 0x00, 0x91, 0x01)],
    ["msgpackr's errors", bytes(0xd4, 0x65, 0x00, 0x92, ...fixedString('Error'), ...fixedString('x'))],
    ["msgpackr's big integers, even within 64 bits", bytes(0xd4, 0x42, 1)],
    ["msgpackr's typed arrays", bytes(0xc7, 5, 0x74, 5, 1, 2, 3, 4)],
    ["msgpackr's regular expressions", bytes(0xd4, 0x78, 0, 0x92, ...fixedString('a'), ...fixedString('g'))],
    ['an integer beyond 64 bits', bytes(0xc7, 9, 0x42, 1, 0, 0, 0, 0, 0, 0, 0, 0)],
    ['a key that is an array', bytes(0x81, 0x90, 0x01)],
    ['a float as key', bytes(0x81, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 1)],
    ['a negative zero as key', bytes(0x81, 0xca, 0x80, 0, 0, 0, 1)],
    ['a repeated key', bytes(0x82, ...fixedString('a'), 1, ...fixedString('a'), 1)],
    [
      'a repeated key with a meaning in JavaScript',
      bytes(0x82, ...fixedString('__proto__'), 1, ...fixedString('__proto__'), 1),
    ],
    ['two keys with the same text', bytes(0x82, 0x05, 0x01, ...fixedString('5'), 0x02)],
    ['a 32-bit timestamp in the form of another length', bytes(0xc7, 4, 0xff, 0, 0, 0, 0)],
    ['a timestamp with a whole second of nanoseconds', bytes(0xc7, 12, 0xff, ...hex('3b9aca000000000000000000'))],
    ['a timestamp after the last date', bytes(0xc7, 12, 0xff, ...hex('000f424000000' + '7dba8218000'))],
    ['a timestamp before the first date', bytes(0xc7, 12, 0xff, ...hex('00000000fffff82457de7fff'))],
    ['a timestamp of two bytes', bytes(0xd5, 0xff, 0, 0)],
    ['nesting that would exhaust the stack', bytes(...new Array(50_000).fill(0x91), 0x01)],
    ['truncated JSON', text('{"a":')],
    ['JSON that is not UTF-8', bytes(0x22, 0xff, 0x22)],
    ['JSON that escapes a lone surrogate', { format: 'json', text: '"\\ud800"' }],
    ['JSON after a byte order mark', text('\ufeff[]')],
    ['JSON after a byte order mark in a String', { format: 'json', text: '\ufeff[]' }],
    ['an empty String', { format: 'json', text: '' }],
  ])('decodeBody refuses %s', (_what, stored) => {
    expect(() => decodeBody(stored)).toThrow(BodyUndecodableError);
  });

  test('decodeBody keeps nothing from one document to the next', () => {
    const record = bytes(0xd4, 0x72, 0x40, 0x91, ...fixedString('a'), 0x01);
    expect(() => decodeBody(record)).toThrow(BodyUndecodableError);
    expect(decodeBody(bytes(0x91, 0x40))).toEqual([0x40]);
  });

  test('decodeBody leaves the stored bytes unchanged', () => {
    const stored = bytes(0x91, 0x40);
    decodeBody(stored);
    expect(Object.keys(stored.bytes)).toEqual(['0', '1']);
  });
});

describe('external bodies', () => {
  const random = () => 0.5;
  const large = 'x'.repeat(EXTERNAL_BODY_BYTES);
  const entryWith = (body: Pick<Entry, 'body' | 'external'>): Entry => {
    const { body: _, ...entry } = entryAt(LOG, position);
    return { ...entry, ...body };
  };
  const place = { log: LOG, segment: 2, entry: 5 };
  const bodyOf = (value: Value) => ({ format: 'bytes', bytes: encodeBody(value) }) as const;

  test('a body above 16 KB is external', async () => {
    const blobs = new MemoryBlobStore();
    const inside = await saveBody({ blobs, random }, LOG, { body: bodyOf('x'.repeat(EXTERNAL_BODY_BYTES - 3)) });
    expect(inside.body).toMatchObject({ format: 'bytes', bytes: { length: EXTERNAL_BODY_BYTES } });
    expect(await Array.fromAsync(blobs.list(''))).toEqual([]);

    const outside = await saveBody({ blobs, random }, LOG, { body: bodyOf('x'.repeat(EXTERNAL_BODY_BYTES - 2)) });
    expect(outside).not.toHaveProperty('body');
    expect((await Array.fromAsync(blobs.list(''))).map(({ key }) => key)).toEqual([outside.external]);
  });

  test('an external body is read back', async () => {
    const blobs = new MemoryBlobStore();
    const saved = await saveBody({ blobs, random }, LOG, { body: bodyOf(large) });
    expect(saved.external).toMatch(new RegExp(`^logs/${LOG}/bodies/[0-9a-f]{64}-[0-9a-f]{12}$`));
    expect(await loadBody(blobs, entryWith(saved))).toBe(large);
  });

  test('each upload of a body has a unique key, so that garbage collection cannot confuse two uploads', async () => {
    const blobs = new MemoryBlobStore();
    const first = await saveBody({ blobs, random }, LOG, { body: bodyOf(large) });
    const second = await saveBody({ blobs, random: () => 0.25 }, LOG, { body: bodyOf(large) });
    expect(first.external).not.toBe(second.external);
    expect(await loadBody(blobs, entryWith(second))).toBe(large);
  });

  test('null and small bodies need no object', async () => {
    const blobs = new MemoryBlobStore();
    expect(await saveBody({ blobs, random }, LOG, {})).toEqual({});
    expect(await loadBody(blobs, entryWith({}))).toBeNull();
    expect(await loadBody(blobs, entryWith(await saveBody({ blobs, random }, LOG, { body: bodyOf([1]) })))).toEqual([
      1,
    ]);
  });

  test('an external body is not taken for no body', async () => {
    const entry = entryWith(await saveBody({ blobs: new MemoryBlobStore(), random }, LOG, { body: bodyOf(large) }));
    expect(() => decodeEntryBody(entry)).toThrow(expect.objectContaining({ code: 'USAGE', log: LOG }));
  });

  test('-0 in a body becomes 0', () => {
    expect(decodeBody({ format: 'bytes', bytes: encodeBody([-0, { a: -0 }]) })).toStrictEqual([0, { a: 0 }]);
    expect(decodeBody({ format: 'json', text: '-0' })).toBe(-0);
  });

  test('a body under a foreign key is read', async () => {
    const blobs = new MemoryBlobStore();
    await blobs.put('uploads/17.json', new TextEncoder().encode('{"a":1}'));
    expect(await loadBody(blobs, entryWith({ external: 'uploads/17.json' }))).toEqual({ a: 1 });
  });

  test('a missing, altered or undecodable body is an error that names its entry', async () => {
    const blobs = new MemoryBlobStore();
    const { external = '' } = await saveBody({ blobs, random }, LOG, { body: bodyOf(large) });
    await blobs.put(external, encodeBody('something else'));
    const corrupt = loadBody(blobs, entryWith({ external }));
    await expect(corrupt).rejects.toThrow(ExternalCorruptError);
    await expect(corrupt).rejects.toMatchObject(place);

    await blobs.delete([external]);
    const missing = loadBody(blobs, entryWith({ external }));
    await expect(missing).rejects.toThrow(ExternalMissingError);
    await expect(missing).rejects.toMatchObject(place);

    await blobs.put('uploads/18', Uint8Array.of(0xc1));
    const senseless = loadBody(blobs, entryWith({ external: 'uploads/18' }));
    await expect(senseless).rejects.toThrow(BodyUndecodableError);
    await expect(senseless).rejects.toMatchObject(place);
  });
});

describe('a body that takes too much memory when it is decoded', () => {
  const MANY = 8_000_000;

  test.each([
    ['empty arrays in MessagePack', () => array(MANY, 0x90)],
    ['empty maps in MessagePack', () => array(MANY, 0x80)],
    ['numbers in MessagePack', () => array(5 * MANY, 0x01)],
    ['empty arrays in JSON', () => new TextEncoder().encode(`[${'[],'.repeat(MANY)}[]]`)],
    ['numbers in JSON', () => new TextEncoder().encode(`[${'1,'.repeat(5 * MANY)}1]`)],
  ])('%s are refused', (_, bytes) => {
    expect(() => decodeBody({ format: 'bytes', bytes: bytes() })).toThrow('bytes of memory');
  });

  test('a text that only looks like many items is accepted', () => {
    const text = '[{,"\\'.repeat(2_000_000);
    const bytes = new TextEncoder().encode(JSON.stringify([text]));
    expect(decodeBody({ format: 'bytes', bytes })).toEqual([text]);
  });

  test('an array without its claimed items is refused by its length', () => {
    expect(() => decodeBody({ format: 'bytes', bytes: Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff) })).toThrow(
      'past the end',
    );
  });

  function array(items: number, item: number): Uint8Array {
    const bytes = new Uint8Array(5 + items).fill(item);
    bytes[0] = 0xdd;
    new DataView(bytes.buffer).setUint32(1, items);
    return bytes;
  }
});
