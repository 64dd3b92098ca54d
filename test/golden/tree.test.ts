import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { fromHex, toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { type ChunkId, chunkId, openChunk, packChunk } from '../../src/codec/chunk.ts';
import { decodeValue } from '../../src/codec/message-pack.ts';
import type { Value } from '../../src/codec/value.ts';
import { decodeNode, encodeNode, type Inner, type Leaf, type Node, NodeRef } from '../../src/tree/node.ts';
import { hashKey, NODE_SHAPE, NodeSplitter } from '../../src/tree/node-builder.ts';
import {
  expectGoldenBytes,
  expectGoldenText,
  readGoldenBytes,
  readGoldenText,
  updateGoldenBytes,
} from '../support/golden.ts';
import { nested } from '../support/models/values.ts';

const VALUES: readonly (readonly [name: string, value: Value])[] = [
  ['null', null],
  ['false', false],
  ['true', true],
  ...[0, 127, 128, 255, 256, 65_535, 65_536, 4_294_967_295, 4_294_967_296, Number.MAX_SAFE_INTEGER].map(integer),
  ...[-1, -32, -33, -128, -129, -32_768, -32_769, -2_147_483_648, -2_147_483_649].map(integer),
  ['least safe integer', Number.MIN_SAFE_INTEGER],
  ['2^53 as bigint', 2n ** 53n],
  ['2^64 - 1', 2n ** 64n - 1n],
  ['-2^63', -(2n ** 63n)],
  ['minus zero', -0],
  ['one half', 0.5],
  ['one tenth', 0.1],
  ['2^53 as number', 2 ** 53],
  ['1e300', 1e300],
  ['infinity', Number.POSITIVE_INFINITY],
  ['minus infinity', Number.NEGATIVE_INFINITY],
  ['NaN', Number.NaN],
  ['empty string', ''],
  ['31 bytes of string', 'x'.repeat(31)],
  ['32 bytes of string', 'x'.repeat(32)],
  ['31 bytes in fewer characters', `${'é'.repeat(15)}x`],
  ['string with a byte order mark', '\ufeffa'],
  ['string beyond the basic plane', '\u{1f600}'],
  ['no bytes', new Uint8Array()],
  ['three bytes', Uint8Array.of(0, 127, 255)],
  ['256 bytes', new Uint8Array(256).fill(7)],
  ['1970', new Date(0)],
  ['a second in 2024', new Date('2024-11-20T12:00:00Z')],
  ['a millisecond in 2024', new Date('2024-11-20T12:00:00.123Z')],
  ['the first second past 32 bits', new Date(2 ** 32 * 1000)],
  ['the first second past 34 bits', new Date(2 ** 34 * 1000)],
  ['a millisecond before 1970', new Date(-1)],
  ['a day in 1899', new Date('1899-12-30T00:00:00Z')],
  ['empty array', []],
  ['15 items', Array.from({ length: 15 }, (_, i) => i)],
  ['16 items', Array.from({ length: 16 }, (_, i) => i)],
  ['empty map', {}],
  ['map in order of UTF-16', { b: 1, a: 2, B: 3, 10: 4, 9: 5, '\uffff': 6, '\u{1f600}': 7, '': 8 }],
  ['map with __proto__', Object.fromEntries([['__proto__', 1]])],
  ['16 keys', Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, i]))],
  ['16 levels', nested(16)],
];

function integer(value: number): [string, number] {
  return [String(value), value];
}

function ref(name: string, count: number, weight: number): NodeRef {
  return NodeRef.stored(nativePlatform.sha256(new TextEncoder().encode(name)), { count, weight });
}

function leaf(items: readonly (readonly [key: string | number, value: Value, weight: number])[]): Leaf {
  const encoded = items.map(([, value]) => encodeValue(value));
  let end = 0;
  const ends = Uint32Array.from(encoded, (bytes) => {
    end += bytes.length;
    return end;
  });
  const weights = items.map(([, , weight]) => weight);
  return {
    level: 0,
    keys: items.map(([key]) => key),
    bytes: Uint8Array.from(encoded.flatMap((bytes) => [...bytes])),
    ends,
    weights: weights.every((weight) => weight === 1) ? undefined : weights,
    count: items.length,
    weight: weights.reduce((total, weight) => total + weight, 0),
  };
}

const NUMBER_LEAF = leaf([
  [0, 'Name', 1],
  [1, 'Price', 1],
  [128, 'Łódź', 1],
  [129, 12.5, 1],
  [2 ** 39 + 5, -40_000, 1],
  [Number.MAX_SAFE_INTEGER, { nested: [null, true, new Date(0)] }, 1],
]);
const STRING_LEAF = leaf([
  ['', 'empty key', 1],
  ['Zz', [4_294_967_290, 6], 6],
  ['a0', [0, 3], 3],
  ['a1', [3, 4_294_967_287], 4_294_967_287],
  ['\u{1f600}', 'before the next key in UTF-16, after it in UTF-8', 1],
  ['\uff5e', null, 1],
]);
const INNER: Inner = {
  level: 1,
  keys: [0, 4096, 2 ** 39],
  children: [ref('first', 9000, 9000), ref('second', 8100, 8100), ref('third', 3, 3)],
  count: 17_103,
  weight: 17_103,
};
const WEIGHTED_INNER: Inner = {
  level: 2,
  keys: ['Zz', 'a0V'],
  children: [ref('first', 2000, 4_000_000_000), ref('second', 1000, 294_967_296)],
  count: 3000,
  weight: 4_294_967_296,
};
const NODES: readonly (readonly [name: string, node: Node])[] = [
  ['leaf-number-keys.hex', NUMBER_LEAF],
  ['leaf-string-keys.hex', STRING_LEAF],
  ['inner.hex', INNER],
  ['inner-weighted.hex', WEIGHTED_INNER],
];

describe('canonical values', () => {
  test('canonical values are encoded as in the golden file', async () => {
    const lines = VALUES.map(([name, value]) => `${name}: ${toHex(encodeValue(value))}\n`);
    await expectGoldenText('values.txt', lines.join(''));
  });

  test('canonical values are decoded from the golden file', async () => {
    const lines = (await readGoldenText('values.txt')).trimEnd().split('\n');
    const read = lines.map((line) => {
      const [name = '', hex = ''] = line.split(': ');
      return [name, decodeValue(fromHex(hex))];
    });
    expect(read).toEqual(VALUES);
  });
});

describe.each(NODES)('%s', (name, node) => {
  test('the node is encoded as in the golden file', async () => {
    await expectGoldenBytes(name, encodeNode(node));
  });

  test('the node is decoded from the golden file', async () => {
    expect(decodeNode(await readGoldenBytes(name))).toEqual(node);
  });
});

describe('a stored chunk', () => {
  const rows = Array.from({ length: 50 }, (_, i): [number, Value, number] => [i * 128, `row ${i}`, 1]);
  const chunks: readonly (readonly [name: string, canonical: Uint8Array])[] = [
    ['chunk-plain', encodeNode(leaf([[7, 'short', 1]]))],
    ['chunk-zstd', encodeNode(leaf(rows))],
  ];

  test.each(chunks)('%s has the canonical bytes and the id of the golden files', async (name, bytes) => {
    await expectGoldenBytes(`${name}.canonical.hex`, bytes);
    await expectGoldenText(`${name}.id.txt`, `${chunkId(nativePlatform, bytes)}\n`);
  });

  // Another version of Zstandard may compress to other bytes, which does not change the format. The
  // committed bytes must open.
  test.each(chunks)('%s opens from the golden file', async (name, bytes) => {
    await updateGoldenBytes(`${name}.stored.hex`, packChunk(nativePlatform, bytes));
    const id = (await readGoldenText(`${name}.id.txt`)).trim() as ChunkId;
    const opened = openChunk(nativePlatform, id, await readGoldenBytes(`${name}.stored.hex`));
    expect(toHex(opened)).toBe(toHex(bytes));
  });
});

describe('chunk boundaries', () => {
  test('the hashes of keys are those of the golden file', async () => {
    const keys = [
      0,
      1,
      127,
      128,
      2 ** 31,
      2 ** 32,
      2 ** 39 + 5,
      Number.MAX_SAFE_INTEGER,
      '',
      'a0',
      'Zz',
      'Łódź',
      '\u{1f600}',
    ];
    const lines = keys.flatMap((key) =>
      [0, 1, 2].map((level) => `${JSON.stringify(key)} at level ${level}: ${hashKey(key, level)}\n`),
    );
    await expectGoldenText('key-hashes.txt', lines.join(''));
  });

  test('the boundaries in a million items are those of the golden file', async () => {
    const splitter = new NodeSplitter(NODE_SHAPE, 0);
    const ends: number[] = [];
    // Items of 3 to 12 bytes, with consecutive keys and with distant keys.
    for (let i = 0; i < 1_000_000; i++) if (splitter.endsAfter(i < 500_000 ? i : i * 7919, 1 + (i % 10))) ends.push(i);
    await expectGoldenText('node-ends.txt', ends.map((end) => `${end}\n`).join(''));
  });
});
