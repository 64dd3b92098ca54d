import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { LogfoldError } from '../../src/errors.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import type { Job } from '../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import {
  collect,
  contentsOf,
  expectWhole,
  GRACE,
  GRACE_SECONDS,
  depsOn as interceptDeps,
  refill,
} from '../support/gc-scenario.ts';
import { SheetLog } from '../support/sheet-log.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** A log of four segments, of which two are archived and left the table. */
async function archivedLog(): Promise<SheetLog> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  for (const text of ['a', 'b', 'c']) {
    await refill(sheet, text);
    await sheet.completed();
    await sheet.covered();
  }
  for (const segment of [0, 1]) await sheet.archive(segment);
  return sheet;
}

/** Dependencies with tables that lack a segment's item. */
async function depsWithout(sheet: SheetLog, missing: number) {
  const tables = new MemoryLogStore();
  for await (const segment of sheet.tables.segments(sheet.log)) {
    const range = { segment: segment.segment, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of sheet.tables.items(sheet.log, range)) {
      await tables.putItems(page.map(({ X: _, ...item }) => item));
    }
    if (segment.segment !== missing) await tables.putSegment(segment);
  }
  return depsOn(sheet, tables);
}

function depsOn(sheet: SheetLog, tables: MemoryLogStore) {
  const { store } = testDeployment({ tables, blobs: sheet.blobs });
  return { ...sheet.deps, tables, store };
}

/** Collects three times, a grace period apart, which removes unnamed objects. */
async function expectNothingCollected(sheet: SheetLog, deps: SheetLog['deps'], segment: number): Promise<void> {
  const before = Object.keys(await contentsOf(sheet.blobs)).filter((key) => !key.endsWith('collected.json'));
  for (let times = 0; times < 3; times++) {
    sheet.nowMs += GRACE;
    const result = await collectLog(deps, sheet, { graceSeconds: GRACE_SECONDS, keepSnapshots: 'all' });
    expect(result).toMatchObject({ outcome: 'refused', error: { code: 'SEGMENT_GAP', log: sheet.log, segment } });
  }
  const after = Object.keys(await contentsOf(sheet.blobs)).filter((key) => !key.endsWith('collected.json'));
  expect(after).toEqual(before);
  await expectWhole(sheet);
}

describe('a segment that the Segment table lacks', () => {
  test.each([0, 1, 2])('the collection keeps all objects of the log, if segment %i is missing', async (segment) => {
    const sheet = await archivedLog();
    await expectNothingCollected(sheet, await depsWithout(sheet, segment), segment);
  });

  test('the collection keeps them also if it was the newest segment', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await refill(sheet, 'a');
    await sheet.completed();
    await sheet.covered();
    await refill(sheet, 'b');
    await sheet.completed();
    const deps = await depsWithout(sheet, 1);
    await expectNothingCollected(sheet, deps, 1);
  });

  test('a segment is not missing if it starts while the log is collected', async () => {
    const sheet = await archivedLog();
    let begun = false;
    const deps = interceptDeps(sheet, sheet.blobs, async (name, effect) => {
      const result = await effect();
      if (name === 'segments' && !begun) {
        begun = true;
        await refill(sheet, 'd');
        await sheet.covered();
        await refill(sheet, 'e');
        await sheet.completed();
      }
      return result;
    });
    expect((await collect(sheet, {}, deps)).outcome).toBe('collected');
    expect(begun).toBe(true);
    await expectWhole(sheet);
  });

  test.each([0, 1])('a table into which only segment %i was restored is not affected', async (segment) => {
    const sheet = await archivedLog();
    const tables = new MemoryLogStore();
    await restoreSegment(sheet.deps, { log: sheet.log, segment }, { into: tables, holdSeconds: 3600 });
    await expectNothingCollected(sheet, depsOn(sheet, tables), segment === 0 ? 1 : 0);
  });

  test('the sweep reports it, and requests its snapshots and nothing else', async () => {
    const sheet = await archivedLog();
    await refill(sheet, 'd');
    const position = await sheet.snapshot();
    const deps = await depsWithout(sheet, 0);
    const jobs: Job[] = [];
    const failures: LogfoldError[] = [];
    sheet.nowMs += 100 * GRACE;
    const result = await sweep({
      ...deps,
      policyOf: () => ({ ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'delete' }),
      send: async (job) => void jobs.push(job),
      onFailure: (_, error) => void failures.push(error),
    });
    expect(failures).toMatchObject([{ code: 'SEGMENT_GAP', log: sheet.log, segment: 0 }]);
    expect(result).toMatchObject({ failed: 1 });
    expect(jobs.filter(({ kind }) => kind !== 'collect')).toEqual([
      { kind: 'snapshot', log: sheet.log, position, force: true },
    ]);
    await expect(verify(deps, sheet.log)).rejects.toMatchObject({ code: 'SEGMENT_GAP', segment: 0 });
  });
});
