import { type EventStorageAdapter, EventStore, EventType } from '@castore/core';
import { DynamoDBSingleTableEventStorageAdapter } from '@castore/event-storage-adapter-dynamodb';
import { InMemoryEventStorageAdapter } from '@castore/event-storage-adapter-in-memory';
import fc from 'fast-check';
import { openLogs } from 'logfold/local';
import { expect, onTestFinished, test } from 'vitest';
import { logfoldEventStorage } from '../../examples/castore/event-storage.ts';
import { attachSnapshots, castoreReducer } from '../../examples/castore/snapshots.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { FoldedLogs } from '../support/folded-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { createCastoreTable } from '../support/stores/castore.ts';
import { startTestEngine } from '../support/stores/engine.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

interface Order {
  readonly aggregateId: string;
  readonly version: number;
  readonly lines: readonly string[];
  readonly by?: string | undefined;
}

const PLACED = new EventType<'PLACED', { readonly line: string }, { readonly by?: string }>({ type: 'PLACED' });
const CLOSED = new EventType({ type: 'CLOSED' });

function newStore(eventStorageAdapter?: EventStorageAdapter, eventStoreId = 'ORDERS') {
  return new EventStore({
    eventStoreId,
    eventTypes: [PLACED, CLOSED],
    ...(eventStorageAdapter !== undefined && { eventStorageAdapter }),
    reducer: (order: Order | undefined, event): Order => ({
      aggregateId: event.aggregateId,
      version: event.version,
      lines: [...(order?.lines ?? []), ...(event.type === 'PLACED' ? [event.payload.line] : [])],
      by: event.type === 'PLACED' ? event.metadata.by : order?.by,
    }),
  });
}

const reducer = castoreReducer('castore-orders', 1, [newStore(), newStore(undefined, 'OTHERS')]);

/** An event store on logs, whose aggregates come from snapshots. */
function onLogs(place: FoldedLogs, eventStoreId = 'ORDERS') {
  const logs = place.logs();
  const store = newStore(logfoldEventStorage(logs, reducer), eventStoreId);
  attachSnapshots(logs, reducer, [store]);
  return store;
}

type Store = ReturnType<typeof newStore>;

/** The answer of a call, or the code of its error. */
async function plain(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    return { code: error instanceof Error && 'code' in error ? error.code : String(error) };
  }
}

/** Times rise, since the order of equal times is not defined. */
function eventOf(aggregateId: string, version: number, count: number) {
  const timestamp = new Date(1_700_000_000_000 + count * 1000).toISOString();
  return version % 3 === 0
    ? ({ aggregateId, version, type: 'CLOSED', timestamp } as const)
    : ({
        aggregateId,
        version,
        type: 'PLACED',
        timestamp,
        payload: { line: `tea ${count}` },
        metadata: { by: 'Ann' },
      } as const);
}

const IDS = ['a', 'ä/b', 'ORDERS'];
const id = fc.constantFrom(...IDS);
const bound = fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined });
const time = fc.option(
  fc.integer({ min: 0, max: 300 }).map((count) => eventOf('', 1, count).timestamp),
  { nil: undefined },
);
const calls = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ call: fc.constant('push' as const), id, back: fc.constantFrom(0, 0, 0, 1) }) },
    fc.record({
      call: fc.constant('group' as const),
      ids: fc.uniqueArray(id, { minLength: 1 }),
      back: fc.constantFrom(0, 0, 1),
    }),
    fc.record({
      call: fc.constant('events' as const),
      id,
      minVersion: bound,
      maxVersion: bound,
      limit: bound,
      reverse: fc.boolean(),
    }),
    fc.record({
      call: fc.constant('list' as const),
      limit: bound,
      initialEventAfter: time,
      initialEventBefore: time,
      reverse: fc.boolean(),
    }),
    fc.record({ call: fc.constant('aggregate' as const), id, maxVersion: bound }),
    fc.record({ call: fc.constant('snapshot' as const) }),
  ),
  { maxLength: 30 },
);
type Call = typeof calls extends fc.Arbitrary<(infer C)[]> ? C : never;

function defined(given: object) {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** All pages of a listing. */
async function pagesOf(store: Store, options: Parameters<Store['listAggregateIds']>[0]): Promise<unknown[]> {
  const pages = [await store.listAggregateIds(options)];
  for (let token = pages[0]?.nextPageToken; token !== undefined; token = pages.at(-1)?.nextPageToken) {
    pages.push(await store.listAggregateIds({ pageToken: token }));
  }
  return pages.map(({ aggregateIds }) => aggregateIds);
}

/** @param versions the newest version of each aggregate */
function answer(
  store: Store,
  call: Call,
  { versions, count }: { versions: ReadonlyMap<string, number>; count: number },
): Promise<unknown> {
  const next = (aggregate: string, back: number) => Math.max(1, (versions.get(aggregate) ?? 0) + 1 - back);
  switch (call.call) {
    case 'push':
      return plain(() => store.pushEvent(eventOf(call.id, next(call.id, call.back), count * 10)));
    case 'group': {
      const [first, ...rest] = call.ids.map((each, i) =>
        store.groupEvent(eventOf(each, next(each, i === 0 ? call.back : 0), count * 10 + i)),
      );
      return plain(async () => first && store.getEventStorageAdapter().pushEventGroup({}, first, ...rest));
    }
    case 'events': {
      const { minVersion, maxVersion, limit, reverse } = call;
      return plain(() => store.getEvents(call.id, defined({ minVersion, maxVersion, limit, reverse })));
    }
    case 'list': {
      const { call: _, ...options } = call;
      return plain(() => pagesOf(store, defined(options)));
    }
    case 'aggregate':
      return plain(async () => {
        const { aggregate, lastEvent } = await store.getAggregate(call.id, defined({ maxVersion: call.maxVersion }));
        return { aggregate, lastEvent };
      });
    default:
      return Promise.resolve();
  }
}

/** Compares the answers to calls; only successful pushes raise a version. */
async function compare(
  made: readonly Call[],
  { store, model, snapshot }: { store: Store; model: Store; snapshot: () => Promise<void> },
) {
  const versions = new Map<string, number>();
  for (const [count, call] of made.entries()) {
    if (call.call === 'snapshot') await snapshot();
    const given = { versions: new Map(versions), count };
    const expected = await answer(model, call, given);
    expect(await answer(store, call, given)).toEqual(expected);
    if (call.call === 'push' || call.call === 'group') {
      for (const each of IDS) versions.set(each, (await model.getEvents(each)).events.length);
    }
  }
}

test("event storage answers every call as Castore's adapter in memory does", async () => {
  await fc.assert(
    fc.asyncProperty(calls, async (made) => {
      const place = new FoldedLogs(reducer);
      const stores = { store: onLogs(place), model: newStore(new InMemoryEventStorageAdapter()) };
      await compare(made, { ...stores, snapshot: () => place.snapshotAll() });
    }),
    { numRuns: propertyRuns(300) },
  );
});

test('two event stores with the same aggregate ids share nothing', async () => {
  const place = new FoldedLogs(reducer);
  const [orders, others] = [onLogs(place), onLogs(place, 'OTHERS')];
  await orders.pushEvent(eventOf('a', 1, 1));
  expect(await others.getEvents('a')).toEqual({ events: [] });
  await others.pushEvent(eventOf('a', 1, 2));
  await place.snapshotAll();
  expect((await others.getAggregate('a')).aggregate?.lines).toEqual(['tea 2']);
  expect((await orders.listAggregateIds()).aggregateIds).toHaveLength(1);
});

test('an aggregate of a hundred events is read from its snapshot and the events since', async () => {
  const place = new FoldedLogs(reducer);
  const store = onLogs(place);
  for (let version = 1; version <= 100; version++) await store.pushEvent(eventOf('a', version, version));
  await place.snapshotAll();
  await store.pushEvent(eventOf('a', 101, 101));
  const { aggregate, events, lastEvent } = await onLogs(place).getAggregate('a');
  expect(aggregate).toMatchObject({ version: 101, lines: { length: 68 } });
  expect(events).toEqual([lastEvent]);
});

test('an event is never overwritten, and a gap is refused', async () => {
  const store = onLogs(new FoldedLogs(reducer));
  await store.pushEvent(eventOf('a', 1, 1));
  await expect(store.pushEvent(eventOf('a', 1, 2), { force: true })).rejects.toThrow('force');
  await expect(store.pushEvent(eventOf('a', 3, 3))).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND' });
  const [first, second] = [store.groupEvent(eventOf('a', 2, 4)), store.groupEvent(eventOf('a', 2, 5))];
  await expect(EventStore.pushEventGroup(first, second)).rejects.toThrow('have a gap, or repeat');
  const group = [store.groupEvent(eventOf('a', 2, 4)), store.groupEvent(eventOf('a', 3, 5))] as const;
  expect((await EventStore.pushEventGroup(...group)).eventGroup).toHaveLength(2);
  expect((await store.getEvents('a')).events.map(({ version }) => version)).toEqual([1, 2, 3]);
});

test.skipIf(findDynoxide() === undefined)(
  'the adapters of Castore for DynamoDB and for logs answer alike',
  async () => {
    const logs = await openLogs({ directory: await temporaryDirectory() });
    onTestFinished(() => logs.close());
    const engine = await startTestEngine();
    onTestFinished(() => engine.stop());
    await createCastoreTable(engine.client, 'events');
    const storage = new DynamoDBSingleTableEventStorageAdapter({ tableName: 'events', dynamoDBClient: engine.client });
    const store = newStore(logfoldEventStorage(logs, reducer));
    attachSnapshots(logs, reducer, [store]);
    const model = newStore(storage);
    const made: Call[] = [
      ...IDS.map((each) => ({ call: 'push', id: each, back: 0 }) as const),
      { call: 'group', ids: ['a', 'ORDERS'], back: 0 },
      { call: 'push', id: 'a', back: 1 },
      { call: 'group', ids: ['a', 'ORDERS'], back: 1 },
      { call: 'events', id: 'a', minVersion: 2, maxVersion: undefined, limit: 1, reverse: true },
      { call: 'events', id: 'a', minVersion: undefined, maxVersion: 1, limit: undefined, reverse: false },
      { call: 'list', limit: 2, initialEventAfter: undefined, initialEventBefore: undefined, reverse: true },
      { call: 'aggregate', id: 'ORDERS', maxVersion: 1 },
    ];
    await compare(made, { store, model, snapshot: async () => undefined });
  },
);
