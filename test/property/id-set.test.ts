import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { VALUE_REF_TYPE } from '../../src/codec/canonical.ts';
import type { Leaf } from '../../src/tree/node.ts';
import { IdSet } from '../../src/workers/gc/id-set.ts';
import { Marks, partOf } from '../../src/workers/gc/mark.ts';
import { nodeStore } from '../support/chunks.ts';
import { propertyRuns } from '../support/property-runs.ts';

const PARTS = [1, 4, 16, 64, 256];

const hex = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((random) => Buffer.from(random).toString('hex'));
const ids = hex(32);
// The first bytes choose the slot. Equal ones collide, and the highest ones wrap around the end of
// the table.
const leads = fc.constantFrom('00000000', 'ffffffff', 'fffffffe', '0000003f', '80000000');
const colliding = fc.tuple(leads, fc.constantFrom('00', '01', 'ff'), hex(27)).map((parts) => parts.join(''));
const nearly = fc
  .tuple(leads, fc.integer({ min: 0, max: 300 }))
  .map(([lead, n]) => lead + n.toString(16).padStart(56, '0'));
const anyId = fc.oneof(ids, colliding, nearly);

describe('IdSet', () => {
  test('an IdSet behaves like a Set', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), anyId), { maxLength: 400, size: 'max' });
    fc.assert(
      fc.property(steps, (given) => {
        const [set, model] = [new IdSet(), new Set<string>()];
        for (const [adds, id] of given) {
          expect(set.has(id)).toBe(model.has(id));
          if (!adds) continue;
          expect(set.add(id)).toBe(!model.has(id));
          model.add(id);
          expect(set.size).toBe(model.size);
        }
        for (const [, id] of given) expect(set.has(id)).toBe(model.has(id));
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('an IdSet distinguishes thousands of ids that begin in the same slot', () => {
    const set = new IdSet();
    const id = (n: number) => `ffffffff${n.toString(16).padStart(56, '0')}`;
    for (let n = 0; n < 2000; n++) expect(set.add(id(n * 2))).toBe(true);
    expect(set.size).toBe(2000);
    for (let n = 0; n < 4000; n++) expect(set.has(id(n))).toBe(n % 2 === 0);
  });
});

describe('partOf', () => {
  test.each(PARTS)('partOf divides all ids into %i ascending parts of equal size', (of) => {
    const ids = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0').padEnd(64, '7'));
    const size = 256 / of;
    expect(ids.map((id) => partOf(id, of).index)).toEqual(ids.map((_, byte) => Math.floor(byte / size)));
  });
});

describe('Marks', () => {
  test('Marks marks only the ids of its part', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyId, { maxLength: 60 }), fc.constantFrom(...PARTS), async (given, of) => {
        for (let index = 0; index < of; index++) {
          const marks = new Marks(nodeStore(), { index, of });
          await marks.addBelow(leafNaming(given));
          const listed = new Set(given.filter((id) => partOf(id, of).index === index));
          expect(given.filter((id) => marks.has(id) !== listed.has(id))).toEqual([]);
          expect(marks.size).toBe(listed.size);
        }
      }),
      { numRuns: 50 },
    );
  });
});

/** A leaf that has only references to large values. */
function leafNaming(chunks: readonly string[]): Leaf {
  const references = chunks.map((id) => Buffer.from(`c720${VALUE_REF_TYPE.toString(16).padStart(2, '0')}${id}`, 'hex'));
  return {
    level: 0,
    keys: chunks.map((_, i) => i),
    bytes: Buffer.concat(references),
    ends: Uint32Array.from(references, (_, i) => (i + 1) * 35),
    weights: undefined,
    count: chunks.length,
    weight: chunks.length,
  };
}
