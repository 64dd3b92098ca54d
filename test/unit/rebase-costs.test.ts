import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { NewEntry } from '../../src/log/client.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';

const insertRow: NewEntry = { type: 'Insert Rows', version: 1, body: [0, 1] };
const cell = (row: number, value: string): NewEntry => {
  return { type: 'Set', version: 1, body: sheetBody({ type: 'Set', cells: [[row, 1, value]] }) };
};
const tick = () => new Promise((resolve) => setImmediate(resolve));

function collectGarbage(): void {
  setFlagsFromString('--expose_gc');
  runInNewContext('gc')();
}

/** A reducer for sheets that counts its calls. */
function counting({ rebases }: { readonly rebases: boolean }): Reducer & { readonly calls: typeof calls } {
  const calls = { fold: 0, rebase: 0 };
  const { rebase, ...plain } = spreadsheet;
  return {
    ...plain,
    calls,
    fold: (draft, entry) => {
      calls.fold++;
      return spreadsheet.fold(draft, entry);
    },
    ...(rebases && {
      rebase: (...args) => {
        calls.rebase++;
        return rebase?.(...args);
      },
    }),
  };
}

async function twoClients(reducer: Reducer) {
  const live = await LiveLog.create();
  await live.sheet.edit({ type: 'Set', cells: [[0, 0, 'city']] });
  return { live, ann: await live.open({ reducer }), ben: await live.open() };
}

/** Each entry meets each arrival in two calls of `rebase`, here and on its way to the log. */
const CALLS = 4;

describe.each([{ rebases: true }, { rebases: false }])('with a rebase: $rebases', ({ rebases }) => {
  test.each([
    { pending: 40, arrivals: 1 },
    { pending: 160, arrivals: 1 },
    { pending: 40, arrivals: 20 },
  ])('$pending mutations while $arrivals entries arrive cost as many steps as pairs', async ({ pending, arrivals }) => {
    const reducer = counting({ rebases });
    const { ann, ben } = await twoClients(reducer);
    for (let i = 0; i < arrivals; i++) await ben.append(insertRow);
    const { calls } = reducer;
    calls.fold = 0;
    const refreshed = ann.refresh();
    const asked = Array.from({ length: pending }, (_, i) => ann.mutate(cell(i, `${i}`)));
    await Promise.all([refreshed, ...asked]);
    expect(calls.rebase).toBeLessThanOrEqual(rebases ? CALLS * pending * arrivals : 0);
    // Once for the author, once after the arrivals, and once on the way to the log.
    expect(calls.fold).toBeLessThanOrEqual(3 * pending + arrivals);
    expect((await ann.view({ rows: { from: 0, to: 300 }, columns: { from: 1, to: 2 } })).flat()).toContain('39');
  });

  test('mutations whose condition fails are folded once more for all of them', async () => {
    const reducer = counting({ rebases });
    const { ann, ben } = await twoClients(reducer);
    await ben.append(insertRow);
    const after = ann.newest;
    const told = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => ann.mutate(cell(i, `${i}`), { after })));
    expect(told.filter(({ status }) => status === 'rejected')).toHaveLength(40);
    expect((await ann.view({ rows: { from: 0, to: 1 }, columns: { from: 1, to: 2 } })).flat()).toEqual([null]);
    expect(reducer.calls.fold).toBeLessThanOrEqual(3 * 40 + 1);
    // Each one meets those before it, on which it may build.
    expect(reducer.calls.rebase).toBeLessThanOrEqual(rebases ? 2 * 40 * 40 : 0);
  });

  test('mutations during each arrival meet it once', async () => {
    const reducer = counting({ rebases });
    const { live, ann, ben } = await twoClients(reducer);
    let isOffline = true;
    live.interceptor = async (name, effect) => {
      await tick();
      if (isOffline && name === 'putEntries') throw new StoreUnavailableError('busy');
      return effect();
    };
    const asked: Promise<unknown>[] = [];
    for (let arrivals = 0; arrivals < 10; arrivals++) {
      isOffline = false;
      await ben.append(insertRow);
      isOffline = true;
      const refreshed = ann.refresh();
      for (let i = 0; i < 10; i++) {
        asked.push(ann.mutate(cell(i, `${arrivals} ${i}`)));
        await tick();
      }
      await refreshed;
    }
    const { calls } = reducer;
    expect(calls.rebase).toBeLessThanOrEqual(rebases ? CALLS * 100 * 10 : 0);
    isOffline = false;
    await Promise.all(asked);
    expect(calls.rebase).toBeLessThanOrEqual(rebases ? CALLS * 100 * 10 : 0);
  });
});

describe('a document that loads a newer snapshot', () => {
  /** Ann is far behind Ben, whose entries have large bodies. */
  async function farBehind(entries: number) {
    const { live, ben } = await twoClients(spreadsheet);
    const ann = await live.open({ reducer: spreadsheet, reloadAfter: { entries: 1 } });
    for (let i = 0; i < entries; i++) await ben.append(cell(i, 'x'.repeat(20_000)));
    await live.sheet.completed();
    return { live, ann, ben };
  }

  test('reads the bodies that it passed over once for all pending entries, several at a time', async () => {
    const { live, ann } = await farBehind(30);
    let [reads, open, most] = [0, 0, 0];
    live.interceptor = async (name, effect) => {
      if (name !== 'get' && name !== 'getRange') return effect();
      reads++;
      most = Math.max(most, ++open);
      await tick();
      open--;
      return effect();
    };
    const asked = [0, 1, 2].map((row) => ann.mutate(cell(row, 'of Ann')));
    await Promise.all([ann.refresh(), ...asked]);
    expect(reads).toBe(30);
    expect(most).toBeGreaterThan(4);
  });

  test('carries its pending entries over some bodies before it requests the others', async () => {
    const order: string[] = [];
    const { live } = await twoClients(spreadsheet);
    const reducer: Reducer = {
      ...spreadsheet,
      rebase: (...args) => {
        order.push('rebase');
        return spreadsheet.rebase?.(...args);
      },
    };
    const ann = await live.open({ reducer, reloadAfter: { entries: 1 } });
    const ben = await live.open({ reducer: spreadsheet });
    for (let i = 0; i < 60; i++) await ben.append(cell(i, 'x'.repeat(20_000)));
    await live.sheet.completed();
    live.interceptor = (name, effect) => {
      if (name === 'get' || name === 'getRange') order.push('read');
      return effect();
    };
    await Promise.all([ann.refresh(), ann.mutate(cell(1, 'of Ann'))]);
    expect(order.filter((each) => each === 'read')).toHaveLength(60);
    expect(order.indexOf('rebase')).toBeLessThan(order.lastIndexOf('read'));
  });

  test('frees the state before it', async () => {
    const { ann } = await farBehind(3);
    const before = new WeakRef(ann.state.content);
    await ann.refresh();
    await tick();
    collectGarbage();
    expect(before.deref()).toBeUndefined();
    expect((await ann.view({ rows: { from: 0, to: 1 }, columns: { from: 1, to: 2 } })).flat()).toHaveLength(1);
  });
});
