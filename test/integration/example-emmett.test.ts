import {
  CommandHandler,
  type Event,
  type EventStore,
  type ExpectedStreamVersion,
  getInMemoryEventStore,
  isExpectedVersionConflictError,
  NO_CONCURRENCY_CHECK,
  STREAM_DOES_NOT_EXIST,
  STREAM_EXISTS,
  WrapEventStore,
} from '@event-driven-io/emmett';
import fc from 'fast-check';
import { openLogs } from 'logfold/local';
import { describe, expect, onTestFinished, test } from 'vitest';
import { getLogfoldEventStore, streamReducer } from '../../examples/emmett/event-store.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { FoldedLogs } from '../support/folded-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

type Added = Event<'Added', { item: string; count: number }>;
type Removed = Event<'Removed', { item: string }, { by: string }>;
type CartEvent = Added | Removed;
interface Cart {
  readonly items: { readonly [item: string]: number };
  readonly by?: string | undefined;
}

function evolve({ items }: Cart, event: CartEvent): Cart {
  if (event.type === 'Added') return { items: { ...items, [event.data.item]: event.data.count } };
  const { [event.data.item]: _, ...rest } = items;
  return { items: rest, by: event.metadata.by };
}
const initialState = (): Cart => ({ items: {} });
const carts = streamReducer({ name: 'carts', version: 1, evolve, initialState });
const added = (item: string, count = 1): Added => ({ type: 'Added', data: { item, count } });
const removed = (item: string): Removed => ({ type: 'Removed', data: { item }, metadata: { by: 'Ann' } });

/** An answer without ids of messages, global positions and texts of errors. */
async function plain(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return withoutIds(await call());
  } catch (error) {
    return isExpectedVersionConflictError(error)
      ? { conflict: error.current, expected: error.expected }
      : { error: true };
  }
}

function withoutIds(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(withoutIds);
  if (typeof answer !== 'object' || answer === null) return answer;
  const kept = Object.entries(answer).filter(
    ([name, value]) => !['messageId', 'globalPosition'].includes(name) && value !== undefined,
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, withoutIds(value)]));
}

const stream = fc.constantFrom('cart-1', 'cart-2', 'ä/🛒');
const event = fc.oneof(
  fc
    .record({ item: fc.constantFrom('tea', '__proto__', 'milk'), count: fc.integer() })
    .map(({ item, count }) => added(item, count)),
  fc.constantFrom('tea', 'milk').map(removed),
);
const expected = fc.option(
  fc.oneof(
    fc.constantFrom<ExpectedStreamVersion>(STREAM_EXISTS, STREAM_DOES_NOT_EXIST, NO_CONCURRENCY_CHECK),
    fc.bigInt({ min: 0n, max: 8n }),
  ),
  { nil: undefined },
);
const place = fc.option(fc.bigInt({ min: 0n, max: 8n }), { nil: undefined });
const calls = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.tuple(
        fc.constant('append' as const),
        stream,
        fc.array(event, { minLength: 1, maxLength: 3 }),
        expected,
      ),
    },
    fc.tuple(fc.constant('read' as const), stream, place, place, place, expected),
    fc.tuple(fc.constant('aggregate' as const), stream, expected),
    fc.tuple(fc.constant('exists' as const), stream),
    fc.tuple(fc.constant('snapshot' as const), stream),
  ),
  { maxLength: 25 },
);
type Call = typeof calls extends fc.Arbitrary<(infer C)[]> ? C : never;

function answer(store: EventStore, call: Call): Promise<unknown> {
  switch (call[0]) {
    case 'append':
      return plain(() =>
        store.appendToStream(call[1], call[2], { ...(call[3] !== undefined && { expectedStreamVersion: call[3] }) }),
      );
    case 'read': {
      const [, name, from, to, maxCount, version] = call;
      const options = { from, to, maxCount, expectedStreamVersion: version };
      const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
      return plain(() => store.readStream(name, given));
    }
    case 'aggregate': {
      const read = { ...(call[2] !== undefined && { expectedStreamVersion: call[2] }) };
      return plain(() => store.aggregateStream(call[1], { evolve, initialState, read }));
    }
    default:
      return plain(() => store.streamExists(call[1]));
  }
}

describe('the event store', () => {
  test("answers every call as Emmett's store in memory does, with and without snapshots", async () => {
    await fc.assert(
      fc.asyncProperty(calls, async (made) => {
        const place = new FoldedLogs(carts);
        const stores = [getLogfoldEventStore(place.logs(), carts), getLogfoldEventStore(place.logs())];
        const model = getInMemoryEventStore();
        for (const [i, call] of made.entries()) {
          const store = stores[i % 2];
          if (store === undefined) continue;
          if (call[0] === 'snapshot') await place.snapshotAll();
          else expect(await answer(store, call)).toEqual(await answer(model, call));
        }
      }),
      { numRuns: propertyRuns(300) },
    );
  });

  test('goes on after an event with an undefined property, which evolve puts into its state', async () => {
    type Line = Event<'Line', { item?: string | undefined }>;
    const lines = { evolve: (state: unknown[], { data }: Line) => [...state, data.item], initialState: () => [] };
    const reducer = streamReducer({ name: 'lines', version: 1, ...lines });
    const place = new FoldedLogs(reducer);
    const store = getLogfoldEventStore(place.logs(), reducer);
    const line = (item: string | undefined): Line => ({ type: 'Line', data: { item } });
    await store.appendToStream('list', [line(undefined), line('tea')]);
    await place.snapshotAll();
    await store.appendToStream('list', [line(undefined)]);
    const { state } = await store.aggregateStream('list', lines);
    expect(state).toEqual([null, 'tea', null]);
  });

  test("runs Emmett's command handler, which tries again after a conflict", async () => {
    const place = new FoldedLogs(carts);
    const store = getLogfoldEventStore(place.logs(), carts);
    const other = getLogfoldEventStore(place.logs(), carts);
    const handle = CommandHandler<Cart, CartEvent>({ evolve, initialState, retry: { onVersionConflict: 3 } });
    await handle(store, 'cart', () => added('tea'));
    let attempts = 0;
    const { newState, nextExpectedStreamVersion } = await handle(store, 'cart', async ({ items }) => {
      attempts++;
      if (attempts === 1) await other.appendToStream('cart', [added('milk', 2)]);
      return added('tea', (items.tea ?? 0) + (items.milk ?? 0));
    });
    expect({ attempts, newState, nextExpectedStreamVersion }).toEqual({
      attempts: 2,
      newState: { items: { tea: 3, milk: 2 } },
      nextExpectedStreamVersion: 3n,
    });
  });

  test('gives events through upcasts, and stores them through downcasts', async () => {
    const versioning = {
      downcast: (event: Added) => ({ ...event, data: { line: `${event.data.item} ${event.data.count}` } }),
      upcast: (event: Event<'Added', { line: string }>): Added => {
        const [item = '', count = ''] = event.data.line.split(' ');
        return added(item, Number(count));
      },
    };
    for (const store of [getLogfoldEventStore(new FoldedLogs(carts).logs()), getInMemoryEventStore()]) {
      await store.appendToStream<Added, Event<'Added', { line: string }>>('cart', [added('tea', 2)], {
        schema: { versioning },
      });
      expect((await store.readStream('cart')).events).toMatchObject([{ data: { line: 'tea 2' } }]);
      const { events } = await store.readStream<Added, Event<'Added', { line: string }>>('cart', {
        schema: { versioning },
      });
      expect(events).toMatchObject([{ data: { item: 'tea', count: 2 } }]);
    }
  });

  test('refuses a version beyond a missing stream without creating it', async () => {
    const logs = new FoldedLogs(carts).logs();
    const store = getLogfoldEventStore(logs, carts);
    const call = () => store.appendToStream('cart', [added('tea')], { expectedStreamVersion: 3n });
    expect(await plain(call)).toEqual({ conflict: '0', expected: '3' });
    expect(await Array.fromAsync(logs.list())).toEqual([]);
  });

  test('reads a stream with a snapshot without its events', async () => {
    const place = new FoldedLogs(carts);
    const writer = WrapEventStore(getLogfoldEventStore(place.logs()));
    await writer.setup(
      'cart',
      Array.from({ length: 50 }, (_, i) => added(`item ${i}`)),
    );
    await place.snapshotAll();
    const logs = place.logs();
    const reads: string[] = [];
    const { client } = logs;
    const query = client.query.bind(client);
    client.query = (log, range) => {
      reads.push(log);
      return query(log, range);
    };
    const { state } = await getLogfoldEventStore(logs, carts).aggregateStream('cart', { evolve, initialState });
    expect(Object.keys(state.items)).toHaveLength(50);
    expect(reads).toEqual([]);
  });
});

test.skipIf(findDynoxide() === undefined)('streams survive on the embedded engine', async () => {
  const directory = await temporaryDirectory();
  const logs = await openLogs({ directory });
  onTestFinished(() => logs.close());
  const store = getLogfoldEventStore(logs, carts);
  const first = await store.appendToStream('cart', [added('tea'), added('milk')], {
    expectedStreamVersion: STREAM_DOES_NOT_EXIST,
  });
  expect(first).toEqual({ nextExpectedStreamVersion: 2n, createdNewStream: true });
  expect(
    await plain(() => store.appendToStream('cart', [removed('tea')], { expectedStreamVersion: 1n })),
  ).toMatchObject({
    conflict: '2',
  });
  await store.appendToStream('cart', [removed('tea')], { expectedStreamVersion: 2n });
  expect(await store.aggregateStream('cart', { evolve, initialState })).toEqual({
    currentStreamVersion: 3n,
    state: { items: { milk: 1 }, by: 'Ann' },
    streamExists: true,
  });
});
