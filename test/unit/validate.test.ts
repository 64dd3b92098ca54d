import { describe, expect, test } from 'vitest';
import { EntryRejectedError, ReducerInvalidError, StoreUnavailableError } from '../../src/errors.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { collectionsOf } from '../../src/state/collections/collections.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import type { FoldEntry, Reducer, ReducerDraft } from '../../src/state/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';

/** An account whose balance no new entry may make negative. */
const account: Reducer = {
  ...collections,
  async validate({ body }, state) {
    const balance = Number((await collectionsOf(state).scalar('balance')) ?? 0);
    const next: unknown = Reflect.get(Object(body), 'value');
    if (Number(next) < 0) throw new Error(`a balance of ${String(next)} after ${balance}`);
    if (Number(next) === balance) throw new Error(`the balance is ${balance} already`);
  },
};

const balance = (value: number): NewEntry => ({ type: 'Put', version: 1, body: { name: 'balance', value } });

function validated(validate: (entry: FoldEntry, state: ReducerDraft) => unknown): Reducer {
  return {
    ...collections,
    validate: async (entry, state) => {
      await validate(entry, state);
    },
  };
}

describe('a reducer that validates new entries', () => {
  test('a refused entry is not appended, and the error says why', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: account });
    live.requests.length = 0;
    const error: unknown = await document.append(balance(-1)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(EntryRejectedError);
    expect(error).toMatchObject({ index: 0, reason: 'the reducer refuses the entry: a balance of -1 after 0' });
    expect(error).toMatchObject({ cause: new Error('a balance of -1 after 0') });
    // One look at what others appended.
    expect(live.requests).toEqual(['entries']);
    await expect(document.append(balance(-1), { after: document.newest })).rejects.toThrow(EntryRejectedError);
    await expect(document.mutate(balance(-1))).rejects.toThrow(EntryRejectedError);
    expect(document.pending).toEqual([]);
    expect(live.requests).toEqual(['entries']);
    expect(await live.sheet.items()).toHaveLength(1);
  });

  test('each entry of an append is validated after the entries before it', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: account });
    await expect(document.append([balance(1), balance(2), balance(2)])).rejects.toMatchObject({
      index: 2,
      message: expect.stringContaining('the balance is 2 already'),
    });
    const malformed = { type: 'Put', version: 1, body: null };
    await expect(document.append([balance(1), malformed])).rejects.toMatchObject({ index: 1 });
    expect(await live.sheet.items()).toHaveLength(1);
    await document.append([balance(1), balance(2), balance(1)]);
    expect(await collectionsOf(document.state).scalar('balance')).toBe(1);
  });

  test('an entry is validated again after the entries of others', async () => {
    const live = await LiveLog.create();
    const [document, other] = [await live.open({ reducer: account }), await live.open({ reducer: account })];
    await other.append(balance(5));
    await expect(document.append(balance(5))).rejects.toThrow('the balance is 5 already');
    await other.append(balance(6));
    await expect(document.mutate(balance(6))).rejects.toThrow('the balance is 6 already');
    expect(document.pending).toEqual([]);
    expect(await collectionsOf(document.state).scalar('balance')).toBe(6);
  });

  test('an entry that only an old state refuses is appended', async () => {
    const live = await LiveLog.create();
    const opened = validated(async (_, state) => {
      if ((await collectionsOf(state).scalar('balance')) === undefined) throw new Error('there is no account');
    });
    const document = await live.open({ reducer: opened });
    await expect(document.append(balance(1))).rejects.toThrow('there is no account');
    await (await live.open({ reducer: collections })).append(balance(5));
    const { newest } = document;
    await expect(document.append(balance(6), { after: newest })).rejects.toThrow('there is no account');
    live.requests.length = 0;
    await document.append(balance(6));
    expect(live.requests).toEqual(['entries', 'putEntries']);
    expect(await collectionsOf(document.state).scalar('balance')).toBe(6);
    live.interceptor = async () => Promise.reject(new StoreUnavailableError('the store does not answer'));
    await expect(document.append({ ...balance(7), type: 'Nothing' })).rejects.toThrow(EntryRejectedError);
  });

  test('a fold does not validate the entries of the log', async () => {
    const live = await LiveLog.create();
    await (await live.open({ reducer: collections })).append([balance(-1), balance(-1)]);
    const document = await live.open({ reducer: account });
    expect(await collectionsOf(document.state).scalar('balance')).toBe(-1);
    await (await live.open({ reducer: collections })).append(balance(-2));
    await document.refresh();
    expect(await collectionsOf(document.state).scalar('balance')).toBe(-2);
  });

  test('an applied mutation is not validated again', async () => {
    const live = await LiveLog.create();
    const once = { client: 'c', mutation: 1 };
    await (await live.open({ reducer: account })).append({ ...balance(5), once });
    const document = await live.open({ reducer: account });
    expect(await document.append({ ...balance(5), once })).toBeUndefined();
    expect(await document.mutate({ ...balance(5), once })).toBeUndefined();
  });

  test('it sees the entry as a fold does, and the state is read-only', async () => {
    const live = await LiveLog.create();
    const seen: unknown[] = [];
    const reducer = validated((entry, state) => {
      seen.push(entry);
      if (seen.length > 1) state.map('scalars', 'string').put('other', 1);
    });
    const document = await live.open({ reducer });
    await document.append({ ...balance(5), created: 7, metadata: { correlationId: 'k' } });
    expect(seen).toEqual([
      {
        ...{ log: document.log, position: { segment: 0, entry: 1 }, number: 1, type: 'Put', version: 1 },
        ...{ created: 7, createdMs: 7000, file: undefined },
        body: { name: 'balance', value: 5 },
        metadata: { correlationId: 'k' },
      },
    ]);
    await expect(document.append(balance(6))).rejects.toThrow('the reducer refuses the entry: a loaded state is read');
    expect(await collectionsOf(document.state).scalars()).toEqual({ balance: 5 });
  });

  test('an entry is not refused because the store does not answer', async () => {
    const live = await LiveLog.create();
    let failures = 0;
    const reducer = validated(() => {
      if (failures++ === 0) throw new StoreUnavailableError('no answer');
    });
    const document = await live.open({ reducer });
    await expect(document.append(balance(5))).rejects.toThrow(StoreUnavailableError);
    await document.append(balance(5));
    expect(await collectionsOf(document.state).scalar('balance')).toBe(5);
  });

  test('a validate that is not a function is refused', async () => {
    const live = await LiveLog.create();
    const opened = Reflect.apply(live.open, live, [{ reducer: { ...collections, validate: 1 } }]);
    await expect(opened).rejects.toThrow(ReducerInvalidError);
  });
});
