import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { LogRegistrar } from '../../src/mapping/log-registrar.ts';
import { parseMapping } from '../../src/mapping/schema-mapping.ts';
import { CLAIM_KEY } from '../../src/store/keys.ts';
import { NOON } from '../support/logs.ts';
import { MappedLogs, newMappedLog, ORDERS, TENS } from '../support/stores/mapped-logs.ts';

const CUSTOMERS = parseMapping({
  partitionKey: { name: 'pk', type: 'S', pattern: 'customer#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  body: 'payload',
});

/** A bucket, and the registrations of another mapping in it. */
function registrars() {
  const blobs = new MemoryBlobStore(() => NOON * 1000);
  const logs = new MappedLogs();
  const of = (table: string, mapping = ORDERS) => new LogRegistrar({ store: logs.store, blobs, table, mapping });
  return { blobs, logs, of };
}

test('the logs of one mapping share a bucket, also if the mapping changes elsewhere', async () => {
  const { logs, of } = registrars();
  const log = newMappedLog();
  await logs.append(log, 12);
  expect(await of('orders').register(log, TENS)).toBe(2);
  expect(await of('orders', { ...ORDERS, ttl: undefined }).register(log, TENS)).toBe(0);
});

test.each([
  ['another table', 'archive', ORDERS],
  ['other keys', 'orders', CUSTOMERS],
])('the logs of %s are not registered in the same bucket', async (_, table, mapping) => {
  const { blobs, logs, of } = registrars();
  const log = newMappedLog();
  await logs.append(log, 12);
  await of('orders').register(log, TENS);
  const claim = await blobs.get(CLAIM_KEY);
  const other = newMappedLog();
  await logs.append(other, 12);
  await expect(of(table, mapping).register(other, TENS)).rejects.toMatchObject({ code: 'BUCKET_TAKEN' });
  await expect(logs.store.newestSegments(other, 1, { consistent: true })).rejects.toMatchObject({
    code: 'LOG_NOT_FOUND',
  });
  expect(await blobs.get(CLAIM_KEY)).toEqual(claim);
});
