import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Position } from '../../src/ids/position.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { isStateFlushed } from '../../src/state/state.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { SheetModel, sheetEdits } from '../support/models/sheet-model.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLog } from '../support/sheet-log.ts';

const steps = fc.array(
  fc.record({
    edits: sheetEdits(8),
    /** A flush of the newest or an older snapshot, before or during the build of the next one. */
    compact: fc.constantFrom('none', 'none', 'newest', 'older', 'beside'),
  }),
  { minLength: 1, maxLength: 6, size: 'max' },
);

const FULL: SheetEdit = {
  type: 'Set',
  cells: Array.from({ length: 31 * 7 }, (_, i) => [Math.floor(i / 7), i % 7, `value ${i}`] as const),
};

test('a flush changes nothing that is read, regardless of the folds before and after it', {
  tags: ['I1'],
}, async () => {
  let compacted = 0;
  await fc.assert(
    fc.asyncProperty(steps, fc.nat(), async (history, pick) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      const model = new SheetModel();
      // Enough for several leaves, since a map of one leaf buffers nothing.
      model.apply(FULL);
      await sheet.edit(FULL);
      const taken: { position: Position; rows: string[][]; hash: string }[] = [];
      const compact = async (position: Position | undefined): Promise<void> => {
        if (position === undefined) return;
        const { outcome } = await sheet.flush(position);
        if (outcome === 'flushed') compacted++;
        if (outcome !== 'passed') expect(isStateFlushed((await sheet.root(position)).state)).toBe(true);
      };
      for (const { edits, compact: when } of history) {
        for (const edit of edits) model.apply(edit);
        await sheet.edit(...edits);
        const position = await sheet.snapshot();
        const building = sheet.complete(position);
        if (when === 'beside') await compact(taken.at(-1)?.position);
        expect(await building).toMatchObject({ outcome: 'built' });
        const rows = structuredClone(model.trimmed());
        expect(await sheet.rows(position)).toEqual(rows);
        taken.push({ position, rows, hash: await sheet.stateHash(position) });
        if (when === 'newest') await compact(position);
        if (when === 'older') await compact(taken[pick % taken.length]?.position);
        for (const each of taken) {
          expect(await sheet.rows(each.position)).toEqual(each.rows);
          expect(await sheet.stateHash(each.position)).toBe(each.hash);
        }
      }
      expect(await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log)).toMatchObject({ equal: true });
    }),
    { numRuns: propertyRuns(150, 30) },
  );
  // At least one history must buffer edits.
  expect(compacted).toBeGreaterThan(0);
});
