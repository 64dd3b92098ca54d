import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { billOf, scale } from '../../bench/cost/bill.ts';
import type { Month } from '../../bench/cost/deployment.ts';
import { Edits } from '../../bench/cost/edits.ts';
import { EXPIRE_WRITE_UNITS, MEMORY_MB, TIMEOUT_SECONDS } from '../../bench/cost/model.ts';
import { changeUnits, pagesOf, readUnits, scanUnits, storedBytes, transactionUnits } from '../../bench/cost/units.ts';
import { NO_WORK, type Work } from '../../bench/cost/work.ts';
import { PRICES } from '../../examples/demo/prices.ts';
import type { Item } from '../../src/log/attribute.ts';
import { encodeBody } from '../../src/log/body.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { deployedFunctions } from '../support/deployed/deployed-functions.ts';
import { readTemplate } from '../support/deployed/template.ts';
import { entryAt, LOG } from '../support/logs.ts';

const CONSISTENT = { consistent: true };
const EVENTUAL = { consistent: false };

/** An item of `bytes` bytes. */
function itemOf(bytes: number): Item {
  return { B: { B: new Uint8Array(bytes - 1) } };
}

const NOTHING: Month = {
  work: {
    append: NO_WORK,
    stream: NO_WORK,
    divide: NO_WORK,
    snapshot: NO_WORK,
    flush: NO_WORK,
    archive: NO_WORK,
    expire: NO_WORK,
    collect: NO_WORK,
    sweep: NO_WORK,
  },
  tableBytes: 0,
  bucketBytes: 0,
};

function monthOf(work: Partial<Month['work']>, stored: Partial<Month> = {}): Month {
  return { ...NOTHING, ...stored, work: { ...NOTHING.work, ...work } };
}

function workOf(work: Partial<Work>): Work {
  return { ...NO_WORK, ...work };
}

describe('the cost of a read', () => {
  test.each([
    [0, 1],
    [1, 1],
    [4096, 1],
    [4097, 2],
    [40_960, 10],
  ])('a consistent read of %i bytes costs %i units, an eventually consistent one half', (bytes, units) => {
    expect(readUnits(bytes, CONSISTENT)).toBe(units);
    expect(readUnits(bytes, EVENTUAL)).toBe(units / 2);
  });

  test('a scan costs half a unit per 4 KB, and at least half a unit per request', () => {
    expect(scanUnits(0, 8)).toBe(4);
    expect(scanUnits(4096 * 100, 8)).toBe(50);
  });

  test('each page of 1 MiB is rounded up', () => {
    const items = Array.from({ length: 11 }, () => itemOf(100_000));
    expect(pagesOf(items).map(({ items: page, bytes }) => [page.length, bytes])).toEqual([
      [10, 1_000_000],
      [1, 100_000],
    ]);
    expect(pagesOf([])).toEqual([{ items: [], bytes: 0 }]);
  });
});

describe('the cost of a write', () => {
  test.each([
    [undefined, 1024, 1],
    [undefined, 1025, 2],
    [3000, 500, 3],
    [500, 3000, 3],
    [2048, undefined, 2],
    [undefined, undefined, 1],
  ])('a write from %s to %s bytes costs %i units', (before, after, units) => {
    const item = (bytes: number | undefined) => (bytes === undefined ? undefined : itemOf(bytes));
    expect(changeUnits(item(before), item(after))).toBe(units);
  });

  test('a write in a transaction costs twice as much', () => {
    expect(transactionUnits([1, 3])).toBe(8);
  });
});

test('storage adds 100 bytes to each item', () => {
  expect(storedBytes([itemOf(400), itemOf(1000)])).toBe(1600);
});

test('an entry is at most a few bytes smaller than in the model', () => {
  for (const entryBytes of [150, 500, 3000]) {
    const edits = new Edits({ rows: 2000, entryBytes });
    edits.nextDay();
    const sizes = Array.from({ length: 50 }, () => {
      const { type, version, body = null } = edits.next();
      const stored = { format: 'bytes', bytes: encodeBody(body) } as const;
      return itemBytes(encodeEntry(entryAt(LOG, { segment: 0, entry: 4999 }, { type, version, body: stored })));
    });
    expect(Math.max(...sizes)).toBeLessThanOrEqual(entryBytes);
    expect(Math.min(...sizes)).toBeGreaterThan(entryBytes - 20);
  }
});

test('the work of a deployment is the idle work plus the share of each log', () => {
  const empty = monthOf({ sweep: workOf({ invocations: 720, lists: 1440 }) });
  const active = monthOf(
    { sweep: workOf({ invocations: 720, lists: 1440, requests: 700 }), snapshot: workOf({ invocations: 30 }) },
    { tableBytes: 2e6, bucketBytes: 5e6 },
  );
  const atRest = monthOf(
    { sweep: workOf({ invocations: 720, lists: 1440, requests: 720 }) },
    { tableBytes: 1e5, bucketBytes: 6e6 },
  );
  const month = scale({ active, atRest, empty }, { logs: 1000, activeShare: 0.1 });
  expect(month).toEqual(
    monthOf(
      {
        snapshot: workOf({ invocations: 3000 }),
        sweep: workOf({ invocations: 720, lists: 1440, requests: 100 * 700 + 900 * 720 }),
      },
      { tableBytes: 100 * 2e6 + 900 * 1e5, bucketBytes: 100 * 5e6 + 900 * 6e6 },
    ),
  );
});

describe('a bill', () => {
  test('it charges the price of a million for a million requests of each kind', () => {
    const million = workOf({ writeUnits: 1e6, readUnits: 1e6, puts: 1e6, gets: 1e6, lists: 1e6, queueRequests: 1e6 });
    const bill = billOf(monthOf({ snapshot: million }), 0);
    expect(bill).toMatchObject({ writes: 0.625, reads: 0.125, s3: 10.4, sqs: 0.5, lambda: 0, storage: 0 });
    expect(bill.total).toBeCloseTo(0.625 + 0.125 + 10.4 + 0.5, 10);
    const { appending, total } = billOf(monthOf({ append: million }), 0);
    expect([appending, total]).toEqual([0.625 + 0.125 + 10.4 + 0.5, 0]);
  });

  test('it contains the storage of tables and bucket', () => {
    expect(billOf(monthOf({}, { tableBytes: 1e9 }), 5)).toMatchObject({ storage: 0.25, total: 0.25 });
    expect(billOf(monthOf({}, { bucketBytes: 1e9 }), 5)).toMatchObject({ storage: 0.023, total: 0.023 });
  });

  test('it contains invocations and the gigabyte-seconds of each function', () => {
    const work = workOf({ invocations: 1e6, milliseconds: 1e6 * 1024 });
    const { invocations, gigabyteSeconds } = PRICES.lambda.perMillion;
    const lambda = (megabytes: number): number => invocations + (gigabyteSeconds * 1000 * megabytes) / 1e6;
    expect(billOf(monthOf({ stream: work }), 5).lambda).toBeCloseTo(lambda(MEMORY_MB.stream), 10);
    expect(billOf(monthOf({ snapshot: work }), 5).lambda).toBeCloseTo(lambda(MEMORY_MB.jobs), 10);
  });

  test('it contains the time that functions wait for requests or for the rate limiter', () => {
    const seconds = (work: Partial<Month['work']>): number => {
      const { gigabyteSeconds } = PRICES.lambda.perMillion;
      return (billOf(monthOf(work), 5).lambda * 1e6) / gigabyteSeconds / (MEMORY_MB.jobs / 1024);
    };
    const work = workOf({ requests: 400, gets: 300, queueRequests: 100 });
    expect(seconds({ snapshot: work })).toBeCloseTo(4, 10);
    expect(seconds({ sweep: work })).toBeCloseTo(4 / 8, 10);
    expect(seconds({ expire: workOf({ requests: 160, writeUnits: 160 }) })).toBeCloseTo(1.6, 10);
  });

  test('it contains one request per thousand listed keys of all logs', () => {
    expect(billOf(monthOf({ sweep: workOf({ listedKeys: 1e6 }) }), 0).s3).toBeCloseTo(1000 * 5e-6, 10);
  });
});

test('the model has the memory sizes and the time limit of the template', () => {
  const stack = readTemplate().expand();
  const functions = deployedFunctions(stack);
  expect(functions.get('StreamFunction')?.memoryMb).toBe(MEMORY_MB.stream);
  expect(functions.get('SnapshotFunction')?.memoryMb).toBe(MEMORY_MB.jobs);
  expect(functions.get('SnapshotFunction')?.timeoutSeconds).toBe(TIMEOUT_SECONDS);
  expect(functions.get('MaintainFunction')?.memoryMb).toBe(MEMORY_MB.jobs);
  expect(functions.get('SweepFunction')?.memoryMb).toBe(MEMORY_MB.sweep);
  expect(stack.parameters.ExpireWriteUnits).toBe(String(EXPIRE_WRITE_UNITS));
});

test('the program accepts options and prints one JSON document', async () => {
  const program = fileURLToPath(new URL('../../bench/cost.ts', import.meta.url));
  const options =
    '--json --entries-a-day 3 --snapshot-every 2 --age-days 1 --keep-days 1 --sweep-hours 12 --active 100';
  const flags = ['--disable-warning=ExperimentalWarning', program, ...options.split(' ')];
  const { stdout } = await promisify(execFile)(process.execPath, flags);
  const { months, costs, model } = JSON.parse(stdout);
  expect(model).toMatchObject({ entriesADay: 3, policy: { keepDays: 1 } });
  // The log has 93 entries. 90 entries and 45 snapshots fall into the month.
  expect(months.active.work.snapshot.invocations).toBe(45);
  expect(months.empty.work.sweep.invocations).toBe(60);
  expect(costs.map(({ logs }: { logs: number }) => logs)).toEqual([1_000, 100_000, 1_000_000]);
});
