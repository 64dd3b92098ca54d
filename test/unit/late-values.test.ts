import { describe, expect, test, vi } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { type DefinedReducer, defineReducer, type StandardSchema, stringMap } from '../../src/state/define-reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import type { DraftMap } from '../../src/state/draft-map.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import type { FoldEntry, Reducer, ReducerDraft } from '../../src/state/reducer.ts';
import { HISTORY_MAP, unsavedStateBytes } from '../../src/state/state.ts';
import { getMerged, mergedValues } from '../../src/tree/buffered-tree.ts';
import { nodeStore } from '../support/chunks.ts';
import { LiveLog } from '../support/live-logs.ts';
import { SheetLog } from '../support/sheet-log.ts';

/** A value of any type, as an untyped program may pass it. */
// biome-ignore lint/suspicious/noExplicitAny: these tests pass values of wrong types
type Untyped = any;

const CHANGE = { type: 'Change', version: 1 } as const;

function reducerOf(fold: Reducer['fold']): Reducer {
  return { name: 'late', version: 1, fold };
}

/** Folds entries with bodies 1, 2, 3 and so on, and completes one snapshot at their end. */
async function built(entries: number, fold: Reducer['fold']) {
  const log = await SheetLog.create();
  for (let body = 1; body <= entries; body++) await log.append({ ...CHANGE, body });
  return log.complete(await log.snapshot(), { reducer: reducerOf(fold) });
}

const map = (draft: ReducerDraft): DraftMap => draft.map('a', 'string');

describe('a late value', () => {
  const newDraft = () => {
    const nodes = nodeStore();
    const draft = new Draft(nodes);
    const read = async (key: string): Promise<Value | undefined> => {
      const stored = (await draft.state()).maps.get('a');
      return stored && getMerged(nodes, stored, key);
    };
    return { nodes, draft, read };
  };

  test('is evaluated once for many puts of its key', async () => {
    const { draft, read } = newDraft();
    const give = vi.fn(() => 1200);
    for (let i = 0; i < 1200; i++) map(draft).put('k', give);
    expect(give).not.toHaveBeenCalled();
    expect(await read('k')).toBe(1200);
    expect(await read('k')).toBe(1200);
    expect(give).toHaveBeenCalledOnce();
  });

  const replacements: [string, (map: DraftMap) => void, Value | undefined][] = [
    ['another value', (on) => on.put('k', 'plain'), 'plain'],
    ['a delete', (on) => on.delete('k'), undefined],
    ['a range delete', (on) => on.deleteRange({ from: 'a', to: 'z' }), undefined],
    [
      'a range delete and a value',
      (on) => {
        on.deleteRange({ from: 'a', to: 'z' });
        on.put('k', () => 'next');
      },
      'next',
    ],
  ];
  test.each(replacements)('is not evaluated if %s follows', async (_, replace, value) => {
    for (const readsFirst of [false, true]) {
      const { draft, read } = newDraft();
      const give = vi.fn(() => 'late');
      map(draft).put('k', give);
      replace(map(draft));
      if (readsFirst) expect(await map(draft).get('k')).toBe(value);
      expect(await read('k')).toBe(value);
      expect(give).not.toHaveBeenCalled();
    }
  });

  test('takes the place of an earlier value, and of an earlier range delete', async () => {
    const { draft, read } = newDraft();
    map(draft).put('k', 'plain');
    map(draft).deleteRange({ from: 'a', to: 'z' });
    map(draft).put('k', () => 'late');
    expect(await read('k')).toBe('late');
  });

  test('is evaluated by a read of its key only, or by a read of its map', async () => {
    const { draft } = newDraft();
    const [one, two] = [vi.fn(() => 1), vi.fn(() => 2)];
    map(draft).put('one', one);
    map(draft).put('two', two);
    draft.map('other', 'string').put('k', 0);
    expect(await draft.map('other', 'string').get('k')).toBe(0);
    expect(await map(draft).get('one')).toBe(1);
    expect(await map(draft).get('one')).toBe(1);
    expect([one, two].map(({ mock }) => mock.calls.length)).toEqual([1, 0]);
    expect(await Array.fromAsync(map(draft).items())).toEqual([
      { key: 'one', value: 1 },
      { key: 'two', value: 2 },
    ]);
    await draft.state();
    expect([one, two].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
  });

  test('is copied when it is evaluated, and a read evaluates before the reducer goes on', async () => {
    const { draft, read } = newDraft();
    const items = [1];
    map(draft).put('k', () => items);
    const reading = Array.fromAsync(map(draft).items());
    await Promise.resolve();
    items.push(2);
    expect(await reading).toEqual([{ key: 'k', value: [1] }]);
    expect(await read('k')).toEqual([1]);
  });

  test('has the weight of its put', async () => {
    const { draft } = newDraft();
    map(draft).put('a', () => 'x', 5);
    map(draft).put('b', 'y', 2);
    expect(await map(draft).get('a')).toBe('x');
    expect(await map(draft).weight()).toBe(7);
    expect(await map(draft).atOffset(4)).toMatchObject({ key: 'a' });
  });

  test('is stored as a separate chunk if it is large', async () => {
    const { nodes, draft, read } = newDraft();
    map(draft).put('k', () => 'x'.repeat(5000));
    expect(nodes.heldValueBytes).toBe(0);
    expect(await read('k')).toBe('x'.repeat(5000));
    expect(nodes.heldValueBytes).toBeGreaterThan(5000);
  });

  test('counts towards the memory of a draft before it is evaluated, as the largest one so far', async () => {
    const { draft } = newDraft();
    const put = (keys: number): void => {
      for (let i = 0; i < keys; i++) map(draft).put(`k${i}`, () => 'x'.repeat(2000));
    };
    put(100);
    put(100);
    expect(draft.heldBytes).toBeGreaterThan(100 * 64 * 1024);
    expect(draft.heldBytes).toBeLessThan(101 * 64 * 1024);
    expect(unsavedStateBytes(await draft.state())).toBeGreaterThan(0);
    const before = draft.heldBytes;
    put(100);
    expect(draft.heldBytes - before).toBeGreaterThan(100 * 2000);
    expect(draft.heldBytes - before).toBeLessThan(100 * 2200);
  });

  test('is evaluated by a build only if no later entry replaces it', async () => {
    const give = vi.fn();
    const result = await built(300, (draft, { body }) => {
      map(draft).put('newest', () => {
        give();
        return body;
      });
    });
    expect(result).toMatchObject({ outcome: 'built' });
    expect(give).toHaveBeenCalledOnce();
  });

  test('is typed in the maps of a defined reducer', async () => {
    const any: StandardSchema<number> = {
      '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: Number(value) }) },
    };
    const typed: DefinedReducer<Untyped, Untyped> = defineReducer({
      name: 'typed',
      version: 1,
      maps: { notes: stringMap<number>() },
      entries: { Change: { 1: any } },
      fold: { Change: ({ notes }, { body }) => notes.put('k', () => body) },
    });
    const log = await SheetLog.create();
    await log.append({ ...CHANGE, body: 3 });
    expect(await log.complete(await log.snapshot(), { reducer: typed })).toMatchObject({ outcome: 'built' });
  });

  test('is evaluated with each entry in a map whose history is kept', async () => {
    const nodes = nodeStore();
    const draft = new Draft(nodes);
    const doc: number[] = [];
    const { fold } = withHistory(
      reducerOf((on, { body }) => {
        doc.push(Number(body));
        map(on).put('k', () => [...doc]);
      }),
    );
    for (let entry = 0; entry < 3; entry++) {
      const seen = { position: { segment: 0, entry }, created: 1, body: entry };
      await fold(draft, { ...CHANGE, ...seen } as FoldEntry);
    }
    const history = (await draft.state()).maps.get(HISTORY_MAP);
    const records = history && (await Array.fromAsync(mergedValues(nodes, history)));
    expect(records?.map(({ value }) => value)).toEqual([[0], [0, 1], [0, 1, 2]]);
  });
});

describe('a late value that fails', { tags: ['I9'] }, () => {
  const failures: [string, string, Untyped][] = [
    [
      'throws',
      'FOLD_FAILED',
      () => {
        throw new Error('broken');
      },
    ],
    ['gives a value that cannot be stored', 'VALUE_UNSUPPORTED', () => new Map()],
    ['gives nothing', 'VALUE_UNSUPPORTED', () => undefined],
    ['gives a promise', 'VALUE_UNSUPPORTED', () => Promise.resolve(1)],
    ['gives another function', 'VALUE_UNSUPPORTED', () => () => 1],
  ];

  test.each(failures)('stops the log at the entry that put it if it %s', async (_, code, give) => {
    const result = await built(3, (draft, { body }) => {
      if (body === 2) map(draft).put('k', give);
      else map(draft).put(`k${String(body)}`, 'fine');
    });
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code, segment: 0, entry: 2 } });
  });

  test.each(failures)(
    'stops there too if a later entry reads it and catches the error: it %s',
    async (_, code, give) => {
      const result = await built(3, async (draft, { body }) => {
        if (body === 1) map(draft).put('k', give);
        if (body === 3) {
          await map(draft)
            .get('k')
            .catch(() => undefined);
          map(draft).put('k', 'mended');
        }
      });
      expect(result).toMatchObject({ outcome: 'stopped', stop: { code, segment: 0, entry: 1 } });
    },
  );

  const uses: [string, (draft: ReducerDraft) => unknown][] = [
    ['puts', (draft) => map(draft).put('other', 1)],
    ['deletes', (draft) => map(draft).delete('other')],
    ['reads', (draft) => map(draft).get('other')],
    ['sets metadata', (draft) => draft.meta.set('n', 1)],
    ['reads metadata', (draft) => draft.meta.get('n')],
    ['looks for metadata', (draft) => draft.meta.has('n')],
    ['counts metadata', (draft) => draft.meta.size],
    ['lists metadata', (draft) => [...draft.meta]],
  ];
  test.each(uses)('stops the log if its function %s, wherever it is evaluated', async (_, use) => {
    for (const reads of [false, true]) {
      const result = await built(2, async (draft, { body }) => {
        if (body === 1) {
          map(draft).put('k', () => {
            try {
              use(draft);
            } catch {
              // The log stops although the function caught the error.
            }
            return 1;
          });
        } else if (reads)
          await map(draft)
            .get('k')
            .catch(() => undefined);
      });
      expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'FOLD_FAILED', segment: 0, entry: 1 } });
    }
  });

  const refusing = reducerOf((draft, { body }) => {
    map(draft).put(`k${String(body)}`, () => {
      if (body === 2) throw new Error('two is refused');
      return body;
    });
  });

  test('is refused when its entry is appended, and never written', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: refusing });
    await document.append({ ...CHANGE, body: 1 });
    await expect(document.append({ ...CHANGE, body: 2 })).rejects.toMatchObject({ code: 'ENTRY_REJECTED', index: 0 });
    const both = [3, 2].map((body) => ({ ...CHANGE, body }));
    await expect(document.append(both)).rejects.toMatchObject({ code: 'ENTRY_REJECTED', index: 1 });
    await document.append({ ...CHANGE, body: 4 });
    expect(await Array.fromAsync(document.state.map('a').range())).toEqual([
      { key: 'k1', value: 1 },
      { key: 'k4', value: 4 },
    ]);
  });

  test('ends a document at its entry, if the document stops at bad entries', async () => {
    const live = await LiveLog.create();
    const followed = await live.open({ reducer: refusing, onBadEntry: 'stop' });
    for (const body of [1, 2, 3]) await live.sheet.append({ ...CHANGE, body });
    await followed.refresh();
    for (const document of [followed, await live.open({ reducer: refusing, onBadEntry: 'stop' })]) {
      expect(document.badEntry).toMatchObject({ position: { segment: 0, entry: 2 }, error: { code: 'FOLD_FAILED' } });
      expect(await Array.fromAsync(document.state.map('a').range())).toEqual([{ key: 'k1', value: 1 }]);
    }
  });
});
