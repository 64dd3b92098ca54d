import { describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { LogNotFoundError, TooLargeError, UsageError, ValueUnsupportedError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { LogClient } from '../../src/log/client.ts';
import { seeAttributes } from '../../src/log/log-attributes.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { divideLog } from '../../src/workers/divide/divide-log.ts';
import { LiveLog } from '../support/live-logs.ts';
import { entryAt, NOON, newLogId, testLogClient } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

const GIVEN = { org: 7, title: 'Budget', tags: ['a', 'b'] };
const CONSISTENT = { consistent: true };

async function cover(store: LogStore, log: LogId): Promise<void> {
  const [newest] = await store.newestSegments(log, 1, CONSISTENT);
  if (newest === undefined) throw new Error('the log does not exist');
  await store.advanceLastSnapshot(log, { position: { segment: newest.segment, entry: 0 } });
}

/** Starts a segment as a release does that does not know attributes of logs. */
async function startAsBefore(store: LogStore, log: LogId): Promise<void> {
  const [newest] = await store.newestSegments(log, 1, CONSISTENT);
  const end = newest && (await store.newestEntry(log, newest.segment, CONSISTENT));
  if (newest === undefined || end === undefined) throw new Error('the log does not exist');
  await store.advanceLastSnapshot(log, { position: { segment: newest.segment, entry: 0 } });
  const { segment } = newest;
  const [last, first] = [
    { segment, entry: end.position.entry + 1 },
    { segment: segment + 1, entry: 0 },
  ];
  await store.startSegment({
    end: entryAt(log, last, { type: 'End Segment', body: undefined }),
    segment: { log, segment: segment + 1, created: NOON },
    first: entryAt(log, first, { type: 'Snapshot', body: undefined }),
  });
}

describe('attributes of a log', () => {
  test('they are given when the log is created, in the same request', async () => {
    const { client, requests } = testLogClient();
    const log = await client.createLog(undefined, { attributes: GIVEN });
    expect(requests).toEqual(['createLog']);
    expect(await client.logAttributes(log)).toEqual(GIVEN);
    expect(await client.logAttributes(await client.createLog())).toEqual({});
    await expect(client.logAttributes(newLogId())).rejects.toThrow(LogNotFoundError);
  });

  test('a change happens only if the others are as expected, and says what they are', async () => {
    const { client } = testLogClient();
    const log = await client.createLog(undefined, { attributes: GIVEN });
    const change = (expected: object) => client.updateLogAttributes(log, { set: { org: 8 }, if: { ...expected } });
    expect(await change({ org: 9 })).toEqual({ updated: false, attributes: GIVEN });
    expect(await change({ missing: 1 })).toEqual({ updated: false, attributes: GIVEN });
    expect(await change({ title: undefined })).toEqual({ updated: false, attributes: GIVEN });
    expect(await change({ __proto__: null, toString: undefined, org: 7, tags: ['a', 'b'] })).toEqual({ updated: true });
    expect(await client.updateLogAttributes(log, { remove: ['title', 'never'] })).toEqual({ updated: true });
    expect(await client.logAttributes(log)).toEqual({ org: 8, tags: ['a', 'b'] });
  });

  test('changes of several clients at the same time are all kept', async () => {
    const store = new MemoryLogStore();
    const slow = interceptLogStore(store, async (_, effect) => {
      await new Promise((resolve) => setImmediate(resolve));
      return effect();
    });
    const log = await testLogClient({ store }).client.createLog();
    const names = Array.from({ length: 12 }, (_, i) => `name ${i}`);
    await Promise.all(
      names.map((name, i) => testLogClient({ store: slow }).client.updateLogAttributes(log, { set: { [name]: i } })),
    );
    const attributes = await testLogClient({ store }).client.logAttributes(log);
    expect(Object.keys(attributes).sort()).toEqual(names.sort());
  });

  test('each new segment carries them, and they can be changed after it has started', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog(undefined, { attributes: GIVEN });
    for (let segment = 1; segment < 5; segment++) {
      await cover(store, log);
      await client.startSegment(log);
      expect(await client.updateLogAttributes(log, { set: { org: segment } })).toEqual({ updated: true });
      expect(await client.logAttributes(log)).toEqual({ ...GIVEN, org: segment });
    }
    const [newest] = await store.newestSegments(log, 1, CONSISTENT);
    expect(newest).toMatchObject({ segment: 4, attributes: { org: { N: '4' } } });
  });

  test.each(['the ended segment had them', 'an older segment had them'])(
    'a change while a segment starts is not lost: %s',
    async (where) => {
      const store = new MemoryLogStore();
      const other = testLogClient({ store }).client;
      const log = await other.createLog(undefined, { attributes: GIVEN });
      if (where === 'an older segment had them') await startAsBefore(store, log);
      await cover(store, log);
      let races = 1;
      const racing = interceptLogStore(store, async (name, effect) => {
        if (name === 'startSegment' && races-- > 0) await other.updateLogAttributes(log, { set: { org: 8 } });
        return effect();
      });
      await testLogClient({ store: racing }).client.startSegment(log);
      expect(await other.logAttributes(log)).toEqual({ ...GIVEN, org: 8 });
      const [newest] = await store.newestSegments(log, 1);
      expect(newest?.attributes).toMatchObject({ org: { N: '8' } });
    },
  );

  test('a division carries them, also if they change at the same time', async () => {
    const store = new MemoryLogStore();
    const { client } = testLogClient({ store });
    const log = await client.createLog(undefined, { attributes: GIVEN });
    await client.addEntries(log, Array(5).fill({ type: 'Set', version: 1 }));
    await cover(store, log);
    let races = 1;
    const racing = interceptLogStore(store, async (name, effect) => {
      const starts = name === 'startSegment' || name === 'putAhead';
      if (starts && races-- > 0) await client.updateLogAttributes(log, { set: { org: 8 } });
      return effect();
    });
    const { blobs } = testLogClient();
    const division = { snapshotEvery: { entries: 2 }, segmentEvery: { entries: 4 } };
    const result = await divideLog({ ...testDeployment({ tables: racing, blobs }), division }, { kind: 'divide', log });
    expect(result).toMatchObject({ outcome: 'divided', startsSegment: true });
    const [newest] = await store.newestSegments(log, 1);
    expect(newest).toMatchObject({ segment: 1, attributes: { org: { N: '8' } } });
  });

  test.each([1, 2, 3, 20, 1100])('%i segments of an older release do not lose them', async (count) => {
    const live = await LiveLog.create();
    const { log, tables: store } = live.sheet;
    const { client } = live.logs();
    await client.updateLogAttributes(log, { set: GIVEN });
    for (let i = 0; i < count; i++) await startAsBefore(store, log);
    expect(await client.logAttributes(log)).toEqual(GIVEN);
    expect(await client.updateLogAttributes(log, { set: { org: 8 }, if: { org: 7 } })).toEqual({ updated: true });
    const [newest] = await store.newestSegments(log, 1);
    expect(newest).toMatchObject({ segment: count, attributes: { org: { N: '8' }, title: { S: 'Budget' } } });
  });

  test('a log without attributes stays as it was, byte for byte', async () => {
    const { client, store } = testLogClient();
    const log = await client.createLog();
    await cover(store, log);
    await client.startSegment(log);
    for (const segment of await store.newestSegments(log, 2, CONSISTENT))
      expect(segment).not.toHaveProperty('attributes');
  });

  test('hostile names and values are kept as they are, or refused', async () => {
    const { client, requests } = testLogClient();
    const hostile = JSON.parse('{"__proto__":1,"constructor":{"__proto__":[null]},"A":true,"S":"x","a.b":"#","é":1.5}');
    const log = await client.createLog(undefined, { attributes: hostile });
    expect(JSON.stringify(await client.logAttributes(log))).toBe(
      JSON.stringify(Object.fromEntries(Object.entries(hostile).sort(([a], [b]) => (a < b ? -1 : 1)))),
    );
    await client.updateLogAttributes(log, { remove: ['__proto__'], if: JSON.parse('{"__proto__":1}') });
    expect(Object.keys(await client.logAttributes(log))).not.toContain('__proto__');
    requests.length = 0;
    for (const [attributes, error] of [
      [[1], UsageError],
      [null, UsageError],
      [{ '': 1 }, ValueUnsupportedError],
      [{ at: new Date(0) }, ValueUnsupportedError],
      [{ large: 'x'.repeat(4_100) }, TooLargeError],
    ] as const) {
      await expect(Reflect.apply(client.createLog, client, [undefined, { attributes }])).rejects.toThrow(error);
    }
    expect(requests).toEqual([]);
    for (const change of [{}, { set: { a: 1 }, remove: ['a'] }]) {
      await expect(client.updateLogAttributes(log, change)).rejects.toThrow(UsageError);
    }
    // Many small changes cannot exceed the limit either.
    const grow = async () => {
      for (let i = 0; i < 50; i++) await client.updateLogAttributes(log, { set: { [`n${i}`]: 'x'.repeat(100) } });
    };
    await expect(grow()).rejects.toThrow(TooLargeError);
  });

  test('archives and expiry leave them, and they can still be changed', async () => {
    const sheets = new SheetLogs();
    sheets.policy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, graceSeconds: 3600, expire: 'delete' };
    const log = await sheets.atRest(3);
    const client = new LogClient({ ...sheets.deps, sleep: async () => undefined, newLogId });
    await client.updateLogAttributes(log, { set: GIVEN });
    for (let day = 0; day < 3; day++) {
      sheets.nowMs += 24 * 3_600_000;
      await sheets.sweepToRest();
    }
    const segments = await Array.fromAsync(sheets.tables.segments(log));
    expect(segments.map(({ expiry }) => expiry?.state)).toContain('expired');
    expect(await client.logAttributes(log)).toEqual(GIVEN);
    expect(await client.updateLogAttributes(log, { set: { org: 8 }, if: { org: 7 } })).toEqual({ updated: true });
  });
});

describe('attributes of an open document', () => {
  test('they come with the query that opens the log, and a refresh keeps them current without a request', async () => {
    const live = await LiveLog.create();
    const { log, tables } = live.sheet;
    const server = live.logs().client;
    await server.updateLogAttributes(log, { set: GIVEN });
    live.requests.length = 0;
    const document = await live.open();
    expect(document.attributes).toEqual(GIVEN);
    expect(live.requests).toEqual(['newestSegments', 'entries']);
    const given = document.attributes;
    await cover(tables, log);
    await server.startSegment(log);
    live.requests.length = 0;
    await document.refresh();
    const alone = [...live.requests];
    expect(document.attributes).toBe(given);
    await server.updateLogAttributes(log, { set: { org: 8 } });
    live.sheet.nowMs += 60_000;
    live.requests.length = 0;
    await document.refresh();
    expect(document.attributes).toEqual({ ...GIVEN, org: 8 });
    expect([alone, live.requests]).toEqual([
      ['entries', 'entries', 'newestSegments'],
      ['entries', 'newestSegments'],
    ]);
  });

  test('a log without attributes shows none, and an older release does not take them away', async () => {
    const live = await LiveLog.create();
    const { log, tables } = live.sheet;
    const document = await live.open();
    expect(document.attributes).toBeUndefined();
    await live.logs().client.updateLogAttributes(log, { set: GIVEN });
    const later = await live.open();
    for (let i = 0; i < 3; i++) await startAsBefore(tables, log);
    await later.refresh();
    expect(later.attributes).toEqual(GIVEN);
    expect((await live.open()).attributes).toBeUndefined();
    expect(await live.logs().client.logAttributes(log)).toEqual(GIVEN);
  });

  test.each([
    ['a read of older segments does not take them back', 0, { org: 2 }],
    ['a read of newer segments does', 2, { org: 3 }],
  ])('%s', (_, segment, expected) => {
    const log = newLogId();
    const at = (number: number, org: number) => [
      { log, segment: number, created: NOON, attributes: { org: { N: String(org) } } },
    ];
    const known = seeAttributes(undefined, at(1, 2));
    expect(seeAttributes(known, at(segment, 3))?.attributes).toEqual(expected);
    expect(seeAttributes(known, at(1, 2))?.attributes).toBe(known?.attributes);
    expect(seeAttributes(known, [])).toBe(known);
  });
});
