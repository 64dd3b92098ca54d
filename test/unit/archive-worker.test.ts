import { describe, expect, test } from 'vitest';
import { openArchive } from '../../src/archive/reader.ts';
import {
  ArchiveDiffersError,
  EntryGapError,
  LogfoldError,
  SegmentNotFoundError,
  SegmentStateError,
} from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { archivePrefix } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { findGcCandidates } from '../../src/workers/gc/candidates.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import { archiveSegment, planArchive } from '../../src/workers/retention/archive-segment.ts';
import { allItems } from '../support/archives.ts';
import { deathsOf, dieDuring } from '../support/die-at.ts';
import { expiring } from '../support/segments.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

/** Creates a log whose first segment is closed and covered, with a complete snapshot inside. */
async function coveredSheet(): Promise<{ readonly sheet: SheetLog; readonly last: Position }> {
  const sheet = await SheetLog.create();
  await sheet.fill(20, 3);
  const last = await sheet.completed();
  for (let i = 0; i < 5; i++) await sheet.edit(set(i, 0, `edit ${i}`));
  await sheet.covered();
  return { sheet, last };
}

async function archivedItems(sheet: SheetLog, segment = 0): Promise<Item[]> {
  const archive = await openArchive(sheet.deps, await sheet.segmentItem(segment));
  return allItems(archive.items(0, archive.end));
}

/** Calls `act` once, before or after the first operation of a name. */
function once(when: 'before' | 'after', operation: string, act: () => Promise<unknown>): Interceptor {
  let done = false;
  return async (name, effect) => {
    const now = name === operation && !done;
    if (now) done = true;
    if (now && when === 'before') await act();
    const answer = await effect();
    if (now && when === 'after') await act();
    return answer;
  };
}

async function expectNotArchived(sheet: SheetLog): Promise<void> {
  const segment = await sheet.segmentItem();
  expect(segment.archive).toBeUndefined();
  expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([]);
}

describe('a segment that cannot be archived', () => {
  test('an open segment is refused', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(3, 3);
    await sheet.completed();
    const before = await sheet.contents();
    await expect(sheet.archive(0)).rejects.toThrow(SegmentStateError);
    await expect(sheet.archive(0)).rejects.toMatchObject({ log: sheet.log, segment: 0 });
    expect(await sheet.contents()).toEqual(before);
  });

  test('a segment is refused if the next one has no complete snapshot', async () => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    const next = await sheet.segment();
    const before = await sheet.contents();
    await expect(sheet.archive(0)).rejects.toThrow(SegmentStateError);
    expect(await sheet.contents()).toEqual(before);
    await sheet.complete(next);
    expect(await sheet.archive(0)).toMatchObject({ outcome: 'archived', segment: 0 });
  });

  test('a missing segment is refused', async () => {
    const { sheet } = await coveredSheet();
    const before = await sheet.contents();
    await expect(sheet.archive(7)).rejects.toThrow(SegmentNotFoundError);
    expect(await sheet.contents()).toEqual(before);
  });

  test('an expiring segment is refused', async () => {
    const { sheet } = await coveredSheet();
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    const before = await sheet.contents();
    await expect(sheet.archive(0)).rejects.toThrow(SegmentStateError);
    expect(await sheet.contents()).toEqual(before);
  });

  test('a segment that lacks an entry is refused', async () => {
    const { sheet } = await coveredSheet();
    await sheet.tables.deleteEntries(sheet.log, 0, [4]);
    await expect(sheet.archive(0)).rejects.toThrow(EntryGapError);
    await expect(sheet.archive(0)).rejects.toMatchObject({ log: sheet.log, segment: 0, entry: 4 });
    await expectNotArchived(sheet);
  });

  test.each<[string, (sheet: SheetLog, last: Position) => Promise<unknown>]>([
    ['entries are expiring', async (sheet) => sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1))],
    ['an entry is missing', (sheet) => sheet.tables.deleteEntries(sheet.log, 0, [4])],
    ['the last snapshot is missing', (sheet, last) => sheet.tables.deleteEntries(sheet.log, 0, [last.entry])],
  ])('a plan is refused with the same error if %s', async (_, harm) => {
    const { sheet, last } = await coveredSheet();
    await harm(sheet, last);
    const failed = await sheet.archive(0).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(LogfoldError);
    await expect(planArchive(sheet.deps, { log: sheet.log, segment: 0 })).rejects.toEqual(failed);
  });
});

describe('an archive', () => {
  test('it holds every entry unchanged, and the segment names it', { tags: ['I3'] }, async () => {
    const { sheet } = await coveredSheet();
    const items = await sheet.items();
    const [item] = items.splice(3, 1);
    const altered: Item = {
      ...item,
      remark: { M: { tags: { SS: ['a', 'b'] }, numbers: { NS: ['1', '2.5'] }, bytes: { BS: [Uint8Array.of(1, 2)] } } },
    };
    await sheet.tables.putItems([altered]);
    const before = await sheet.items();
    const result = await sheet.archive(0);
    const segment = await sheet.segmentItem();
    expect(result).toMatchObject({ outcome: 'archived', segment: 0, key: segment.archive?.key });
    expect(result).toMatchObject({ entries: before.length });
    expect(await archivedItems(sheet)).toEqual(before);
    expect(await sheet.items()).toEqual(before);
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([segment.archive?.key]);
  });

  test('a plan describes the archive and does not write it', async () => {
    const { sheet } = await coveredSheet();
    const before = await sheet.contents();
    const plan = await planArchive(sheet.deps, { log: sheet.log, segment: 0 });
    expect(await sheet.contents()).toEqual(before);
    expect(await sheet.archive(0)).toMatchObject({ ...plan, outcome: 'archived' });
    expect(await planArchive(sheet.deps, { log: sheet.log, segment: 0 })).toMatchObject({ outcome: 'present' });
  });

  test('several jobs write one archive', async () => {
    const { sheet } = await coveredSheet();
    const first = await sheet.archive(0);
    const before = await sheet.contents();
    expect(await sheet.archive(0)).toEqual({ outcome: 'present', segment: 0, key: first.key });
    expect(await sheet.contents()).toEqual(before);
  });

  test('several concurrent jobs write one archive', async () => {
    const { sheet } = await coveredSheet();
    const results = await Promise.all([sheet.archive(0), sheet.archive(0), sheet.archive(0)]);
    expect(results.map(({ outcome }) => outcome).sort()).toEqual(['archived', 'present', 'present']);
    const archive = (await sheet.segmentItem()).archive?.key;
    expect(new Set(results.map(({ key }) => key))).toEqual(new Set([archive]));
    expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([archive]);
    expect(await archivedItems(sheet)).toEqual(await sheet.items());
  });

  test('it freezes the segment: neither Last Snapshot nor a root changes any more', { tags: ['I3'] }, async () => {
    const { sheet, last } = await coveredSheet();
    const root = await sheet.ref(last);
    if (root === undefined) throw new Error('no root');
    await sheet.archive(0);
    const before = await sheet.contents();
    expect(await sheet.tables.advanceLastSnapshot(sheet.log, { position: { segment: 0, entry: last.entry + 1 } })).toBe(
      false,
    );
    expect(await sheet.tables.replaceRoot(sheet.log, last, root, { inline: Uint8Array.of(1) })).toBe(false);
    expect(await sheet.contents()).toEqual(before);
  });
});

describe('while an archive is written', () => {
  test('an older Snapshot entry may get a root', async () => {
    for (const operation of ['items', 'putStream', 'uploadPart', 'finishUpload', 'getRange', 'setArchive']) {
      const sheet = await SheetLog.create();
      await sheet.fill(5, 2);
      const older = await sheet.snapshot();
      await sheet.fill(5, 2);
      const last = await sheet.completed();
      await sheet.covered();
      const interceptor = once('before', operation, () => sheet.complete(older));
      expect(await sheet.archive(0, interceptDeps(sheet, interceptor)), operation).toMatchObject({
        outcome: 'archived',
      });
      expect(await sheet.ref(older), operation).toBeDefined();
      expect(await sheet.lastSnapshot()).toBe(last.entry);
      expect((await archivedItems(sheet)).toSpliced(older.entry, 1)).toEqual(
        (await sheet.items()).toSpliced(older.entry, 1),
      );
    }
  });

  test('Last Snapshot may move: the archive is written once more with it', async () => {
    for (const operation of ['items', 'putStream', 'uploadPart', 'finishUpload', 'getRange', 'setArchive']) {
      const sheet = await SheetLog.create();
      await sheet.completed();
      await sheet.fill(5, 2);
      const late = await sheet.snapshot();
      await sheet.covered();
      let attempts = 0;
      const moving = once('before', operation, () => sheet.complete(late));
      const interceptor: Interceptor = (name, effect) => {
        if (name === 'putStream') attempts++;
        return moving(name, effect);
      };
      expect(await sheet.archive(0, interceptDeps(sheet, interceptor)), operation).toMatchObject({
        outcome: 'archived',
      });
      expect(attempts, operation).toBe(2);
      const segment = await sheet.segmentItem();
      expect(segment.lastSnapshot?.position.entry).toBe(late.entry);
      expect(await sheet.keys(archivePrefix(sheet.log))).toEqual([segment.archive?.key]);
      expect(await archivedItems(sheet)).toEqual(await sheet.items());
    }
  });

  test('the root of Last Snapshot may be replaced once, but not each time', async () => {
    const { sheet, last } = await coveredSheet();
    const replace = async (): Promise<void> => {
      const from = await sheet.ref(last);
      if (from === undefined || 'key' in from) throw new Error('no inline root');
      const to = { inline: Uint8Array.of(...from.inline, 0) };
      expect(await sheet.tables.replaceRoot(sheet.log, last, from, to)).toBe(true);
    };
    const always: Interceptor = async (name, effect) => {
      if (name === 'setArchive') await replace();
      return effect();
    };
    await expect(sheet.archive(0, interceptDeps(sheet, always))).rejects.toThrow(SegmentStateError);
    await expectNotArchived(sheet);
    const interceptor = once('before', 'setArchive', replace);
    expect(await sheet.archive(0, interceptDeps(sheet, interceptor))).toMatchObject({ outcome: 'archived' });
    expect(await archivedItems(sheet)).toEqual(await sheet.items());
  });

  test('no entry may disappear', async () => {
    for (const entry of [2, 4, 8]) {
      const { sheet } = await coveredSheet();
      expect(await sheet.items()).toHaveLength(9);
      const interceptor = once('after', 'finishUpload', () => sheet.tables.deleteEntries(sheet.log, 0, [entry]));
      const archiving = sheet.archive(0, interceptDeps(sheet, interceptor));
      await expect(archiving).rejects.toThrow(ArchiveDiffersError);
      await expect(archiving).rejects.toMatchObject({ log: sheet.log, segment: 0, entry });
      await expectNotArchived(sheet);
    }
  });

  test('no entry may change, and none may follow the end', async () => {
    const changes: ((items: readonly Item[]) => Item)[] = [
      (items) => ({ ...items[3], foreign: { S: 'new' } }),
      (items) => ({ ...items[3], N: { N: String(items.length) } }),
    ];
    for (const change of changes) {
      const { sheet } = await coveredSheet();
      const changed = change(await sheet.items());
      const interceptor = once('after', 'finishUpload', () => sheet.tables.putItems([changed]));
      const archiving = sheet.archive(0, interceptDeps(sheet, interceptor));
      await expect(archiving).rejects.toThrow(ArchiveDiffersError);
      await expect(archiving).rejects.toMatchObject({
        segment: 0,
        entry: Number(changed.N && Reflect.get(changed.N, 'N')),
      });
      await expectNotArchived(sheet);
    }
  });

  test('the stored object may not differ from what was sent', { tags: ['I3'] }, async () => {
    const { sheet } = await coveredSheet();
    const interceptor = once('after', 'finishUpload', async () => {
      const [key = ''] = await sheet.keys(archivePrefix(sheet.log));
      const bytes = (await sheet.blobs.get(key)) ?? new Uint8Array();
      bytes[20] = (bytes[20] ?? 0) ^ 1;
      await sheet.blobs.put(key, bytes);
    });
    await expect(sheet.archive(0, interceptDeps(sheet, interceptor))).rejects.toMatchObject({
      code: 'ARCHIVE_CORRUPT',
    });
    await expectNotArchived(sheet);
  });
});

test('an archive is written and nothing else is left, wherever the job before died', async () => {
  const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => archiveSegment(deps, { log: sheet.log, segment: 0 });
  const reference = await coveredSheet();
  const deaths = await deathsOf(reference.sheet, job(reference.sheet));
  const names = deaths.map(({ name }) => name);
  for (const name of ['getSegment', 'getEntry', 'items', 'putStream', 'finishUpload', 'getRange', 'setArchive']) {
    expect(names).toContain(name);
  }
  for (const death of deaths) {
    const { sheet } = await coveredSheet();
    const items = await sheet.items();
    await dieDuring(sheet, death, job(sheet));
    const where = `died ${death.when} ${death.name} (${death.operation})`;
    expect(await sheet.archive(0), where).toMatchObject({ segment: 0 });
    const options = { graceSeconds: 0, keepSnapshots: 'all' } as const;
    expect(await collectLog(sheet.deps, { log: sheet.log }, options), where).toMatchObject({ outcome: 'collected' });
    const archive = (await sheet.segmentItem()).archive?.key;
    expect(await sheet.keys(archivePrefix(sheet.log)), where).toEqual([archive]);
    expect(await archivedItems(sheet), where).toEqual(items);
    expect((await verify(sheet.deps, sheet.log)).problems, where).toEqual([]);
  }
});

test('a job that dies after it archived a segment has requested a collection', async () => {
  const job = (sheet: SheetLog) => (deps: SheetLog['deps']) => archiveSegment(deps, { log: sheet.log, segment: 0 });
  const { sheet: other } = await coveredSheet();
  const deaths = await deathsOf(other, job(other));
  const death = deaths.find(({ name, when }) => name === 'setArchive' && when === 'after');
  if (death === undefined) throw new Error('no archive was set');
  const { sheet } = await coveredSheet();
  await dieDuring(sheet, death, job(sheet));
  expect((await sheet.segmentItem()).archive).toBeDefined();
  sheet.nowMs += DEFAULT_POLICY.graceSeconds * 1000;
  const leftovers = await findGcCandidates({ ...sheet.deps, policyOf: () => DEFAULT_POLICY });
  expect([...leftovers.logs.keys()]).toEqual([sheet.log]);
  expect((await collectLog(sheet.deps, sheet, DEFAULT_POLICY)).outcome).toBe('collected');
});
