import { describe, expect, test } from 'vitest';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import type { Position } from '../../src/ids/position.ts';
import { encodeRoot } from '../../src/snapshot/root.ts';
import { logPrefix } from '../../src/store/keys.ts';
import { type Replayed, replay } from '../../src/workers/audit/replay.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { collectAfterEachGrace, refill } from '../support/gc-scenario.ts';
import { NOTE, versionedSheet } from '../support/models/versioned-sheet.ts';
import { SheetLog } from '../support/sheet-log.ts';

function replayed(sheet: SheetLog, at?: Position): Promise<Replayed> {
  return replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log, { at });
}

/** Two snapshots in two segments, each on top of the previous one, and a tail. */
async function twoSnapshots(): Promise<{ sheet: SheetLog; first: Position; second: Position; end: Position }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(40, 3);
  const first = await sheet.completed();
  await sheet.edit({ type: 'Insert Rows', position: 7, count: 2 });
  const second = await sheet.segment();
  await sheet.complete(second);
  const end = await sheet.edit({ type: 'Delete Columns', position: 1, count: 1 });
  return { sheet, first, second, end };
}

/** Completes a snapshot with a wrong state. Everything else about it is right. */
async function forge(sheet: SheetLog, position: Position, by: Position): Promise<void> {
  const root = await sheet.root(by);
  const forged = encodeRoot(sheet.deps.platform, { ...root, position });
  await sheet.tables.completeSnapshot(sheet.log, position, { inline: forged.stored });
  await sheet.tables.advanceLastSnapshot(
    sheet.log,
    { position },
    (await sheet.segmentItem(position.segment)).lastSnapshot,
  );
}

describe('replay', () => {
  test('it agrees with the newest snapshot, from the first entry onward', async () => {
    const { sheet, second } = await twoSnapshots();
    const stateHash = await sheet.stateHash(second);
    expect(await replayed(sheet)).toEqual({
      outcome: 'replayed',
      from: null,
      position: second,
      replayed: stateHash,
      stored: stateHash,
      equal: true,
      snapshot: second,
      // Two Snapshot entries, two edits and an End Segment.
      entries: 5,
    });
  });

  test('it agrees at any position with the snapshot before it and the entries since', async () => {
    const { sheet, first, second, end } = await twoSnapshots();
    expect(await replayed(sheet, first)).toMatchObject({ position: first, equal: true, snapshot: first, entries: 2 });
    const after = { segment: end.segment, entry: end.entry + 1 };
    expect(await replayed(sheet, after)).toMatchObject({ position: after, equal: true, snapshot: second, entries: 7 });
  });

  test('it compares with the stored snapshot at the position, also if Last Snapshot is past it', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit({ type: 'Set', cells: [[0, 0, 'a']] });
    const good = await sheet.completed();
    await sheet.edit({ type: 'Set', cells: [[0, 1, 'b']] });
    const bad = await sheet.snapshot();
    await forge(sheet, bad, good);
    await sheet.segment();
    const last = await sheet.snapshot();
    await sheet.complete(last);
    expect(await replayed(sheet, good)).toMatchObject({ position: good, equal: true, snapshot: good });
    const { stateHash } = await sheet.root(good);
    expect(await replayed(sheet, bad)).toMatchObject({ equal: false, stored: stateHash, snapshot: bad });
  });

  test('it does not need a dropped snapshot, whose objects may have been collected', async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    const positions: Position[] = [];
    for (const text of ['a', 'b']) {
      await refill(sheet, text);
      positions.push(await sheet.completed());
    }
    await sheet.covered();
    await sheet.archive();
    await collectAfterEachGrace(sheet, 3, { keepSnapshots: 'all' });
    const [first, second] = positions;
    expect(await replayed(sheet, first)).toMatchObject({ position: first, equal: null, snapshot: null });
    expect(await replayed(sheet, second)).toMatchObject({ position: second, equal: true, snapshot: second });
  });

  test('it finds a snapshot that is not the fold of its log, and those that were built on it', {
    tags: ['I1'],
  }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit({ type: 'Set', cells: [[0, 0, 'a']] });
    const good = await sheet.completed();
    await sheet.edit({ type: 'Set', cells: [[0, 1, 'b']] });
    const bad = await sheet.snapshot();
    await forge(sheet, bad, good);
    const { stateHash } = await sheet.root(good);
    expect(await replayed(sheet)).toMatchObject({ position: bad, equal: false, stored: stateHash, snapshot: bad });
    await sheet.edit({ type: 'Set', cells: [[0, 2, 'c']] });
    const onBad = await sheet.completed();
    expect(await sheet.rows(onBad)).toEqual([['a', '', 'c']]);
    expect(await replayed(sheet)).toMatchObject({ position: onBad, equal: false });
    expect(await replayed(sheet, { segment: 0, entry: onBad.entry + 1 })).toMatchObject({
      equal: false,
      snapshot: onBad,
    });
  });

  test('it writes nothing to the bucket or the tables', async () => {
    const { sheet, end } = await twoSnapshots();
    const before = await sheet.contents();
    const blobs = new MeteredBlobStore(sheet.blobs);
    const scratch = new MemoryChunks();
    await replay({ ...sheet.deps, blobs, scratch }, sheet.log);
    await replay({ ...sheet.deps, blobs, scratch }, sheet.log, { at: end });
    expect(blobs.usage()).toMatchObject({ puts: 0, deletes: 0 });
    expect(scratch.stored.size).toBeGreaterThan(3);
    expect(await sheet.contents()).toEqual(before);
    expect(Object.keys(before.objects).every((key) => key.startsWith(logPrefix(sheet.log)))).toBe(true);
  });

  test('it does not need the stored chunks, which may be damaged', async () => {
    const { sheet } = await twoSnapshots();
    const { objects } = await sheet.contents();
    await sheet.blobs.delete(Object.keys(objects));
    expect(await replayed(sheet)).toMatchObject({ equal: true });
  });

  test('it fails if there is no snapshot yet, and a replay to a position compares with nothing', async () => {
    const sheet = await SheetLog.create();
    const end = await sheet.edit({ type: 'Set', cells: [[0, 0, 'a']] });
    await expect(replayed(sheet)).rejects.toMatchObject({ code: 'SEGMENT_WITHOUT_SNAPSHOT' });
    expect(await replayed(sheet, end)).toMatchObject({
      position: end,
      stored: null,
      equal: null,
      snapshot: null,
      entries: 1,
    });
  });

  test('it fails if another version of the reducer made the snapshot, because different states would prove nothing', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit({ type: 'Set', cells: [[0, 0, 'a']] });
    await sheet.completed();
    const newer = { ...sheet.deps, reducer: versionedSheet(2), scratch: new MemoryChunks() };
    await expect(replay(newer, sheet.log)).rejects.toThrow('the snapshot was made by reducer spreadsheet 1');
  });

  test('it does not name a skipped snapshot of another version of the reducer as the compared one', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit({ type: 'Set', cells: [[0, 0, 'a']] });
    await sheet.completed();
    const end = await sheet.edit({ type: 'Set', cells: [[0, 1, 'b']] });
    const newer = { ...sheet.deps, reducer: versionedSheet(2), scratch: new MemoryChunks() };
    expect(await replay(newer, sheet.log, { at: end })).toMatchObject({ position: end, equal: null, snapshot: null });
  });

  test('it names an entry that cannot be folded', async () => {
    const sheet = await SheetLog.create();
    const poison = await sheet.append({ type: NOTE, version: 1 });
    const at = await sheet.snapshot();
    await expect(replayed(sheet, at)).rejects.toMatchObject({ code: 'ENTRY_TYPE_UNKNOWN', log: sheet.log, ...poison });
  });

  test('it names a position beyond the end of the log', async () => {
    const { sheet, end } = await twoSnapshots();
    const beyond = { segment: end.segment, entry: end.entry + 3 };
    await expect(replayed(sheet, beyond)).rejects.toMatchObject({ code: 'ENTRY_GAP', entry: end.entry + 1 });
  });
});
