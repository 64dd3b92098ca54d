import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/codec/bytes.ts';
import { EntryExistsError, EntryRejectedError, MutationOvertakenError } from '../../src/errors.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { cells, cities, deleteRows, firstColumn, insertRows, send, WAYS } from '../support/cities.ts';
import { rowsOf } from '../support/live-logs.ts';

const tick = () => new Promise((resolve) => setImmediate(resolve));
const utf8 = (text: string) => new TextEncoder().encode(text);

describe.each(WAYS)('a deletion by %s that others split', (way) => {
  test('is found after a lost answer, although others removed its first part', { tags: ['I8'] }, async () => {
    // As the spreadsheet, except that nothing takes the place of a deletion of rows that are gone.
    const reducer: Reducer = {
      ...spreadsheet,
      rebase: async (entry, other, side) => {
        const rebased = await spreadsheet.rebase?.(entry, other, side);
        if (rebased === undefined || entry.type !== 'Delete Rows') return rebased;
        return { ...rebased, bodies: rebased.bodies.filter((body) => !Array.isArray(body) || body[1] !== 0) };
      },
    };
    const { live, ann, ben } = await cities({ reducer });
    await ben.append([insertRows(2), cells([2, 0, 'Boulder'])]);
    await ben.append(deleteRows(3, 2));
    let puts = 0;
    live.interceptor = async (name, effect) => {
      const answer = await effect();
      // The first attempt meets the entries of the other client.
      if (name === 'putEntries' && puts++ === 0) throw new Error('socket hang up');
      return answer;
    };
    const entries = (await live.sheet.items()).length;
    expect(await send(ann, way, deleteRows(1, 3))).toBeDefined();
    expect(await firstColumn(ann)).toEqual(['city', 'Boulder']);
    expect(await live.sheet.items()).toHaveLength(entries + 1);
    expect(puts).toBe(1);
  });

  test('has entries with different ids, also if it is split again', async () => {
    const { live, ann, ben } = await cities();
    await ben.append(cells([20, 0, 'end']));
    await ann.refresh();
    for (const row of [5, 9, 3]) await ben.append(insertRows(row));
    const before = (await live.sheet.items()).length;
    await send(ann, way, deleteRows(1, 12));
    const ids = (await live.sheet.items()).slice(before).map((item) => toHex(decodeEntry(item).id ?? utf8('')));
    expect(ids).toHaveLength(4);
    expect(new Set(ids).size).toBe(4);
  });
});

test('a refused entry is named by its index in the append, although one before it was split', async () => {
  let isFull = false;
  const reducer: Reducer = {
    ...spreadsheet,
    validate: ({ type }) => {
      if (type === 'Set' && isFull) throw new Error('the sheet is full');
    },
  };
  const { live, ann, ben } = await cities({ reducer });
  await ben.append(insertRows(2));
  live.interceptor = (name, effect) => {
    // The second attempt comes after the entry of the other client.
    if (name === 'putEntries') isFull = true;
    return effect();
  };
  const refused = ann.append([deleteRows(1, 3), cells([0, 1, 'state'])]);
  await expect(refused).rejects.toThrow(EntryRejectedError);
  await expect(refused).rejects.toMatchObject({ index: 1, type: 'Set', cause: { message: 'the sheet is full' } });
});

test.each(['order-10', 'order-1\u0001'])(
  'an entry of others with the id %j is not taken for order-1, which was sent',
  { tags: ['I12'] },
  async (id) => {
    const { live, ann, ben } = await cities();
    let puts = 0;
    let requests = 0;
    live.interceptor = async (name, effect) => {
      // A page that never ends must fail the test, not stop it.
      if (++requests > 100) throw new EntryRejectedError(0, 'too many requests');
      if (name !== 'putEntries' || puts++ > 0) return effect();
      await ben.append({ ...insertRows(0), id: utf8(id) });
      throw new Error('socket hang up');
    };
    const after = ann.newest;
    const [first, second] = await Promise.allSettled([
      ann.mutate({ ...cells([2, 1, 'Colorado']), id: utf8('order-1') }),
      ann.mutate(cells([1, 1, 'Texas']), { after }),
    ]);
    expect(first?.status).toBe('fulfilled');
    expect(second).toMatchObject({ status: 'rejected', reason: expect.any(EntryExistsError) });
    expect(await rowsOf(ann)).toEqual([[], ['city'], ['Austin'], ['Denver', 'Colorado'], ['Provo']]);
  },
);

test('a mutation sees those before it, also if the document does not show them yet', { tags: ['I12'] }, async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const reducer: Reducer = {
    ...spreadsheet,
    fold: async (draft, entry) => {
      if (entry.type === 'Insert Rows') await promise;
      return spreadsheet.fold(draft, entry);
    },
  };
  const { ann } = await cities({ reducer });
  const inserted = ann.mutate(insertRows(1));
  for (let i = 0; i < 10; i++) await tick();
  expect(ann.pending).toEqual([]);
  const filled = ann.mutate(cells([1, 0, 'Boulder']));
  const appended = ann.append(cells([2, 1, 'Texas']));
  resolve();
  await Promise.all([inserted, filled, appended]);
  expect(await rowsOf(ann)).toEqual([['city'], ['Boulder'], ['Austin', 'Texas'], ['Denver'], ['Provo']]);
});

test('an entry that is made while others arrive meets their entries', { tags: ['I12'] }, async () => {
  let waits: Promise<void> | undefined;
  const reducer: Reducer = {
    ...spreadsheet,
    fold: async (draft, entry) => {
      if (entry.type === 'Set') await waits;
      return spreadsheet.fold(draft, entry);
    },
  };
  const { live, ann, ben } = await cities({ reducer });
  await ben.append(insertRows(0));
  const { promise, resolve } = Promise.withResolvers<void>();
  let puts = 0;
  live.interceptor = async (name, effect) => {
    const answer = await effect();
    // The document reads the insertion after the first attempt, and folds after the second one.
    if (name === 'putEntries' && ++puts === 1) waits = promise;
    return answer;
  };
  const asked = [ann.mutate(cells([1, 1, 'Texas'])), ann.mutate(cells([0, 1, 'state']))];
  while (puts === 0) await tick();
  for (let i = 0; i < 20; i++) await tick();
  expect(await rowsOf(ann)).toEqual([['city', 'state'], ['Austin', 'Texas'], ['Denver'], ['Provo']]);
  asked.push(ann.mutate(cells([2, 1, 'Colorado'])), ann.mutate(insertRows(1)), ann.mutate(cells([4, 1, 'Utah'])));
  resolve();
  await Promise.all(asked);
  const rows = [[], ['city', 'state'], [], ['Austin', 'Texas'], ['Denver', 'Colorado'], ['Provo', 'Utah']];
  expect(await rowsOf(ann)).toEqual(rows);
  await ben.refresh();
  expect(await rowsOf(ben)).toEqual(rows);
});

test.each(WAYS)('a mutation repeated by %s fails with the first one', { tags: ['I12'] }, async (way) => {
  const { live, ann, ben } = await cities();
  const mutation = { ...cells([2, 1, 'Colorado']), once: { client: 'ann', mutation: 1 } };
  await ben.append(deleteRows(2));
  const before = (await live.sheet.items()).length;
  const told = await Promise.allSettled([ann.mutate(mutation), send(ann, way, mutation)]);
  expect(told).toMatchObject([
    { status: 'rejected', reason: { code: 'ENTRY_DROPPED' } },
    { status: 'rejected', reason: { code: 'ENTRY_DROPPED' } },
  ]);
  expect(await live.sheet.items()).toHaveLength(before);
  expect(await rowsOf(ann)).toEqual([['city'], ['Austin'], ['Provo']]);
});

test('a mutation that was overtaken before the page opened takes no later edit with it', async () => {
  const { live, ann } = await cities();
  await ann.append({ ...cells([9, 9, 'x']), once: { client: 'a', mutation: 5 } });
  const page = await live.open({ reducer: spreadsheet });
  const told = await Promise.allSettled([
    page.mutate({ ...insertRows(1), once: { client: 'a', mutation: 4 } }),
    page.mutate(cells([2, 1, 'Colorado'])),
  ]);
  expect(told[0]).toMatchObject({ status: 'rejected', reason: expect.any(MutationOvertakenError) });
  expect(told[1]).toMatchObject({ status: 'fulfilled' });
  expect((await rowsOf(page))[2]).toEqual(['Denver', 'Colorado']);
});
