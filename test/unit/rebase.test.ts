import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { EntryDroppedError, EntryExistsError, EntryRejectedError, StoreUnavailableError } from '../../src/errors.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { defineReducer, stringMap } from '../../src/state/define-reducer.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import type { RebaseSide, Reducer } from '../../src/state/reducer.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { cells, cities, deleteRows, entryOf, firstColumn, insertRows, send, WAYS } from '../support/cities.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';

const HANG_UP = new Error('socket hang up');
test.each(['before the page was opened', 'while the page was open'])(
  'a repeated mutation that the log applied %s moves no later edit',
  { tags: ['I12'] },
  async (when) => {
    const { live, ann, ben } = await cities();
    const opened = when === 'while the page was open' ? await live.open({ reducer: spreadsheet }) : undefined;
    const mutation = { ...insertRows(1), once: { client: 'ann', mutation: 1 } };
    await ann.append(mutation);
    const page = opened ?? (await live.open({ reducer: spreadsheet }));
    await page.refresh();
    await ben.refresh();
    expect(await page.mutate(mutation)).toBeUndefined();
    await ben.append(insertRows(2));
    await page.mutate(cells([2, 1, 'Texas']));
    await page.refresh();
    expect(await rowsOf(page)).toEqual([['city'], [], [], ['Austin', 'Texas'], ['Denver'], ['Provo']]);
    expect(page.pending).toEqual([]);
  },
);

describe.each(WAYS)('an entry of %s', (way) => {
  test('reaches the row that its author saw, although others inserted a row above', { tags: ['I12'] }, async () => {
    const { ann, ben } = await cities();
    await ben.append(insertRows(1));
    await send(ann, way, cells([2, 1, 'Colorado']));
    expect(await rowsOf(ann)).toEqual([['city'], [], ['Austin'], ['Denver', 'Colorado'], ['Provo']]);
    expect(await rowsOf(ben).then(() => ben.refresh())).toBe(true);
    expect(await rowsOf(ben)).toEqual(await rowsOf(ann));
  });

  test('leaves the header alone when others inserted a row above it', { tags: ['I12'] }, async () => {
    const { ann, ben } = await cities();
    await ben.append([insertRows(0), cells([0, 0, 'Places'])]);
    await send(ann, way, cells([1, 0, 'Boulder']));
    expect(await firstColumn(ann)).toEqual(['Places', 'city', 'Boulder', 'Denver', 'Provo']);
  });

  test('is dropped if others deleted its row, and its author is told', { tags: ['I12'] }, async () => {
    const { live, ann, ben } = await cities();
    await ben.append(deleteRows(2));
    const entries = (await live.sheet.items()).length;
    const error: unknown = await send(ann, way, cells([2, 1, 'Colorado'])).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(EntryDroppedError);
    expect(error).toMatchObject({
      code: 'ENTRY_DROPPED',
      index: 0,
      type: 'Set',
      reason: 'others removed the rows of its cells',
    });
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({ index: 0 });
    expect(await live.sheet.items()).toHaveLength(entries);
    expect(ann.pending).toEqual([]);
    expect(await rowsOf(ann)).toEqual([['city'], ['Austin'], ['Provo']]);
  });

  test('keeps the cells whose rows are there, and names the others as they were written', async () => {
    const { ann, ben } = await cities();
    await ben.append([deleteRows(1), insertRows(0), deleteRows(2)]);
    const stored = await send(ann, way, cells([1, 1, 'a'], [3, 1, 'c'], [2, 1, 'b'], [0, 1, 'state']));
    expect(stored).toMatchObject({ dropped: way === 'append' ? [{ index: 0, parts: [0, 2] }] : [0, 2] });
    expect(await rowsOf(ann)).toEqual([[], ['city', 'state'], ['Provo', 'c']]);
    expect(await send(ann, way, cells([1, 1, 'State']))).not.toHaveProperty('dropped');
  });

  test('deletes around rows that others inserted', { tags: ['I12'] }, async () => {
    const { live, ann, ben } = await cities();
    await ben.append([insertRows(2), cells([2, 0, 'Boulder'])]);
    await send(ann, way, deleteRows(1, 3));
    expect(await firstColumn(ann)).toEqual(['city', 'Boulder']);
    expect(await firstColumn(ben)).toEqual(['city', 'Boulder']);
    expect(await live.sheet.items()).toHaveLength(6);
  });

  test('is dropped if it must be split and applies once', async () => {
    const { ann, ben } = await cities();
    await ben.append(insertRows(2));
    const entry = { ...deleteRows(1, 3), once: { client: 'ann', mutation: 1 } };
    await expect(send(ann, way, entry)).rejects.toThrow(EntryDroppedError);
    expect(await firstColumn(ann)).toEqual(['city', 'Austin', '', 'Denver', 'Provo']);
  });

  test('is not moved by a mutation of others that has no effect', async () => {
    const { live, ann, ben } = await cities();
    const once = { client: 'cal', mutation: 1 };
    await ben.append({ ...insertRows(0), once });
    await ann.refresh();
    await live.sheet.append({ ...insertRows(0), once });
    await live.sheet.append({ ...insertRows(0, 2), once });
    await send(ann, way, cells([3, 1, 'Colorado']));
    expect(await rowsOf(ann)).toEqual([[], ['city'], ['Austin'], ['Denver', 'Colorado'], ['Provo']]);
  });

  test('is moved by entries that a document passed over', { tags: ['I12'] }, async () => {
    const { live, ann, ben } = await cities({ reloadAfter: { entries: 1 } });
    const once = { client: 'cal', mutation: 1 };
    await ben.append({ ...insertRows(0), once });
    for (const row of [9, 10, 11]) await ben.append(cells([row, 3, 'x'.repeat(20_000)]));
    await live.sheet.append({ ...insertRows(0), once });
    await live.sheet.completed();
    let refreshed: Promise<boolean> | undefined;
    live.interceptor = async (name, effect) => {
      // The entry is written for the state before the refresh.
      if (name === 'putEntries') await refreshed;
      return effect();
    };
    refreshed = ann.refresh();
    await send(ann, way, cells([2, 1, 'Colorado']));
    expect((await rowsOf(ann)).slice(0, 4)).toEqual([[], ['city'], ['Austin'], ['Denver', 'Colorado']]);
  });

  test('is found after a lost answer, and neither moved nor appended again', { tags: ['I8'] }, async () => {
    const { live, ann, ben } = await cities();
    let puts = 0;
    live.interceptor = async (name, effect) => {
      if (name !== 'putEntries' || puts++ > 0) return effect();
      await effect();
      // Others append between the entry and its recognition.
      await ben.append(deleteRows(0, 3));
      throw HANG_UP;
    };
    expect(await send(ann, way, cells([2, 1, 'Colorado']))).toBeDefined();
    expect(await rowsOf(ann)).toEqual([['Provo']]);
    expect(await live.sheet.items()).toHaveLength(4);
  });

  test('is found after a lost answer, although it was split', { tags: ['I8'] }, async () => {
    const { live, ann, ben } = await cities();
    await ben.append([insertRows(2), cells([2, 0, 'Boulder'])]);
    const later = ann.state;
    let puts = 0;
    live.interceptor = async (name, effect) => {
      const answer = await effect();
      if (name === 'putEntries' && puts++ === 0) throw HANG_UP;
      return answer;
    };
    await send(ann, way, deleteRows(1, 3));
    expect(ann.state).not.toBe(later);
    expect(await firstColumn(ann)).toEqual(['city', 'Boulder']);
    expect(await live.sheet.items()).toHaveLength(6);
    expect(await send(ann, way, cells([1, 1, 'Colorado']))).toBeDefined();
    expect(await rowsOf(ann)).toEqual([['city'], ['Boulder', 'Colorado']]);
  });
});

test.each(WAYS)('%s refuses an entry if those in between have expired, and no later one', async (way) => {
  const { live, ann, ben } = await cities();
  await ben.append(insertRows(0));
  await live.sheet.completed();
  await live.sheet.covered();
  const items = (await live.sheet.items()).length;
  await live.sheet.tables.deleteEntries(live.sheet.log, 0, [...Array(items).keys()]);
  live.sheet.nowMs += 3_600_000;
  // The entry is written for the state before the refresh.
  const [, told] = await Promise.allSettled([ann.refresh(), send(ann, way, cells([2, 1, 'Colorado']))]);
  expect(told).toMatchObject({ status: 'rejected', reason: { code: 'ENTRY_DROPPED', cause: { code: 'ENTRY_GAP' } } });
  expect(await rowsOf(ann)).toEqual([[], ['city'], ['Austin'], ['Denver'], ['Provo']]);
  await send(ann, way, cells([3, 1, 'Colorado']));
  expect((await rowsOf(ann))[3]).toEqual(['Denver', 'Colorado']);
});

describe('several entries', () => {
  test('each entry of an append sees those before it', { tags: ['I12'] }, async () => {
    const { ann, ben } = await cities();
    await ben.append([insertRows(0), insertRows(3)]);
    await ann.append([insertRows(2), cells([2, 0, 'Boulder'], [3, 1, 'Colorado']), deleteRows(1)]);
    const rows = [[], ['city'], [], ['Boulder'], ['Denver', 'Colorado'], ['Provo']];
    expect(await rowsOf(ann)).toEqual(rows);
  });

  test('nothing is appended if one of them is dropped', async () => {
    const { live, ann, ben } = await cities();
    await ben.append(deleteRows(1));
    const entries = (await live.sheet.items()).length;
    const error = await ann.append([cells([0, 1, 'state']), cells([1, 1, 'Texas'])]).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'ENTRY_DROPPED', index: 1 });
    expect(await live.sheet.items()).toHaveLength(entries);
  });

  test('entries of mutate are moved one after the other', { tags: ['I12'] }, async () => {
    const { live, ann, ben } = await cities();
    let opens = (): void => undefined;
    const open = new Promise<void>((resolve) => {
      opens = resolve;
    });
    let isFirst = true;
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries' && isFirst) {
        isFirst = false;
        await open;
      }
      return effect();
    };
    const sent = [insertRows(1), cells([1, 0, 'Boulder'], [3, 1, 'Colorado']), deleteRows(4)].map((entry) =>
      ann.mutate(entry),
    );
    await new Promise((resolve) => setImmediate(resolve));
    await ben.append([deleteRows(1), insertRows(1, 2), insertRows(0)]);
    opens();
    await Promise.all(sent);
    expect(await rowsOf(ann)).toEqual([[], ['city'], [], [], ['Boulder'], ['Denver', 'Colorado']]);
    await ben.refresh();
    expect(await rowsOf(ben)).toEqual(await rowsOf(ann));
  });

  test('an append comes after the pending entries that its author saw', { tags: ['I12'] }, async () => {
    const { live, ann } = await cities();
    let appended: Promise<unknown> | undefined;
    let puts = 0;
    live.interceptor = async (name, effect) => {
      if (name !== 'putEntries' || puts++ >= 3) return effect();
      // It runs after three attempts, while the pending entry waits for another one.
      appended ??= ann.append(cells([3, 1, 'Colorado']));
      throw new StoreUnavailableError('busy');
    };
    await ann.mutate(insertRows(0));
    await appended;
    expect(await rowsOf(ann)).toEqual([[], ['city'], ['Austin'], ['Denver', 'Colorado'], ['Provo']]);
  });

  test('an append fails if the pending entries that its author saw cannot be sent', async () => {
    const { live, ann } = await cities();
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries') throw new StoreUnavailableError('busy');
      return effect();
    };
    const closed = expect(ann.mutate(insertRows(0))).rejects.toThrow('the document is closed');
    await expect(ann.append(cells([3, 1, 'Colorado']))).rejects.toThrow(StoreUnavailableError);
    ann.close();
    await closed;
    expect(await live.sheet.items()).toHaveLength(2);
  });

  test('an append that nobody waited for is not seen by the next entry', async () => {
    const { ann } = await cities();
    await Promise.all([
      ann.append(insertRows(0)),
      ann.append(cells([2, 1, 'Colorado'])),
      ann.mutate(cells([1, 1, 'Texas'])),
    ]);
    expect(await rowsOf(ann)).toEqual([[], ['city'], ['Austin', 'Texas'], ['Denver', 'Colorado'], ['Provo']]);
  });

  test('an entry on top of one that fails is dropped, and others stay', { tags: ['I12'] }, async () => {
    const reducer: Reducer = {
      ...spreadsheet,
      validate: ({ type }) => {
        if (type === 'Insert Rows' && isFull) throw new Error('the sheet is full');
      },
    };
    let isFull = false;
    const { live, ann, ben } = await cities({ reducer });
    let refuses = true;
    live.interceptor = async (name, effect) => {
      if (refuses && name === 'putEntries') throw new StoreUnavailableError('busy');
      return effect();
    };
    const entries = [
      insertRows(2),
      insertRows(1),
      cells([1, 0, 'Boulder']),
      cells([4, 1, 'Colorado']),
      cells([0, 1, 'state']),
    ];
    const sent = entries.map((entry) => ann.mutate(entry));
    const told = Promise.allSettled(sent);
    while (ann.pending.length < entries.length) await new Promise((resolve) => setImmediate(resolve));
    isFull = true;
    refuses = false;
    const reasons = (await told).map((each) => (each.status === 'rejected' ? each.reason : each.value));
    expect(reasons[0]).toBeInstanceOf(EntryRejectedError);
    expect(reasons[1]).toBeInstanceOf(EntryRejectedError);
    // It was for the new row, and the other one for a row below it.
    expect(reasons[2]).toMatchObject({ code: 'ENTRY_DROPPED', reason: expect.stringContaining('on top of an entry') });
    expect(reasons[3]).toMatchObject({ code: 'ENTRY_DROPPED' });
    expect(reasons[4]).toMatchObject({ segment: 0 });
    expect(await rowsOf(ann)).toEqual([['city', 'state'], ['Austin'], ['Denver'], ['Provo']]);
    expect(await firstColumn(ben)).toEqual(['city', 'Austin', 'Denver', 'Provo']);
  });
});

describe('an append with `after`', () => {
  test('is not moved, but refused', async () => {
    const { ann, ben } = await cities();
    await ben.append(insertRows(0));
    await expect(ann.append(cells([2, 1, 'Colorado']), { after: ann.newest })).rejects.toThrow(EntryExistsError);
    await expect(ann.mutate(cells([2, 1, 'Colorado']), { after: ann.newest })).rejects.toThrow(EntryExistsError);
    await ann.refresh();
    await ann.append(cells([3, 1, 'Colorado']), { after: ann.newest });
    await ann.mutate(cells([4, 1, 'Utah']), { after: ann.newest });
    expect((await rowsOf(ann)).slice(3)).toEqual([
      ['Denver', 'Colorado'],
      ['Provo', 'Utah'],
    ]);
  });

  test('a mutation follows the mutations that its author saw, and nothing else', async () => {
    const { live, ann, ben } = await cities();
    const after = ann.newest;
    const both = [ann.mutate(insertRows(0)), ann.mutate(cells([3, 1, 'Colorado']), { after })];
    await live.sheet.snapshot();
    await Promise.all(both);
    expect((await rowsOf(ann))[3]).toEqual(['Denver', 'Colorado']);
    await ben.append(insertRows(0));
    const [first, second] = [ann.mutate(insertRows(0)), ann.mutate(cells([1, 1, 'x']), { after: ann.newest })];
    await expect(second).rejects.toThrow(EntryExistsError);
    await first;
    expect((await rowsOf(ann))[5]).toEqual(['Denver', 'Colorado']);
  });

  test('a mutation takes no other option', async () => {
    const { ann } = await cities();
    // @ts-expect-error: the option has another name.
    await expect(ann.mutate(insertRows(0), { follows: ann.newest })).rejects.toMatchObject({ code: 'USAGE' });
    // @ts-expect-error: a position is not a text.
    await expect(ann.mutate(insertRows(0), { after: '0/1' })).rejects.toMatchObject({ code: 'POSITION_INVALID' });
    expect(ann.pending).toEqual([]);
  });
});

describe('requests', () => {
  test.each(WAYS)(
    '%s takes one if nobody else appends, and with a conflict those that read the entries',
    async (way) => {
      const { live, ann, ben } = await cities();
      live.requests.length = 0;
      await send(ann, way, cells([2, 1, 'Colorado']));
      expect(live.requests).toEqual(['putEntries']);
      const conflict = async (reducer: Reducer): Promise<string[]> => {
        const document = await live.open({ reducer });
        await ben.refresh();
        await ben.append(insertRows(0));
        live.requests.length = 0;
        await send(document, way, cells([2, 1, 'Colorado']));
        return [...live.requests];
      };
      const { rebase: _, ...plain } = spreadsheet;
      expect(await conflict(spreadsheet)).toEqual(await conflict(plain));
    },
  );
});

describe('other entries and reducers', () => {
  test('an import moves with the rows above it, and is dropped if rows change where it may put cells', async () => {
    const { live, ann, ben } = await cities();
    const file = await live.sheet.saveFile(new TextEncoder().encode('Boulder,Colorado\n'));
    const entry = (row: number) => ({ ...entryOf('Import', importBody({ format: 'csv', row })), file });
    await ben.append(insertRows(0));
    await ann.append(entry(4));
    expect((await rowsOf(ann)).slice(4)).toEqual([['Provo'], ['Boulder', 'Colorado']]);
    await ben.refresh();
    await ben.append(insertRows(2));
    await expect(ann.append(entry(1))).rejects.toThrow('others inserted or deleted rows where it may put cells');
  });

  test('a reducer with a history rebases as the plain one', async () => {
    const { ann, ben } = await cities({ reducer: withHistory(spreadsheet) });
    await ben.append(insertRows(0));
    await ann.append(cells([2, 1, 'Colorado']));
    expect((await rowsOf(ann))[3]).toEqual(['Denver', 'Colorado']);
    expect(await Array.fromAsync(ann.history({ row: 3, column: 1 }), ({ value }) => value)).toEqual(['Colorado']);
  });

  test('a reducer without a rebase appends entries as they were written', async () => {
    const { rebase: _, ...plain } = spreadsheet;
    const { ann, ben } = await cities({ reducer: plain });
    await ben.append(insertRows(0));
    await ann.append(cells([2, 1, 'Colorado']));
    expect((await rowsOf(ann))[2]).toEqual(['Austin', 'Colorado']);
  });

  test('collections need none', async () => {
    expect(collections.rebase).toBeUndefined();
  });

  test('a typed reducer moves the positions of its entries', async () => {
    const list = defineReducer({
      name: 'list',
      version: 1,
      maps: { items: stringMap<string[]>() },
      entries: {
        Insert: { 1: z.object({ at: z.number(), text: z.string() }) },
        Rename: { 1: z.object({ at: z.number(), text: z.string() }) },
        Remove: { 1: z.object({ at: z.number() }) },
      },
      fold: {
        async Insert({ items }, { body: { at, text } }) {
          items.put('all', ((await items.get('all')) ?? []).toSpliced(at, 0, text));
        },
        async Rename({ items }, { body: { at, text } }) {
          items.put('all', ((await items.get('all')) ?? []).with(at, text));
        },
        async Remove({ items }, { body: { at } }) {
          items.put('all', ((await items.get('all')) ?? []).toSpliced(at, 1));
        },
      },
      rebase: {
        Rename({ body }, other) {
          if (other.type === 'Rename' || other.body.at > body.at) return undefined;
          if (other.type === 'Remove' && other.body.at === body.at) return { bodies: [], reason: 'the item is gone' };
          return { bodies: [{ ...body, at: body.at + (other.type === 'Insert' ? 1 : -1) }] };
        },
      },
    });
    const live = await LiveLog.create();
    const [ann, ben] = [await live.open({ reducer: list }), await live.open({ reducer: list })];
    await ann.append([
      list.entry('Insert', 1, { at: 0, text: 'tea' }),
      list.entry('Insert', 1, { at: 1, text: 'milk' }),
    ]);
    await ben.refresh();
    await ben.append(list.entry('Insert', 1, { at: 0, text: 'bread' }));
    await ann.append(list.entry('Rename', 1, { at: 1, text: 'oat milk' }));
    expect(await list.mapsOf(ann.state).items.get('all')).toEqual(['bread', 'tea', 'oat milk']);
    await ben.refresh();
    await ben.append(list.entry('Remove', 1, { at: 2 }));
    await expect(ann.mutate(list.entry('Rename', 1, { at: 2, text: 'milk' }))).rejects.toThrow('the item is gone');
    // An entry without a function for its type stays as it is.
    await ben.append(list.entry('Insert', 1, { at: 0, text: 'jam' }));
    await ann.append(list.entry('Remove', 1, { at: 0 }));
    expect(await list.mapsOf(ann.state).items.get('all')).toEqual(['bread', 'tea']);
  });

  const faulty: readonly (readonly [string, (side: RebaseSide) => unknown])[] = [
    [
      'throws',
      () => {
        throw new TypeError('no position');
      },
    ],
    ['gives no bodies', () => ({})],
    ['gives a body that cannot be stored', () => ({ bodies: [() => 'text'] })],
  ];
  test.each(faulty)('an entry is rejected if the rebase of its reducer %s', async (_, rebase) => {
    const reducer: Reducer = {
      ...spreadsheet,
      rebase: (_entry, _other, side): never => rebase(side) as never,
    };
    const { live, ann, ben } = await cities({ reducer: spreadsheet });
    const document = await live.open({ reducer });
    await ben.append(insertRows(0));
    await expect(document.append(cells([0, 1, 'a']))).rejects.toThrow(EntryRejectedError);
    await ben.append(insertRows(0));
    await expect(document.mutate(cells([0, 1, 'a']))).rejects.toThrow(EntryRejectedError);
    expect(document.pending).toEqual([]);
    await document.append(cells([2, 1, 'state']));
    await ann.refresh();
    expect((await rowsOf(ann))[2]).toEqual(['city', 'state']);
  });
});
