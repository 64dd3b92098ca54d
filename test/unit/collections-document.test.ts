import { expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import type { Value } from '../../src/codec/value.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { collectionsOf } from '../../src/state/collections/collections.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { LiveLog } from '../support/live-logs.ts';

// A project: a name, and collections of rich items. Clients number their mutations, and a processor
// that fails sends a batch of them again.

function put(client: string, mutation: number, id: string, value: Value): NewEntry {
  return { type: 'Put', version: 1, body: { collection: 'charts', id, value }, once: { client, mutation } };
}

function patch(client: string, mutation: number, id: string, fields: Value): NewEntry {
  const body = { collection: 'charts', id, patch: fields };
  return { type: 'Patch', version: 1, body, once: { client, mutation } };
}

async function charts(document: Document): Promise<unknown> {
  return Array.fromAsync(collectionsOf(document.state).collection('charts').items());
}

test('a batch of mutations applies whole and once, however often it is sent', async () => {
  const live = await LiveLog.create();
  const document = await live.open({ reducer: collections });
  const batch = [put('laptop', 1, 'a', { kind: 'bar' }), patch('laptop', 2, 'a', { title: 'Sales' })];
  await document.append(batch);
  expect(await document.append(batch)).toBeUndefined();
  await (await live.open({ reducer: collections })).append([...batch, put('laptop', 3, 'b', 1)]);
  await document.refresh();
  expect(await charts(document)).toEqual([
    { id: 'a', version: 2, value: { kind: 'bar', title: 'Sales' } },
    { id: 'b', version: 1, value: 1 },
  ]);
  expect(await collectionsOf(document.state).collection('charts').version()).toBe(3);
});

test('edits of two clients to one item merge, also while both are pending', async () => {
  const live = await LiveLog.create();
  const [laptop, phone] = [await live.open({ reducer: collections }), await live.open({ reducer: collections })];
  await laptop.append(put('laptop', 1, 'a', { kind: 'bar', rows: [1] }));
  await phone.refresh();
  const seen = await collectionsOf(phone.state).collection('charts').version();

  const both = [
    laptop.mutate(patch('laptop', 2, 'a', { kind: 'pie' })),
    phone.mutate(patch('phone', 1, 'a', { rows: [2] })),
  ];
  await Promise.all(both);
  for (const each of [laptop, phone]) await each.refresh();
  expect(await charts(laptop)).toEqual([{ id: 'a', version: 3, value: { kind: 'pie', rows: [2] } }]);
  expect(await charts(phone)).toEqual(await charts(laptop));
  expect(await Array.fromAsync(collectionsOf(phone.state).collection('charts').changesSince(seen))).toEqual([
    { id: 'a', version: 3, value: { kind: 'pie', rows: [2] } },
  ]);
});
