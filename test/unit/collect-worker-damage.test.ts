import { describe, expect, test } from 'vitest';
import { LogNotFoundError, ObjectInvalidError } from '../../src/errors.ts';
import { chunkPrefix, collectedKey, condemnedKey, logPrefix, rootKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type CollectDeps, type CollectResult, collectLog } from '../../src/workers/gc/collect.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import {
  collect,
  collectAfterEachGrace,
  copyOfBucket,
  depsOn,
  expectWhole,
  GRACE,
  GRACE_SECONDS,
  LARGE_VALUES,
  logWithDebris,
  neededKeys,
  objectsIn,
  refill,
} from '../support/gc-scenario.ts';
import { newLogId } from '../support/logs.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

async function attempt(sheet: SheetLog, deps: Partial<CollectDeps> = {}): Promise<CollectResult> {
  return collectLog({ ...sheet.deps, ...deps }, sheet, { graceSeconds: GRACE_SECONDS, keepSnapshots: 'all' });
}

/** All objects but the note of how far collections have come, which contains the time. */
async function otherObjects(sheet: SheetLog) {
  return (await objectsIn(sheet.blobs)).filter(({ key }) => key !== collectedKey(sheet.log));
}

test('a dropped snapshot is removed immediately if there is no grace period', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  for (const text of ['a', 'b']) {
    await refill(sheet, text);
    await sheet.completed();
  }
  const { removed } = await collect(sheet, { graceSeconds: 0, keepSnapshots: 'last' });
  expect(removed.objects).toBeGreaterThan(0);
  expect(await sheet.keys()).toEqual(await neededKeys(sheet, 'last'));
});

test('a later policy that keeps more does not need snapshots that an earlier one dropped', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  for (const text of ['a', 'b', 'c']) {
    await refill(sheet, text);
    await sheet.completed();
  }
  const before = (await objectsIn(sheet.blobs)).length;
  await collectAfterEachGrace(sheet, 3, { keepSnapshots: 'last' });
  expect((await objectsIn(sheet.blobs)).length).toBeLessThan(before);
  expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  await refill(sheet, 'd');
  await sheet.completed();
  await refill(sheet, 'e');
  await sheet.completed();
  await collectAfterEachGrace(sheet, 3, { keepSnapshots: 'all' });
  const verified = await verify(sheet.deps, sheet.log);
  expect(verified.problems).toEqual([]);
  // The one that the first policy kept last, and those that came after it.
  expect(verified.snapshots).toBe(3);
  // The kept snapshots are needed as before.
  const ofLast = new Set(await neededKeys(sheet, 'last'));
  const chunks = (await sheet.keys()).filter((key) => key.startsWith(chunkPrefix(sheet.log)) && !ofLast.has(key));
  expect(chunks.length).toBeGreaterThan(0);
  await sheet.blobs.delete(chunks);
  expect(await attempt(sheet)).toMatchObject({ outcome: 'refused', error: { code: 'CHUNK_MISSING' } });
});

test('a later policy does not need a dropped snapshot either if the collection that removes it is unfinished', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  const snapshots = async (...texts: string[]): Promise<void> => {
    for (const text of texts) {
      await refill(sheet, text);
      await sheet.completed();
    }
  };
  const options = { graceSeconds: 0, keepSnapshots: 'last' } as const;
  await snapshots('a', 'b', 'c', 'd');
  await collect(sheet, options);
  // The next collection forgets the dropped snapshots of the archived segment and drops fewer.
  await sheet.covered();
  await sheet.archive();
  await snapshots('e', 'f');
  const atLeast = { objects: (await sheet.keys(logPrefix(sheet.log))).length - 1, marks: 10_000 };
  const result = await collectLog({ ...sheet.deps, atLeast, now: () => 1, deadline: 0 }, sheet, options);
  expect(result).toMatchObject({ outcome: 'collecting', continuation: 1 });
  expect('removed' in result && result.removed.objects).toBeGreaterThan(0);
  expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  expect(await attempt(sheet)).toMatchObject({ outcome: 'collected' });
});

describe('a kept object that cannot be read', () => {
  /** A log with objects that a collection would remove if nothing were damaged. */
  async function dueLog(): Promise<SheetLog> {
    const { sheet } = await logWithDebris();
    await collectAfterEachGrace(sheet, 1);
    sheet.nowMs += GRACE;
    return sheet;
  }

  async function expectRefused(sheet: SheetLog, code: string): Promise<void> {
    const before = await otherObjects(sheet);
    const result = await attempt(sheet);
    expect(result).toMatchObject({ outcome: 'refused', error: { code, log: sheet.log } });
    expect(await otherObjects(sheet)).toEqual(before);
  }

  test('if a node is damaged, nothing is removed', { tags: ['I4'] }, async () => {
    const sheet = await dueLog();
    const needed = (await neededKeys(sheet)).filter((key) => key.startsWith(chunkPrefix(sheet.log)));
    let values = 0;
    for (const key of needed) {
      const damaged = await copyOfBucket(sheet.blobs, () => sheet.nowMs);
      const stored = (await damaged.get(key)) ?? new Uint8Array();
      await damaged.delete([key]);
      const keys = (await objectsIn(damaged)).length;
      const result = await attempt(sheet, depsOn(sheet, damaged));
      if (result.outcome === 'collected') values++;
      else {
        expect(result).toMatchObject({ outcome: 'refused', error: { code: 'CHUNK_MISSING', log: sheet.log } });
        await damaged.put(key, stored.slice(0, -1));
        expect(await attempt(sheet, depsOn(sheet, damaged))).toMatchObject({ outcome: 'refused' });
        expect(await objectsIn(damaged)).toHaveLength(keys + 1);
      }
    }
    // Only values reach nothing, and so are not read.
    expect(values).toBe(LARGE_VALUES);
    expect(needed.length).toBeGreaterThan(LARGE_VALUES + 8);
  });

  test('a collection is refused if a root is damaged, inline or in an object', async () => {
    const sheet = await dueLog();
    const at = { segment: 1, entry: 0 };
    const elsewhere = { key: rootKey(sheet.log, at, '0'.repeat(64)) };
    const from = await sheet.ref(at);
    if (from === undefined) throw new Error('no root');
    await sheet.tables.replaceRoot(sheet.log, at, from, elsewhere);
    await expectRefused(sheet, 'CHUNK_MISSING');
    await sheet.tables.replaceRoot(sheet.log, at, elsewhere, { inline: DAMAGED_ROOT });
    await expectRefused(sheet, 'CHUNK_CORRUPT');
  });

  test('a collection is refused if the entry of Last Snapshot or its archive is missing', async () => {
    const sheet = await dueLog();
    const newest = (await sheet.lastSnapshot(1)) ?? 0;
    await refill(sheet, 'later');
    await sheet.tables.deleteEntries(sheet.log, 1, [newest]);
    await expectRefused(sheet, 'ROOT_INVALID');
    const archive = (await sheet.segmentItem()).archive?.key ?? '';
    await sheet.tables.deleteEntries(sheet.log, 0, [(await sheet.lastSnapshot()) ?? 0]);
    await sheet.blobs.delete([archive]);
    await expectRefused(sheet, 'ARCHIVE_MISSING');
  });

  test('if a node is damaged, nothing is removed, although an abandoned build reaches it too', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await refill(sheet, 'only');
    await sheet.completed();
    await refill(sheet, 'wasted', 3);
    await sheet.edit(set(0, 0, 'wasted'));
    await sheet.complete(await sheet.snapshot(), { rangeEntries: 1, deadline: 0 });
    expect((await sheet.keys()).filter((key) => key.includes('/progress/'))).toHaveLength(1);
    sheet.nowMs += GRACE;
    const outcomes: string[] = [];
    for (const key of await neededKeys(sheet)) {
      if (!key.startsWith(chunkPrefix(sheet.log))) continue;
      const damaged = await copyOfBucket(sheet.blobs, () => sheet.nowMs);
      await damaged.delete([key]);
      outcomes.push((await attempt(sheet, depsOn(sheet, damaged))).outcome);
    }
    expect(outcomes.filter((outcome) => outcome === 'collected')).toHaveLength(4);
    expect(outcomes.length).toBeGreaterThan(8);
  });

  test('damage of an abandoned build does not matter', async () => {
    const { sheet, debris } = await logWithDebris();
    await sheet.blobs.put(debris.progress, Uint8Array.of(1));
    await collectAfterEachGrace(sheet, 4);
    expect(await sheet.keys()).toEqual(await neededKeys(sheet));
    await expectWhole(sheet);
  });

  test.each([condemnedKey, collectedKey])(
    'a collection is refused if the record before it is invalid: %o',
    async (keyOf) => {
      const sheet = await dueLog();
      const key = keyOf(sheet.log);
      for (const text of ['', '{', '[]', '{"format":2}', '{"format":1,"condemned":[["a"]],"dropped":[]}']) {
        await sheet.blobs.put(key, new TextEncoder().encode(text));
        const before = await objectsIn(sheet.blobs);
        const collecting = collect(sheet);
        await expect(collecting).rejects.toThrow(ObjectInvalidError);
        await expect(collecting).rejects.toMatchObject({ log: sheet.log, message: expect.stringContaining(key) });
        expect(await objectsIn(sheet.blobs)).toEqual(before);
      }
      // As the error advises.
      await sheet.blobs.delete([condemnedKey(sheet.log), collectedKey(sheet.log)]);
      await collectAfterEachGrace(sheet, 4);
      expect(await sheet.keys()).toEqual(await neededKeys(sheet));
    },
  );

  test('a log that does not exist cannot be collected', async () => {
    const { sheet } = await logWithDebris();
    const options = { graceSeconds: 0, keepSnapshots: 'all' } as const;
    const before = await objectsIn(sheet.blobs);
    await expect(collectLog(sheet.deps, { log: newLogId() }, options)).rejects.toThrow(LogNotFoundError);
    expect(await objectsIn(sheet.blobs)).toEqual(before);
  });
});
