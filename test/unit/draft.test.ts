import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { StateUnsupportedError } from '../../src/errors.ts';
import { Draft } from '../../src/state/draft.ts';
import { MAX_MAP_WEIGHT } from '../../src/state/edited-map.ts';
import { MAX_META_SIZE } from '../../src/state/meta.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { isStateFlushed } from '../../src/state/state.ts';
import type { KeyKind } from '../../src/tree/key.ts';
import { nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { SheetLog } from '../support/sheet-log.ts';

/** A value of any type, as an untyped program may pass it. */
// biome-ignore lint/suspicious/noExplicitAny: these tests pass values of wrong types
type Untyped = any;

/** Builds the snapshot of a log with one entry. */
async function built(fold: Reducer['fold']) {
  const log = await SheetLog.create();
  const entry = await log.append({ type: 'Change', version: 1 });
  return { entry, result: await log.complete(await log.snapshot(), { reducer: { name: 'test', version: 1, fold } }) };
}

const LONE_SURROGATE = '\udfff';
const MEBIBYTE = 1024 * 1024;

describe('an edit that no snapshot can hold', { tags: ['I2'] }, () => {
  const weights: Untyped[] = [0, -1, 1.5, '3', 2 ** 60, Number.NaN, Number.POSITIVE_INFINITY, null, 2n];
  test.each(weights)('a weight of %s stops the log at its entry', async (weight) => {
    const { entry, result } = await built((draft) => draft.map('a', 'number').put(1, 'x', weight));
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'STATE_UNSUPPORTED', ...entry } });
  });

  const names: Untyped[] = [null, undefined, 7, { name: 'a' }, LONE_SURROGATE, 'x'.repeat(1025)];
  test.each(names)('a map named %j stops the log at its entry', async (name) => {
    const { entry, result } = await built((draft) => draft.map(name, 'number').put(1, 'x'));
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'STATE_UNSUPPORTED', ...entry } });
  });

  const keys: Untyped[] = [-1, -0, 1.5, 2 ** 53, Number.NaN, '1', null, undefined, 1n, [1], LONE_SURROGATE];
  test.each(keys)('a number key %s stops the log at its entry', async (key) => {
    const { entry, result } = await built((draft) => draft.map('a', 'number').put(key, 'x'));
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'KEY_INVALID', ...entry } });
  });

  test.each<Untyped>([1, null, undefined, 1n, [1], LONE_SURROGATE, 'x'.repeat(1025)])(
    'a string key %s stops the log at its entry',
    async (key) => {
      const { entry, result } = await built((draft) => draft.map('a', 'string').put(key, 'x'));
      expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'KEY_INVALID', ...entry } });
    },
  );

  const folds: [string, string, Reducer['fold']][] = [
    ['an invalid kind of keys', 'STATE_UNSUPPORTED', (draft) => draft.map('a', 'date' as Untyped).put(1, 1)],
    [
      'a weight in a map that buffers',
      'STATE_UNSUPPORTED',
      (draft) => draft.map('a', 'number', { buffers: true }).put(1, 1, 2),
    ],
    [
      'weights whose sum is not exact',
      'STATE_UNSUPPORTED',
      (draft) => {
        for (const key of [1, 2]) draft.map('a', 'number').put(key, 'x', MAX_MAP_WEIGHT / 2 + key);
      },
    ],
    [
      'keys of both kinds in one map',
      'KEY_INVALID',
      (draft) => {
        draft.map('a', 'number').put(1, 'x');
        draft.map('a', 'string').put('1', 'x');
      },
    ],
    [
      'a range with bounds of the other kind',
      'KEY_INVALID',
      (draft) => draft.map('a', 'number').deleteRange({ from: 'a', to: 'b' }),
    ],
    [
      'a value over 64 MiB',
      'VALUE_UNSUPPORTED',
      (draft) => draft.map('a', 'number').put(1, new Uint8Array(64 * MEBIBYTE)),
    ],
    ['null as a metadata name', 'STATE_UNSUPPORTED', ({ meta }) => void meta.set(null as Untyped, 1)],
    ['a metadata name with a lone surrogate', 'STATE_UNSUPPORTED', ({ meta }) => void meta.set(LONE_SURROGATE, 1)],
    ['undefined as metadata', 'VALUE_UNSUPPORTED', ({ meta }) => void meta.set('a', undefined as Untyped)],
    ['metadata with a lone surrogate', 'VALUE_UNSUPPORTED', ({ meta }) => void meta.set('a', LONE_SURROGATE)],
    ['an instance of a class as metadata', 'VALUE_UNSUPPORTED', ({ meta }) => void meta.set('a', new Map() as Untyped)],
    [
      'metadata nested too deep for a root',
      'VALUE_UNSUPPORTED',
      ({ meta }) =>
        void meta.set(
          'a',
          Array.from({ length: 127 }).reduce<Value>((inner) => [inner], 1),
        ),
    ],
    [
      'too much metadata',
      'STATE_UNSUPPORTED',
      ({ meta }) => {
        for (let name = 0; name <= 8; name++) meta.set(`${name}`, new Uint8Array(MAX_META_SIZE / 8));
      },
    ],
  ];
  test.each(folds)('%s stops the log at its entry', async (_, code, fold) => {
    const { entry, result } = await built(fold);
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code, ...entry } });
  });
});

describe('an edit that a snapshot can just hold', () => {
  const folds: [string, Reducer['fold']][] = [
    ['a value of 64 MiB', (draft) => draft.map('a', 'number').put(1, new Uint8Array(64 * MEBIBYTE - 5))],
    ['a map with an empty name', (draft) => draft.map('', 'string').put('', '')],
    ['a map named __proto__', (draft) => draft.map('__proto__', 'string').put('__proto__', { ['__proto__']: 1 })],
    ['metadata named __proto__', ({ meta }) => void meta.set('__proto__', 1)],
    ['the greatest weight', (draft) => draft.map('a', 'number').put(1, 'x', MAX_MAP_WEIGHT)],
    ['the largest metadata record', ({ meta }) => void meta.set('', new Uint8Array(MAX_META_SIZE - 5))],
    [
      'metadata nested as deep as a root allows',
      ({ meta }) =>
        void meta.set(
          'a',
          Array.from({ length: 126 }).reduce<Value>((inner) => [inner], 1),
        ),
    ],
  ];
  test.each(folds)('%s is built', async (_, fold) => {
    expect((await built(fold)).result).toMatchObject({ outcome: 'built' });
  });
});

/** Edits a draft as a reducer does for one entry. */
async function during(draft: Draft, work: () => void): Promise<void> {
  work();
  await draft.checkEntry();
}

describe('a draft that has folded entries', () => {
  test('an empty map accepts keys of the other kind, in the same entry or a later one', { tags: ['I9'] }, async () => {
    const draft = new Draft(nodeStore({ shape: SMALL_SHAPE }));
    const kinds: KeyKind[] = ['number', 'string', 'number'];
    for (const kind of kinds) {
      const map = draft.map('a', kind);
      const key = kind === 'number' ? 1 : '1';
      await during(draft, () => map.put(key, kind));
      expect(await map.get(key)).toBe(kind);
      await during(draft, () => map.delete(key));
    }
    await during(draft, () => {
      draft.map('a', 'number').put(1, 'x');
      draft.map('a', 'number').delete(1);
      draft.map('a', 'string').put('1', 'y');
    });
    expect(await Array.fromAsync(draft.map('a', 'string').items())).toEqual([{ key: '1', value: 'y' }]);
  });

  test('a map has exact counts again after a use that buffers edits', { tags: ['I9'] }, async () => {
    const draft = new Draft(nodeStore({ shape: SMALL_SHAPE }));
    for (let key = 0; key < 100; key++) draft.map('a', 'number', { buffers: true }).put(key, `value ${key}`);
    await draft.state();
    draft.map('a', 'number', { buffers: true }).put(7, 'another');
    expect(isStateFlushed(await draft.state())).toBe(false);
    expect(await draft.map('a', 'number').count()).toBe(100);
    draft.map('a', 'number', { buffers: true }).put(8, 'another');
    draft.map('a', 'number').put(9, 'heavy', 5);
    expect(await draft.map('a', 'number').weight()).toBe(104);
    // The format does not allow buffered edits in a map with weights.
    draft.map('a', 'number', { buffers: true }).put(10, 'another');
    expect(isStateFlushed(await draft.state())).toBe(true);
    await expect(draft.map('a', 'number', { buffers: true }).count()).rejects.toThrow('no exact count');
  });

  test('a sum of weights may exceed the limit between two entries', async () => {
    const draft = new Draft(nodeStore());
    const map = draft.map('a', 'number');
    for (let entry = 0; entry < 3; entry++) {
      await during(draft, () => {
        map.delete(entry);
        map.put(entry + 1, 'x', MAX_MAP_WEIGHT);
      });
    }
    await expect(during(draft, () => map.put(9, 'x', 2))).rejects.toThrow(StateUnsupportedError);
  });

  test('metadata is a canonical copy in order of name', { tags: ['I9'] }, () => {
    const { meta } = new Draft(nodeStore());
    const value = { b: 5n, a: [Buffer.from('x'), new Date(0)] };
    meta.set('b', value).set('10', -0).set('9', 'x').set('a', value);
    value.b = 6n;
    value.a.push(new Date(1));
    const expected = { a: [Uint8Array.of(0x78), new Date(0)], b: 5 };
    expect([...meta]).toStrictEqual([
      ['10', -0],
      ['9', 'x'],
      ['a', expected],
      ['b', expected],
    ]);
    expect(Object.keys(meta.get('a') ?? {})).toEqual(['a', 'b']);
    Object.assign(meta.get('a') ?? {}, { c: 1 });
    expect(meta.get('a')).toStrictEqual(expected);
    expect([meta.size, meta.has('9'), meta.delete('9'), meta.delete('9'), meta.has('9')]).toEqual([
      4,
      true,
      true,
      false,
      false,
    ]);
  });
});
