import { describe, expect, test } from 'vitest';
import { StateFolder } from '../../src/client/state-folder.ts';
import { loadTail } from '../../src/client/tail.ts';
import { CredentialsError } from '../../src/errors.ts';
import { comparePositions, formatPosition, type Position, START } from '../../src/ids/position.ts';
import { type Loaded, loadState } from '../../src/snapshot/load.ts';
import { chunkPrefix, collectedKey } from '../../src/store/keys.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { collect, collectAfterEachGrace, GRACE } from '../support/gc-scenario.ts';
import { NOTE, readRows, versionedSheet } from '../support/models/versioned-sheet.ts';
import { interceptDeps, SheetLog, set } from '../support/sheet-log.ts';

const at = (segment: number, entry: number): Position => ({ segment, entry });

interface Read {
  readonly loaded: Loaded;
  /** Names of all requests, in order. */
  readonly requests: readonly string[];
  /** Entries that were read in ranges. */
  readonly entries: number;
}

/** Loads a state, and counts what that takes. */
async function load(sheet: SheetLog, position: Position, reducer = sheet.deps.reducer): Promise<Read> {
  const requests: string[] = [];
  let entries = 0;
  const deps = interceptDeps(sheet, async (name, effect) => {
    const answer = await effect();
    const page = typeof answer === 'object' && answer !== null && 'value' in answer ? answer.value : undefined;
    // The end of the pages came with the last page.
    if (name !== 'entries' || page !== undefined) requests.push(name);
    if (Array.isArray(page)) entries += page.length;
    return answer;
  });
  return { loaded: await loadState({ ...deps, reducer }, sheet.log, { at: position }), requests, entries };
}

/**
 * A segment of entries that count up in a cell: entry N sets it to N. Every `every` entries there
 * is a complete snapshot.
 */
async function counting(entries: number, every: number): Promise<SheetLog> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  for (let entry = 1; entry < entries; entry++) {
    if (entry % every === 0) await sheet.completed();
    else await sheet.edit(set(entry % 7, 0, String(entry)));
  }
  return sheet;
}

/** The sheet before an entry of {@link counting}, row by row. */
function counted(before: number, every: number): string[][] {
  const rows: string[][] = [];
  for (let entry = 1; entry < before; entry++) {
    if (entry % every === 0) continue;
    while (rows.length <= entry % 7) rows.push(['']);
    rows[entry % 7] = [String(entry)];
  }
  return rows;
}

/** A sheet with a Last Snapshot in its first segment, and a nearer snapshot in its second. */
async function twoSegments() {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(60, 3);
  await sheet.edit({ type: 'Delete Rows', position: 2, count: 3 });
  const last = await sheet.completed();
  const kept = await sheet.keys(chunkPrefix(sheet.log));
  await sheet.segment();
  for (let row = 1; row < 200; row += 7) await sheet.edit({ type: 'Insert Rows', position: row, count: 2 });
  const nearest = await sheet.completed();
  await sheet.edit({ type: 'Delete Rows', position: 9, count: 20 });
  /** Deletes all chunks, except those of Last Snapshot of the first segment. */
  const loseOthers = async (): Promise<void> => {
    const all = await sheet.keys(chunkPrefix(sheet.log));
    await sheet.blobs.delete(all.filter((key) => !kept.includes(key)));
  };
  return { sheet, last, nearest, loseOthers };
}

describe('the state at a position', () => {
  test('it starts from the nearest snapshot, and reads about twice the entries after it', async () => {
    const every = 300;
    const sheet = await counting(1500, every);
    for (const entry of [0, 1, 250, 300, 301, 599, 600, 664, 899, 1190, 1199, 1200, 1400]) {
      const { loaded, requests, entries } = await load(sheet, at(0, entry));
      const base = Math.floor(entry / every) * every;
      expect(loaded.base?.position ?? START).toEqual(at(0, base));
      expect(await readRows(loaded.draft)).toEqual(counted(entry, every));
      const isLast = base === 1200;
      expect(entries).toBeLessThanOrEqual(isLast ? entry - base : 2 * (entry - base) + 65);
      if (isLast || base === 0) continue;
      // The ranges, the segment, and the note on collections. The root is in the entry.
      const ranges = Math.ceil(Math.log2((entry - base) / 64 + 2));
      const chunks = requests.filter((name) => name === 'get').length - 1;
      expect(requests.length).toBeLessThanOrEqual(2 + ranges + chunks);
      expect(requests[0]).toBe('getSegment');
    }
  });

  test('its requests do not grow with the segment', async () => {
    const requests = async (entries: number) => (await load(await counting(entries, 50), at(0, 130))).requests;
    const short = await requests(200);
    expect(short.slice(0, 3)).toEqual(['getSegment', 'entries', 'get']);
    expect(await requests(900)).toEqual(short);
  });

  test('it reads no entry twice, except those of a search that finds many bytes', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'first'));
    const text = 'x'.repeat(15_000);
    for (let row = 0; row < 1100; row++) await sheet.edit(set(row % 3, 1, `${row}${text}`));
    await sheet.completed();
    const { loaded, entries } = await load(sheet, at(0, 1101));
    expect(loaded.base).toBeUndefined();
    expect((await readRows(loaded.draft))[0]?.[0]).toBe('first');
    expect(entries).toBeGreaterThan(1102);
    expect(entries).toBeLessThan(2200);
    const small = await counting(1100, 2000);
    await small.completed();
    expect((await load(small, at(0, 1090))).entries).toBe(1091);
  });

  test('it passes over snapshots that garbage collection dropped', { tags: ['I4'] }, async () => {
    const sheet = await counting(400, 50);
    sheet.nowMs += GRACE;
    await collect(sheet, { keepSnapshots: 'last' });
    const young = await load(sheet, at(0, 130));
    expect(young.loaded.base?.position).toEqual(at(0, 100));
    await collectAfterEachGrace(sheet, 3, { keepSnapshots: 'last' });
    const { loaded } = await load(sheet, at(0, 130));
    expect(loaded.base).toBeUndefined();
    expect(await readRows(loaded.draft)).toEqual(counted(130, 50));
  });

  test('it starts from no other snapshot of an archived segment than the last', { tags: ['I4'] }, async () => {
    const sheet = await counting(100, 30);
    await sheet.covered();
    expect((await load(sheet, at(0, 89))).loaded.base?.position).toEqual(at(0, 60));
    await sheet.archive();
    await collectAfterEachGrace(sheet, 5);
    const { loaded } = await load(sheet, at(0, 89));
    expect(loaded.base).toBeUndefined();
    expect(await readRows(loaded.draft)).toEqual(counted(89, 30));
    expect((await load(sheet, at(0, 95))).loaded.base?.position).toEqual(at(0, 90));
  });

  test('it starts from Last Snapshot of a segment if chunks of the nearest are missing', async () => {
    const { sheet, last, nearest, loseOthers } = await twoSegments();
    await sheet.edit(set(7, 0, 'not read'));
    const end = await sheet.completed();
    const before = { segment: end.segment, entry: end.entry - 1 };
    const { loaded: whole } = await load(sheet, before);
    expect(whole.base?.position).toEqual(nearest);
    const rows = await readRows(whole.draft);

    await loseOthers();
    const { loaded } = await load(sheet, before);
    expect(loaded.base?.position).toEqual(last);
    expect(await readRows(loaded.draft)).toEqual(rows);
  });

  test('a client that then stops at a bad entry holds each entry once', async () => {
    const { sheet, last, nearest, loseOthers } = await twoSegments();
    // Another version of the reducer knows the entry, and makes the next snapshot.
    const bad = await sheet.append({ type: NOTE, version: 1, body: null });
    await loseOthers();
    await sheet.completed({ reducer: versionedSheet(2) });

    const { deps, log } = sheet;
    const { tail, base } = await loadTail(deps, new StateFolder(deps, log, deps.reducer), { onBadEntry: 'stop' });
    expect([base?.position, tail.base?.position]).toEqual([last, nearest]);
    const positions = tail.entries?.map(({ position }) => position) ?? [];
    expect(positions[0]).toEqual(nearest);
    expect(positions.at(-1)).toEqual({ ...bad, entry: bad.entry - 1 });
    expect(positions).toEqual(positions.toSorted(comparePositions));
    expect(new Set(positions.map(formatPosition)).size).toBe(positions.length);
  });

  test('a snapshot of another version is not a base, and the load does not start from the beginning', async () => {
    const [old, version] = [versionedSheet(1), versionedSheet(2)];
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const first = await sheet.completed({ reducer: version });
    const second = await sheet.segment();
    await sheet.edit(set(0, 0, 'b'));
    const middle = await sheet.completed({ reducer: old });
    await sheet.edit(set(0, 0, 'c'));
    const last = await sheet.completed({ reducer: version });
    expect(second).toEqual(at(1, 0));
    const before = await load(sheet, at(1, last.entry - 1), version);
    expect(before.loaded.base?.position).toEqual(first);
    expect(await readRows(before.loaded.draft)).toEqual([['B']]);
    const older = await load(sheet, at(1, last.entry - 1), old);
    expect(older.loaded.base?.position).toEqual(middle);
    expect(await readRows(older.loaded.draft)).toEqual([['b']]);
  });

  test('it uses only Last Snapshot if the bucket does not show what was dropped', async () => {
    const sheet = await counting(200, 50);
    const deps = interceptDeps(sheet, (_, effect) => effect());
    const blobs = Object.create(deps.blobs, {
      get: {
        value: (key: string) => {
          if (key === collectedKey(sheet.log)) throw new CredentialsError('403');
          return deps.blobs.get(key);
        },
      },
    });
    const { base, draft } = await loadState({ ...deps, blobs }, sheet.log, { at: at(0, 130) });
    expect(base).toBeUndefined();
    expect(await readRows(draft)).toEqual(counted(130, 50));
    await sheet.blobs.put(collectedKey(sheet.log), new TextEncoder().encode('{"dropped":'));
    expect((await load(sheet, at(0, 130))).loaded.base).toBeUndefined();
  });
});
