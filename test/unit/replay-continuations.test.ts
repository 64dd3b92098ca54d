import { describe, expect, test } from 'vitest';
import { withScratch } from '../../src/adapters/filesystem/scratch.ts';
import { type ReplayEvent, reportEvent } from '../../src/functions/function-event.ts';
import { type ReplayAnswer, replayFunction } from '../../src/functions/replay-function.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { FoldWatch } from '../../src/snapshot/fold.ts';
import { bufferedEdits, encodeRoot } from '../../src/snapshot/root.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { collectAfterEachGrace } from '../support/gc-scenario.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';

/** The function's time margin, in milliseconds. */
const MARGIN = 60_000;

const SECOND = 1_000;

type Deps = Partial<SheetLog['deps']>;

/** Invokes the replay function once. Each page of one entry takes a second. */
async function invokeOnce(sheet: SheetLog, event: unknown, seconds: number, deps: Deps = {}) {
  let now = 0;
  const events: ReplayEvent[] = [];
  const run = replayFunction({
    ...sheet.deps,
    ...deps,
    now: () => now,
    rangeEntries: 1,
    onProgress: () => {
      now += SECOND;
    },
    withScratch,
    report: (event) => void events.push(event),
  });
  const answer = await run(event, lambdaContext(MARGIN + seconds * SECOND, 'request'));
  return { answer, events };
}

/** Invokes the replay function until an answer has no `next`. */
async function invokeAll(sheet: SheetLog, seconds: number, deps?: Deps): Promise<readonly ReplayAnswer[]> {
  const answers: ReplayAnswer[] = [];
  let event: unknown = { log: sheet.log };
  while (event !== undefined) {
    // Lambda passes JSON.
    const { answer } = await invokeOnce(sheet, JSON.parse(JSON.stringify(event)), seconds, deps);
    answers.push(answer);
    event = 'next' in answer ? answer.next : undefined;
    if (answers.length > 50) throw new Error('the runs do not end');
  }
  return answers;
}

/**
 * Creates a log of three segments, the first archived, with a snapshot after every second edit.
 * Some snapshots have buffered edits.
 */
async function longLog(): Promise<{ sheet: SheetLog; snapshots: readonly Position[] }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(60, 5);
  const snapshots = [await sheet.completed(), await sheet.covered()];
  for (let i = 0; i < 9; i++) {
    await sheet.edit(set(i * 7, 1, `edit ${i}`), set(i * 3, 2, `and ${i}`));
    snapshots.push(i === 4 ? await sheet.covered() : await sheet.completed());
  }
  await sheet.archive();
  return { sheet, snapshots };
}

/** Completes a valid snapshot whose state differs from the fold of its entries. */
async function forge(sheet: SheetLog, by: Position): Promise<Position> {
  const position = await sheet.snapshot();
  const forged = encodeRoot(sheet.deps.platform, { ...(await sheet.root(by)), position });
  await sheet.tables.completeSnapshot(sheet.log, position, { inline: forged.stored });
  await sheet.tables.advanceLastSnapshot(
    sheet.log,
    { position },
    (await sheet.segmentItem(position.segment)).lastSnapshot,
  );
  return position;
}

function whole(sheet: SheetLog) {
  return replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log);
}

describe('a replay in several runs', () => {
  test.each([5, 6, 9, 14])('runs of %d seconds give the answer of a single run', { tags: ['I1'] }, async (seconds) => {
    const { sheet } = await longLog();
    const before = await sheet.contents();
    const { from: _from, entries, ...expected } = await whole(sheet);
    expect(expected.equal).toBe(true);
    const answers = await invokeAll(sheet, seconds);
    expect(answers.length).toBeGreaterThan(1);
    const [last, previous] = answers.toReversed();
    if (previous?.outcome !== 'partial') throw new Error('the run before the last is not partial');
    expect(last).toMatchObject({ ...expected, from: previous.equalUpTo });
    expect(last?.entries).toBeLessThan(entries);
    expect(await sheet.contents()).toEqual(before);
  });

  test('a replay compares snapshots with buffered edits', async () => {
    const { sheet, snapshots } = await longLog();
    const roots = await Promise.all(snapshots.slice(5, 9).map((position) => sheet.root(position)));
    expect(roots.map(({ state }) => bufferedEdits(state) > 0)).toContain(true);
    const passed = (await invokeAll(sheet, 5)).flatMap((answer) => ('next' in answer ? [answer.next.from] : []));
    const waiting = roots.filter(({ state }) => bufferedEdits(state) > 0).map((root) => formatPosition(root.position));
    expect(passed).toEqual(expect.arrayContaining(waiting));
  });

  test('a partial answer has the last equal position and the event that continues the replay', async () => {
    const { sheet, snapshots } = await longLog();
    const [, second] = snapshots;
    const newest = snapshots.at(-1);
    if (second === undefined || newest === undefined) throw new Error('the log has too few snapshots');
    const { answer, events } = await invokeOnce(sheet, { log: sheet.log }, 5);
    expect(answer).toEqual({
      log: sheet.log,
      outcome: 'partial',
      from: null,
      position: newest,
      equalUpTo: second,
      entries: expect.any(Number),
      next: { log: sheet.log, at: formatPosition(newest), from: formatPosition(second) },
    });
    const [event] = events;
    if (event === undefined) throw new Error('nothing was reported');
    expect(reportEvent(event)).toMatchObject({
      level: 'info',
      fields: { equalUpTo: formatPosition(second), from: null },
    });
    expect(reportEvent(event).metrics).toEqual([{ name: 'ReplaysDiffered', unit: 'Count', value: 0 }]);
  });

  test.each([4, 5, 6, 11])(
    'runs of %d seconds find the wrong snapshot that is the base of the others',
    { tags: ['I1'] },
    async (seconds) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      const snapshots: Position[] = [];
      let wrong: Position | undefined;
      for (let i = 0; i < 6; i++) {
        await sheet.edit(set(i, 0, `edit ${i}`), set(i, 1, `and ${i}`));
        const [first] = snapshots;
        if (i === 3 && first !== undefined) {
          wrong = await forge(sheet, first);
          snapshots.push(wrong);
        } else snapshots.push(await sheet.completed());
      }
      const answers = await invokeAll(sheet, seconds);
      expect(answers.slice(0, -1).every(({ outcome }) => outcome === 'partial')).toBe(true);
      expect(answers.at(-1)).toMatchObject({ outcome: 'replayed', equal: false, position: wrong, snapshot: wrong });
    },
  );

  test('a replay with enough time requests no intermediate snapshots', async () => {
    const { sheet } = await longLog();
    const requests: string[] = [];
    const counting = interceptDeps(sheet, (name, effect) => {
      requests.push(name);
      return effect();
    });
    await replay({ ...counting, rangeEntries: 1, scratch: new MemoryChunks() }, sheet.log);
    const alone = requests.splice(0);
    await invokeOnce(sheet, { log: sheet.log }, 900, counting);
    expect(requests.toSorted()).toEqual(alone.toSorted());
  });

  test('a run tries at most sixteen snapshots and folds no entry twice', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 40; i++) {
      await sheet.edit(set(i, 0, `edit ${i}`));
      await sheet.completed();
    }
    let [builds, folded] = [0, 0];
    const watch: FoldWatch = {
      watch: (_use, work) => {
        builds++;
        return work();
      },
      pause: async () => undefined,
    };
    const reducer: Reducer = {
      ...sheet.deps.reducer,
      fold: (draft, entry) => {
        folded++;
        return sheet.deps.reducer.fold(draft, entry);
      },
    };
    const { answer } = await invokeOnce(sheet, { log: sheet.log }, 82, { reducer, watch });
    expect(answer).toMatchObject({ outcome: 'replayed', equal: true, entries: 80 });
    expect(folded).toBe(40);
    // Each snapshot that the replay tries ends a build, and the next build continues from there.
    expect(builds).toBeGreaterThan(8);
    expect(builds).toBeLessThanOrEqual(16);
  });

  test('a run cannot start from dropped snapshots, so its time is up', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    for (let i = 0; i < 4; i++) {
      await sheet.edit(set(i, 0, `edit ${i}`));
      await sheet.completed();
    }
    expect(await invokeOnce(sheet, { log: sheet.log }, 4)).toMatchObject({ answer: { outcome: 'partial' } });
    await collectAfterEachGrace(sheet, 3, { keepSnapshots: 'last' });
    await expect(invokeOnce(sheet, { log: sheet.log }, 4)).rejects.toMatchObject({
      code: 'TIME_UP',
      advice: expect.stringContaining(`--at 0/8' on`),
    });
  });

  test('a run cannot start from snapshots of another version of the reducer', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 3; i++) {
      await sheet.edit(set(i, 0, `edit ${i}`));
      await sheet.completed();
    }
    const reducer = versionedSheet(2);
    await sheet.edit(set(9, 0, 'newer'));
    const newer = await sheet.completed({ reducer });
    await expect(invokeOnce(sheet, { log: sheet.log }, 5, { reducer })).rejects.toMatchObject({ code: 'TIME_UP' });
    expect(await invokeOnce(sheet, { log: sheet.log }, 50, { reducer })).toMatchObject({
      answer: { equal: true, position: newer },
    });
  });

  test('a run skips damaged snapshots', async () => {
    const { sheet, snapshots } = await longLog();
    const { objects } = await sheet.contents();
    const chunks = Object.keys(objects).filter((key) => key.includes('/chunks/'));
    const newest = snapshots.at(-1);
    if (newest === undefined) throw new Error('the log has no snapshots');
    await sheet.flush(newest);
    await sheet.blobs.delete(chunks);
    expect(await invokeOnce(sheet, { log: sheet.log }, 60)).toMatchObject({
      answer: { equal: true, position: newest },
    });
  });

  test('a run that gets no further than its start advises a replay from the same snapshot', async () => {
    const { sheet, snapshots } = await longLog();
    const [first] = snapshots;
    if (first === undefined) throw new Error('the log has no snapshots');
    const event = { log: sheet.log, from: formatPosition(first) };
    await expect(invokeOnce(sheet, event, 1)).rejects.toMatchObject({
      code: 'TIME_UP',
      advice: expect.stringMatching(/--at 2\/\d+ --from 0\/2' on/),
    });
  });
});

describe('a replay from a snapshot', () => {
  test('it folds only the entries after the snapshot, and says so', async () => {
    const { sheet, snapshots } = await longLog();
    const from = snapshots[6];
    const { entries, ...all } = await whole(sheet);
    const part = await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log, { from });
    expect(part).toMatchObject({ ...all, from });
    expect(part.entries).toBeLessThan(entries);
  });

  test('it is refused if it cannot start, or would compare a snapshot with itself', async () => {
    const { sheet, snapshots } = await longLog();
    const newest = snapshots.at(-1);
    if (newest === undefined) throw new Error('the log has no snapshots');
    const after = await sheet.edit(set(0, 0, 'after'));
    const from = (position: Position, at?: Position, deps: Deps = {}) =>
      replay({ ...sheet.deps, ...deps, scratch: new MemoryChunks() }, sheet.log, { from: position, at });
    const refusal = (reason: RegExp) => ({ code: 'USAGE', message: expect.stringMatching(reason) });
    await expect(from({ segment: 0, entry: 1 })).rejects.toMatchObject(refusal(/there is no stored snapshot/));
    await expect(from(newest)).rejects.toMatchObject(refusal(/is not before/));
    await expect(from(newest, after)).rejects.toMatchObject(refusal(/would compare this snapshot with itself/));
    await sheet.completed({ reducer: versionedSheet(2) });
    await expect(from(newest, undefined, { reducer: versionedSheet(2) })).rejects.toMatchObject(
      refusal(/made by reducer spreadsheet 1/),
    );
  });
});
