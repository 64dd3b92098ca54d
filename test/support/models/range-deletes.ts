import fc from 'fast-check';
import type { Key, KeyKind } from '../../../src/tree/key.ts';
import type { RangeDelete } from '../../../src/tree/range-delete.ts';

/** Deletions of ranges between two keys. Some deletions of number keys have a period. */
export function rangeDelete(key: fc.Arbitrary<Key>, kind: KeyKind): fc.Arbitrary<RangeDelete> {
  const bounds = fc.tuple(key, key).map(([a, b]) => (a < b ? { from: a, to: b } : { from: b, to: a }));
  if (kind === 'string') return bounds;
  const every = fc.record({ period: fc.constantFrom(1, 2, 7, 50, 200, 2 ** 40), a: fc.nat(), b: fc.nat() });
  return fc.tuple(bounds, fc.option(every, { nil: undefined })).map(([range, selects]) => {
    if (selects === undefined) return range;
    const { period } = selects;
    const [from, to] = [selects.a % (period + 1), selects.b % (period + 1)].sort((a, b) => a - b);
    return { ...range, every: { period, from: from ?? 0, to: to ?? 0 } };
  });
}

/** Whether a range deletion deletes a key. */
export function isInRange({ from, to, every }: RangeDelete, key: Key): boolean {
  if (key < from || key >= to) return false;
  const remainder = every === undefined ? 0 : Number(key) % every.period;
  return every === undefined || (remainder >= every.from && remainder < every.to);
}
