import { afterAll, beforeAll, expect, test } from 'vitest';
import { BilledLogStore } from '../../bench/cost/billed-log-store.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import { entryAt, LOG, NOON } from '../support/logs.ts';
import { expired, lastAt } from '../support/segments.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';

const CONSISTENT = { consistent: true };
const EVENTUAL = { consistent: false };

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

const body = (bytes: number): Pick<Entry, 'body'> => ({ body: { format: 'bytes', bytes: new Uint8Array(bytes) } });
const small = (segment: number, entry: number, type: string): Entry => {
  return { log: LOG, position: { segment, entry }, created: NOON, type, version: 1 };
};
const segmentOf = (segment: number): Segment => ({ log: LOG, segment, created: NOON });
const root = { inline: new Uint8Array(1500) };
const range = { segment: 0, from: 0, to: MAX_NUMBER + 1 };
const archived = { archive: { key: 'logs/archive', hash: new Uint8Array(32) } };

/** Sends the requests of a log's life. */
const LIFE: readonly (readonly [string, (store: LogStore) => Promise<unknown>])[] = [
  ['create a log', (store) => store.createLog(segmentOf(0), small(0, 0, 'Snapshot'))],
  ['put an entry of half a kilobyte', (store) => store.putEntries([entryAt(LOG, { segment: 0, entry: 1 }, body(500))])],
  ['put one of three', (store) => store.putEntries([entryAt(LOG, { segment: 0, entry: 2 }, body(3000))])],
  [
    'put two entries',
    (store) =>
      store.putEntries([
        entryAt(LOG, { segment: 0, entry: 3 }, body(1500)),
        entryAt(LOG, { segment: 0, entry: 4 }, body(10)),
      ]),
  ],
  [
    'change attributes of an entry',
    (store) =>
      store.updateAttributes(
        LOG,
        { segment: 0, entry: 2 },
        { set: { a: { B: new Uint8Array(2000) } }, remove: ['b'], expected: { a: undefined } },
      ),
  ],
  ['the newest segments', (store) => store.newestSegments(LOG, 2, EVENTUAL)],
  ['the newest entry', (store) => store.newestEntry(LOG, 0, EVENTUAL)],
  ['an entry, consistently', (store) => store.getEntry(LOG, { segment: 0, entry: 2 }, CONSISTENT)],
  ['an entry that is not there', (store) => store.getEntry(LOG, { segment: 0, entry: 9 }, EVENTUAL)],
  ['a segment', (store) => store.getSegment(LOG, 0, CONSISTENT)],
  ['all segments of the log', (store) => Array.fromAsync(store.segments(LOG, CONSISTENT))],
  ['all entries', (store) => Array.fromAsync(store.items(LOG, range, EVENTUAL))],
  ['entries that are not there', (store) => Array.fromAsync(store.items(LOG, { ...range, segment: 7 }, EVENTUAL))],
  ['a range that is empty', (store) => Array.fromAsync(store.items(LOG, { ...range, to: 0 }, EVENTUAL))],
  ['complete a snapshot', (store) => store.completeSnapshot(LOG, { segment: 0, entry: 0 }, root)],
  ['move Last Snapshot', (store) => store.advanceLastSnapshot(LOG, { position: { segment: 0, entry: 0 } })],
  [
    'replace a root with a small one',
    (store) => store.replaceRoot(LOG, { segment: 0, entry: 0 }, root, { key: 'logs/root' }),
  ],
  [
    'start a segment',
    (store) =>
      store.startSegment({ end: small(0, 5, 'End Segment'), segment: segmentOf(1), first: small(1, 0, 'Snapshot') }),
  ],
  [
    'change attributes of the log',
    (store) => store.replaceAttributes({ log: LOG, segment: 1 }, undefined, { a: { B: new Uint8Array(2000) } }),
  ],
  [
    'put an entry in the new segment',
    (store) => store.putEntries([entryAt(LOG, { segment: 1, entry: 1 }, body(1500))]),
  ],
  [
    'put an entry after one that was not read',
    (store) =>
      store.putAhead(
        { entries: [small(1, 2, 'Snapshot')] },
        { log: LOG, after: { position: { segment: 1, entry: 0 } }, count: 1, types: RESERVED_TYPES },
      ),
  ],
  [
    'name an archive',
    (store) =>
      store.setArchive(
        { ...segmentOf(0), lastSnapshot: lastAt(0, 0) },
        { ...archived.archive, root: { key: 'logs/root' } },
      ),
  ],
  [
    'say when it expires',
    (store) => store.setExpiration({ ...segmentOf(0), lastSnapshot: lastAt(0, 0), ...archived }, expired(NOON, 6)),
  ],
  ['stamp an entry', (store) => store.setEntryExpiry(LOG, { segment: 0, entry: 2 }, NOON)],
  ['delete entries, one of which is gone', (store) => store.deleteEntries(LOG, 0, [1, 2, 3, 9])],
  ['put items back', (store) => store.putItems([{ ...itemKey(2), T: { S: 'Set' }, B: { B: new Uint8Array(2500) } }])],
  ['put a segment back', (store) => store.putSegment(segmentOf(2))],
];

function itemKey(entry: number) {
  const segment = new Uint8Array([...Buffer.from(LOG.replaceAll('-', ''), 'hex'), 0, 0, 0, 0]);
  return { S: { B: segment }, N: { N: String(entry) }, C: { N: String(NOON) }, V: { N: '1' } };
}

test('tables in memory are billed like the same requests to DynamoDB', async () => {
  const metered = { requests: 0, readUnits: 0, writeUnits: 0 };
  const real = new DynamoDbLogStore({
    client: engine.client,
    ...(await engine.createTables()),
    meter: (_, { readUnits, writeUnits }) => {
      metered.requests++;
      metered.readUnits += readUnits;
      metered.writeUnits += writeUnits;
    },
  });
  const billed = new BilledLogStore(new MemoryLogStore(), () => {});
  const bills: unknown[] = [];
  const meters: unknown[] = [];
  for (const [name, step] of LIFE) {
    const [before, counted] = [{ ...metered }, { ...billed.counts }];
    await step(real);
    await step(billed);
    const since = (now: typeof metered, then: typeof metered) => ({
      name,
      requests: now.requests - then.requests,
      readUnits: now.readUnits - then.readUnits,
      writeUnits: now.writeUnits - then.writeUnits,
    });
    meters.push(since(metered, before));
    bills.push(since(billed.counts, counted));
  }
  expect(bills).toEqual(meters);
});

test('a scan is billed for the bytes of all segments', async () => {
  const inner = new MemoryLogStore();
  const billed = new BilledLogStore(inner, () => {});
  await billed.createLog(segmentOf(0), small(0, 0, 'Snapshot'));
  await Array.fromAsync(billed.allSegments({ index: 0, of: 2 }));
  await Array.fromAsync(billed.allSegments({ index: 1, of: 2 }));
  // S and 16 bytes, N and 2, C and 6.
  expect(billed.counts).toMatchObject({ scans: 2, scannedBytes: 17 + 3 + 7, requests: 1 });
});
