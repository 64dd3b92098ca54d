import { describe, expect, test } from 'vitest';
import { parseLogId } from '../../src/ids/log-id.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { parseKey } from '../../src/store/keys.ts';
import { describeProblem, type Problem, verify } from '../../src/workers/audit/verify.ts';
import { expireSegment } from '../../src/workers/retention/expire-segment.ts';
import { rebuildLog } from '../../src/workers/snapshot/rebuild-log.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import { expiring } from '../support/segments.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

/**
 * A log with three snapshots over two segments, and chunks of all kinds: leaves, inner nodes and
 * values.
 */
async function threeSnapshots(): Promise<{ sheet: SheetLog; keys: string[] }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(60, 3);
  await sheet.fill(2, 1, 6_000);
  await sheet.completed();
  await sheet.edit({ type: 'Delete Rows', position: 20, count: 5 });
  await sheet.complete(await sheet.segment());
  await sheet.fill(10, 1);
  await sheet.completed();
  const { objects } = await sheet.contents();
  return { sheet, keys: Object.keys(objects).filter((key) => parseKey(key)?.kind === 'chunk') };
}

function named(problems: readonly Problem[]): { part: string | undefined; code: string }[] {
  return problems.map(({ part, code }) => ({ part, code }));
}

function idOf(key: string): string | undefined {
  const parsed = parseKey(key);
  return parsed?.kind === 'chunk' ? parsed.id : undefined;
}

describe('verify', () => {
  test('it reads every chunk of every snapshot once, and finds no problem if there is none', async () => {
    const { sheet, keys } = await threeSnapshots();
    const progress: number[] = [];
    const verified = await verify({ ...sheet.deps, onProgress: (chunks) => progress.push(chunks) }, sheet.log);
    const bytes = await Promise.all(keys.map(async (key) => (await sheet.blobs.get(key))?.length ?? 0));
    expect(keys.length).toBeGreaterThan(10);
    expect(verified).toEqual({
      snapshots: 3,
      archived: 0,
      left: 0,
      expired: 0,
      chunks: keys.length,
      bytes: bytes.reduce((total, each) => total + each, 0),
      problems: [],
      foreign: { archives: 0, pointers: 0, roots: 0 },
    });
    expect(progress.at(-1)).toBe(keys.length);
  });

  test.each([
    ['has no root', false],
    ['is not there', true],
  ])('it finds that the entry of Last Snapshot %s; a rebuild repairs it', { tags: ['I2'] }, async (_, isGone) => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const { segment, entry } = await sheet.completed();
    const { B: __, ...bare } =
      (await sheet.items()).find(({ N }) => N !== undefined && 'N' in N && N.N === String(entry)) ?? {};
    if (isGone) await sheet.tables.deleteEntries(sheet.log, segment, [entry]);
    else await sheet.tables.putItems([bare]);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { pointers: 1 } });
    expect((await loadState(sheet.deps, sheet.log)).base).toBeUndefined();
    if (isGone) await sheet.tables.putItems([bare]);
    expect(await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).toMatchObject({ outcome: 'rebuilt' });
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
    expect((await loadState(sheet.deps, sheet.log)).base?.position).toEqual({ segment, entry });
  });

  test('it finds that the entry of Last Snapshot is missing between others', { tags: ['I2'] }, async () => {
    const { sheet } = await threeSnapshots();
    const entry = (await sheet.lastSnapshot()) ?? 0;
    const item = (await sheet.items()).find(({ N }) => N !== undefined && 'N' in N && N.N === String(entry)) ?? {};
    await sheet.tables.deleteEntries(sheet.log, 0, [entry]);
    await expect(verify(sheet.deps, sheet.log)).rejects.toMatchObject({ code: 'ENTRY_GAP', segment: 0, entry });
    await sheet.tables.putItems([item]);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('it finds that the entry of Last Snapshot has no root although its archive has one', async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const { segment, entry } = await sheet.completed();
    await sheet.covered();
    await sheet.archive();
    const { B: __, ...bare } =
      (await sheet.items()).find(({ N }) => N !== undefined && 'N' in N && N.N === String(entry)) ?? {};
    await sheet.tables.putItems([bare]);
    const { problems } = await verify(sheet.deps, sheet.log);
    expect(problems).toMatchObject([{ snapshot: { segment, entry }, part: 'root', code: 'ROOT_INVALID' }]);
    expect(problems[0]?.message).toContain('Delete it from the table');
    await expect(rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).rejects.toThrow('Delete the entry');
    await sheet.tables.deleteEntries(sheet.log, segment, [entry]);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('it finds each single missing chunk, and goes on', { tags: ['I2'] }, async () => {
    const { sheet, keys } = await threeSnapshots();
    for (const key of keys) {
      const stored = (await sheet.blobs.get(key)) ?? new Uint8Array();
      await sheet.blobs.delete([key]);
      const { snapshots, problems } = await verify(sheet.deps, sheet.log);
      expect(named(problems)).toEqual([{ part: idOf(key), code: 'CHUNK_MISSING' }]);
      expect(snapshots).toBe(3);
      await sheet.blobs.put(key, stored);
    }
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('it finds each single altered or truncated chunk, and goes on', async () => {
    const { sheet, keys } = await threeSnapshots();
    for (const key of keys) {
      const stored = (await sheet.blobs.get(key)) ?? new Uint8Array();
      const altered = stored.slice();
      altered[altered.length - 1] = (altered.at(-1) ?? 0) ^ 1;
      const another = (await sheet.blobs.get(keys.find((other) => other !== key) ?? '')) ?? new Uint8Array();
      for (const bad of [altered, stored.subarray(0, -1), new Uint8Array(), another]) {
        await sheet.blobs.put(key, bad);
        const { problems } = await verify(sheet.deps, sheet.log);
        expect(named(problems)).toEqual([{ part: idOf(key), code: 'CHUNK_CORRUPT' }]);
      }
      await sheet.blobs.put(key, stored);
    }
  });

  test('it finds all problems if there are several', { tags: ['I7'] }, async () => {
    const { sheet, keys } = await threeSnapshots();
    const clean = await verify(sheet.deps, sheet.log);
    const lowest: string[] = [];
    for (const key of keys) {
      const stored = (await sheet.blobs.get(key)) ?? new Uint8Array();
      await sheet.blobs.delete([key]);
      // Chunks below a missing chunk are not read, so these chunks have no children.
      if ((await verify(sheet.deps, sheet.log)).chunks === clean.chunks - 1) lowest.push(key);
      await sheet.blobs.put(key, stored);
    }
    expect(lowest.length).toBeGreaterThan(10);
    await sheet.blobs.delete(lowest);
    const { problems, chunks } = await verify(sheet.deps, sheet.log);
    expect(new Set(problems.map(({ part }) => part))).toEqual(new Set(lowest.map(idOf)));
    expect(chunks).toBe(clean.chunks - lowest.length);
  });

  test('it finds a missing or altered root, and reads the other snapshots', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const first = await sheet.completed();
    await sheet.fill(1_000, 2);
    const second = await sheet.completed();
    for (const [position, other] of [[first, second] as const, [second, first] as const]) {
      const ref = await sheet.ref(position);
      const key = ref !== undefined && 'key' in ref ? ref.key : '';
      const stored = (await sheet.blobs.get(key)) ?? new Uint8Array();
      expect(stored.length).toBeGreaterThan(4096);
      await sheet.blobs.delete([key]);
      const gone = await verify(sheet.deps, sheet.log);
      expect(gone.problems).toMatchObject([{ snapshot: position, part: 'root', code: 'CHUNK_MISSING' }]);
      expect(gone.snapshots).toBe(2);
      expect(gone.problems[0] && describeProblem(gone.problems[0])).toContain(`snapshot 0/${position.entry}, root`);

      await sheet.blobs.put(
        key,
        stored.map((byte, i) => (i === 5_000 ? byte ^ 1 : byte)),
      );
      const altered = await verify(sheet.deps, sheet.log);
      expect(altered.problems).toMatchObject([{ snapshot: position, part: 'root', code: 'CHUNK_CORRUPT' }]);

      const others = await sheet.ref(other);
      await sheet.blobs.put(
        key,
        (await sheet.blobs.get(others !== undefined && 'key' in others ? others.key : '')) ?? stored,
      );
      const swapped = await verify(sheet.deps, sheet.log);
      expect(swapped.problems).toMatchObject([{ snapshot: position, part: 'root', code: 'CHUNK_CORRUPT' }]);
      await sheet.blobs.put(key, stored);
    }
  });

  test('it finds a root of another snapshot in an entry', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(2, 2);
    const first = await sheet.completed();
    const second = await sheet.snapshot();
    await sheet.tables.completeSnapshot(sheet.log, second, (await sheet.ref(first)) ?? { inline: new Uint8Array() });
    const { problems } = await verify(sheet.deps, sheet.log);
    expect(problems).toMatchObject([{ snapshot: second, part: 'root', code: 'ROOT_INVALID' }]);
  });

  test('it reads the entries that are left of a segment that expires without an archive', async () => {
    const { sheet } = await threeSnapshots();
    const whole = await verify(sheet.deps, sheet.log);
    const entries = await sheet.items();
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    expect(await verify(sheet.deps, sheet.log)).toEqual(whole);

    // Its entry 3 is a snapshot, its last one is 5.
    for (const gone of [[0], [1], [5], [0, 1, 2]]) {
      await sheet.tables.deleteEntries(sheet.log, 0, gone);
      expect(await verify(sheet.deps, sheet.log)).toEqual({ ...whole, expired: 1 });
      await sheet.tables.putItems(entries);
    }
    await sheet.tables.deleteEntries(sheet.log, 0, [...entries.keys()]);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ snapshots: 2, expired: 1, problems: [] });
  });

  test('it finds an entry that another program changed after its archive was written', { tags: ['I3'] }, async () => {
    const { sheet } = await threeSnapshots();
    await sheet.archive();
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ archived: 1, left: 0, problems: [] });
    const policy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'ttl' as const };
    await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, policy, { byHand: true });
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ archived: 1, left: 0, problems: [] });
    const [first, second, ...others] = await sheet.items();
    if (first === undefined || second === undefined) throw new Error('the segment is empty');
    await sheet.tables.putItems([{ ...second, note: { S: 'reviewed' } }]);
    const { problems } = await verify(sheet.deps, sheet.log);
    expect(problems).toMatchObject([{ part: 'archive', code: 'ARCHIVE_DIFFERS', snapshot: { segment: 0, entry: 0 } }]);
    expect(problems.map(describeProblem)).toEqual([expect.stringContaining('--undo')]);

    // After Time to Live has removed the entry, only the number of such segments is known.
    await sheet.tables.deleteEntries(sheet.log, 0, [1]);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ archived: 1, left: 1, problems: [] });
    await sheet.tables.deleteEntries(sheet.log, 0, [0, ...others.map((_, i) => i + 2)]);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ archived: 1, left: 1, problems: [] });
  });

  test('it finds damage in a segment that expires without an archive', async () => {
    const { sheet } = await threeSnapshots();
    const last = { segment: 0, entry: 3 };
    const ref = (await sheet.ref(last)) ?? { inline: new Uint8Array() };
    await sheet.tables.replaceRoot(sheet.log, last, ref, { inline: DAMAGED_ROOT });
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    const { problems } = await verify(sheet.deps, sheet.log);
    expect(problems).toMatchObject([{ snapshot: last, part: 'root', code: 'CHUNK_CORRUPT' }]);
  });

  test('it tolerates no gap in any other segment', async () => {
    const { sheet } = await threeSnapshots();
    await sheet.tables.setExpiration(await sheet.segmentItem(), expiring(1));
    await sheet.tables.deleteEntries(sheet.log, 1, [1]);
    await expect(verify(sheet.deps, sheet.log)).rejects.toMatchObject({ code: 'ENTRY_GAP', segment: 1, entry: 1 });
  });

  test('it does not report a store that does not answer as damage', async () => {
    const { sheet } = await threeSnapshots();
    const blobs = { ...sheet.blobs, get: () => Promise.reject(new Error('no answer')) };
    await expect(verify({ ...sheet.deps, blobs }, sheet.log)).rejects.toThrow('no answer');
    const chunks = {
      ...sheet.blobs,
      get: (key: string) =>
        key.includes('.json') || key.startsWith('condemned/') ? sheet.blobs.get(key) : blobs.get(),
    };
    await expect(verify({ ...sheet.deps, blobs: chunks }, sheet.log)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    });
  });

  test('it fails if the log does not exist', async () => {
    const sheet = await SheetLog.create();
    const another = parseLogId('0192f7a0-5b1c-7d3e-8f10-000000000000');
    await expect(verify(sheet.deps, another)).rejects.toMatchObject({ code: 'LOG_NOT_FOUND' });
  });
});
