import { AssertionError } from 'node:assert';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { EntryRejectedError, FoldFailedError } from '../../src/errors.ts';
import { FakeClock, given } from '../../src/exports/testing.ts';
import { defineReducer, numberMap, stringMap } from '../../src/state/define-reducer.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';

const votes = defineReducer({
  name: 'votes',
  version: 1,
  maps: { counts: stringMap<number>(), times: numberMap<number>() },
  entries: { Vote: { 1: z.string() }, Close: { 1: z.null() } },
  fold: {
    async Vote({ counts, times }, { body, number = 0, createdMs }, draft) {
      if (draft.meta.get('closed') === true) throw new Error('the poll is closed');
      counts.put(body, ((await counts.get(body)) ?? 0) + 1);
      times.put(number, createdMs);
    },
    Close: (_, __, draft) => void draft.meta.set('closed', true),
  },
  validate: {
    Vote: (_, { body }) => {
      if (body === 'coffee') throw new Error('there is no coffee');
    },
  },
});

const tea = votes.entry('Vote', 1, 'tea');
const coffee = votes.entry('Vote', 1, 'coffee');
const close = votes.entry('Close', 1, null);
const START_MS = Date.UTC(2025, 0, 1);

/** The error of a test that must fail. */
async function failureOf(test: Promise<unknown>): Promise<AssertionError> {
  const error: unknown = await test.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof AssertionError) return error;
  throw new Error('the test did not fail with an AssertionError', { cause: error });
}

describe('thenState', () => {
  test('accepts the whole state, in which keys that are numbers are names of properties', async () => {
    await given(votes, [tea])
      .when(tea, close)
      .thenState({
        maps: { counts: { tea: 2 }, times: { 1: START_MS, 2: START_MS } },
        meta: { closed: true },
      });
  });

  test('takes no entries, no maps and no record for the empty state', async () => {
    await given(votes, []).when().thenState({});
    await given(votes, [])
      .when(close)
      .thenState({ maps: { counts: {} }, meta: { closed: true } });
  });

  test('compares values as logs store them', async () => {
    const values: Reducer = {
      name: 'values',
      version: 1,
      fold: (draft, { body }) => draft.map('values', 'string').put('value', body),
    };
    const body = { b: 1n, a: [Uint8Array.of(1), new Date(5)], __proto__: null };
    const expected = { value: { a: [Buffer.from([1]), new Date(5)], b: 1 } };
    await given(values, [])
      .when({ type: 'Set', version: 1, body })
      .thenState({ maps: { values: expected } });
  });

  test('a Map also checks the kind of the keys', async () => {
    const times = new Map([[1, START_MS]]);
    await given(votes, [])
      .when(tea)
      .thenState({ maps: { counts: { tea: 1 }, times } });
    const texts = new Map([['1', START_MS]]);
    const failure = await failureOf(
      given(votes, [])
        .when(tea)
        .thenState({ maps: { counts: { tea: 1 }, times: texts } }),
    );
    expect(failure.message).toContain("'1' => ");
  });

  test.each([
    ['another value', { counts: { tea: 1 }, times: {} }, {}],
    ['a missing map', { counts: { tea: 2 } }, {}],
    ['one more map', { counts: { tea: 2 }, times: { 1: START_MS, 2: START_MS }, more: { a: 1 } }, {}],
    ['one more name in the record', { counts: { tea: 2 }, times: { 1: START_MS, 2: START_MS } }, { closed: false }],
  ])('%s fails the test, with the difference', async (_, maps, meta) => {
    const failure = await failureOf(given(votes, [tea]).when(tea).thenState({ maps, meta }));
    expect(failure.code).toBe('ERR_ASSERTION');
    expect(failure.message).toMatch(/^[+-] /m);
    expect(failure.actual).toEqual({ maps: { counts: { tea: 2 }, times: { 1: START_MS, 2: START_MS } }, meta: {} });
    expect(failure.expected).not.toEqual(failure.actual);
  });

  test('a rejected entry fails the test with what the reducer threw', async () => {
    await expect(given(votes, []).when(coffee).thenState({})).rejects.toThrow('there is no coffee');
  });

  test('a given entry that cannot be folded fails the test with its place', async () => {
    const failing = given(votes, [tea, close, tea]).when().thenState({});
    await expect(failing).rejects.toMatchObject({ entry: 3, type: 'Vote', cause: { message: 'the poll is closed' } });
    await expect(failing).rejects.toThrow(FoldFailedError);
  });

  test('entries have the times of the clock', async () => {
    const clock = new FakeClock(START_MS + 7);
    await given(votes, [], { clock })
      .when(tea)
      .thenState({ maps: { counts: { tea: 1 }, times: { 1: START_MS + 7 } } });
  });

  test('many entries may be given', async () => {
    const maps = {
      counts: { tea: 120 },
      times: Object.fromEntries(Array.from({ length: 120 }, (_, i) => [i + 1, START_MS])),
    };
    await given(
      votes,
      Array.from({ length: 120 }, () => tea),
    )
      .when()
      .thenState({ maps });
  });
});

describe('thenRejected', () => {
  test('accepts an entry that validate or fold refuses, and returns the error', async () => {
    const refused = await given(votes, [])
      .when(coffee)
      .thenRejected(/no coffee/);
    expect(refused).toBeInstanceOf(EntryRejectedError);
    expect(refused.cause).toEqual(new Error('there is no coffee'));
    await given(votes, [close])
      .when(tea)
      .thenRejected(/^ENTRY_REJECTED.*the poll is closed/s);
    const untyped: Reducer = votes;
    await given(untyped, [])
      .when({ ...tea, body: 7 })
      .thenRejected(/BODY_INVALID/);
  });

  test('fails if the reducer takes the entry', async () => {
    const failure = await failureOf(given(votes, []).when(tea).thenRejected());
    expect(failure.message).toContain("reducer 'votes' takes the entries");
  });

  test('fails if the reason is another one', async () => {
    const failure = await failureOf(
      given(votes, [])
        .when(coffee)
        .thenRejected(/closed/),
    );
    expect(failure.message).toContain('there is no coffee');
  });

  test('validate does not see given entries, as it does not see those of the log', async () => {
    await given(votes, [coffee])
      .when()
      .thenState({ maps: { counts: { coffee: 1 }, times: { 1: START_MS } } });
  });
});

describe('thenCheck', () => {
  test('gets the state of a sheet, and of typed maps', async () => {
    const cells = { type: 'Set', version: 1, body: [[0, 0, 'Denver']] };
    const corner = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };
    await given(spreadsheet, [])
      .when(cells)
      .thenCheck(async (state) => expect(await state.view(corner)).toEqual([['Denver']]));
    await given(votes, [])
      .when(tea)
      .thenCheck(async (state) => expect(await votes.mapsOf(state).counts.get('tea')).toBe(1));
  });

  test('fails as the check does', async () => {
    const check = async () => {
      throw new Error('not as expected');
    };
    await expect(given(votes, []).when(tea).thenCheck(check)).rejects.toThrow('not as expected');
  });
});

describe('a reducer that is not deterministic', () => {
  let folds = 0;
  const counting: Reducer = {
    name: 'counting',
    version: 1,
    fold: (draft) => draft.map('counts', 'string').put('folds', ++folds),
  };

  test('fails the test, although the first fold gives the expected state', async () => {
    folds = 0;
    const failure = await failureOf(
      given(counting, [])
        .when({ type: 'Count', version: 1 })
        .thenState({ maps: { counts: { folds: 1 } } }),
    );
    expect(failure.message).toContain("reducer 'counting' is not deterministic");
    expect(failure.message.match(/actual - expected/g)).toHaveLength(1);
  });
});

test('a reducer that keeps its data in maps for bookkeeping is folded twice too', async () => {
  let folds = 0;
  const hidden: Reducer = {
    name: 'hidden',
    version: 1,
    fold: (draft) => draft.map('logfold:collections', 'string').put('folds', ++folds),
  };
  const failure = await failureOf(given(hidden, []).when({ type: 'Count', version: 1 }).thenState({}));
  expect(failure.message).toContain('not deterministic');
});

describe('a test without its expectation', () => {
  test('is not a promise, so that await takes it as it is and does not hang', async () => {
    const unfinished = given(votes, []).when(tea);
    expect('then' in unfinished).toBe(false);
    expect('then' in given(votes, [])).toBe(false);
    expect(await Promise.resolve(unfinished)).toBe(unfinished);
  });
});

test('the compiler refuses entries that the reducer does not know', async () => {
  const wrongType = { type: 'Goal', version: 1, body: 'tea' } as const;
  const empty = given(votes, []);
  // @ts-expect-error There is no such type.
  await empty.when(wrongType).thenRejected(/does not know/);
  // @ts-expect-error The body is not a text.
  given(votes, [{ type: 'Vote', version: 1, body: 7 }]);
});
