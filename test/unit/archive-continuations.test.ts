import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { openArchive } from '../../src/archive/reader.ts';
import { writeArchive } from '../../src/archive/writer.ts';
import { toHex } from '../../src/codec/bytes.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { entryPlace } from '../../src/log/item-codec.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { archiveKey, archivePrefix } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import {
  type ArchiveJob,
  type ArchivePart,
  decodeJob,
  type Job,
  MAX_ARCHIVE_PARTS,
} from '../../src/workers/jobs/job.ts';
import { archiveSegment } from '../../src/workers/retention/archive-segment.ts';
import { allItems } from '../support/archives.ts';
import { deathsOf, dieDuring } from '../support/die-at.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';

/** One frame for each entry. One run joins up to 1,000 parts, even without time. */
const FRAMES = { bytes: 1, atLeast: 1000 };
/** Each run writes one frame. */
const NO_TIME = { frames: FRAMES, deadline: 0 };

/** Creates a covered segment with two snapshots. Its tables return two entries in a page. */
async function coveredSheet(): Promise<{ sheet: SheetLog; older: Position; last: Position }> {
  const sheet = await SheetLog.create(undefined, new MemoryLogStore({ pageItems: 2 }));
  await sheet.edit(set(0, 0, 'first'));
  const older = await sheet.snapshot();
  await sheet.edit(set(1, 0, 'second'));
  const last = await sheet.completed();
  for (let i = 0; i < 4; i++) await sheet.edit(set(i, 1, `edit ${i}`));
  await sheet.covered();
  return { sheet, older, last };
}

interface Run {
  readonly result: JobResult;
  readonly next: Job | undefined;
}

async function runOnce(sheet: SheetLog, job: Job, deps: Partial<JobDeps> = NO_TIME): Promise<Run> {
  const sent: Job[] = [];
  const queue = { send: async ({ body }: { readonly body: string }) => void sent.push(decodeJob(body)) };
  const result = await runJob({ ...sheet.deps, queue, ...deps }, job);
  return { result, next: sent.find(({ kind }) => kind === 'archive') };
}

function first(sheet: SheetLog): ArchiveJob {
  return { kind: 'archive', log: sheet.log, segment: 0 };
}

/** Runs a job and its continuations. @returns the number of runs */
async function runAll(sheet: SheetLog, job: Job | undefined, deps: Partial<JobDeps> = NO_TIME): Promise<number> {
  let runs = 0;
  for (let next = job; next !== undefined; runs++) {
    const done = await runOnce(sheet, next, deps);
    expect(done.result.outcome).toBe(done.next === undefined ? 'archived' : 'archiving');
    next = done.next;
  }
  return runs;
}

/** Runs an archive job several times. @returns its next continuation */
async function begun(sheet: SheetLog, runs: number): Promise<ArchiveJob> {
  let job: Job = first(sheet);
  for (let i = 0; i < runs; i++) {
    const { next } = await runOnce(sheet, job);
    if (next === undefined) throw new Error('the job has no continuation');
    job = next;
  }
  if (job.kind !== 'archive') throw new Error('another job follows');
  return job;
}

async function archiveBytes(sheet: SheetLog): Promise<Uint8Array | undefined> {
  return sheet.blobs.get((await sheet.segmentItem()).archive?.key ?? '');
}

async function archivedItems(sheet: SheetLog): Promise<Item[]> {
  const archive = await openArchive(sheet.deps, await sheet.segmentItem());
  return allItems(archive.items(0, archive.end));
}

/** Expects that the archive equals the table and is the only object of the segment. */
async function expectArchived(sheet: SheetLog, where?: string): Promise<void> {
  expect(await archivedItems(sheet), where).toEqual(await sheet.items());
  expect(await sheet.keys(archivePrefix(sheet.log)), where).toEqual([(await sheet.segmentItem()).archive?.key]);
  expect((await verify(sheet.deps, sheet.log)).problems, where).toEqual([]);
}

/** Writes parts of one entry each, as `count` runs would. */
async function partsOfOne(sheet: SheetLog, count: number): Promise<ArchivePart[]> {
  const of = { log: sheet.log, segment: 0, endSegment: 'EndSegment' };
  const parts: ArchivePart[] = [];
  for (const [from, item] of (await sheet.items()).slice(0, count).entries()) {
    async function* page() {
      yield [item];
    }
    const upload = from.toString(16).padStart(32, '0');
    let hash = '';
    async function* stream() {
      const options = { from, frameBytes: 1, shouldStop: () => true };
      hash = toHex((yield* writeArchive(sheet.deps.platform, of, page(), options)).hash);
    }
    await sheet.blobs.putStream(archiveKey(sheet.log, 0, upload), stream());
    parts.push({ upload, hash, to: from + 1 });
  }
  return parts;
}

async function replaceRoot(sheet: SheetLog, position: Position): Promise<void> {
  const from = await sheet.ref(position);
  if (from === undefined || 'key' in from) throw new Error('no inline root');
  const to = { inline: Uint8Array.of(...from.inline, 0) };
  expect(await sheet.tables.replaceRoot(sheet.log, position, from, to)).toBe(true);
}

describe('an archive in several runs', () => {
  test('it equals the archive of one run byte for byte, wherever the runs end', { tags: ['I3'] }, async () => {
    const { sheet: whole } = await coveredSheet();
    await whole.archive(0, { frames: FRAMES });
    const expected = await archiveBytes(whole);
    const counts = new Set<number>();
    for (let deadline = 0; deadline < 40; deadline++) {
      const { sheet } = await coveredSheet();
      // The clock ticks at each call and starts at 0 in each run.
      let looks = 0;
      let runs = 0;
      for (let job: Job | undefined = first(sheet); job !== undefined; runs++) {
        looks = 0;
        job = (await runOnce(sheet, job, { frames: FRAMES, deadline, now: () => looks++ })).next;
      }
      expect(await archiveBytes(sheet)).toEqual(expected);
      await expectArchived(sheet);
      counts.add(runs);
    }
    expect(counts.size).toBeGreaterThan(3);
    expect(counts).toContain(1);
  });

  test('each run writes at least one frame, and the message names the parts', async () => {
    const { sheet } = await coveredSheet();
    const job = await begun(sheet, 3);
    expect(job).toMatchObject({ continuation: 3, parts: [{ to: 1 }, { to: 2 }, { to: 3 }] });
    const keys = job.parts?.map(({ upload }) => archiveKey(sheet.log, 0, upload)).sort();
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual(keys);
    expect(await runAll(sheet, job)).toBe((await sheet.items()).length - 3 + 1);
    await expectArchived(sheet);
  });

  test('a run counts only the entries of a part that were compared with the table', { tags: ['I3'] }, async () => {
    const { sheet } = await coveredSheet();
    let now = 0;
    const deps = interceptDeps(sheet, async (name, effect) => {
      // When the time is up, the part is written but not compared.
      if (name === 'getRange') now = 1000;
      return effect();
    });
    const { result, next } = await runOnce(sheet, first(sheet), {
      ...deps,
      frames: FRAMES,
      deadline: 1000,
      now: () => now,
    });
    expect(result).toMatchObject({ outcome: 'archiving', reached: 2 });
    expect(next).toMatchObject({ parts: [{ to: 2 }] });
    await runAll(sheet, next);
    await expectArchived(sheet);
  });

  test('a continuation needs no deadline', async () => {
    const { sheet } = await coveredSheet();
    expect(await runAll(sheet, await begun(sheet, 3), { frames: FRAMES })).toBe(1);
    await expectArchived(sheet);
  });

  test('the archive is written and its parts are collected, wherever a run died', async () => {
    const { sheet: other } = await coveredSheet();
    const entries = (await other.items()).length;
    for (const runs of [1, entries]) {
      const { sheet: reference } = await coveredSheet();
      const work = (job: ArchiveJob) => (deps: SheetLog['deps']) => archiveSegment({ ...deps, ...NO_TIME }, job);
      const deaths = await deathsOf(reference, work(await begun(reference, runs)));
      expect(deaths.some(({ name }) => name === (runs === entries ? 'setArchive' : 'finishUpload'))).toBe(true);
      for (const death of deaths) {
        const { sheet } = await coveredSheet();
        const job = await begun(sheet, runs);
        await dieDuring(sheet, death, work(job));
        const where = `died ${death.when} ${death.name} (${death.operation}) in run ${runs}`;
        await runOnce(sheet, job, { frames: FRAMES });
        await collectLog(sheet.deps, sheet, { graceSeconds: 0, keepSnapshots: 'all' });
        await expectArchived(sheet, where);
      }
    }
  });

  test('there is one archive, although every message is delivered twice and old ones come late', async () => {
    const { sheet } = await coveredSheet();
    const done: Job[] = [];
    const waiting: Job[] = [first(sheet)];
    for (let job = waiting.shift(); job !== undefined && done.length < 1000; job = waiting.shift()) {
      const duplicates = [await runOnce(sheet, job), await runOnce(sheet, job)];
      for (const { next } of duplicates.slice(done.length < 3 ? 0 : 1)) if (next !== undefined) waiting.push(next);
      done.push(job);
    }
    const archive = (await sheet.segmentItem()).archive?.key;
    for (const job of done)
      expect((await runOnce(sheet, job)).result).toMatchObject({ outcome: 'present', key: archive });
    await collectLog(sheet.deps, sheet, { graceSeconds: 0, keepSnapshots: 'all' });
    await expectArchived(sheet);
  });

  test('it survives a collection between runs within the grace period, and is written again after it', async () => {
    for (const graceSeconds of [DEFAULT_POLICY.graceSeconds, 0]) {
      const { sheet } = await coveredSheet();
      const job = await begun(sheet, 4);
      const before = await sheet.keys(archivePrefix(sheet.log));
      sheet.nowMs += 3600 * 1000;
      for (let i = 0; i < 2; i++) await collectLog(sheet.deps, sheet, { graceSeconds, keepSnapshots: 'all' });
      expect(await sheet.keys(archivePrefix(sheet.log))).toEqual(graceSeconds === 0 ? [] : before);
      const { next } = await runOnce(sheet, job);
      expect(next).toMatchObject({ continuation: 5, parts: { length: graceSeconds === 0 ? 1 : 5 } });
      await runAll(sheet, next);
      await expectArchived(sheet);
    }
  });
});

describe('a part is written again', () => {
  test.each<[string, number, (sheet: SheetLog, job: ArchiveJob, key: string) => Promise<unknown>]>([
    ['is gone', 2, (sheet, _, key) => sheet.blobs.delete([key])],
    ['is another object', 2, (sheet, _, key) => sheet.blobs.put(key, Uint8Array.of(1))],
    [
      'is damaged',
      2,
      async (sheet, _, key) => {
        const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
        bytes[20] = (bytes[20] ?? 0) ^ 1;
        await sheet.blobs.put(key, bytes);
      },
    ],
    [
      'and each later part differ from the table in the last entry',
      2,
      async (sheet) => {
        for (const item of await sheet.items()) {
          if (entryPlace(item).position.entry >= 2)
            await sheet.tables.putItems([{ ...item, I: { B: new Uint8Array(12) } }]);
        }
      },
    ],
    ['has another root at Last Snapshot', 4, (sheet) => replaceRoot(sheet, { segment: 0, entry: 4 })],
  ])('it is written again if it %s', { tags: ['I3'] }, async (_, index, harm) => {
    const { sheet, last } = await coveredSheet();
    expect(last.entry).toBe(4);
    const job = await begun(sheet, 6);
    const part = job.parts?.[index];
    await harm(sheet, job, archiveKey(sheet.log, 0, part?.upload ?? ''));
    const { next } = await runOnce(sheet, job);
    if (next?.kind !== 'archive') throw new Error('no continuation');
    // The earlier parts stay.
    expect(next.parts).toHaveLength(index + 1);
    expect(next.parts?.slice(0, index)).toEqual(job.parts?.slice(0, index));
    expect(next.parts?.[index]?.upload).not.toBe(part?.upload);
    expect(await sheet.keys(archivePrefix(sheet.log))).toHaveLength(index + 1);
    await runAll(sheet, next);
    expect(await archivedItems(sheet)).toEqual(await sheet.items());
  });

  test('it is written again if it holds an older Last Snapshot without the new root', async () => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    await sheet.fill(5, 2);
    const late = await sheet.snapshot();
    await sheet.covered();
    const job = await begun(sheet, (await sheet.items()).length);
    await sheet.complete(late);
    expect(await sheet.lastSnapshot()).toBe(late.entry);
    await runAll(sheet, job);
    await expectArchived(sheet);
  });

  test('it is written again if the root changes while the parts are joined', async () => {
    const { sheet, last } = await coveredSheet();
    const job = await begun(sheet, (await sheet.items()).length);
    let replaced = false;
    const deps = interceptDeps(sheet, async (name, effect) => {
      if (name === 'setArchive' && !replaced) await replaceRoot(sheet, last);
      replaced ||= name === 'setArchive';
      return effect();
    });
    const { result, next } = await runOnce(sheet, job, { ...deps, ...NO_TIME });
    expect(result).toMatchObject({ outcome: 'archiving', reached: last.entry + 1 });
    await runAll(sheet, next);
    expect(await archivedItems(sheet)).toEqual(await sheet.items());
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([(await sheet.segmentItem()).archive?.key]);
  });

  test('it is written again after one failure if a frame is damaged that only the join reads', async () => {
    const { sheet } = await coveredSheet();
    // The part has many frames. Before the join only the last frame is read.
    let now = 0;
    const deps = interceptDeps(sheet, async (name, effect) => {
      if (name === 'finishUpload') now = 1000;
      return effect();
    });
    const shortly = { ...deps, frames: FRAMES, deadline: 1000, now: () => now };
    const { next } = await runOnce(sheet, first(sheet), shortly);
    if (next?.kind !== 'archive') throw new Error('no continuation');
    expect(next.parts).toMatchObject([{ to: 2 }]);
    const key = archiveKey(sheet.log, 0, next.parts?.[0]?.upload ?? '');
    const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
    bytes[20] = (bytes[20] ?? 0) ^ 1;
    await sheet.blobs.put(key, bytes);
    await expect(runOnce(sheet, next, { frames: FRAMES })).rejects.toMatchObject({ code: 'SEGMENT_STATE', segment: 0 });
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([]);
    expect(await runAll(sheet, next, { frames: FRAMES })).toBe(1);
    await expectArchived(sheet);
  });
});

describe('a refused archive job leaves nothing behind', () => {
  test('the job is refused if one run is too short to join the parts', async () => {
    const { sheet } = await coveredSheet();
    const job = await begun(sheet, (await sheet.items()).length);
    const { result, next } = await runOnce(sheet, job, { ...NO_TIME, frames: { bytes: 1, atLeast: 3 } });
    expect(result).toMatchObject({ outcome: 'refused', error: { code: 'TIME_UP', log: sheet.log, segment: 0 } });
    expect(next).toBeUndefined();
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([]);
    await sheet.archive();
    await expectArchived(sheet);
  });

  test('the job is refused if its message has the largest number of parts', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < MAX_ARCHIVE_PARTS; i++) await sheet.edit(set(0, 0, ''));
    await sheet.completed();
    await sheet.covered();
    const job = { ...first(sheet), continuation: MAX_ARCHIVE_PARTS, parts: await partsOfOne(sheet, MAX_ARCHIVE_PARTS) };
    expect((await runOnce(sheet, job)).result).toMatchObject({ outcome: 'refused', error: { code: 'TIME_UP' } });
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([]);
  });
});

test('an archive of one run makes no more requests with a deadline than without', async () => {
  const requests = async (deadline: number | undefined): Promise<string[]> => {
    const { sheet } = await coveredSheet();
    const names: string[] = [];
    const deps = interceptDeps(sheet, (name, effect) => {
      names.push(name);
      return effect();
    });
    await sheet.archive(0, { ...deps, deadline });
    return names;
  };
  expect(await requests(Number.MAX_SAFE_INTEGER)).toEqual(await requests(undefined));
});
