import { describe, expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import type { Moment } from '../../src/client/document-state.ts';
import { EntryNotFoundError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import { LiveLog } from '../support/live-logs.ts';
import { set } from '../support/sheet-log.ts';

const diffOf = (document: Document, before: Moment, after?: Moment) => Array.fromAsync(document.diff(before, after));

/** The position after an entry. */
const positionAfter = ({ segment, entry }: Position): Position => ({ segment, entry: entry + 1 });

describe('the differences between two moments of a document', () => {
  test('they are rows and columns that moved, and cells with their positions before and after', async () => {
    const live = await LiveLog.create();
    const cells = ['city', 'Denver', 'Austin', 'Boston'].map((city, row) => set(row, 0, city));
    const before = positionAfter(await live.sheet.edit(...cells));
    const after = positionAfter(
      await live.sheet.edit(
        { type: 'Insert Rows', position: 1, count: 2 },
        set(1, 0, 'Chicago'),
        { type: 'Delete Rows', position: 3, count: 1 },
        set(3, 0, 'Dallas'),
        { type: 'Delete Columns', position: 7, count: 1 },
      ),
    );
    const document = await live.open();
    expect(await diffOf(document, before, after)).toEqual([
      { kind: 'rows', change: 'removed', from: 1, count: 1 },
      { kind: 'rows', change: 'inserted', to: 1, count: 2 },
      { kind: 'columns', change: 'removed', from: 7, count: 1 },
      { kind: 'cell', before: { row: 1, column: 0, value: 'Denver' } },
      {
        kind: 'cell',
        before: { row: 2, column: 0, value: 'Austin' },
        after: { row: 3, column: 0, value: 'Dallas' },
      },
      { kind: 'cell', after: { row: 1, column: 0, value: 'Chicago' } },
    ]);
    expect(
      (await diffOf(document, after, before)).map(({ kind, ...change }) => ('change' in change ? change : kind)),
    ).toEqual([
      { change: 'removed', from: 1, count: 2 },
      { change: 'inserted', to: 1, count: 1 },
      { change: 'inserted', to: 7, count: 1 },
      'cell',
      'cell',
      'cell',
    ]);
    expect(await diffOf(document, after, after)).toEqual([]);
  });

  test('a row that was deleted and inserted again has moved, without its cells', async () => {
    const live = await LiveLog.create();
    const before = positionAfter(await live.sheet.edit(...['A', 'B', 'C', 'D'].map((text, row) => set(row, 0, text))));
    await live.sheet.edit(
      { type: 'Delete Rows', position: 0, count: 1 },
      { type: 'Insert Rows', position: 2, count: 1 },
    );
    expect(await diffOf(await live.open(), before)).toEqual([
      { kind: 'rows', change: 'moved', from: 0, to: 2, count: 1 },
      { kind: 'cell', before: { row: 0, column: 0, value: 'A' } },
    ]);
  });

  test('they reach from an archived segment to the pending entries of the current state', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'A'));
    const noon = new Date(live.sheet.nowMs);
    live.sheet.nowMs += 60_000;
    await live.sheet.edit(set(0, 0, 'B'));
    await live.sheet.completed();
    await live.sheet.covered();
    await live.sheet.archive(0);
    const document = await live.open();
    live.interceptor = async (name, effect) => (name === 'putEntries' ? new Promise<never>(() => undefined) : effect());
    void document.mutate({ type: 'Set', version: 1, body: [[0, 0, 'C']] });
    while (document.pending.length === 0) await new Promise(setImmediate);
    const [before, after] = [
      { row: 0, column: 0, value: 'A' },
      { row: 0, column: 0, value: 'C' },
    ];
    expect(await diffOf(document, noon)).toEqual([{ kind: 'cell', before, after }]);
    expect(await diffOf(document, { segment: 0, entry: 0 }, noon)).toEqual([{ kind: 'cell', after: before }]);
    await expect(diffOf(document, { segment: 0, entry: 99 })).rejects.toThrow(EntryNotFoundError);
  });

  test('their requests grow with the differences, and neither with the state nor with the log', async () => {
    const live = await LiveLog.create();
    const { sheet } = live;
    await sheet.fill(1_000, 20, 150);
    await sheet.completed();
    const requestsOf = async (from: Moment, to: Moment) => {
      const document = await live.open();
      live.requests.length = 0;
      const changes = await diffOf(document, from, to);
      const objects = live.requests.filter((name) => name === 'get').length;
      return { changes: changes.length, objects, queries: live.requests.length - objects };
    };
    const snapshots = [positionAfter(await sheet.covered())];
    for (const edits of [1, 10, 20]) {
      for (let i = 0; i < edits; i++) await sheet.edit(set(Math.floor((1_000 / edits) * i), 7, `changed ${edits}`));
      snapshots.push(positionAfter(await sheet.covered()));
    }
    // The sheet has more chunks than any of the differences.
    expect((await sheet.keys()).length).toBeGreaterThan(35);
    for (const [from, to, expected] of [
      [3, 3, 0],
      [0, 1, 1],
      [1, 2, 10],
      [2, 3, 20],
      [0, 3, 20],
    ] as const) {
      const [before, after] = [snapshots[from], snapshots[to]];
      if (before === undefined || after === undefined) throw new Error(`there is no snapshot ${from} or ${to}`);
      const { changes, objects, queries } = await requestsOf(before, after);
      expect(changes).toBe(expected);
      expect(objects).toBeLessThanOrEqual(changes);
      // Three for each state: the segment, its snapshot, and the entries after it.
      expect(queries).toBe(6);
    }
  });
});
