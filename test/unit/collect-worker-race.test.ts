import { describe, expect, test } from 'vitest';
import type { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { Position } from '../../src/ids/position.ts';
import { chunkPrefix } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import type { CollectOptions } from '../../src/workers/gc/collect.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { dieAt } from '../support/die-at.ts';
import {
  collect,
  contentsOf,
  copyOfBucket,
  depsOn,
  expectWhole,
  GRACE,
  leaveDebris,
  livedLog,
  neededKeys,
  refill,
} from '../support/gc-scenario.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

/** Does something right before the operation with this number; 0 for never. */
function beforeOperation(number: number, act: () => Promise<unknown>, names: string[] = []): Interceptor {
  return async (name, effect) => {
    names.push(name);
    if (names.length === number) await act();
    return effect();
  };
}

/** A build that is about to begin, and what drops the snapshot that it begins from. */
interface Race {
  readonly sheet: SheetLog;
  readonly target: Position;
  readonly drop: () => Promise<unknown>;
  readonly keepSnapshots: CollectOptions['keepSnapshots'];
}

/**
 * A snapshot with buffered edits for leaves that only this snapshot reaches, after it is flushed.
 */
async function waitingSheet(): Promise<SheetLog> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await refill(sheet, 'first');
  await sheet.completed();
  for (const row of [3, 12, 20]) await sheet.edit(set(row, 1, `edit ${row}`));
  return sheet;
}

async function moreEdits(sheet: SheetLog): Promise<void> {
  for (let row = 0; row < 25; row += 4) await sheet.edit(set(row, 2, `more in ${row}`));
}

const RACES: Readonly<Record<string, () => Promise<Race>>> = {
  'its root was replaced': async () => {
    const sheet = await waitingSheet();
    const base = await sheet.completed();
    for (let graces = 0; graces < 3; graces++) {
      sheet.nowMs += GRACE;
      await collect(sheet, { keepSnapshots: 'last' });
    }
    await moreEdits(sheet);
    return { sheet, target: await sheet.snapshot(), drop: () => sheet.flush(base), keepSnapshots: 'last' };
  },
  'its segment was archived': async () => {
    const sheet = await waitingSheet();
    await sheet.completed();
    await sheet.edit(set(9, 1, 'late'));
    const last = await sheet.snapshot();
    const next = await sheet.segment();
    await moreEdits(sheet);
    const drop = async (): Promise<void> => {
      await sheet.complete(last);
      await sheet.flush(last);
      await sheet.complete(next);
      await sheet.archive();
    };
    return { sheet, target: await sheet.snapshot(), drop, keepSnapshots: 'all' };
  },
};

describe.each(Object.entries(RACES))('a build that began from a snapshot which was dropped since %s', (_, begin) => {
  /**
   * Runs it with the snapshot dropped before an operation, and collections before and after the
   * grace period is over.
   */
  async function race(operation: number, graceSeconds?: number): Promise<Race & { readonly operations: number }> {
    const given = await begin();
    const { sheet, target, drop, keepSnapshots } = given;
    const options = { keepSnapshots, ...(graceSeconds !== undefined && { graceSeconds }) };
    const names: string[] = [];
    const interceptor = beforeOperation(
      operation,
      async () => {
        await drop();
        await collect(sheet, options);
        sheet.nowMs += GRACE - 1;
        await collect(sheet, options);
      },
      names,
    );
    await sheet.complete(target, { ...interceptDeps(sheet, interceptor), rangeEntries: 2, batchBytes: 1 });
    return { ...given, operations: names.length };
  }

  test('its snapshot is complete and readable, whenever the build ended', { tags: ['I4'] }, async () => {
    const { operations } = await race(0);
    expect(operations).toBeGreaterThan(12);
    for (let operation = 1; operation <= operations; operation++) {
      const { sheet, target, keepSnapshots } = await race(operation);
      await expectWhole(sheet, keepSnapshots);
      expect(await sheet.ref(target), `operation ${operation}`).toBeDefined();
      for (let graces = 0; graces < 4; graces++) {
        sheet.nowMs += GRACE;
        await collect(sheet, { keepSnapshots });
      }
      await expectWhole(sheet, keepSnapshots);
      const needed = await neededKeys(sheet, keepSnapshots);
      expect(await sheet.keys(chunkPrefix(sheet.log))).toEqual(needed.filter((key) => key.includes('/chunks/')));
    }
  });

  test('it may be lost if there is no grace period', async () => {
    const { operations } = await race(0);
    let lost = 0;
    for (let operation = 1; operation <= operations; operation++) {
      const raced = await race(operation, 0).catch(() => undefined);
      const keepSnapshots = raced?.keepSnapshots;
      const problems = raced && (await verify({ ...raced.sheet.deps, keepSnapshots }, raced.sheet.log)).problems;
      if (problems?.length !== 0) lost++;
    }
    expect(lost).toBeGreaterThan(3);
  });
});

test('a build whose runs take longer than a grace period keeps its chunks', { tags: ['I4'] }, async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await refill(sheet, 'first', 8);
  for (let row = 0; row < 7; row++) await sheet.edit(set(row, 1, `edit ${row}`));
  const target = await sheet.snapshot();
  const outcomes: string[] = [];
  for (let continuation = 0; outcomes.at(-1) !== 'built'; continuation++) {
    const job = { kind: 'snapshot', log: sheet.log, position: target, continuation } as const;
    const { outcome } = await completeSnapshot({ ...sheet.deps, rangeEntries: 2, deadline: 0 }, job);
    outcomes.push(outcome);
    sheet.nowMs += 0.9 * GRACE;
    await collect(sheet);
  }
  expect(outcomes.length).toBeGreaterThan(4);
  await expectWhole(sheet);
});

test('a concurrent build writes the objects that are being removed, and keeps them', async () => {
  const options = { keepSnapshots: 'last' } as const;
  const due = async (): Promise<{ readonly sheet: SheetLog; readonly target: Position }> => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await refill(sheet, 'first', 8);
    await sheet.completed();
    await refill(sheet, 'second', 8);
    await sheet.completed();
    for (let graces = 0; graces < 2; graces++) {
      sheet.nowMs += GRACE;
      await collect(sheet, options);
    }
    sheet.nowMs += GRACE;
    // The same sheet as at first, so the same chunks.
    await refill(sheet, 'first', 8);
    return { sheet, target: await sheet.snapshot() };
  };
  const names: string[] = [];
  const alone = await due();
  const { removed } = await collect(alone.sheet, options, interceptDeps(alone.sheet, beforeOperation(0, due, names)));
  expect(removed.objects).toBeGreaterThan(4);
  const kept = new Set<number>();
  for (let operation = 1; operation <= names.length; operation++) {
    const { sheet, target } = await due();
    const interceptor = beforeOperation(operation, () => sheet.complete(target));
    const result = await collect(sheet, options, interceptDeps(sheet, interceptor));
    kept.add(result.removed.objects);
    await expectWhole(sheet, 'last');
  }
  expect(kept).toContain(0);
  expect(kept).toContain(removed.objects);
});

/** A bucket as it is before a collection: one that condemns, and one that removes. */
const STAGES = [
  ['condemns', 1],
  ['removes', 2],
] as const;

describe.each(STAGES)('a collection that %s', (_, graces) => {
  async function dueLog(): Promise<{ readonly sheet: SheetLog; readonly bucket: () => Promise<MemoryBlobStore> }> {
    const sheet = await livedLog();
    await leaveDebris(sheet);
    for (let i = 1; i < graces; i++) {
      sheet.nowMs += GRACE;
      await collect(sheet);
    }
    sheet.nowMs += GRACE;
    return { sheet, bucket: () => copyOfBucket(sheet.blobs, () => sheet.nowMs) };
  }

  /** The bucket's content after an undisturbed collection, and the operations of the collection. */
  async function undisturbed({ sheet, bucket }: Awaited<ReturnType<typeof dueLog>>) {
    const blobs = await bucket();
    const names: string[] = [];
    const interceptor = beforeOperation(0, () => Promise.resolve(), names);
    const { removed, condemned } = await collect(sheet, {}, depsOn(sheet, blobs, interceptor));
    expect(graces === 1 ? condemned.objects : removed.objects).toBeGreaterThan(3);
    return { names, contents: await contentsOf(blobs) };
  }

  test('it has the same result when it runs again, wherever the one before died', { tags: ['I5'] }, async () => {
    const given = await dueLog();
    const { names, contents } = await undisturbed(given);
    const { sheet, bucket } = given;
    const last = graces === 1 ? 'abort' : 'deleteUnchanged';
    expect(names).toEqual(expect.arrayContaining(['get', 'put', 'list', 'segments', 'items', last]));
    const writes = new Set(['put', 'abort', 'deleteUnchanged']);
    for (const [i, name] of names.entries()) {
      // After a read nothing happens before the next operation begins.
      for (const when of writes.has(name) ? (['before', 'after'] as const) : (['before'] as const)) {
        const blobs = await bucket();
        await dieAt(sheet, { operation: i + 1, when }, (_ports, interceptor) =>
          collect(sheet, {}, depsOn(sheet, blobs, interceptor)),
        );
        await collect(sheet, {}, depsOn(sheet, blobs));
        expect(await contentsOf(blobs), `died ${when} ${name} (${i + 1})`).toEqual(contents);
      }
    }
  });

  test('it has the same result beside another collection', async () => {
    const given = await dueLog();
    const { names, contents } = await undisturbed(given);
    const { sheet, bucket } = given;
    for (let operation = 1; operation <= names.length; operation++) {
      const blobs = await bucket();
      const interceptor = beforeOperation(operation, () => collect(sheet, {}, depsOn(sheet, blobs)));
      await collect(sheet, {}, depsOn(sheet, blobs, interceptor));
      expect(await contentsOf(blobs), `operation ${operation}`).toEqual(contents);
    }
    const blobs = await bucket();
    await Promise.all([1, 2, 3].map(() => collect(sheet, {}, depsOn(sheet, blobs))));
    expect(await contentsOf(blobs)).toEqual(contents);
  });
});
