import { describe, expect, test } from 'vitest';
import { foldedChanges } from '../../src/client/history.ts';
import type { Value } from '../../src/codec/value.ts';
import { DocumentClosedError, StateUnsupportedError, UsageError } from '../../src/errors.ts';
import { Draft } from '../../src/state/draft.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { HISTORY_MAP, saveState } from '../../src/state/state.ts';
import { type Key, MAX_STRING_KEY_LENGTH, numberText, readNumber } from '../../src/tree/key.ts';
import { treeId } from '../../src/tree/node.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { bothWays, historyOf } from '../support/history-log.ts';
import { LiveLog } from '../support/live-logs.ts';
import { LOG } from '../support/logs.ts';
import { sheetEntry } from '../support/models/sheet-model.ts';
import { set } from '../support/sheet-log.ts';

const recorded = withHistory(spreadsheet);

/** A value that cannot be nested any deeper. */
const DEEPEST = Array.from({ length: 127 }).reduce<Value>((inner) => [inner], [1]);

/** Puts `value` under `key` of map `map`, or removes the key if the body has no value. */
const keys: Reducer = {
  name: 'keys',
  version: 1,
  fold: (draft, { body }) => {
    const { map, key, value } = body as { map: string; key: Key; value?: Value };
    const target = draft.map(map, typeof key === 'number' ? 'number' : 'string');
    if (value === undefined) target.delete(key);
    else target.put(key, value === 'deepest' ? DEEPEST : value);
  },
};

const keyEntry = (body: Value) => ({ type: 'Put', body });

/** A log with a snapshot of a large sheet, then 12 values of one cell among edits of others. */
async function edited(others: number): Promise<LiveLog> {
  const live = await LiveLog.create();
  await live.sheet.fill(300, 20);
  for (let i = 0; i < 12; i++) {
    await live.sheet.edit(set(7, 3, `value ${i}`));
    for (let j = 0; j < others; j++) await live.sheet.edit(set((i * 37 + j * 13) % 300, 5, `${i} ${j}`));
  }
  await live.sheet.completed({ reducer: recorded });
  return live;
}

describe('a history that the reducer keeps', () => {
  test('takes an entry per revision and a few chunks, however long the log is', async () => {
    for (const others of [2, 60]) {
      const live = await edited(others);
      const document = await live.open({ reducer: recorded });
      live.requests.length = 0;
      // The first fill, and the 12 values.
      expect((await historyOf(document, { row: 7, column: 3 })).map(({ number }) => number)).toHaveLength(13);
      expect(live.requests.filter((name) => name === 'getEntry')).toHaveLength(13);
      expect(live.requests.length).toBeLessThanOrEqual(13 + 3);

      live.requests.length = 0;
      const [newest] = await historyOf(document, { row: 7, column: 3 }, { limit: 1 });
      expect(newest).toMatchObject({ number: 13, value: 'value 11' });
      expect(live.requests.filter((name) => name === 'getEntry')).toHaveLength(1);
      expect(live.requests.filter((name) => name !== 'getEntry' && name !== 'get')).toEqual([]);
    }
  });

  test('leaves the other maps of the state as they are, and is not shown', async () => {
    const store = nodeStore({ shape: SMALL_SHAPE });
    const [plain, kept] = [new Draft(store), new Draft(store)];
    for (let i = 0; i < 200; i++) {
      const edit =
        i % 20 === 7 ? ({ type: 'Insert Rows', position: i % 9, count: 2 } as const) : set(i % 50, i % 7, 'x');
      await spreadsheet.fold(plain, sheetEntry(edit, i));
      await recorded.fold(kept, sheetEntry(edit, i));
    }
    const states = [await plain.state(), await kept.state()] as const;
    for (const state of states) await saveState(store, state);
    const [{ maps: without }, { maps }] = states;
    expect([...maps.keys()]).toEqual([...without.keys(), HISTORY_MAP].sort());
    for (const [name, { tree, buffer }] of without) {
      const same = maps.get(name);
      for (const [a, b] of [
        [tree, same?.tree],
        [buffer, same?.buffer],
      ] as const) {
        expect(b?.top && treeId(store.platform, b.top)).toBe(a.top && treeId(store.platform, a.top));
      }
    }
    const live = await edited(1);
    expect((await live.open({ reducer: recorded })).state.mapNames).not.toContain(HISTORY_MAP);
  });

  test('stores a large value once, beside the state that has it too', async () => {
    const chunks = new MemoryChunks();
    const store = nodeStore({}, chunks);
    const draft = new Draft(store);
    const entry = { log: LOG, created: 1, createdMs: 1000, type: 'Put', version: 1 };
    const body = { map: 'texts', key: 'a', value: 'long '.repeat(10_000) };
    for (const number of [1, 2, 3]) {
      await withHistory(keys).fold(draft, { ...entry, position: { segment: 0, entry: number }, body });
    }
    await saveState(store, await draft.state());
    expect(chunks.stored.size).toBe(1);
  });

  test('a reducer cannot use its map, and a reducer with a history stays as it is', () => {
    expect(() => new Draft(nodeStore()).map(HISTORY_MAP, 'string')).toThrow(StateUnsupportedError);
    expect(withHistory(recorded)).toBe(recorded);
    expect(recorded).toMatchObject({ name: 'spreadsheet+history', version: 1 });
  });
});

describe('a history', () => {
  test('keeps any key and any value that the plain reducer folds', async () => {
    const odd = ['\0', '\x01', '\x010', '\0logfold:removed', '\0logfold:removed\0', '\0logfold:removed\0x', ''];
    const longest = [...odd, 'x'].map((text) => text.padEnd(MAX_STRING_KEY_LENGTH, text || 'y').slice(0, 1024));
    const names = ['\0', 'm', '\x01'.repeat(MAX_STRING_KEY_LENGTH)];
    const values: Value[] = [...odd, null, 'deepest', new Uint8Array([1]), 2 ** 40];
    for (const log of await bothWays(keys)) {
      const places = names.flatMap((map) => [...odd, ...longest].map((key) => ({ map, key })));
      for (const place of places) await log.append(keyEntry({ ...place, value: `of ${place.key}` }));
      for (const value of values) {
        await log.append(keyEntry({ map: 'm', key: '', value }));
        await log.append(keyEntry({ map: 'm', key: '' }));
      }
      await log.append(keyEntry({ map: 'numbers', key: Number.MAX_SAFE_INTEGER, value: 'last' }));
      await log.take('snapshot');
      const document = await log.open();
      for (const place of places.filter(({ map, key }) => map !== 'm' || key !== '')) {
        expect((await historyOf(document, place)).map(({ value }) => value)).toEqual([`of ${place.key}`]);
      }
      const found = await historyOf(document, { map: 'm', key: '' });
      const expected = values.flatMap((value) => [value === 'deepest' ? DEEPEST : value, undefined]);
      expect(found.map(({ value }) => value)).toEqual(['of ', ...expected]);
      expect(await historyOf(document, { map: 'numbers', key: Number.MAX_SAFE_INTEGER })).toHaveLength(1);
    }
  });

  test('leaves out an entry whose mutation was applied before', async () => {
    for (const log of await bothWays(keys)) {
      const once = { client: 'phone', mutation: 1 };
      for (const value of ['first', 'again']) await log.append({ ...keyEntry({ map: 'm', key: 1, value }), once });
      const revisions = await historyOf(await log.open(), { map: 'm', key: 1 });
      expect(revisions).toMatchObject([{ number: 1, value: 'first' }]);
    }
  });

  test('has the cells of an import', async () => {
    for (const reducer of [spreadsheet, recorded]) {
      const live = await LiveLog.create();
      const { sheet } = live;
      await sheet.edit(set(1, 0, 'Austin'));
      const file = await sheet.saveFile(new TextEncoder().encode('city,state\nDenver,CO\n'));
      const body = importBody({ format: 'csv' });
      const position = await sheet.append({ type: 'Import', version: 1, body, file });
      const document = await live.open({ reducer });
      expect(await historyOf(document, { row: 1, column: 0 })).toMatchObject([
        { value: 'Austin' },
        { value: 'Denver' },
      ]);
      const [, imported] = await historyOf(document, { row: 1 });
      expect(imported).toMatchObject({
        number: 2,
        position,
        value: [
          [0, 'Denver'],
          [1, 'CO'],
        ],
      });
    }
  });

  test('has no pending entry', async () => {
    for (const reducer of [spreadsheet, recorded]) {
      const document = await (await LiveLog.create()).open({ reducer });
      const sent = document.mutate({ type: 'Set', version: 1, body: [[0, 0, 'pending']] });
      expect(await historyOf(document, { row: 0, column: 0 })).toEqual([]);
      await sent;
      expect(await historyOf(document, { row: 0, column: 0 })).toHaveLength(1);
    }
  });

  test('a fold that holds much goes on from stored snapshots, with the same result', async () => {
    const live = await LiveLog.create();
    const { sheet } = live;
    for (let segment = 0; segment < 4; segment++) {
      for (let i = 0; i < 5; i++) await sheet.edit(set(0, 0, `${segment} ${i}`), set(i, 1, 'x'));
      if (segment === 2) await sheet.edit({ type: 'Insert Rows', position: 0, count: 1 });
      await sheet.complete(await sheet.snapshot(), { reducer: spreadsheet });
      await sheet.complete(await sheet.segment(), { reducer: spreadsheet });
    }
    const deps = { ...sheet.deps, reducer: spreadsheet };
    const document = await live.open({ reducer: spreadsheet });
    const keysOfCell = { map: 'cells', key: 0 };
    const all = await Array.fromAsync(foldedChanges(deps, sheet.log, keysOfCell, document.position));
    const few = await Array.fromAsync(
      foldedChanges({ ...deps, heldBytes: 0 }, sheet.log, keysOfCell, document.position),
    );
    expect(all.length).toBeGreaterThan(10);
    expect(few.map(({ position, stored }) => ({ position, stored }))).toEqual(
      all.map(({ position, stored }) => ({ position, stored })),
    );
  });

  test('is refused for wrong options and for a closed document', async () => {
    const document = await (await LiveLog.create()).open({ reducer: spreadsheet });
    const place = { row: 0, column: 0 };
    await expect(historyOf(document, place, { limit: 0 })).rejects.toThrow(UsageError);
    await expect(historyOf(document, place, { at: new Date(Number.NaN) })).rejects.toThrow(UsageError);
    expect(await historyOf(document, place)).toEqual([]);
    document.close();
    expect(() => document.history(place)).toThrow(DocumentClosedError);
  });
});

test('texts of numbers have the order of the numbers, and no text begins with another', () => {
  const numbers = [0, 1, 63, 64, 65, 4095, 4096, 2 ** 32 - 1, 2 ** 32, 2 ** 45 + 3, Number.MAX_SAFE_INTEGER, 2 ** 53];
  const texts = numbers.map(numberText);
  expect(texts.toSorted()).toEqual(texts);
  for (const [i, text] of texts.entries()) {
    expect(readNumber(`x${text}y`, 1)).toEqual({ number: numbers[i], end: 1 + text.length });
    expect(texts.filter((each) => each.startsWith(text))).toEqual([text]);
  }
});
