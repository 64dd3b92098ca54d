import { describe, expect, test } from 'vitest';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { bufferedEdits } from '../../src/snapshot/root.ts';
import type { Draft } from '../../src/state/draft.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { isStateFlushed } from '../../src/state/state.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { chunkPrefix, condemnedKey } from '../../src/store/keys.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { requestCollection } from '../../src/workers/gc/collection-record.ts';
import { decodeJob, type Job } from '../../src/workers/jobs/job.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import {
  collectedContents,
  copyOfBucket,
  depsOn,
  GRACE,
  GRACE_SECONDS,
  logWithDebris,
} from '../support/gc-scenario.ts';
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
      const map = draft.map(name, 'number', { buffers: true });
      for (const cell of body)
        if (Array.isArray(cell) && typeof cell[0] === 'number') map.put(cell[0], cell[2] ?? null);
    }
  },
};

describe('a job whose time is up', () => {
  test('a flush job flushes one map in each run, and ends with the same root as a job without a deadline', async () => {
    const settled = async (deadline: number | undefined) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      const deps = { reducer: several };
      await sheet.fill(300, 1);
      await sheet.complete(await sheet.snapshot(), deps);
      for (let i = 0; i < 3; i++) await sheet.edit(set(7 + i * 91, 0, `edit ${i}`));
      const position = await sheet.snapshot();
      await sheet.complete(position, deps);
      expect(bufferedEdits((await sheet.root(position)).state)).toBe(3 * MAPS.length);
      let runs = 0;
      const waiting: Job[] = [{ kind: 'flush', log: sheet.log, position }];
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        const { result, sent } = await ran(sheet, job, { ...deps, deadline });
        expect(result.outcome).toBe(sent.length === 0 ? (runs === MAPS.length ? 'empty' : 'flushed') : 'flushing');
        waiting.push(...sent);
        runs++;
      }
      const root = await sheet.root(position);
      expect(isStateFlushed(root.state)).toBe(true);
      return { runs, stateHash: root.stateHash };
    };
    const whole = await settled(undefined);
    const cut = await settled(0);
    expect([whole.runs, cut.runs]).toEqual([1, MAPS.length]);
    expect(cut.stateHash).toBe(whole.stateHash);
  });

  describe('a collection in several runs', () => {
    const policyOf = () => ({ ...DEFAULT_POLICY, graceSeconds: GRACE_SECONDS, keepSnapshots: 'last' as const });

    /**
     * Collects a log in another bucket, in as many runs as the deadline requires; each is
     * delivered so many times.
     */
    async function collected(
      sheet: SheetLog,
      bucket: BlobStore,
      { deadline, times = 1 }: { readonly deadline: number | undefined; readonly times?: number },
    ): Promise<{ readonly runs: number; readonly done: readonly Job[] }> {
      const done: Job[] = [];
      let runs = 0;
      const waiting: Job[] = [{ kind: 'collect', log: sheet.log }];
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        runs++;
        done.push(job);
        for (let i = 0; i < times; i++) {
          const deps = {
            ...depsOn(sheet, bucket),
            now: ticking().now,
            deadline,
            atLeast: { objects: 1, marks: 10_000 },
            policyOf,
          };
          const { result, sent } = await ran(sheet, job, deps);
          const outcomes = i === 0 || runs === 1 ? ['collecting', 'collected'] : ['collecting', 'passed'];
          expect(outcomes).toContain(result.outcome);
          expect(sent.map(({ kind }) => kind)).toEqual(result.outcome === 'collecting' ? ['collect'] : []);
          if (i === times - 1) waiting.push(...sent);
        }
      }
      return { runs, done };
    }

    test('it leaves the same objects as one without a deadline, wherever its runs end', { tags: ['I4'] }, async () => {
      const { sheet } = await logWithDebris();
      let cuts = 0;
      for (let deadline = 0, most = 2; most > 1; deadline += 1 + Math.floor(deadline / 4)) {
        const [whole, cut] = [await copyOf(sheet), await copyOf(sheet)];
        most = 0;
        for (let graces = 1; graces <= 3; graces++) {
          whole.clock.ms += GRACE;
          cut.clock.ms += GRACE;
          await collected(sheet, whole.bucket, { deadline: undefined });
          const { runs } = await collected(sheet, cut.bucket, { deadline });
          most = Math.max(most, runs);
          expect(await collectedContents(cut.bucket, sheet.log)).toEqual(
            await collectedContents(whole.bucket, sheet.log),
          );
        }
        if (most > 1) cuts++;
      }
      expect(cuts).toBeGreaterThan(10);
    });

    test('it leaves the same objects if each message is delivered twice, or again long after', {
      tags: ['I4'],
    }, async () => {
      const { sheet } = await logWithDebris();
      const [whole, twice] = [await copyOf(sheet), await copyOf(sheet)];
      const all: Job[] = [];
      for (let graces = 1; graces <= 3; graces++) {
        whole.clock.ms += GRACE;
        twice.clock.ms += GRACE;
        await collected(sheet, whole.bucket, { deadline: undefined });
        all.push(...(await collected(sheet, twice.bucket, { deadline: 0, times: 2 })).done);
        for (const job of all.filter((each) => 'continuation' in each && each.continuation !== undefined)) {
          const { result, sent } = await ran(sheet, job, { ...depsOn(sheet, twice.bucket), policyOf });
          expect([result.outcome, sent]).toEqual(['passed', []]);
        }
        expect(await collectedContents(twice.bucket, sheet.log)).toEqual(
          await collectedContents(whole.bucket, sheet.log),
        );
      }
      expect(all.length).toBeGreaterThan(30);
    });

    test('it requests another collection if one was requested between two runs', async () => {
      const { sheet } = await logWithDebris();
      for (const asks of [false, true]) {
        const { bucket, clock } = await copyOf(sheet);
        for (let graces = 1; graces <= 5; graces++) {
          clock.ms += GRACE;
          await collected(sheet, bucket, { deadline: undefined });
        }
        expect(await bucket.get(condemnedKey(sheet.log))).toBeUndefined();
        const deps = {
          ...depsOn(sheet, bucket),
          now: ticking().now,
          deadline: 0,
          atLeast: { objects: 1, marks: 10_000 },
          policyOf,
        };
        const { sent } = await ran(sheet, { kind: 'collect', log: sheet.log }, deps);
        expect(sent).toEqual([{ kind: 'collect', log: sheet.log, continuation: 1 }]);
        if (asks) await requestCollection(bucket, sheet.log);
        const { result } = await ran(
          sheet,
          { kind: 'collect', log: sheet.log, continuation: 1 },
          { ...deps, deadline: undefined },
        );
        expect(result.outcome).toBe('collected');
        expect((await bucket.get(condemnedKey(sheet.log))) !== undefined).toBe(asks);
      }
    });

    test('it is refused if one run is too short to read the kept snapshots', async () => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      await sheet.fill(400, 1);
      await sheet.completed();
      const before = await sheet.keys(chunkPrefix(sheet.log));
      expect(before.length).toBeGreaterThan(10);
      const { result, sent } = await ran(
        sheet,
        { kind: 'collect', log: sheet.log },
        { now: () => 1, deadline: 0, policyOf, atLeast: { objects: 1, marks: 10 } },
      );
      expect(result).toMatchObject({ outcome: 'refused', error: { code: 'TIME_UP', log: sheet.log } });
      expect(sent).toEqual([]);
      expect(await sheet.keys(chunkPrefix(sheet.log))).toEqual(before);
      const collect: Job = { kind: 'collect', log: sheet.log };
      expect((await ran(sheet, collect, { policyOf })).result.outcome).toBe('collected');
    });
  });
});

/** A copy of a log's bucket with a separate clock. */
async function copyOf(sheet: SheetLog): Promise<{ readonly bucket: BlobStore; readonly clock: { ms: number } }> {
  const clock = { ms: sheet.nowMs };
  return { bucket: await copyOfBucket(sheet.blobs, () => clock.ms), clock };
}
