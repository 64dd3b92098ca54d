import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { ArchiveDiffersError, SegmentNotFoundError, SegmentStateError } from '../../src/errors.ts';
import type { Item } from '../../src/log/attribute.ts';
import { writeUnits } from '../../src/log/item-size.ts';
import { MAX_BATCH_ITEMS } from '../../src/log/log-store.ts';
import { expiresAt } from '../../src/log/segment.ts';
import { planRetention, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type ExpireDeps, type ExpireResult, expireSegment } from '../../src/workers/retention/expire-segment.ts';
import {
  type RestoreOptions,
  type RestoreResult,
  restoreSegment,
} from '../../src/workers/retention/restore-segment.ts';
import { allItems, joined, partsOfItems, storeArchive } from '../support/archives.ts';
import { deathsOf, dieDuring } from '../support/die-at.ts';
import { NOON } from '../support/logs.ts';
import { expiring, ON_HOLD } from '../support/segments.ts';
import { SheetLog, set } from '../support/sheet-log.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';

/** Seconds. */
const GRACE = 3600;
const HOLD = 5 * GRACE;
const G = NOON + GRACE;
const ENTRIES = 12;
const TTL: RetentionPolicy = {
  keepSegments: 1,
  keepDays: 0,
  archive: true,
  expire: 'ttl',
  graceSeconds: GRACE,
  keepSnapshots: 'all',
};
const DELETE: RetentionPolicy = { ...TTL, expire: 'delete' };

/** Creates a log whose first segment is archived, in frames of 5, 5 and 2 entries. */
async function archivedSheet(tables?: MemoryLogStore): Promise<SheetLog> {
  const sheet = await SheetLog.create(undefined, tables);
  await sheet.fill(20, 3);
  const last = await sheet.completed();
  for (let i = 0; i < ENTRIES - 4; i++) await sheet.edit(set(i, 0, `edit ${i}`));
  await sheet.covered();
  const attributes = {
    M: { tags: { SS: ['a', 'ü'] }, sizes: { NS: ['-1', '2.50'] }, raw: { BS: [Uint8Array.of(0)] } },
  };
  const item = (await sheet.items())[6];
  await sheet.tables.putItems([
    { ...item, 'name of another': attributes, '': { L: [{ NULL: true }, { BOOL: false }] } },
  ]);
  const items = await sheet.items();
  expect(items).toHaveLength(ENTRIES);
  const { archive } = await storeArchive(sheet.blobs, joined(partsOfItems(items, 5)));
  expect(await sheet.tables.setArchive(await sheet.segmentItem(), { ...archive, root: await sheet.ref(last) })).toBe(
    true,
  );
  return sheet;
}

/** Creates such a log whose `gone` entries are deleted and whose others have their expiry. */
async function expiredSheet(
  gone: (entry: number) => boolean,
  tables?: MemoryLogStore,
): Promise<{ sheet: SheetLog; items: readonly Item[] }> {
  const sheet = await archivedSheet(tables);
  const items = await sheet.items();
  await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, TTL);
  sheet.tables.expireNow(G, ({ position }) => gone(position.entry));
  sheet.nowMs = G * 1000;
  return { sheet, items };
}

function restore(
  sheet: SheetLog,
  options: Partial<RestoreOptions> = {},
  deps: Partial<ExpireDeps> = {},
): Promise<RestoreResult> {
  const place = { log: sheet.log, segment: 0 };
  return restoreSegment({ ...sheet.deps, ...deps }, place, { holdSeconds: HOLD, ...options });
}

function itemsOf(tables: MemoryLogStore, sheet: SheetLog): Promise<Item[]> {
  return allItems(tables.items(sheet.log, { segment: 0, from: 0, to: 1000 }));
}

describe('a segment is restored', () => {
  test.each([
    ['all entries', () => true, ENTRIES],
    ['the first entry', (entry: number) => entry === 0, 1],
    ['the last entry', (entry: number) => entry === ENTRIES - 1, 1],
    ['every third entry', (entry: number) => entry % 3 === 0, 4],
    ['a frame', (entry: number) => entry >= 5 && entry < 10, 5],
    ['no entry', () => false, 0],
  ])('a restore completes a segment whose other entries have their expiry (deleted: %s)', async (_, gone, restored) => {
    const { sheet, items } = await expiredSheet(gone);
    const contents = await sheet.contents();
    const result = { segment: 0, entries: ENTRIES, restored, unexpired: ENTRIES - restored };
    expect(await restore(sheet, { dryRun: true })).toEqual(result);
    expect(await sheet.contents()).toEqual(contents);
    expect(await restore(sheet)).toEqual(result);
    expect(await sheet.items()).toEqual(items);
    expect((await sheet.segmentItem()).expiry).toEqual(expiring(G + HOLD));
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('if only some entries have their expiry, a restore completes it', async () => {
    const sheet = await archivedSheet();
    const items = await sheet.items();
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(G));
    for (const entry of [0, 1, 7]) await sheet.tables.setEntryExpiry(sheet.log, { segment: 0, entry }, G);
    await sheet.tables.deleteEntries(sheet.log, 0, [2, 3]);
    expect(await restore(sheet)).toEqual({ segment: 0, entries: ENTRIES, restored: 2, unexpired: 3 });
    expect(await sheet.items()).toEqual(items);
  });

  test('a segment that never expired is restored if somebody deleted entries', async () => {
    const sheet = await archivedSheet();
    const contents = await sheet.contents();
    await sheet.tables.deleteEntries(sheet.log, 0, [4, 5]);
    expect(await restore(sheet)).toEqual({ segment: 0, entries: ENTRIES, restored: 2, unexpired: 0 });
    expect(await sheet.contents()).toEqual(contents);
    expect(await restore(sheet)).toEqual({ segment: 0, entries: ENTRIES, restored: 0, unexpired: 0 });
    expect(await sheet.contents()).toEqual(contents);
  });

  test('a segment is restored although an entry is deleted right before it loses its expiry', async () => {
    const { sheet, items } = await expiredSheet(() => false);
    const tables = interceptLogStore(sheet.tables, async (name, effect) => {
      if (name === 'setEntryExpiry') sheet.tables.expireNow(G, ({ position }) => position.entry === 7);
      return effect();
    });
    // The entries before 7 have lost their stamp already.
    expect(await restore(sheet, {}, { tables })).toMatchObject({ entries: ENTRIES, restored: 1 });
    expect(await sheet.items()).toEqual(items);
  });

  test('a restore keeps to the rate limit, in batches', async () => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    for (let i = 0; i < 60; i++) await sheet.edit(set(i, 0, 'x'.repeat(i * 40)));
    await sheet.covered();
    await sheet.archive(0);
    const items = await sheet.items();
    for (let entry = 0; entry < items.length; entry++) await sheet.tables.deleteEntries(sheet.log, 0, [entry]);
    const taken: number[] = [];
    const reached: number[] = [];
    const onEntries = (entries: number): void => void reached.push(entries);
    await restore(sheet, {}, { rateLimiter: { take: async (units) => void taken.push(units) }, onEntries });
    expect(reached).toEqual([MAX_BATCH_ITEMS, 2 * MAX_BATCH_ITEMS, items.length, items.length]);
    const units = items.map(writeUnits);
    const batches = [0, 1, 2].map((i) => units.slice(i * MAX_BATCH_ITEMS, (i + 1) * MAX_BATCH_ITEMS));
    expect(taken).toEqual(batches.map((batch) => batch.reduce((sum, each) => sum + each, 0)));
    expect(await sheet.items()).toEqual(items);
  });
});

describe('a segment is restored into other tables', () => {
  test('its item is restored too, and the source does not change', async () => {
    const { sheet, items } = await expiredSheet((entry) => entry % 2 === 0);
    const into = new MemoryLogStore();
    const contents = await sheet.contents();
    const result = { segment: 0, entries: ENTRIES, restored: ENTRIES, unexpired: 0 };
    expect(await restore(sheet, { into, dryRun: true })).toEqual(result);
    expect(await itemsOf(into, sheet)).toEqual([]);
    expect(await into.getSegment(sheet.log, 0)).toBeUndefined();
    expect(await restore(sheet, { into })).toEqual(result);
    expect(await itemsOf(into, sheet)).toEqual(items);
    const { expiry: _, ...rest } = await sheet.segmentItem();
    expect(await into.getSegment(sheet.log, 0)).toEqual(rest);
    expect(await sheet.contents()).toEqual(contents);
    expect(await restore(sheet, { into })).toEqual({ ...result, restored: 0 });
  });

  test('an existing segment of this number stays unchanged', async () => {
    const { sheet } = await expiredSheet(() => true);
    const into = new MemoryLogStore();
    const { archive, created } = await sheet.segmentItem();
    const there = { log: sheet.log, segment: 0, created: created + 1, archive };
    await into.putSegment(there);
    await restore(sheet, { into });
    expect(await into.getSegment(sheet.log, 0)).toMatchObject({ created: created + 1 });
    expect(await itemsOf(into, sheet)).toHaveLength(ENTRIES);
  });

  test('an expired segment is restored and stays as long as requested', async () => {
    const { sheet, items } = await expiredSheet(() => true);
    const into = new MemoryLogStore();
    await into.putSegment(await sheet.segmentItem());
    await restore(sheet, { into });
    expect(await itemsOf(into, sheet)).toEqual(items);
    expect((await into.getSegment(sheet.log, 0))?.expiry).toEqual(expiring(G + HOLD));
  });
});

describe('a segment cannot be restored', () => {
  test('a missing segment, or one without an archive, is refused', async () => {
    const sheet = await archivedSheet();
    const contents = await sheet.contents();
    const deps = sheet.deps;
    const other = (segment: number) => restoreSegment(deps, { log: sheet.log, segment }, { holdSeconds: HOLD });
    await expect(other(1)).rejects.toThrow(SegmentStateError);
    await expect(other(2)).rejects.toThrow(SegmentNotFoundError);
    expect(await sheet.contents()).toEqual(contents);
  });

  test('a restore refuses an entry in the table that differs from the archive', { tags: ['I3'] }, async () => {
    const { sheet, items } = await expiredSheet((entry) => entry !== 7);
    const altered = { ...items[7], foreign: { S: 'altered' } };
    await sheet.tables.putItems([altered]);
    const restoring = restore(sheet);
    await expect(restoring).rejects.toThrow(ArchiveDiffersError);
    await expect(restoring).rejects.toMatchObject({ log: sheet.log, segment: 0, entry: 7 });
    expect(await sheet.items()).toEqual([...items.slice(0, 5), altered]);
  });

  test('a restore refuses an entry after the end of the archive', async () => {
    const { sheet, items } = await expiredSheet(() => true);
    const following: Item = { ...items[3], N: { N: String(ENTRIES) } };
    await sheet.tables.putItems([following]);
    const restoring = restore(sheet);
    await expect(restoring).rejects.toThrow(ArchiveDiffersError);
    await expect(restoring).rejects.toMatchObject({ log: sheet.log, segment: 0, entry: ENTRIES });
    expect(await sheet.items()).toEqual([...items, following]);
    await expect(restore(sheet, { dryRun: true })).rejects.toThrow(ArchiveDiffersError);
  });

  test('a restore refuses an archive that is missing or truncated', async () => {
    for (const keep of [0, 1, 100, 'all but one'] as const) {
      const { sheet } = await expiredSheet(() => true);
      const contents = await sheet.contents();
      const key = (await sheet.segmentItem()).archive?.key ?? '';
      const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
      if (keep === 0) await sheet.blobs.delete([key]);
      else await sheet.blobs.put(key, bytes.slice(0, keep === 'all but one' ? -1 : keep));
      await expect(restore(sheet)).rejects.toMatchObject({
        code: keep === 0 ? 'ARCHIVE_MISSING' : 'ARCHIVE_CORRUPT',
        segment: 0,
      });
      const { entries, segments } = await sheet.contents();
      expect([entries, segments]).toEqual([contents.entries, contents.segments]);
    }
  });

  test('a damaged frame is not restored, not even in part', async () => {
    const { sheet, items } = await expiredSheet(() => true);
    const key = (await sheet.segmentItem()).archive?.key ?? '';
    const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
    const [first, second] = partsOfItems(items, 5).frames.map(({ length }) => length);
    const middle = (first ?? 0) + Math.floor((second ?? 0) / 2);
    bytes[middle] = (bytes[middle] ?? 0) ^ 1;
    await sheet.blobs.put(key, bytes);
    await expect(restore(sheet)).rejects.toMatchObject({ code: 'ARCHIVE_CORRUPT', segment: 0 });
    expect(await sheet.items()).toEqual(items.slice(0, 5));
  });
});

test('a segment is restored, wherever the job before died', async () => {
  const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => restore(sheet, {}, deps);
  const prepared = async (): Promise<SheetLog> => (await expiredSheet((entry) => entry % 3 !== 0)).sheet;
  const reference = await prepared();
  const deaths = await deathsOf(reference, job(reference));
  const names = deaths.map(({ name }) => name);
  for (const name of ['getSegment', 'getRange', 'setExpiration', 'items', 'setEntryExpiry', 'putItems']) {
    expect(names).toContain(name);
  }
  const whole = await reference.contents();
  for (const death of deaths) {
    const sheet = await prepared();
    await dieDuring(sheet, death, job(sheet));
    await restore(sheet);
    expect(await sheet.contents(), `died ${death.when} ${death.name} (${death.operation})`).toEqual(whole);
  }
});

describe('a restored segment', () => {
  test('it stays until the requested time if the policy deletes', async () => {
    const { sheet, items } = await expiredSheet(() => true);
    await restore(sheet);
    const plan = async () =>
      planRetention(await Array.fromAsync(sheet.tables.segments(sheet.log)), DELETE, sheet.nowMs);
    const expire = () => expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, DELETE);
    sheet.nowMs = (G + HOLD) * 1000 - 1;
    expect(await plan()).toEqual([]);
    expect(await expire()).toEqual({ outcome: 'waiting', segment: 0, expires: G + HOLD });
    expect(await sheet.items()).toEqual(items);
    sheet.nowMs++;
    expect(await plan()).toEqual([{ kind: 'expire', log: sheet.log, segment: 0 }]);
    expect(await expire()).toMatchObject({ outcome: 'expired', entries: ENTRIES });
    expect(await sheet.items()).toEqual([]);
  });

  test('a job that ran before all entries were restored does not mark it as expired', { tags: ['I5'] }, async () => {
    for (const policy of [TTL, DELETE]) {
      const { sheet } = await expiredSheet(() => true);
      const place = { log: sheet.log, segment: 0 };
      let puts = 0;
      const tables = interceptLogStore(sheet.tables, async (name, effect) => {
        if (name === 'putItems' && ++puts === 2) await expireSegment(sheet.deps, place, policy);
        return effect();
      });
      await restore(sheet, {}, { tables });
      expect(puts).toBeGreaterThan(1);
      expect(await sheet.items()).toHaveLength(ENTRIES);
      // The segment expires again after its hold.
      for (let times = 0; times < 3; times++) {
        sheet.nowMs += (HOLD + GRACE) * 1000;
        sheet.tables.expireNow(sheet.nowMs / 1000);
        await expireSegment(sheet.deps, place, policy);
      }
      expect(await sheet.items()).toEqual([]);
    }
  });

  test('it expires completely if one run of a job came before all entries were restored and the next after that', async () => {
    const { sheet } = await expiredSheet(() => false, new MemoryLogStore({ pageItems: 4 }));
    const place = { log: sheet.log, segment: 0 };
    let run: ExpireResult | undefined;
    const tables = interceptLogStore(sheet.tables, async (name, effect) => {
      // The restore removes the stamps of this run.
      if (name === 'setEntryExpiry') run ??= await expireSegment({ ...sheet.deps, deadline: 0 }, place, TTL);
      return effect();
    });
    await restore(sheet, {}, { tables });
    if (run?.outcome !== 'progress') throw new Error("the job's time must be up");
    const next = { ...place, from: run.reached, announced: run.expires };
    await expireSegment(sheet.deps, next, TTL);
    const expires = expiresAt(await sheet.segmentItem());
    const stamps = (await sheet.items()).map(({ X }) => (X !== undefined && 'N' in X ? X.N : undefined));
    expect(stamps).toEqual(Array.from({ length: ENTRIES }, () => String(expires)));
  });

  test('it stays for the same time if it expires immediately', async () => {
    const { sheet } = await expiredSheet(() => true);
    await restore(sheet);
    const expiring = expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, TTL);
    expect(await expiring).toEqual({ outcome: 'expired', segment: 0, entries: ENTRIES, expires: G + HOLD });
    expect(sheet.tables.expireNow(G + HOLD - 1)).toEqual([]);
    expect(sheet.tables.expireNow(G + HOLD)).toHaveLength(ENTRIES);
  });
});

test('a restore during a deletion misses at most the running batch', async () => {
  const sheet = await SheetLog.create();
  for (let i = 0; i < 120; i++) await sheet.edit(set(i, 0, `edit ${i}`));
  await sheet.completed();
  await sheet.covered();
  await sheet.archive();
  const entries = (await sheet.items()).length;
  const place = { log: sheet.log, segment: 0 };
  await expireSegment(sheet.deps, place, DELETE);
  sheet.nowMs += 2 * GRACE * 1000;
  let deletes = 0;
  const tables = interceptLogStore(sheet.tables, async (name, effect) => {
    if (name === 'deleteEntries' && ++deletes === 2) await restore(sheet);
    return effect();
  });
  const job = expireSegment({ ...sheet.deps, tables }, place, DELETE);
  await expect(job).rejects.toThrow(SegmentStateError);
  expect(deletes).toBe(2);
  expect((await sheet.items()).length).toBe(entries - MAX_BATCH_ITEMS);
  expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
});

test('a restore is refused while an undo of the expiry runs', async () => {
  const { sheet } = await expiredSheet((entry) => entry === 0);
  let reads = 0;
  const tables = interceptLogStore(sheet.tables, async (name, effect) => {
    if (name === 'getSegment' && ++reads === 3) {
      await sheet.tables.setExpiration(await sheet.segmentItem(), ON_HOLD);
    }
    return effect();
  });
  await expect(restore(sheet, {}, { tables })).rejects.toThrow(SegmentStateError);
  expect((await sheet.segmentItem()).expiry).toEqual(ON_HOLD);
  await restore(sheet);
  expect((await sheet.segmentItem()).expiry).toEqual(expiring(G + HOLD));
});
