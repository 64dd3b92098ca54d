import { describe, expect, test } from 'vitest';
import { PolicyInvalidError } from '../../src/errors.ts';
import {
  asksAt,
  type DivisionPolicy,
  type DivisionSettings,
  divides,
  divisionOf,
  isSegmentDue,
  isSnapshotDue,
  type MeasuredTail,
  NO_DIVISION,
} from '../../src/log/division-policy.ts';
import { asksAtIndex, MAPPED_DIVISION, mappedDivisionOf, segmentSizes } from '../../src/mapping/item-division.ts';

const tailOf = (tail: Partial<MeasuredTail>): MeasuredTail => ({
  snapshot: 0,
  newest: 0,
  bytes: 0,
  oldest: undefined,
  segmentBytes: 0,
  ...tail,
});

describe('divisionOf', () => {
  test('without a setting own logs are not divided, and mapped logs have their default', () => {
    expect(divides(divisionOf({}))).toBe(false);
    expect(divides(divisionOf({ snapshotEveryEntries: 0, segmentEveryBytes: 0 }))).toBe(false);
    expect(divides(NO_DIVISION)).toBe(false);
    expect(mappedDivisionOf({})).toEqual(MAPPED_DIVISION);
  });

  test.each<[DivisionSettings, string]>([
    [{ snapshotEveryEntries: -1 }, 'snapshotEveryEntries is -1'],
    [{ snapshotEveryEntries: 1.5 }, 'snapshotEveryEntries is 1.5'],
    [{ snapshotEveryEntries: Number.NaN }, 'snapshotEveryEntries is NaN'],
    [{ snapshotEveryBytes: 999 }, 'snapshotEveryBytes is 999'],
    [{ snapshotEveryMinutes: 1e9 }, 'snapshotEveryMinutes is 1000000000'],
    [{ segmentEveryEntries: 1e7 }, 'segmentEveryEntries is 10000000'],
    [{ segmentEveryBytes: 1 }, 'segmentEveryBytes is 1'],
  ])('%o is refused', (settings, reason) => {
    expect(() => divisionOf(settings)).toThrow(PolicyInvalidError);
    expect(() => divisionOf(settings)).toThrow(reason);
  });

  test('segments of mapped logs are whole numbers of snapshots', () => {
    expect(() => mappedDivisionOf({ snapshotEveryEntries: 30, segmentEveryEntries: 100 })).toThrow('such as 120');
    expect(() => mappedDivisionOf({ snapshotEveryBytes: 10_000, segmentEveryEntries: 15 })).toThrow('multiple of');
    expect(segmentSizes(mappedDivisionOf({ snapshotEveryEntries: 300 }))).toEqual({ items: 1_200, snapshotEvery: 300 });
    expect(segmentSizes(mappedDivisionOf({ snapshotEveryBytes: 10_000 }))).toEqual({ items: 1_000, snapshotEvery: 10 });
  });
});

describe('an entry asks for a divide job', () => {
  const asking = (settings: DivisionSettings, bytes = 0, share = 0.5): number[] =>
    Array.from({ length: 60 }, (_, entry) => entry).filter((entry) =>
      asksAt(divisionOf(settings), { entry, bytes, share }),
    );

  test('at each multiple of the entries of a snapshot', () => {
    expect(asking({ snapshotEveryEntries: 20 })).toEqual([20, 40]);
  });

  test('from the entries of a segment on, at every tenth', () => {
    expect(asking({ segmentEveryEntries: 25 })).toEqual([25, 35, 45, 55]);
  });

  test('by its share of the bytes', () => {
    expect(asking({ snapshotEveryBytes: 4_000 }, 500)).toEqual([]);
    expect(asking({ snapshotEveryBytes: 4_000 }, 501)).toHaveLength(60);
    expect(asking({ segmentEveryBytes: 4_000, snapshotEveryBytes: 1_000_000 }, 501)).toHaveLength(60);
  });

  test('never without a policy', () => {
    expect(asking({}, 1e9, 0)).toEqual([]);
    expect(asking({ snapshotEveryMinutes: 1 }, 1e9, 0)).toEqual([]);
  });
});

test('the first item of a mapped log asks for a divide job, and the last ones before virtual entries', () => {
  const settings = { snapshotEveryEntries: 4, segmentEveryEntries: 8 };
  const asking = (policy: DivisionPolicy) =>
    Array.from({ length: 12 }, (_, entry) => entry).filter((entry) =>
      asksAtIndex(policy, { entry, bytes: 100, share: 0.9 }),
    );
  expect(asking(mappedDivisionOf(settings))).toEqual([0, 3, 7, 11]);
  expect(asking(MAPPED_DIVISION)).toEqual([0]);
});

describe('a Snapshot entry is due', () => {
  const isDue = (settings: DivisionSettings, tail: Partial<MeasuredTail>, now = 0): boolean =>
    isSnapshotDue(divisionOf(settings), tailOf(tail), now);

  test('after the entries of the policy, counted from the newest Snapshot entry', () => {
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 5, newest: 19 })).toBe(false);
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 25, newest: 45 })).toBe(true);
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: -1, newest: 19 })).toBe(true);
  });

  test('at a multiple of the entries, where the stream asks, if half of them follow it', () => {
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 22, newest: 39 })).toBe(false);
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 22, newest: 40 })).toBe(true);
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 31, newest: 40 })).toBe(false);
    expect(isDue({ snapshotEveryEntries: 20 }, { snapshot: 31, newest: 51 })).toBe(true);
  });

  test('after its bytes', () => {
    expect(isDue({ snapshotEveryBytes: 1_000 }, { newest: 3, bytes: 999 })).toBe(false);
    expect(isDue({ snapshotEveryBytes: 1_000 }, { newest: 3, bytes: 1_000 })).toBe(true);
  });

  test('after its minutes since the first change', () => {
    expect(isDue({ snapshotEveryMinutes: 10 }, { newest: 3, oldest: 1_000 }, 1_599)).toBe(false);
    expect(isDue({ snapshotEveryMinutes: 10 }, { newest: 3, oldest: 1_000 }, 1_600)).toBe(true);
  });

  test('never directly after another Snapshot entry', () => {
    const settings = { snapshotEveryEntries: 1, snapshotEveryMinutes: 1 };
    expect(isDue(settings, { snapshot: 7, newest: 7, oldest: 0 }, 1e9)).toBe(false);
  });
});

describe('a segment is due', () => {
  const isDue = (settings: DivisionSettings, tail: Partial<MeasuredTail>): boolean =>
    isSegmentDue(divisionOf(settings), tailOf(tail));

  test('after its entries, or after its bytes', () => {
    expect(isDue({ segmentEveryEntries: 30 }, { snapshot: 20, newest: 29 })).toBe(false);
    expect(isDue({ segmentEveryEntries: 30 }, { snapshot: 20, newest: 30 })).toBe(true);
    expect(isDue({ segmentEveryBytes: 1_000 }, { newest: 2, segmentBytes: 999 })).toBe(false);
    expect(isDue({ segmentEveryBytes: 1_000 }, { newest: 2, segmentBytes: 1_000 })).toBe(true);
  });

  test('not directly after a Snapshot entry, which would stand for the same state', () => {
    expect(isDue({ segmentEveryEntries: 30 }, { snapshot: 40, newest: 40 })).toBe(false);
  });
});
