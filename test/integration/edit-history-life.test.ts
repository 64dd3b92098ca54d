import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeSegmentId, type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { LogClient } from '../../src/log/client.ts';
import { end, startCli } from '../support/cli.ts';
import { type Attributes, CliPlace, itemTexts } from '../support/cli-place.ts';
import { allEntries } from '../support/logs.ts';
import { editHistories } from '../support/models/edit-histories.ts';
import { Random } from '../support/models/random.ts';
import { testDeployment } from '../support/test-deployment.ts';

const KEEP_SEGMENTS = 2;
const EVERY = ['--snapshot-every', '100', '--segment-every', '500'];
const POLICY = ['--keep-segments', String(KEEP_SEGMENTS), '--keep-days', '0', '--expire', 'delete', '--grace', '0s'];
const FAST = ['--capacity-share', '1'];
/** Commands that run at the same time. */
const AT_ONCE = 3;

describe.each(editHistories(90))('$name, in segments of 500 entries, with 2 segments kept', (history) => {
  let place: CliPlace;
  let log: LogId;
  let segments: number;
  /** Every item of the Entry table before the first archive. */
  let copy: readonly Attributes[];
  /** Exports by position, in every segment, from before the first archive. */
  let exports: ReadonlyMap<string, unknown>;
  let replayed: Record<string, unknown>;

  beforeAll(async () => {
    place = await CliPlace.open();
    log = parseLogId(String((await place.json('create')).log));
    const work = startCli(['work', ...place.words]);
    try {
      const appended = await place.json('append', log, await history.file(place.directory), ...EVERY);
      segments = 1 + Number(appended.segments);
    } finally {
      await end(work, 'SIGTERM');
    }
    await place.json('work', '--until-idle');
    copy = await place.items();
    exports = await exportAt(somePositions());
    replayed = await place.json('replay', log);
    expect(replayed).toMatchObject({ equal: true });

    expect(await sweep()).toMatchObject({ logs: 1, failures: [] });
  });
  afterAll(() => place.close());

  function sweep(...words: readonly string[]): Promise<Record<string, unknown>> {
    return place.json('sweep', ...POLICY, ...FAST, ...words);
  }

  /** Numbers of the expired segments. */
  const old = (): number[] => Array.from({ length: segments - KEEP_SEGMENTS }, (_, i) => i);

  /** The items of a segment in the copy, in ascending order. */
  function copied(segment: number): string[] {
    return itemTexts(copy.filter((item) => isOf(item, segment)));
  }

  function isOf({ S }: Attributes, segment: number): boolean {
    return Buffer.compare(S?.B ?? Buffer.alloc(0), encodeSegmentId(log, segment)) === 0;
  }

  /** The first and the last position of each segment, and one in between. */
  function somePositions(): Position[] {
    const random = new Random(11);
    return Array.from({ length: segments }, (_, segment) => {
      const last = copied(segment).length - 1;
      const some = [0, random.integer(1, last - 1), last];
      return some.map((entry) => ({ segment, entry }));
    }).flat();
  }

  async function exportAt(positions: readonly Position[]): Promise<Map<string, unknown>> {
    const limit = pLimit(AT_ONCE);
    const one = async (at: string) => [at, (await place.json('export', log, '--at', at)).rows] as const;
    return new Map(await Promise.all(positions.map((position) => limit(one, formatPosition(position)))));
  }

  test('the table keeps the entries of 2 segments', async () => {
    expect(old().length).toBeGreaterThan(2);
    for (let segment = 0; segment < segments - 1; segment++) expect(copied(segment).length).toBeGreaterThan(500);
    const kept = Array.from({ length: KEEP_SEGMENTS }, (_, i) => copied(segments - KEEP_SEGMENTS + i));
    const left = await place.items();
    expect(itemTexts(left)).toEqual(kept.flat());
    expect(left).toHaveLength(kept.flat().length);
  });

  test('every entry can be read at its position', async () => {
    const archived = testDeployment({ tables: place.tables, blobs: place.blobs }).store;
    for (const segment of old()) {
      const items: StoredItem[] = [];
      const range = { segment, from: 0, to: copied(segment).length };
      for await (const page of archived.items(log, range, { consistent: true })) items.push(...page);
      expect(itemTexts(items)).toEqual(copied(segment));
    }
    const client = new LogClient({
      store: archived,
      tables: place.tables,
      blobs: place.blobs,
      now: Date.now,
      random: Math.random,
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      newLogId: () => log,
    });
    const { entries } = await client.query(log, { from: 'start' });
    expect(await allEntries(entries)).toHaveLength(copy.length);
  });

  test('exports at positions in archived segments do not change', async () => {
    const again = await exportAt(somePositions());
    expect(again.size).toBe(exports.size);
    for (const [at, rows] of exports) expect(again.get(at), at).toEqual(rows);
    expect(new Set([...exports.values()].map((rows) => JSON.stringify(rows))).size).toBeGreaterThan(segments);
  });

  test('a replay from the beginning equals the newest snapshot and an old one', async () => {
    expect(await place.json('replay', log)).toEqual(replayed);
    const middle = formatPosition({ segment: Math.floor(old().length / 2), entry: 250 });
    expect(await place.json('replay', log, '--at', middle)).toMatchObject({ equal: true });
  });

  test('a restore into empty tables restores every expired segment byte for byte', { tags: ['I3'] }, async () => {
    const into = ['--to-entry-table', 'Restored', '--to-segment-table', 'RestoredSegment', ...FAST];
    for (const segment of old()) {
      const entries = copied(segment).length;
      const done = await place.json('restore', log, String(segment), ...into);
      const first = segment === 0;
      expect(done).toEqual({
        log,
        dryRun: false,
        segment,
        entries,
        restored: entries,
        unexpired: 0,
        created: first ? ['Restored', 'RestoredSegment'] : [],
      });
    }
    expect(itemTexts(await place.items('Restored'))).toEqual(old().flatMap(copied));
    expect(await place.items('RestoredSegment')).toHaveLength(old().length);
  });

  test('an expired segment that is restored in place stays while it is on hold, then expires again', async () => {
    const before = await place.contents();
    const segment = Math.floor(old().length / 2);
    const entries = copied(segment).length;
    const restore = () => place.json('restore', log, String(segment), '--hold', '1h', ...FAST);
    expect(await restore()).toMatchObject({ segment, entries, restored: entries });
    expect(await restore()).toMatchObject({ segment, entries, restored: 0 });
    const there = (await place.items()).filter((item) => isOf(item, segment));
    expect(itemTexts(there)).toEqual(copied(segment));
    expect(await place.json('replay', log)).toEqual(replayed);
    // The stream contains restored entries like new entries.
    expect(await place.json('work', '--until-idle')).toMatchObject({ snapshots: 0, stopped: [], failures: [] });
    expect(await sweep()).toMatchObject({ jobs: [], failures: [] });

    await place.json('restore', log, String(segment), '--hold', '0s', ...FAST);
    expect(await sweep()).toMatchObject({ jobs: [{ kind: 'expire', segment, outcome: 'expired' }], failures: [] });
    expect(await place.items()).toHaveLength(copy.length - old().flatMap(copied).length);
    expect((await place.contents()).filter(isNoSegment)).toEqual(before.filter(isNoSegment));
  });

  test('verify, collect and sweep find nothing to do', async () => {
    const verified = await place.json('verify', log);
    expect(verified).toMatchObject({ archived: old().length, problems: [] });
    const collected = await place.json('collect', log, '--grace', '0s');
    const nothing = { objects: 0, bytes: 0 };
    expect(collected).toMatchObject({ condemned: nothing, aborted: 0, foreign: [] });
    const again = await place.json('collect', log, '--grace', '0s', '--dry-run');
    expect(again).toMatchObject({ removed: nothing, condemned: nothing, aborted: 0, foreign: [] });
    expect(await place.keys(log, 'archives')).toHaveLength(old().length);
    expect(await Array.fromAsync(place.blobs.uploads(''))).toEqual([]);
    expect(await sweep('--dry-run')).toEqual({ logs: 1, dryRun: true, jobs: [], skipped: [], failures: [] });
    expect(await place.json('verify', log)).toEqual(verified);
  });
});

/** Segment items differ, since they contain the time of the expiry. */
function isNoSegment(line: string): boolean {
  return !line.startsWith('Segment ');
}
