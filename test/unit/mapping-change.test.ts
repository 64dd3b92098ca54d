import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { AttributeValue, Item } from '../../src/log/attribute.ts';
import { claimBucket, readBucketMapping, requireClaim } from '../../src/mapping/bucket-claim.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { mappingDocument } from '../../src/mapping/meaning.ts';
import { parseMapping, type SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { CLAIM_KEY, MAPPING_KEY } from '../../src/store/keys.ts';
import { replaceMapping } from '../../src/workers/adopt/replace-mapping.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { NOON } from '../support/logs.ts';
import { interceptBlobStore } from '../support/stores/interceptor.ts';
import { MappedLogs, mappedDeps, newMappedLog, ORDERS, orderItem, TENS } from '../support/stores/mapped-logs.ts';

/** All items have the type `Set`, so they become the same entries as with {@link ORDERS}. */
const CONSTANT = parseMapping({ ...mappingDocument(ORDERS), type: { constant: 'Set' } });
/** The items become other entries. */
const WHOLE = parseMapping({ ...mappingDocument(ORDERS), body: { item: true } });
/** This mapping takes the attribute `note` for the body. */
const NOTES = parseMapping({ ...mappingDocument(ORDERS), body: 'note' });

/** The entries get metadata. */
const METADATA = parseMapping({ ...mappingDocument(ORDERS), metadata: 'metadata' });

/** A table of orders and its bucket, which any mapping may read. */
class Place {
  readonly logs = new MappedLogs();
  readonly blobs = new MemoryBlobStore(() => NOON * 1000);

  /** A log of 17 items, whose first segment is archived, and with a snapshot in the second one. */
  async archived(of: JobDeps = this.deps(ORDERS), more: Item = {}): Promise<LogId> {
    const log = newMappedLog();
    for (let i = 0; i < 17; i++) this.logs.items.insert(orderItem(log, i, more));
    await this.logs.store.register(log, TENS);
    await claimBucket(this.blobs, { table: 'orders', mapping: ORDERS });
    for (const position of [
      { segment: 0, entry: 6 },
      { segment: 1, entry: 0 },
    ]) {
      expect(await runJob(of, { kind: 'snapshot', log, position })).toMatchObject({ outcome: 'built' });
    }
    expect(await runJob(of, { kind: 'archive', log, segment: 0 })).toMatchObject({ outcome: 'archived' });
    return log;
  }

  deps(mapping: SchemaMapping): JobDeps {
    const { items, books } = this.logs;
    const tables = new MappedLogStore({ items, books, mapping, now: () => NOON * 1000 });
    const policy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0 };
    return { ...mappedDeps(tables, this.blobs), policyOf: () => policy };
  }

  replace(mapping: SchemaMapping, dryRun = false, table = 'orders') {
    const { items } = this.logs;
    return replaceMapping({ ...this.deps(ORDERS), items }, { table, mapping }, { dryRun });
  }

  /** The items of a log, as the application's table has them. */
  async items(log: LogId): Promise<unknown[]> {
    return (await Array.fromAsync(this.logs.items.pages(log, { from: 0, to: 1000 }))).flat();
  }

  loses(log: LogId, from: number, to: number): void {
    for (let index = from; index < to; index++) this.logs.items.delete(orderItem(log, index));
  }
}

test.each([
  ['whole item', WHOLE],
  ['another attribute', NOTES],
  ['a constant type', CONSTANT],
])('a restore with another mapping (%s) is refused, and writes nothing', { tags: ['I3'] }, async (_, mapping) => {
  const place = new Place();
  const log = await place.archived();
  place.loses(log, 2, 8);
  const before = await place.items(log);
  const restoring = restoreSegment(place.deps(mapping), { log, segment: 0 }, { holdSeconds: 60 });
  await expect(restoring).rejects.toMatchObject({ code: 'MAPPING_DIFFERS', log, segment: 0 });
  expect(await place.items(log)).toEqual(before);
});

test('a fold does not continue with another mapping, and the log is not stopped', { tags: ['I1'] }, async () => {
  const place = new Place();
  const log = await place.archived();
  const job = { kind: 'snapshot', log, position: { segment: 1, entry: 6 } } as const;
  const differs = { code: 'MAPPING_DIFFERS', log, segment: 1, entry: 0 };
  await expect(runJob(place.deps(WHOLE), job)).rejects.toMatchObject(differs);
  await expect(loadState(place.deps(WHOLE), log)).rejects.toMatchObject(differs);
  expect(await readStop(place.blobs, log)).toBeUndefined();
  expect(await runJob(place.deps(ORDERS), job)).toMatchObject({ outcome: 'built', base: { segment: 1, entry: 0 } });
});

test('a mapping is replaced if all items become the same entries', { tags: ['I1', 'I3'] }, async () => {
  const place = new Place();
  const log = await place.archived();
  const original = await place.items(log);
  expect(await place.replace(CONSTANT, true)).toMatchObject({ logs: 1, items: 17, archived: 10, replaced: false });
  await expect(requireClaim(place.blobs, { table: 'orders', mapping: CONSTANT })).rejects.toMatchObject({
    code: 'MAPPING_DIFFERS',
    message: expect.stringContaining(`'type' is "type" there and {"constant":"Set"} here`),
  });
  expect(await place.replace(CONSTANT)).toMatchObject({ replaced: true });
  expect(await readBucketMapping(place.blobs)).toEqual({ mapping: CONSTANT, earlier: [ORDERS] });
  await requireClaim(place.blobs, { table: 'orders', mapping: CONSTANT });
  await expect(requireClaim(place.blobs, { table: 'orders', mapping: ORDERS })).rejects.toThrow('another mapping');

  // Snapshots and archives of the old mapping stay good.
  const deps = place.deps(CONSTANT);
  const job = { kind: 'snapshot', log, position: { segment: 1, entry: 6 } } as const;
  expect(await runJob(deps, job)).toMatchObject({ outcome: 'built', base: { segment: 1, entry: 0 } });
  place.loses(log, 0, 10);
  expect(await replay({ ...deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
  expect(await restoreSegment(deps, { log, segment: 0 }, { holdSeconds: 60 })).toMatchObject({ restored: 13 });
  expect(await place.items(log)).toEqual(original);
  expect(await restoreSegment(deps, { log, segment: 0 }, { holdSeconds: 60 })).toMatchObject({ restored: 0 });
});

test('an archive without a fingerprint belongs to the first mapping of the bucket', { tags: ['I3'] }, async () => {
  const place = new Place();
  const older = place.deps(ORDERS);
  Object.assign(older.tables, { meaningOf: () => undefined });
  const log = await place.archived(older);
  const original = await place.items(log);
  await place.replace(CONSTANT);
  place.loses(log, 0, 10);
  await restoreSegment(place.deps(CONSTANT), { log, segment: 0 }, { holdSeconds: 60 });
  expect(await place.items(log)).toEqual(original);
  const restoring = restoreSegment(place.deps(WHOLE), { log, segment: 0 }, { holdSeconds: 60 });
  await expect(restoring).rejects.toMatchObject({ code: 'MAPPING_DIFFERS' });
});

test.each<[string, SchemaMapping, Item, string]>([
  ['another body', NOTES, {}, 'its body would differ'],
  ['another time', parseMapping({ ...mappingDocument(ORDERS), time: { name: 'ts', format: 'ms' } }), {}, 'its time'],
  ['an item of another type', CONSTANT, { type: { S: 'Clear' } }, 'its type would differ'],
])('a mapping with %s is refused, and nothing changes', async (_, mapping, overrides, difference) => {
  const place = new Place();
  const log = await place.archived();
  place.logs.items.insert(orderItem(log, 17, overrides));
  await expect(place.replace(mapping)).rejects.toThrow(difference);
  expect(await readBucketMapping(place.blobs)).toEqual({ mapping: ORDERS, earlier: [] });
});

test('a mapping with metadata does not take over a bucket whose release stored no mapping', {
  tags: ['I1'],
}, async () => {
  const place = new Place();
  const log = await place.archived();
  await place.blobs.delete([MAPPING_KEY]);
  const named = { table: 'orders', mapping: METADATA };
  for (const owns of [requireClaim, claimBucket]) {
    await expect(owns(place.blobs, named)).rejects.toMatchObject({
      code: 'MAPPING_DIFFERS',
      message: expect.stringContaining("'metadata'"),
    });
  }
  expect(await readBucketMapping(place.blobs)).toBeUndefined();
  await claimBucket(place.blobs, { table: 'orders', mapping: ORDERS });
  expect(await place.replace(METADATA)).toMatchObject({ replaced: true });
  place.loses(log, 0, 10);
  const deps = place.deps(METADATA);
  expect(await replay({ ...deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
});

test('a claim that ended halfway does not look like that of an earlier release', async () => {
  const blobs = new MemoryBlobStore(() => NOON * 1000);
  const of = { table: 'orders', mapping: METADATA };
  const dying = interceptBlobStore(blobs, async (name, effect) => {
    if (name === 'update' && (await blobs.get(MAPPING_KEY)) !== undefined) throw new Error('died');
    return effect();
  });
  await expect(claimBucket(dying, of)).rejects.toThrow('died');
  await requireClaim(blobs, of);
  await claimBucket(blobs, of);
  expect(await blobs.get(CLAIM_KEY)).toBeDefined();
});

test.each<[string, AttributeValue]>([
  ['a String', { S: '{"by":"Ann"}' }],
  ['an empty Map', { M: {} }],
  ['a Map with a correlation that is not a String', { M: { correlation: { N: '1' } } }],
])(
  'a mapping may name an attribute that is %s, although it gives no metadata',
  { tags: ['I1'] },
  async (_, metadata) => {
    const place = new Place();
    const log = await place.archived(place.deps(ORDERS), { metadata });
    expect(await place.replace(METADATA)).toMatchObject({ replaced: true });
    const deps = place.deps(METADATA);
    const job = { kind: 'snapshot', log, position: { segment: 1, entry: 6 } } as const;
    expect(await runJob(deps, job)).toMatchObject({ outcome: 'built', base: { segment: 1, entry: 0 } });
    place.loses(log, 0, 10);
    expect(await replay({ ...deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
  },
);

test('a mapping is refused if only an archive has the item that differs', async () => {
  const place = new Place();
  const log = await place.archived();
  place.loses(log, 0, 17);
  await expect(place.replace(NOTES)).rejects.toThrow(`order#${log}`);
});

test('a mapping is not replaced after a comparison of another table, or of nothing', { tags: ['I1'] }, async () => {
  const place = new Place();
  await place.archived();
  await expect(place.replace(CONSTANT, false, 'orders-2')).rejects.toMatchObject({ code: 'BUCKET_TAKEN' });
  const others = new Place();
  await claimBucket(others.blobs, { table: 'orders', mapping: ORDERS });
  await expect(others.replace(CONSTANT)).rejects.toMatchObject({ code: 'LOG_NOT_FOUND' });
  for (const { blobs } of [place, others]) {
    expect(await readBucketMapping(blobs)).toEqual({ mapping: ORDERS, earlier: [] });
  }
});
