import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import {
  AttemptsExhaustedError,
  ClockInvalidError,
  EntryExistsError,
  EntryGapError,
  EntryNotFoundError,
  LogNotFoundError,
  SegmentWithoutSnapshotError,
  TooLargeError,
  UsageError,
  ValueUnsupportedError,
} from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { loadBody } from '../../src/log/body.ts';
import { type CompletedSnapshot, type Entry, RESERVED_TYPES, ReservedTypes } from '../../src/log/entry.ts';
import type { Consistency, LogStore } from '../../src/log/log-store.ts';
import { TRUST_MS } from '../../src/log/newest.ts';
import { rootKey } from '../../src/store/keys.ts';
import { allEntries, entryAt, MALFORMED, malformedItem, NOON, newLogId, testLogClient } from '../support/logs.ts';
import { nested } from '../support/models/values.ts';

const CONSISTENT = { consistent: true };
const set = (body: number) => ({ type: 'Set', version: 1, body: [body] });
const at = (segment: number, entry: number) => ({ segment, entry });

/** A store whose eventually consistent reads show only writes before `freeze`. */
class StaleStore extends MemoryLogStore {
  #frozen: MemoryLogStore | undefined;

  async freeze(log: LogId): Promise<void> {
    const copy = new MemoryLogStore();
    for await (const segment of super.segments(log)) {
      await copy.putSegment(segment);
      for await (const items of super.items(log, { segment: segment.segment, from: 0, to: 1000 })) {
        for (const item of items) await copy.putItems([item]);
      }
    }
    this.#frozen = copy;
  }

  override newestSegments(log: LogId, limit: number, consistency: Consistency = CONSISTENT) {
    return consistency.consistent || !this.#frozen
      ? super.newestSegments(log, limit)
      : this.#frozen.newestSegments(log, limit);
  }

  override newestEntry(log: LogId, segment: number, consistency: Consistency = CONSISTENT) {
    return consistency.consistent || !this.#frozen
      ? super.newestEntry(log, segment)
      : this.#frozen.newestEntry(log, segment);
  }
}

/** A store whose next writes fail. */
class FailingStore extends MemoryLogStore {
  failures: Error[] = [];

  override async putEntries(entries: Parameters<LogStore['putEntries']>[0]): Promise<void> {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    return super.putEntries(entries);
  }

  override isRetryable(error?: unknown): boolean {
    return error instanceof Error && error.name === 'TransactionConflictException';
  }
}

/** Lets a test pass what the types refuse. */
function unsupported(reason: string): object {
  return { code: 'VALUE_UNSUPPORTED', reason: expect.stringContaining(reason) };
}

function untyped(given: object): object {
  return given;
}

const conflict = () => Object.assign(new Error('busy'), { name: 'TransactionConflictException' });

describe('createLog', () => {
  test('it writes a segment and a Snapshot entry in one request', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    expect(requests).toEqual(['createLog']);
    expect(await store.newestSegments(log, 2, CONSISTENT)).toEqual([{ log, segment: 0, created: NOON }]);
    expect(await store.getEntry(log, at(0, 0), CONSISTENT)).toEqual({
      log,
      position: at(0, 0),
      number: 0,
      id: expect.any(Uint8Array),
      created: NOON,
      type: 'Snapshot',
      version: 1,
    });
  });

  test('it writes the reserved types of the log', async () => {
    const { client, store } = testLogClient({ types: new ReservedTypes({ snapshot: 'snap', endSegment: 'end' }) });
    const log = await client.createLog();
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await client.startSegment(log);
    const { entries } = await client.query(log, { from: 'start' });
    expect((await allEntries(entries)).map(({ type }) => type)).toEqual(['snap', 'end', 'snap']);
    await expect(client.addEntry(log, { type: 'end', version: 1 })).rejects.toThrow(UsageError);
    expect(await client.addEntry(log, { type: 'Snapshot', version: 1 })).toEqual({ position: at(1, 1), number: 1 });
  });

  test.each([
    ['equal', { snapshot: 'Mark', endSegment: 'Mark' }],
    ['empty for snapshots', { snapshot: '', endSegment: 'End Segment' }],
    ['empty for the end of a segment', { snapshot: 'Snapshot', endSegment: '' }],
  ])('reserved types that are %s are refused', (_what, types) => {
    expect(() => new ReservedTypes(types)).toThrow(UsageError);
  });

  test.each([-1, -86_400_000, Number.NaN, Number.POSITIVE_INFINITY])(
    'every write is refused if the clock shows %d',
    async (ms) => {
      const { client, store, blobs, requests, clock } = testLogClient();
      const log = await client.createLog();
      await store.advanceLastSnapshot(log, { position: at(0, 0) });
      clock.ms = ms;
      requests.length = 0;
      const large = { type: 'Set', version: 1, body: 'x'.repeat(20_000) };
      for (const write of [
        () => client.createLog(),
        () => client.addEntry(log, large),
        () => client.addEntries(log, [large, { ...large, created: NOON }]),
        () => client.addSnapshot(log),
        () => client.startSegment(log),
      ]) {
        await expect(write()).rejects.toThrow(ClockInvalidError);
      }
      expect(requests.filter((name) => !name.startsWith('newest'))).toEqual([]);
      expect((await store.newestEntry(log, 0, CONSISTENT))?.position).toEqual(at(0, 0));
      expect(await Array.fromAsync(blobs.list(''))).toEqual([]);
    },
  );

  test('it never overwrites an existing log', async () => {
    const id = newLogId();
    const { client } = testLogClient({ newLogId: () => id });
    await client.createLog();
    await expect(client.createLog()).rejects.toThrow(EntryExistsError);
  });
});

describe('addEntry', () => {
  test('the first call sends two queries and a put, later calls one put', async () => {
    const { client, store, requests } = testLogClient();
    const log = await testLogClient({ store }).client.createLog();
    requests.length = 0;
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(0, 1), number: 1 });
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
    requests.length = 0;
    expect(await client.addEntry(log, set(2))).toEqual({ position: at(0, 2), number: 2 });
    expect(await client.addSnapshot(log)).toEqual({ position: at(0, 3), number: 2 });
    expect(requests).toEqual(['putEntries', 'putEntries']);
  });

  test('each entry has an id, and all attempts to write the entry use it', async () => {
    const tries: (readonly Entry[])[] = [];
    class Watched extends FailingStore {
      override async putEntries(entries: readonly Entry[]): Promise<void> {
        tries.push(entries);
        return super.putEntries(entries);
      }
    }
    const store = new Watched();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await testLogClient({ store }).client.addEntry(log, set(0));
    store.failures = [conflict()];
    await client.addEntries(log, [set(1), set(1)]);
    const [, refused, written] = tries.map((entries) => entries.map(({ id }) => id));
    expect(written).toEqual(refused);
    const ids = (await allEntries(store.entries(log, { segment: 0, from: 0, to: 9 }))).map(({ id }) => String(id));
    expect(ids.map((id) => id.split(',').length)).toEqual([8, 8, 8, 8]);
    expect(new Set(ids).size).toBe(4);
  });

  test('it writes body, type, version and time', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await client.addEntry(log, { type: 'A', version: 7, body: 1 });
    await client.addEntry(log, { type: 'B', version: 0, body: null, created: 5 });
    const bytes = Uint8Array.of(1);
    const id = expect.any(Uint8Array);
    const first = {
      log,
      position: at(0, 1),
      number: 1,
      id,
      created: NOON,
      type: 'A',
      version: 7,
      body: { format: 'bytes', bytes },
    };
    expect(await store.getEntry(log, at(0, 1), CONSISTENT)).toEqual(first);
    const second = { log, position: at(0, 2), number: 2, id, created: 5, type: 'B', version: 0 };
    expect(await store.getEntry(log, at(0, 2), CONSISTENT)).toEqual(second);
  });

  test('it writes a large body to the blob store before the entry', async () => {
    const store = new FailingStore();
    const { client, blobs } = testLogClient({ store });
    const log = await client.createLog();
    const body = 'x'.repeat(20_000);
    store.failures = [new Error('the connection broke')];
    await expect(client.addEntry(log, { type: 'Set', version: 1, body })).rejects.toThrow('the connection broke');
    expect(await Array.fromAsync(blobs.list(''))).toHaveLength(1);

    const { position } = await client.addEntry(log, { type: 'Set', version: 1, body });
    const entry = await store.getEntry(log, position);
    expect(entry?.body).toBeUndefined();
    expect(entry && (await loadBody(blobs, entry))).toBe(body);
  });

  test('it trusts its memory for only a minute', async () => {
    const { client, requests, clock } = testLogClient();
    const log = await client.createLog();
    clock.ms += TRUST_MS - 1;
    requests.length = 0;
    await client.addEntry(log, set(1));
    expect(requests).toEqual(['putEntries']);
    clock.ms += TRUST_MS;
    requests.length = 0;
    await client.addEntry(log, set(2));
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
    clock.ms -= 3_600_000;
    requests.length = 0;
    await client.addEntry(log, set(3));
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
  });

  test('it queries consistently after other clients have added entries', async () => {
    const store = new StaleStore();
    const { client, requests } = testLogClient({ store });
    const log = await client.createLog();
    await store.freeze(log);
    const other = testLogClient({ store }).client;
    for (const body of [1, 2, 3]) await other.addEntry(log, set(body));
    requests.length = 0;
    expect(await client.addEntry(log, set(4))).toEqual({ position: at(0, 4), number: 4 });
    expect(requests).toEqual(['putEntries', 'newestSegments', 'newestEntry', 'putEntries']);
  });

  test('it writes to the newest segment after another client has started one', async () => {
    const store = new StaleStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await store.freeze(log);
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await testLogClient({ store }).client.startSegment(log);
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(1, 1), number: 1 });
    const fresh = testLogClient({ store });
    expect(await fresh.client.addEntry(log, set(2))).toEqual({ position: at(1, 2), number: 2 });
  });

  test('it queries the segments again if the newest entry ends its segment', async () => {
    class StaleSegments extends MemoryLogStore {
      override async newestSegments(log: LogId, limit: number, consistency: Consistency = CONSISTENT) {
        const segments = await super.newestSegments(log, 10);
        return segments.slice(consistency.consistent ? 0 : 1).slice(0, limit);
      }
    }
    const store = new StaleSegments();
    const owner = testLogClient({ store }).client;
    const log = await owner.createLog();
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await owner.startSegment(log);
    const { client, requests } = testLogClient({ store });
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(1, 1), number: 1 });
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'newestSegments', 'newestEntry', 'putEntries']);
  });

  test('it tries again after a conflict', async () => {
    const store = new FailingStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    store.failures = [conflict(), conflict()];
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(0, 1), number: 1 });
  });

  test('it gives up after the last attempt, with the cause', async () => {
    const store = new FailingStore();
    const { client } = testLogClient({ store, retries: { attempts: 3, baseMs: 1, capMs: 1 } });
    const log = await client.createLog();
    store.failures = [conflict(), conflict(), conflict(), conflict()];
    const added = client.addEntry(log, set(1));
    await expect(added).rejects.toThrow(AttemptsExhaustedError);
    await expect(added).rejects.toMatchObject({ attempts: 3, log, cause: { message: 'busy' } });
  });

  test('it does not try again if the entry may have been written', async () => {
    const store = new FailingStore();
    const { client, requests } = testLogClient({ store });
    const log = await client.createLog();
    store.failures = [new Error('the connection broke')];
    await expect(client.addEntry(log, set(1))).rejects.toThrow('the connection broke');
    requests.length = 0;
    await client.addEntry(log, set(1));
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
  });

  test.each(MALFORMED)('it writes after an entry with %s', async (fault) => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    const spoil = (entry: number) => store.putItems([malformedItem(log, at(0, entry), fault)]);
    const fresh = () => testLogClient({ store }).client;
    await spoil(1);
    expect((await fresh().addEntry(log, set(1))).position).toEqual(at(0, 2));
    await spoil(3);
    expect((await fresh().addEntries(log, [set(1), set(2)], { after: at(0, 3) })).last).toEqual(at(0, 5));
    await spoil(6);
    expect((await fresh().addSnapshot(log)).position).toEqual(at(0, 7));
    await spoil(8);
    expect((await fresh().startSegment(log)).position).toEqual(at(1, 0));
  });

  test('it writes after an entry without a type only if a consistent read shows no later segment', async () => {
    const store = new StaleStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await store.putItems([malformedItem(log, at(0, 1), 'no type')]);
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await store.freeze(log);
    await testLogClient({ store }).client.startSegment(log);
    await store.deleteEntries(log, 0, [2]);
    expect((await testLogClient({ store }).client.addEntry(log, set(1))).position).toEqual(at(1, 1));
  });

  test('metadata is written in the form in which it is read', async () => {
    const { client } = testLogClient();
    const log = await client.createLog();
    const metadata = { z: -0, correlation: 'order-7', causation: undefined, a: { y: 2n, x: [2 ** 60] } };
    await client.addEntries(log, [
      { ...set(1), metadata },
      { ...set(2), metadata: {} },
    ]);
    const [first, second] = await allEntries((await client.query(log, { from: at(0, 1) })).entries);
    expect(first?.metadata).toStrictEqual({ a: { x: [2n ** 60n], y: 2 }, correlation: 'order-7', z: 0 });
    expect(Object.keys(first?.metadata ?? {})).toEqual(['a', 'correlation', 'z']);
    expect(second).not.toHaveProperty('metadata');
  });

  test.each<[string, object, object]>([
    ['no plain object', new Map([['a', 1]]), { code: 'USAGE' }],
    ['an array', ['a'], { code: 'USAGE' }],
    ['a correlation that is not text', { correlation: 7 }, { code: 'USAGE' }],
    ['a causation that is null', { causation: null }, { code: 'USAGE' }],
    ['a date', { when: [new Date(0)] }, unsupported('dates, in the metadata at `when[0]`')],
    ['a number that DynamoDB cannot hold', { n: 1e300 }, unsupported('1e+300, in the metadata at `n`')],
    ['a value of a class', { a: new Set() }, unsupported('in the metadata at `a`')],
    ['undefined in a value', { a: { b: undefined } }, unsupported('in the metadata at `a.b`')],
    ['an empty name', { a: [{ '': 1 }] }, unsupported('an empty name cannot be stored in DynamoDB, in the metadata')],
    ['17 levels', { a: nested(16) }, unsupported('16 levels, in the metadata')],
    ['too many bytes', { a: 'ł'.repeat(4100) }, { code: 'TOO_LARGE' }],
  ])('metadata with %s is refused, and nothing is written', async (_what, metadata, error) => {
    const { client, requests, blobs } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    const large = { type: 'Set', version: 1, body: 'x'.repeat(20_000) };
    const added = client.addEntries(log, [large, { ...large, ...untyped({ metadata }) }]);
    await expect(added).rejects.toMatchObject({ ...error, log });
    expect(requests).toEqual([]);
    expect(await Array.fromAsync(blobs.list(''))).toEqual([]);
  });

  test('a mutation of a client is written with its entry', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    const once = { client: 'laptop', mutation: 7, other: 'is left out' };
    await client.addEntry(log, { ...set(1), once });
    const entry = await store.getEntry(log, at(0, 1), CONSISTENT);
    expect(entry?.once).toStrictEqual({ client: 'laptop', mutation: 7 });
  });

  const by = (client: unknown, mutation: unknown) => ({ ...set(1), ...untyped({ once: { client, mutation } }) });
  test.each([
    ['an empty client', [by('', 1)]],
    ['a client that is not text', [by(7, 1)]],
    ['a long client', [by('x'.repeat(257), 1)]],
    ['a client with a lone surrogate', [by('\ud800', 1)]],
    ['mutation 0', [by('laptop', 0)]],
    ['a mutation that is not a number', [by('laptop', '1')]],
    ['a mutation that is a fraction', [by('laptop', 1.5)]],
    ['mutation 2^53', [by('laptop', 2 ** 53)]],
    ['the same mutation twice', [by('laptop', 1), by('phone', 1), by('laptop', 1)]],
    ['mutations that descend', [by('laptop', 2), by('laptop', 1)]],
  ])('entries with %s are refused, and nothing is written', async (_what, entries) => {
    const { client, requests, blobs } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    const large = entries.map((entry) => ({ ...entry, body: 'x'.repeat(20_000) }));
    await expect(client.addEntries(log, large)).rejects.toMatchObject({ code: 'USAGE', log });
    expect(requests).toEqual([]);
    expect(await Array.fromAsync(blobs.list(''))).toEqual([]);
  });

  test('it stores the milliseconds of the clock, or those that the caller gives with the time', async () => {
    const { client, store, clock } = testLogClient();
    const log = await client.createLog();
    clock.ms = NOON * 1000 + 345.6;
    const given = [
      set(1),
      { ...set(1), created: 7 },
      { ...set(1), created: 7, milliseconds: 89 },
      { ...set(1), created: 7, milliseconds: 0 },
    ];
    await client.addEntries(log, given, { snapshotBefore: true });
    const stored = await allEntries((await client.query(log, { from: at(0, 1) })).entries);
    expect(stored.map(({ created, milliseconds }) => [created, milliseconds])).toEqual([
      [NOON, undefined],
      [NOON, 345],
      [7, undefined],
      [7, 89],
      [7, undefined],
    ]);
    const [item] = (await Array.fromAsync(store.items(log, { segment: 0, from: 2, to: 3 }, CONSISTENT))).flat();
    expect(item?.P).toEqual({ N: '345' });
    for (const milliseconds of [-1, 1000, 0.5, Number.NaN]) {
      await expect(client.addEntry(log, { ...set(1), created: 7, milliseconds })).rejects.toThrow(UsageError);
    }
  });

  test('it refuses an invalid entry and changes nothing', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    for (const type of ['Snapshot', 'End Segment', '']) {
      await expect(client.addEntry(log, { type, version: 1 })).rejects.toThrow(UsageError);
    }
    await expect(client.addEntry(log, { type: 'A', version: -1 })).rejects.toThrow(UsageError);
    await expect(client.addEntry(log, { type: 'A', version: 1, created: 1.5 })).rejects.toThrow(UsageError);
    await expect(client.addEntry(log, { type: 'A', version: 1, body: '\ud800' })).rejects.toThrow(
      ValueUnsupportedError,
    );
    expect(requests).toEqual([]);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toMatchObject({ position: at(0, 0) });
  });

  test('an unknown log is an error', async () => {
    const { client } = testLogClient();
    const log = newLogId();
    await expect(client.addEntry(log, set(1))).rejects.toThrow(LogNotFoundError);
    await expect(client.addSnapshot(log)).rejects.toThrow(LogNotFoundError);
    await expect(client.startSegment(log)).rejects.toThrow(LogNotFoundError);
    await expect(client.query(log, { from: 'start' })).rejects.toThrow(LogNotFoundError);
  });

  test('a newest segment without entries is an error', async () => {
    class Emptied extends MemoryLogStore {
      override newestEntry = async () => undefined;
    }
    const store = new Emptied();
    const log = await testLogClient({ store }).client.createLog();
    const added = testLogClient({ store }).client.addEntry(log, set(1));
    await expect(added).rejects.toThrow(EntryGapError);
    await expect(added).rejects.toMatchObject({ log, segment: 0, entry: 0 });
  });
});

describe('addEntry after a given entry', () => {
  test('it refuses an option with a wrong name, which could be a condition', async () => {
    const { client, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    const misspelled = { after: undefined, afer: at(0, 0) };
    for (const refused of [client.addEntry(log, set(1), misspelled), client.addSnapshot(log, misspelled)]) {
      await expect(refused).rejects.toMatchObject({ code: 'USAGE', log });
    }
    expect(requests).toEqual([]);
  });

  test('it writes after the newest entry in one request', async () => {
    const { client, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    const { position } = await client.addEntry(log, set(1), { after: at(0, 0) });
    expect(await client.addEntry(log, set(2), { after: position })).toEqual({ position: at(0, 2), number: 2 });
    expect(requests).toEqual(['putEntries', 'putEntries']);
  });

  test('it fails and writes nothing if another entry follows, known to the client or not', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    await testLogClient({ store }).client.addEntry(log, set(1));
    requests.length = 0;
    await expect(client.addEntry(log, set(2), { after: at(0, 0) })).rejects.toThrow(EntryExistsError);
    expect(requests).toEqual(['putEntries', 'newestEntry']);
    await expect(client.addEntry(log, set(2), { after: at(0, 0) })).rejects.toThrow(EntryExistsError);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position).toEqual(at(0, 1));
    expect(await client.addEntry(log, set(2), { after: at(0, 1) })).toEqual({ position: at(0, 2), number: 2 });
  });

  test('it queries consistently if its memory or a read is stale', async () => {
    const store = new StaleStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await store.freeze(log);
    const other = testLogClient({ store }).client;
    await other.addEntry(log, set(1));
    expect(await client.addEntry(log, set(2), { after: at(0, 1) })).toEqual({ position: at(0, 2), number: 2 });
  });

  test('it leaves no gap if the given entry does not exist', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await expect(client.addEntry(log, set(1), { after: at(0, 5) })).rejects.toThrow(EntryNotFoundError);
    await expect(client.addEntry(log, set(1), { after: at(3, 0) })).rejects.toThrow(EntryNotFoundError);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position).toEqual(at(0, 0));
  });
});

describe('addEntries', () => {
  test('it sends one request', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    expect(await client.addEntries(log, [set(1), set(2), set(3)])).toEqual({
      first: at(0, 1),
      last: at(0, 3),
      firstNumber: 1,
    });
    expect(requests).toEqual(['putEntries']);
    expect(await client.addEntry(log, set(4))).toEqual({ position: at(0, 4), number: 4 });
    const entries = await allEntries(store.entries(log, { segment: 0, from: 1, to: 9 }, CONSISTENT));
    expect(entries.map(({ body }) => body?.format === 'bytes' && body.bytes[1])).toEqual([1, 2, 3, 4]);
  });

  test('it refuses an empty list, long types and more entries than a transaction takes', async () => {
    const { client, store, requests, blobs } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    await expect(client.addEntries(log, [])).rejects.toThrow(UsageError);
    const many = Array.from({ length: 101 }, () => ({ ...set(1), body: 'x'.repeat(20_000) }));
    await expect(client.addEntries(log, many)).rejects.toThrow(TooLargeError);
    expect(requests).toEqual([]);
    expect(await Array.fromAsync(blobs.list(''))).toEqual([]);
    const long = Array.from({ length: 2 }, () => ({ ...set(1), type: 'x'.repeat(400 * 1024) }));
    await expect(client.addEntries(log, long)).rejects.toThrow(UsageError);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position).toEqual(at(0, 0));
  });
});

describe('a snapshot before an entry', () => {
  test('it is asked for in the same request', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    const one = await client.addEntry(log, set(1), { snapshotBefore: true });
    expect(one).toEqual({ position: at(0, 2), number: 1, snapshotEntry: at(0, 1) });
    const two = await client.addEntries(log, [{ ...set(2), created: 5 }, set(3)], {
      snapshotBefore: true,
      after: at(0, 2),
    });
    expect(two).toEqual({ first: at(0, 4), last: at(0, 5), firstNumber: 2, snapshotEntry: at(0, 3) });
    expect(await client.addEntry(log, set(4), { after: two.last })).toEqual({ position: at(0, 6), number: 4 });
    expect(requests).toEqual(['putEntries', 'putEntries', 'putEntries']);
    const entries = await allEntries(store.entries(log, { segment: 0, from: 0, to: 9 }, CONSISTENT));
    expect(entries.map(({ type }) => type)).toEqual(['Snapshot', 'Snapshot', 'Set', 'Snapshot', 'Set', 'Set', 'Set']);
    expect(entries.map(({ created }) => created)).toEqual([NOON, NOON, NOON, 5, 5, NOON, NOON]);
    expect(await store.getEntry(log, at(0, 1), CONSISTENT)).toEqual({
      log,
      position: at(0, 1),
      number: 0,
      id: expect.any(Uint8Array),
      created: NOON,
      type: 'Snapshot',
      version: 1,
    });
  });

  test('nothing is written if the entry is refused', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await testLogClient({ store }).client.addEntry(log, set(1));
    const before = { snapshotBefore: true };
    await expect(client.addEntry(log, set(2), { ...before, after: at(0, 0) })).rejects.toThrow(EntryExistsError);
    await expect(client.addEntries(log, [], before)).rejects.toThrow(UsageError);
    await expect(client.addEntry(log, { ...set(2), version: -1 }, before)).rejects.toThrow(UsageError);
    const many = Array.from({ length: 100 }, (_, i) => set(i));
    await expect(client.addEntries(log, many, before)).rejects.toThrow(TooLargeError);
    expect((await store.newestEntry(log, 0, CONSISTENT))?.position).toEqual(at(0, 1));
    expect(await client.addEntries(log, many)).toMatchObject({ last: at(0, 101) });
  });

  test('a Snapshot entry takes the same condition and the same question', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await client.addEntry(log, set(1));
    await expect(client.addSnapshot(log, { after: at(0, 0) })).rejects.toMatchObject({ newest: at(0, 1) });
    expect(await client.addSnapshot(log, { after: at(0, 1) })).toEqual({ position: at(0, 2), number: 1 });
    expect(await client.addSnapshot(log, { after: at(0, 1) })).toEqual({ position: at(0, 3), number: 1 });
    const newer = await complete(store, log, at(0, 2));
    const third = await client.addSnapshot(log, { after: at(0, 1), snapshot: at(0, 0), created: 7 });
    expect(third).toEqual({ position: at(0, 4), number: 1, lastSnapshot: newer });
    expect(await store.getEntry(log, at(0, 4), CONSISTENT)).toMatchObject({ created: 7 });
  });
});

describe('the newest snapshot in an answer', () => {
  test('it costs one more query and is present only if it is newer', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    requests.length = 0;
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 0) })).toEqual({ position: at(0, 1), number: 1 });
    expect(requests.sort()).toEqual(['newestSegments', 'putEntries']);
    await client.addSnapshot(log);
    const newer = await complete(store, log, at(0, 2));
    requests.length = 0;
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 0) })).toEqual({
      position: at(0, 3),
      number: 2,
      lastSnapshot: newer,
    });
    expect(requests.sort()).toEqual(['getEntry', 'newestSegments', 'putEntries']);
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 2) })).toEqual({ position: at(0, 4), number: 3 });
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(0, 5), number: 4 });

    const cold = testLogClient({ store });
    const added = await cold.client.addEntry(log, set(1), { snapshot: at(0, 0) });
    expect(added.lastSnapshot).toEqual(newer);
    expect(cold.requests).toEqual(['newestSegments', 'newestEntry', 'putEntries', 'getEntry']);
  });

  test('it may be in a later segment', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    const { position } = await client.startSegment(log);
    const standing = { snapshot: at(0, 0) };
    expect(await client.addEntry(log, set(1), standing)).toEqual({ position: at(1, 1), number: 1 });
    const newer = await complete(store, log, position);
    expect((await client.addEntry(log, set(1), standing)).lastSnapshot).toEqual(newer);
    requests.length = 0;
    expect((await client.query(log, { from: at(1, 1), ...standing })).lastSnapshot).toEqual(newer);
    expect(requests).toEqual(['newestSegments', 'getEntry']);
    requests.length = 0;
    expect(await client.query(log, { from: 'snapshot', ...standing })).not.toHaveProperty('lastSnapshot');
    expect(requests).toEqual(['newestSegments', 'entries']);
    expect(await client.query(log, { from: at(1, 1), snapshot: at(1, 0) })).not.toHaveProperty('lastSnapshot');
  });

  test('a failed query for it does not fail a written entry', async () => {
    class Forgetful extends MemoryLogStore {
      override newestSegments = () => Promise.reject(new Error('the connection broke'));
    }
    const { client } = testLogClient({ store: new Forgetful() });
    const log = await client.createLog();
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 0) })).toEqual({ position: at(0, 1), number: 1 });
  });

  test('a failed read of its root does not fail a written entry', async () => {
    class Forgetful extends MemoryLogStore {
      override getEntry = () => Promise.reject(new Error('the connection broke'));
    }
    const store = new Forgetful();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await client.addSnapshot(log);
    await store.advanceLastSnapshot(log, { position: at(0, 1) });
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 0) })).toEqual({ position: at(0, 2), number: 1 });
  });

  test('its root is read again if a stale read does not show it', async () => {
    class Stale extends MemoryLogStore {
      override async getEntry(log: LogId, position: Position, { consistent }: Consistency = CONSISTENT) {
        const entry = await super.getEntry(log, position);
        return consistent || entry === undefined ? entry : { ...entry, external: undefined };
      }
    }
    const { client, store } = testLogClient({ store: new Stale() });
    const log = await client.createLog();
    await client.addSnapshot(log);
    const newer = await complete(store, log, at(0, 1));
    expect((await client.addEntry(log, set(1), { snapshot: at(0, 0) })).lastSnapshot).toEqual(newer);
  });

  test('it is not named if its entry has no root', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await client.addSnapshot(log);
    await store.advanceLastSnapshot(log, { position: at(0, 1) });
    expect(await client.addEntry(log, set(1), { snapshot: at(0, 0) })).toEqual({ position: at(0, 2), number: 1 });
    const answer = await client.query(log, { from: at(0, 1), snapshot: at(0, 0) });
    expect(answer).not.toHaveProperty('lastSnapshot');
  });
});

/** Completes a snapshot with its own root. */
async function complete(store: LogStore, log: LogId, position: Position): Promise<CompletedSnapshot> {
  const root = { key: rootKey(log, position, '0'.repeat(64)) };
  await store.completeSnapshot(log, position, root);
  await store.advanceLastSnapshot(log, { position });
  const number = (await store.getEntry(log, position, CONSISTENT))?.number;
  return { position, ...(number !== undefined && { number }), root };
}

describe('startSegment', () => {
  test('it ends the old segment and opens the new one with a Snapshot entry', async () => {
    const { client, store, requests } = testLogClient();
    const log = await client.createLog();
    await client.addEntry(log, set(1));
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    requests.length = 0;
    expect(await client.startSegment(log)).toEqual({ segment: 1, position: at(1, 0) });
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'startSegment']);
    expect(await store.newestEntry(log, 0, CONSISTENT)).toMatchObject({ position: at(0, 2), type: 'End Segment' });
    expect(await store.newestEntry(log, 1, CONSISTENT)).toMatchObject({ position: at(1, 0), type: 'Snapshot' });
    expect(await store.newestSegments(log, 1, CONSISTENT)).toEqual([{ log, segment: 1, created: NOON }]);
    requests.length = 0;
    await client.addEntry(log, set(2));
    expect(requests).toEqual(['putEntries']);
  });

  test('it is refused if the newest segment has no complete snapshot', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    const refused = client.startSegment(log);
    await expect(refused).rejects.toThrow(SegmentWithoutSnapshotError);
    await expect(refused).rejects.toMatchObject({ log, segment: 0 });
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await client.startSegment(log);
    await expect(client.startSegment(log)).rejects.toThrow(SegmentWithoutSnapshotError);
    expect(await store.newestSegments(log, 9, CONSISTENT)).toHaveLength(2);
  });

  test('it finds a snapshot that only a consistent read shows', async () => {
    const store = new StaleStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    await store.freeze(log);
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    expect(await client.startSegment(log)).toEqual({ segment: 1, position: at(1, 0) });
  });
});

describe('query', () => {
  async function logOfTwoSegments() {
    const test = testLogClient();
    const log = await test.client.createLog();
    await test.client.addEntries(log, [set(1), set(2)]);
    await test.client.addSnapshot(log);
    await test.client.addEntry(log, set(4));
    await complete(test.store, log, at(0, 3));
    await test.client.startSegment(log);
    await test.client.addEntry(log, set(1));
    test.requests.length = 0;
    return { ...test, log };
  }

  test('it loads from the previous segment if the newest has no snapshot', async () => {
    const { client, store, requests, log } = await logOfTwoSegments();
    const loaded = await client.query(log, { from: 'snapshot' });
    expect(loaded.start).toEqual(at(0, 3));
    const entries = await allEntries(loaded.entries);
    expect(entries.map(({ position }) => position)).toEqual([at(0, 3), at(0, 4), at(0, 5), at(1, 0), at(1, 1)]);
    expect(loaded.end).toEqual(at(1, 2));
    expect(requests).toEqual(['newestSegments', 'entries', 'entries']);

    await complete(store, log, at(1, 0));
    requests.length = 0;
    const reloaded = await client.query(log, { from: 'snapshot' });
    expect((await allEntries(reloaded.entries)).map(({ position }) => position)).toEqual([at(1, 0), at(1, 1)]);
    expect(requests).toEqual(['newestSegments', 'entries']);
  });

  test('it loads a new log from its start, with the empty state', async () => {
    const { client } = testLogClient();
    const log = await client.createLog();
    const loaded = await client.query(log, { from: 'snapshot' });
    expect(loaded.start).toEqual(at(0, 0));
    expect((await allEntries(loaded.entries)).map(({ type }) => type)).toEqual(['Snapshot']);
    expect(loaded).not.toHaveProperty('lastSnapshot');
  });

  test('it refuses to load if the two newest segments have no snapshot', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await store.startSegment({
      end: entryAt(log, at(0, 1), { type: 'End Segment' }),
      segment: { log, segment: 1, created: NOON },
      first: entryAt(log, at(1, 0), { type: 'Snapshot' }),
    });
    await expect(client.query(log, { from: 'snapshot' })).rejects.toThrow(SegmentWithoutSnapshotError);
  });

  test('it reads from the start, from a position, and up to a position', async () => {
    const { client, log } = await logOfTwoSegments();
    const positions = async (range: Parameters<typeof client.query>[1]) => {
      const { entries } = await client.query(log, range);
      return (await allEntries(entries)).map(({ position }) => position);
    };
    expect(await positions({ from: 'start' })).toHaveLength(8);
    expect(await positions({ from: at(0, 4), to: at(1, 1) })).toEqual([at(0, 4), at(0, 5), at(1, 0)]);
    expect(await positions({ from: 'start', to: at(0, 2) })).toEqual([at(0, 0), at(0, 1)]);
    expect(await positions({ from: at(1, 1), to: at(1, 1) })).toEqual([]);
  });

  test('it ends after a limit, and at the end of the log if the bound is beyond', async () => {
    const { client, log } = await logOfTwoSegments();
    const all = await allEntries((await client.query(log, { from: 'start' })).entries);
    const seen: Entry[] = [];
    for (let from: Position = at(0, 0); ; ) {
      const answer = await client.query(log, { from, limit: 3 });
      const entries = await allEntries(answer.entries);
      if (entries.length === 0) break;
      expect(entries.filter(({ type }) => !RESERVED_TYPES.includes(type)).length).toBeLessThanOrEqual(3);
      seen.push(...entries);
      from = answer.end;
    }
    expect(seen).toEqual(all);
    for (const to of [at(1, 2), at(1, 50), at(9, 0)]) {
      const answer = await client.query(log, { from: at(0, 4), to });
      expect(await allEntries(answer.entries)).toEqual(all.slice(4));
      expect(answer.end).toEqual(at(1, 2));
    }
    const last = await client.query(log, { from: at(1, 1), to: at(1, 50), limit: 5 });
    expect(await allEntries(last.entries)).toEqual(all.slice(-1));
  });

  test.each([0, -1, 1.5, Number.NaN])('it refuses a limit of %d', async (limit) => {
    const { client, log, requests } = await logOfTwoSegments();
    await expect(client.query(log, { from: 'start', limit })).rejects.toThrow(UsageError);
    expect(requests).toEqual([]);
  });

  test('it continues at the end of the last query after new entries and segments', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    const seen: string[] = [];
    let from = at(0, 0);
    const poll = async () => {
      const answer = await client.query(log, { from });
      for (const { position } of await allEntries(answer.entries)) seen.push(`${position.segment}/${position.entry}`);
      from = answer.end;
    };
    await poll();
    await poll();
    await client.addEntry(log, set(1));
    await poll();
    await store.advanceLastSnapshot(log, { position: at(0, 0) });
    await client.startSegment(log);
    await poll();
    await poll();
    await client.addEntry(log, set(1));
    await poll();
    expect(seen).toEqual(['0/0', '0/1', '0/2', '1/0', '1/1']);
    expect(from).toEqual(at(1, 2));
  });
});
