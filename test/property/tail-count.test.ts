import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StoredItem } from '../../src/log/attribute.ts';
import type { MeasuredTail } from '../../src/log/division-policy.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { TailCount } from '../../src/log/tail-count.ts';
import { entryAt, NOON, newLogId } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const LOG = newLogId();

/** An entry of a segment. Some have no valid time. */
interface Counted {
  readonly isSnapshot: boolean;
  readonly bytes: number;
  readonly created: number | undefined;
}

const segments = fc.record({
  entries: fc.array(
    fc.record<Counted>({
      isSnapshot: fc.boolean(),
      bytes: fc.nat(300),
      created: fc.option(fc.integer({ min: NOON, max: NOON + 1_000 }), { nil: undefined, freq: 5 }),
    }),
    { maxLength: 12 },
  ),
  /** The index of the last entry that is not counted, if it is a Snapshot entry. */
  before: fc.nat(12),
});

function itemOf({ isSnapshot, bytes, created }: Counted, entry: number): StoredItem {
  const type = isSnapshot ? RESERVED_TYPES.snapshot : 'x'.repeat(1 + bytes);
  const { C: _, ...item } = encodeEntry(entryAt(LOG, { segment: 0, entry }, { type, created: created ?? 0 }));
  return created === undefined ? item : { ...item, C: { N: String(created) } };
}

/** The end of a segment, counted from its list of entries. */
function plainTail(entries: readonly Counted[], before: number): MeasuredTail {
  const items = entries.map(itemOf);
  const bytesFrom = (from: number): number => items.slice(from).reduce((sum, item) => sum + itemBytes(item), 0);
  const snapshot = entries.findLastIndex(({ isSnapshot }, i) => isSnapshot && i >= before);
  const counted = entries.length - (before + 1);
  const estimate = counted === 0 ? 0 : (bytesFrom(before + 1) / counted) * entries.length;
  return {
    snapshot,
    newest: entries.length - 1,
    bytes: bytesFrom(snapshot + 1),
    oldest: entries.slice(snapshot + 1).find(({ created }) => created !== undefined)?.created,
    segmentBytes: before === -1 ? bytesFrom(0) : estimate,
  };
}

test('the end of a segment is counted item by item as from the list of its entries', () => {
  fc.assert(
    fc.property(segments, ({ entries, before: index }) => {
      const before = entries[index]?.isSnapshot === true ? index : -1;
      const count = new TailCount(RESERVED_TYPES, before);
      for (const [i, entry] of entries.entries()) {
        expect(count.add(itemOf(entry, i))).toBe(i > before);
        if (i < before) continue;
        expect(count.tail).toEqual(plainTail(entries.slice(0, i + 1), before));
      }
      const later = entries.slice(before + 1);
      expect(count.first).toBe(later.find(({ isSnapshot, created }) => !isSnapshot && created !== undefined)?.created);
      const bytes = entries.map((entry, i) => itemBytes(itemOf(entry, i))).slice(before + 1);
      expect(count.allBytes).toBe(bytes.reduce((sum, each) => sum + each, 0));
    }),
    { numRuns: propertyRuns(500, 100) },
  );
});
