import { describe, expect, test } from 'vitest';
import { AttemptsExhaustedError, FoldFailedError } from '../../src/errors.ts';
import { logLine } from '../../src/functions/log-line.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import { type DivisionSettings, divisionOf } from '../../src/log/division-policy.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { readStop, writeStop } from '../../src/snapshot/stop.ts';
import { type DivideResult, divideLog } from '../../src/workers/divide/divide-log.ts';
import { replay } from '../../src/workers/inspect/replay.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { interceptLogStore } from '../support/interceptor.ts';
import { entryAt, newLogId, recordRequests } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

const EVERY_FIVE: DivisionSettings = { snapshotEveryEntries: 5 };
const NOT_DUE: DivideResult = { outcome: 'undivided', reason: 'not due' };

function dividedAt(position: Position, startsSegment = false): DivideResult {
  return { outcome: 'divided', position, startsSegment };
}

class Sheets extends SheetLogs {
  /** Appends entries of the application. */
  async append(log: LogId, entries: number): Promise<void> {
    for (let row = 0; row < entries; row++) await this.edit(log, { type: 'Set', cells: [[row, 0, `row ${row}`]] });
  }

  divide(log: LogId, settings: DivisionSettings, tables: LogStore = this.tables): Promise<DivideResult> {
    return divideLog({ ...this.deps, tables, division: divisionOf(settings) }, { kind: 'divide', log });
  }

  /** The types of all entries of a segment, with `.` for those of the application. */
  async types(log: LogId, segment = 0): Promise<string> {
    return (await this.entries(log, segment))
      .map(({ type }) => (type === 'Snapshot' ? 'S' : type === 'End Segment' ? 'E' : '.'))
      .join('');
  }

  async entries(log: LogId, segment: number): Promise<Entry[]> {
    const range = { segment, from: 0, to: MAX_NUMBER + 1 };
    return (await Array.fromAsync(this.tables.entries(log, range))).flat();
  }
}

describe('a divide job', () => {
  test('appends a Snapshot entry after exactly the entries of the policy', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 4);
    expect(await sheets.divide(log, EVERY_FIVE)).toEqual(NOT_DUE);
    await sheets.append(log, 1);
    expect(await sheets.divide(log, EVERY_FIVE)).toEqual(dividedAt({ segment: 0, entry: 6 }));
    expect(await sheets.types(log)).toBe('S.....S');
    const [before, snapshot] = (await sheets.entries(log, 0)).slice(-2);
    expect(snapshot?.number).toBe(before?.number);
    expect(snapshot?.version).toBe(1);
  });

  test('sends the snapshot job, so that the log has a complete snapshot afterwards', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const deps = { ...sheets.deps, division: divisionOf(EVERY_FIVE) };
    const results = await sheets.runWith(deps, [{ kind: 'divide', log }]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['divided', 'built']);
    const [segment] = await sheets.tables.newestSegments(log, 1);
    expect(segment?.lastSnapshot).toBe(6);
    expect((await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).equal).toBe(true);
  });

  test('keeps the distance of the policy if each Snapshot entry lies behind the entry that asked', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    for (let appended = 0; appended < 38; appended++) {
      await sheets.append(log, 1);
      const [segment] = await sheets.tables.newestSegments(log, 1);
      const newest = await sheets.tables.newestEntry(log, segment?.segment ?? 0);
      if ((newest?.position.entry ?? 0) % 10 !== 0) continue;
      await sheets.append(log, 1);
      await sheets.divide(log, { snapshotEveryEntries: 10 });
    }
    expect(await sheets.types(log)).toBe('S...........S.........S.........S.........S....');
  });

  test('changes nothing without a policy, with two queries', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 50);
    const requests: string[] = [];
    expect(await sheets.divide(log, {}, recordRequests(sheets.tables, requests))).toEqual(NOT_DUE);
    expect(requests).toEqual(['newestSegments', 'items']);
  });

  test('changes nothing the second time, alone or concurrently', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 8);
    const results = await Promise.all([1, 2, 3].map(() => sheets.divide(log, EVERY_FIVE)));
    expect(results.filter(({ outcome }) => outcome === 'divided')).toHaveLength(1);
    expect(await sheets.divide(log, EVERY_FIVE)).toEqual(NOT_DUE);
    expect(await sheets.types(log)).toBe('S........S');
  });

  test('starts one segment if two jobs run concurrently, and its snapshot completes in between', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const settings = { segmentEveryEntries: 5 };
    let isFirst = true;
    const slow = interceptLogStore(sheets.tables, async (operation, effect) => {
      if (operation !== 'startSegment' || !isFirst) return effect();
      isFirst = false;
      expect(await sheets.divide(log, settings)).toEqual(dividedAt({ segment: 1, entry: 0 }, true));
      await sheets.complete(log, { segment: 1, entry: 0 });
      return effect();
    });
    expect(await sheets.divide(log, settings, { ...slow, isRetryable: () => false })).toEqual(NOT_DUE);
    expect([await sheets.types(log, 0), await sheets.types(log, 1)]).toEqual(['S.....E', 'S']);
  });

  test("appends nothing behind the application's own Snapshot entry", async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    let isFirst = true;
    const slow = interceptLogStore(sheets.tables, async (operation, effect) => {
      if (operation === 'putEntries' && isFirst) {
        isFirst = false;
        await sheets.snapshot(log);
      }
      return effect();
    });
    expect(await sheets.divide(log, EVERY_FIVE, { ...slow, isRetryable: () => false })).toEqual(NOT_DUE);
    expect(await sheets.types(log)).toBe('S.....S');
  });

  test('appends behind the entries that arrive in the meantime', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    let arrivals = 3;
    const slow = interceptLogStore(sheets.tables, async (operation, effect) => {
      if (operation === 'putEntries' && arrivals-- > 0) await sheets.append(log, 1);
      return effect();
    });
    const result = await sheets.divide(log, EVERY_FIVE, { ...slow, isRetryable: () => false });
    expect(result).toEqual(dividedAt({ segment: 0, entry: 9 }));
    expect(await sheets.types(log)).toBe('S........S');
  });

  test('gives up beside an application that is always faster, and changes nothing', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const slow = interceptLogStore(sheets.tables, async (operation, effect) => {
      if (operation === 'putEntries') await sheets.append(log, 1);
      return effect();
    });
    const result = sheets.divide(log, EVERY_FIVE, { ...slow, isRetryable: () => false });
    await expect(result).rejects.toBeInstanceOf(AttemptsExhaustedError);
    expect(await sheets.types(log)).toMatch(/^S\.+$/);
  });

  test('leaves one Snapshot entry if the answer to its request is lost', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const lossy = interceptLogStore(sheets.tables, async (operation, effect) => {
      const answer = await effect();
      if (operation === 'putEntries') throw new Error('the answer was lost');
      return answer;
    });
    await expect(sheets.divide(log, EVERY_FIVE, { ...lossy, isRetryable: () => false })).rejects.toThrow('lost');
    expect(await sheets.divide(log, EVERY_FIVE)).toEqual(NOT_DUE);
    expect(await sheets.types(log)).toBe('S.....S');
  });

  test('appends to a log whose first snapshot is pending, and to a log without any Snapshot entry', async () => {
    const sheets = new Sheets();
    const pending = await sheets.client.createLog();
    await sheets.append(pending, 5);
    expect(await sheets.divide(pending, EVERY_FIVE)).toEqual(dividedAt({ segment: 0, entry: 6 }));
    const other = newLogId();
    await sheets.tables.createLog({ log: other, segment: 0, created: 1 }, entryAt(other, { segment: 0, entry: 0 }));
    for (let entry = 1; entry < 4; entry++) await sheets.tables.putEntries([entryAt(other, { segment: 0, entry })]);
    expect(await sheets.divide(other, EVERY_FIVE)).toEqual(NOT_DUE);
    await sheets.tables.putEntries([entryAt(other, { segment: 0, entry: 4 })]);
    expect(await sheets.divide(other, EVERY_FIVE)).toEqual(dividedAt({ segment: 0, entry: 5 }));
  });

  test('does not fill a stopped log with Snapshot entries', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 1);
    const reducer = { name: 'sheet', version: 1 };
    await writeStop(sheets.blobs, log, { error: new FoldFailedError('poison'), reducer, since: sheets.nowMs });
    expect(await readStop(sheets.blobs, log)).toBeDefined();
    for (let round = 0; round < 3; round++) {
      await sheets.append(log, 5);
      const settings = { snapshotEveryEntries: 5, segmentEveryEntries: 10 };
      expect(await sheets.divide(log, settings)).toEqual({ outcome: 'undivided', reason: 'stopped' });
    }
    expect(await sheets.types(log)).toMatch(/^S\.+$/);
  });

  test('starts a segment instead of a Snapshot entry if both are due', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 10);
    const settings = { snapshotEveryEntries: 5, segmentEveryEntries: 10 };
    expect(await sheets.divide(log, settings)).toEqual(dividedAt({ segment: 1, entry: 0 }, true));
    expect(await sheets.types(log)).toBe('S..........E');
    // The new segment has no complete snapshot yet.
    await sheets.append(log, 10);
    expect(await sheets.divide(log, { segmentEveryEntries: 10 })).toEqual({
      outcome: 'undivided',
      reason: 'uncovered',
    });
    expect(await sheets.divide(log, settings)).toEqual(dividedAt({ segment: 1, entry: 11 }));
  });

  test('counts the bytes of items, for snapshots and for segments', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    const settings = { snapshotEveryBytes: 1_000, segmentEveryBytes: 3_000 };
    const results: DivideResult[] = [];
    for (let i = 0; i < 10; i++) {
      await sheets.edit(log, { type: 'Set', cells: [[i, 0, 'x'.repeat(400)]] });
      results.push(await sheets.divide(log, settings));
    }
    expect([await sheets.types(log, 0), await sheets.types(log, 1)]).toEqual(['S...S...S.E', 'S...S']);
    expect(results.filter(({ outcome }) => outcome === 'divided')).toHaveLength(4);
  });

  test('counts the minutes since the first change', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    const settings = { snapshotEveryMinutes: 10 };
    sheets.nowMs += 3_600_000;
    expect(await sheets.divide(log, settings)).toEqual(NOT_DUE);
    await sheets.append(log, 1);
    sheets.nowMs += 599_000;
    await sheets.append(log, 1);
    expect(await sheets.divide(log, settings)).toEqual(NOT_DUE);
    sheets.nowMs += 1_000;
    expect(await sheets.divide(log, settings)).toEqual(dividedAt({ segment: 0, entry: 3 }));
  });

  test('its line in the function log names the new Snapshot entry, or why there is none', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const lineOf = async () => {
      const result = await sheets.divide(log, EVERY_FIVE);
      const delivery = { messageId: '1', receiveCount: 1 };
      return logLine({ kind: 'job', delivery, job: { kind: 'divide', log }, result, ms: 1, lag: undefined });
    };
    expect(await lineOf()).toMatchObject({
      level: 'info',
      message: 'divide: divided',
      fields: { log, position: '0/6' },
    });
    expect(await lineOf()).toMatchObject({ message: 'divide: undivided', fields: { log, reason: 'not due' } });
  });
});
