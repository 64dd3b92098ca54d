import { describe, expect, test } from 'vitest';
import { withScratch } from '../../src/adapters/filesystem/scratch.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { ResourceMissingError } from '../../src/errors.ts';
import { FEED_DIVISION, FEED_LOG } from '../../src/feed/feed-log.ts';
import { type FunctionEvent, reportEvent } from '../../src/functions/function-event.ts';
import { replayFunction } from '../../src/functions/replay-function.ts';
import { type StreamFunctionDeps, streamFunction } from '../../src/functions/stream-function.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { segmentSizes } from '../../src/mapping/item-division.ts';
import { keyOf } from '../../src/mapping/key-pattern.ts';
import { LogRegistrar } from '../../src/mapping/log-registrar.ts';
import { loadRoot } from '../../src/snapshot/snapshots.ts';
import type { StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { runJob } from '../../src/workers/dispatch/run-job.ts';
import { dividedFeed } from '../../src/workers/feed/feed-writer.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { toLambdaRecord } from '../support/deployed/lambda-records.ts';
import { FedSheets } from '../support/fed-sheets.ts';
import { entryAt, NOON } from '../support/logs.ts';
import { MappedLogs, newMappedLog, ORDERS, orderItem } from '../support/stores/mapped-logs.ts';

const A = textLogId('0190b5a0-7e1c-7000-8000-00000000000a');
const B = textLogId('0190b5a0-7e1c-7000-8000-00000000000b');

let sequence = 100;

function record(keys: StreamRecord['keys'], changes: Partial<StreamRecord> = {}): StreamRecord {
  const sequenceNumber = String(++sequence);
  return { eventId: `event-${sequenceNumber}`, eventName: 'INSERT', sequenceNumber, keys, ...changes };
}

function inserted(log: LogId, position: Position, type = 'Set'): StreamRecord {
  return record(entryKey(log, position), { newImage: encodeEntry(entryAt(log, position, { type })) });
}

/** The stream function of a deployment with a feed, called as Lambda calls it. */
class FedStream {
  readonly sheets = new FedSheets();
  readonly events: FunctionEvent[] = [];
  readonly published: number[] = [];
  deps: Partial<StreamFunctionDeps> = {};

  async run(...records: readonly StreamRecord[]): Promise<readonly string[]> {
    const { queue, writer } = this.sheets;
    const run = streamFunction({
      queue,
      types: RESERVED_TYPES,
      feed: writer,
      publish: async (checkpoint) => void this.published.push(checkpoint),
      report: (event) => this.events.push(event),
      ...this.deps,
    });
    const event = JSON.parse(JSON.stringify({ Records: records.map(toLambdaRecord) }));
    return (await run(event)).batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  }
}

describe('the stream function with a feed', () => {
  test('feeds the newest end of each log of a batch in one entry, and publishes', { tags: ['I10'] }, async () => {
    const stream = new FedStream();
    const batch = [
      inserted(A, { segment: 0, entry: 3 }),
      inserted(B, { segment: 2, entry: 0 }, 'Snapshot'),
      inserted(A, { segment: 1, entry: 1 }),
      inserted(A, { segment: 0, entry: 4 }),
    ];
    expect(await stream.run(...batch)).toEqual([]);
    expect(await stream.sheets.fed()).toEqual({ [A]: '1/1', [B]: '2/0' });
    expect(stream.published).toEqual([2]);
    expect(await stream.sheets.jobs()).toMatchObject([{ kind: 'snapshot', log: B }]);
    const fed = stream.events.at(-1);
    expect(fed).toEqual({ kind: 'fed', run: batch[0]?.eventId, spans: 2, checkpoint: 2 });
    expect(fed && reportEvent(fed).metrics).toEqual([{ name: 'FeedSpans', unit: 'Count', value: 2 }]);
  });

  test('publishes a batch that the feed has, because an earlier delivery may not have', async () => {
    const stream = new FedStream();
    const batch = [inserted(A, { segment: 0, entry: 3 })];
    await stream.run(...batch);
    stream.published.length = 0;
    expect(await stream.run(...batch)).toEqual([]);
    expect(stream.published).toEqual([2]);
    expect(await stream.sheets.fed()).toEqual({ [A]: '0/3' });
  });

  test('feeds insertions only, and neither the feed nor items of other programs', async () => {
    const stream = new FedStream();
    const batch = [
      record(entryKey(A, { segment: 0, entry: 3 }), { eventName: 'REMOVE' }),
      { ...inserted(A, { segment: 0, entry: 4 }), eventName: 'MODIFY' as const },
      record({ S: { B: new Uint8Array(3) }, N: { N: '1' } }, { newImage: { other: { S: 'item' } } }),
      record({ pk: { S: 'other' } }, { newImage: {} }),
      inserted(FEED_LOG, { segment: 0, entry: 1 }),
    ];
    expect(await stream.run(...batch)).toEqual([]);
    expect(stream.published).toEqual([]);
    expect(stream.events).toEqual([]);
  });

  test('feeds the other records of a batch with a malformed Snapshot entry', async () => {
    const stream = new FedStream();
    const malformed = record({ S: { B: new Uint8Array(3) }, N: { N: '1' } }, { newImage: { T: { S: 'Snapshot' } } });
    const failed = await stream.run(malformed, inserted(A, { segment: 0, entry: 3 }));
    expect(failed).toEqual([malformed.sequenceNumber]);
    expect(await stream.sheets.fed()).toEqual({ [A]: '0/3' });
  });

  test.each<[string, Partial<StreamFunctionDeps>]>([
    [
      'the feed cannot be written',
      { feed: { add: () => Promise.reject(new ResourceMissingError('there is no feed')) } },
    ],
    ['its end cannot be published', { publish: () => Promise.reject(new ResourceMissingError('there is no feed')) }],
  ])('fails all records if %s, and has sent their jobs', async (_, deps) => {
    const stream = new FedStream();
    stream.deps = deps;
    const batch = [inserted(A, { segment: 0, entry: 3 }), inserted(B, { segment: 0, entry: 5 }, 'Snapshot')];
    expect(await stream.run(...batch)).toEqual(batch.map(({ sequenceNumber }) => sequenceNumber));
    expect(await stream.sheets.jobs()).toMatchObject([{ kind: 'snapshot', log: B }]);
    const failed = stream.events.at(-1);
    expect(failed).toMatchObject({ kind: 'unfed', error: { code: 'RESOURCE_MISSING' } });
    expect(failed && reportEvent(failed).metrics).toEqual([{ name: 'FeedFailures', unit: 'Count', value: 1 }]);
    stream.deps = {};
    expect(await stream.run(...batch)).toEqual([]);
    expect(await stream.sheets.fed()).toEqual({ [A]: '0/3', [B]: '0/5' });
  });

  test('feeds items of mapped logs by their positions, and registers new logs', async () => {
    const stream = new FedStream();
    const logs = new MappedLogs();
    const blobs = new MemoryBlobStore(() => NOON * 1000);
    const registrar = new LogRegistrar({ store: logs.store, blobs, table: 'orders', mapping: ORDERS });
    const schedule = segmentSizes({ snapshotEvery: { entries: 5 }, segmentEvery: { entries: 10 } });
    stream.deps = {
      types: VIRTUAL_TYPES,
      mapping: ORDERS,
      endAt: (log, index) => registrar.endAt(log, index, schedule),
    };
    const [log, unfit] = [newMappedLog(), newMappedLog()];
    await logs.append(log, 12);
    logs.items.insert({ ...orderItem(unfit, 0), ts: { S: 'soon' } });
    const misplaced = record({ ...keyOf(ORDERS, log, 0), sk: { N: '-1' } });
    const batch = [
      ...[9, 10, 11].map((i) => record(keyOf(ORDERS, log, i))),
      misplaced,
      record(keyOf(ORDERS, unfit, 0)),
    ];
    expect(await stream.run(...batch)).toEqual([]);
    expect(await stream.sheets.fed()).toMatchObject({ [log]: '1/2' });
  });
});

describe('the jobs of the feed', () => {
  test('the feed asks for a divide job at each multiple of its policy', async () => {
    const { queue, jobs, ...sheets } = new FedSheets();
    const every = FEED_DIVISION.snapshotEvery.entries ?? 0;
    let entries: Position[] = [];
    const feed = dividedFeed({ add: async () => ({ spans: 1, entries, checkpoint: 1, ahead: [] }) }, queue);
    const asked = async (...numbers: number[]): Promise<number> => {
      entries = numbers.map((entry) => ({ segment: 0, entry }));
      await feed.add([]);
      return (await jobs.call({ queue, jobs, ...sheets })).length;
    };
    expect(await asked()).toBe(0);
    expect(await asked(every - 1)).toBe(0);
    expect(await asked(every - 1, every, every + 1)).toBe(1);
  });

  test('are done with its own reducer and its own division policy', { tags: ['I10'] }, async () => {
    const sheets = new FedSheets();
    const { deps, queue, writer, logs, store } = sheets;
    const run = (job: Parameters<typeof runJob>[1]) => {
      const otherReducer = () => Promise.reject(new Error('the feed has another reducer'));
      return runJob(
        { ...deps, queue, otherReducer, division: { snapshotEvery: { entries: 1 }, segmentEvery: {} } },
        job,
      );
    };
    await writer.add([{ log: A, position: { segment: 0, entry: 3 } }]);
    await writer.add([{ log: A, position: { segment: 0, entry: 4 } }]);
    expect(await run({ kind: 'divide', log: FEED_LOG })).toEqual({ outcome: 'undivided', reason: 'not due' });
    const { position } = await logs.client.addSnapshot(FEED_LOG);
    expect(await run({ kind: 'snapshot', log: FEED_LOG, position })).toMatchObject({ outcome: 'built' });
    const entry = await store.getEntry(FEED_LOG, position, { consistent: true });
    if (entry?.body?.format !== 'bytes') throw new Error('the feed has no inline root');
    const root = await loadRoot(deps, { log: FEED_LOG, position }, { inline: entry.body.bytes });
    expect(root.reducer).toEqual({ name: 'feed', version: 1 });
    const replay = replayFunction({ ...deps, withScratch, report: () => undefined });
    expect(await replay({ log: FEED_LOG }, lambdaContext(900_000))).toMatchObject({ equal: true, entries: 3 });
  });
});
