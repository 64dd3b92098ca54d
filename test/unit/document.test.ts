import { describe, expect, onTestFinished, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import {
  AppendUncertainError,
  DocumentClosedError,
  EntryExistsError,
  EntryRejectedError,
  MutationOvertakenError,
  SegmentWithoutSnapshotError,
  StoreUnavailableError,
  UsageError,
} from '../../src/errors.ts';
import type { AddedEntries, NewEntry } from '../../src/log/client.ts';
import { sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { set } from '../support/sheet-log.ts';

const cell = (row: number, column: number, value: string): NewEntry => ({
  type: 'Set',
  version: 1,
  body: [[row, column, value]],
});
const REJECTED: NewEntry = { type: 'Set', version: 1, body: 'no cells' };

/** Appends an entry that no other process appends. */
async function appended(document: Document, entry: NewEntry): Promise<AddedEntries> {
  const added = await document.append(entry);
  if (added === undefined) throw new Error('the log has the mutation already');
  return added;
}

/** Counts the calls of a listener. */
function counted(document: Document): { calls: number } {
  const count = { calls: 0 };
  document.subscribe(() => count.calls++);
  return count;
}

describe('open', () => {
  test('it takes two queries if the root is inline', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'Denver'));
    await live.sheet.completed();
    await live.sheet.edit(set(1, 0, 'Austin'));
    const document = await live.open();
    expect(live.requests).toEqual(['newestSegments', 'entries']);
    expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
    expect(document.snapshot).toEqual({ segment: 0, entry: 2 });
    expect(document.position).toEqual({ segment: 0, entry: 4 });
    expect(document.number).toBe(2);
    expect(live.requests).toHaveLength(2);
  });

  test('its number counts the entries of the application up to its position, also those of others', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    expect(document.number).toBe(0);
    await document.append([cell(0, 0, 'Denver'), cell(1, 0, 'Austin')], { after: { number: 0 } });
    expect(document.number).toBe(2);
    await live.sheet.completed();
    await live.sheet.edit(set(0, 0, 'Dallas'));
    expect(document.number).toBe(2);
    await expect(document.append(cell(0, 0, 'mine'), { after: { number: 2 } })).rejects.toMatchObject({
      newestNumber: 3,
    });
    await document.refresh();
    expect(document).toMatchObject({ number: 3, newest: { segment: 0, entry: 4 } });
    await document.mutate(cell(2, 0, 'Boston'));
    expect(document.number).toBe(4);
    await live.sheet.completed();
    await document.refresh();
    expect(document).toMatchObject({ number: 4, newest: { segment: 0, entry: 6 } });
    expect((await live.open()).number).toBe(4);
  });

  test.each([
    [],
    [undefined, { reducer: versionedSheet(1) }],
    ['log'],
    ['log', { reducer: versionedSheet(1), reloadafter: {} }],
    ['log', { reducer: versionedSheet(1), reloadAfter: { entries: -1 } }],
    ['log', { reducer: versionedSheet(1), reloadAfter: { segments: '2' } }],
    ['log', { reducer: versionedSheet(1), reloadAfter: { entry: 1 } }],
  ])('it refuses the arguments %o and sends no request', async (...given) => {
    const live = await LiveLog.create();
    const logs = live.logs();
    const words = given.map((each) => (each === 'log' ? live.sheet.log : each));
    await expect(Reflect.apply(logs.open, logs, words)).rejects.toThrow(UsageError);
    expect(live.requests).toEqual([]);
  });

  test('a log without a snapshot is folded from its beginning', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'Denver'));
    const document = await live.open();
    expect(await rowsOf(document)).toEqual([['Denver']]);
    expect(document.snapshot).toBeUndefined();
  });

  test('a document does not stand on a snapshot of another version of its reducer', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'Denver'));
    await live.sheet.completed();
    await live.sheet.edit(set(1, 0, 'Austin'));
    const document = await live.open({ reducer: { ...versionedSheet(1), version: 2 } });
    expect(document.snapshot).toBeUndefined();
    await live.sheet.completed();
    for (const waitMs of [5_000, 11 * 60_000, 5_000]) {
      live.sheet.nowMs += waitMs;
      await document.refresh();
      expect(document.snapshot).toBeUndefined();
    }
    expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
  });

  test('a log whose two newest segments have no snapshot is refused', async () => {
    const live = await LiveLog.create();
    const { tables, log } = live.sheet;
    await tables.putSegment({ log, segment: 1, created: 0 });
    await expect(live.open()).rejects.toThrow(SegmentWithoutSnapshotError);
  });
});

describe('append', () => {
  test('it takes one request and applies the entry', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const listener = counted(document);
    live.requests.length = 0;
    const added = await appended(document, cell(0, 0, 'Denver'));
    expect(live.requests).toEqual(['putEntries']);
    expect(added.first).toEqual({ segment: 0, entry: 1 });
    expect(await rowsOf(document)).toEqual([['Denver']]);
    expect(listener.calls).toBe(1);
  });

  test('the numbers of entries go on, also when the client has to read the end of the log again', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    expect((await appended(document, cell(0, 0, 'Denver'))).firstNumber).toBe(1);
    live.sheet.nowMs += 61_000;
    await document.refresh();
    expect((await appended(document, cell(1, 0, 'Austin'))).firstNumber).toBe(2);
    let lost = 0;
    live.interceptor = async (name, effect) => {
      const answer = await effect();
      if (name === 'putEntries' && lost++ === 0) throw new Error('socket hang up');
      return answer;
    };
    expect((await appended(document, cell(2, 0, 'Boise'))).firstNumber).toBe(3);
    expect((await appended(document, cell(3, 0, 'Salem'))).firstNumber).toBe(4);
  });

  test('it comes after the entries that others appended', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.edit(set(0, 0, 'theirs'), set(1, 0, 'theirs'));
    const { first } = await appended(document, cell(1, 0, 'ours'));
    expect(first).toEqual({ segment: 0, entry: 3 });
    expect(await rowsOf(document)).toEqual([['theirs'], ['ours']]);
  });

  test('it comes after a segment that another client started', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.edit(set(0, 0, 'theirs'));
    await live.sheet.completed();
    await live.sheet.covered();
    const { first } = await appended(document, cell(1, 0, 'ours'));
    expect(first).toEqual({ segment: 1, entry: 1 });
    expect(await rowsOf(document)).toEqual([['theirs'], ['ours']]);
  });

  test('an entry that the reducer rejects is not appended', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const { state } = document;
    live.requests.length = 0;
    await expect(document.append(REJECTED)).rejects.toThrow(EntryRejectedError);
    expect(live.requests).toEqual(['entries']);
    expect(document.state).toBe(state);
    expect(await live.sheet.items()).toHaveLength(1);
  });

  test('an append with `after` fails if another entry follows', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const after = await live.sheet.edit(set(0, 0, 'theirs'));
    await live.sheet.edit(set(1, 0, 'theirs'));
    await expect(document.append(cell(1, 0, 'ours'), { after })).rejects.toThrow(EntryExistsError);
    expect(await live.sheet.items()).toHaveLength(3);
  });

  test('an append after `newest` succeeds only if the document has read all application entries', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.snapshot();
    await document.refresh();
    expect(document.newest).toEqual({ segment: 0, entry: 1 });
    await document.append(cell(0, 0, 'Denver'), { after: document.newest });
    expect(document.newest).toEqual({ segment: 0, entry: 2 });
    await live.sheet.edit(set(0, 0, 'theirs'));
    const { newest: after } = document;
    await expect(document.append(cell(0, 0, 'ours'), { after })).rejects.toThrow(EntryExistsError);
    expect(await live.sheet.items()).toHaveLength(4);
  });

  test('an entry whose answer was lost is in the log once', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    let lost = 0;
    live.interceptor = async (name, effect) => {
      const answer = await effect();
      if (name === 'putEntries' && lost++ === 0) throw new Error('socket hang up');
      return answer;
    };
    const { first } = await appended(document, cell(0, 0, 'Denver'));
    expect(first).toEqual({ segment: 0, entry: 1 });
    expect(await live.sheet.items()).toHaveLength(2);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  });

  test("an entry whose answer was lost is told from another client's equal entry", async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    let lost = 0;
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries' && lost++ === 0) {
        await live.sheet.append(cell(0, 0, 'Denver'));
        throw new Error('socket hang up');
      }
      return effect();
    };
    const { first } = await appended(document, cell(0, 0, 'Denver'));
    expect(first).toEqual({ segment: 0, entry: 2 });
    expect(await live.sheet.items()).toHaveLength(3);
  });

  test('a lost answer is reported as uncertain if the log cannot be read', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries') await effect();
      throw new StoreUnavailableError('no answer');
    };
    await expect(document.append(cell(0, 0, 'Denver'))).rejects.toThrow(AppendUncertainError);
    live.interceptor = (_, effect) => effect();
    expect(await document.refresh()).toBe(true);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  });
});

describe('a mutation with a number', () => {
  const once = { client: 'phone 7', mutation: 1 };

  test('applies once, however many processes append it', async () => {
    const live = await LiveLog.create();
    const [first, second] = [await live.open(), await live.open()];
    await first.append({ ...cell(0, 0, 'Denver'), once });
    await second.append(cell(0, 0, 'Austin'));
    expect(await second.append({ ...cell(0, 0, 'Denver'), once })).toBeUndefined();
    expect(await rowsOf(second)).toEqual([['Austin']]);
    expect(await live.sheet.items()).toHaveLength(3);
  });

  test.each(['in the entries that the document holds', 'before its snapshot'])(
    'is applied if it is %s',
    async (where) => {
      const live = await LiveLog.create();
      const mutation = (number: number) => ({
        ...cell(number, 0, `row ${number}`),
        once: { client: 'phone 7', mutation: number },
      });
      for (const number of [1, 2, 5]) await live.sheet.append(mutation(number));
      if (where === 'before its snapshot') await live.sheet.completed();
      const document = await live.open();
      for (const number of [1, 2, 5]) expect(await document.append(mutation(number))).toBeUndefined();
      live.requests.length = 0;
      for (const number of [1, 2, 5]) expect(await document.append(mutation(number))).toBeUndefined();
      expect(live.requests).toEqual([]);
      for (const number of [3, 4]) {
        await expect(document.append(mutation(number))).rejects.toThrow(MutationOvertakenError);
        await expect(document.mutate(mutation(number))).rejects.toThrow(MutationOvertakenError);
      }
      expect((await appended(document, mutation(6))).first).toEqual(document.newest);
      expect(await rowsOf(document)).toEqual([[], ['row 1'], ['row 2'], [], [], ['row 5'], ['row 6']]);
    },
  );

  test('is reported as overtaken if a later one of its client is faster', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const later = { ...cell(0, 0, 'later'), once: { client: 'phone 7', mutation: 2 } };
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries' && (await live.sheet.items()).length === 1) await live.sheet.append(later);
      return effect();
    };
    await expect(document.append({ ...cell(0, 0, 'lost'), once })).rejects.toThrow(MutationOvertakenError);
    expect(await rowsOf(document)).toEqual([['later']]);
    expect(await live.sheet.items()).toHaveLength(2);
  });

  test('is not taken as applied together with one of another client', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const other = { ...cell(1, 0, 'other'), once: { client: 'phone 8', mutation: 1 } };
    await document.append(other);
    await appended(document, { ...cell(0, 0, 'Denver'), once });
    await appended(document, cell(2, 0, 'end'));
    expect(await document.append([{ ...cell(0, 0, 'Denver'), once }, other])).toBeUndefined();
    const next = { ...cell(0, 0, 'Austin'), once: { client: 'phone 7', mutation: 2 } };
    expect(await document.append([next, other])).toBeDefined();
    expect(await rowsOf(document)).toEqual([['Austin'], ['other'], ['end']]);
  });

  test('is skipped by the fold if another program appended it twice', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.append({ ...cell(0, 0, 'Denver'), once });
    await live.sheet.edit(set(0, 0, 'Austin'));
    await document.refresh();
    const listener = counted(document);
    await live.sheet.append({ ...cell(0, 0, 'Denver'), once });
    expect(await document.refresh()).toBe(false);
    expect(listener.calls).toBe(0);
    expect(await rowsOf(document)).toEqual([['Austin']]);
  });
});

describe('refresh', () => {
  test('it takes one query and calls no listener if nothing is new', async () => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'Denver'));
    await live.sheet.completed();
    const document = await live.open();
    const listener = counted(document);
    const { state } = document;
    live.requests.length = 0;
    expect(await document.refresh()).toBe(false);
    expect(live.requests).toEqual(['entries']);
    expect(document.state).toBe(state);
    expect(listener.calls).toBe(0);
  });

  test('a reader of an old state keeps reading it', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(cell(0, 0, 'Denver'));
    const old = document.state;
    await live.sheet.edit(set(0, 0, 'Austin'));
    await document.refresh();
    const all = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };
    expect(await document.view(all)).toEqual([['Austin']]);
    expect(await old.view(all)).toEqual([['Denver']]);
  });

  test('a document that is far behind loads the newest snapshot', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reloadAfter: { entries: 3 } });
    await live.sheet.edit(...Array.from({ length: 9 }, (_, row) => set(row, 0, `row ${row}`)));
    await live.sheet.completed();
    const listener = counted(document);
    await document.refresh();
    expect(document.snapshot).toEqual({ segment: 0, entry: 10 });
    expect(await rowsOf(document)).toHaveLength(9);
    expect(listener.calls).toBe(1);
  });

  test('a document that is far behind reads on if there is no newer snapshot', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reloadAfter: { entries: 3 } });
    await live.sheet.edit(...Array.from({ length: 9 }, (_, row) => set(row, 0, `row ${row}`)));
    await document.refresh();
    expect(await rowsOf(document)).toHaveLength(9);
  });
});

describe('a listener runs only if the content changed:', () => {
  const CASES: Record<string, (live: LiveLog, document: Document) => Promise<unknown>> = {
    'the same value set again': (_, document) => document.append(cell(0, 0, 'Denver')),
    'the same value shown before it is stored': (_, document) => document.mutate(cell(0, 0, 'Denver')),
    'an empty cell emptied': (_, document) => document.append({ type: 'Set', version: 1, body: [[0, 1, null]] }),
    'a value set and taken back by others': async (live, document) => {
      await live.sheet.edit(set(0, 0, 'Austin'), set(0, 0, 'Denver'));
      expect(await document.refresh()).toBe(false);
    },
    'a mutation that has no effect beside its number': async (live, document) => {
      await live.sheet.append({ ...cell(0, 0, 'Denver'), once: { client: 'phone 7', mutation: 1 } });
      expect(await document.refresh()).toBe(false);
    },
    'a reload of an equal state': async (live, document) => {
      await live.sheet.edit(...Array.from({ length: 9 }, (_, i) => set(0, 0, i % 2 === 0 ? 'Austin' : 'Denver')));
      await live.sheet.edit(set(0, 0, 'Denver'));
      await live.sheet.completed();
      expect(await document.refresh()).toBe(false);
      expect(document.snapshot).toEqual({ segment: 0, entry: 13 });
    },
  };
  test.each(Object.entries(CASES))('not after %s', async (_, change) => {
    const live = await LiveLog.create();
    await live.sheet.edit(set(0, 0, 'Denver'), set(1, 1, 'city'));
    const document = await live.open({ reloadAfter: { entries: 5 } });
    const listener = counted(document);
    const { state } = document;
    await change(live, document);
    await document.refresh();
    expect(listener.calls).toBe(0);
    expect(document.state).toBe(state);
    await document.append(cell(0, 0, 'Boston'));
    expect(listener.calls).toBe(1);
  });

  test('it runs if the store does not say whether the content is the same', async () => {
    const live = await LiveLog.create();
    await live.sheet.fill(40, 40, 200);
    await live.sheet.completed();
    const document = await live.logs({ cacheBytes: 0 }).open(live.sheet.log, { reducer: versionedSheet(1) });
    const listener = counted(document);
    let isStored = false;
    live.interceptor = async (name, effect) => {
      if (name === 'get' && isStored) throw new StoreUnavailableError('the connection was lost');
      const answer = await effect();
      if (name === 'putEntries') isStored = true;
      return answer;
    };
    await document.append(cell(0, 0, 'Denver'));
    expect(listener.calls).toBe(1);
  });

  test('an append without a listener reads no chunk to find out', async () => {
    const live = await LiveLog.create();
    await live.sheet.fill(40, 40, 200);
    await live.sheet.completed();
    const document = await live.logs({ cacheBytes: 0 }).open(live.sheet.log, { reducer: versionedSheet(1) });
    await document.append(cell(0, 0, 'Denver'));
    live.requests.length = 0;
    await document.append(cell(20, 20, 'Austin'));
    expect(live.requests.filter((name) => name !== 'putEntries')).toEqual([]);
  });
});

describe('a newer snapshot', () => {
  test('whose entry the document holds is heard of by an append, without a download', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(cell(0, 0, 'Denver'));
    const position = await live.sheet.completed();
    await document.refresh();
    const next = await live.sheet.snapshot();
    await document.refresh();
    expect(document.snapshot).toEqual(position);
    await live.sheet.complete(next);
    const listener = counted(document);
    live.requests.length = 0;
    live.sheet.nowMs += 5_000;
    await document.append(cell(1, 0, 'Austin'));
    expect(document.snapshot).toEqual(next);
    expect(live.requests.filter((name) => name === 'get' || name === 'getRange')).toEqual([]);
    expect(listener.calls).toBe(1);
    expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
  });

  test('whose entry another client appended just before an entry of the document is used', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(cell(0, 0, 'Denver'));
    const position = await live.sheet.snapshot();
    expect(await appended(document, cell(1, 0, 'Austin'))).toMatchObject({ first: { segment: 0, entry: 3 } });
    await live.sheet.complete(position);
    live.sheet.nowMs += 5_000;
    await document.refresh();
    expect(document.snapshot).toEqual(position);
    expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
  });

  test('that arrives with the answer of a refresh is used immediately', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.edit(set(0, 0, 'Denver'));
    const position = await live.sheet.completed();
    await live.sheet.edit(set(1, 0, 'Austin'));
    live.requests.length = 0;
    await document.refresh();
    expect(live.requests).toEqual(['entries']);
    expect(document.snapshot).toEqual(position);
    expect(await rowsOf(document)).toEqual([['Denver'], ['Austin']]);
  });

  test('beyond the entries that were read waits until they are read', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.snapshot();
    await document.refresh();
    let position = { segment: 0, entry: 0 };
    live.interceptor = async (name, effect) => {
      if (name === 'newestSegments') {
        live.interceptor = (_, run) => run();
        await live.sheet.edit(set(0, 0, 'Denver'));
        position = await live.sheet.completed();
      }
      return effect();
    };
    live.sheet.nowMs += 5_000;
    await document.refresh();
    expect(document.snapshot).toBeUndefined();
    await document.refresh();
    expect(document.snapshot).toEqual(position);
    expect(await rowsOf(document)).toEqual([['Denver']]);
  });

  test('calls no listener', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await document.append(cell(0, 0, 'Denver'));
    const listener = counted(document);
    const { state } = document;
    const position = await live.sheet.completed();
    live.sheet.nowMs += 5_000;
    expect(await document.refresh()).toBe(false);
    expect(document.snapshot).toEqual(position);
    expect(document.state).toBe(state);
    expect(listener.calls).toBe(0);
  });

  test('takes over the state after ten minutes, also if the older chunks are gone', async () => {
    const live = await LiveLog.create();
    await live.sheet.fill(40, 40, 200);
    await live.sheet.completed();
    const document = await live.open();
    await live.sheet.fill(40, 40, 200);
    await live.sheet.completed();
    await document.refresh();
    live.sheet.nowMs += 11 * 60_000;
    await document.refresh();
    const expected = await live.sheet.rows((await live.sheet.completed()) ?? { segment: 0, entry: 0 });
    expect(await rowsOf(document)).toEqual(expected);
  });
});

test('a value with its own chunk stays readable when the state moves to a newer snapshot', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  const long = 'x'.repeat(300_000);
  await document.append(cell(0, 0, long));
  const old = document.state;
  await live.sheet.completed();
  await document.refresh();
  live.sheet.nowMs += 11 * 60_000;
  await document.refresh();
  await document.append(cell(1, 0, 'short'));
  const all = { rows: { from: 0, to: 2 }, columns: { from: 0, to: 1 } };
  expect(await document.view(all)).toEqual([[long], ['short']]);
  expect(await old.view(all)).toEqual([[long], [null]]);
});

describe('mutate', () => {
  test('it shows the entry before the log has it', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const release = Promise.withResolvers<void>();
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries') await release.promise;
      return effect();
    };
    const listener = counted(document);
    const stored = document.mutate(cell(0, 0, 'Denver'));
    await new Promise<void>((resolve) => document.subscribe(resolve));
    expect(await rowsOf(document)).toEqual([['Denver']]);
    expect(document.pending).toHaveLength(1);
    release.resolve();
    expect(await stored).toEqual({ segment: 0, entry: 1 });
    expect(document.pending).toEqual([]);
    expect(document.position).toEqual({ segment: 0, entry: 2 });
    expect(listener.calls).toBe(1);
  });

  test('entries are stored in order', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const positions = await Promise.all(['a', 'b', 'c'].map((text, row) => document.mutate(cell(row, 0, text))));
    expect(positions.map((position) => position?.entry)).toEqual([1, 2, 3]);
    expect(await rowsOf(await live.open())).toEqual([['a'], ['b'], ['c']]);
  });

  test('a pending entry is folded after the entries of others', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    await live.sheet.edit({ type: 'Insert Rows', position: 0, count: 1 }, set(0, 0, 'theirs'));
    await document.mutate({
      type: 'Insert Rows',
      version: 1,
      body: sheetBody({ type: 'Insert Rows', position: 0, count: 1 }),
    });
    await document.mutate(cell(0, 0, 'ours'));
    expect(await rowsOf(document)).toEqual([['ours'], ['theirs']]);
    expect(await rowsOf(await live.open())).toEqual([['ours'], ['theirs']]);
  });

  test('an entry that the reducer rejects changes nothing', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const { state } = document;
    await expect(document.mutate(REJECTED)).rejects.toThrow(EntryRejectedError);
    expect(document.state).toBe(state);
    expect(document.pending).toEqual([]);
  });

  test('an entry is sent again until the store answers', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    let failures = 0;
    live.interceptor = async (name, effect) => {
      if (failures < 20 && name !== 'newestSegments') {
        failures++;
        throw new StoreUnavailableError('no answer');
      }
      return effect();
    };
    expect(await document.mutate(cell(0, 0, 'Denver'))).toEqual({ segment: 0, entry: 1 });
    expect(await live.sheet.items()).toHaveLength(2);
    expect(live.waits.length).toBeGreaterThan(0);
  });

  test('the list of pending entries notifies its listeners of each change and each error', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    live.interceptor = async () => {
      throw new StoreUnavailableError('no answer');
    };
    const listener = counted(document);
    const lists = [document.pending];
    document.pendingList.subscribe(() => {
      lists.push(document.pendingList.getSnapshot());
      if (document.pending[0]?.error !== undefined) live.interceptor = (_, effect) => effect();
    });
    await document.mutate(cell(0, 0, 'Denver'));
    const shown = { entry: expect.objectContaining(cell(0, 0, 'Denver')) };
    expect(lists).toEqual([[], [shown], [{ ...shown, error: expect.any(AppendUncertainError) }], []]);
    expect(document.pending).toBe(lists.at(-1));
    expect(listener.calls).toBe(1);
  });

  test('closing notifies the listeners of the pending entries that none is left', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    live.interceptor = async () => {
      throw new StoreUnavailableError('no answer');
    };
    const failure = expect(document.mutate(cell(0, 0, 'Denver'))).rejects.toThrow(DocumentClosedError);
    while (document.pending[0]?.error === undefined) await new Promise((resolve) => setImmediate(resolve));
    const lengths: number[] = [];
    document.pendingList.subscribe(() => lengths.push(document.pending.length));
    document.close();
    await failure;
    expect(lengths).toEqual([0]);
  });

  test('closing rejects the entries that the log does not have', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    live.interceptor = async () => {
      throw new StoreUnavailableError('no answer');
    };
    const stored = document.mutate(cell(0, 0, 'Denver'));
    const failure = expect(stored).rejects.toThrow(DocumentClosedError);
    await new Promise<void>((resolve) => document.subscribe(resolve));
    document.close();
    await failure;
    await expect(document.refresh()).rejects.toThrow(DocumentClosedError);
  });
});

test('subscribe refuses a listener that is not a function', async () => {
  const document = await (await LiveLog.create()).open();
  for (const observable of [document, document.pendingList]) {
    expect(() => Reflect.apply(observable.subscribe, observable, [undefined])).toThrow(UsageError);
  }
});

describe('watch', () => {
  test.each([
    { intervalMs: 0 },
    { intervalMs: 2 ** 31 },
    { maxIntervalMs: 2 ** 31 },
    { maxIntervalMs: 0 },
    { intervalMs: 1_000, maxIntervalMs: 999 },
    { intervalMs: Number.NaN },
    { onError: undefined },
  ])('it refuses %o', async (options) => {
    const live = await LiveLog.create();
    const document = await live.open();
    const onError = (): void => undefined;
    expect(() => Reflect.apply(document.watch, document, [{ onError, ...options }])).toThrow(UsageError);
    expect(live.waits).toEqual([]);
  });

  test('an onError that throws is reported, and the watch goes on', async () => {
    const reported: unknown[] = [];
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => reported.push(error));
    onTestFinished(() => {
      process.removeAllListeners('uncaughtException');
      for (const listener of others) process.on('uncaughtException', listener);
    });
    const live = await LiveLog.create();
    const document = await live.open();
    live.interceptor = async () => {
      throw new StoreUnavailableError('no answer');
    };
    const thrown = new Error('the page cannot show errors');
    const stop = document.watch({
      onError: () => {
        throw thrown;
      },
    });
    while (live.waits.length < 3) await new Promise((resolve) => setImmediate(resolve));
    stop();
    expect(reported.slice(0, 2)).toEqual([thrown, thrown]);
  });

  test('it refreshes until it is stopped, less often while nothing changes', async () => {
    const live = await LiveLog.create();
    const document = await live.open();
    const changed = new Promise<void>((resolve) => document.subscribe(resolve));
    const stop = document.watch({
      intervalMs: 1_000,
      onError: (error) => {
        throw error;
      },
    });
    while (live.waits.length < 8) await new Promise((resolve) => setImmediate(resolve));
    expect(live.waits[7]).toBeGreaterThan(4 * (live.waits[0] ?? 0));
    await live.sheet.edit(set(0, 0, 'Denver'));
    await changed;
    stop();
    expect(await rowsOf(document)).toEqual([['Denver']]);
  });
});
