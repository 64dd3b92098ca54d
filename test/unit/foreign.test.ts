import { beforeEach, describe, expect, test } from 'vitest';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { describePart, type ForeignPart } from '../../src/log/guard.ts';
import { encodeSegment } from '../../src/log/item-codec.ts';
import { queryNewestSegments } from '../../src/log/newest.ts';
import { query } from '../../src/log/query.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { logStatus, segmentStatuses } from '../../src/workers/audit/status.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import { archiveSegment, planArchive } from '../../src/workers/retention/archive-segment.ts';
import { expireSegment } from '../../src/workers/retention/expire-segment.ts';
import { rebuildLog } from '../../src/workers/snapshot/rebuild-log.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { readRows } from '../support/models/versioned-sheet.ts';
import { interceptPorts, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

const NOW: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'delete', graceSeconds: 0 };
const ARCHIVES: readonly (readonly [string, Item])[] = [
  ['a name without a hash', { A: { S: 's3://archives/0.parquet' } }],
  ['a name with a hash', { A: { S: 's3://archives/0.parquet' }, H: { B: new Uint8Array(32) } }],
  ['a map', { A: { M: { bucket: { S: 'archives' }, parts: { NS: ['1', '2'] } } } }],
];
const POINTERS: readonly (readonly [string, Item])[] = [
  ['a text', { L: { S: 's3://snapshots/1' } }],
  ['the number of another entry', { L: { N: '1' } }],
  ['a number beyond the end of the segment', { L: { N: '4000000000' } }],
];

let sheet: SheetLog;
let foreign: ForeignPart[];

beforeEach(async () => {
  sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  foreign = [];
});

function give(segment: number, attributes: Item): void {
  expect(sheet.tables.setForeign({ log: sheet.log, segment }, attributes)).toBe(true);
}

async function itemOf(segment: number): Promise<Item> {
  return encodeSegment(await sheet.segmentItem(segment));
}

async function loaded(): Promise<{ readonly rows: string[][]; readonly base: Position | undefined }> {
  const { draft, base } = await loadState({ ...sheet.deps, onForeign: (part) => foreign.push(part) }, sheet.log);
  return { rows: await readRows(draft), base: base?.position };
}

async function sweepNow(replaceForeign = false) {
  const jobs: string[] = [];
  const result = await sweep({
    ...sheet.deps,
    policyOf: () => NOW,
    replaceForeign,
    send: async ({ kind }) => void jobs.push(kind),
    onFailure: (_, error) => {
      throw error;
    },
    onForeign: (part) => foreign.push(part),
  });
  return { jobs, result };
}

describe.each(ARCHIVES)('a segment with a foreign archive, %s', (_, attributes) => {
  beforeEach(async () => {
    await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    await sheet.covered();
    await sheet.edit(set(0, 1, 'b'));
    give(0, attributes);
  });

  test('appends, loads, builds, sweeps and collections go on, and it stays', async () => {
    const before = await itemOf(0);
    await sheet.edit(set(0, 2, 'c'));
    const position = await sheet.snapshot();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'built' });
    expect((await loaded()).rows).toEqual([['a', 'b', 'c']]);
    expect(foreign.map(describePart)).toEqual(["another program wrote the archive name 'A' of segment 0"]);
    expect((await sweepNow()).result).toMatchObject({ failed: 0, foreign: 1 });
    expect(await collectLog(sheet.deps, sheet, { graceSeconds: 0, keepSnapshots: 'all' })).toMatchObject({
      outcome: 'collected',
    });
    expect(await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).toMatchObject({
      outcome: 'rebuilt',
      passedOver: ["another program wrote the archive name 'A' of segment 0"],
    });
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { archives: 1 } });
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({
      archived: 0,
      foreign: { archives: 1, pointers: 0, roots: 0 },
    });
    expect(await itemOf(0)).toEqual(before);
  });

  test('it is neither archived nor expired', { tags: ['I3'] }, async () => {
    const contents = await sheet.contents();
    const place = { log: sheet.log, segment: 0 };
    expect(await archiveSegment(sheet.deps, place)).toMatchObject({ outcome: 'foreign', segment: 0 });
    expect(await planArchive(sheet.deps, place)).toMatchObject({ outcome: 'foreign' });
    for (const archive of [true, false]) {
      const policy = { ...NOW, archive, keepDays: 1 };
      expect(await expireSegment(sheet.deps, place, policy, { byHand: true })).toMatchObject({ outcome: 'foreign' });
    }
    expect((await sweepNow()).jobs).toEqual([]);
    expect(await sheet.contents()).toEqual(contents);
  });

  test('its archive is replaced only if a person asks for it, and only if the table has all entries', async () => {
    const place = { log: sheet.log, segment: 0 };
    const deps = { ...sheet.deps, replaceForeign: true };
    const items = await sheet.items(0);
    const before = await itemOf(0);
    await sheet.tables.deleteEntries(sheet.log, 0, [1]);
    await expect(archiveSegment(deps, place)).rejects.toMatchObject({ code: 'ENTRY_GAP' });
    expect(await itemOf(0)).toEqual(before);
    await sheet.tables.putItems(items);
    expect((await sweepNow(true)).jobs).toContain('archive');
    expect(await archiveSegment(deps, place)).toMatchObject({ outcome: 'archived' });
    expect((await sheet.segmentItem(0)).foreign).toBeUndefined();
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('a load goes on if the other program has removed the entries, and a rebuild is refused', async () => {
    const { rows } = await loaded();
    const entries = (await sheet.items(0)).map(({ N }) => Number(N !== undefined && 'N' in N ? N.N : -1));
    await sheet.tables.deleteEntries(sheet.log, 0, entries);
    expect((await loaded()).rows).toEqual(rows);
    expect(await sheet.complete(await sheet.snapshot())).toMatchObject({
      outcome: 'built',
    });
    await expect(rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).rejects.toMatchObject({
      code: 'SEGMENT_STATE',
      segment: 0,
    });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await collectLog(sheet.deps, sheet, { graceSeconds: 0, keepSnapshots: 'all' })).toMatchObject({
      outcome: 'collected',
    });
    expect((await loaded()).rows).toEqual(rows);
  });

  test('an open segment takes no snapshot, and the next one does', async () => {
    give(1, attributes);
    const before = await itemOf(1);
    const position = await sheet.snapshot();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'foreign', position });
    expect(await itemOf(1)).toEqual(before);
    const next = await sheet.segment();
    expect(await sheet.complete(next)).toMatchObject({ outcome: 'built' });
    expect(await loaded()).toMatchObject({ rows: [['a', 'b']], base: next });
  });
});

describe.each(POINTERS)('a segment with a foreign Last Snapshot, %s', (_, attributes) => {
  let pending: Position;

  beforeEach(async () => {
    await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    const next = await sheet.segment();
    await sheet.complete(next);
    await sheet.edit(set(0, 1, 'b'));
    pending = await sheet.snapshot();
    give(1, attributes);
  });

  test('appends and loads go on from an older snapshot, and it stays', { tags: ['I2'] }, async () => {
    const before = await itemOf(1);
    await sheet.edit(set(0, 2, 'c'));
    expect(await loaded()).toMatchObject({ rows: [['a', 'b', 'c']], base: { segment: 1, entry: 0 } });
    const found = await query(sheet.deps, sheet.log, { from: 'snapshot' });
    expect(found.start).toEqual({ segment: 1, entry: 0 });
    expect(new Set(foreign.map(describePart))).toEqual(
      new Set(["another program wrote the Last Snapshot 'L' of segment 1"]),
    );
    expect(await itemOf(1)).toEqual(before);
  });

  test('its snapshots are passed over, and the next segment gets its own', { tags: ['I2'] }, async () => {
    const before = await itemOf(1);
    const contents = await sheet.contents();
    expect(await sheet.complete(pending)).toMatchObject({ outcome: 'foreign', position: pending });
    expect(await sheet.contents()).toEqual(contents);
    expect((await sweepNow()).jobs).not.toContain('snapshot');
    const next = await sheet.segment();
    expect(await sheet.complete(next)).toMatchObject({ outcome: 'built' });
    expect(await loaded()).toMatchObject({ rows: [['a', 'b']], base: next });
    expect(await itemOf(1)).toEqual(before);
  });

  test('neither its own segment nor the one before it is archived or expired', { tags: ['I3'] }, async () => {
    await sheet.complete(await sheet.segment());
    const contents = await sheet.contents();
    await expect(archiveSegment(sheet.deps, { log: sheet.log, segment: 0 })).rejects.toMatchObject({
      code: 'SEGMENT_STATE',
    });
    expect(await archiveSegment(sheet.deps, { log: sheet.log, segment: 1 })).toMatchObject({ outcome: 'foreign' });
    const policy = { ...NOW, archive: false, keepDays: 1 };
    const place = { log: sheet.log, segment: 1 };
    expect(await expireSegment(sheet.deps, place, policy, { byHand: true })).toMatchObject({ outcome: 'foreign' });
    expect((await sweepNow()).jobs).toEqual([]);
    expect(await sheet.contents()).toEqual(contents);
  });

  test('a collection keeps its snapshots, and status and verify count it', { tags: ['I4'] }, async () => {
    const keys = await sheet.keys();
    const options = { graceSeconds: 0, keepSnapshots: 'last' } as const;
    expect(await collectLog(sheet.deps, sheet, options)).toMatchObject({
      outcome: 'collected',
      removed: { objects: 0 },
    });
    expect(await sheet.keys()).toEqual(expect.arrayContaining(keys));
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { pointers: 1 } });
    expect(await logStatus(sheet.deps, sheet.log)).toMatchObject({
      lastSnapshot: { segment: 0 },
      foreign: { archives: 0, pointers: 1 },
    });
    expect((await segmentStatuses(sheet.deps, sheet.log))[1]).toMatchObject({
      lastSnapshot: null,
      foreign: ['pointer'],
    });
  });

  test('it moves if a person asks for it', { tags: ['I2'] }, async () => {
    expect((await sweepNow(true)).jobs).toContain('snapshot');
    expect(await sheet.complete(pending, { replaceForeign: true })).toMatchObject({ outcome: 'built' });
    expect(await sheet.lastSnapshot(1)).toBe(pending.entry);
    expect(await loaded()).toMatchObject({ rows: [['a', 'b']], base: pending });
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { pointers: 0 } });
  });
});

test.each(POINTERS)(
  'a foreign Last Snapshot, %s, that appears during a build stays',
  { tags: ['I2'] },
  async (_, attributes) => {
    await sheet.edit(set(0, 0, 'a'));
    const pending = await sheet.snapshot();
    const interceptor: Interceptor = async (name, effect) => {
      if (name === 'completeSnapshot') give(0, attributes);
      return effect();
    };
    const result = await sheet.complete(pending, interceptPorts(sheet, interceptor));
    expect(result).toMatchObject({ outcome: 'foreign', position: pending });
    expect(await itemOf(0)).toMatchObject(attributes);
  },
);

test('a log whose segments are all foreign loads from its beginning', async () => {
  await sheet.edit(set(0, 0, 'a'));
  give(0, { L: { S: 'theirs' } });
  await sheet.segment();
  give(1, { A: { S: 'theirs' } });
  await sheet.edit(set(0, 1, 'b'));
  expect(await loaded()).toEqual({ rows: [['a', 'b']], base: undefined });
  expect(await queryNewestSegments(sheet.tables, sheet.log)).toHaveLength(2);
});
