import { BatchWriteItemCommand, type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FileCheckpointStore } from '../../src/local/checkpoint-store.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { StreamPoller, type StreamPollerOptions } from '../../src/local/stream-poller.ts';
import { ensureTables } from '../../src/local/tables.ts';
import type { StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { shortWaits } from '../support/stores/scripted-stream.ts';
import { startEngine, temporaryDirectory } from '../support/stores/shared-engine.ts';

const TABLES = { entryTable: 'Entry', segmentTable: 'Segment' };
const PARTITION = new Uint8Array(20).fill(7);

type Rest = Partial<StreamPollerOptions> & Pick<StreamPollerOptions, 'handler'>;

/** Starts an engine with tables. Pollers of its stream share a checkpoint file. */
async function setUp(inDir?: string) {
  const dir = inDir ?? (await temporaryDirectory());
  const { db, streams, leave } = await startEngine(dir);
  const streamArn = await ensureTables(db, TABLES);
  const checkpoints = new FileCheckpointStore(dir, streamArn);
  const start = (options: Rest) => {
    const poller = new StreamPoller({
      client: streams,
      streamArn,
      checkpoints,
      onDiscard: unexpected,
      onTrimmed: unexpected,
      time: shortWaits,
      ...options,
    });
    const stopping = new AbortController();
    const ended = poller.run(stopping.signal);
    const stop = async () => {
      stopping.abort();
      await ended;
    };
    onTestFinished(stop);
    return { poller, stop, ended };
  };
  return { dir, db, start, leave };
}

async function unexpected(records: unknown): Promise<void> {
  throw new Error(`unexpected: ${JSON.stringify(records)}`);
}

async function put(db: DynamoDBClient, from: number, to: number): Promise<void> {
  for (let start = from; start < to; start += 25) {
    const numbers = Array.from({ length: Math.min(25, to - start) }, (_, i) => start + i);
    const Entry = numbers.map((n) => ({ PutRequest: { Item: { S: { B: PARTITION }, N: { N: `${n}` } } } }));
    await db.send(new BatchWriteItemCommand({ RequestItems: { Entry } }));
  }
}

function numbers(records: readonly StreamRecord[]): number[] {
  return records.map((record) => Number(record.keys.N?.N));
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

const ALL_WELL = { batchItemFailures: [] };

describe.skipIf(findDynoxide() === undefined)('the stream poller on a real stream', () => {
  test('the handler gets every record once and in order, in batches of at most the batch size', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 230);
    const batches: number[][] = [];
    const { poller } = start({
      batchSize: 50,
      handler: async (records) => {
        batches.push(numbers(records));
        return ALL_WELL;
      },
    });
    await poller.caughtUp();
    expect(batches.flat()).toEqual(range(0, 230));
    expect(batches.map((batch) => batch.length)).toEqual([50, 50, 50, 50, 30]);
    await put(db, 230, 300);
    await poller.caughtUp();
    expect(batches.flat()).toEqual(range(0, 300));
  });

  test('a record carries its keys and its image, with binaries as bytes', async () => {
    const { db, start } = await setUp();
    const item = { S: { B: PARTITION }, N: { N: '4' }, T: { S: 'Set' }, B: { B: new Uint8Array([1, 2, 255]) } };
    await db.send(new PutItemCommand({ TableName: 'Entry', Item: item }));
    const seen: StreamRecord[] = [];
    const { poller } = start({
      handler: async (records) => {
        seen.push(...records);
        return ALL_WELL;
      },
    });
    await poller.caughtUp();
    expect(seen).toMatchObject([{ eventName: 'INSERT', keys: { S: item.S, N: item.N }, newImage: item }]);
    expect(seen[0]?.newImage?.B?.B).toBeInstanceOf(Uint8Array);
    expect(seen[0]?.createdMs).toBeGreaterThan(0);
  });

  test('a record that the filter leaves out is done without the handler', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 100);
    const seen: number[] = [];
    const { poller } = start({
      filter: (record) => Number(record.keys.N?.N) % 10 === 3,
      handler: async (records) => {
        seen.push(...numbers(records));
        return ALL_WELL;
      },
    });
    await poller.caughtUp();
    expect(seen).toEqual([3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    const [position] = Object.values(poller.routed());
    expect(position).toBe('100');
  });

  test('a new poller starts at the committed position, not at the handled one, also after a restart of the engine', async () => {
    const { dir, db, start, leave } = await setUp();
    await put(db, 0, 40);
    const first = start({ handler: async () => ALL_WELL });
    await first.poller.caughtUp();
    const position = first.poller.routed();
    await put(db, 40, 60);
    await first.poller.caughtUp();
    await first.poller.commit(position);
    await first.stop();
    await leave();

    const restarted = await setUp(dir);
    const seen: number[] = [];
    const second = restarted.start({
      handler: async (records) => {
        seen.push(...numbers(records));
        return ALL_WELL;
      },
    });
    await second.poller.caughtUp();
    expect(seen).toEqual(range(40, 60));
    await second.poller.commit(second.poller.routed());
    await second.poller.commit(position);
    await second.stop();

    const third = restarted.start({ handler: unexpectedRecords });
    await third.poller.caughtUp();
  });

  test('the batch after a partial failure starts at the first record that failed', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 10);
    const batches: number[][] = [];
    const { poller } = start({
      handler: async (records) => {
        batches.push(numbers(records));
        if (batches.length > 1) return ALL_WELL;
        return { batchItemFailures: [7, 4, 8].map((n) => ({ itemIdentifier: `${records[n]?.sequenceNumber}` })) };
      },
    });
    await poller.caughtUp();
    expect(batches).toEqual([range(0, 10), range(4, 10)]);
  });

  test('bisecting isolates a poisoned record, which goes to the failure destination; the handler gets all others', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 64);
    const handled: number[] = [];
    const discarded: unknown[] = [];
    const { poller } = start({
      retries: 2,
      handler: async (records) => {
        if (numbers(records).includes(21)) throw new Error('poison');
        handled.push(...numbers(records));
        return ALL_WELL;
      },
      onDiscard: async (batch) => {
        discarded.push(batch);
      },
    });
    await poller.caughtUp();
    expect(handled).toEqual(range(0, 64).filter((n) => n !== 21));
    expect(discarded).toMatchObject([
      {
        records: 1,
        firstSequenceNumber: '22',
        lastSequenceNumber: '22',
        attempts: 3,
        cause: { message: 'poison' },
      },
    ]);
    expect(Object.values(poller.routed())).toEqual(['64']);
  });

  test('the poller is not caught up while the handler fails', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 3);
    let failing = true;
    let caughtUp = false;
    let failures = 0;
    const fiveFailures = Promise.withResolvers<void>();
    const { poller } = start({
      handler: async () => {
        if (!failing) return ALL_WELL;
        if (++failures === 5) fiveFailures.resolve();
        throw new Error('not yet');
      },
    });
    const catchUp = poller.caughtUp().then(() => {
      caughtUp = true;
    });
    await fiveFailures.promise;
    expect(caughtUp).toBe(false);
    expect(poller.routed()).toEqual({});
    failing = false;
    await catchUp;
  });

  test('a stop ends the run and rejects open catch-ups', async () => {
    const { db, start } = await setUp();
    await put(db, 0, 1);
    const called = Promise.withResolvers<void>();
    const { poller, stop, ended } = start({
      handler: async () => {
        called.resolve();
        throw new Error('never');
      },
    });
    const catchUp = poller.caughtUp();
    await called.promise;
    await Promise.all([expect(catchUp).rejects.toThrow('the stream poller has stopped'), stop()]);
    await expect(ended).resolves.toBeUndefined();
    await expect(poller.caughtUp()).rejects.toThrow('the stream poller has stopped');
  });
});

async function unexpectedRecords(records: readonly StreamRecord[]): Promise<never> {
  throw new Error(`unexpected: ${numbers(records)}`);
}
