import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import { dateAt } from '../../src/codec/value.ts';
import type { AttributeValue } from '../../src/log/attribute.ts';
import { claimBucket } from '../../src/mapping/bucket-claim.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { mappingDocument } from '../../src/mapping/meaning.ts';
import { parseMapping, type SchemaMapping, type TimeFormat } from '../../src/mapping/schema-mapping.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { replaceMapping } from '../../src/workers/adopt/replace-mapping.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { NOON } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { MappedLogs, mappedDeps, ORDERS_WITHOUT_TTL, orderItem, TENS } from '../support/stores/mapped-logs.ts';

const RANGE = { segment: 0, from: 0, to: 13 };
const CONSISTENT = { consistent: true };

/** Keeps the times of entries. */
const times: Reducer = {
  name: 'times',
  version: 1,
  fold: (draft, entry) => draft.map('times', 'number').put(entry.number ?? 0, entry.createdMs),
};

function timeAttribute(format: TimeFormat, ms: number): AttributeValue {
  if (format === 'iso') return { S: dateAt(ms).toISOString() };
  return { N: String(format === 'ms' ? ms : ms / 1000) };
}

function depsOf({ items, books }: MappedLogs, blobs: MemoryBlobStore, mapping: SchemaMapping): JobDeps {
  const tables = new MappedLogStore({ items, books, mapping, now: () => NOON * 1000 });
  const policyOf = () => ({ ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0 });
  return { ...mappedDeps(tables, blobs), reducer: times, policyOf };
}

test('an application’s entries are the same from its table and from an archive', { tags: ['I9'] }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom<TimeFormat>('iso', 's', 'ms'),
      fc.constantFrom('time', 't', 'C', 'O', 'P', '__proto__'),
      fc.constantFrom('payload', { name: 'note', format: 'json' } as const, { item: true } as const),
      fc.array(fc.nat(999), { minLength: 17, maxLength: 17 }),
      fc.boolean(),
      async (format, name, body, parts, isReplaced) => {
        const document = { ...mappingDocument(ORDERS_WITHOUT_TTL), time: { name, format }, body };
        const mapping = parseMapping(document);
        const logs = new MappedLogs(mapping);
        const blobs = new MemoryBlobStore(() => NOON * 1000);
        const log = await logs.create(0);
        for (const [i, part] of parts.entries()) {
          const time = timeAttribute(format, (NOON + i) * 1000 + part);
          logs.items.insert({ ...orderItem(log, i), note: { S: '[1]' }, ...Object.fromEntries([[name, time]]) });
        }
        await logs.store.register(log, TENS);
        await claimBucket(blobs, { table: 'orders', mapping });
        const deps = depsOf(logs, blobs, mapping);
        for (const position of [
          { segment: 0, entry: 6 },
          { segment: 1, entry: 0 },
        ]) {
          expect(await runJob(deps, { kind: 'snapshot', log, position })).toMatchObject({ outcome: 'built' });
        }
        const entries = await Array.fromAsync(deps.tables.entries(log, RANGE, CONSISTENT));
        const items = await Array.fromAsync(deps.tables.items(log, RANGE, CONSISTENT));
        expect(await runJob(deps, { kind: 'archive', log, segment: 0 })).toMatchObject({ outcome: 'archived' });
        const now = isReplaced ? parseMapping({ ...document, metadata: 'meta' }) : mapping;
        await replaceMapping({ ...deps, items: logs.items }, { table: 'orders', mapping: now }, { dryRun: false });

        for (let i = 0; i < 10; i++) logs.items.delete(orderItem(log, i));
        const after = depsOf(logs, blobs, now);
        const store = new ArchivedLogStore(after.tables, after);
        expect((await Array.fromAsync(store.entries(log, RANGE, CONSISTENT))).flat()).toEqual(entries.flat());
        if (!isReplaced) {
          expect((await Array.fromAsync(store.items(log, RANGE, CONSISTENT))).flat()).toEqual(items.flat());
        }
        expect(await replay({ ...after, store, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
      },
    ),
    { numRuns: propertyRuns(150) },
  );
});
