import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { ItemInvalidError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { clearStop } from '../../src/snapshot/stop.ts';
import { parseKey } from '../../src/store/keys.ts';
import { allLogs, logStatus, logsByAge, segmentStatuses } from '../../src/workers/audit/status.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { expired, expiredEntries, expiring } from '../support/segments.ts';
import { SheetLog } from '../support/sheet-log.ts';

function unexpected(error: Error): never {
  throw error;
}

const cell = { type: 'Set', cells: [[0, 0, 'a']] } as const;

describe('status', () => {
  test('a log without snapshots is all lag', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(cell, cell);
    expect(await logStatus(sheet.deps, sheet.log)).toEqual({
      log: sheet.log,
      segments: 1,
      archived: 0,
      expiring: 0,
      expired: 0,
      entries: 3,
      lastSnapshot: null,
      lagEntries: 3,
      chunks: 0,
      bytes: 0,
      bufferedEdits: 0,
      stopped: null,
      foreign: { archives: 0, pointers: 0, roots: 0 },
    });
  });

  test('it counts the entries after the newest snapshot as lag', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(cell, cell);
    const position = await sheet.completed();
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ entries: 4, lastSnapshot: position, lagEntries: 0 });
    await sheet.edit(cell, cell, cell);
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ entries: 7, lastSnapshot: position, lagEntries: 3 });
    await sheet.snapshot();
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ entries: 8, lastSnapshot: position, lagEntries: 4 });
  });

  test('it counts over segments, whether or not the newest has a snapshot', async () => {
    const sheet = await SheetLog.create();
    const first = await sheet.completed();
    await sheet.edit(cell);
    const second = await sheet.segment();
    // Snapshot, Snapshot, edit, End Segment; then Snapshot.
    const behind = { segments: 2, entries: 5, lastSnapshot: first, lagEntries: 3 };
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject(behind);
    await sheet.complete(second);
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ ...behind, lastSnapshot: second, lagEntries: 0 });
    await sheet.segment();
    await sheet.edit(cell, cell);
    const third = { segments: 3, entries: 9, lastSnapshot: second, lagEntries: 4 };
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject(third);
  });

  test('it counts the stored chunks, with their bytes', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await sheet.fill(60, 3);
    await sheet.completed();
    const { objects } = await sheet.contents();
    const chunks = Object.entries(objects).filter(([key]) => parseKey(key)?.kind === 'chunk');
    expect(chunks.length).toBeGreaterThan(5);
    const bytes = chunks.reduce((total, [, base64]) => total + Buffer.from(base64, 'base64').length, 0);
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ chunks: chunks.length, bytes });
  });

  test('it says why and since when a log is stopped, until the log is resumed', { tags: ['I7'] }, async () => {
    const sheet = await SheetLog.create();
    const poison = await sheet.append({ type: 'Pivot', version: 1 });
    await sheet.complete(await sheet.snapshot());
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({
      lastSnapshot: null,
      lagEntries: 3,
      stopped: {
        code: 'ENTRY_TYPE_UNKNOWN',
        message: expect.stringContaining("'Pivot'"),
        ...poison,
        since: NOON * 1000,
      },
    });
    await clearStop(sheet.blobs, sheet.log);
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({ stopped: null });
  });

  describe('a log with archives', () => {
    const DAY = 24 * 3600;

    /** Ten segments. The entries of the first five are gone, those of the sixth leave tomorrow. */
    async function leaving() {
      const sheet = await SheetLog.create();
      for (let segment = 0; segment < 10; segment++) {
        await sheet.completed();
        await sheet.edit(cell);
        await sheet.complete(await sheet.segment());
        await sheet.archive(segment);
      }
      for (let segment = 0; segment < 6; segment++) {
        const expires = NOON + (segment === 5 ? DAY : -DAY);
        const before = await sheet.segmentItem(segment);
        await sheet.tables.setExpiration(before, expiring(expires));
        const items = await sheet.items(segment);
        await sheet.tables.setExpiration(await sheet.segmentItem(segment), expired(expires, items.length));
        if (segment < 5) await sheet.tables.deleteEntries(sheet.log, segment, [...items.keys()]);
      }
      const deps = { ...sheet.deps, store: sheet.tables };
      return { sheet, deps };
    }

    test('the status opens no archive, and a missing one does not matter', async () => {
      const { sheet, deps } = await leaving();
      const usage = new MeteredBlobStore(sheet.blobs);
      const whole = await logStatus({ ...deps, blobs: usage }, sheet.log);
      // The note that says why a log is stopped; the newest root is in its entry.
      expect(usage.usage().gets).toBe(1);
      const archive = (await sheet.segmentItem(1)).archive?.key ?? '';
      await sheet.blobs.delete([archive]);
      expect(await logStatus(deps, sheet.log)).toEqual(whole);
      expect(whole).toMatchObject({ segments: 11, archived: 10, lagEntries: 0 });
    });

    test('it distinguishes expiring segments from expired ones', async () => {
      const { sheet, deps } = await leaving();
      expect(await logStatus(deps, sheet.log)).toMatchObject({ expiring: 1, expired: 5 });
      const segments = await segmentStatuses(deps, sheet.log);
      expect(segments.map(({ expired }) => expired)).toEqual([...Array(5).fill(true), ...Array(6).fill(false)]);
      sheet.nowMs += DAY * 1000;
      expect(await logStatus(deps, sheet.log)).toMatchObject({ expiring: 0, expired: 6 });
    });

    test('it counts the entries of the archive while they are restored', async () => {
      const { sheet, deps } = await leaving();
      const restored = await sheet.segmentItem(2);
      const entries = expiredEntries(restored);
      await sheet.tables.setExpiration(await sheet.segmentItem(2), expiring(NOON + DAY));
      const [first] = await segmentStatuses(deps, sheet.log);
      const segments = await segmentStatuses(deps, sheet.log);
      expect(segments[2]).toMatchObject({ entries, expired: false });
      expect(first).toMatchObject({ expired: true });
      await sheet.blobs.delete([restored.archive?.key ?? '']);
      expect((await segmentStatuses(deps, sheet.log))[2]).toMatchObject({ entries: 0, archived: true });
    });
  });

  test('it fails if the log does not exist', async () => {
    const { deps } = await SheetLog.create();
    const another = parseLogId('0192f7a0-5b1c-7d3e-8f10-000000000000');
    await expect(logStatus(deps, another)).rejects.toMatchObject({ code: 'LOG_NOT_FOUND', log: another });
  });
});

test('all logs are listed once each, in order, however many segments they have', async () => {
  const store = new MemoryLogStore();
  const ids = ['c', 'a', 'b'].map((letter) => parseLogId(`0192f7a0-0000-7000-8000-00000000000${letter}`));
  for (const log of ids) {
    const entry = { log, created: 1, type: 'Snapshot', version: 1 };
    await store.createLog({ log, segment: 0, created: 1 }, { ...entry, position: { segment: 0, entry: 0 } });
    const end = { ...entry, type: 'End Segment', position: { segment: 0, entry: 1 } };
    const first = { ...entry, position: { segment: 1, entry: 0 } };
    await store.startSegment({ end, segment: { log, segment: 1, created: 1 }, first });
  }
  expect(await allLogs(store)).toEqual([...ids].sort());
  expect(await allLogs(new MemoryLogStore())).toEqual([]);
});

test('logs are listed by creation time, the oldest first', async () => {
  const store = new MemoryLogStore();
  const log = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');
  const older = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e80');
  for (const segment of [0, 1]) await store.putSegment({ log, segment, created: NOON / 1000 + segment });
  for (const segment of [0, 1]) await store.putSegment({ log: older, segment, created: NOON / 1000 - 2 + 9 * segment });
  expect(await logsByAge(store, unexpected)).toEqual([older, log]);
});

test('a malformed segment of any owner keeps no log from the list', async () => {
  const store = new MemoryLogStore();
  const [log, torn] = [newLogId(), newLogId()];
  await store.putSegment({ log: torn, segment: 0, created: -1 });
  await store.putSegment({ log, segment: 0, created: NOON / 1000 });
  const stranger = new ItemInvalidError('S is not an id of a segment');
  const scanned: Pick<LogStore, 'allSegments'> = {
    async *allSegments(part, onInvalid) {
      onInvalid?.(stranger);
      yield* store.allSegments(part, onInvalid);
    },
  };
  const strangers: unknown[] = [];
  expect(await logsByAge(scanned, (error) => strangers.push(error))).toEqual([log, torn]);
  expect(strangers).toEqual([stranger]);
});

test('a log is listed although one of its segments is malformed', async () => {
  const store = new MemoryLogStore();
  const log = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');
  await store.putSegment({ log, segment: 0, created: -1 });
  expect(await allLogs(store)).toEqual([log]);
});
