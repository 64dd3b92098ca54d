import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { EntryExistsError, EntryGapError, EntryNotFoundError, UsageError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { positionOfNumber } from '../../src/log/find-position.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { type QueryRange, query } from '../../src/log/query.ts';
import { storeArchive, written } from '../support/archives.ts';
import { allEntries, entryAt, recordRequests, testLogClient, unarchived } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { testDeployment } from '../support/test-deployment.ts';

const CONSISTENT = { consistent: true };
const types = RESERVED_TYPES;
const set = { type: 'Set', version: 1 };
const at = (segment: number, entry: number) => ({ segment, entry });

/** A step of a log: entries in one transaction, Snapshot entries, or a new segment. */
type Step = { readonly adds: number } | { readonly snapshots: number } | 'segment';

async function logOf(steps: readonly Step[]) {
  const made = testLogClient();
  const { client, store } = made;
  const log = await client.createLog();
  for (const step of steps) {
    if (step === 'segment') {
      const [segment] = await store.newestSegments(log, 1, CONSISTENT);
      if (segment !== undefined) await store.advanceLastSnapshot(log, { position: at(segment.segment, 0) });
      await client.startSegment(log);
    } else if ('adds' in step) {
      await client.addEntries(
        log,
        Array.from({ length: step.adds }, () => set),
      );
    } else for (let i = 0; i < step.snapshots; i++) await client.addSnapshot(log);
  }
  return { ...made, log };
}

async function entriesOf(store: LogStore, log: LogId): Promise<Entry[]> {
  const segments = await Array.fromAsync(store.segments(log, CONSISTENT));
  const all: Entry[] = [];
  for (const { segment } of segments) {
    all.push(...(await allEntries(store.entries(log, { segment, from: 0, to: MAX_NUMBER + 1 }, CONSISTENT))));
  }
  return all;
}

const isOwn = ({ type }: Entry) => !types.includes(type);

/** Puts an entry at the log's end as another program does: without a number. */
async function addForeign(store: LogStore, log: LogId, type = 'Set'): Promise<Position> {
  const last = (await entriesOf(store, log)).at(-1);
  const position = at(last?.position.segment ?? 0, (last?.position.entry ?? -1) + 1);
  await store.putEntries([entryAt(log, position, { type })]);
  return position;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ adds: fc.integer({ min: 1, max: 9 }) }) },
    { weight: 3, arbitrary: fc.record({ snapshots: fc.integer({ min: 1, max: 12 }) }) },
    { weight: 2, arbitrary: fc.constant<Step>('segment') },
  ),
  { maxLength: 30 },
);

describe('the numbers of entries', () => {
  test('they count the entries of the application without a gap', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (given) => {
        const { store, log } = await logOf(given);
        let count = 0;
        for (const entry of await entriesOf(store, log)) {
          if (isOwn(entry)) count++;
          expect(entry.number).toBe(count);
        }
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('they go on after other clients, restarts and conflicts', async () => {
    const { client, store, log } = await logOf([{ adds: 2 }]);
    const other = testLogClient({ store }).client;
    expect((await other.addEntry(log, set)).number).toBe(3);
    expect(await client.addEntries(log, [set, set])).toMatchObject({ firstNumber: 4, last: at(0, 5) });
    const refused = await other.addEntry(log, set, { after: at(0, 3) }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EntryExistsError);
    expect(refused).toMatchObject({ newest: at(0, 5), newestNumber: 5 });
    expect(await other.addEntry(log, set, { after: at(0, 5), snapshotBefore: true })).toMatchObject({ number: 6 });
    expect((await store.newestEntry(log, 0, CONSISTENT))?.number).toBe(6);
  });

  test.each(['Set', 'Snapshot'])('they end for good at a %s entry without a number', async (type) => {
    const { store, log } = await logOf([{ adds: 2 }]);
    await addForeign(store, log, type);
    const { client } = testLogClient({ store });
    expect(await client.addEntry(log, set)).toEqual({ position: at(0, 4) });
    expect(await client.addEntries(log, [set, set])).toEqual({ first: at(0, 5), last: at(0, 6) });
    expect(await client.addSnapshot(log)).toEqual({ position: at(0, 7) });
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await client.startSegment(log);
    const numbers = (await entriesOf(store, log)).map(({ number }) => number);
    expect(numbers).toEqual([0, 1, 2, ...Array.from({ length: 7 }, () => undefined)]);
  });
});

describe('an append after a number', () => {
  test('it succeeds only if no other entry of the application follows, without another request', async () => {
    const { client, store, log, requests } = await logOf([]);
    expect(await client.addEntry(log, set, { after: { number: 0 } })).toMatchObject({ number: 1 });
    requests.length = 0;
    expect(await client.addEntry(log, set, { after: { number: 1 } })).toMatchObject({ number: 2 });
    expect(requests).toEqual(['putEntries']);
    await client.addSnapshot(log);
    expect(await client.addEntry(log, set, { after: { number: 2 } })).toEqual({ position: at(0, 4), number: 3 });
    const late = await client.addEntry(log, set, { after: { number: 2 } }).catch((error: unknown) => error);
    expect(late).toBeInstanceOf(EntryExistsError);
    expect(late).toMatchObject({ newest: at(0, 4), newestNumber: 3 });
    const early = await client.addEntry(log, set, { after: { number: 4 } }).catch((error: unknown) => error);
    expect(early).toBeInstanceOf(EntryNotFoundError);
    expect(early).toMatchObject({ newest: at(0, 4), newestNumber: 3, message: expect.stringContaining('0/4') });
    // A client that does not know the newest entries yet looks for them.
    const other = testLogClient({ store }).client;
    expect(await other.addEntry(log, set, { after: { number: 3 } })).toMatchObject({ number: 4 });
    await expect(client.addEntry(log, set, { after: { number: 3 } })).rejects.toThrow(EntryExistsError);
  });

  test('only one of several writers succeeds', async () => {
    const { store, log } = await logOf([{ adds: 3 }]);
    const writers = Array.from({ length: 8 }, () => testLogClient({ store }).client);
    const results = await Promise.allSettled(
      writers.map((writer) => writer.addEntry(log, set, { after: { number: 3 } })),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect((await entriesOf(store, log)).at(-1)?.number).toBe(4);
  });

  test('it is refused in a log without numbers, and with a number that no entry has', async () => {
    const { store, log } = await logOf([{ adds: 2 }]);
    await addForeign(store, log);
    const { client } = testLogClient({ store });
    for (const number of [2, 3]) {
      await expect(client.addEntry(log, set, { after: { number } })).rejects.toThrow('has no numbers');
    }
    expect(await client.addEntry(log, set, { after: at(0, 3) })).toEqual({ position: at(0, 4) });
    for (const number of [-1, 0.5, Number.NaN, 2 ** 53]) {
      await expect(client.addEntry(log, set, { after: { number } })).rejects.toThrow(UsageError);
    }
    await expect(client.addEntry(log, set, { after: JSON.parse('{"number":"3"}') })).rejects.toThrow(UsageError);
  });
});

describe('the position of a number', () => {
  test('it is found in few requests, in any log', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (given) => {
        const { store, log } = await logOf(given);
        const requests: string[] = [];
        const source = { store: unarchived(recordRequests(store, requests)), types };
        const all = await entriesOf(store, log);
        const segments = (all.at(-1)?.position.segment ?? 0) + 1;
        for (const entry of all.filter(isOwn)) {
          requests.length = 0;
          expect(await positionOfNumber(source, log, entry.number ?? 0)).toEqual(entry.position);
          const own = all.filter(({ position: { segment } }) => segment === entry.position.segment);
          const snapshots = own.length - own.filter(isOwn).length;
          // Two reads near the end and near the beginning of the segment come first.
          const most = 7 + Math.ceil(Math.log2(segments + 1)) + 1 + Math.ceil(Math.log2(snapshots + 1));
          expect(requests.length).toBeLessThanOrEqual(most);
        }
        const last = all.at(-1);
        if (last === undefined) throw new Error('a log has entries');
        const next = await positionOfNumber(source, log, (last.number ?? 0) + 1);
        expect(next).toEqual(at(last.position.segment, last.position.entry + 1));
      }),
      { numRuns: propertyRuns(60) },
    );
  });

  test('it takes three requests in the newest segment, if that has no Snapshot entry beside its first', async () => {
    const { client, store, requests, log } = await logOf([...Array.from({ length: 12 }, () => ({ adds: 90 }))]);
    requests.length = 0;
    expect(await positionOfNumber({ store: unarchived(store), types }, log, 700)).toEqual(at(0, 700));
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'items']);
    const { entries } = await client.query(log, { from: { number: 1079 } });
    expect((await allEntries(entries)).map(({ number }) => number)).toEqual([1079, 1080]);
  });

  test('it takes one request if the client knows the end of the log', async () => {
    const { client, store, requests, log } = await logOf([
      { adds: 90 },
      { snapshots: 3 },
      ...Array.from({ length: 11 }, () => ({ adds: 90 })),
      { snapshots: 2 },
    ]);
    for (const number of [1, 89, 90, 91, 700, 1080]) {
      requests.length = 0;
      const { start } = await client.query(log, { from: { number } });
      expect(requests).toEqual(['newestSegments', 'items']);
      expect(start).toEqual(at(0, number <= 90 ? number : number + 3));
    }
    // A reader without the end of the log takes two requests more.
    requests.length = 0;
    const reader = testLogClient({ store });
    await reader.client.query(log, { from: { number: 700 } });
    expect(reader.requests).toEqual(['newestSegments', 'newestSegments', 'newestEntry', 'items']);
  });

  test('it takes four or five requests in an older segment of equal length, two of which find the end of the log', async () => {
    const segment = [{ adds: 9 }, { snapshots: 1 }, 'segment' as const];
    const { store, requests, log } = await logOf(Array.from({ length: 64 }, () => segment).flat());
    const known = { position: at(64, 0), number: 576 };
    for (const number of [1, 9, 10, 300, 570, 576]) {
      requests.length = 0;
      const found = await positionOfNumber({ store: unarchived(store), types }, log, number, known);
      expect(found).toEqual(at(Math.floor((number - 1) / 9), ((number - 1) % 9) + 1));
      expect(requests.length).toBeLessThanOrEqual(5);
    }
  });

  test.each([
    { position: at(0, 3) },
    { position: at(0, 3), number: 3 },
    { position: at(0, 50), number: 40 },
    { position: at(7, 0), number: 60 },
  ])('it is right although the client knows a wrong end (case %#)', async (known) => {
    const { store, log } = await logOf([{ adds: 5 }, { snapshots: 20 }, { adds: 5 }, 'segment', { adds: 5 }]);
    const source = { store: unarchived(store), types };
    for (const { number, position } of (await entriesOf(store, log)).filter(isOwn)) {
      expect(await positionOfNumber(source, log, number ?? 0, known)).toEqual(position);
    }
    await expect(positionOfNumber(source, log, 17, known)).rejects.toMatchObject({
      newest: at(1, 5),
      newestNumber: 15,
    });
  });

  test('it is found before entries without numbers, but not among them', async () => {
    const { store, log } = await logOf([{ adds: 3 }, { snapshots: 2 }, 'segment', { adds: 3 }]);
    const foreign = await addForeign(store, log);
    const { client } = testLogClient({ store });
    await client.addEntries(log, [set, set]);
    await store.advanceLastSnapshot(log, { position: at(1, 0) });
    await client.startSegment(log);
    const source = { store: unarchived(store), types };
    for (const { number, position } of (await entriesOf(store, log)).filter(isOwn)) {
      if (comparePositions(position, foreign) >= 0) break;
      expect(await positionOfNumber(source, log, number ?? 0)).toEqual(position);
    }
    for (const number of [7, 8, 100]) {
      await expect(positionOfNumber(source, log, number)).rejects.toThrow(UsageError);
      await expect(positionOfNumber(source, log, number)).rejects.toThrow('no numbers');
    }
  });

  test('a log of an older version has no numbers', async () => {
    const { store, log } = await logOf([]);
    const old = new MemoryLogStore();
    await old.createLog({ log, segment: 0, created: 1 }, entryAt(log, at(0, 0), { type: 'Snapshot', body: undefined }));
    const { client } = testLogClient({ store: old });
    expect(await client.addEntry(log, set)).toEqual({ position: at(0, 1) });
    await expect(client.query(log, { from: { number: 1 } })).rejects.toThrow(UsageError);
    await expect(positionOfNumber({ store: unarchived(store), types }, log, 2)).rejects.toThrow(EntryNotFoundError);
  });

  test.each([0, -1, 1.5, Number.NaN, 2 ** 53])('number %d is refused', async (number) => {
    const { client, log, requests } = await logOf([{ adds: 1 }]);
    requests.length = 0;
    await expect(client.query(log, { from: { number } })).rejects.toThrow(UsageError);
    expect(requests).toEqual(['newestSegments']);
  });

  test('it is found in an archive, and a segment without one is reported as expired', async () => {
    const { store, log } = await logOf([{ adds: 5 }, { snapshots: 3 }, { adds: 5 }, 'segment', { adds: 5 }]);
    const whole = await entriesOf(store, log);
    const items = await Array.fromAsync(store.items(log, { segment: 0, from: 0, to: 100 }, CONSISTENT));
    for (const { position } of whole) if (position.segment === 0) await store.deleteEntries(log, 0, [position.entry]);
    const gone = positionOfNumber({ store: unarchived(store), types }, log, 7);
    await expect(gone).rejects.toThrow(EntryNotFoundError);
    await expect(gone).rejects.toThrow('expired');

    const blobs = new MemoryBlobStore();
    const { pieces, archive } = await written(items.flat(), { log, segment: 0 });
    const bytes = Uint8Array.from(Buffer.concat(pieces));
    const { archive: named } = await storeArchive(blobs, { bytes, hash: archive.hash }, { log, segment: 0 });
    const [first] = await Array.fromAsync(store.segments(log));
    if (first === undefined) throw new Error('the log has a segment');
    expect(await store.setArchive(first, { ...named, root: undefined })).toBe(true);
    const archived = testDeployment({ tables: store, blobs }).store;
    for (const { number, position } of whole.filter(isOwn)) {
      expect(await positionOfNumber({ store: archived, types }, log, number ?? 0)).toEqual(position);
    }
    const backward = async (range: Partial<QueryRange>) =>
      allEntries((await query({ store: archived, types }, log, { from: 'start', reverse: true, ...range })).entries);
    expect(await backward({})).toEqual(whole.toReversed());
    expect((await backward({ to: { number: 8 }, limit: 2 })).map(({ number }) => number)).toEqual([7, 6]);
    await expect(
      allEntries((await query({ store: unarchived(store), types }, log, { from: 'start', reverse: true })).entries),
    ).rejects.toThrow(EntryGapError);
  });
});
