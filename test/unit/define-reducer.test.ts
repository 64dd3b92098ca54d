import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { Value } from '../../src/codec/value.ts';
import { BodyInvalidError, EntryRejectedError, LogfoldError, ReducerInvalidError } from '../../src/errors.ts';
import { defineReducer, numberMap, type StandardSchema, stringMap } from '../../src/state/define-reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import { nodeStore } from '../support/chunks.ts';
import { LiveLog } from '../support/live-logs.ts';
import { LOG } from '../support/logs.ts';

const vote = z.object({ for: z.string(), weight: z.int().min(1).default(1) });

/** A poll. Version 1 of a vote is a text. */
const poll = defineReducer({
  name: 'poll',
  version: 1,
  maps: { counts: stringMap<number>(), votes: numberMap<{ readonly for: string }>({ buffers: true }) },
  entries: { Vote: { 1: z.string(), 2: vote }, Close: { 1: z.null() } },
  fold: {
    async Vote({ counts, votes }, entry) {
      const given = entry.version === 1 ? { for: entry.body, weight: 1 } : entry.body;
      const count: number | undefined = await counts.get(given.for);
      counts.put(given.for, (count ?? 0) + given.weight);
      votes.put(entry.position.entry, { for: given.for });
    },
    Close(_, { created }, { meta }) {
      meta.set('closed', created);
    },
  },
  validate: {
    Vote(_, __, { meta }) {
      if (meta.has('closed')) throw new Error('the poll is closed');
    },
  },
});

/** Handlers without effect. */
const IGNORED = { Any: () => undefined, Vote: () => undefined };

async function fold(type: string, version: number, body: Value): Promise<Draft> {
  const draft = new Draft(nodeStore());
  await poll.fold(draft, {
    position: { segment: 0, entry: 3 },
    log: LOG,
    created: 7,
    createdMs: 7000,
    type,
    version,
    body,
  });
  return draft;
}

describe('a defined reducer', () => {
  test('it folds each version of an entry with the value that the schema made', async () => {
    expect(await poll.mapsOf(await fold('Vote', 1, 'tea')).counts.get('tea')).toBe(1);
    const { counts, votes } = poll.mapsOf(await fold('Vote', 2, { for: 'tea', extra: true }));
    expect(await Array.fromAsync(counts.items())).toEqual([{ key: 'tea', value: 1 }]);
    expect(await Array.fromAsync(counts.items({ limit: 0 }))).toEqual([]);
    expect(await votes.get(3)).toEqual({ for: 'tea' });
    expect((await fold('Close', 1, null)).meta.get('closed')).toBe(7);
  });

  test('handlers of a class are called, with their object', async () => {
    class Handlers {
      readonly key = 'votes';
      Vote({ counts }: { counts: { put(key: string, value: number): void } }): void {
        counts.put(this.key, 1);
      }
    }
    const maps = { counts: stringMap<number>() };
    const counter = defineReducer({
      name: 'n',
      version: 1,
      maps,
      entries: { Vote: { 1: z.string() } },
      fold: new Handlers(),
    });
    const draft = new Draft(nodeStore());
    await counter.fold(draft, {
      position: { segment: 0, entry: 3 },
      log: LOG,
      created: 7,
      createdMs: 7000,
      type: 'Vote',
      version: 1,
      body: 'tea',
    });
    expect(await counter.mapsOf(draft).counts.get('votes')).toBe(1);
  });

  test.each<[string, number, Value, string, string]>([
    ['Vote', 2, { for: 1 }, 'BODY_INVALID', "a 'Vote' entry cannot be read: for: "],
    ['Vote', 2, { for: 'tea', weight: 0 }, 'BODY_INVALID', 'weight: '],
    ['Vote', 1, { for: 'tea' }, 'BODY_INVALID', "a 'Vote' entry cannot be read: "],
    ['Vote', 3, 'tea', 'ENTRY_VERSION_UNKNOWN', 'this one knows versions 1 to 2'],
    ['Veto', 1, 'tea', 'ENTRY_TYPE_UNKNOWN', 'this one knows Vote, Close'],
    ['constructor', 1, 'tea', 'ENTRY_TYPE_UNKNOWN', 'this one knows Vote, Close'],
  ])('a %s entry of version %i with the body %j fails its log', async (type, version, body, code, message) => {
    const error: unknown = await fold(type, version, body).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogfoldError);
    expect(error).toMatchObject({ code, stopsLog: true, message: expect.stringContaining(message) });
  });

  test('a document appends typed entries, reads typed maps and validates', async () => {
    const live = await LiveLog.create();
    const document = await live.open({ reducer: poll });
    await document.append(poll.entry('Vote', 2, { for: 'tea', weight: 3 }));
    await document.mutate(poll.entry('Vote', 1, 'tea'));
    expect(await poll.mapsOf(document.state).counts.get('tea')).toBe(4);
    await document.append(poll.entry('Close', 1, null));
    const late = document.append(poll.entry('Vote', 1, 'coffee'));
    await expect(late).rejects.toThrow(EntryRejectedError);
    await expect(late).rejects.toThrow('the poll is closed');
    expect(await poll.mapsOf((await live.open({ reducer: poll })).state).counts.get('coffee')).toBeUndefined();
  });

  test('the compiler refuses entries, keys and values of other types', async () => {
    const { counts } = poll.mapsOf(new Draft(nodeStore()));
    // @ts-expect-error: a key is a text
    expect(await counts.get(1)).toBeUndefined();
    // @ts-expect-error: readers cannot edit
    expect(counts.put).toBeInstanceOf(Function);
    // @ts-expect-error: the body of version 2 has a text
    poll.entry('Vote', 2, { for: 1 });
    // @ts-expect-error: there is no version 3
    poll.entry('Vote', 3, 'tea');
    // @ts-expect-error: there is no such type
    poll.entry('Veto', 1, 'tea');
  });

  test('a schema of any library may answer later, and name a place in several ways', async () => {
    const schema: StandardSchema<Value, Value> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async () => ({ issues: [{ message: 'is bad', path: ['a', { key: 1 }] }, { message: 'all of it' }] }),
      },
    };
    const reducer = defineReducer({
      ...{ name: 'other', version: 1, maps: {} },
      entries: { Any: { 1: schema } },
      fold: IGNORED,
    });
    const entry = {
      position: { segment: 0, entry: 1 },
      log: LOG,
      created: 1,
      createdMs: 1000,
      type: 'Any',
      version: 1,
      body: null,
    };
    await expect(reducer.fold(new Draft(nodeStore()), entry)).rejects.toThrow(
      new BodyInvalidError("a 'Any' entry cannot be read: a.1: is bad; all of it", {
        advice:
          'Correct the program that writes these entries; if the log has this one already, deploy a reducer that can fold it',
      }),
    );
    expect(reducer.validate).toBeUndefined();
  });

  test.each([
    [{ name: '' }, 'it needs a name, a version of 1 or more'],
    [{ version: 0 }, 'it needs a name, a version of 1 or more'],
    [{ name: 'poll+history' }, "only withHistory gives names such as 'poll+history'"],
    [{ entries: { Vote: {} } }, "the versions of 'Vote' are not 1, 2, 3, …"],
    [{ entries: { Vote: { 2: vote } } }, "the versions of 'Vote' are not 1, 2, 3, …"],
    [{ entries: { Vote: { 1: vote, 3: vote } } }, "the versions of 'Vote' are not 1, 2, 3, …"],
    [{ fold: {} }, "'fold' has no function for 'Vote'"],
  ])('the definition with %o is refused', (changes, reason) => {
    const entries = { Vote: { 1: vote } };
    const definition = { name: 'poll', version: 1, maps: {}, entries, fold: IGNORED, ...changes };
    const define = () => Reflect.apply(defineReducer, undefined, [definition]);
    expect(define).toThrow(ReducerInvalidError);
    expect(define).toThrow(reason);
  });
});
