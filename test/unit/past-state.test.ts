import { describe, expect, test } from 'vitest';
import { type DocumentState, loadPastState } from '../../src/client/document-state.ts';
import {
  DocumentClosedError,
  EntryNotFoundError,
  LogNotFoundError,
  LogsClosedError,
  PositionInvalidError,
  ReducerInvalidError,
  UsageError,
} from '../../src/errors.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { LiveLog } from '../support/live-logs.ts';
import { NOON, newLogId, unarchived } from '../support/logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { set } from '../support/sheet-log.ts';
import { readsOfPage } from '../support/stores/remote-reads.ts';

const at = (segment: number, entry: number) => ({ segment, entry });
const rowsOf = (state: DocumentState) => Array.fromAsync(sheetRows(sheetOf(state.draft)));

/** Makes one edit per second: A, B and so on. */
async function edited(texts: string): Promise<LiveLog> {
  const live = await LiveLog.create();
  for (const text of texts) {
    live.sheet.nowMs += 1000;
    await live.sheet.edit(set(0, 0, text));
  }
  return live;
}

describe('the state of a log at a moment, without a document', () => {
  test('it is that of a document, without the requests that open one', async () => {
    const live = await edited('ABC');
    await live.sheet.completed();
    await live.sheet.edit(set(0, 0, 'D'));
    const { log } = live.sheet;
    const document = await live.open();
    const logs = live.logs();
    const reducer = versionedSheet(1);
    for (const moment of [at(0, 3), { number: 2 }, new Date((NOON + 2) * 1000), at(0, 6)]) {
      const [past, same] = [await logs.at(log, moment, { reducer }), await document.at(moment)];
      expect(past.position).toEqual(same.position);
      expect(await rowsOf(past)).toEqual(await rowsOf(same));
    }
    live.requests.length = 0;
    await logs.at(log, at(0, 3), { reducer });
    const alone = [...live.requests];
    live.requests.length = 0;
    await (await live.logs().open(log, { reducer })).at(at(0, 3));
    expect(live.requests.slice(-alone.length)).toEqual(alone);
    expect(live.requests.length).toBe(alone.length + 2);
  });

  test('it refuses what no log has', async () => {
    const live = await LiveLog.create();
    const logs = live.logs();
    const reducer = versionedSheet(1);
    await expect(logs.at(newLogId(), at(0, 1), { reducer })).rejects.toThrow(LogNotFoundError);
    await expect(logs.at(newLogId(), at(0, 0), { reducer })).rejects.toThrow(LogNotFoundError);
    await expect(logs.at(live.sheet.log, at(0, 9), { reducer })).rejects.toThrow(EntryNotFoundError);
    // @ts-expect-error a program without types forgets the reducer
    await expect(logs.at(live.sheet.log, at(0, 1), {})).rejects.toThrow(ReducerInvalidError);
    await logs.close();
    await expect(logs.at(live.sheet.log, at(0, 1), { reducer })).rejects.toThrow(LogsClosedError);
  });
});

describe('the state of a document at a moment', () => {
  test('it is that before the entry at a position', async () => {
    const document = await (await edited('ABC')).open();
    const past = await document.at(at(0, 3));
    expect(await rowsOf(past)).toEqual([['B']]);
    expect(past).toMatchObject({ position: at(0, 3), snapshot: undefined });
    expect(await rowsOf(await document.at(at(0, 4)))).toEqual([['C']]);
    expect(await rowsOf(await document.at(at(0, 0)))).toEqual([]);
  });

  test('it is that before the entry with a number, in one request more', async () => {
    const live = await edited('ABC');
    await live.sheet.completed();
    await live.sheet.edit(set(0, 0, 'D'));
    const document = await live.open();
    expect(document.number).toBe(4);
    const all = async (moment: Parameters<typeof document.at>[0]) => {
      live.requests.length = 0;
      const past = await document.at(moment);
      return { past, requests: live.requests.length };
    };
    for (const [number, position, row] of [
      [1, at(0, 1), undefined],
      [3, at(0, 3), 'B'],
      [4, at(0, 5), 'C'],
    ] as const) {
      const [byNumber, byPosition] = [await all({ number }), await all(position)];
      expect(byNumber.past).toMatchObject({ position, number: number - 1 });
      expect(byPosition.past.number).toBe(number - 1);
      expect(await rowsOf(byNumber.past)).toEqual(row === undefined ? [] : [[row]]);
      expect(byNumber.requests).toBe(byPosition.requests + 1);
    }
    const now = await document.at({ number: 5 });
    expect(await rowsOf(now)).toEqual([['D']]);
    expect(now.number).toBe(4);
    expect(await document.at(at(0, 0))).toMatchObject({ number: 0 });
    const refused = await document.at({ number: 6 }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EntryNotFoundError);
    expect(refused).toMatchObject({ newest: at(0, 5), newestNumber: 4 });
    await expect(document.at(at(0, 9))).rejects.toMatchObject({ newest: at(0, 5), newestNumber: 4 });
    const changes = await Array.fromAsync(document.diff({ number: 3 }, { number: 4 }));
    expect(changes).toMatchObject([{ kind: 'cell', before: { value: 'B' }, after: { value: 'C' } }]);
    const revisions = await Array.fromAsync(document.history({ row: 0, column: 0 }, { at: { number: 3 } }));
    expect(revisions.map(({ value }) => value)).toEqual(['A', 'B']);
  });

  test('a position far after the end is refused after a few requests', async () => {
    const live = await edited('ABC');
    const document = await live.open();
    live.requests.length = 0;
    live.interceptor = (_, effect) => {
      if (live.requests.length > 20) throw new Error('too many requests');
      return effect();
    };
    await expect(document.at(at(MAX_NUMBER, MAX_NUMBER))).rejects.toThrow(EntryNotFoundError);
  });

  test('it includes the entries up to a time', async () => {
    const live = await edited('ABC');
    const document = await live.open();
    const now = live.sheet.nowMs;
    for (const [ms, row] of [
      [now + 60_000, 'C'],
      [now, 'C'],
      [now - 1, 'B'],
      [now - 1000, 'B'],
    ] as const) {
      expect(await rowsOf(await document.at(new Date(ms)))).toEqual([[row]]);
    }
    const past = await document.at(new Date(now - 5_000));
    expect(await rowsOf(past)).toEqual([]);
    expect(past.position).toEqual(at(0, 0));
  });

  test('a page loads it through the server of the application', async () => {
    const { sheet } = await edited('ABC');
    await sheet.completed();
    await sheet.edit(set(0, 0, 'D'));
    await sheet.completed();
    const deps = { ...sheet.deps, store: unarchived(readsOfPage(sheet.tables)) };
    for (const [moment, row, snapshot] of [
      [at(0, 3), 'B', at(0, 0)],
      [at(0, 5), 'C', at(0, 4)],
      [new Date(sheet.nowMs - 1000), 'B', at(0, 0)],
    ] as const) {
      const state = await loadPastState(deps, sheet.log, moment);
      expect(await rowsOf(state)).toEqual([[row]]);
      expect(state.snapshot ?? at(0, 0)).toEqual(snapshot);
    }
  });

  test('it does not change, and knows no pending entries', async () => {
    const live = await edited('A');
    const document = await live.open();
    const past = await document.at(new Date(live.sheet.nowMs));
    await document.append({ type: 'Set', version: 1, body: [[0, 0, 'B']] });
    expect(await rowsOf(past)).toEqual([['A']]);
    expect(await rowsOf(document.state)).toEqual([['B']]);
  });

  test('there is none beyond the end of a segment', async () => {
    const live = await edited('AB');
    await live.sheet.completed();
    await live.sheet.covered();
    const document = await live.open();
    for (const beyond of [at(0, 6), at(1, 2), at(2, 0), at(7, 1)]) {
      await expect(document.at(beyond)).rejects.toThrow(EntryNotFoundError);
    }
    expect(await rowsOf(await document.at(at(0, 5)))).toEqual([['B']]);
    expect(await rowsOf(await document.at(at(1, 1)))).toEqual([['B']]);
  });

  test('a log that does not exist has none', async () => {
    const { deps } = (await LiveLog.create()).sheet;
    for (const moment of [at(0, 0), at(0, 1), at(3, 0), new Date(0)]) {
      await expect(loadPastState(deps, newLogId(), moment)).rejects.toThrow(LogNotFoundError);
    }
  });

  test('other values are not moments, and a closed document has none', async () => {
    const document = await (await edited('A')).open();
    await expect(document.at({ segment: -1, entry: 0 })).rejects.toThrow(PositionInvalidError);
    await expect(document.at(new Date(Number.NaN))).rejects.toThrow(UsageError);
    document.close();
    await expect(document.at(at(0, 1))).rejects.toThrow(DocumentClosedError);
  });
});
