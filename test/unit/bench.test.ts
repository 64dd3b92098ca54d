import { describe, expect, test } from 'vitest';
import { BOUNDS, Results } from '../../bench/bounds.ts';
import { permutation } from '../../bench/permutation.ts';
import { PHASES, type Result } from '../../bench/phases.ts';
import { medians } from '../../bench/runner.ts';
import { median } from '../../bench/statistics.ts';
import { markdownTable, resultTables } from '../../bench/tables.ts';
import { COLUMNS, isInside, Workload } from '../../bench/workload.ts';

const result = (phase: string, system: string, figures: Partial<Result> = {}): Result => {
  return { phase, system, seconds: 1, cpuSeconds: 1, bytes: 1, objects: 1, requests: 1, peakMB: 1, ...figures };
};

describe('median', () => {
  test('it is the middle number in any order', () => {
    expect(median([30, 1, 200, 4, 5])).toBe(5);
  });

  test('it is the mean of the two middle numbers of an even count', () => {
    expect(median([4, 1, 2, 100])).toBe(3);
  });

  test('it refuses an empty list', () => {
    expect(() => median([])).toThrow(RangeError);
  });
});

describe('permutation', () => {
  test.each([1, 2, 7, 100, 1000, 4097])('it has each of %i numbers once', (size) => {
    const place = permutation(size, 5);
    const places = Array.from({ length: size }, (_, i) => place(i));
    expect(places.toSorted((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i));
  });

  test('it separates most neighbours', () => {
    const place = permutation(10_000, 5);
    const kept = Array.from({ length: 9_999 }, (_, i) => place(i + 1) - place(i)).filter((step) => step === 1);
    expect(kept.length).toBeLessThan(10);
  });
});

describe('the workload', () => {
  const workload = new Workload(200);
  const cells = (order: 'rows' | 'shuffled') => [...workload.pages(order)].flat().map(({ body: [cell] }) => cell);

  test('it is the same in every run', () => {
    expect(cells('rows')).toEqual([...new Workload(200).pages('rows')].flat().map(({ body: [cell] }) => cell));
    expect(workload.edits('scattered', 50, 3)).toEqual(new Workload(200).edits('scattered', 50, 3));
  });

  test('it has the same cells in every order', () => {
    const sorted = cells('shuffled').toSorted(([a, b], [c, d]) => a - c || b - d);
    expect(sorted).toEqual(cells('rows'));
    expect(cells('shuffled')).not.toEqual(cells('rows'));
  });

  test('it consists of numbers below 1,000, random strings and repeated words', () => {
    const values = cells('rows').map(([, , value]) => value);
    const numbers = values.filter((value) => typeof value === 'number');
    const strings = values.filter((value) => typeof value === 'string');
    expect(numbers.length / values.length).toBeCloseTo(0.5, 1);
    expect(numbers.every((number) => Number.isInteger(number) && number >= 0 && number < 1000)).toBe(true);
    expect(strings.every((string) => /^[a-z]{3,20}$/.test(string))).toBe(true);
    const repeated = strings.length - new Set(strings).size;
    expect(repeated / values.length).toBeCloseTo(0.2 - 1000 / values.length, 1);
  });

  test('it numbers its entries without a gap, cells before edits', () => {
    const entries = [...workload.pages('shuffled')].flat().concat(workload.edits('clustered', 30, 0));
    const numbers = entries.concat(workload.edits('clustered', 30, 1)).map(({ position }) => position.entry);
    expect(numbers).toEqual(Array.from({ length: 200 * COLUMNS + 60 }, (_, i) => i + 1));
  });

  test('clustered edits stay within 100 rows, and scattered edits do not', () => {
    const spread = (edits: ReturnType<Workload['edits']>): number => {
      const rows = edits.map(({ body: [[row]] }) => row);
      return Math.max(...rows) - Math.min(...rows);
    };
    expect(spread(workload.edits('clustered', 500))).toBeLessThan(100);
    expect(spread(workload.edits('scattered', 500))).toBeGreaterThan(150);
  });

  test('a view after edits has the newest value of each cell', () => {
    const view = workload.view();
    const edits = workload.edits('clustered', 20_000);
    const shown = workload.viewed(view, edits);
    expect(shown).toHaveLength(50 * 20);
    const newest = edits.findLast(({ body: [[row, column]] }) => isInside(view, row, column))?.body[0];
    expect(shown).toContainEqual({ row: newest?.[0], column: newest?.[1], value: newest?.[2] });
  });
});

describe('results', () => {
  test('they are medians of each phase and system', () => {
    const runs = [3, 1, 2].flatMap((seconds) => [
      result('full', 'a', { seconds }),
      result('full', 'b', { bytes: seconds }),
    ]);
    expect(medians(runs)).toEqual([result('full', 'a', { seconds: 2 }), result('full', 'b', { bytes: 2 })]);
  });

  test('the report shows each bound as met or not met', () => {
    const full = [
      result('full', 'logfold', { seconds: 1.5, bytes: 5_000_000 }),
      result('full', 'sqlite', { seconds: 1, bytes: 18_000_000 }),
    ];
    const text = resultTables(full, { rows: 10_000, bounds: true }).map(markdownTable).join('\n');
    expect(text).toContain('| full | seconds vs. SQLite | 1.000 | 1.500 | NOT met |');
    expect(text).toContain('| full | bytes | 5.5 MB | 5.0 MB | met |');
    expect(text).toContain('| full | bytes vs. SQLite | 0.350 | 0.278 | met |');
    expect(text).not.toContain('edit-100');
  });

  test('every bound has a measurement if all phases have run', () => {
    const all = PHASES.flatMap(({ name }) =>
      ['logfold', 'sqlite', 'all-leaves', 'sdk-loop'].map((system) => result(name, system)),
    );
    expect(BOUNDS.filter((bound) => bound.measure(new Results(all)) === undefined)).toEqual([]);
    expect(BOUNDS.filter((bound) => bound.measure(new Results([])) !== undefined)).toEqual([]);
  });
});
