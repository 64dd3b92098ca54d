import { describe, expect, test } from 'vitest';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import type { Position } from '../../src/ids/position.ts';
import { chunkPrefix } from '../../src/store/keys.ts';
import { runJob } from '../../src/workers/dispatch/run-job.ts';
import { FeedWriter, type LogPosition } from '../../src/workers/feed/feed-writer.ts';
import { FedLogs } from '../support/fed-logs.ts';
import { fedEnds, feedEntries, feedSpans, numberedLog } from '../support/feed.ts';
import { LiveLog } from '../support/live-logs.ts';
import { unarchived } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';

const at = (segment: number, entry: number): Position => ({ segment, entry });
const end = (number: number, segment: number, entry: number): LogPosition => {
  return { log: numberedLog(number), position: at(segment, entry) };
};

async function openFeed() {
  const random = new Random(1);
  const live = await LiveLog.create();
  const store = unarchived(live.sheet.tables);
  const waits: number[] = [];
  // Lets the other writers run, as a real wait does.
  const sleep = async (ms: number): Promise<void> => {
    waits.push(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const writer = () => new FeedWriter({ logs: live.logs(), sleep, random: () => random.next() });
  return { live, store, waits, writer };
}

describe('the feed writer', () => {
  test('feeds a log from its first entry onward, each entry once', { tags: ['I10'] }, async () => {
    const { store, writer } = await openFeed();
    const one = writer();
    expect(await one.add([end(1, 0, 3)])).toEqual({
      spans: 1,
      entries: [at(0, 1)],
      checkpoint: 2,
      ahead: [],
    });
    expect(await one.add([end(1, 0, 7), end(1, 1, 2), end(1, 0, 9), end(2, 0, 0)])).toMatchObject({ spans: 2 });
    expect(await feedSpans(store)).toEqual(
      new Map([
        [
          numberedLog(1),
          [
            { log: numberedLog(1), after: undefined, to: at(0, 3) },
            { log: numberedLog(1), after: at(0, 3), to: at(1, 2) },
          ],
        ],
        [numberedLog(2), [{ log: numberedLog(2), after: undefined, to: at(0, 0) }]],
      ]),
    );
  });

  test('sends nothing for ends that the feed has, and answers where the feed ends and what it has after them', async () => {
    const { live, writer } = await openFeed();
    const one = writer();
    const { checkpoint } = await one.add([end(1, 0, 3), end(2, 0, 1)]);
    live.requests.length = 0;
    const ahead = [end(1, 0, 3)];
    expect(await one.add([end(2, 0, 1), end(1, 0, 2)])).toEqual({ spans: 0, entries: [], checkpoint, ahead });
    expect(live.requests).toEqual([]);
  });

  test('goes on after its table was restored from a backup', async () => {
    const fed = new FedLogs();
    const log = await fed.create();
    await fed.feed(log);
    await fed.append(log, 1);
    await fed.feed(log);
    await fed.tables.deleteEntries(FEED_LOG, 0, [2]);
    fed.clock.nowMs += 60 * 60_000;
    await fed.append(log, 1);
    await fed.feed(log);
    expect(await fedEnds(fed.store)).toEqual({ [log]: '0/2' });
  });

  test('takes one request for a batch', async () => {
    const { live, writer } = await openFeed();
    const one = writer();
    await one.add([end(1, 0, 3)]);
    live.requests.length = 0;
    await one.add(Array.from({ length: 100 }, (_, i) => end(i, 0, 5)));
    expect(live.requests).toEqual(['putEntries']);
  });

  test('knows nothing of a feed without an end', async () => {
    const { live, writer } = await openFeed();
    live.requests.length = 0;
    expect(await writer().add([])).toEqual({ spans: 0, entries: [], checkpoint: undefined, ahead: [] });
    expect(await writer().add([{ log: FEED_LOG, position: at(0, 0) }])).toMatchObject({ checkpoint: undefined });
    expect(live.requests).toEqual([]);
  });

  test('writers that run together leave no gap and no duplicate', { tags: ['I10'] }, async () => {
    const { store, writer } = await openFeed();
    const writers = Array.from({ length: 4 }, writer);
    await Promise.all(
      Array.from({ length: 5 }, (_, round) =>
        writers.map((each, i) => each.add([end(1, 0, round * 4 + i), end(i, 0, round * 2 + 1)])),
      ).flat(),
    );
    expect(await fedEnds(store)).toEqual({
      [numberedLog(0)]: '0/9',
      [numberedLog(1)]: '0/19',
      [numberedLog(2)]: '0/9',
      [numberedLog(3)]: '0/9',
    });
  });

  test('many writers wait for each other, and none gives up', { tags: ['I10'] }, async () => {
    const { store, waits, writer } = await openFeed();
    const writers = Array.from({ length: 12 }, writer);
    await Promise.all(
      writers.map(async (each, i) => {
        for (let entry = 0; entry < 5; entry++) await each.add([end(i, 0, entry)]);
      }),
    );
    expect(Object.values(await fedEnds(store))).toEqual(writers.map(() => '0/4'));
    expect(waits.length).toBeGreaterThan(0);
  });

  test('a writer that missed other entries reads them and goes on', { tags: ['I10'] }, async () => {
    const { store, writer } = await openFeed();
    const [one, two] = [writer(), writer()];
    await one.add([end(1, 0, 1)]);
    await two.add([end(1, 0, 5)]);
    expect(await one.add([end(1, 0, 4)])).toMatchObject({ spans: 0, checkpoint: 3 });
    expect(await one.add([end(1, 0, 6)])).toMatchObject({ spans: 1, checkpoint: 4 });
    expect(await fedEnds(store)).toEqual({ [numberedLog(1)]: '0/6' });
  });

  test('reads what is new after each twentieth batch', async () => {
    const { live, writer } = await openFeed();
    const one = writer();
    await one.add([end(1, 0, 0)]);
    live.requests.length = 0;
    for (let entry = 1; entry <= 40; entry++) await one.add([end(1, 0, entry)]);
    expect(live.requests.filter((name) => name === 'putEntries')).toHaveLength(40);
    expect(live.requests.filter((name) => name === 'entries')).toHaveLength(2);
  });

  test('opens the feed again if chunks of its state are gone', { tags: ['I10'] }, async () => {
    const { live, store, writer } = await openFeed();
    await writer().add(Array.from({ length: 3_000 }, (_, i) => end(i, 0, 3)));
    const { position } = await live.logs().client.addSnapshot(FEED_LOG);
    await runJob(
      { ...live.sheet.deps, queue: { send: async () => undefined } },
      { kind: 'snapshot', log: FEED_LOG, position },
    );
    const { blobs } = live.sheet;
    const chunks = new Map<string, Uint8Array>();
    let gets = 0;
    live.interceptor = async (name, effect) => {
      if (name !== 'get') return effect();
      gets++;
      if (gets === 1) {
        for await (const { key } of blobs.list(chunkPrefix(FEED_LOG)))
          chunks.set(key, (await blobs.get(key)) ?? new Uint8Array());
        await blobs.delete([...chunks.keys()]);
      } else for (const [key, bytes] of chunks) await blobs.put(key, bytes);
      return effect();
    };
    expect(await writer().add([end(7, 0, 3), end(8, 0, 4)])).toMatchObject({ spans: 1 });
    expect(gets).toBeGreaterThan(1);
    expect((await fedEnds(store))[numberedLog(8)]).toBe('0/4');
  });

  test('divides more than 400 spans among entries, which all stay in the table', async () => {
    const { live, store, writer } = await openFeed();
    const ends = Array.from({ length: 1_000 }, (_, i) => end(i, 4_000_000_000, 4_000_000_000));
    const one = writer();
    const { spans, entries } = await one.add(ends);
    expect({ spans, entries: entries.length }).toEqual({ spans: 1_000, entries: 3 });
    await one.add(ends.map(({ log }) => ({ log, position: at(4_000_000_001, 4_000_000_000) })));
    expect(live.requests).not.toContain('put');
    expect(Object.keys(await fedEnds(store))).toHaveLength(1_000);
  });

  test('after a restart, the feed has each log again from its first entry onward', { tags: ['I10'] }, async () => {
    const { store, writer } = await openFeed();
    const [one, two] = [writer(), writer()];
    await one.add([end(1, 0, 1), end(2, 0, 8)]);
    await two.add([end(1, 0, 2)]);
    expect(await one.restart()).toBe(3);
    // The second writer has not read the restart.
    await two.add([end(1, 0, 3)]);
    await one.add([end(2, 0, 8)]);
    expect(await feedSpans(store)).toEqual(
      new Map(
        [1, 2].map((n) => [numberedLog(n), [{ log: numberedLog(n), after: undefined, to: at(0, n === 1 ? 3 : 8) }]]),
      ),
    );
    expect((await feedEntries(store)).map(({ type }) => type)).toEqual([
      'Snapshot',
      'Appends',
      'Appends',
      'Restart',
      'Appends',
      'Appends',
    ]);
  });
});
