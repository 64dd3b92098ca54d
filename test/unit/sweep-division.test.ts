import { describe, expect, test } from 'vitest';
import { FoldFailedError } from '../../src/errors.ts';
import { reportEvent } from '../../src/functions/function-event.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { type DivisionSettings, divisionOf } from '../../src/log/division-policy.ts';
import { writeStop } from '../../src/snapshot/stop.ts';
import { recordRequests } from '../support/logs.ts';
import { SheetLogs, type SweepFindings } from '../support/sheet-logs.ts';

const YOUNG_SECONDS = 900;
const EVERY_FIVE: DivisionSettings = { snapshotEveryEntries: 5 };

class Sheets extends SheetLogs {
  async append(log: LogId, entries: number): Promise<void> {
    for (let row = 0; row < entries; row++) await this.edit(log, { type: 'Set', cells: [[row, 0, 'x'.repeat(100)]] });
  }

  divide(settings: DivisionSettings, options: Parameters<SheetLogs['sweep']>[0] = {}): Promise<SweepFindings> {
    return this.sweep(options, { division: divisionOf(settings) });
  }
}

describe('a sweep with a division policy', () => {
  test('asks to divide a log in which nothing asked for a snapshot', async () => {
    const sheets = new Sheets();
    const [log, other] = [await sheets.atRest(), await sheets.atRest()];
    await sheets.append(log, 5);
    await sheets.append(other, 4);
    const found = await sheets.divide(EVERY_FIVE);
    expect(found.sent).toEqual([{ kind: 'divide', log }]);
    expect(found).toMatchObject({ jobs: 1, missed: 0, longestTail: 5, undivided: 0 });
    expect((await sheets.sweep()).sent).toEqual([]);
  });

  test('sends no other requests than a sweep without a policy', async () => {
    const sheets = new Sheets();
    await sheets.append(await sheets.atRest(), 5);
    const requestsOf = async (settings: DivisionSettings): Promise<string[]> => {
      const requests: string[] = [];
      const tables = recordRequests(sheets.tables, requests);
      await sheets.sweep({}, { tables, division: divisionOf(settings) });
      return requests;
    };
    const policy = { ...EVERY_FIVE, segmentEveryEntries: 5, segmentEveryBytes: 1_000, snapshotEveryMinutes: 1 };
    expect(await requestsOf(policy)).toEqual(await requestsOf({}));
  });

  test('leaves young entries to the stream, but looks at minutes itself', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 4);
    sheets.nowMs += 600_000;
    await sheets.append(log, 3);
    sheets.nowMs += 600_000;
    expect((await sheets.divide(EVERY_FIVE, { youngSeconds: YOUNG_SECONDS })).sent).toEqual([]);
    expect((await sheets.divide({ snapshotEveryMinutes: 21 }, { youngSeconds: YOUNG_SECONDS })).sent).toEqual([]);
    expect((await sheets.divide({ snapshotEveryMinutes: 20 }, { youngSeconds: YOUNG_SECONDS })).sent).toHaveLength(1);
    sheets.nowMs += 300_000;
    expect((await sheets.divide(EVERY_FIVE, { youngSeconds: YOUNG_SECONDS })).sent).toEqual([{ kind: 'divide', log }]);
  });

  test('counts from the newest Snapshot entry, also if it checks old ones again', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 4);
    await sheets.snapshot(log);
    await sheets.append(log, 4);
    for (const since of [undefined, 0]) {
      expect((await sheets.divide(EVERY_FIVE, { since })).sent.map(({ kind }) => kind)).not.toContain('divide');
    }
    await sheets.append(log, 1);
    expect((await sheets.divide(EVERY_FIVE, { since: 0 })).sent.at(-1)).toEqual({ kind: 'divide', log });
  });

  test('asks for a segment if its entries, or an estimate of its bytes, are due', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 6);
    await sheets.complete(log, await sheets.snapshot(log));
    const due = async (settings: DivisionSettings) => (await sheets.divide(settings)).sent.length;
    expect(await due({ segmentEveryEntries: 7 })).toBe(0);
    await sheets.append(log, 2);
    expect([await due({ segmentEveryEntries: 9 }), await due({ segmentEveryEntries: 10 })]).toEqual([1, 0]);
    expect([await due({ segmentEveryBytes: 1_000 }), await due({ segmentEveryBytes: 3_000 })]).toEqual([1, 0]);
  });

  test('counts a job that is held back, and sends none to a stopped log', async () => {
    const sheets = new Sheets();
    const log = await sheets.atRest();
    await sheets.append(log, 5);
    const division = divisionOf(EVERY_FIVE);
    expect(await sheets.sweep({}, { division, holdsBack: () => true })).toMatchObject({ jobs: 0, waiting: 1 });
    await sheets.snapshot(log);
    const reducer = { name: 'sheet', version: 1 };
    await writeStop(sheets.blobs, log, { error: new FoldFailedError('poison'), reducer, since: 1 });
    await sheets.append(log, 20);
    const stopped = await sheets.divide(EVERY_FIVE);
    expect(stopped.sent.map(({ kind }) => kind)).toEqual(['snapshot']);
    // The alarm of stopped logs reports it.
    expect(stopped).toMatchObject({ stopped: 1, longestTail: 26, undivided: 0 });
  });

  test('reports logs that are twice as far behind as the policy allows, if their entries are not young', async () => {
    const sheets = new Sheets();
    const [far, near] = [await sheets.atRest(), await sheets.atRest()];
    await sheets.append(far, 11);
    await sheets.append(near, 10);
    const sweeps = { youngSeconds: YOUNG_SECONDS };
    expect(await sheets.divide(EVERY_FIVE, sweeps)).toMatchObject({ longestTail: 11, undivided: 0 });
    sheets.nowMs += 3_600_000;
    expect(await sheets.divide(EVERY_FIVE, sweeps)).toMatchObject({ longestTail: 11, undivided: 1 });
    expect(await sheets.divide({ snapshotEveryBytes: 1_000_000 }, sweeps)).toMatchObject({ undivided: 0 });
  });

  test('has metrics that a sweep without a policy does not have', async () => {
    const sheets = new Sheets();
    await sheets.append(await sheets.atRest(), 11);
    const ages = { unsnapshottedSeconds: 0, dueSeconds: 0 };
    const metrics = async (settings: DivisionSettings) => {
      const result = await sheets.divide(settings);
      const all = reportEvent({ kind: 'swept', run: '1', result, ms: 1, ages }).metrics;
      return all.filter(({ name }) => ['LongestTailEntries', 'LogsUndivided'].includes(name));
    };
    expect(await metrics({})).toEqual([]);
    expect(await metrics(EVERY_FIVE)).toEqual([
      { name: 'LongestTailEntries', unit: 'Count', value: 11 },
      { name: 'LogsUndivided', unit: 'Count', value: 1 },
    ]);
  });
});
