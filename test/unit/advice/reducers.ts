import { expect } from 'vitest';
import * as z from 'zod';
import { MAX_CHUNK_BYTES } from '../../../src/codec/chunk.ts';
import { defineReducer } from '../../../src/state/define-reducer.ts';
import { MAX_META_SIZE } from '../../../src/state/meta.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import { NOTE, versionedSheet } from '../../support/models/versioned-sheet.ts';
import { SheetLog } from '../../support/sheet-log.ts';
import { build, type Cases, type Follow } from './case.ts';

/** Stops a log at an entry, then resumes it with a reducer of a higher version. */
function anotherReducer(
  entry: { readonly type: string; readonly version: number },
  right: Reducer,
  wrong?: Reducer,
): Follow {
  return async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.append({ ...entry, body: [] });
    const position = await sheet.snapshot();
    await refused(() => build(sheet, position, wrong));
    await sheet.complete(position, { reducer: right });
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  };
}

type Draft = Parameters<Reducer['fold']>[0];

/** Stops a log with a faulty reducer, then resumes it with a reducer that follows the advice. */
function corrected(wrong: (draft: Draft) => unknown, right: (draft: Draft) => unknown): Follow {
  const reducer = (version: number, fold: (draft: Draft) => unknown): Reducer => ({
    ...versionedSheet(version),
    fold: async (draft) => void (await fold(draft)),
  });
  return anotherReducer({ type: 'Set', version: 1 }, reducer(2, right), reducer(1, wrong));
}

const MANY = Array.from({ length: 10_001 }, (_, i) => `${i}`);

/** Handlers without effect. */
const IGNORED = { Vote: (): void => undefined };

/** Advice for authors of reducers. */
export const REDUCERS: Cases = {
  'Correct the argument of defineReducer': async (refused) => {
    const entries = { Vote: { 1: z.string() } };
    const votes = { name: 'votes', maps: {}, entries, fold: IGNORED };
    await refused(async () => defineReducer({ ...votes, version: 0 }));
    expect(defineReducer({ ...votes, version: 1 }).version).toBe(1);
  },
  'Use a reducer that folds them: deploy it, or name it with --reducer; this one knows …': anotherReducer(
    { type: NOTE, version: 1 },
    versionedSheet(2),
  ),
  'Use a reducer that knows it; this one knows versions 1 to …': anotherReducer(
    { type: 'Set', version: 9 },
    {
      ...versionedSheet(2),
      fold: () => undefined,
    },
  ),
  'Correct the program that writes these entries; if the log has this one already, deploy a reducer that can fold it':
    anotherReducer({ type: 'Insert Rows', version: 1 }, { ...versionedSheet(2), fold: () => undefined }),
  'Correct the reducer, raise its version, and deploy it': anotherReducer(
    { type: 'Faulty', version: 1 },
    { ...versionedSheet(2), fold: () => undefined },
  ),
  "Await everything in fold, raise the reducer's version, and deploy it": anotherReducer(
    { type: 'Set', version: 1 },
    { ...versionedSheet(2), fold: async (draft) => void (await draft.map('m', 'number').count()) },
    {
      ...versionedSheet(1),
      fold: (draft) => void draft.map('m', 'number').count(),
    },
  ),
  'Correct the reducer so that it puts the items of several maps into one, under keys that begin with the old name; then raise its version, and deploy it':
    corrected(
      (draft) => MANY.map((name) => draft.map(name, 'number').put(1, 'x')),
      (draft) => MANY.map((name) => draft.map('all', 'string').put(`${name} 1`, 'x')),
    ),
  'Correct the reducer so that the function only reads what it captured, raise its version, and deploy it': corrected(
    (draft) => draft.map('m', 'number').put(1, () => String(draft.meta.get('name'))),
    (draft) => {
      const name = String(draft.meta.get('name'));
      draft.map('m', 'number').put(1, () => name);
    },
  ),
  'Correct the reducer so that it gives its map another name, raise its version, and deploy it': corrected(
    (draft) => draft.map('logfold:mutations', 'string').put('a', 1),
    (draft) => draft.map('mutations', 'string').put('a', 1),
  ),
  'Correct the reducer so that it uses only one of the two, raise its version, and deploy it': corrected(
    (draft) => draft.map('m', 'number', { buffers: true }).put(1, 'x', 2),
    (draft) => {
      draft.map('m', 'number', { buffers: true }).put(1, 'x');
      draft.map('n', 'number').put(1, 'x', 2);
    },
  ),
  'Correct the reducer so that it empties the map before it uses other keys, raise its version, and deploy it':
    corrected(
      (draft) => {
        draft.map('m', 'number').put(1, 'x');
        draft.map('m', 'string').put('a', 'x');
      },
      (draft) => {
        draft.map('m', 'number').put(1, 'x');
        draft.map('m', 'number').delete(1);
        draft.map('m', 'string').put('a', 'x');
      },
    ),
  'Correct the reducer so that it stores large or many values in a map, raise its version, and deploy it': corrected(
    (draft) => draft.meta.set('large', 'x'.repeat(MAX_META_SIZE)),
    (draft) => draft.map('large', 'number').put(1, 'x'.repeat(MAX_META_SIZE)),
  ),
  'Correct the reducer so that it gives items smaller weights, raise its version, and deploy it': corrected(
    (draft) => [1, 2].map((key) => draft.map('m', 'number').put(key, 'x', Number.MAX_SAFE_INTEGER)),
    (draft) => [1, 2].map((key) => draft.map('m', 'number').put(key, 'x', 1)),
  ),
  'Correct the reducer so that weights are whole numbers of at least 1, raise its version, and deploy it': corrected(
    (draft) => draft.map('m', 'number').put(1, 'x', 0),
    (draft) => draft.map('m', 'number').put(1, 'x', 1),
  ),
  "Correct the reducer so that it uses 'number' or 'string', raise its version, and deploy it": corrected(
    (draft) => Reflect.apply(draft.map, draft, ['m', 'date']),
    (draft) => [draft.map('m', 'number').put(1, 'x'), draft.map('n', 'string').put('1', 'x')],
  ),
  'Correct the reducer so that it uses strings without lone surrogates, raise its version, and deploy it': corrected(
    (draft) => draft.meta.set('\ud800', 1),
    (draft) => draft.meta.set('\ud800'.toWellFormed(), 1),
  ),
  'Correct the reducer so that it uses well-formed strings of at most … UTF-16 code units, raise its version, and deploy it':
    corrected(
      (draft) => draft.map('x'.repeat(5000), 'number').put(1, 'x'),
      (draft) => draft.map('x', 'number').put(1, 'x'),
    ),
  'Correct the reducer so that it uses …s, raise its version, and deploy it': corrected(
    (draft) => Array.fromAsync(draft.map('m', 'number').items({ from: 'a' })),
    (draft) => Array.fromAsync(draft.map('m', 'number').items({ from: 1 })),
  ),
  'Split the value, or store it elsewhere and put a reference to it': corrected(
    (draft) => draft.map('m', 'number').put(1, 'x'.repeat(MAX_CHUNK_BYTES)),
    (draft) => {
      for (const part of [1, 2]) draft.map('m', 'number').put(part, 'x'.repeat(MAX_CHUNK_BYTES / 4));
      draft.map('n', 'number').put(1, 'logs/elsewhere');
    },
  ),
};
