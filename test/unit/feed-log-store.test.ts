import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { ItemInvalidError } from '../../src/errors.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import { numberedLog } from '../support/feed.ts';
import { entryAt, NOON, recordRequests } from '../support/logs.ts';
import { expiring } from '../support/segments.ts';

const START = { segment: 0, entry: 0 };
const CONSISTENT = { consistent: true };
const ALL = { segment: 0, from: 0, to: 2 };
const ARCHIVE = { key: 'logs/a/archives/b', hash: new Uint8Array(32) };
const ROOTS = { from: { key: 'logs/a/roots/b' }, to: { key: 'logs/a/roots/c' } };

const segmentOf = (log: LogId, segment = 0): Segment => ({ log, segment, created: NOON });
const itemsOf = (log: LogId): { readonly end: Entry; readonly segment: Segment; readonly first: Entry } => {
  const first = entryAt(log, { segment: 1, entry: 0 });
  return { end: entryAt(log, { segment: 0, entry: 1 }), segment: segmentOf(log, 1), first };
};

const unreadOf = (log: LogId) => ({ log, after: { position: START }, count: 1, types: RESERVED_TYPES });

type Called = Exclude<keyof LogStore, 'reads' | 'allSegments' | 'isRetryable' | 'nameItem' | 'meaningOf'>;

/** A call of each method for a log. */
const CALLS: Readonly<Record<Called, (store: LogStore, log: LogId) => unknown>> = {
  newestSegments: (store, log) => store.newestSegments(log, 1, CONSISTENT),
  getSegment: (store, log) => store.getSegment(log, 0, CONSISTENT),
  segments: (store, log) => Array.fromAsync(store.segments(log)),
  newestEntry: (store, log) => store.newestEntry(log, 0, CONSISTENT),
  getEntry: (store, log) => store.getEntry(log, START, CONSISTENT),
  entries: (store, log) => Array.fromAsync(store.entries(log, ALL, CONSISTENT)),
  items: (store, log) => Array.fromAsync(store.items(log, ALL, CONSISTENT)),
  createLog: (store, log) => store.createLog(segmentOf(log), entryAt(log, START)),
  putEntries: (store, log) => store.putEntries([entryAt(log, START)]),
  startSegment: (store, log) => store.startSegment(itemsOf(log)),
  putAhead: (store, log) => store.putAhead({ entries: [] }, unreadOf(log)),
  replaceAttributes: (store, log) => store.replaceAttributes({ log, segment: 0 }, undefined, {}),
  updateAttributes: (store, log) => store.updateAttributes(log, START, { set: {}, remove: ['a'], expected: {} }),
  completeSnapshot: (store, log) => store.completeSnapshot(log, START, ROOTS.to),
  replaceRoot: (store, log) => store.replaceRoot(log, START, ROOTS.from, ROOTS.to),
  advanceLastSnapshot: (store, log) => store.advanceLastSnapshot(log, { position: START }),
  removeAttributes: (store, log) => store.removeAttributes({ log, segment: 0 }, {}),
  setArchive: (store, log) => store.setArchive(segmentOf(log), { ...ARCHIVE, root: undefined }),
  replaceArchive: (store, log) => store.replaceArchive(segmentOf(log), ARCHIVE),
  setExpiration: (store, log) => store.setExpiration(segmentOf(log), expiring(NOON)),
  setEntryExpiry: (store, log) => store.setEntryExpiry(log, START, NOON),
  deleteEntries: (store, log) => store.deleteEntries(log, 0, [1]),
  expireEntries: (store, log) => store.expireEntries({ log, segment: 0, expiry: expiring(NOON) }, [1], 'delete'),
  unexpireEntries: (store, log) => store.unexpireEntries({ log, segment: 0 }, [1]),
  putItems: (store, log) => store.putItems([encodeEntry(entryAt(log, START))]),
  putSegment: (store, log) => store.putSegment(segmentOf(log)),
};

/** The store of a deployment with a feed, and the requests to each of its tables. */
function deployment() {
  const tables = { logs: new MemoryLogStore({ pageItems: 3 }), feed: new MemoryLogStore({ pageItems: 3 }) };
  const requests = { logs: [] as string[], feed: [] as string[] };
  const store = withFeed(recordRequests(tables.logs, requests.logs), recordRequests(tables.feed, requests.feed));
  return { ...tables, requests, store };
}

describe('the store of a deployment with a feed', () => {
  test.each(Object.entries(CALLS))('sends %s of the feed to the table of the feed', async (name, call) => {
    const { requests, store } = deployment();
    // The empty tables may refuse the call.
    await Promise.resolve(call(store, FEED_LOG)).catch(() => undefined);
    expect(requests).toEqual({ logs: [], feed: [name] });
    await Promise.resolve(call(store, numberedLog(1))).catch(() => undefined);
    expect(requests).toEqual({ logs: [name], feed: [name] });
  });

  test('writes the items of a batch to their tables', async () => {
    const { logs, feed, store } = deployment();
    const log = numberedLog(1);
    await store.putItems([FEED_LOG, log].map((id) => encodeEntry(entryAt(id, START))));
    expect(await logs.getEntry(log, START)).toBeDefined();
    expect(await feed.getEntry(FEED_LOG, START)).toBeDefined();
    expect(await logs.getEntry(FEED_LOG, START)).toBeUndefined();
  });

  test('lists the segments of the feed and of all logs once, in any number of parts', async () => {
    const { requests, store } = await threeSegmentsEach();
    for (const of of [undefined, 1, 3]) {
      const parts = of === undefined ? [undefined] : Array.from({ length: of }, (_, index) => ({ index, of }));
      const listed = await Promise.all(parts.map((part) => Array.fromAsync(store.allSegments(part))));
      expect(listed.flat().map(placeOf).sort()).toEqual(PLACES);
    }
    expect(requests.feed).not.toContain('allSegments');
  });

  test('continues a list after any of its segments', async () => {
    const { store } = await threeSegmentsEach();
    const listed = await Array.fromAsync(store.allSegments({ index: 0, of: 1 }));
    for (const [i, { log, segment }] of listed.entries()) {
      const rest = store.allSegments({ index: 0, of: 1, after: { log, segment } });
      expect((await Array.fromAsync(rest)).map(placeOf)).toEqual(listed.slice(i + 1).map(placeOf));
    }
  });

  test('lists the other logs if a segment of the feed is malformed', async () => {
    const { feed, store } = await threeSegmentsEach();
    feed.setForeign(segmentOf(FEED_LOG, 1), { C: { S: 'yesterday' } });
    const invalid: ItemInvalidError[] = [];
    const listed = await Array.fromAsync(store.allSegments(undefined, (error) => invalid.push(error)));
    expect(listed.filter(({ log }) => log !== FEED_LOG)).toHaveLength(6);
    expect(invalid).toHaveLength(1);
    await expect(Array.fromAsync(store.allSegments())).rejects.toThrow(ItemInvalidError);
  });
});

const PLACES = [FEED_LOG, numberedLog(1), numberedLog(2)].flatMap((log) => [0, 1, 2].map((i) => `${log}/${i}`)).sort();

async function threeSegmentsEach() {
  const opened = deployment();
  for (const log of [numberedLog(1), numberedLog(2), FEED_LOG]) {
    for (const segment of [0, 1, 2]) await opened.store.putSegment(segmentOf(log, segment));
  }
  return opened;
}

function placeOf({ log, segment }: Segment): string {
  return `${log}/${segment}`;
}
