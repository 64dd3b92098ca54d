import { expect } from 'vitest';
import { MemoryBlobStore } from '../../../src/adapters/memory/blob-store.ts';
import { checkLogsSettings } from '../../../src/adapters/platform/node-logs.ts';
import { Logs } from '../../../src/client/logs.ts';
import { type LogId, textLogId } from '../../../src/ids/log-id.ts';
import { START } from '../../../src/ids/position.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import { readEntries } from '../../../src/log/read-entries.ts';
import { VIRTUAL_TYPES } from '../../../src/log/schedule.ts';
import { parseMappedLog } from '../../../src/mapping/key-pattern.ts';
import { LogRegistrar } from '../../../src/mapping/log-registrar.ts';
import { isMappingName, parseMapping, readMapping, type SchemaMapping } from '../../../src/mapping/schema-mapping.ts';
import { toEntryItem } from '../../../src/mapping/translate.ts';
import { buildState } from '../../../src/snapshot/build.ts';
import { loadState } from '../../../src/snapshot/load.ts';
import type { Root } from '../../../src/snapshot/root.ts';
import { CLAIM_KEY } from '../../../src/store/keys.ts';
import { completeSnapshot } from '../../../src/workers/snapshot/build-snapshot.ts';
import { rebuildLog } from '../../../src/workers/snapshot/rebuild-log.ts';
import { entryAt, newLogId } from '../../support/logs.ts';
import { ORDERS_DOCUMENT } from '../../support/orders.ts';
import { MappedLogs, ORDERS_WITHOUT_TTL, orderItem, TENS } from '../../support/stores/mapped-logs.ts';
import { testDeployment } from '../../support/test-deployment.ts';
import { type Cases, numbersOf, quoted } from './case.ts';

const CONSISTENT = { consistent: true };
const FIRST = { segment: 0, entry: 1 };

/** Advice on schema mappings and on items that do not fit them. */
export const MAPPINGS: Cases = {
  'Use another bucket': async (refused) => {
    const { store } = new MappedLogs();
    const blobs = new MemoryBlobStore(() => 0);
    const register = (mapping: SchemaMapping, into = blobs) =>
      new LogRegistrar({ store, blobs: into, table: 'orders', mapping }).register(newLogId(), TENS);
    await register(ORDERS_WITHOUT_TTL);
    const parcels = parseMapping({
      ...ORDERS_DOCUMENT,
      partitionKey: { ...ORDERS_DOCUMENT.partitionKey, pattern: 'parcel#{id}' },
    });
    await refused(() => register(parcels));
    await register(parcels, new MemoryBlobStore(() => 0));
  },
  'Remove it if the bucket holds the logs of one mapping only: the next registration writes it again': async (
    refused,
  ) => {
    const { store } = new MappedLogs();
    const blobs = new MemoryBlobStore(() => 0);
    const registrar = new LogRegistrar({ store, blobs, table: 'orders', mapping: ORDERS_WITHOUT_TTL });
    await blobs.put(CLAIM_KEY, Uint8Array.of(1));
    await refused(() => registrar.register(newLogId(), TENS));
    await blobs.delete([CLAIM_KEY]);
    await registrar.register(newLogId(), TENS);
    expect(await blobs.get(CLAIM_KEY)).toBeDefined();
  },
  "Find out what changed the items. If the change is right, run 'logfold sweep --rebuild --log LOG', which folds the log from its first item; otherwise restore the items":
    async (refused) => {
      const logs = new MappedLogs();
      const log = await logs.create(14);
      const blobs = new MemoryBlobStore(() => 0);
      const deps = testDeployment({ tables: logs.store, blobs, types: VIRTUAL_TYPES });
      const { root } = await buildState(deps, log, { at: { segment: 1, entry: 0 } });
      const build = (only: 'beginning' | Root) => buildState(deps, log, { at: { segment: 1, entry: 3 }, only });
      const replace = (overrides: Item) => {
        logs.items.delete(orderItem(log, 9));
        logs.items.insert(orderItem(log, 9, overrides));
      };
      replace({ ts: { N: '1' } });
      await refused(() => build(root));
      await build('beginning');
      replace({});
      await build(root);
    },
  "Restore the items. If the application began the log again, give it another id, or run 'logfold sweep --rebuild --log LOG' after it has become longer than before":
    async (refused) => {
      const logs = new MappedLogs();
      const log = await logs.create(7);
      const blobs = new MemoryBlobStore(() => 0);
      const deps = testDeployment({ tables: logs.store, blobs, types: VIRTUAL_TYPES, now: () => 0 });
      await completeSnapshot(deps, { kind: 'snapshot', log, position: { segment: 0, entry: 6 } });
      for (const index of [0, 1, 2, 3, 4, 5, 6]) logs.items.delete(orderItem(log, index));
      await refused(() => loadState(deps, log));
      // Begun again, and not long enough.
      await logs.append(log, 3);
      await refused(() => loadState(deps, log));
      await logs.append(log, 5);
      expect(await rebuildLog(deps, { kind: 'rebuild', log })).toMatchObject({ outcome: 'rebuilt' });
      expect(await loadState(deps, log)).toMatchObject({ end: { segment: 0, entry: 10 } });
    },
  'Restore the missing items. If the application deleted them for good, or began the log again, give the log another id':
    async (refused) => {
      const logs = new MappedLogs();
      const log = await logs.create(7);
      const { store } = logs;
      const read = (of: LogId) =>
        Array.fromAsync(
          readEntries({ store, types: VIRTUAL_TYPES }, of, { from: START, to: { segment: 0, entry: 6 } }),
        );
      logs.items.delete(orderItem(log, 2));
      await refused(() => read(log));
      await read(await logs.create(7));
      logs.items.insert(orderItem(log, 2));
      await read(log);
    },
  'Leave `types` out': async (refused) => {
    await refused(() => checkLogsSettings({}, { types: RESERVED_TYPES, mapping: 'pk-sk' }));
    checkLogsSettings({}, { mapping: 'pk-sk' });
  },
  'Correct it as docs/format.md describes schema mappings': async (refused) => {
    await refused(() =>
      parseMapping({ ...ORDERS_DOCUMENT, sortKey: { ...ORDERS_DOCUMENT.sortKey, pattern: 'event#{n:6}' } }),
    );
    parseMapping({ ...ORDERS_DOCUMENT, sortKey: { name: 'sk', type: 'S', first: 0, pattern: 'event#{n:6}' } });
  },
  "Correct the item, or change '…' of the mapping": async (refused) => {
    const mapping = parseMapping(ORDERS_DOCUMENT);
    const log = parseMappedLog(mapping, '17');
    const item = { pk: { S: 'order#17' }, sk: { N: '0' }, type: { S: 'Placed' }, ts: { S: '2026-01-02T03:04:05Z' } };
    const place = { log, position: { segment: 0, entry: 1 }, index: 0 };
    const inSeconds = { ...item, ts: { N: '1767323045' } };
    const advice = await refused(() => toEntryItem(mapping, inSeconds, place));
    toEntryItem(mapping, item, place);
    const part = /change '(\w+)'/.exec(advice)?.[1] ?? '';
    const changed = parseMapping({ ...ORDERS_DOCUMENT, [part]: { name: 'ts', format: 's' } });
    toEntryItem(changed, inSeconds, place);
  },
  'Give the id of a log whose key has at most … bytes': async (refused) => {
    const pattern = `${'tenant#'.repeat(100)}{id}`;
    const mapping = parseMapping({ ...ORDERS_DOCUMENT, partitionKey: { name: 'pk', type: 'S', pattern } });
    const [bytes = 0] = numbersOf(await refused(() => parseMappedLog(mapping, 'x'.repeat(1999))));
    parseMappedLog(mapping, 'x'.repeat(bytes - 'tenant#'.length * 100));
  },
  "Run 'logfold adopt LOG' to register it, or wait for its next items in the pipeline": async (refused) => {
    const logs = new MappedLogs();
    const { store } = logs;
    const log = newLogId();
    await logs.append(log, 1);
    await refused(() => store.newestSegments(log, 2, CONSISTENT));
    await store.register(log, TENS);
    await store.newestSegments(log, 2, CONSISTENT);
  },
  "Append with the application's own code; logfold only reads the items of a mapped log": async (refused) => {
    const logs = new MappedLogs();
    const log = await logs.create(1);
    const second = { segment: 0, entry: 2 };
    await refused(() => logs.store.putEntries([entryAt(log, second)]));
    await logs.append(log, 1);
    expect(await logs.store.getEntry(log, second, CONSISTENT)).toBeDefined();
  },
  'Call list without options, which scans the Segment table, or query the table of the application': async (
    refused,
  ) => {
    const mapped = new MappedLogs();
    const log = await mapped.create(1);
    const deps = { ...testDeployment({ tables: mapped.store, blobs: new MemoryBlobStore() }), parseLog: textLogId };
    const logs = new Logs(deps);
    await refused(() => logs.list({ prefix: '' }).next());
    expect(await Array.fromAsync(logs.list())).toMatchObject([{ log }]);
  },
  "Add 'ttl' to the mapping, or set the policy to expire 'delete' or 'never'": async (refused) => {
    const without = new MappedLogs(ORDERS_WITHOUT_TTL);
    const log = await without.create(1);
    await refused(() => without.store.setEntryExpiry(log, FIRST, 1));
    const logs = new MappedLogs();
    expect(await logs.store.setEntryExpiry(await logs.create(1), FIRST, 1)).toBe(true);
  },
  'Use the Segment table that belongs to the mapped logs, or leave the mapping out': async (refused) => {
    const logs = new MappedLogs();
    const log = newLogId();
    await logs.books.putSegment({ log, segment: 0, created: 1 });
    await refused(() => logs.store.getSegment(log, 0, CONSISTENT));
    expect(await logs.books.getSegment(log, 0)).toBeDefined();
  },
  'Give a JSON document as docs/format.md describes it, or one of the names …': async (refused) => {
    const advice = await refused(() => readMapping('orders.json'));
    readMapping(JSON.stringify(ORDERS_DOCUMENT));
    for (const name of advice.split('names ')[1]?.split(', ') ?? []) {
      expect(isMappingName(name)).toBe(true);
      readMapping(name);
    }
  },
  "Name one of …, or for example 'castore:STORE' for one event store": async (refused) => {
    const advice = await refused(() => readMapping('castore:'));
    for (const name of quoted(advice)) readMapping(name);
    for (const name of /one of (.*), or/.exec(advice)?.[1]?.split(', ') ?? []) readMapping(name);
  },
};
