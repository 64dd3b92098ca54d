import { describe, expect, test } from 'vitest';
import { BOUNDS, Results } from '../../bench/bounds.ts';
import { buildFigures, firstBuild, firstBuildReport } from '../../bench/cost/first-build.ts';
import { permutation } from '../../bench/permutation.ts';
import { PHASES, type Result } from '../../bench/phases.ts';
import { medians } from '../../bench/runner.ts';
import { median } from '../../bench/statistics.ts';
import { markdownTable, resultTables } from '../../bench/tables.ts';
import { COLUMNS, isInside, Workload } from '../../bench/workload.ts';
import { PRICES } from '../../examples/demo/prices.ts';

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

  test('the report compares the processor time of reads with that of the SDK', () => {
    const read = [
      result('read', 'logfold', { cpuSeconds: 1, requests: 19 }),
      result('read', 'sdk-loop', { cpuSeconds: 8, requests: 12, bytes: 12 * 2 ** 20 }),
    ];
    const text = resultTables(read, { rows: 10_000, bounds: true }).map(markdownTable).join('\n');
    // 200,000 entries.
    expect(text).toContain('| logfold | 1.000 | 1.000 | 5.0 | 0.125 |');
    expect(text).toContain('| read | CPU seconds vs. the loop on the SDK | 0.250 | 0.125 | met |');
    // Without four, 15 requests read 12 MB.
    expect(text).toContain('for each MB of 1,048,576 bytes | 1.200 | 1.250 | NOT met |');
  });

  test('every bound has a measurement if all phases have run', () => {
    const all = PHASES.flatMap(({ name }) =>
      ['logfold', 'sqlite', 'all-leaves', 'sdk-loop'].map((system) => result(name, system)),
    );
    expect(BOUNDS.filter((bound) => bound.measure(new Results(all)) === undefined)).toEqual([]);
    expect(BOUNDS.filter((bound) => bound.measure(new Results([])) !== undefined)).toEqual([]);
  });
});

describe('the price of a first build', () => {
  const run = {
    machine: 'a machine',
    repeat: 1,
    rows: 10_000,
    results: [
      // 5 µs and 80 bytes for each of 200,000 entries.
      result('read', 'logfold', { cpuSeconds: 1 }),
      result('read', 'sdk-loop', { cpuSeconds: 8, bytes: 16_000_000 }),
      result('full-shuffled', 'logfold', { cpuSeconds: 0.6 }),
      // Ten batches write 55 million cells: 4.5 s more than the 10 million that ten sheets have.
      result('full-10m', 'logfold', { cpuSeconds: 10.5, objects: 5_500, requests: 10_000 }),
    ],
  };
  const figures = buildFigures(run);

  test('a million entries cost their processor time, read units and PUTs', () => {
    const build = firstBuild(figures, { entries: 1e6, cells: 1e6 });
    expect(build.cpuSeconds).toBeCloseTo(5, 10);
    expect(build.readUnits).toBeCloseTo(8e7 / 8192, 6);
    expect(build).toMatchObject({ invocations: 1, gets: 0 });
    expect(build.puts).toBeCloseTo(100, 6);
    const { dynamodb, s3, lambda } = PRICES;
    const seconds = 5 * (1769 / 1024) * lambda.perMillion.gigabyteSeconds;
    const requests = build.readUnits * dynamodb.perMillion.readUnits + 100 * s3.perMillion.puts;
    expect(build.dollars).toBeCloseTo((seconds + requests + lambda.perMillion.invocations) / 1e6, 10);
  });

  test('later batches pay for the leaves that they rewrite', () => {
    const build = firstBuild(figures, { entries: 1e8, cells: 1e7 });
    // 55 million cells, and 90 batches of 10 million each.
    expect(build.puts).toBeCloseTo(95_500, 6);
    // 45 million cells, and 90 batches of 10 million each.
    expect(build.gets).toBeCloseTo(94_500, 6);
    expect(build.cpuSeconds).toBeCloseTo(500 + 94.5, 6);
    // A hundred batches rewrite a small sheet 99 times.
    const small = firstBuild(figures, { entries: 1e8, cells: 1e6 });
    expect(small.puts).toBeCloseTo(10_000, 6);
    expect(small.gets).toBeCloseTo(9_900, 6);
    expect(small.cpuSeconds).toBeCloseTo(500 + 9.9, 6);
  });

  test('the partition limits a build of larger entries, and the time limit divides the build', () => {
    const large = firstBuild({ ...figures, itemBytes: 400 }, { entries: 1e8, cells: 1e6 });
    expect(large.lambdaSeconds).toBeCloseTo(4e10 / 8192 / 3000, 6);
    expect(large.lambdaSeconds).toBeGreaterThan(large.cpuSeconds);
    // Each run takes 15 minutes less a margin of one.
    expect(large.invocations).toBe(Math.ceil(large.lambdaSeconds / 840));
  });

  test('the report refuses a run without a phase that it needs', () => {
    expect(firstBuildReport(run)).toContain('| MB a second that one partition serves | 24.6 |');
    const results = run.results.filter(({ phase }) => phase !== 'full-10m');
    expect(() => firstBuildReport({ ...run, results })).toThrow('no result of logfold in phase full-10m');
  });
});
