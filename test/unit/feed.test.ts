import { describe, expect, test, vi } from 'vitest';
import type { FeedItem } from '../../src/client/feed.ts';
import { checkpointOf } from '../../src/feed/checkpoint.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { rootOf } from '../../src/log/entry.ts';
import { rootKey } from '../../src/store/keys.ts';
import { FedLogs, itemTexts, settled } from '../support/fed-logs.ts';
import { LiveLog } from '../support/live-logs.ts';
import { NOON } from '../support/logs.ts';
import { expiring } from '../support/segments.ts';

/** Two logs, whose first entries the feed has in its entries 1 and 2. */
async function twoLogs() {
  const fed = new FedLogs();
  const [a, b] = [await fed.create(), await fed.create()];
  await fed.append(a, 2);
  await fed.feed(a, b);
  await fed.append(b, 1);
  await fed.append(a, 1);
  await fed.feed(b, a);
  return { fed, a, b, feed: fed.logs.feed };
}

describe('reading the feed', () => {
  test('gives every entry of every log, in order, with the place to continue', async () => {
    const { feed, a, b } = await twoLogs();
    expect(itemTexts(await Array.fromAsync(feed.read()), [a, b])).toEqual([
      'a 0/0 1',
      'a 0/1 1',
      'a 0/2 1',
      'b 0/0 2',
      'b 0/1 2',
      'a 0/3 3',
    ]);
    expect(await feed.end()).toBe(3);
  });

  test('continues at a checkpoint', async () => {
    const { feed, a, b } = await twoLogs();
    expect(itemTexts(await Array.fromAsync(feed.read({ from: 2 })), [a, b])).toEqual(['b 0/1 2', 'a 0/3 3']);
    expect(await Array.fromAsync(feed.read({ from: 3 }))).toEqual([]);
  });

  test('decodes bodies, also those in the bucket', async () => {
    const fed = new FedLogs();
    const log = await fed.create();
    const large = 'x'.repeat(50_000);
    await fed.logs.client.addEntry(log, { type: 'Set', version: 1, body: large });
    await fed.append(log, 1);
    await fed.feed(log);
    const items = await Array.fromAsync(fed.logs.feed.read());
    expect(items[1]?.entry.external).toBeDefined();
    expect(await Promise.all(items.map(({ body }) => body()))).toEqual([null, large, 2]);
  });

  test('has no body for a Snapshot entry, which carries a root or its key', async () => {
    const fed = new FedLogs();
    const log = await fed.create();
    await fed.append(log, 1);
    await fed.snapshot(log);
    await fed.feed(log);
    const { position } = await fed.logs.client.addSnapshot(log);
    const key = rootKey(log, position, '00'.repeat(32));
    await fed.tables.completeSnapshot(log, position, { key });
    await fed.feed(log);
    const items = await Array.fromAsync(fed.logs.feed.read());
    expect(items.map(({ entry }) => rootOf(entry) !== undefined)).toEqual([false, false, true, true]);
    expect(items[3]?.entry.external).toBe(key);
    expect(await Promise.all(items.map(({ body }) => body()))).toEqual([null, 1, null, null]);
  });

  test('crosses segments of logs and epochs of the feed', async () => {
    const { fed, feed, a, b } = await twoLogs();
    for (const log of [a, FEED_LOG]) {
      await fed.snapshot(log);
      await fed.logs.client.startSegment(log);
    }
    await fed.append(a, 1);
    await fed.feed(a);
    const rest = itemTexts(await Array.fromAsync(feed.read({ from: 3 })), [a, b]);
    const end = checkpointOf({ segment: 1, entry: 2 });
    const during = checkpointOf({ segment: 1, entry: 1 });
    expect(rest).toEqual([`a 0/4 ${during}`, `a 0/5 ${during}`, `a 1/0 ${during}`, `a 1/1 ${end}`]);
    expect(await feed.end()).toBe(end);
    expect(await Array.fromAsync(feed.read({ from: 4 }))).toHaveLength(4);
  });

  test('finds the end while an epoch begins', async () => {
    const { fed, feed } = await twoLogs();
    const before = await fed.tables.newestSegments(FEED_LOG, 2, { consistent: true });
    await fed.tables.advanceLastSnapshot(FEED_LOG, { position: { segment: 0, entry: 0 } });
    await fed.logs.client.startSegment(FEED_LOG);
    vi.spyOn(fed.tables, 'newestSegments').mockResolvedValueOnce(before);
    expect(await feed.end()).toBe(checkpointOf({ segment: 1, entry: 1 }));
  });

  test('names entries that expired without an archive, and leaves them out if it is told to', async () => {
    const fed = new FedLogs();
    const [a, b] = [await fed.create(), await fed.create()];
    for (const log of [a, FEED_LOG]) {
      if (log === a) await fed.append(a, 1);
      else await fed.feed(a, b);
      await fed.snapshot(log);
      await fed.logs.client.startSegment(log);
    }
    await fed.append(a, 1);
    await fed.feed(a);
    const { feed } = fed.logs;
    const expire = async (log: LogId, entries: readonly number[]): Promise<void> => {
      const segment = await fed.tables.getSegment(log, 0, { consistent: true });
      if (segment === undefined) throw new Error('the segment is missing');
      await fed.tables.setExpiration(segment, expiring(NOON));
      await fed.tables.deleteEntries(log, 0, entries);
    };
    const read = async (skipExpired: boolean) => {
      const items = await Array.fromAsync(feed.read({ skipExpired }));
      return itemTexts(items, [a, b]).map((text) => text.split(' ', 2).join(' '));
    };
    expect(await read(false)).toEqual(['a 0/0', 'a 0/1', 'a 0/2', 'a 0/3', 'a 1/0', 'b 0/0', 'a 1/1']);
    await expire(a, [0, 1, 2]);
    await expect(read(false)).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND', log: a, segment: 0 });
    expect(await read(true)).toEqual(['a 1/0', 'b 0/0', 'a 1/1']);
    await fed.snapshot(FEED_LOG);
    await expire(FEED_LOG, [0, 1]);
    await expect(read(false)).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND', log: FEED_LOG, segment: 0 });
    expect(await read(true)).toEqual(['a 1/1']);
    await fed.groups.take('late', { owner: 'ann', until: 0 }, { checkpoint: 1, saved: NOON });
    fed.clock.nowMs += 7_000;
    expect(await feed.groups()).toMatchObject([{ name: 'late', lagSeconds: 7 }]);
  });

  test('needs nothing of an expired segment if a span begins after its last entry', async () => {
    const fed = new FedLogs();
    const log = await fed.create();
    await fed.snapshot(log);
    await fed.logs.client.startSegment(log);
    await fed.writer.add([{ log, position: { segment: 0, entry: 2 } }]);
    await fed.feed(log);
    const segment = await fed.tables.getSegment(log, 0, { consistent: true });
    if (segment === undefined) throw new Error('the segment is missing');
    await fed.tables.setExpiration(segment, { state: 'expired', at: NOON, entries: 3 });
    await fed.tables.deleteEntries(log, 0, [0, 1, 2]);
    const { feed } = fed.logs;
    expect(itemTexts(await Array.fromAsync(feed.read({ from: 2 })), [log])).toEqual(['a 1/0 3']);
    await expect(Array.fromAsync(feed.read({ from: 1 }))).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND' });
  });

  test('stops at the limit', async () => {
    const { feed } = await twoLogs();
    expect(await Array.fromAsync(feed.read({ limit: 4 }))).toHaveLength(4);
  });

  test('is empty before the first entry was fed', async () => {
    const { feed } = new FedLogs().logs;
    expect(await Array.fromAsync(feed.read())).toEqual([]);
    expect(await feed.end()).toBe(0);
    expect(await feed.groups()).toEqual([]);
  });

  test('is empty if the feed is created while a reader looks for it', async () => {
    const fed = new FedLogs();
    await fed.feed(await fed.create());
    const { feed } = fed.open();
    // Each of the two searches for the feed asks twice.
    const search = vi.spyOn(fed.tables, 'newestSegments');
    for (let i = 0; i < 4; i++) search.mockResolvedValueOnce([]);
    expect(await Array.fromAsync(feed.read())).toEqual([]);
    expect(await Array.fromAsync(feed.read())).toHaveLength(1);
  });

  test('refuses a checkpoint after the end, and numbers that are not checkpoints', async () => {
    const { fed, feed } = await twoLogs();
    const [next, later] = [4, checkpointOf({ segment: 1, entry: 0 })];
    const highest = 2 ** 52 - 1;
    const ofLastEpoch = [highest - 2 ** 20, highest - 2 ** 20 + 1, highest - 2 ** 20 + 2, highest];
    for (const from of [next, later, ...ofLastEpoch]) {
      for (const { logs } of [fed, new FedLogs()]) {
        for (const follow of [false, true]) {
          const reading = Array.fromAsync(logs.feed.read({ from, follow }));
          await expect(reading, `${from}`).rejects.toMatchObject({ code: 'CHECKPOINT_INVALID' });
        }
      }
    }
    for (const from of [-1, 0.5, highest + 1, 2 ** 53, Number.NaN])
      expect(() => feed.read({ from })).toThrow('not a checkpoint');
    expect(() => feed.read({ limit: 0 })).toThrow('limit');
    expect(() => feed.consume('')).toThrow('name of a group');
  });

  test('logs without a feed say so', async () => {
    const live = await LiveLog.create();
    expect(() => live.logs().feed).toThrow('without a feed');
  });

  test('the feed is not in the list of logs', async () => {
    const { fed, a, b } = await twoLogs();
    const listed = await Array.fromAsync(fed.logs.list());
    expect(listed.map(({ log }) => log).toSorted()).toEqual([a, b].toSorted());
  });

  test('a reader that does not follow misses no entry that eventually consistent reads do not show', async () => {
    const { fed, feed, a, b } = await twoLogs();
    const entries = fed.tables.entries.bind(fed.tables);
    vi.spyOn(fed.tables, 'entries').mockImplementation((log, range, options) => {
      const isStale = log === FEED_LOG && !options.consistent;
      return entries(log, isStale ? { ...range, to: Math.min(range.to, 2) } : range, options);
    });
    expect(itemTexts(await Array.fromAsync(feed.read({ from: 1 })), [a, b]).at(-1)).toBe('a 0/3 3');
    expect(await Array.fromAsync(feed.read({ from: 2 }))).toHaveLength(2);
  });

  test('takes one query for each span, two for the feed and three for its segments', async () => {
    const { fed, feed } = await twoLogs();
    fed.requests.length = 0;
    await Array.fromAsync(feed.read({ from: 1 }));
    expect(fed.requests.toSorted()).toEqual([
      ...Array.from({ length: 6 }, () => 'entries'),
      'getSegment',
      ...Array.from({ length: 2 }, () => 'newestSegments'),
    ]);
  });

  test('requests few spans ahead of a slow reader', async () => {
    const fed = new FedLogs();
    const logs = await Promise.all(Array.from({ length: 60 }, () => fed.create()));
    await fed.feed(...logs);
    fed.requests.length = 0;
    const reader = fed.logs.feed.read();
    await reader.next();
    await settled();
    expect(fed.requests.length).toBeLessThan(30);
    expect(await Array.fromAsync(reader)).toHaveLength(59);
  });

  test('a follower gets what is fed later, and ends with its signal', async () => {
    const { fed, feed, a, b } = await twoLogs();
    const stop = new AbortController();
    const items: FeedItem[] = [];
    const reading = (async () => {
      for await (const item of feed.read({ from: 2, follow: true, signal: stop.signal })) items.push(item);
    })();
    await fed.clock.elapse(10_000);
    expect(itemTexts(items, [a, b])).toEqual(['b 0/1 2', 'a 0/3 3']);
    await fed.append(b, 1);
    await fed.feed(b);
    await fed.clock.elapse(1_000);
    expect(itemTexts(items, [a, b]).at(-1)).toBe('b 0/2 4');
    stop.abort();
    await reading;
    expect(fed.clock.waits).toBe(0);
  });

  test('continues after a restart if the entries before it are gone', async () => {
    const { fed, a, b, feed } = await twoLogs();
    // The tables went back to a time before these entries.
    await fed.writer.add([{ log: a, position: { segment: 0, entry: 9 } }]);
    await fed.feed(b);
    const waits = fed.logs.feed.consume('waits', { follow: true });
    for (let i = 0; i < 6; i++) await waits.next();
    await expect(Array.fromAsync(feed.read())).rejects.toMatchObject({ code: 'ENTRY_GAP' });
    await fed.writer.restart();
    await fed.feed(a, b);
    const all = ['a 0/0', 'a 0/1', 'a 0/2', 'a 0/3', 'b 0/0', 'b 0/1'];
    const texts = (items: readonly FeedItem[]) => itemTexts(items, [a, b]).map((text) => text.slice(0, 5));
    const before = ['a 0/0', 'a 0/1', 'a 0/2', 'b 0/0', 'b 0/1', 'a 0/3'];
    expect(texts(await Array.fromAsync(feed.read()))).toEqual([...before, ...all]);
    expect(texts(await Array.fromAsync(feed.read({ from: 3 })))).toEqual(all);
    const rest: FeedItem[] = [];
    for (let i = 0; i < 6; i++) rest.push((await waits.next()).value ?? expect.unreachable());
    expect(texts(rest)).toEqual(all);
    await waits.return(undefined);
    // After the restart, a gap is an error again.
    await fed.writer.add([{ log: b, position: { segment: 0, entry: 9 } }]);
    await expect(Array.fromAsync(feed.read())).rejects.toMatchObject({ code: 'ENTRY_GAP' });
  });

  test('gives no entry again if entries after a restart are gone', async () => {
    const { fed, a, b, feed } = await twoLogs();
    const before = itemTexts(await Array.fromAsync(feed.read()), [a, b]);
    await fed.writer.restart();
    await fed.feed(a);
    await fed.feed(b);
    await fed.writer.add([{ log: b, position: { segment: 0, entry: 9 } }]);
    const items: FeedItem[] = [];
    const reading = async () => {
      for await (const item of feed.read()) items.push(item);
    };
    await expect(reading()).rejects.toMatchObject({ code: 'ENTRY_GAP' });
    expect(items).toHaveLength(2 * before.length);
  });

  test('a reader before a restart continues after it when the feed has a snapshot there', async () => {
    const { fed, feed, a, b } = await twoLogs();
    const restart = await fed.writer.restart();
    await fed.feed(a);
    const all = ['a 0/0', 'a 0/1', 'a 0/2', 'a 0/3'];
    const read = async (from: number) => {
      const items = await Array.fromAsync(feed.read({ from }));
      return itemTexts(items, [a, b]).map((text) => text.split(' ', 2).join(' '));
    };
    // Without a snapshot, the entries of before come first.
    expect(await read(2)).toEqual(['b 0/1', 'a 0/3', ...all]);
    await fed.snapshot(FEED_LOG);
    for (const from of [0, 2, restart, restart + 1]) expect(await read(from)).toEqual(all);
    expect(await read(await feed.end())).toEqual([]);
    await fed.writer.restart();
    await fed.feed(b);
    // The newest restart counts, also if no snapshot has it yet.
    expect(await read(2)).toEqual(['b 0/0', 'b 0/1']);
  });
});
