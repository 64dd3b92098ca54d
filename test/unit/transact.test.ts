import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { answerLogRequest, type LogOperation, type LogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import { EntryExistsError, LogNotFoundError, NotAllowedError, TooLargeError, UsageError } from '../../src/errors.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { LogClient, type NewEntry } from '../../src/log/client.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { NOON, newLogId, testLogClient, unarchived } from '../support/logs.ts';

const set = (value: number): NewEntry => ({ type: 'Set', version: 1, body: [value] });
const at = (segment: number, entry: number): Position => ({ segment, entry });

interface Given {
  readonly client: LogClient;
  readonly store: LogStore;
  readonly requests: string[];
  readonly logs: readonly [LogId, LogId];
}

async function twoLogs(store: LogStore = new MemoryLogStore()): Promise<Given> {
  const made = testLogClient({ store });
  const logs = [await made.client.createLog(), await made.client.createLog()] as const;
  made.requests.length = 0;
  return { ...made, logs };
}

/** The numbers of the entries of a log, in order. */
async function entriesOf(store: LogStore, log: LogId): Promise<(number | undefined)[]> {
  const found = await Array.fromAsync(store.entries(log, { segment: 0, from: 0, to: 1000 }, { consistent: true }));
  return found.flat().map(({ number }) => number);
}

describe('a transaction over several logs', () => {
  test('it appends to each log in one request, and numbers the entries of each', async () => {
    const { client, requests, logs } = await twoLogs();
    const [one, two] = logs;
    const added = await client.transact([
      { log: one, entries: [set(1), set(2)] },
      { log: two, entries: [set(3)], snapshotBefore: true },
    ]);
    expect(requests).toEqual(['putEntries']);
    expect(added).toEqual([
      { first: at(0, 1), last: at(0, 2), firstNumber: 1 },
      { first: at(0, 2), last: at(0, 2), firstNumber: 1, snapshotEntry: at(0, 1) },
    ]);
    // The client knows the ends of both logs.
    requests.length = 0;
    expect(await client.addEntry(one, set(4))).toEqual({ position: at(0, 3), number: 3 });
    expect(await client.addEntry(two, set(4))).toEqual({ position: at(0, 3), number: 2 });
    expect(requests).toEqual(['putEntries', 'putEntries']);
  });

  test('it takes one log like an append', async () => {
    const { client, logs } = await twoLogs();
    const added = await client.transact([{ log: logs[0], entries: [set(1)] }]);
    expect(added).toEqual([{ first: at(0, 1), last: at(0, 1), firstNumber: 1 }]);
  });

  test('it tries again after other clients appended to one of the logs', async () => {
    const { client, store, requests, logs } = await twoLogs();
    const [one, two] = logs;
    const other = testLogClient({ store }).client;
    await other.addEntry(two, set(9));
    requests.length = 0;
    const [first, second] = await client.transact([
      { log: one, entries: [set(1)], after: at(0, 0) },
      { log: two, entries: [set(2)] },
    ]);
    expect([first?.first, second?.first]).toEqual([at(0, 1), at(0, 2)]);
    expect(requests.filter((name) => name === 'putEntries')).toHaveLength(2);
    expect(await entriesOf(store, one)).toEqual([0, 1]);
    expect(await entriesOf(store, two)).toEqual([0, 1, 2]);
  });

  test('a Snapshot entry does not disturb a condition', async () => {
    const { client, store, logs } = await twoLogs();
    const [one, two] = logs;
    await testLogClient({ store }).client.addSnapshot(one);
    const [first] = await client.transact([
      { log: one, entries: [set(1)], after: at(0, 0) },
      { log: two, entries: [set(2)], after: at(0, 0) },
    ]);
    expect(first?.first).toEqual(at(0, 2));
  });

  test.each([0, 1])('a condition of log %i that does not hold appends nothing, and names its log', async (which) => {
    const { client, store, logs } = await twoLogs();
    const conflicting = logs[which] ?? logs[0];
    await testLogClient({ store }).client.addEntry(conflicting, set(9));
    const appends = logs.map((log) => ({ log, entries: [set(1)], after: at(0, 0) }));
    // The first attempt meets the entry, the second knows it.
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(client.transact(appends)).rejects.toMatchObject({
        code: 'ENTRY_EXISTS',
        log: conflicting,
        newest: at(0, 1),
        newestNumber: 1,
      });
    }
    for (const log of logs) expect(await entriesOf(store, log)).toEqual(log === conflicting ? [0, 1] : [0]);
  });

  test('a lost answer of the tables appends nothing twice', { tags: ['I8'] }, async () => {
    let lost = 2;
    class LosingStore extends MemoryLogStore {
      override async putEntries(entries: Parameters<LogStore['putEntries']>[0]): Promise<void> {
        await super.putEntries(entries);
        // As the SDK does: it sends the same request again.
        while (lost-- > 0) await super.putEntries(entries);
      }
    }
    const { client, store, logs } = await twoLogs(new LosingStore());
    const added = await client.transact(logs.map((log) => ({ log, entries: [set(1), set(2)] })));
    expect(added.map(({ last }) => last)).toEqual([at(0, 2), at(0, 2)]);
    for (const log of logs) expect(await entriesOf(store, log)).toEqual([0, 1, 2]);
  });

  test('the same ids again at the same places succeed, and change nothing', { tags: ['I8'] }, async () => {
    const { client, store, logs } = await twoLogs();
    const appends = logs.map((log, i) => ({ log, entries: [{ ...set(1), id: Uint8Array.of(7, i) }] }));
    const added = await client.transact(appends);
    for (const log of logs) expect(await entriesOf(store, log)).toEqual([0, 1]);
    // Another process of the same writer, which saw the same ends.
    const repeated = testLogClient({ store });
    for (const log of logs) {
      repeated.client.sawEnd({ log, position: at(0, 0), number: 0, type: 'Snapshot' }, repeated.clock.ms);
    }
    expect(await repeated.client.transact(appends)).toEqual(added);
    for (const log of logs) expect(await entriesOf(store, log)).toEqual([0, 1]);
  });

  test('nothing is appended if one of the logs does not exist', async () => {
    const { client, store, logs } = await twoLogs();
    const missing = newLogId();
    const failure = await client
      .transact([
        { log: logs[0], entries: [set(1)] },
        { log: missing, entries: [set(1)] },
      ])
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LogNotFoundError);
    expect(failure).toMatchObject({ log: missing });
    expect(await entriesOf(store, logs[0])).toEqual([0]);
  });

  test('more entries than a transaction takes are refused with the counts of the logs', async () => {
    const { client, store, requests, logs } = await twoLogs();
    const [one, two] = logs;
    const many = (count: number) => Array.from({ length: count }, (_, i) => set(i));
    const tooMany = client.transact([
      { log: one, entries: many(60) },
      { log: two, entries: many(40), snapshotBefore: true },
    ]);
    await expect(tooMany).rejects.toThrow(TooLargeError);
    await expect(tooMany).rejects.toThrow(
      `101 entries are more than the 100 of one transaction: 60 for log ${one}, 41`,
    );
    expect(requests).toEqual([]);
    const metadata = { note: 'x'.repeat(8_000) };
    const large = (count: number) => many(count).map((entry) => ({ ...entry, body: 'y'.repeat(16_000), metadata }));
    const tooLarge = client.transact(logs.map((log) => ({ log, entries: large(50) })));
    const nativeLimit = tooLarge.then(() => 'fits').catch((error: unknown) => error);
    expect(await nativeLimit).toBe('fits');
    expect(await entriesOf(store, one)).toHaveLength(51);
    await client.transact([
      { log: one, entries: many(60) },
      { log: two, entries: many(40) },
    ]);
    expect(await entriesOf(store, two)).toHaveLength(91);
  });

  test('a transaction that is too large for the tables names the counts of the logs', async () => {
    class SmallStore extends MemoryLogStore {
      override async putEntries(): Promise<void> {
        throw new TooLargeError('5000000 bytes are more than the 4194304 of one transaction', { advice: 'Less' });
      }
    }
    const { client, logs } = await twoLogs(new SmallStore());
    const failure = client.transact(logs.map((log) => ({ log, entries: [set(1)] })));
    await expect(failure).rejects.toThrow(`one transaction: 1 for log ${logs[0]}, 1 for log ${logs[1]}. Less.`);
  });

  test.each([
    ['no list', undefined],
    ['an empty list', []],
    ['a text as an append', ['log']],
    ['an append without a log', [{ entries: [set(1)] }]],
    ['an append without entries', [{ log: newLogId() }]],
    ['an append with an empty list of entries', [{ log: newLogId(), entries: [] }]],
    ['an option that only single appends have', [{ log: newLogId(), entries: [set(1)], snapshot: at(0, 0) }]],
    ['an option with a wrong name', [{ log: newLogId(), entries: [set(1)], affter: at(0, 0) }]],
    ['a wrong position', [{ log: newLogId(), entries: [set(1)], after: 3 }]],
    ['a reserved type', [{ log: newLogId(), entries: [{ type: 'Snapshot', version: 1 }] }]],
  ])('%s is refused without a request', async (_what, appends) => {
    const { client, requests } = await twoLogs();
    await expect(Reflect.apply(client.transact, client, [appends])).rejects.toThrow(UsageError);
    expect(requests).toEqual([]);
  });

  test('two appends to one log are refused, in whatever case its id is written', async () => {
    const { client, requests, logs } = await twoLogs();
    const [log] = logs;
    const twice = [log, log.toUpperCase()].map((id) => ({ log: id, entries: [set(1)] }));
    await expect(client.transact(twice)).rejects.toMatchObject({ code: 'USAGE', log });
    expect(requests).toEqual([]);
  });

  test('the feed shares no transaction with other logs', async () => {
    const store = withFeed(new MemoryLogStore(), new MemoryLogStore());
    const { client, logs } = await twoLogs(store);
    await client.createLog(FEED_LOG);
    const appends = [logs[0], FEED_LOG].map((log) => ({ log, entries: [set(1)] }));
    await expect(client.transact(appends)).rejects.toThrow(UsageError);
    expect(await entriesOf(store, logs[0])).toEqual([0]);
  });
});

describe('a transaction of a page', () => {
  async function pageOf(allowed: (log: LogId, operation: LogOperation) => boolean) {
    const given = await twoLogs();
    const asked: unknown[] = [];
    const sent: LogRequest[] = [];
    const remote = new RemoteLogStore(async (request) => {
      sent.push(request);
      const answer = await answerLogRequest(
        { store: unarchived(given.store), tables: given.store },
        JSON.parse(JSON.stringify(request)),
        {
          allows: (log, operation, entries) => {
            if (operation === 'append') asked.push([log, entries.length]);
            return allowed(log, operation);
          },
        },
      );
      return JSON.parse(JSON.stringify(answer));
    });
    return { ...given, remote, asked, sent };
  }

  function clientOf(remote: RemoteLogStore): LogClient {
    return new LogClient({
      store: remote,
      tables: remote,
      blobs: new MemoryBlobStore(),
      now: () => NOON * 1000,
      random: Math.random,
      sleep: () => setImmediate(),
      newLogId,
    });
  }

  test('it appends to all logs that the user may change', async () => {
    const { remote, asked, sent, store, logs } = await pageOf(() => true);
    const added = await clientOf(remote).transact(logs.map((log, i) => ({ log, entries: Array(i + 1).fill(set(1)) })));
    expect(added.map(({ firstNumber }) => firstNumber)).toEqual([1, 1]);
    expect(asked).toEqual([
      [logs[0], 1],
      [logs[1], 2],
    ]);
    expect(sent.at(-1)).toMatchObject({ format: 1, op: 'putTogether', appends: [{ log: logs[0] }, { log: logs[1] }] });
    expect(await entriesOf(store, logs[1])).toEqual([0, 1, 2]);
  });

  test('it appends nothing if the user may not change one of the logs', async () => {
    let forbidden: LogId | undefined;
    const { remote, store, logs } = await pageOf((log, operation) => operation === 'read' || log !== forbidden);
    forbidden = logs[1];
    const failure = await clientOf(remote)
      .transact(logs.map((log) => ({ log, entries: [set(1)] })))
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NotAllowedError);
    expect(failure).toMatchObject({ log: logs[1] });
    for (const log of logs) expect(await entriesOf(store, log)).toEqual([0]);
  });

  test('a condition that does not hold names its log', async () => {
    const { client, remote, store, logs } = await pageOf(() => true);
    await client.addEntry(logs[1], set(9));
    const failure = await clientOf(remote)
      .transact(logs.map((log) => ({ log, entries: [set(1)], after: at(0, 0) })))
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(EntryExistsError);
    expect(failure).toMatchObject({ log: logs[1], newest: at(0, 1) });
    expect(await entriesOf(store, logs[0])).toEqual([0]);
  });

  test('a hostile request is refused, and changes nothing', async () => {
    const { remote, sent, store, logs } = await pageOf(() => true);
    await clientOf(remote).transact(logs.map((log) => ({ log, entries: [set(1)] })));
    const request = sent.at(-1);
    const [one, two] = request?.op === 'putTogether' ? request.appends : [];
    const moved = (line: string | undefined) => line?.replace('"N":{"N":"1"}', '"N":{"N":"2"}') ?? '';
    const options = { allows: () => true };
    const ports = { store: unarchived(store), tables: store };
    for (const [appends, code] of [
      [[one], 'MESSAGE_INVALID'],
      [[one, one], 'MESSAGE_INVALID'],
      [[one, { ...two, log: one?.log }], 'MESSAGE_INVALID'],
      // A line that belongs to the other log.
      [[one, { ...two, lines: one?.lines }], 'MESSAGE_INVALID'],
      [[one, { ...two, lines: [] }], 'MESSAGE_INVALID'],
      [[one, { ...two, log: 'x'.repeat(3_000) }], 'MESSAGE_INVALID'],
      [[one, { ...two, lines: Array(100).fill(moved(two?.lines[0])) }], 'TOO_LARGE'],
      [Array(101).fill(one), 'MESSAGE_INVALID'],
    ] as const) {
      const answer = await answerLogRequest(ports, { format: 1, op: 'putTogether', appends }, options);
      expect(answer).toMatchObject({ error: { code } });
    }
    for (const log of logs) expect(await entriesOf(store, log)).toEqual([0, 1]);
  });
});
