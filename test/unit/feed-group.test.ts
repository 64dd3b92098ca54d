import { describe, expect, test } from 'vitest';
import type { FeedItem } from '../../src/client/feed.ts';
import type { GroupLease, GroupProgress } from '../../src/feed/group-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { FedLogs, itemTexts, settled } from '../support/fed-logs.ts';
import { NOON } from '../support/logs.ts';

/** A log with this many entries. The feed got them one by one. */
async function fedLog(entries: number): Promise<{ fed: FedLogs; log: LogId }> {
  const fed = new FedLogs();
  const log = await fed.create();
  for (let i = 0; i < entries; i++) {
    if (i > 0) await fed.append(log, 1);
    await fed.feed(log);
  }
  return { fed, log };
}

const entriesOf = (items: readonly FeedItem[]): number[] => items.map(({ entry }) => entry.position.entry);
const consumed = async (fed: FedLogs): Promise<number[]> => {
  return entriesOf(await Array.fromAsync(fed.open().feed.consume('search')));
};

/** By then, a member that works has renewed its lease, or found that it has none. */
const RENEWED_MS = 20_000;

/** Counts the saves of a group. */
function countSaves({ groups }: FedLogs): { count: number } {
  const saves = { count: 0 };
  const save = groups.save.bind(groups);
  groups.save = (name: string, lease: GroupLease, progress: GroupProgress) => {
    saves.count++;
    return save(name, lease, progress);
  };
  return saves;
}

describe('a consumer group', () => {
  test('remembers what it has done, and continues after it', async () => {
    const { fed, log } = await fedLog(3);
    expect(await consumed(fed)).toEqual([0, 1, 2]);
    expect(await consumed(fed)).toEqual([]);
    await fed.append(log, 1);
    await fed.feed(log);
    expect(await consumed(fed)).toEqual([3]);
  });

  test('gets an item again if its member did not ask for the next one', async () => {
    const { fed } = await fedLog(4);
    for await (const { entry } of fed.logs.feed.consume('search')) if (entry.position.entry === 2) break;
    expect(await consumed(fed)).toEqual([2, 3]);
  });

  test('gets items again from the last save on after a crash', async () => {
    const { fed } = await fedLog(6);
    const crashed = fed.logs.feed.consume('search');
    await crashed.next();
    await crashed.next();
    fed.clock.nowMs += 5_000;
    await crashed.next();
    await crashed.next();
    // The process is gone: nobody gives the lease back.
    fed.clock.nowMs += 60_001;
    expect(await consumed(fed)).toEqual([2, 3, 4, 5]);
  });

  test('begins at `from` if it is new, and only then', async () => {
    const { fed } = await fedLog(4);
    const items = await Array.fromAsync(fed.logs.feed.consume('search', { from: 3, limit: 1 }));
    expect(entriesOf(items)).toEqual([2]);
    expect(entriesOf(await Array.fromAsync(fed.logs.feed.consume('search', { from: 0 })))).toEqual([3]);
  });

  test('is not created at a checkpoint after the end of the feed, which it could never leave', async () => {
    const { fed } = await fedLog(2);
    const begin = (from: number) => Array.fromAsync(fed.logs.feed.consume('search', { from }));
    await expect(begin(4)).rejects.toMatchObject({ code: 'CHECKPOINT_INVALID' });
    expect(await fed.groups.get('search')).toBeUndefined();
    expect(entriesOf(await begin(2))).toEqual([1]);
    expect(await begin(4)).toEqual([]);
  });

  test('counts the last item of a limit as done', async () => {
    const { fed } = await fedLog(4);
    expect(entriesOf(await Array.fromAsync(fed.logs.feed.consume('search', { limit: 2 })))).toEqual([0, 1]);
    expect(await consumed(fed)).toEqual([2, 3]);
  });

  test('continues within what the feed got together', async () => {
    const fed = new FedLogs();
    const [a, b, c] = [await fed.create(), await fed.create(), await fed.create()];
    for (const log of [a, b]) await fed.append(log, 2);
    await fed.feed(a, b, c);
    await fed.append(c, 1);
    await fed.feed(c);
    const texts: string[] = [];
    for (let runs = 0; runs < 9; runs++) {
      const items = await Array.fromAsync(fed.open().feed.consume('search', { limit: 1 }));
      texts.push(...itemTexts(items, [a, b, c]));
    }
    expect(texts).toEqual([
      ...['a 0/0 1', 'a 0/1 1', 'a 0/2 1', 'b 0/0 1', 'b 0/1 1', 'b 0/2 1'],
      ...['c 0/0 2', 'c 0/1 3'],
    ]);
  });

  test('reads none of what is done within an entry of the feed', async () => {
    const fed = new FedLogs();
    const logs = await Promise.all(Array.from({ length: 30 }, () => fed.create()));
    await fed.feed(...logs);
    await Array.fromAsync(fed.logs.feed.consume('search', { limit: 28 }));
    fed.requests.length = 0;
    expect(await Array.fromAsync(fed.logs.feed.consume('search'))).toHaveLength(2);
    expect(fed.requests.filter((name) => name === 'entries')).toHaveLength(2 + 2);
  });

  test('saves every 1,000 items', async () => {
    const fed = new FedLogs();
    const logs = await Promise.all(Array.from({ length: 1_200 }, () => fed.create()));
    await fed.feed(...logs);
    const saves = countSaves(fed);
    const member = fed.logs.feed.consume('search');
    for (let i = 0; i < 1_000; i++) await member.next();
    expect(saves.count).toBe(0);
    await member.next();
    expect(saves.count).toBe(1);
    expect(await fed.groups.get('search')).toMatchObject({ within: { span: 999 - 800 } });
    await member.return(undefined);
  });

  describe('in batches', () => {
    const numbers = (batches: readonly (readonly FeedItem[])[]) => batches.map(entriesOf);

    test('gets its items in order, and fewer before the end', async () => {
      const { fed } = await fedLog(7);
      const batches = await Array.fromAsync(fed.logs.feed.consumeBatches('search', { size: 3 }));
      expect(numbers(batches)).toEqual([[0, 1, 2], [3, 4, 5], [6]]);
      expect(await consumed(fed)).toEqual([]);
      const limited = await Array.fromAsync(fed.logs.feed.consumeBatches('mail', { size: 3, limit: 4 }));
      expect(numbers(limited)).toEqual([[0, 1, 2], [3]]);
    });

    test('gets a batch again if its member failed in it, and saves each one that is done', async () => {
      const { fed } = await fedLog(7);
      const saves = countSaves(fed);
      const failing = (async () => {
        for await (const batch of fed.logs.feed.consumeBatches('search', { size: 3 })) {
          if (batch[0]?.entry.position.entry === 3) throw new Error('the index is down');
        }
      })();
      await expect(failing).rejects.toThrow('the index is down');
      expect(saves.count).toBe(1);
      expect(await consumed(fed)).toEqual([3, 4, 5, 6]);
    });

    test('gets a batch that is not full as soon as the feed has no more', async () => {
      const { fed, log } = await fedLog(2);
      const stop = new AbortController();
      const batches = fed.logs.feed.consumeBatches('search', { follow: true, signal: stop.signal });
      expect(entriesOf((await batches.next()).value ?? [])).toEqual([0, 1]);
      const next = batches.next();
      await fed.append(log, 1);
      await fed.feed(log);
      await fed.clock.elapse(1_000);
      expect(entriesOf((await next).value ?? [])).toEqual([2]);
      expect(await fed.groups.get('search')).toMatchObject({ checkpoint: 3 });
      stop.abort();
      expect(await batches.next()).toEqual({ done: true, value: undefined });
      expect(await consumed(fed)).toEqual([]);
    });

    test('takes whole numbers as sizes', async () => {
      const { feed } = new FedLogs().logs;
      for (const size of [0, 1.5, -1]) expect(() => feed.consumeBatches('search', { size })).toThrow('the size');
    });
  });

  test('other groups are not affected', async () => {
    const { fed } = await fedLog(2);
    await fed.logs.feed.consume('search').next();
    expect(await Array.fromAsync(fed.logs.feed.consume('mail'))).toHaveLength(2);
  });

  test('the advice names a group as one word of a shell command', async () => {
    const { fed } = await fedLog(1);
    const name = "the $(team)'s";
    await fed.logs.feed.consume(name).next();
    const refused = Array.fromAsync(fed.logs.feed.consume(name));
    await expect(refused).rejects.toThrow("'logfold feed --group 'the $(team)'\\''s' --release'");
  });

  test('two members work one after the other', async () => {
    const { fed, log } = await fedLog(2);
    const stop = new AbortController();
    const first = fed.logs.feed.consume('search', { follow: true, signal: stop.signal });
    expect(entriesOf([(await first.next()).value ?? fail()])).toEqual([0]);
    await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });

    const second: FeedItem[] = [];
    const waiting = (async () => {
      const items = fed.open().feed.consume('search', { follow: true, limit: 2 });
      for await (const item of items) second.push(item);
    })();
    await fed.clock.elapse(10 * 60_000);
    expect(second).toEqual([]);

    expect(entriesOf([(await first.next()).value ?? fail()])).toEqual([1]);
    stop.abort();
    expect(await first.next()).toEqual({ done: true, value: undefined });
    await fed.append(log, 2);
    await fed.feed(log);
    await fed.clock.elapse(5_000);
    await waiting;
    // The feed got entries 2 and 3 together.
    expect(entriesOf(second)).toEqual([2, 3]);
  });

  test('a member keeps its lease while it waits for items', async () => {
    const { fed, log } = await fedLog(1);
    const stop = new AbortController();
    const member = fed.logs.feed.consume('search', { follow: true, signal: stop.signal });
    await member.next();
    const waiting = member.next();
    await fed.clock.elapse(60 * 60_000);
    await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    await fed.append(log, 1);
    await fed.feed(log);
    await fed.clock.elapse(1_000);
    expect(entriesOf([(await waiting).value ?? fail()])).toEqual([1]);
    await member.return(undefined);
    expect(fed.clock.waits).toBe(0);
  });

  test('a member that works too long on one item loses its lease to another one', async () => {
    const { fed } = await fedLog(3);
    const member = fed.logs.feed.consume('search');
    await member.next();
    await fed.clock.elapse(14 * 60_000);
    await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    await fed.clock.elapse(3 * 60_000);
    expect(await consumed(fed)).toEqual([0, 1, 2]);
    await fed.clock.elapse(5_000);
    await expect(member.next()).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    expect(await fed.groups.get('search')).toMatchObject({ checkpoint: 4 });
  });

  describe('a wrong clock', () => {
    const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 24 * 3_600_000];

    /**
     * A group whose member was killed in its second item.
     * @param clockErrorMs how far the clock of the member was ahead
     */
    async function killed(clockErrorMs: number): Promise<FedLogs> {
      const { fed } = await fedLog(3);
      const until = fed.clock.nowMs + clockErrorMs + MINUTE;
      await fed.groups.take('search', { owner: 'ann', until }, { checkpoint: 2, saved: NOON });
      return fed;
    }

    test.each([-400 * DAY, -HOUR, 6 * MINUTE, 26 * HOUR, 400 * DAY])(
      'does not make a killed member block another one (%i ms)',
      async (clockErrorMs) => {
        const fed = await killed(clockErrorMs);
        expect(await consumed(fed)).toEqual([1, 2]);
      },
    );

    test('delays another member by as much if it is a matter of minutes', async () => {
      const fed = await killed(4 * MINUTE);
      await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
      fed.clock.nowMs += 5 * MINUTE - 1;
      await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
      fed.clock.nowMs += 1;
      expect(await consumed(fed)).toEqual([1, 2]);
    });

    test.each([-DAY, 0, 4 * MINUTE, 26 * HOUR])(
      'does not prolong the lease for a member that waits (%i ms)',
      async (clockErrorMs) => {
        const fed = await killed(clockErrorMs);
        const waiting = Array.fromAsync(fed.logs.feed.consume('search', { follow: true, limit: 2 }));
        await fed.clock.elapse(MINUTE - 1);
        expect(await fed.groups.get('search')).toMatchObject({ lease: { owner: 'ann' } });
        await fed.clock.elapse(1);
        expect(entriesOf(await waiting)).toEqual([1, 2]);
      },
    );

    test.each([-DAY, -HOUR, HOUR, DAY])(
      'does not let a waiting member take a lease that is renewed (%i ms)',
      async (clockErrorMs) => {
        const { fed } = await fedLog(3);
        const stop = new AbortController();
        const works = fed.logs.feed.consume('search', { follow: true, signal: stop.signal });
        await works.next();
        const waits = fed.open(clockErrorMs).feed.consume('search', { follow: true, limit: 1 });
        const waiting = waits.next();
        await fed.clock.elapse(10 * MINUTE);
        expect(entriesOf([(await works.next()).value ?? fail()])).toEqual([1]);
        stop.abort();
        expect(await works.next()).toEqual({ done: true, value: undefined });
        await fed.clock.elapse(5_000);
        expect(entriesOf([(await waiting).value ?? fail()])).toEqual([2]);
        await waits.return(undefined);
      },
    );

    test('makes two members work for a moment, and loses no item', async () => {
      const { fed } = await fedLog(3);
      const works = fed.open(DAY).feed.consume('search');
      await works.next();
      expect(await consumed(fed)).toEqual([0, 1, 2]);
      await fed.clock.elapse(RENEWED_MS);
      await expect(works.next()).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    });
  });

  test('is freed by hand, and keeps its place', async () => {
    const { fed } = await fedLog(3);
    const works = fed.logs.feed.consume('search');
    await works.next();
    await works.next();
    fed.clock.nowMs += 5_000;
    await works.next();
    await expect(consumed(fed)).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    const { feed } = fed.open();
    expect(await feed.release('search')).toMatchObject({ checkpoint: 3, lease: { until: expect.any(Number) } });
    expect(await fed.groups.get('search')).toEqual({ name: 'search', checkpoint: 3, saved: expect.any(Number) });
    expect(await feed.release('search')).toMatchObject({ checkpoint: 3 });
    await fed.clock.elapse(RENEWED_MS);
    await expect(works.next()).rejects.toMatchObject({ code: 'FEED_GROUP_BUSY' });
    expect(await consumed(fed)).toEqual([2]);
    await expect(feed.release('serach')).rejects.toThrow("there is no consumer group 'serach'");
  });

  test('an error of the consumer gives the lease back without that item', async () => {
    const { fed } = await fedLog(3);
    const failing = (async () => {
      for await (const { entry } of fed.logs.feed.consume('search')) {
        if (entry.position.entry === 1) throw new Error('the index is down');
      }
    })();
    await expect(failing).rejects.toThrow('the index is down');
    expect(await consumed(fed)).toEqual([1, 2]);
  });

  test('an error of the feed is not hidden by one of the group', async () => {
    const { fed, log } = await fedLog(2);
    await fed.writer.add([{ log, position: { segment: 0, entry: 9 } }]);
    const { groups } = fed;
    const release = groups.release.bind(groups);
    groups.release = async (...progress) => {
      await release(...progress);
      throw new Error('the group cannot be saved');
    };
    await expect(consumed(fed)).rejects.toMatchObject({ code: 'ENTRY_GAP' });
    expect(await groups.get('search')).toMatchObject({ checkpoint: 3 });
  });

  test('the list shows how far each group is behind', async () => {
    const { fed, log } = await fedLog(2);
    await Array.fromAsync(fed.logs.feed.consume('search'));
    await Array.fromAsync(fed.logs.feed.consume('mail', { limit: 1 }));
    fed.clock.nowMs += 90_000;
    await fed.append(log, 1);
    await fed.feed(log);
    fed.clock.nowMs += 10_000;
    const listed = await fed.logs.feed.groups();
    expect(listed.map(({ name, checkpoint, lagSeconds }) => ({ name, checkpoint, lagSeconds }))).toEqual([
      { name: 'mail', checkpoint: 2, lagSeconds: 100 },
      { name: 'search', checkpoint: 3, lagSeconds: 10 },
    ]);
    await settled();
  });
});

function fail(): never {
  throw new Error('there is no item');
}
