import { expect, test } from 'vitest';
import { BilledLogStore } from '../../bench/cost/billed-log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { withAttributes } from '../../src/log/application-attributes.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import type { EntryReader, PageRead, SegmentRange } from '../../src/log/log-store.ts';
import type { MappedItems } from '../../src/mapping/mapped-items.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { entryAt, NOON, newLogId } from '../support/logs.ts';
import { MappedLogs, ORDERS } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

const PAGE = { items: 0, bytes: 5000, attempts: 3 };

async function sizesOf(store: Pick<EntryReader, 'entries'>, log: LogId, range: SegmentRange) {
  const told: PageRead[] = [];
  let entries = 0;
  const onPage = (page: PageRead) => told.push(page);
  for await (const page of store.entries(log, range, { consistent: true, onPage })) entries += page.length;
  return { told, entries };
}

test('an archived log store and a reader with attributes pass on the sizes that the tables report', async () => {
  const tables = new BilledLogStore(new MemoryLogStore(), () => undefined);
  const log = newLogId();
  const entries = [0, 1, 2].map((entry) => entryAt(log, { segment: 0, entry }));
  const [first, ...others] = entries;
  if (first === undefined) throw new Error('there is no first entry');
  await tables.createLog({ log, segment: 0, created: NOON }, first);
  await tables.putEntries(others);
  const { store } = testDeployment({ tables, blobs: new MemoryBlobStore() });
  const bytes = entries.reduce((sum, entry) => sum + itemBytes(encodeEntry(entry)), 0);
  for (const each of [tables, store, withAttributes(store)]) {
    expect(await sizesOf(each, log, { segment: 0, from: 0, to: 9 })).toEqual({
      told: [{ items: 3, bytes, attempts: 1 }],
      entries: 3,
    });
  }
});

/** The items of a table that reports sizes, of any request that asks for them. */
function telling(items: MappedItems): MappedItems {
  return {
    newest: async (log, below, { onPage, ...consistency }: Parameters<MappedItems['pages']>[2]) => {
      onPage?.(PAGE);
      return items.newest(log, below, consistency);
    },
    pages: async function* (log, range, { onPage, ...consistency }) {
      for await (const page of items.pages(log, range, consistency)) {
        onPage?.({ ...PAGE, items: page.length });
        yield page;
      }
    },
    logs: (part, onInvalid) => items.logs(part, onInvalid),
    putSegment: (segment) => items.putSegment(segment),
    beginSegment: (segment) => items.beginSegment(segment),
    put: (all) => items.put(all),
    expire: (segment, indexes, how) => items.expire(segment, indexes, how),
    unexpire: (segment, indexes) => items.unexpire(segment, indexes),
    setExpiry: (log, index, expires) => items.setExpiry(log, index, expires),
  };
}

test('a mapped log reports the pages of its items only, with the entries that they become', async () => {
  const logs = new MappedLogs();
  const log = await logs.create(12);
  await logs.store.completeSnapshot(log, { segment: 0, entry: 6 }, { inline: Uint8Array.of(76, 71, 70) });
  const books = new BilledLogStore(logs.books, () => undefined);
  const store = new MappedLogStore({ items: telling(logs.items), books, mapping: ORDERS, now: () => NOON * 1000 });
  // Pages have four items. Virtual entries are before the first item, after the fifth and after the
  // last.
  expect(await sizesOf(store, log, { segment: 0, from: 0, to: 20 })).toEqual({
    told: [5, 5, 3].map((items) => ({ ...PAGE, items })),
    entries: 13,
  });
  expect(books.counts.requests).toBeGreaterThan(0);
});
