import { describe, expect, test } from 'vitest';
import { waitingEdits } from '../../src/snapshot/compaction.ts';
import { DEFAULT_POLICY } from '../../src/snapshot/retention.ts';
import type { Draft } from '../../src/state/draft.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { isStateSettled } from '../../src/state/state.ts';
import { logPrefix } from '../../src/store/keys.ts';
import { archiveSegment } from '../../src/workers/archive.ts';
import { collectLog } from '../../src/workers/collect.ts';
import { decodeJob, type Job } from '../../src/workers/job.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/run-job.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

/** A clock that strikes at every look, so that a deadline cuts at any step that looks at it. */
function ticking(): { readonly now: () => number; readonly looks: () => number } {
  let looks = 0;
  return { now: () => looks++, looks: () => looks };
}

async function ran(sheet: SheetLog, job: Job, deps: Partial<JobDeps>): Promise<{ result: JobResult; sent: Job[] }> {
  const sent: Job[] = [];
  const queue = { send: async ({ body }: { readonly body: string }) => void sent.push(decodeJob(body)) };
  const policyOf = () => ({ ...DEFAULT_POLICY, graceSeconds: 0 });
  return { result: await runJob({ ...sheet.deps, queue, policyOf, ...deps }, job), sent };
}

const MAPS = ['a', 'b', 'c', 'd'];

/** Puts each entry's cells into several maps, where they may wait. */
const several: Reducer = {
  name: 'several',
  version: 1,
  fold(draft: Draft, { body }) {
    if (!Array.isArray(body)) return;
    for (const name of MAPS) {
      const map = draft.map(name, 'number', { defers: true });
      for (const cell of body)
        if (Array.isArray(cell) && typeof cell[0] === 'number') map.put(cell[0], cell[2] ?? null);
    }
  },
};

describe('a job whose time is up', () => {
  test('settles a map in each turn, and ends with the same root as one that has all the time', async () => {
    const settled = async (deadline: number | undefined) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      const deps = { reducer: several };
      await sheet.fill(300, 1);
      await sheet.complete(await sheet.snapshot(), deps);
      for (let i = 0; i < 3; i++) await sheet.edit(set(7 + i * 91, 0, `edit ${i}`));
      const position = await sheet.snapshot();
      await sheet.complete(position, deps);
      expect(waitingEdits((await sheet.root(position)).state)).toBe(3 * MAPS.length);
      let turns = 0;
      const waiting: Job[] = [{ kind: 'compact', log: sheet.log, position }];
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        const { result, sent } = await ran(sheet, job, { ...deps, deadline });
        expect(result.outcome).toBe(sent.length === 0 ? (turns === MAPS.length ? 'settled' : 'compacted') : 'settling');
        waiting.push(...sent);
        turns++;
      }
      const root = await sheet.root(position);
      expect(isStateSettled(root.state)).toBe(true);
      return { turns, stateHash: root.stateHash };
    };
    const whole = await settled(undefined);
    const cut = await settled(0);
    expect([whole.turns, cut.turns]).toEqual([1, MAPS.length]);
    expect(cut.stateHash).toBe(whole.stateHash);
  });

  test('makes no archive and leaves nothing behind, wherever it is cut, and one with more time makes it', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(30, 1);
    await sheet.completed();
    await sheet.covered();
    const job: Job = { kind: 'archive', log: sheet.log, segment: 0 };
    const before = await sheet.keys(logPrefix(sheet.log));
    let cuts = 0;
    for (let deadline = 0; ; deadline++) {
      const { result, sent } = await ran(sheet, job, { now: ticking().now, deadline });
      if (result.outcome === 'archived') break;
      expect(result).toMatchObject({ outcome: 'refused', error: { code: 'TIME_UP', log: sheet.log } });
      expect(sent).toEqual([]);
      expect(await sheet.keys(logPrefix(sheet.log))).toEqual(before);
      cuts++;
    }
    expect(cuts).toBeGreaterThan(1);
    await expect(archiveSegment(sheet.deps, job)).resolves.toMatchObject({ outcome: 'present' });
  });

  test('collects nothing that is needed, wherever it is cut, and one with more time collects the same', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    for (const text of ['x', 'y']) {
      for (let row = 0; row < 40; row++) await sheet.edit(set(row, 0, `${text} ${row}`.repeat(5)));
      await sheet.completed();
    }
    const policy = { ...DEFAULT_POLICY, graceSeconds: 0, keepSnapshots: 'last' } as const;
    const planned = await collectLog(sheet.deps, sheet, { ...policy, dryRunAt: Date.now() + 1000 });
    if (planned.outcome !== 'collected') throw new Error('nothing was planned');
    let cuts = 0;
    for (let deadline = 0; ; deadline++) {
      const run = collectLog({ ...sheet.deps, now: ticking().now, deadline }, sheet, policy);
      const error: unknown = await run.then(
        () => undefined,
        (caught) => caught,
      );
      if (error === undefined) break;
      expect(error).toMatchObject({ code: 'TIME_UP', log: sheet.log });
      cuts++;
    }
    expect(cuts).toBeGreaterThan(10);
    const left = new Set(await sheet.keys(logPrefix(sheet.log)));
    expect(planned.keys?.removed.filter((key) => left.has(key))).toEqual([]);
    const again = await collectLog(sheet.deps, sheet, { ...policy, dryRunAt: Date.now() + 1000 });
    expect(again).toMatchObject({ outcome: 'collected', removed: { objects: 0 }, condemned: { objects: 0 } });
  });
});
