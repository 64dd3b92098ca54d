import { describe, expect, test } from 'vitest';
import { ReadPace } from '../../src/log/read-pace.ts';

const page = (items: number, bytes: number) => ({ items, bytes, attempts: 1 });

/** A pace that knows entries of 100 bytes. */
function sized(limits: ConstructorParameters<typeof ReadPace>[0] = {}): ReadPace {
  const pace = new ReadPace(limits);
  pace.read(page(500, 50_000));
  return pace;
}

describe('the length of ranges', () => {
  test('the first range has 500 entries, and the next ones fill a page', () => {
    const pace = new ReadPace({});
    expect(pace.next).toEqual({ entries: 500, pages: undefined });
    pace.read(page(500, 50_000));
    expect(pace.next).toEqual({ entries: Math.ceil((0.95 * 2 ** 20) / 100), pages: 1 });
  });

  test('recent pages count more', () => {
    const pace = sized();
    pace.read(page(1000, 1_000_000));
    expect(pace.next.entries).toBe(Math.ceil((0.95 * 2 ** 20) / ((25_000 + 1_000_000) / 1250)));
  });

  test('a page without entries says nothing about their size', () => {
    const pace = sized();
    const before = pace.next;
    pace.read(page(0, 8192));
    expect(pace.next).toEqual(before);
  });

  test('the limit of a caller is kept', () => {
    const pace = sized({ rangeEntries: 7 });
    expect(pace.next.entries).toBe(7);
    expect(new ReadPace({ rangeEntries: 7 }).next.entries).toBe(7);
  });

  test('a range becomes longer when one takes more pages than planned, up to four pages', () => {
    const pace = sized();
    const { entries } = pace.next;
    for (const pages of [2, 3, 4, 4, 4]) {
      const plan = pace.next;
      pace.ended({ plan, pages: (plan.pages ?? 0) + 1, longest: 10 });
      expect(pace.next.pages).toBe(pages);
    }
    expect(pace.next.entries).toBeGreaterThan(3.9 * entries);
    pace.ended({ plan: pace.next, pages: 1, longest: 10 });
    expect(pace.next.pages).toBe(4);
  });

  test('ranges of a store that reports no sizes get the length of a page', () => {
    const pace = new ReadPace({});
    const read = (pages: number, longest: number) => {
      pace.readUntold();
      pace.ended({ plan: pace.next, pages, longest });
      return pace.next.entries;
    };
    expect([read(5, 120), read(1, 120), read(1, 240), read(1, 480)]).toEqual([120, 240, 480, 500]);
  });

  test('after a page without a size, the next size counts again', () => {
    const pace = sized();
    const { entries } = pace.next;
    pace.readUntold();
    expect(pace.next.entries).toBe(500);
    pace.read(page(500, 50_000));
    expect(pace.next.entries).toBe(entries);
  });
});

describe('the number of concurrent ranges', () => {
  test('it is 2 after the first page and grows only when the caller waited, up to 8', () => {
    const pace = sized();
    for (let i = 0; i < 20; i++) pace.read(page(9000, 900_000));
    expect(pace.ranges).toBe(2);
    const counts = Array.from({ length: 8 }, () => {
      pace.waited();
      return pace.ranges;
    });
    expect(counts).toEqual([3, 4, 5, 6, 7, 8, 8, 8]);
  });

  test('a page that took several attempts halves it, down to 1', () => {
    const pace = sized();
    for (let i = 0; i < 6; i++) pace.waited();
    const counts = Array.from({ length: 5 }, () => {
      pace.read({ ...page(10, 1000), attempts: 2 });
      return pace.ranges;
    });
    expect(counts).toEqual([4, 2, 1, 1, 1]);
    pace.waited();
    expect(pace.ranges).toBe(2);
  });

  test('it is 4 for a store that reports no sizes', () => {
    const pace = new ReadPace({});
    expect(pace.ranges).toBe(1);
    pace.readUntold();
    expect(pace.ranges).toBe(4);
  });

  test('the limit of a caller is kept', () => {
    const pace = sized({ ranges: 3 });
    for (let i = 0; i < 6; i++) pace.waited();
    expect(pace.ranges).toBe(3);
    pace.readUntold();
    expect(pace.ranges).toBe(3);
  });
});
