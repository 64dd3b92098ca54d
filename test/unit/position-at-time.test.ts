import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EntryGapError, EntryNotFoundError, LogNotFoundError } from '../../src/errors.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { positionAtTime } from '../../src/log/find-position.ts';
import { allEntries, NOON, newLogId, recordRequests, testLogClient, unarchived } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const CONSISTENT = { consistent: true };
const types = RESERVED_TYPES;
const at = (segment: number, entry: number): Position => ({ segment, entry });

/** Adds an entry or starts a segment, a few seconds after the previous step; negative goes back. */
interface Step {
  readonly does: 'add' | 'segment';
  readonly after: number;
}

async function logOf(steps: readonly Step[]) {
  const { client, store: tables, clock } = testLogClient();
  const log = await client.createLog();
  for (const { does, after } of steps) {
    clock.ms += after * 1000;
    if (does === 'add') await client.addEntry(log, { type: 'Set', version: 1 });
    else {
      const [newest] = await tables.newestSegments(log, 1, CONSISTENT);
      await tables.advanceLastSnapshot(log, { position: at(newest?.segment ?? 0, 0) });
      await client.startSegment(log);
    }
  }
  const requests: string[] = [];
  const source = { store: unarchived(recordRequests(tables, requests)), types };
  const segments = (await Array.fromAsync(tables.segments(log, CONSISTENT))).length;
  const entries = [];
  for (let segment = 0; segment < segments; segment++) {
    entries.push(...(await allEntries(tables.entries(log, { segment, from: 0, to: MAX_NUMBER + 1 }, CONSISTENT))));
  }
  return { log, tables, source, requests, segments, entries };
}

const steps = (after: fc.Arbitrary<number>) =>
  fc.array(
    fc.record({
      does: fc.oneof(
        { weight: 8, arbitrary: fc.constant('add' as const) },
        { weight: 1, arbitrary: fc.constant('segment' as const) },
      ),
      after,
    }),
    { maxLength: 40 },
  );

describe('the position at a time', () => {
  test('it is that of the first later entry, found in few requests', async () => {
    await fc.assert(
      fc.asyncProperty(steps(fc.integer({ min: 0, max: 3 })), async (given) => {
        const { log, source, requests, segments, entries } = await logOf(given);
        const last = entries.at(-1)?.position ?? at(0, 0);
        const end = (entries.at(-1)?.created ?? 0) + 2;
        for (let time = NOON - 1; time <= end; time++) {
          requests.length = 0;
          const later = entries.find(({ created }) => created > time);
          const found = await positionAtTime(source, log, time);
          expect(found).toEqual(later?.position ?? at(last.segment, last.entry + 1));
          const most = 5 + Math.ceil(Math.log2(segments + 1)) + Math.ceil(Math.log2(entries.length + 1));
          expect(requests.length).toBeLessThanOrEqual(most);
        }
      }),
      { numRuns: propertyRuns(60) },
    );
  });

  test('the times of entries pass it there, even if they go back', async () => {
    await fc.assert(
      fc.asyncProperty(
        steps(fc.integer({ min: -9, max: 9 })),
        fc.integer({ min: -40, max: 40 }),
        async (given, since) => {
          const { log, source, entries } = await logOf(given);
          const found = await positionAtTime(source, log, NOON + since);
          const index = entries.findIndex(({ position }) => comparePositions(position, found) >= 0);
          const [before, there] = index === -1 ? [entries.at(-1)] : [entries[index - 1], entries[index]];
          if (before !== undefined) expect(before.created).toBeLessThanOrEqual(NOON + since);
          if (there !== undefined) expect(there.created).toBeGreaterThan(NOON + since);
        },
      ),
      { numRuns: propertyRuns(100) },
    );
  });

  test('it takes four requests if nothing was appended since, and some 14 among 1,000 entries', async () => {
    const { log, source, requests } = await logOf(Array.from({ length: 1000 }, () => ({ does: 'add', after: 1 })));
    expect(await positionAtTime(source, log, NOON + 1000)).toEqual(at(0, 1001));
    expect(requests).toEqual(['newestSegments', 'items', 'newestEntry', 'items', 'items']);
    requests.length = 0;
    expect(await positionAtTime(source, log, NOON + 317)).toEqual(at(0, 318));
    expect(requests.length).toBeLessThanOrEqual(15);
  });

  test('it is unknown if its entries have expired, and if the log does not exist', async () => {
    const add: Step = { does: 'add', after: 1 };
    const { log, tables, source } = await logOf([
      add,
      { does: 'segment', after: 10 },
      add,
      { does: 'segment', after: 10 },
      add,
    ]);
    await tables.deleteEntries(log, 0, [0, 1, 2]);
    await expect(positionAtTime(source, log, NOON + 5)).rejects.toThrow(EntryNotFoundError);
    await expect(positionAtTime(source, log, NOON - 5)).rejects.toThrow('expired');
    expect(await positionAtTime(source, log, NOON + 11)).toEqual(at(1, 1));
    await tables.deleteEntries(log, 1, [1]);
    await expect(positionAtTime(source, log, NOON + 12)).rejects.toThrow(EntryGapError);
    await expect(positionAtTime(source, newLogId(), NOON)).rejects.toThrow(LogNotFoundError);
  });
});
