import { describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import type { Document } from '../../src/client/document.ts';
import type { NewEntry } from '../../src/log/new-entry.ts';
import { defineReducer, numberMap } from '../../src/state/define-reducer.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import { LiveLog } from '../support/live-logs.ts';

const points = defineReducer({
  name: 'points',
  version: 1,
  maps: { points: numberMap<number>() },
  entries: {
    Score: { 1: z.number(), 2: z.object({ points: z.number(), note: z.string().optional() }) },
    Reset: { 1: z.null() },
  },
  fold: {
    Score: ({ points: map }, { position, version, body }) =>
      map.put(position.entry, version === 1 ? body : body.points),
    Reset: ({ points: map }) => map.deleteRange({ from: 0, to: 1_000 }),
  },
});

async function opened() {
  const live = await LiveLog.create();
  return live.logs().open(live.sheet.log, { reducer: points });
}

describe('a document whose reducer has typed entries', () => {
  test('takes the entries of its reducer, with their versions and metadata', async () => {
    const document = await opened();
    expectTypeOf(document).toEqualTypeOf<Document<typeof points>>();
    await document.append({ type: 'Score', version: 1, body: 7, metadata: { by: 'Ann' } });
    await document.append([
      { type: 'Score', version: 2, body: { points: 8 } },
      { type: 'Reset', version: 1, body: null },
      points.entry('Score', 2, { points: 9, note: 'late' }),
    ]);
    await document.mutate(points.entry('Score', 1, 3));
    expect(await Array.fromAsync(points.mapsOf(document.state).points.items())).toMatchObject([
      { value: 9 },
      { value: 3 },
    ]);
  });

  test('the compiler refuses a wrong type, version or body, and the fold refuses it too', async () => {
    const document = await opened();
    // @ts-expect-error There is no such type.
    await expect(document.append({ type: 'Goal', version: 1, body: 7 })).rejects.toThrow('the reducer refuses');
    // @ts-expect-error There is no such version.
    await expect(document.append({ type: 'Score', version: 3, body: 7 })).rejects.toThrow('the reducer refuses');
    // @ts-expect-error The body is that of another version.
    await expect(document.append({ type: 'Score', version: 2, body: 7 })).rejects.toThrow('the reducer refuses');
    // @ts-expect-error One entry of a list is wrong.
    await expect(document.append([points.entry('Score', 1, 1), { type: 'Goal', version: 1 }])).rejects.toThrow(
      'the reducer refuses',
    );
    // @ts-expect-error The body has a wrong field.
    await expect(document.mutate({ type: 'Score', version: 2, body: { points: '8' } })).rejects.toThrow(
      'the reducer refuses',
    );
  });

  test('stands for any document, and a plain reducer takes any entry', async () => {
    const document = await opened();
    const plain: Document = document;
    expect(plain.log).toBe(document.log);
    const kept = await (await LiveLog.create()).open({ reducer: withHistory(points) });
    expectTypeOf(kept.append).parameter(0).toEqualTypeOf<NewEntry | readonly NewEntry[]>();
  });
});
