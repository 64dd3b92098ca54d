import { describe, expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import { EntryRejectedError, LogfoldError } from '../../src/errors.ts';
import type { LogClient, NewEntry } from '../../src/log/client.ts';
import { decodeEntry } from '../../src/log/item-codec.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';

/** Takes every entry, also one of no type. */
const TOLERANT: Reducer = { name: 'tolerant', version: 1, fold: () => undefined };

const GOOD: NewEntry = { type: 'Note', version: 1, body: 'text' };

/** Lets a test give what the types refuse. */
function untyped<T>(given: unknown): T {
  const values: T[] = JSON.parse('[]');
  Reflect.apply(values.push, values, [given]);
  return values[0] as T;
}

interface Given {
  readonly live: LiveLog;
  readonly document: Document;
  readonly client: LogClient;
}

async function open(reducer = TOLERANT): Promise<Given> {
  const live = await LiveLog.create();
  const logs = live.logs();
  const document = await logs.open(live.sheet.log, { reducer });
  await document.append(GOOD);
  live.requests.length = 0;
  return { live, document, client: logs.client };
}

/** The same entry in the three ways in which an application appends it. */
const WAYS: Record<string, (given: Given, entry: NewEntry) => Promise<unknown>> = {
  addEntry: ({ client, live }, entry) => client.addEntry(live.sheet.log, entry),
  append: ({ document }, entry) => document.append(entry),
  mutate: ({ document }, entry) => document.mutate(entry),
};

async function errorOf(run: () => Promise<unknown>): Promise<LogfoldError> {
  const error: unknown = await Promise.try(run).then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown,
  );
  if (error instanceof LogfoldError) return error;
  throw error;
}

const MALFORMED: readonly [what: string, entry: unknown, code: string, reason: string][] = [
  ['no entry', undefined, 'USAGE', 'an entry is undefined'],
  ['null', null, 'USAGE', 'an entry is null'],
  ['no type', { version: 1 }, 'USAGE', 'an entry needs a type'],
  ['a type that is not a string', { ...GOOD, type: 7 }, 'USAGE', 'an entry needs a type'],
  ['a reserved type', { ...GOOD, type: 'Snapshot' }, 'USAGE', "the type 'Snapshot' is reserved"],
  ['no version', { type: 'Note' }, 'USAGE', 'version undefined is not a non-negative integer'],
  ['mutation 0', { ...GOOD, once: { client: 'a', mutation: 0 } }, 'USAGE', '0 cannot be the next mutation'],
  ['mutation -1', { ...GOOD, once: { client: 'a', mutation: -1 } }, 'USAGE', '-1 cannot be the next mutation'],
  ['a client that is not a string', { ...GOOD, once: { client: 5, mutation: 1 } }, 'USAGE', 'cannot name the client'],
  ['once that is null', { ...GOOD, once: null }, 'USAGE', 'once is null'],
  ['milliseconds', { ...GOOD, created: 1_763_800_000_000 }, 'USAGE', 'created 1763800000000 is not a time'],
  ['a time that is null', { ...GOOD, created: null }, 'USAGE', 'created null is not a time'],
  ['an empty id', { ...GOOD, id: new Uint8Array() }, 'USAGE', "an entry's id"],
  ['an id that is text', { ...GOOD, id: 'mine' }, 'USAGE', "an entry's id"],
  ['metadata that is null', { ...GOOD, metadata: null }, 'USAGE', 'the metadata is not a plain object'],
  ['a body that is a function', { ...GOOD, body: () => 1 }, 'VALUE_UNSUPPORTED', 'a value of type function'],
];

describe('a malformed entry gives the same error in each way of appending it:', () => {
  test.each(MALFORMED)('%s', async (_, entry, code, reason) => {
    const given = await open();
    for (const append of Object.values(WAYS)) {
      const error = await errorOf(() => append(given, untyped(entry)));
      expect(error).toMatchObject({ code, message: expect.stringContaining(reason) });
    }
    expect(given.live.requests).toEqual([]);
    expect(given.document.pending).toEqual([]);
    expect(await given.live.sheet.items()).toHaveLength(2);
  });
});

const NO_POSITIONS = ['0/1', {}, { segment: 0 }, Number.NaN, [0, 1], null, { segment: 0, entry: -1 }];

describe('a malformed position is refused:', () => {
  test.each(NO_POSITIONS.map((position) => [position]))('%j', async (position) => {
    const { live, document, client } = await open();
    const { log } = live.sheet;
    const calls = [
      () => client.addEntry(log, GOOD, { after: untyped(position) }),
      () => client.addEntry(log, GOOD, { snapshot: untyped(position) }),
      () => client.addSnapshot(log, { after: untyped(position) }),
      () => document.append(GOOD, { after: untyped(position) }),
      () => client.updateAttributes(log, untyped(position), { set: { status: 'sent' } }),
      () => client.query(log, { from: untyped(position) }),
      () => client.query(log, { from: 'start', to: untyped(position) }),
      () => client.query(log, { from: 'start', snapshot: untyped(position) }),
    ];
    for (const call of calls) expect(await errorOf(call)).toMatchObject({ code: 'POSITION_INVALID', log });
    expect(live.requests).toEqual([]);
    expect(await live.sheet.items()).toHaveLength(2);
  });
});

test.each([
  ['a number', { from: 3 }, '`from` is not a position, but 3', 'Give { number: 3 } for'],
  ['a word of the other end', { from: 'end' }, "but 'end'", "or { segment, entry } or 'start' or 'snapshot'"],
  ['nothing', { limit: 2 }, 'but undefined', "'start' or 'snapshot'"],
  ['a number as the end', { from: 'start', to: 4 }, '`to` is not a position, but 4', "or 'end'"],
  ['an object without text', { from: Object.create(null) }, '`from` is not a position', '{ segment, entry }'],
  ['a function', { from: () => 'x'.repeat(1e6) }, 'but () =>', '{ segment, entry }'],
  ['hostile text', { from: `\u202e${'x'.repeat(1e6)}` }, "'\\u{202e}xxx", '{ segment, entry }'],
])('the error for %s as a place says what to give', async (_, range, reason, advice) => {
  const { live, document, client } = await open();
  const error = await errorOf(() => client.query(live.sheet.log, untyped(range)));
  expect(error.reason).toContain(reason);
  expect(error.advice).toContain(advice);
  expect(error.message.length).toBeLessThan(400);
  const after = await errorOf(() => document.append(GOOD, { after: untyped(7) }));
  expect(after.advice).toContain('Give { number: 7 } for an entry');
});

test('a malformed log id, range or list of options has an error with a code', async () => {
  const { live, document, client } = await open();
  const { log } = live.sheet;
  for (const id of ['', 'feed', '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f', 'x'.repeat(257), '\ud800', 5, undefined]) {
    expect(await errorOf(() => client.addEntry(untyped(id), GOOD))).toMatchObject({ code: 'LOG_ID_INVALID' });
    expect(await errorOf(() => client.query(untyped(id), { from: 'start' }))).toMatchObject({ code: 'LOG_ID_INVALID' });
  }
  for (const call of [
    () => client.query(log, untyped(null)),
    () => client.addEntry(log, GOOD, untyped(null)),
    () => client.addSnapshot(log, untyped(null)),
    () => document.append(GOOD, untyped(null)),
    () => document.append([]),
  ]) {
    expect(await errorOf(call)).toMatchObject({ code: 'USAGE' });
  }
  expect(live.requests).toEqual([]);
});

test("the caller's id and time are stored", async () => {
  const given = await open();
  const entry = { ...GOOD, id: Uint8Array.of(1, 2, 3), created: 7 };
  for (const append of Object.values(WAYS)) await append(given, entry);
  const entries = (await given.live.sheet.items()).slice(2).map(decodeEntry);
  expect(entries.map(({ id, created }) => ({ id, created }))).toEqual(
    Object.keys(WAYS).map(() => ({ id: entry.id, created: entry.created })),
  );
});

/** An error of an application. */
class TodoExistsError extends Error {}

const TODOS: Reducer = {
  name: 'todos',
  version: 1,
  fold: (_, { body }) => {
    if (body === 'twice') throw new TodoExistsError('todo exists');
  },
};

test('a refused entry has the error of the reducer and its index, and no advice about the reducer', async () => {
  const { live, document } = await open(TODOS);
  const refused = { ...GOOD, body: 'twice' };
  const calls = [() => document.append([GOOD, GOOD, refused]), () => document.mutate(refused)];
  for (const [i, call] of calls.entries()) {
    const error = await errorOf(call);
    expect(error).toBeInstanceOf(EntryRejectedError);
    expect(error.message).toBe(`the reducer refuses the entry: todo exists [log ${live.sheet.log}, type 'Note']`);
    expect(error.cause).toBeInstanceOf(TodoExistsError);
    expect(error.toJSON()).toMatchObject({ index: [2, 0][i], advice: undefined });
  }
  expect(await live.sheet.items()).toHaveLength(2);
});

test('a mutation that the service or the code refuses is rejected, and others follow', async () => {
  const { live, document } = await open();
  const invalid = Object.assign(new Error('the item is invalid'), { name: 'ValidationException' });
  for (const failure of [invalid, new TypeError('no function'), new RangeError('no length')]) {
    live.interceptor = async (name, effect) => {
      if (name === 'putEntries') throw failure;
      return effect();
    };
    await expect(document.mutate(GOOD)).rejects.toBe(failure);
    expect(document.pending).toEqual([]);
  }
  live.interceptor = (_, effect) => effect();
  expect(await document.mutate(GOOD)).toEqual({ segment: 0, entry: 2 });
});
