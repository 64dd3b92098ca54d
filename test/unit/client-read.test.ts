import { expect, test } from 'vitest';
import { FoldedLogs } from '../support/folded-logs.ts';

/** A log with Snapshot entries, two segments, a large body and an entry without body. */
async function mixedLog() {
  const place = new FoldedLogs({ name: 'nothing', version: 1, fold: () => undefined });
  const { client } = place.logs();
  const log = await client.createLog();
  const large = 'x'.repeat(20_000);
  await client.addEntries(log, [
    { type: 'A', version: 1, body: 'first' },
    { type: 'B', version: 2, body: large },
  ]);
  expect(await place.snapshot(log)).toMatchObject({ outcome: 'built' });
  await client.startSegment(log);
  await client.addEntries(log, [
    { type: 'C', version: 1 },
    { type: 'D', version: 1, body: { d: 2n ** 60n } },
  ]);
  return { client, log, large };
}

test('reading gives the entries of the application with their bodies', async () => {
  const { client, log, large } = await mixedLog();
  const read = await Array.fromAsync(client.read(log, { from: 'start' }));
  expect(read.map(({ type, number, body }) => [type, number, body])).toEqual([
    ['A', 1, 'first'],
    ['B', 2, large],
    ['C', 3, null],
    ['D', 4, { d: 2n ** 60n }],
  ]);
});

test('reading takes the options of a query', async () => {
  const { client, log } = await mixedLog();
  const types = async (range: Parameters<typeof client.read>[1]) =>
    (await Array.fromAsync(client.read(log, range))).map(({ type }) => type);
  expect(await types({ from: { number: 2 }, to: { number: 4 } })).toEqual(['B', 'C']);
  expect(await types({ from: 'start', reverse: true, limit: 2 })).toEqual(['D', 'C']);
  expect(await types({ from: { number: 5 } })).toEqual([]);
});

test('a number beyond the end of the log ends a range there', async () => {
  const { client, log } = await mixedLog();
  const range = { from: { number: 4 }, to: { number: 99 } };
  expect(await Array.fromAsync(client.read(log, range))).toHaveLength(1);
  expect(await Array.fromAsync(client.read(log, { ...range, reverse: true }))).toHaveLength(1);
});

test('an entry that was read opens its file', async () => {
  const { client, log } = await mixedLog();
  const file = await client.saveFile(log, async function* () {
    yield Uint8Array.of(1, 2, 3);
  });
  await client.addEntry(log, { type: 'E', version: 1, body: {}, file });
  const sizes: (number | undefined)[] = [];
  for await (const entry of client.read(log, { from: { number: 4 } })) {
    sizes.push((await client.loadFile(entry))?.size);
  }
  expect(sizes).toEqual([undefined, 3]);
});
