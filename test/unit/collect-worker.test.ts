import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { BlobLockedError } from '../../src/errors.ts';
import type { BlobInfo } from '../../src/store/blob-store.ts';
import { bodyKey, bodyPrefix, chunkPrefix, condemnedKey, logPrefix, parseKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { readCondemned, writeCollected } from '../../src/workers/gc/collection-record.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import {
  beginUpload,
  collect,
  collectAfterEachGrace,
  contentsOf,
  copyOfBucket,
  depsOn,
  expectWhole,
  GRACE,
  keptSnapshots,
  LARGE_VALUES,
  leaveDebris,
  livedLog,
  logWithDebris,
  neededKeys,
  objectsIn,
  refill,
} from '../support/gc-scenario.ts';
import { newLogId, recordRequests, unarchived } from '../support/logs.ts';
import { expiring } from '../support/segments.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

describe('an unreachable object', () => {
  test('it stays condemned while Object Lock protects it, and the collection goes on', async () => {
    const { sheet, debris } = await logWithDebris();
    const bucket = sheet.deps.blobs;
    const locked = new Set([debris.chunk, debris.archive]);
    const blobs = {
      ...depsOn(sheet, bucket).blobs,
      deleteUnchanged: async (given: readonly BlobInfo[]) => {
        const free = given.filter(({ key }) => !locked.has(key));
        const gone = await bucket.deleteUnchanged(free);
        if (free.length < given.length) throw new BlobLockedError('they are locked', locked);
        return gone;
      },
    };
    const during = [];
    for (let graces = 0; graces < 4; graces++) {
      sheet.nowMs += GRACE;
      during.push(await collect(sheet, {}, { blobs }));
    }
    expect(during.map((each) => each.locked?.objects)).toEqual([undefined, 2, 2, 2]);
    expect(await sheet.keys(logPrefix(sheet.log))).toEqual(
      [...(await neededKeys(sheet)), ...locked, condemnedKey(sheet.log)]
        .filter((key) => key.startsWith('logs/'))
        .sort(),
    );
    const [after] = await collectAfterEachGrace(sheet, 1);
    expect(after).toMatchObject({ removed: { objects: 2 } });
    expect(after?.locked).toBeUndefined();
    expect(await sheet.keys(logPrefix(sheet.log))).toEqual(await neededKeys(sheet));
    await expectWhole(sheet);
  });

  test('it is condemned first and removed a grace period later; reachable objects stay', {
    tags: ['I4'],
  }, async () => {
    const { sheet, debris } = await logWithDebris();
    const needed = await neededKeys(sheet);
    const made = sheet.nowMs;
    const gone = new Map<string, number>();
    let before = await sheet.keys(logPrefix(sheet.log));
    expect(before).toEqual(expect.arrayContaining(Object.values(debris)));
    for (let graces = 0.25; graces <= 5; graces += 0.25) {
      sheet.nowMs = made + graces * GRACE;
      await collect(sheet);
      const now = await sheet.keys(logPrefix(sheet.log));
      for (const key of before) if (!now.includes(key)) gone.set(key, graces);
      before = now;
      await expectWhole(sheet);
    }
    expect(before).toEqual(needed);
    expect(await sheet.keys()).toEqual(needed);
    const { chunk, archive, body, progress, root } = debris;
    // A root counts as kept for a grace period from when it is first seen to be on no entry.
    expect([chunk, archive, body, progress, root].map((key) => gone.get(key))).toEqual([2, 2, 2, 2, 2.25]);
    expect(Math.min(...gone.values())).toBe(2);
    expect([...gone.keys()].filter((key) => parseKey(key)?.kind === 'chunk').length).toBeGreaterThan(4);
  });

  test('it stays until a grace period has passed to the millisecond, both since it was condemned and since it was written', async () => {
    const { sheet, debris } = await logWithDebris();
    const { chunk, archive, body, progress } = debris;
    const all = [chunk, archive, body, progress].sort();
    sheet.nowMs += GRACE - 1;
    expect(await collect(sheet)).toMatchObject({ condemned: { objects: 0 }, removed: { objects: 0 }, aborted: 0 });
    sheet.nowMs += 1;
    expect(await collect(sheet)).toMatchObject({ condemned: { objects: 4 }, removed: { objects: 0 }, aborted: 1 });
    expect((await readCondemned(sheet.blobs, sheet.log)).condemned.map(([key]) => key).sort()).toEqual(all);
    sheet.nowMs += GRACE - 1;
    expect(await collect(sheet)).toMatchObject({ removed: { objects: 0 } });
    expect(await sheet.keys()).toEqual(expect.arrayContaining(all));
    sheet.nowMs += 1;
    expect(await collect(sheet)).toMatchObject({ removed: { objects: 4 } });
    expect((await sheet.keys()).filter((key) => all.includes(key))).toEqual([]);
  });

  test('an upload that was started a grace period ago is aborted immediately', async () => {
    const sheet = await livedLog();
    const key = `${logPrefix(sheet.log)}archives/one`;
    beginUpload(sheet.blobs, key);
    sheet.nowMs += GRACE - 1;
    expect(await collect(sheet)).toMatchObject({ aborted: 0 });
    expect(await Array.fromAsync(sheet.blobs.uploads(''))).toMatchObject([{ key }]);
    sheet.nowMs += 1;
    expect(await collect(sheet)).toMatchObject({ aborted: 1 });
    expect(await Array.fromAsync(sheet.blobs.uploads(''))).toEqual([]);
  });

  test('it is removed immediately if there is no grace period', async () => {
    const { sheet } = await logWithDebris();
    const needed = await neededKeys(sheet);
    expect(await collect(sheet, { graceSeconds: 0 })).toMatchObject({ condemned: { objects: 0 }, aborted: 1 });
    // The objects of the abandoned build are found after its progress was removed.
    await collect(sheet, { graceSeconds: 0 });
    expect(await sheet.keys()).toEqual(needed);
    await expectWhole(sheet);
  });

  test('it stays if it is written again after it was condemned', { tags: ['I4'] }, async () => {
    const { sheet, debris } = await logWithDebris();
    await collectAfterEachGrace(sheet, 1);
    sheet.nowMs += GRACE / 2;
    await sheet.blobs.put(debris.chunk, Uint8Array.of(1));
    sheet.nowMs += GRACE / 2;
    await collect(sheet);
    const keys = await sheet.keys();
    expect([keys.includes(debris.chunk), keys.includes(debris.archive)]).toEqual([true, false]);
    await collectAfterEachGrace(sheet, 2);
    expect(await sheet.keys()).not.toContain(debris.chunk);
  });

  test('a body is unreachable until an entry names it, and never after that', async () => {
    const { sheet, debris } = await logWithDebris();
    await collectAfterEachGrace(sheet, 1);
    const end = await sheet.edit(set(0, 0, 'before'));
    const entry = { log: sheet.log, created: 1, type: 'Set', version: 1, external: debris.body };
    await sheet.tables.putEntries([{ ...entry, position: { ...end, entry: end.entry + 1 } }]);
    await collectAfterEachGrace(sheet, 3);
    expect(await sheet.keys()).toContain(debris.body);
  });

  test('a body is unreachable if its entry expired with a segment without an archive', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await refill(sheet, 'first');
    await sheet.completed();
    await sheet.covered();
    await refill(sheet, 'second');
    await collectAfterEachGrace(sheet, 2);
    expect(await sheet.keys(bodyPrefix(sheet.log))).toHaveLength(2);
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    await sheet.tables.deleteEntries(sheet.log, 0, [0, 1, 2, 3]);
    await collectAfterEachGrace(sheet, 3);
    expect(await sheet.keys(bodyPrefix(sheet.log))).toHaveLength(1);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('objects of another log stay', async () => {
    const { sheet } = await logWithDebris();
    const others = [logPrefix(newLogId()), 'unrelated/'].map((prefix) => `${prefix}chunks/${'cd'.repeat(32)}`);
    for (const key of others) await sheet.blobs.put(key, Uint8Array.of(1));
    await collectAfterEachGrace(sheet, 4);
    expect(await sheet.keys()).toEqual([...(await neededKeys(sheet)), ...others].sort());
  });
});

describe('a body', () => {
  test('a body that an archived entry names stays, although it was restored from a backup much later', async () => {
    const sheet = await livedLog();
    const bodies = await sheet.keys(bodyPrefix(sheet.log));
    await sheet.tables.setExpiration(await sheet.segmentItem(), { state: 'expired', at: 1, entries: 1 });
    const entries = (await sheet.items()).map((_, entry) => entry);
    await sheet.tables.deleteEntries(sheet.log, 0, entries);
    await collectAfterEachGrace(sheet, 3);
    sheet.nowMs += 100 * GRACE;
    for (const key of bodies) await sheet.blobs.put(key, (await sheet.blobs.get(key)) ?? new Uint8Array());
    await collectAfterEachGrace(sheet, 4);
    expect(await sheet.keys(bodyPrefix(sheet.log))).toEqual(bodies);
    await expectWhole(sheet);
  });

  test.each([0, 1])(
    'a body of segment %i stays, although the clock of the client that created it is days ahead',
    async (ahead) => {
      const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
      if (ahead === 0) sheet.nowMs -= 5 * GRACE;
      for (const segment of [0, 1]) {
        await refill(sheet, `in segment ${segment}`);
        await sheet.completed();
        if (ahead === segment + 1) sheet.nowMs += 5 * GRACE;
        const next = await sheet.segment();
        if (ahead === segment + 1) sheet.nowMs -= 5 * GRACE;
        await sheet.complete(next);
        await sheet.archive(segment);
      }
      const bodies = await sheet.keys(bodyPrefix(sheet.log));
      expect(bodies).toHaveLength(2);
      // Entries that were archived more recently are looked at for their snapshots, and so for
      // their bodies.
      sheet.nowMs += 2.5 * GRACE;
      await collectAfterEachGrace(sheet, 4);
      expect(await sheet.keys(bodyPrefix(sheet.log))).toEqual(bodies);
      await expectWhole(sheet);
    },
  );

  test('a body without a name costs a read of archives; a named body costs none after it was found', async () => {
    const sheet = await livedLog();
    await collectAfterEachGrace(sheet, 3);
    const reads: string[] = [];
    const look = depsOn(sheet, sheet.blobs, (name, effect) => {
      if (name === 'getRange') reads.push(name);
      return effect();
    });
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    await sheet.tables.deleteEntries(sheet.log, 0, [1]);
    sheet.nowMs += GRACE;
    await collect(sheet, {}, look);
    expect(reads).toEqual([]);
    await leaveDebris(sheet);
    sheet.nowMs += GRACE;
    await collect(sheet, {}, look);
    expect(reads).not.toEqual([]);
  });
});

test('the collection holds no bodies in memory that an earlier collection found named', async () => {
  const sheet = await livedLog();
  const names = Array.from({ length: 1000 }, (_, i) => i.toString(16).padStart(12, '0'));
  for (const name of names) await sheet.blobs.put(bodyKey(sheet.log, name.padEnd(64, '0'), name), Uint8Array.of(1));
  await writeCollected(sheet.blobs, sheet.log, { bodies: sheet.nowMs + 1, dropped: [] });
  sheet.nowMs += 1;
  const { body } = await leaveDebris(sheet);
  sheet.nowMs += 3 * GRACE;
  const listed: WeakRef<BlobInfo>[] = [];
  const held: number[] = [];
  // Archives are read while those that may be named there are held.
  const look = depsOn(sheet, sheet.blobs, async (name, effect) => {
    if (name === 'getRange') held.push((await survivors(listed)).length);
    return effect();
  });
  look.blobs.list = async function* (prefix) {
    for await (const blob of sheet.blobs.list(prefix)) {
      const fresh = { ...blob };
      if (parseKey(blob.key)?.kind === 'body') listed.push(new WeakRef(fresh));
      yield fresh;
    }
  };
  const { condemned } = await collect(sheet, {}, look);
  expect(listed.length).toBeGreaterThan(1000);
  // The unnamed object, and the objects that an iterator may hold.
  expect(Math.max(...held)).toBeGreaterThan(0);
  expect(Math.max(...held)).toBeLessThan(10);
  const record = (await readCondemned(sheet.blobs, sheet.log)).condemned.map(([key]) => key);
  expect(record.filter((key) => key.startsWith(bodyPrefix(sheet.log)))).toEqual([body]);
  expect(condemned.objects).toBe(record.length);
});

describe('time', () => {
  afterEach(() => void vi.useRealTimers());

  test.each([-10_000, 10_000])(
    'the collection uses the clock of the bucket, although the local clock is %i days off',
    { tags: ['I4'] },
    async (days) => {
      const { sheet, debris } = await logWithDebris();
      vi.useFakeTimers({ toFake: ['Date'], now: sheet.nowMs + days * GRACE });
      const deps = { ...sheet.deps, now: () => Date.now() };
      const has = async () => (await sheet.keys()).includes(debris.chunk);
      sheet.nowMs += GRACE;
      expect(await collect(sheet, {}, deps)).toMatchObject({ condemned: { objects: 4 }, removed: { objects: 0 } });
      sheet.nowMs += GRACE - 1;
      await collect(sheet, {}, deps);
      expect(await has()).toBe(true);
      sheet.nowMs += 1;
      await collect(sheet, {}, deps);
      expect(await has()).toBe(false);
    },
  );
});

describe('snapshots', () => {
  test('all snapshots of segments in the table are kept, or only the last of each', async () => {
    const sheet = await livedLog();
    await collectAfterEachGrace(sheet, 4, { keepSnapshots: 'all' });
    expect(await sheet.keys()).toEqual(await neededKeys(sheet, 'all'));
    const kept = await keptSnapshots(sheet, 'last');
    expect((await keptSnapshots(sheet, 'all')).length).toBeGreaterThan(kept.length);
    await collectAfterEachGrace(sheet, 4, { keepSnapshots: 'last' });
    expect(await sheet.keys(logPrefix(sheet.log))).toEqual(await neededKeys(sheet, 'last'));
    await expectWhole(sheet, 'last');
  });

  test('dropped snapshots count as kept for one more grace period', { tags: ['I4'] }, async () => {
    const sheet = await livedLog();
    await refill(sheet, 'third');
    await sheet.completed();
    await collectAfterEachGrace(sheet, 4);
    const all = await sheet.keys(chunkPrefix(sheet.log));
    const last = { keepSnapshots: 'last' } as const;
    expect(await collect(sheet, last)).toMatchObject({ condemned: { objects: 0 } });
    sheet.nowMs += GRACE - 1;
    expect(await collect(sheet, last)).toMatchObject({ condemned: { objects: 0 } });
    sheet.nowMs += 1;
    const { condemned } = await collect(sheet, last);
    sheet.nowMs += GRACE - 1;
    expect(await collect(sheet, last)).toMatchObject({ condemned, removed: { objects: 0 } });
    expect(await sheet.keys(chunkPrefix(sheet.log))).toEqual(all);
    sheet.nowMs += 1;
    expect(await collect(sheet, last)).toMatchObject({ removed: condemned });
    expect(condemned.objects).toBe(all.length - (await sheet.keys(chunkPrefix(sheet.log))).length);
    expect(condemned.objects).toBeGreaterThan(8);
    await expectWhole(sheet, 'last');
  });
});

describe('foreign objects', () => {
  test('they are named and left alone, however many parts a log is collected in', async () => {
    const { sheet } = await logWithDebris();
    const foreign = ['chunks/notes.txt', 'roots/elsewhere', 'zzz'].map((name) => logPrefix(sheet.log) + name);
    for (const key of foreign) await sheet.blobs.put(key, Uint8Array.of(1));
    const [copy, parts] = [await copyOfBucket(sheet.blobs, () => sheet.nowMs), { maxMarks: 3 }];
    for (let i = 0; i < 4; i++) {
      sheet.nowMs += GRACE;
      const result = await collect(sheet);
      expect(result.foreign).toEqual(foreign);
      expect(await collect(sheet, {}, { ...depsOn(sheet, copy), ...parts })).toEqual(result);
      expect(await sheet.keys()).toEqual(expect.arrayContaining(foreign));
    }
    expect(await sheet.keys()).toEqual([...(await neededKeys(sheet)), ...foreign].sort());
  });
});

test('chunks are read concurrently, and each once however many snapshots share it', async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(300, 5);
  await sheet.completed();
  for (const row of [0, 100, 200]) {
    await sheet.edit(set(row, 0, 'other'));
    await sheet.completed();
  }
  const reads: string[] = [];
  let [underWay, most] = [0, 0];
  const deps = depsOn(sheet, sheet.blobs);
  deps.blobs.get = async (key) => {
    most = Math.max(most, ++underWay);
    if (parseKey(key)?.kind === 'chunk') reads.push(key);
    await setImmediate();
    underWay--;
    return sheet.blobs.get(key);
  };
  await collect(sheet, {}, deps);
  expect(reads.sort()).toEqual((await neededKeys(sheet)).filter((key) => parseKey(key)?.kind === 'chunk'));
  expect(most).toBe(16);
});

describe('a collection in parts', () => {
  test.each([2, 10])('it equals a collection that holds everything in memory: %i marks', async (maxMarks) => {
    const { sheet } = await logWithDebris();
    const copy = await copyOfBucket(sheet.blobs, () => sheet.nowMs);
    let [gets, whole] = [0, 0];
    for (let i = 0; i < 5; i++) {
      sheet.nowMs += GRACE / 2;
      const counting = new MeteredBlobStore(sheet.blobs);
      const result = await collect(sheet, {}, { blobs: counting });
      const metered = new MeteredBlobStore(copy);
      expect(await collect(sheet, {}, { ...depsOn(sheet, metered), maxMarks })).toEqual(result);
      expect(await contentsOf(copy)).toEqual(await contentsOf(sheet.blobs));
      gets += metered.usage().gets;
      whole += counting.usage().gets;
    }
    // Each part reads the inner nodes again.
    expect(gets).toBeGreaterThan(whole + 5 * 3);
  });
});

describe('a dry run', () => {
  test('it writes nothing, and its result equals that of the run that follows', async () => {
    const { sheet } = await logWithDebris();
    let [removed, condemned] = [0, 0];
    for (let graces = 0; graces < 8; graces++) {
      sheet.nowMs += GRACE / 2;
      const before = await objectsIn(sheet.blobs);
      const uploads = await Array.fromAsync(sheet.blobs.uploads(''));
      const { keys, ...dry } = await collect(sheet, { dryRunAt: sheet.nowMs });
      expect(await objectsIn(sheet.blobs)).toEqual(before);
      expect(await Array.fromAsync(sheet.blobs.uploads(''))).toEqual(uploads);
      const { keys: none, ...real } = await collect(sheet);
      // The note of the first collection is not compared.
      expect({ ...real, kept: 0 }).toEqual({ ...dry, kept: 0 });
      expect(none).toBeUndefined();
      const after = await sheet.keys(logPrefix(sheet.log));
      const gone = before.map(({ key }) => key).filter((key) => key.startsWith('logs/') && !after.includes(key));
      expect([...(keys?.removed ?? [])].sort()).toEqual(gone);
      const record = await readCondemned(sheet.blobs, sheet.log);
      expect(keys?.condemned).toEqual(record.condemned.map(([key]) => key));
      removed += gone.length;
      condemned += record.condemned.length;
    }
    expect([removed > 8, condemned > 8]).toEqual([true, true]);
  });

  test('it does not even write the note of a log that was never collected', async () => {
    const { sheet } = await logWithDebris();
    const before = await sheet.contents();
    await collect(sheet, { dryRunAt: sheet.nowMs + GRACE });
    expect(await sheet.contents()).toEqual(before);
  });
});

test('a log at rest costs a request for each node, and a few that do not depend on its size', async () => {
  const sheet = await livedLog();
  await collectAfterEachGrace(sheet, 4);
  sheet.nowMs += GRACE;
  const blobs = new MeteredBlobStore(sheet.blobs);
  const requests: string[] = [];
  const store = recordRequests(sheet.tables, requests);
  const result = await collect(sheet, {}, { blobs, store: unarchived(store) });
  const keys = await sheet.keys();
  expect(result.kept.objects).toBe(keys.length);
  const nodes = await nodeCount(sheet);
  expect(nodes).toBeGreaterThan(8);
  expect(blobs.usage()).toMatchObject({
    // The two notes; and each node once, however many snapshots share it.
    gets: 2 + nodes,
    puts: 2,
    // The time, twice, progress, archives, roots, everything, uploads; and the age of an archive.
    lists: 7 + 1,
    deletes: 1,
  });
  // Whether there is a segment after; entries of the one that is in the table, and the last
  // snapshot of the archived one.
  expect(requests).toEqual(['newestSegments', 'segments', 'newestEntry', 'getEntry', 'items']);
  await expectWhole(sheet);
});

/** Those that are still in memory. */
async function survivors(objects: readonly WeakRef<BlobInfo>[]): Promise<BlobInfo[]> {
  // An object whose reference was made or followed stays until then.
  await setImmediate();
  collectGarbage();
  return objects.flatMap((each) => each.deref() ?? []);
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

/** How many nodes the kept snapshots of a log reach: chunks that are not values. */
async function nodeCount(sheet: SheetLog): Promise<number> {
  const chunks = (await neededKeys(sheet)).filter((key) => key.startsWith(chunkPrefix(sheet.log)));
  return chunks.length - LARGE_VALUES;
}
