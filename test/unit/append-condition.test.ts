import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { AttemptsExhaustedError, EntryExistsError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Entry } from '../../src/log/entry.ts';
import { TRUST_MS } from '../../src/log/newest.ts';
import { entryAt, MALFORMED, malformedItem, newLogId, testLogClient } from '../support/logs.ts';

const CONSISTENT = { consistent: true };
const set = (body: number) => ({ type: 'Set', version: 1, body: [body] });
const at = (segment: number, entry: number) => ({ segment, entry });

/** A store in which another client writes between the client's reads and its put. */
class RacingStore extends MemoryLogStore {
  before: (() => Promise<unknown>)[] = [];

  override async putEntries(entries: readonly Entry[]): Promise<void> {
    await this.before.shift()?.();
    return super.putEntries(entries);
  }
}

/** A log at its first entry, a client that knows its end, and another client. */
async function openLog() {
  const store = new RacingStore();
  const mine = testLogClient({ store });
  const other = testLogClient({ store });
  const log = await mine.client.createLog();
  mine.requests.length = 0;
  const newSegment = async () => {
    const [segment] = await store.newestSegments(log, 1);
    if (segment !== undefined) await store.advanceLastSnapshot(log, { position: at(segment.segment, 0) });
    await other.client.startSegment(log);
  };
  const add = (after: Position, body = 1) => mine.client.addEntry(log, set(body), { after });
  return { ...mine, other: other.client, log, store, newSegment, add };
}

describe('an append after an entry', () => {
  test('it comes after Snapshot entries of other clients, and costs more only then', async () => {
    const { requests, other, log, add } = await openLog();
    await other.addSnapshot(log);
    expect(await add(at(0, 0))).toEqual({ position: at(0, 2), number: 1 });
    expect(requests).toEqual(['putEntries', 'newestEntry', 'putEntries']);
    requests.length = 0;
    expect(await add(at(0, 2))).toEqual({ position: at(0, 3), number: 2 });
    expect(requests).toEqual(['putEntries']);
    requests.length = 0;
    for (let i = 0; i < 30; i++) await other.addSnapshot(log);
    expect(await add(at(0, 3))).toEqual({ position: at(0, 34), number: 3 });
    expect(requests).toEqual(['putEntries', 'newestEntry', ...Array(3).fill('items'), 'putEntries']);
  });

  test('it comes after the start of one or more segments', async () => {
    const { requests, log, store, newSegment, add } = await openLog();
    await newSegment();
    expect(await add(at(0, 0))).toEqual({ position: at(1, 1), number: 1 });
    await newSegment();
    await newSegment();
    requests.length = 0;
    expect(await add(at(1, 1))).toEqual({ position: at(3, 1), number: 2 });
    expect(requests).toEqual([
      'putEntries',
      'newestEntry',
      'newestSegments',
      'newestEntry',
      'items',
      'items',
      'putEntries',
    ]);
    expect(await testLogClient({ store }).client.addEntry(log, set(2), { after: at(3, 1) })).toEqual({
      position: at(3, 2),
      number: 3,
    });
  });

  test('it may follow the End Segment entry itself', async () => {
    const { newSegment, add } = await openLog();
    await newSegment();
    expect(await add(at(0, 1))).toEqual({ position: at(1, 1), number: 1 });
  });

  test('it fails after an entry of the application, wherever that entry lies', async () => {
    for (const first of ['entry', 'snapshot', 'segment'] as const) {
      for (const last of ['entry', 'snapshot', 'segment'] as const) {
        for (const cold of [false, true]) {
          const { store, requests, other, log, newSegment, add } = await openLog();
          const step = { entry: () => other.addEntry(log, set(7)), snapshot: () => other.addSnapshot(log) };
          await { ...step, segment: newSegment }[first]();
          await step.entry();
          await { ...step, segment: newSegment }[last]();
          const [{ segment } = { segment: 0 }] = await store.newestSegments(log, 1);
          const newest = (await store.newestEntry(log, segment))?.position;
          const after = at(0, 0);
          const append = () => (cold ? testLogClient({ store }).client.addEntry(log, set(1), { after }) : add(after));
          const refused = await append().catch((error: unknown) => error);
          expect(refused).toBeInstanceOf(EntryExistsError);
          expect(refused).toMatchObject({ newest, log });
          expect(JSON.parse(JSON.stringify(refused)).newest).toEqual(newest);
          expect((await store.newestEntry(log, segment))?.position).toEqual(newest);
          if (last === 'entry' && first === 'entry' && !cold) {
            expect(requests).toEqual(['putEntries', 'newestEntry']);
          }
        }
      }
    }
  });

  test('the position in the error is where the next append can follow, in one request', async () => {
    const { requests, other, log, add } = await openLog();
    await other.addEntries(log, [set(7), set(8)]);
    const refused = await add(at(0, 0)).catch((error: unknown) => error);
    if (!(refused instanceof EntryExistsError) || refused.newest === undefined) throw refused;
    requests.length = 0;
    expect(await add(refused.newest)).toEqual({ position: at(0, 3), number: 3 });
    expect(requests).toEqual(['putEntries']);
  });

  test('it names no position in other errors', async () => {
    const id = newLogId();
    const { client } = testLogClient({ newLogId: () => id });
    await client.createLog();
    const refused = await client.createLog().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EntryExistsError);
    expect(refused).toMatchObject({ newest: undefined });
  });

  test('it finds its place although others write before each attempt', async () => {
    const { store, other, log, newSegment, add } = await openLog();
    store.before = [
      () => other.addSnapshot(log),
      async () => undefined,
      newSegment,
      () => other.addSnapshot(log),
      async () => undefined,
      () => other.addSnapshot(log),
    ];
    expect(await add(at(0, 0))).toEqual({ position: at(1, 3), number: 1 });
  });

  test('it fails if an entry of the application wins a later race', async () => {
    const { store, other, log, add } = await openLog();
    store.before = [() => other.addSnapshot(log), async () => undefined, () => other.addEntry(log, set(7))];
    await expect(add(at(0, 0))).rejects.toMatchObject({ code: 'ENTRY_EXISTS', newest: at(0, 2) });
    expect((await store.newestEntry(log, 0))?.position).toEqual(at(0, 2));
  });

  test('it tries again although the store names the newest entry in its refusal', async () => {
    class Server extends RacingStore {
      override putEntries(entries: readonly Entry[]): Promise<void> {
        return super.putEntries(entries).catch((error: unknown) => {
          if (!(error instanceof EntryExistsError)) throw error;
          throw new EntryExistsError(error.reason, { newest: at(0, 1) });
        });
      }
    }
    const store = new Server();
    const { client } = testLogClient({ store });
    const log = await client.createLog();
    const other = testLogClient({ store }).client;
    store.before = [() => other.addSnapshot(log)];
    expect(await client.addEntry(log, set(1), { after: at(0, 0) })).toEqual({ position: at(0, 2), number: 1 });
    store.before = [() => other.addEntry(log, set(7))];
    expect(await client.addEntry(log, set(2))).toEqual({ position: at(0, 4), number: 3 });
  });

  test('it gives up after the last attempt', async () => {
    const store = new RacingStore();
    const { client } = testLogClient({ store, retries: { attempts: 3, baseMs: 1, capMs: 1 } });
    const other = testLogClient({ store }).client;
    const log = await client.createLog();
    const snapshot = () => other.addSnapshot(log);
    const nothing = async () => undefined;
    store.before = [snapshot, nothing, snapshot, nothing, snapshot, nothing, snapshot];
    await expect(client.addEntry(log, set(1), { after: at(0, 0) })).rejects.toThrow(AttemptsExhaustedError);
  });

  test.each(MALFORMED)('an entry with %s counts as one of the application', async (fault) => {
    const { store, other, log, add } = await openLog();
    await store.putItems([malformedItem(log, at(0, 1), fault)]);
    await expect(add(at(0, 0))).rejects.toMatchObject({ newest: at(0, 1) });
    await other.addSnapshot(log);
    const cold = testLogClient({ store }).client.addEntry(log, set(1), { after: at(0, 0) });
    await expect(cold).rejects.toMatchObject({ newest: at(0, 2) });
  });

  test('a refused append names the current end, also if its client knew an older one', async () => {
    const { store } = testLogClient();
    const log = await testLogClient({ store }).client.createLog();
    const { client, requests } = testLogClient({ store });
    await client.addEntry(log, set(1));
    await client.addEntry(log, set(2));
    requests.length = 0;
    const other = testLogClient({ store }).client;
    for (const value of [3, 4, 5]) await other.addEntry(log, set(value));
    for (const [entry, after] of [at(0, 1), { number: 1 }].entries()) {
      const refused = client.addEntry(log, set(6), { after });
      await expect(refused).rejects.toMatchObject({ code: 'ENTRY_EXISTS', newest: at(0, 5 + entry), newestNumber: 5 });
      await other.addSnapshot(log);
    }
    expect(requests).toEqual(['items', 'newestEntry', 'newestEntry']);
  });

  test('a gap counts as an entry of the application', async () => {
    const { store, log, add } = await openLog();
    for (const entry of [1, 2, 3]) await store.putEntries([entryAt(log, at(0, entry), { type: 'Snapshot' })]);
    await store.deleteEntries(log, 0, [2]);
    await expect(add(at(0, 0))).rejects.toMatchObject({ code: 'ENTRY_EXISTS', newest: at(0, 3) });
    await expect(add(at(0, 2))).rejects.toMatchObject({ code: 'ENTRY_EXISTS', newest: at(0, 3) });
  });
});

describe('a client that is told the end of a log', () => {
  async function readLog() {
    const { store } = testLogClient();
    const log = await testLogClient({ store }).client.createLog();
    const fresh = testLogClient({ store });
    const newest = await store.newestEntry(log, 0, CONSISTENT);
    if (newest === undefined) throw new Error('the log has an entry');
    return { ...fresh, log, newest };
  }

  test('it appends in one request', async () => {
    const { client, requests, clock, log, newest } = await readLog();
    client.sawEnd(newest, clock.ms);
    expect(await client.addEntry(log, set(1), { after: newest.position })).toEqual({ position: at(0, 1), number: 1 });
    expect(requests).toEqual(['putEntries']);
  });

  test('it trusts the end for a minute after the read was sent', async () => {
    const { client, requests, clock, log, newest } = await readLog();
    const asked = clock.ms;
    clock.ms += TRUST_MS;
    client.sawEnd(newest, asked);
    await client.addEntry(log, set(1));
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
  });

  test('it ignores an End Segment entry, an entry without a type and an older end', async () => {
    const { client, requests, clock, log, newest } = await readLog();
    client.sawEnd({ ...newest, type: 'End Segment' }, clock.ms);
    client.sawEnd({ log, position: newest.position }, clock.ms);
    expect(await client.addEntry(log, set(1))).toEqual({ position: at(0, 1), number: 1 });
    expect(requests).toEqual(['newestSegments', 'newestEntry', 'putEntries']);
    client.sawEnd(newest, clock.ms);
    requests.length = 0;
    expect(await client.addEntry(log, set(2))).toEqual({ position: at(0, 2), number: 2 });
    expect(requests).toEqual(['putEntries']);
  });
});
