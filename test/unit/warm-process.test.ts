import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import { streamFunction } from '../../src/functions/stream-function.ts';
import { START } from '../../src/ids/position.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { segmentSizes } from '../../src/mapping/item-division.ts';
import { keyOf } from '../../src/mapping/key-pattern.ts';
import { LogRegistrar } from '../../src/mapping/log-registrar.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import { SweptFeed } from '../../src/workers/sweep/feed-ends.ts';
import { joined, partsOfItems, segmentItems, storeArchive } from '../support/archives.ts';
import { toLambdaRecord } from '../support/deployed/lambda-records.ts';
import { FedSheets } from '../support/fed-sheets.ts';
import { fedEnds } from '../support/feed.ts';
import { LOG, NOON, newLogId } from '../support/logs.ts';
import {
  type Interceptor,
  interceptBlobStore,
  interceptLogStore,
  interceptMappedItems,
} from '../support/stores/interceptor.ts';
import { MappedLogs, newMappedLog, ORDERS } from '../support/stores/mapped-logs.ts';
import { StreamedTable } from '../support/stores/streamed-table.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** A process that lives on after an error, as a function of Lambda does between two calls. */
interface Warm {
  /** Does the work. After an error, the service calls it again. */
  readonly work: () => Promise<unknown>;
  /** The result of the work, in the stores. */
  readonly left: () => Promise<unknown>;
}

/** A writer of the feed, whose requests may fail. */
function writerOf(fed: FedSheets, intercept: Interceptor): FeedWriter {
  const tables = interceptLogStore(fed.tables, intercept);
  const { store } = testDeployment({ tables, blobs: fed.deps.blobs });
  const sleep = async (): Promise<void> => undefined;
  const logs = new Logs({ ...fed.deps, tables, store, sleep, newLogId });
  return new FeedWriter({ logs, sleep, random: () => 0.5 });
}

const PROCESSES: readonly (readonly [string, (intercept: Interceptor) => Promise<Warm>])[] = [
  [
    'the stream function of mapped logs with a feed',
    async (intercept) => {
      const logs = new MappedLogs();
      const fed = new FedSheets();
      const blobs = interceptBlobStore(new MemoryBlobStore(), intercept);
      const items = interceptMappedItems(logs.items, intercept);
      const books = interceptLogStore(logs.books, intercept);
      const store = new MappedLogStore({ items, books, mapping: ORDERS, now: () => 0 });
      const registrar = new LogRegistrar({ store, blobs, table: 'orders', mapping: ORDERS });
      const feed = writerOf(fed, intercept);
      const schedule = segmentSizes({ snapshotEvery: { entries: 5 }, segmentEvery: { entries: 10 } });
      const published: number[] = [];
      const run = streamFunction({
        queue: { send: (message) => intercept('send', async () => void message) },
        types: VIRTUAL_TYPES,
        mapping: ORDERS,
        endAt: (log, index) => registrar.endAt(log, index, schedule),
        feed,
        publish: (checkpoint) => intercept('publish', async () => void published.push(checkpoint)),
        report: () => undefined,
      });
      const all = [newMappedLog(), newMappedLog()];
      for (const log of all) await logs.append(log, 12);
      const Records = all.map((log, i) =>
        toLambdaRecord({
          eventId: `event-${i}`,
          eventName: 'INSERT',
          sequenceNumber: String(i),
          keys: keyOf(ORDERS, log, 11),
          newImage: {},
        }),
      );
      return {
        work: async () => {
          const { batchItemFailures } = await run({ Records });
          if (batchItemFailures.length > 0) throw new Error('the function failed');
        },
        left: async () => {
          const ends = await fedEnds(fed.store);
          const segments = await Promise.all(
            all.map(async (log) => (await Array.fromAsync(logs.store.segments(log))).map(({ schedule: is }) => is)),
          );
          return [all.map((log) => ends[log]), segments, published.at(-1)];
        },
      };
    },
  ],
  [
    'the recorder of revisions',
    async (intercept) => {
      const table = new StreamedTable({ per: 'partition' });
      const recorder = table.recorder(interceptLogStore(table.deployment.tables, intercept));
      for (const [id, part] of ['a1', 'a2', 'b1', 'a1']) {
        table.put({ id: { S: id ?? '' }, part: { S: part ?? '' }, n: { N: String(table.records.length) } });
      }
      const changes = [...table.records];
      return {
        work: async () => {
          const { failed } = await recordRevisions({ logs: recorder }, changes);
          if (failed.length > 0) throw new Error('changes are not recorded');
        },
        left: () =>
          Promise.all(
            ['a', 'b'].map(async (id) => {
              const log = table.logOf({ id: { S: id }, part: { S: '' } });
              const { entries } = await table.logs().client.query(log, { from: START, to: 'end' });
              return (await Array.fromAsync(entries)).flat().map(({ type, number }) => [type, number]);
            }),
          ),
      };
    },
  ],
  [
    'a sweep that feeds several batches of logs',
    async (intercept) => {
      const fed = new FedSheets();
      const feed = writerOf(fed, intercept);
      const logs = Array.from({ length: 401 }, () => newLogId());
      return {
        work: async () => {
          const { tables, types, now } = fed.deps;
          const swept = new SweptFeed({ feed, now, hasStream: false, tables, types, onAhead: () => undefined });
          for (const log of logs) await swept.onEnd(log, { position: START, newest: START, created: NOON });
          await swept.finish();
        },
        left: async () => {
          const ends = await fedEnds(fed.store);
          return logs.map((log) => ends[log]);
        },
      };
    },
  ],
  [
    'a reader of an archived segment',
    async (intercept) => {
      const inner = new MemoryBlobStore();
      const tables = new MemoryLogStore();
      await tables.putSegment(await storeArchive(inner, joined(partsOfItems(segmentItems(12), 4))));
      const blobs = interceptBlobStore(inner, intercept);
      const { store } = testDeployment({ tables: interceptLogStore(tables, intercept), blobs });
      const read: unknown[] = [];
      return {
        work: async () => {
          read.length = 0;
          for (const from of [0, 5, 9]) {
            const range = { segment: 0, from, to: from + 3 };
            for await (const page of store.entries(LOG, range, { consistent: true })) read.push(...page);
          }
        },
        left: async () => read,
      };
    },
  ],
];

test.each(PROCESSES)('%s goes on after any request that failed', async (_, start) => {
  const names: string[] = [];
  const undisturbed = await start((name, effect) => {
    names.push(name);
    return effect();
  });
  names.length = 0;
  await undisturbed.work();
  const requests = [...names];
  const expected = await undisturbed.left();
  expect(requests.length).toBeGreaterThan(5);
  for (const [failing, name] of requests.entries()) {
    for (const when of ['before', 'after']) {
      let next = 0;
      const warm = await start(async (_name, effect) => {
        if (next++ !== failing) return effect();
        if (when === 'after') await effect();
        throw new StoreUnavailableError('the service does not answer');
      });
      const isDone = await warm.work().then(
        () => true,
        () => false,
      );
      if (isDone) expect(await warm.left(), `request ${failing}, '${name}', failed in silence`).toEqual(expected);
      await expect(
        warm.work(),
        `request ${failing}, '${name}', fails ${when} it takes effect`,
      ).resolves.toBeUndefined();
      expect(await warm.left(), `request ${failing}, '${name}', failed ${when} it took effect`).toEqual(expected);
    }
  }
});
