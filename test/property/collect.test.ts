import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Position } from '../../src/ids/position.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { logPrefix } from '../../src/store/keys.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import {
  collect,
  collectedContents,
  contentsOf,
  copyOfBucket,
  depsOn,
  expectWhole,
  GRACE,
  GRACE_SECONDS,
  neededKeys,
  refill,
} from '../support/gc-scenario.ts';
import { sheetEdits } from '../support/models/sheet-model.ts';
import { expiring } from '../support/segments.ts';
import { SheetLog } from '../support/sheet-log.ts';

const steps = fc.array(
  fc.oneof(
    { weight: 2, arbitrary: sheetEdits(5).map((edits) => ({ edits })) },
    { weight: 3, arbitrary: fc.constantFrom('refill', 'snapshot') },
    { weight: 4, arbitrary: fc.constantFrom('compact', 'segment', 'archive', 'expire', 'half a build') },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 12 }).map((quarters) => ({ quarters })) },
  ),
  { minLength: 4, maxLength: 24, size: 'max' },
);

test('garbage collection keeps all needed objects and in the end no others, with any memory and time', {
  tags: ['I4'],
}, async () => {
  let [removed, cut] = [0, 0];
  const history = fc.tuple(steps, fc.constantFrom('all', 'last'), fc.integer({ min: 1, max: 12 }));
  await fc.assert(
    fc.asyncProperty(history, async ([actions, keepSnapshots, maxMarks]) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      let newest: Position = { segment: 0, entry: 0 };
      await sheet.complete(newest);
      await refill(sheet, 'full', 12);
      let [archived, refills] = [0, 0];
      const passes = async (quarters: number): Promise<void> => {
        sheet.nowMs += (quarters * GRACE) / 4;
        const copy = await copyOfBucket(sheet.blobs, () => sheet.nowMs);
        const inParts = await copyOfBucket(sheet.blobs, () => sheet.nowMs);
        const result = await collect(sheet, { keepSnapshots });
        removed += result.removed.objects;
        expect(await collect(sheet, { keepSnapshots }, { ...depsOn(sheet, copy), maxMarks })).toEqual(result);
        expect(await contentsOf(copy)).toEqual(await contentsOf(sheet.blobs));
        const { runs, removed: inRuns } = await collectInRuns(sheet, inParts, { keepSnapshots, maxMarks });
        expect(inRuns).toBe(result.removed.objects);
        expect(await collectedContents(inParts, sheet.log)).toEqual(await collectedContents(sheet.blobs, sheet.log));
        cut += runs - 1;
        const there = new Set(await sheet.keys());
        expect((await neededKeys(sheet, keepSnapshots)).filter((key) => !there.has(key))).toEqual([]);
      };
      for (const action of actions) {
        if (action === 'refill') await refill(sheet, `full ${refills++ % 3}`, 12);
        else if (action === 'snapshot') newest = await sheet.completed();
        else if (action === 'compact') await sheet.flush(newest);
        else if (action === 'segment') newest = await sheet.covered();
        else if (action === 'archive' && archived < newest.segment) await sheet.archive(archived++);
        else if (action === 'expire' && archived > 0) await emptied(sheet, archived - 1);
        else if (action === 'half a build') {
          await refill(sheet, 'half', 2);
          await sheet.complete(await sheet.snapshot(), { rangeEntries: 1, deadline: 0 });
        } else if (typeof action === 'object' && 'edits' in action) await sheet.edit(...action.edits);
        else if (typeof action === 'object') await passes(action.quarters);
      }
      for (let graces = 0; graces < 5; graces++) await passes(4);
      await expectWhole(sheet, keepSnapshots);
      const rest = await sheet.keys(logPrefix(sheet.log));
      expect(rest).toEqual(await neededKeys(sheet, keepSnapshots));
    }),
    { numRuns: 20 },
  );
  expect(removed).toBeGreaterThan(0);
  expect(cut).toBeGreaterThan(0);
});

/** Collects the garbage of a log in another bucket, in runs without any time. */
async function collectInRuns(
  sheet: SheetLog,
  bucket: BlobStore,
  { keepSnapshots, maxMarks }: { readonly keepSnapshots: 'all' | 'last'; readonly maxMarks: number },
): Promise<{ readonly runs: number; readonly removed: number }> {
  const deps = {
    ...sheet.deps,
    ...depsOn(sheet, bucket),
    maxMarks,
    atLeast: { objects: maxMarks, marks: 10_000 },
    now: () => 1,
    deadline: 0,
  };
  const options = { graceSeconds: GRACE_SECONDS, keepSnapshots };
  for (let [continuation, removed]: [number | undefined, number] = [undefined, 0], runs = 1; ; runs++) {
    const result = await collectLog(deps, { log: sheet.log, continuation }, options);
    if (!('removed' in result)) throw new Error(`a run ended with '${result.outcome}'`);
    removed += result.removed.objects;
    if (result.outcome === 'collected') return { runs, removed };
    continuation = result.continuation;
  }
}

/** Expires the entries of an archived segment. */
async function emptied(sheet: SheetLog, segment: number): Promise<void> {
  const item = await sheet.segmentItem(segment);
  if (item.expiry === undefined) await sheet.tables.setExpiration(item, expiring(1));
  const entries = (await sheet.items(segment)).map((_, entry) => entry);
  if (entries.length > 0) await sheet.tables.deleteEntries(sheet.log, segment, entries.slice(0, 25));
}
