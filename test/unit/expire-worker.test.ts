import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { ArchiveDiffersError, ClockInvalidError, SegmentNotFoundError, SegmentStateError } from '../../src/errors.ts';
import { writeUnits } from '../../src/log/item-size.ts';
import { expiresAt } from '../../src/log/segment.ts';
import { DEFAULT_POLICY, planRetention, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { condemnedKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import type { ExpireJob } from '../../src/workers/jobs/job.ts';
import {
  type ExpireDeps,
  type ExpireOptions,
  type ExpireResult,
  expireSegment,
} from '../../src/workers/retention/expire-segment.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { undoExpiry } from '../../src/workers/retention/undo-expiry.ts';
import { allItems } from '../support/archives.ts';
import { deathsOf, dieAt, dieDuring } from '../support/die-at.ts';
import { NOON } from '../support/logs.ts';
import { expired, expiredEntries, expiring } from '../support/segments.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

/** Seconds. */
const GRACE = 3600;
const TTL: RetentionPolicy = {
  keepSegments: 1,
  keepDays: 0,
  archive: true,
  expire: 'ttl',
  graceSeconds: GRACE,
  keepSnapshots: 'all',
};
const DELETE: RetentionPolicy = { ...TTL, expire: 'delete' };
const UNARCHIVED: RetentionPolicy = { ...TTL, archive: false };
const UNARCHIVED_DELETE: RetentionPolicy = { ...UNARCHIVED, expire: 'delete' };
const G = NOON + GRACE;
const BOTH = [TTL, DELETE];
const ALL = [...BOTH, UNARCHIVED, UNARCHIVED_DELETE];

/** Creates a log with a closed segment of 9 entries. The table returns pages of `pageItems`. */
async function closedSheet(pageItems = 4): Promise<SheetLog> {
  const sheet = await SheetLog.create(undefined, new MemoryLogStore({ pageItems }));
  await sheet.fill(20, 3);
  await sheet.completed();
  for (let i = 0; i < 5; i++) await sheet.edit(set(i, 0, `edit ${i}`));
  await sheet.covered();
  expect(await sheet.items()).toHaveLength(9);
  return sheet;
}

async function archivedSheet(pageItems?: number): Promise<SheetLog> {
  const sheet = await closedSheet(pageItems);
  await sheet.archive(0);
  return sheet;
}

/** Creates such a log whose segment can expire immediately under the policy. */
async function announcedSheet(policy: RetentionPolicy): Promise<SheetLog> {
  const sheet = await (policy.archive ? archivedSheet() : closedSheet());
  if (policy.expire === 'delete') {
    expect(await expire(sheet, policy)).toEqual({ outcome: 'waiting', segment: 0, expires: G });
    sheet.nowMs = G * 1000;
  }
  return sheet;
}

function expire(
  sheet: SheetLog,
  policy: RetentionPolicy,
  { deps, job, options }: { deps?: Partial<ExpireDeps>; job?: Partial<ExpireJob>; options?: ExpireOptions } = {},
): Promise<ExpireResult> {
  return expireSegment({ ...sheet.deps, ...deps }, { log: sheet.log, segment: 0, ...job }, policy, options);
}

const unexpireFirst = (sheet: SheetLog) => undoExpiry(sheet.deps, { log: sheet.log, segment: 0 });
const restoreFirst = (sheet: SheetLog) =>
  restoreSegment(sheet.deps, { log: sheet.log, segment: 0 }, { holdSeconds: 2 * GRACE });

async function expiries(sheet: SheetLog): Promise<(string | undefined)[]> {
  return (await sheet.items()).map(({ X }) => (X !== undefined && 'N' in X ? X.N : undefined));
}

async function numbers(sheet: SheetLog): Promise<number[]> {
  return (await sheet.items()).map(({ N }) => Number(N !== undefined && 'N' in N ? N.N : undefined));
}

/** Calls `act` before the nth operation of a name. */
function actBefore(operation: string, nth: number, act: () => Promise<unknown>): Interceptor {
  let count = 0;
  return async (name, effect) => {
    if (name === operation && ++count === nth) await act();
    return effect();
  };
}

describe('entries stay', () => {
  test('they stay if the segment is open, not covered, or missing', { tags: ['I3'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(2, 2);
    await sheet.completed();
    for (const policy of [UNARCHIVED, TTL, DELETE]) {
      const open = await sheet.contents();
      await expect(expire(sheet, policy, { options: { byHand: true } })).rejects.toThrow(SegmentStateError);
      expect(await sheet.contents()).toEqual(open);
    }
    await sheet.segment();
    for (const policy of [UNARCHIVED, TTL, DELETE]) {
      const uncovered = await sheet.contents();
      await expect(expire(sheet, policy, { options: { byHand: true } })).rejects.toThrow(SegmentStateError);
      expect(await sheet.contents()).toEqual(uncovered);
    }
    await expect(expire(sheet, TTL, { job: { segment: 5 } })).rejects.toThrow(SegmentNotFoundError);
  });

  test('they stay if they are not archived and the policy archives', { tags: ['I3'] }, async () => {
    for (const policy of BOTH) {
      const sheet = await closedSheet();
      const contents = await sheet.contents();
      // A job of the policy waits for the archive. An operator gets an error.
      expect(await expire(sheet, policy)).toEqual({ outcome: 'kept', segment: 0 });
      await expect(expire(sheet, policy, { options: { byHand: true } })).rejects.toThrow(SegmentStateError);
      expect(await sheet.contents()).toEqual(contents);
    }
  });

  test('they stay if the policy never expires entries, or keeps the segment again', async () => {
    const sheet = await archivedSheet();
    const contents = await sheet.contents();
    for (const policy of [
      DEFAULT_POLICY,
      { ...TTL, expire: 'never' as const },
      { ...TTL, keepSegments: 2 },
      { ...DELETE, keepDays: 1 },
    ]) {
      expect(await expire(sheet, policy)).toEqual({ outcome: 'kept', segment: 0 });
    }
    expect(await sheet.contents()).toEqual(contents);
  });

  test('they expire if an operator requests it, whatever the policy keeps', async () => {
    const sheet = await archivedSheet();
    expect(await expire(sheet, { ...TTL, keepSegments: 9 }, { options: { byHand: true } })).toMatchObject({
      outcome: 'expired',
    });
  });

  test('they stay in a dry run, which describes the expiry', async () => {
    for (const policy of [TTL, DELETE, UNARCHIVED]) {
      const sheet = await announcedSheet(policy);
      const contents = await sheet.contents();
      const result = await expire(sheet, policy, { options: { dryRun: true } });
      expect(result).toEqual({ outcome: 'expired', segment: 0, entries: 9, expires: G });
      expect(await sheet.contents()).toEqual(contents);
      expect(await expire(sheet, policy)).toEqual(result);
    }
    const sheet = await archivedSheet();
    const contents = await sheet.contents();
    const result = await expire(sheet, DELETE, { options: { dryRun: true } });
    expect(result).toEqual({ outcome: 'waiting', segment: 0, expires: G });
    expect(await sheet.contents()).toEqual(contents);
  });

  test('they stay if there is an entry after the end, with an archive and without', async () => {
    for (const pageItems of [1, 3, 4, 9, 1000]) {
      for (const [policy, deadline] of [
        [TTL, undefined],
        [UNARCHIVED, undefined],
        [UNARCHIVED, 0],
      ] as const) {
        const sheet = await (policy.archive ? archivedSheet(pageItems) : closedSheet(pageItems));
        const [, item] = await sheet.items();
        await sheet.tables.putItems([{ ...item, N: { N: '9' } }]);
        const expiring = runAll(sheet, policy, { deadline });
        await expect(expiring, `pages of ${pageItems}`).rejects.toThrow(ArchiveDiffersError);
        await expect(expiring).rejects.toMatchObject({ log: sheet.log, segment: 0, entry: 9 });
        expect((await expiries(sheet)).at(9)).toBeUndefined();
        expect(expiredEntries(await sheet.segmentItem())).toBeUndefined();
      }
    }
  });
});

/** Runs a job and its continuations until it is done. Returns all results. */
async function runAll(sheet: SheetLog, policy: RetentionPolicy, deps: Partial<ExpireDeps>): Promise<ExpireResult[]> {
  const results: ExpireResult[] = [];
  for (let from: number | undefined; ; ) {
    const result = await expire(sheet, policy, { deps, job: { from, announced: G } });
    results.push(result);
    if (result.outcome !== 'progress') return results;
    from = result.reached;
  }
}

describe('entries expire', () => {
  test('all of them expire a grace period from now, and the segment has the time', async () => {
    const sheet = await archivedSheet();
    const items = await sheet.items();
    expect(await expire(sheet, TTL)).toEqual({ outcome: 'expired', segment: 0, entries: 9, expires: G });
    expect(await sheet.segmentItem()).toMatchObject({ expiry: expired(G, 9) });
    expect(await sheet.items()).toEqual(items.map((item) => ({ ...item, X: { N: String(G) } })));
    expect(sheet.tables.expireNow(G - 1)).toEqual([]);
    expect(sheet.tables.expireNow(G)).toHaveLength(9);
    expect(await sheet.items()).toEqual([]);
    // Readers see no difference.
    const range = { segment: 0, from: 0, to: 100 };
    expect(await allItems(sheet.deps.store.items(sheet.log, range, { consistent: true }))).toEqual(items);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('they expire without an archive too, if the policy does not archive', async () => {
    const sheet = await closedSheet();
    expect(await expire(sheet, UNARCHIVED)).toEqual({ outcome: 'expired', segment: 0, entries: 9, expires: G });
    expect(await expiries(sheet)).toEqual(Array.from({ length: 9 }, () => String(G)));
  });

  test('they expire once: a second job finds nothing to do', async () => {
    const sheet = await archivedSheet();
    await expire(sheet, TTL);
    const contents = await sheet.contents();
    sheet.nowMs += 5000;
    expect(await expire(sheet, TTL)).toEqual({ outcome: 'present', segment: 0 });
    expect(await sheet.contents()).toEqual(contents);
  });

  test('a duplicate job has the same result', async () => {
    for (const policy of BOTH) {
      const [alone, together] = [await announcedSheet(policy), await announcedSheet(policy)];
      await expire(alone, policy);
      const results = await Promise.all([expire(together, policy), expire(together, policy)]);
      expect(results.map(({ outcome }) => outcome)).toEqual(['expired', 'expired']);
      expect((await together.contents()).entries).toEqual((await alone.contents()).entries);
      expect(await together.segmentItem()).toMatchObject({ expiry: expired(G, 9) });
    }
  });

  test('stamps keep to the rate limit: each write costs its units, and stamped entries cost none', async () => {
    const sheet = await archivedSheet();
    const units = (await sheet.items()).reduce((sum, item) => sum + writeUnits(item), 0);
    const taken: number[] = [];
    const rateLimiter = { take: async (some: number) => void taken.push(some) };
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(G));
    await sheet.tables.setEntryExpiry(sheet.log, { segment: 0, entry: 3 }, G);
    const third = (await sheet.items())[3];
    await expire(sheet, TTL, { deps: { rateLimiter } });
    expect(taken).toHaveLength(8);
    expect(taken.reduce((sum, some) => sum + some, 0)).toBe(units - writeUnits(third ?? {}));
  });
});

describe('entries are deleted', () => {
  test('they are deleted after the time on the segment, and not before', { tags: ['I3'] }, async () => {
    const sheet = await archivedSheet();
    const items = await sheet.items();
    expect(await expire(sheet, DELETE)).toEqual({ outcome: 'waiting', segment: 0, expires: G });
    expect((await sheet.segmentItem()).expiry).toEqual(expiring(G));
    sheet.nowMs = G * 1000 - 1;
    // The policy does not request this job before the time.
    expect(await expire(sheet, DELETE, { options: { byHand: true } })).toEqual({
      outcome: 'waiting',
      segment: 0,
      expires: G,
    });
    expect(await sheet.items()).toEqual(items);
    sheet.nowMs = G * 1000;
    expect(await expire(sheet, DELETE)).toEqual({ outcome: 'expired', segment: 0, entries: 9, expires: G });
    expect(await sheet.items()).toEqual([]);
    expect(await sheet.segmentItem()).toMatchObject({ expiry: expired(G, 9) });
    const range = { segment: 0, from: 0, to: 100 };
    expect(await allItems(sheet.deps.store.items(sheet.log, range, { consistent: true }))).toEqual(items);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('deletions keep to the rate limit, in batches', async () => {
    const sheet = await archivedSheet(1000);
    for (let i = 0; i < 60; i++) await sheet.edit(set(i, 1, 'x'));
    await sheet.covered();
    await sheet.archive(1);
    await expire(sheet, DELETE, { job: { segment: 1 } });
    sheet.nowMs = G * 1000;
    const units = (await sheet.items(1)).map(writeUnits);
    const taken: number[] = [];
    const rateLimiter = { take: async (some: number) => void taken.push(some) };
    expect(await expire(sheet, DELETE, { deps: { rateLimiter }, job: { segment: 1 } })).toMatchObject({ entries: 62 });
    const sums = [units.slice(0, 25), units.slice(25, 50), units.slice(50)].map((some) =>
      some.reduce((sum, each) => sum + each, 0),
    );
    expect(taken).toEqual(sums);
    expect(await sheet.items(1)).toEqual([]);
  });

  test.each([DELETE, UNARCHIVED_DELETE])(
    'batches are smaller if entries are large, archived: $archive',
    async (policy) => {
      const sheet = await SheetLog.create(undefined, new MemoryLogStore({ pageItems: 1000 }));
      for (let i = 0; i < 9; i++) await sheet.edit(set(i, 0, 'x'));
      await sheet.completed();
      // Other programs may add attributes to entries.
      const large = { other: { B: new Uint8Array(100 * 1024) } };
      await sheet.tables.putItems((await sheet.items()).map((item) => ({ ...item, ...large })));
      await sheet.covered();
      if (policy.archive) await sheet.archive(0);
      await expire(sheet, policy);
      sheet.nowMs = G * 1000;
      const taken: number[] = [];
      const rateLimiter = { take: async (some: number) => void taken.push(some) };
      await expire(sheet, policy, { deps: { rateLimiter } });
      expect(await sheet.items()).toEqual([]);
      expect(taken.length).toBeGreaterThan(4);
      expect(Math.max(...taken)).toBeLessThanOrEqual(policy.archive ? 300 : 600);
    },
  );
});

describe('before entries expire', () => {
  test.each(BOTH)('they are compared with the archive, page by page: $expire', { tags: ['I3'] }, async (policy) => {
    const sheet = await announcedSheet(policy);
    const item = (await sheet.items())[6];
    await sheet.tables.putItems([{ ...item, foreign: { S: 'altered' } }]);
    const expiring = expire(sheet, policy);
    await expect(expiring).rejects.toThrow(ArchiveDiffersError);
    await expect(expiring).rejects.toMatchObject({ log: sheet.log, segment: 0, entry: 6 });
    // The page before equals the archive.
    if (policy.expire === 'delete') expect(await numbers(sheet)).toEqual([4, 5, 6, 7, 8]);
    else
      expect((await expiries(sheet)).map((expires) => expires === undefined)).toEqual(
        [...'000011111'].map((c) => c === '1'),
      );
    expect(expiredEntries(await sheet.segmentItem())).toBeUndefined();
  });

  test.each(BOTH)('the job finds that the archive is missing or damaged: $expire', async (policy) => {
    for (const [code, damage] of [
      ['ARCHIVE_MISSING', (sheet: SheetLog, key: string) => sheet.blobs.delete([key])],
      ['ARCHIVE_CORRUPT', flipByte],
    ] as const) {
      const sheet = await announcedSheet(policy);
      const items = await sheet.items();
      await damage(sheet, (await sheet.segmentItem()).archive?.key ?? '');
      await expect(expire(sheet, policy)).rejects.toMatchObject({ code, log: sheet.log, segment: 0 });
      expect(await sheet.items()).toEqual(items);
    }
  });

  test.each(BOTH)('the job finds that the archive is missing between two runs: $expire', async (policy) => {
    const sheet = await announcedSheet(policy);
    expect(await expire(sheet, policy, { deps: { deadline: 0 } })).toMatchObject({ outcome: 'progress', reached: 4 });
    const items = await sheet.items();
    await sheet.blobs.delete([(await sheet.segmentItem()).archive?.key ?? '']);
    await expect(expire(sheet, policy, { job: { from: 4, announced: G } })).rejects.toMatchObject({
      code: 'ARCHIVE_MISSING',
    });
    expect(await sheet.items()).toEqual(items);
  });

  test.each(BOTH)('an older Snapshot entry may have got a root: $expire', async (policy) => {
    const sheet = await SheetLog.create();
    const older = await sheet.snapshot();
    await sheet.fill(2, 2);
    await sheet.completed();
    await sheet.covered();
    await sheet.archive(0);
    await sheet.tables.completeSnapshot(sheet.log, older, { inline: Uint8Array.of(1) });
    await expire(sheet, policy);
    sheet.nowMs = G * 1000;
    expect((await expire(sheet, policy)).outcome).toBe(policy.expire === 'ttl' ? 'present' : 'expired');
  });
});

async function flipByte(sheet: SheetLog, key: string): Promise<void> {
  const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
  bytes[30] = (bytes[30] ?? 0) ^ 1;
  await sheet.blobs.put(key, bytes);
}

describe('an expire job', () => {
  test.each(BOTH)('it ends in the middle of a page, after a batch, if its time is up: $expire', async (policy) => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 60; i++) await sheet.edit(set(i, 0, `${i}`));
    await sheet.completed();
    await sheet.covered();
    await sheet.archive(0);
    if (policy.expire === 'delete') await expire(sheet, policy);
    sheet.nowMs = G * 1000;
    const deadline = sheet.nowMs + 1;
    // The first batch uses up the time. The batch in flight still ends.
    const rateLimiter = { take: async () => void sheet.nowMs++ };
    expect(await expire(sheet, policy, { deps: { rateLimiter, deadline } })).toMatchObject({
      outcome: 'progress',
      reached: 25,
    });
    const left =
      policy.expire === 'delete' ? await numbers(sheet) : (await expiries(sheet)).filter((x) => x === undefined);
    expect(left).toHaveLength(38);
    const job = { from: 25, announced: G };
    expect(await expire(sheet, policy, { job })).toMatchObject({ outcome: 'expired', entries: 63 });
  });

  test.each(ALL)('it continues from the end of its last run: $expire, archived: $archive', async (policy) => {
    const [slow, quick] = [await announcedSheet(policy), await announcedSheet(policy)];
    const results = await runAll(slow, policy, { deadline: 0 });
    expect(results).toEqual([
      { outcome: 'progress', segment: 0, reached: 4, expires: G },
      { outcome: 'progress', segment: 0, reached: 8, expires: G },
      { outcome: 'expired', segment: 0, entries: 9, expires: G },
    ]);
    await expire(quick, policy);
    expect((await slow.contents()).entries).toEqual((await quick.contents()).entries);
    expect({ ...(await slow.segmentItem()), archive: '' }).toEqual({ ...(await quick.segmentItem()), archive: '' });
  });

  test.each(ALL)(
    'it has the same result, wherever the job before died: $expire, archived: $archive',
    { tags: ['I3'] },
    async (policy) => {
      const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => expire(sheet, policy, { deps });
      const reference = await announcedSheet(policy);
      const deaths = await deathsOf(reference, job(reference));
      const names = deaths.map(({ name }) => name);
      for (const name of ['getSegment', 'items', 'setExpiration']) expect(names).toContain(name);
      const archived = policy.expire === 'ttl' ? 'setEntryExpiry' : 'deleteEntries';
      expect(names).toContain(policy.archive ? archived : 'expireEntries');
      // Without an archive, a job that continues after deletions cannot know the number of
      // entries.
      const contents = async (sheet: SheetLog) => {
        const { segments, ...rest } = await sheet.contents();
        return {
          ...rest,
          segments: segments.map((each) => (policy === UNARCHIVED_DELETE ? { ...each, expiry: expired(G, 0) } : each)),
        };
      };
      const whole = await contents(reference);
      for (const death of deaths) {
        const sheet = await announcedSheet(policy);
        await dieDuring(sheet, death, job(sheet));
        const where = `died ${death.when} ${death.name} (${death.operation})`;
        expect(['expired', 'present'], where).toContain((await expire(sheet, policy)).outcome);
        expect(expiredEntries(await sheet.segmentItem()), where).toBeDefined();
        expect(await contents(sheet), where).toEqual(whole);
      }
    },
  );

  test.each(BOTH)('it ends if the segment is restored in the middle: $expire', async (policy) => {
    const sheet = await announcedSheet(policy);
    const operation = policy.expire === 'ttl' ? 'setEntryExpiry' : 'deleteEntries';
    const restore = () => restoreSegment(sheet.deps, { log: sheet.log, segment: 0 }, { holdSeconds: 2 * GRACE });
    // The restore comes after the first page, while the second page expires.
    const interceptor = actBefore(operation, policy.expire === 'ttl' ? 6 : 2, restore);
    await expect(expire(sheet, policy, { deps: interceptDeps(sheet, interceptor) })).rejects.toThrow(SegmentStateError);
    const expires = Math.floor(sheet.nowMs / 1000) + 2 * GRACE;
    expect((await sheet.segmentItem()).expiry).toEqual(expiring(expires));
    // The running batch still expires: it is deleted, and the archive can restore it, or it is
    // stamped with the current time.
    const page = policy.expire === 'ttl' ? String(expires) : undefined;
    expect(new Set(await expiries(sheet))).toEqual(new Set([undefined, page]));
    await restore();
    expect(await numbers(sheet)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect((await expire(sheet, policy)).outcome).toBe(policy.expire === 'ttl' ? 'expired' : 'waiting');
  });

  test.each([
    ['restored', restoreFirst],
    ['freed from its expiry', unexpireFirst],
  ])('it starts over if the segment was %s between its runs', { tags: ['I3'] }, async (_, takeBack) => {
    for (const policy of [TTL, UNARCHIVED].filter(({ archive }) => archive || takeBack === unexpireFirst)) {
      const sheet = await announcedSheet(policy);
      expect(await expire(sheet, policy, { deps: { deadline: 0 } })).toMatchObject({ reached: 4 });
      sheet.nowMs += 1_000;
      await takeBack(sheet);
      expect(await expire(sheet, policy, { job: { from: 4, announced: G } })).toMatchObject({
        outcome: 'expired',
        entries: 9,
      });
      const expires = expiresAt(await sheet.segmentItem());
      expect(await expiries(sheet)).toEqual(Array.from({ length: 9 }, () => String(expires)));
    }
  });

  test('it continues if an undo in the middle is refused', async () => {
    const sheet = await announcedSheet(DELETE);
    const place = { log: sheet.log, segment: 0 };
    const unexpire = async (): Promise<void> => {
      await expect(undoExpiry(sheet.deps, place)).rejects.toThrow(SegmentStateError);
    };
    const { outcome } = await expire(sheet, DELETE, {
      deps: interceptDeps(sheet, actBefore('deleteEntries', 2, unexpire)),
    });
    expect(outcome).toBe('expired');
    expect(await numbers(sheet)).toEqual([]);
    expect(await sheet.segmentItem()).toMatchObject({ expiry: expired(G, 9) });
  });

  test('it does not begin if another process changes the segment first', async () => {
    const sheet = await archivedSheet();
    const interceptor = actBefore('setExpiration', 1, async () => {
      await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(7));
    });
    const items = await sheet.items();
    await expect(expire(sheet, TTL, { deps: interceptDeps(sheet, interceptor) })).rejects.toThrow(SegmentStateError);
    expect(await sheet.items()).toEqual(items);
  });
});

/** Returns the number of the operation that is the nth of a name in an expire job. */
async function nthOf(name: string, nth: number, policy: RetentionPolicy): Promise<number> {
  const sheet = await announcedSheet(policy);
  const deaths = await deathsOf(sheet, (deps) => expire(sheet, policy, { deps }));
  const operation = deaths.filter((death) => death.name === name && death.when === 'after')[nth - 1]?.operation;
  if (operation === undefined) throw new Error(`there are no ${nth} of ${name}`);
  return operation;
}

describe('undoExpiry', () => {
  const unexpire = (sheet: SheetLog, options?: { readonly dryRun: boolean }) =>
    undoExpiry(sheet.deps, { log: sheet.log, segment: 0 }, options);

  test('it removes the expiry from all entries and restores the previous state', async () => {
    for (const policy of [TTL, UNARCHIVED]) {
      const sheet = await announcedSheet(policy);
      const contents = await sheet.contents();
      await expire(sheet, policy);
      const expired = await sheet.contents();
      expect(await unexpire(sheet, { dryRun: true })).toEqual({ segment: 0, entries: 9 });
      expect(await sheet.contents()).toEqual(expired);
      expect(await unexpire(sheet)).toEqual({ segment: 0, entries: 9 });
      // Snapshots may have expired with their entries, so the log is a gc candidate.
      const { objects: _, ...tables } = contents;
      expect(await sheet.contents()).toMatchObject(tables);
      expect((await sheet.keys()).filter((key) => !(key in contents.objects))).toEqual(
        policy.archive ? [] : [condemnedKey(sheet.log)],
      );
      expect(await unexpire(sheet)).toEqual({ segment: 0, entries: 0 });
    }
  });

  test('it finds nothing to do in an open segment', async () => {
    const sheet = await closedSheet();
    const contents = await sheet.contents();
    expect(await undoExpiry(sheet.deps, { log: sheet.log, segment: 1 })).toEqual({ segment: 1, entries: 0 });
    expect(await sheet.contents()).toEqual(contents);
  });

  test('it fails if the segment does not exist', async () => {
    const sheet = await closedSheet();
    const unexpiring = undoExpiry(sheet.deps, { log: sheet.log, segment: 9 });
    await expect(unexpiring).rejects.toThrow(SegmentNotFoundError);
  });

  test.each([
    ['first', 0],
    ['middle', 5],
    ['last', 8],
  ])('it fails if the %s entry is missing, and changes nothing', async (_, gone) => {
    const sheet = await archivedSheet();
    await expire(sheet, TTL);
    sheet.tables.expireNow(G, ({ position }) => position.entry === gone);
    const contents = await sheet.contents();
    await expect(unexpire(sheet)).rejects.toThrow(SegmentStateError);
    expect(await sheet.contents()).toEqual(contents);
  });

  test('it works beside an expire job that stamps: no entry keeps an expiry', { tags: ['I5'] }, async () => {
    for (let nth = 1; nth <= 9; nth++) {
      const sheet = await archivedSheet();
      const interceptor = actBefore('setEntryExpiry', nth, () => unexpire(sheet));
      const expiring = expire(sheet, TTL, { deps: interceptDeps(sheet, interceptor) });
      await expect(expiring).rejects.toThrow(SegmentStateError);
      expect(await expiries(sheet), `stamp ${nth}`).toEqual(Array.from({ length: 9 }, () => undefined));
      expect((await sheet.segmentItem()).expiry).toBeUndefined();
    }
  });

  test('it works beside an expire job whose time is up', async () => {
    for (let nth = 1; nth <= 8; nth++) {
      const sheet = await archivedSheet(8);
      const interceptor = actBefore('setEntryExpiry', nth, () => unexpire(sheet));
      const deps = { ...interceptDeps(sheet, interceptor), deadline: 0 };
      await expect(expire(sheet, TTL, { deps })).rejects.toThrow(SegmentStateError);
      expect(await expiries(sheet), `stamp ${nth}`).toEqual(Array.from({ length: 9 }, () => undefined));
    }
  });

  test.each([UNARCHIVED, UNARCHIVED_DELETE])(
    'it keeps entries without an archive, even if a job expires a batch: $expire',
    { tags: ['I5'] },
    async (policy) => {
      for (let nth = 1; nth <= (policy.expire === 'ttl' ? 3 : 1); nth++) {
        const sheet = await announcedSheet(policy);
        const { log } = sheet;
        const before = await sheet.items();
        // The batch in flight must not expire, although the job dies before it sees the undo.
        await dieAt(
          sheet,
          { operation: await nthOf('expireEntries', nth, policy), when: 'after' },
          (_, interceptor) => {
            const first = actBefore('expireEntries', nth, () => unexpire(sheet));
            const deps = interceptDeps(sheet, (name, effect) => interceptor(name, () => first(name, effect)));
            return expire(sheet, policy, { deps });
          },
        );
        expect(await sheet.items(), `batch ${nth}`).toEqual(before);
        expect((await sheet.segmentItem()).expiry).toBeUndefined();
        expect((await verify(sheet.deps, log)).problems).toEqual([]);
      }
    },
  );

  test('it is refused if a job expires the segment again in the middle, and no entry stays', async () => {
    for (const policy of [TTL, UNARCHIVED]) {
      const sheet = await closedSheet();
      if (policy.archive) await sheet.archive(0);
      await expire(sheet, policy);
      // The job runs after the first of three pages of the undo.
      const interceptor = actBefore('unexpireEntries', 2, () => expire(sheet, policy));
      const undoing = undoExpiry(interceptDeps(sheet, interceptor), { log: sheet.log, segment: 0 });
      await expect(undoing).rejects.toThrow(SegmentStateError);
      const segment = await sheet.segmentItem();
      const expires = expiresAt(segment);
      expect(expiredEntries(segment)).toBe(9);
      expect(await expiries(sheet)).toEqual(Array.from({ length: 9 }, () => String(expires)));
    }
  });

  test.each(BOTH)('a segment still expires after an undo that died: $expire', async (policy) => {
    const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => undoExpiry(deps, { log: sheet.log, segment: 0 });
    const reference = await archivedSheet();
    await expire(reference, policy);
    for (const death of await deathsOf(reference, job(reference))) {
      const sheet = await archivedSheet();
      await expire(sheet, policy);
      await dieDuring(sheet, death, job(sheet));
      // Run the jobs of the policy on the following days.
      for (let day = 0; day < 3; day++) {
        const segments = await Array.fromAsync(sheet.tables.segments(sheet.log));
        for (const { kind } of planRetention(segments, policy, sheet.nowMs)) {
          expect(kind).toBe('expire');
          await expire(sheet, policy);
        }
        sheet.nowMs += 24 * 3600 * 1000;
        sheet.tables.expireNow(sheet.nowMs / 1000);
      }
      expect(await sheet.items(), `died ${death.when} ${death.name} (${death.operation})`).toEqual([]);
    }
  });

  test('it continues after it died', async () => {
    const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => undoExpiry(deps, { log: sheet.log, segment: 0 });
    const reference = await archivedSheet();
    const contents = await reference.contents();
    await expire(reference, TTL);
    for (const death of await deathsOf(reference, job(reference))) {
      const sheet = await archivedSheet();
      await expire(sheet, TTL);
      await dieDuring(sheet, death, job(sheet));
      await unexpire(sheet);
      expect(await sheet.contents(), `died ${death.when} ${death.name} (${death.operation})`).toEqual(contents);
    }
  });
});

test('no segment expires before 1970, even with a wrong clock', async () => {
  const expiring = await archivedSheet();
  const gone = await announcedSheet(DELETE);
  const segmentOf = ({ tables, log }: SheetLog) => tables.getSegment(log, 0);
  const segments = [await segmentOf(expiring), await segmentOf(gone)];
  for (const sheet of [expiring, gone]) sheet.nowMs = -1e12;
  await expect(expire(expiring, TTL, { options: { byHand: true } })).rejects.toThrow(ClockInvalidError);
  await expect(restoreFirst(gone)).rejects.toThrow(ClockInvalidError);
  expect([await segmentOf(expiring), await segmentOf(gone)]).toEqual(segments);
});
