import { describe, expect, expectTypeOf, test, vi } from 'vitest';
import * as z from 'zod';
import { MemoryTable } from '../../src/adapters/memory/table.ts';
import type { Document } from '../../src/client/document.ts';
import { Logs } from '../../src/client/logs.ts';
import {
  FoldFailedError,
  LogsClosedError,
  PolicyInvalidError,
  ReducerInvalidError,
  UsageError,
} from '../../src/errors.ts';
import { FakeClock, type MemoryLogs, type MemoryLogsOptions, openLogs } from '../../src/exports/testing.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { type Entry, rootOf } from '../../src/log/entry.ts';
import { defineReducer, stringMap } from '../../src/state/define-reducer.ts';
import type { Reducer } from '../../src/state/reducer.ts';

const votes = defineReducer({
  name: 'votes',
  version: 1,
  maps: { counts: stringMap<number>() },
  entries: { Vote: { 1: z.string() } },
  fold: {
    async Vote({ counts }, { body }) {
      if (body === 'poison') throw new Error('nobody drinks poison');
      counts.put(body, ((await counts.get(body)) ?? 0) + 1);
    },
  },
});

const tea = votes.entry('Vote', 1, 'tea');
const DAY_MS = 24 * 3600 * 1000;

function countOf(document: Document<typeof votes>, drink = 'tea'): Promise<number | undefined> {
  return votes.mapsOf(document.state).counts.get(drink);
}

/** Everything that the client reads of a log, and a snapshot of it. */
async function story(logs: MemoryLogs): Promise<{ readonly log: LogId; readonly entries: readonly Entry[] }> {
  const log = await logs.create();
  const poll = await logs.open(log, { reducer: votes });
  await poll.append([tea, tea]);
  await logs.clock.advance(1234);
  await poll.append(tea);
  await logs.client.addSnapshot(log);
  await logs.pipeline.run();
  const { entries: pages } = await logs.client.query(log, { from: { segment: 0, entry: 0 } });
  const entries = (await Array.fromAsync(pages)).flat();
  await logs.close();
  return { log, entries };
}

describe('logs in memory', () => {
  test('are logs like any others, whose documents keep the types of their reducer', async () => {
    const logs = openLogs();
    expect(logs).toBeInstanceOf(Logs);
    const log = await logs.create('org-7/poll', { attributes: { owner: 'Ann' } });
    const poll = await logs.open(log, { reducer: votes });
    expectTypeOf(poll).toEqualTypeOf<Document<typeof votes>>();
    await poll.append(tea);
    await poll.mutate({ type: 'Vote', version: 1, body: 'milk' });
    const other = await logs.open(log, { reducer: votes });
    expect([await countOf(other), await countOf(other, 'milk')]).toEqual([1, 1]);
    expect(await Array.fromAsync(logs.list({ prefix: 'org-7/' }))).toMatchObject([{ log: 'org-7/poll' }]);
    await logs.close();
    await expect(logs.create()).rejects.toThrow(LogsClosedError);
    await expect(logs.pipeline.run()).rejects.toThrow(LogsClosedError);
  });

  test('share nothing with others', async () => {
    const [logs, others] = [openLogs(), openLogs()];
    await logs.create('poll');
    await expect(others.open('poll', { reducer: votes })).rejects.toMatchObject({ code: 'LOG_NOT_FOUND' });
  });

  test('are equal after equal calls, down to ids, times and the bytes of snapshots', async () => {
    const [first, second] = [await story(openLogs({ reducer: votes })), await story(openLogs({ reducer: votes }))];
    expect(first).toEqual(second);
    expect(first.log).toBe('00000000-0000-4000-8000-000000000001');
    expect(first.entries.map(({ milliseconds }) => milliseconds)).toEqual([
      undefined,
      undefined,
      undefined,
      234,
      undefined,
    ]);
    expect(first.entries.map(rootOf)).toContainEqual({ inline: expect.any(Uint8Array) });
  });

  test('two clients that append at the same time both succeed', async () => {
    const logs = openLogs();
    const log = await logs.create();
    const clients = await Promise.all(Array.from({ length: 5 }, () => logs.open(log, { reducer: votes })));
    await Promise.all(clients.map((client) => client.append(tea)));
    await clients[0]?.refresh();
    expect(clients[0] && (await countOf(clients[0]))).toBe(5);
  });

  test('answer the requests of pages', async () => {
    const logs = openLogs();
    const answer = await logs.answer({ format: 1, call: 'nothing' }, { allows: () => true });
    expect(answer).toBeTypeOf('object');
  });

  test.each<[string, () => unknown, new (...args: never[]) => Error]>([
    ['an unknown option', () => openLogs(withOption('directory', 'data')), UsageError],
    ['a reducer without a fold', () => openLogs(withOption('reducer', { name: 'votes' })), ReducerInvalidError],
    ['a clock that is none', () => openLogs(withOption('clock', Date)), UsageError],
    ['a negative division', () => openLogs({ division: { snapshotEveryEntries: -1 } }), PolicyInvalidError],
    ['a retention of no segment', () => openLogs({ retention: { keepSegments: 0 } }), PolicyInvalidError],
  ])('%s is refused', (_, open, error) => {
    expect(open).toThrow(error);
  });
});

/** Options as a program without types may give them. */
function withOption(name: string, value: unknown): MemoryLogsOptions {
  const options: MemoryLogsOptions = {};
  Object.assign(options, { [name]: value });
  return options;
}

describe('the pipeline', () => {
  test('builds the snapshots that were asked for, and only when it runs', async () => {
    const logs = openLogs({ reducer: votes });
    const poll = await logs.open(await logs.create(), { reducer: votes });
    await poll.append([tea, tea]);
    const { position } = await logs.client.addSnapshot(poll.log);
    expect((await logs.open(poll.log, { reducer: votes })).snapshot).toBeUndefined();
    expect(await logs.pipeline.run()).toEqual(
      expect.arrayContaining([expect.stringContaining(`snapshot ${poll.log}`)]),
    );
    const later = await logs.open(poll.log, { reducer: votes });
    expect([later.snapshot, await countOf(later)]).toEqual([position, 2]);
  });

  test('does nothing if nothing is due', async () => {
    const logs = openLogs({ reducer: votes });
    expect(await logs.pipeline.run()).toEqual([]);
    await logs.create();
    await logs.pipeline.run();
    expect(await logs.pipeline.run()).toEqual([]);
  });

  test('appends the Snapshot entries and starts the segments that the division policy makes due', async () => {
    const logs = openLogs({ reducer: votes, division: { snapshotEveryEntries: 3, segmentEveryEntries: 6 } });
    const poll = await logs.open(await logs.create(), { reducer: votes });
    for (let i = 0; i < 12; i++) {
      await poll.append(tea);
      await logs.pipeline.run();
    }
    const later = await logs.open(poll.log, { reducer: votes });
    expect(later.snapshot?.segment).toBeGreaterThan(0);
    expect([later.number, await countOf(later)]).toEqual([12, 12]);
  });

  test.each(['delete', 'ttl'] as const)('archives and expires segments (%s), which stay readable', async (expire) => {
    const logs = openLogs({ reducer: votes, retention: { keepSegments: 1, keepDays: 7, expire } });
    const poll = await logs.open(await logs.create(), { reducer: votes });
    await poll.append([tea, tea]);
    await logs.client.addSnapshot(poll.log);
    await logs.pipeline.run();
    await logs.client.startSegment(poll.log);
    await logs.pipeline.run();
    await poll.append(tea);
    const early = await logs.pipeline.run();
    expect(early.filter((text) => text.startsWith('archive'))).toEqual([]);
    await logs.clock.advance(8 * DAY_MS);
    const deletes = vi.spyOn(MemoryTable.prototype, 'delete');
    expect(await logs.pipeline.run()).toEqual(expect.arrayContaining([expect.stringMatching(/^archive /)]));
    expect(deletes).not.toHaveBeenCalled();
    for (let day = 0; day < 3; day++) {
      await logs.clock.advance(DAY_MS);
      await logs.pipeline.run();
    }
    expect(deletes).toHaveBeenCalledTimes(5);
    deletes.mockRestore();
    const past = await poll.at({ number: 2 });
    expect(await votes.mapsOf(past).counts.get('tea')).toBe(1);
    const later = await logs.open(poll.log, { reducer: votes });
    expect(await countOf(later)).toBe(3);
  });

  test('writes the feed, which consumers read', async () => {
    const logs = openLogs({ reducer: votes });
    const log = await logs.create();
    await logs.client.addEntries(log, [tea, tea]);
    await logs.pipeline.run();
    const bodies: unknown[] = [];
    for await (const item of logs.feed.consume('mails')) bodies.push(await item.body());
    // The first entry of a log is a Snapshot entry.
    expect(bodies).toEqual([null, 'tea', 'tea']);
  });

  test('throws what the reducer threw, and goes on with other logs', async () => {
    const logs = openLogs({ reducer: votes });
    const [bad, good] = [await logs.create(), await logs.create()];
    await logs.client.addEntry(bad, votes.entry('Vote', 1, 'poison'));
    await logs.client.addEntry(good, tea);
    for (const log of [bad, good]) await logs.client.addSnapshot(log);
    const running = logs.pipeline.run();
    await expect(running).rejects.toThrow(FoldFailedError);
    await expect(running).rejects.toMatchObject({ log: bad, cause: { message: 'nobody drinks poison' } });
    expect((await logs.open(good, { reducer: votes })).snapshot).toBeDefined();
  });

  test('needs a reducer', async () => {
    await expect(openLogs().pipeline.run()).rejects.toThrow('the pipeline has no reducer');
  });
});

describe('the clock', () => {
  test('stands still, and gives entries their times with milliseconds', async () => {
    const seen: number[] = [];
    const times: Reducer = { name: 'times', version: 1, fold: (_, { createdMs }) => void seen.push(createdMs) };
    const logs = openLogs();
    const document = await logs.open(await logs.create(), { reducer: times });
    const tick = { type: 'Tick', version: 1 };
    await document.append([tick, tick]);
    await logs.clock.advance(1001);
    await document.append(tick);
    logs.clock.set(new Date('2020-02-29T12:00:00.007Z'));
    await document.append(tick);
    const start = Date.UTC(2025, 0, 1);
    expect(seen).toEqual([start, start, start + 1001, Date.UTC(2020, 1, 29, 12, 0, 0, 7)]);
  });

  test('several logs can share one', async () => {
    const clock = new FakeClock(new Date('2024-06-01'));
    const [logs, others] = [openLogs({ clock }), openLogs({ clock })];
    await logs.clock.advance(5);
    expect(others.clock.now()).toBe(Date.UTC(2024, 5, 1) + 5);
  });

  test('moves a watch on, which refreshes at its times', async () => {
    const logs = openLogs();
    const log = await logs.create();
    const [poll, other] = [await logs.open(log, { reducer: votes }), await logs.open(log, { reducer: votes })];
    const refresh = vi.spyOn(poll, 'refresh');
    // Too long for a timer of Node, so that only the clock can end the wait.
    const days = 20 * DAY_MS;
    const stop = poll.watch({
      intervalMs: days,
      maxIntervalMs: days,
      onError: (error) => expect.unreachable(String(error)),
    });
    await other.append(tea);
    await logs.clock.advance(days / 2 - 1);
    expect([refresh.mock.calls.length, await countOf(poll)]).toEqual([0, undefined]);
    await logs.clock.advance(10 * days);
    expect(refresh.mock.calls.length).toBeGreaterThanOrEqual(10);
    expect(refresh.mock.calls.length).toBeLessThanOrEqual(21);
    expect(await countOf(poll)).toBe(1);
    stop();
  });

  test('ends waits in the order of their times, and each at its time', async () => {
    const clock = new FakeClock(0);
    const ends: [string, number][] = [];
    const wait = async (name: string, ms: number) => {
      await clock.sleep(ms);
      ends.push([name, clock.now()]);
    };
    void wait('b', 2 * DAY_MS);
    void wait('a', DAY_MS).then(() => wait('c', DAY_MS + 1));
    void wait('d', 9 * DAY_MS);
    await clock.advance(3 * DAY_MS);
    expect(ends).toEqual([
      ['a', DAY_MS],
      ['b', 2 * DAY_MS],
      ['c', 2 * DAY_MS + 1],
    ]);
    expect(clock.now()).toBe(3 * DAY_MS);
    await clock.advance(6 * DAY_MS);
  });

  test('moves once for each call, also if nobody awaits the previous one', async () => {
    const clock = new FakeClock(0);
    void clock.sleep(DAY_MS);
    await Promise.all([clock.advance(2 * DAY_MS), clock.advance(5)]);
    expect(clock.now()).toBe(2 * DAY_MS + 5);
  });

  test('a wait also ends with its signal, and in real time', async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const waiting = clock.sleep(DAY_MS, stop.signal);
    stop.abort();
    await waiting;
    await clock.sleep(1);
    await clock.sleep(0);
    await clock.sleep(DAY_MS, AbortSignal.abort());
  });

  test.each([Number.NaN, -1, Number.POSITIVE_INFINITY])('shows no time %d', async (ms) => {
    expect(() => new FakeClock(ms)).toThrow(UsageError);
    const clock = new FakeClock(5);
    expect(() => clock.set(ms)).toThrow(UsageError);
    await expect(clock.advance(ms)).rejects.toThrow(UsageError);
    expect(clock.now()).toBe(5);
  });
});
