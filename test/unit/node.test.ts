import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import type { Value } from '../../src/codec/value.ts';
import { ChunkCorruptError } from '../../src/errors.ts';
import { decodeNode, encodeNode } from '../../src/tree/node.ts';
import { bitFlips, damaged, truncations } from '../support/damage.ts';
import { propertyRuns } from '../support/property-runs.ts';

const ID = new Uint8Array(32).fill(0xab);
const TWO_IDS = new Uint8Array(64).fill(0xcd);

const whole: [string, Value][] = [
  ['a leaf with number keys', [0, [5, 1, 122], ['a', 2.5, { x: null }]]],
  ['a leaf with whole numbers', [0, [5, 200, 122], [127, 200, 60_000]]],
  ['a leaf with string keys and weights', [0, ['', 'a', 'a0'], [1, 2, 3], [1, 70_000, 2]]],
  ['an inner node', [1, [0, 4096], TWO_IDS, [1000, 77]]],
  ['an inner node with weights', [2, ['a0', 'b'], TWO_IDS, [10, 1], [2 ** 32, 1]]],
];

/** The canonical bytes of the decoded node, or 'corrupt'. The test fails on any other error. */
function reencoded(bytes: Uint8Array): string {
  try {
    return toHex(encodeNode(decodeNode(bytes)));
  } catch (error) {
    if (error instanceof ChunkCorruptError) return 'corrupt';
    throw error;
  }
}

describe.each(whole)('%s', (_, parts) => {
  const bytes = encodeValue(parts);

  test('a decoded node has the same bytes again', () => {
    expect(reencoded(bytes)).toBe(toHex(bytes));
  });

  test('a truncated node is corrupt', () => {
    for (const beginning of truncations(bytes)) expect(reencoded(beginning)).toBe('corrupt');
  });

  test('damaged bytes are corrupt or a node', () => {
    for (const altered of bitFlips(bytes)) reencoded(altered);
    fc.assert(
      fc.property(damaged(bytes), (altered) => reencoded(altered).length > 0),
      { numRuns: propertyRuns(2000) },
    );
  });
});

test.each<[string, Value]>([
  ['a map instead of an array', { level: 0 }],
  ['a leaf with too few parts', [0, [1]]],
  ['a leaf with too many parts', [0, [1], [1], [1], [1]]],
  ['an inner node with too few parts', [1, [1], ID]],
  ['an inner node with too many parts', [1, [1], ID, [1], [1], [1]]],
  ['a level below 0', [-1, [1], [1]]],
  ['a fractional level', [0.5, [1], [1]]],
  ['a leaf without keys', [0, [], []]],
  ['an inner node without children', [1, [], new Uint8Array(), []]],
  ['a key twice', [0, [1, 0], [1, 2]]],
  ['descending number keys', [0, [5, -1], [1, 2]]],
  ['descending string keys', [0, ['b', 'a'], [1, 2]]],
  ['keys of both kinds', [0, ['a', 1], [1, 2]]],
  ['keys of both kinds in reverse order', [0, [1, 'a'], [1, 2]]],
  ['a key below 0', [0, [-1], [1]]],
  ['a fractional key', [0, [1.5], [1]]],
  ['a key beyond 2^53', [0, [2 ** 53 - 1, 1], [1, 2]]],
  ['a key that is neither number nor string', [0, [null], [1]]],
  ['fewer values than keys', [0, [1, 1], [1]]],
  ['more values than keys', [0, [1], [1, 2]]],
  ['fewer weights than keys', [0, [1, 1], [1, 2], [1]]],
  ['a weight below 0', [0, [1], [1], [-1]]],
  ['fewer ids than keys', [1, [1, 1], ID, [1, 1]]],
  ['ids that are not bytes', [1, [1], 'id', [1]]],
  ['a count that is not a number', [1, [1], ID, ['1']]],
])('%s is refused', (_, parts) => {
  expect(() => decodeNode(encodeValue(parts))).toThrow(ChunkCorruptError);
});

test('an array that claims 4 billion keys is refused without allocating them', () => {
  expect(() => decodeNode(Uint8Array.of(0x93, 0, 0xdd, 0xff, 0xff, 0xff, 0xff, 1))).toThrow(ChunkCorruptError);
  expect(() => decodeNode(Uint8Array.of(0x93, 0, 0x91, 1, 0xdd, 0xff, 0xff, 0xff, 0xff))).toThrow(ChunkCorruptError);
});
