import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { EntryExistsError, FoldFailedError } from '../../src/errors.ts';
import { reportEvent } from '../../src/functions/function-event.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { type DivisionSettings, divisionOf } from '../../src/log/division-policy.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { LogStore, RangeOptions, SegmentRange } from '../../src/log/log-store.ts';
import { readStop, writeStop } from '../../src/snapshot/stop.ts';
import { sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { type DivideResult, divideLog } from '../../src/workers/divide/divide-log.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { entryAt, newLogId, recordRequests } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from '../support/stores/interceptor.ts';

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

interface BusyOptions {
  /** Entries that the application appends before each request. */
  readonly perRequest: () => number;
  /** Whether its entries have numbers, as logfold's client writes them; true by default. */
  readonly numbered?: boolean;
  /** The request before which it appends a Snapshot entry too. */
  readonly snapshotAt?: number;
}

/** An application that appends before each request of a job until the log is divided. */
class BusyLog {
  readonly #sheets: Sheets;
  readonly #log: LogId;
  readonly #options: BusyOptions;
  requests = 0;
  itemsRead = 0;
  #isDivided = false;

  constructor(sheets: Sheets, log: LogId, options: BusyOptions) {
    this.#sheets = sheets;
    this.#log = log;
    this.#options = options;
  }

  async append(entries: number): Promise<void> {
    const { numbered = true } = this.#options;
    if (numbered) return this.#sheets.append(this.#log, entries);
    for (let i = 0; i < entries; i++) {
      const newest = await this.#sheets.tables.newestEntry(this.#log, 0);
      const position = { segment: 0, entry: (newest?.position.entry ?? -1) + 1 };
      const edit = sheetBody({ type: 'Set', cells: [[i, 0, 'x']] });
      const body = { format: 'bytes', bytes: encodeValue(edit) } as const;
      await this.#sheets.tables.putEntries([entryAt(this.#log, position, { body })]);
    }
  }

  async divide(settings: DivisionSettings): Promise<DivideResult> {
    const { deps } = this.#sheets;
    const act = async (operation: string) => {
      this.requests++;
      if (this.#isDivided || operation === 'newestSegments') return;
      if (this.requests === this.#options.snapshotAt) await this.#sheets.snapshot(this.#log);
      await this.append(this.#options.perRequest());
    };
    const intercept: Interceptor = async (operation, effect) => {
      await act(operation);
      const answer = await effect();
      this.#isDivided ||= ['putEntries', 'startSegment', 'putAhead'].includes(operation);
      return answer;
    };
    const busy = interceptLogStore(this.#sheets.tables, intercept);
    const tables: LogStore = { ...busy, items: (log, range, options) => this.#count(log, range, options, act) };
    const blobs = interceptBlobStore(deps.blobs, intercept);
    const division = divisionOf(settings);
    return divideLog({ ...deps, tables, blobs, division }, { kind: 'divide', log: this.#log });
  }

  /** Reads as one request, and counts the items that it returns. */
  async *#count(
    log: LogId,
    range: SegmentRange,
    _: RangeOptions,
    act: (operation: string) => Promise<void>,
  ): AsyncGenerator<Item[]> {
    await act('items');
    for await (const page of this.#sheets.tables.items(log, range)) {
      this.itemsRead += page.length;
      yield page;
    }
  }
}

function position(result: DivideResult): Position {
  if (result.outcome !== 'divided') throw new Error(`the log was not divided: ${JSON.stringify(result)}`);
  return result.position;
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
    expect(segment?.lastSnapshot?.position.entry).toBe(6);
    expect((await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).equal).toBe(true);
  });

  test('keeps the distance of the policy if each Snapshot entry is after the entry that asked', async () => {
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

  test("appends nothing after the application's own Snapshot entry", async () => {
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

  test('appends after the entries that arrive in the meantime', async () => {
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

  test.each([
    { perRequest: 1, numbered: true },
    { perRequest: 1, numbered: false },
    { perRequest: 3, numbered: true },
    { perRequest: 8, numbered: true },
  ])(
    'appends beside an application that appends $perRequest before each of its requests (numbered: $numbered)',
    async ({ perRequest, numbered }) => {
      for (const settings of [EVERY_FIVE, { segmentEveryEntries: 5 }]) {
        const sheets = new Sheets();
        const log = await sheets.atRest();
        const busy = new BusyLog(sheets, log, { perRequest: () => perRequest, numbered });
        await busy.append(5);
        const result = await busy.divide(settings);
        expect(result.outcome).toBe('divided');
        const startsSegment = 'segmentEveryEntries' in settings;
        expect(await sheets.types(log)).toMatch(startsSegment ? /^S\.+E$/ : /^S\.+S$/);
        expect(await sheets.types(log, 1)).toBe(startsSegment ? 'S' : '');
        expect(busy.requests).toBeLessThanOrEqual(2 + 1 + 2 * (perRequest + 1));
        await busy.append(1);
        await sheets.complete(log, position(result));
        expect((await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).equal).toBe(true);
      }
    },
  );

  test('ends soon beside an application that appends too much before each of its requests', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    const busy = new BusyLog(sheets, log, { perRequest: () => 9 });
    await busy.append(5);
    expect(await busy.divide(EVERY_FIVE)).toEqual({ outcome: 'undivided', reason: 'busy' });
    expect(busy.requests).toBe(2 + 1 + 2 * 20);
    expect(await sheets.types(log)).toMatch(/^S\.+$/);
    expect((await sheets.divide(log, EVERY_FIVE)).outcome).toBe('divided');
  });

  test('reads each entry once beside an application that never pauses', async () => {
    const sheets = new Sheets(new MemoryLogStore({ pageItems: 10 }));
    const log = await sheets.atRest();
    const busy = new BusyLog(sheets, log, { perRequest: () => 2 });
    await busy.append(95);
    expect(await busy.divide(EVERY_FIVE)).toMatchObject({ outcome: 'divided' });
    const [read] = [busy.itemsRead];
    expect(read).toBeLessThanOrEqual((await sheets.types(log)).length);
  });

  test.each(['one', 'two'])(
    'leaves a dense log with one Snapshot entry, whatever an application appends beside %s jobs',
    async (jobs) => {
      const random = new Random(7);
      let divided = 0;
      for (let round = 0; round < 60; round++) {
        const sheets = new Sheets();
        const log = await sheets.atRest();
        const busy = new BusyLog(sheets, log, { perRequest: () => random.integer(0, round % 5) });
        await busy.append(60);
        const settings = round % 2 === 0 ? { snapshotEveryEntries: 60 } : { segmentEveryEntries: 60 };
        const results = await Promise.all(Array.from({ length: jobs === 'one' ? 1 : 2 }, () => busy.divide(settings)));
        const written = results.filter(({ outcome }) => outcome === 'divided').length;
        expect(written).toBeLessThanOrEqual(1);
        divided += written;
        const all = await sheets.entries(log, 0);
        expect(all.map(({ position }) => position.entry)).toEqual(all.map((_, i) => i));
        const numbers = all.filter(({ type }) => type === 'Set').map(({ number }) => number);
        expect(numbers).toEqual(numbers.map((_, i) => i + 1));
        if (written === 0) continue;
        expect(await sheets.types(log)).toMatch(round % 2 === 0 ? /^S\.+S\.*$/ : /^S\.+E$/);
      }
      expect(divided).toBeGreaterThan(50);
    },
  );

  test("appends nothing after the application's own Snapshot entry, even if it has not read that entry", async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    const busy = new BusyLog(sheets, log, { perRequest: () => 2, snapshotAt: 3 });
    await busy.append(60);
    expect(await busy.divide({ snapshotEveryEntries: 60 })).toEqual(NOT_DUE);
    expect((await sheets.types(log)).match(/S/g)).toHaveLength(2);
  });

  test('divides the new segment if the application starts it between its two reads', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    let isFirst = true;
    const slow = interceptLogStore(sheets.tables, async (operation, effect) => {
      if (operation === 'items' && isFirst) {
        isFirst = false;
        await sheets.segment(log);
        await sheets.append(log, 5);
      }
      return effect();
    });
    expect(await sheets.divide(log, EVERY_FIVE, slow)).toEqual(dividedAt({ segment: 1, entry: 6 }));
    expect([await sheets.types(log, 0), await sheets.types(log, 1)]).toEqual(['S.....E', 'S.....S']);
  });

  test('changes nothing if the newest segment has ended and the next one is missing', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    await sheets.tables.putEntries([{ ...entryAt(log, { segment: 0, entry: 6 }), type: 'End Segment' }]);
    await expect(sheets.divide(log, EVERY_FIVE)).rejects.toBeInstanceOf(EntryExistsError);
    expect(await sheets.types(log)).toBe('S.....E');
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
      return reportEvent({ kind: 'job', delivery, job: { kind: 'divide', log }, result, ms: 1, lag: undefined });
    };
    expect(await lineOf()).toMatchObject({
      level: 'info',
      message: 'divide: divided',
      fields: { log, position: '0/6' },
    });
    expect(await lineOf()).toMatchObject({ message: 'divide: undivided', fields: { log, reason: 'not due' } });
  });
});
