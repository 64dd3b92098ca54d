import { afterAll, beforeAll, expect, test } from 'vitest';
import { DynamoDbLogStore, type Meter } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { Item } from '../../src/log/attribute.ts';
import { encodeBody } from '../../src/log/body.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { MAX_BATCH_ITEMS } from '../../src/log/log-store.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { entryAt, NOON, newLogId } from '../support/logs.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const MB = 2 ** 20;

let engine: TestEngine;

beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

/** A table with a log of one segment, whose last entry is a pending Snapshot entry. */
async function tableOf(entries: number, bodyBytes: number) {
  const reads: string[] = [];
  const meter: Meter = (op, { readUnits }) => {
    if (readUnits > 0) reads.push(op);
  };
  const tables = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()), meter });
  const log = newLogId();
  const snapshot = { type: RESERVED_TYPES.snapshot, body: undefined };
  await tables.createLog({ log, segment: 0, created: NOON }, entryAt(log, { segment: 0, entry: 0 }, snapshot));
  const bytes = encodeBody('x'.repeat(bodyBytes));
  const items: Item[] = Array.from({ length: entries }, (_, i) => {
    return encodeEntry(entryAt(log, { segment: 0, entry: i + 1 }, { body: { format: 'bytes', bytes } }));
  });
  const end = { segment: 0, entry: entries + 1 };
  items.push(encodeEntry(entryAt(log, end, snapshot)));
  const batches = Array.from({ length: Math.ceil(items.length / MAX_BATCH_ITEMS) }, (_, i) => {
    return items.slice(i * MAX_BATCH_ITEMS, (i + 1) * MAX_BATCH_ITEMS);
  });
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let batch = batches.pop(); batch !== undefined; batch = batches.pop()) await tables.putItems(batch);
    }),
  );
  reads.length = 0;
  return { tables, log, end, reads, bytes: items.reduce((sum, item) => sum + itemBytes(item), 0) };
}

test.each([
  [900, 5_000],
  [50, 90_000],
])('a first build of %d entries with bodies of %d bytes reads nearly full pages', async (entries, bodyBytes) => {
  const { tables, log, end, reads, bytes } = await tableOf(entries, bodyBytes);
  expect(bytes).toBeGreaterThan(4 * MB);
  const reducer: Reducer = { name: 'nothing', version: 1, fold: () => undefined };
  const deps = testDeployment({ tables, blobs: new MemoryBlobStore(), reducer });
  const result = await completeSnapshot(deps, { kind: 'snapshot', log, position: end });
  expect(result).toMatchObject({ outcome: 'built', entries: entries + 1 });
  expect(reads.length).toBeLessThanOrEqual((1.2 * bytes) / MB + 4);
});
