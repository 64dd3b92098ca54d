import { describe, expect, onTestFinished, test } from 'vitest';
import { AttemptsExhaustedError, ResourceMissingError } from '../../src/errors.ts';
import type { DiscardedBatch } from '../../src/local/batch-delivery.ts';
import type { StreamPosition } from '../../src/local/checkpoint-store.ts';
import type { TrimmedRecords } from '../../src/local/shard-reader.ts';
import { StreamPoller } from '../../src/local/stream-poller.ts';
import type { StreamHandler } from '../../src/workers/dispatch/route-stream-records.ts';
import { MemoryCheckpoints, ScriptedStream, ScriptedTime } from '../support/stores/scripted-stream.ts';

interface Setup {
  readonly batchSize?: number;
  readonly retries?: number;
  readonly committed?: StreamPosition;
  readonly handler?: StreamHandler;
}

function poll(stream: ScriptedStream, { committed = {}, handler, ...limits }: Setup = {}) {
  const batches: string[][] = [];
  const discarded: DiscardedBatch[] = [];
  const trimmed: TrimmedRecords[] = [];
  const time = new ScriptedTime();
  const checkpoints = new MemoryCheckpoints(committed);
  const poller = new StreamPoller({
    client: stream.client,
    streamArn: 'arn:stream',
    checkpoints,
    time,
    ...limits,
    handler: async (records) => {
      batches.push(records.map((record) => record.eventId));
      return handler === undefined ? { batchItemFailures: [] } : await handler(records);
    },
    onDiscard: async (batch) => {
      discarded.push(batch);
    },
    onTrimmed: async (records) => {
      trimmed.push(records);
    },
  });
  const stopping = new AbortController();
  const ended = poller.run(stopping.signal);
  const stop = async () => {
    stopping.abort();
    await ended;
  };
  onTestFinished(() => stopping.abort());
  return { poller, batches, discarded, trimmed, time, checkpoints, ended, stop };
}

describe('shards', () => {
  test('a child is read only after its parent has ended', async () => {
    const stream = new ScriptedStream().shard('child', 'parent').shard('parent').write('child', 3, 4);
    stream.write('parent', 1, 2);
    const { poller, batches } = poll(stream, { batchSize: 2 });
    const caughtUp = poller.caughtUp();
    await expect.poll(() => batches).toEqual([['parent/1', 'parent/2']]);
    stream.close('parent');
    await caughtUp;
    expect(batches).toEqual([
      ['parent/1', 'parent/2'],
      ['child/3', 'child/4'],
    ]);
    expect(poller.routed()).toEqual({ parent: '2', child: '4' });
  });

  test('a child is read if the stream has dropped its parent', async () => {
    const { poller, batches } = poll(new ScriptedStream().shard('child', 'dropped').write('child', 1));
    await poller.caughtUp();
    expect(batches).toEqual([['child/1']]);
  });

  test('both children of a split are read, without a wait for the next list of shards', async () => {
    const stream = new ScriptedStream().shard('parent').write('parent', 1).close('parent');
    stream.shard('left', 'parent').write('left', 2).shard('right', 'parent').write('right', 3);
    const { poller, batches, time } = poll(stream);
    const began = time.now();
    await poller.caughtUp();
    expect(batches.flat().toSorted()).toEqual(['left/2', 'parent/1', 'right/3']);
    expect(time.now() - began).toBeLessThan(10_000);
  });

  test('a shard whose batch keeps failing does not delay other shards', async () => {
    const stream = new ScriptedStream().shard('bad').write('bad', 1).shard('good').write('good', 2);
    const { batches } = poll(stream, {
      handler: async ([record]) => {
        if (record?.eventId === 'bad/1') throw new Error('poison');
        return { batchItemFailures: [] };
      },
    });
    await expect.poll(() => batches).toContainEqual(['good/2']);
  });

  test('each shard has a position, which never moves back and is dropped with the shard', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1, 9, 10).shard('b').write('b', 7);
    const { poller, batches, checkpoints } = poll(stream, { committed: { a: '9', gone: '5' } });
    await poller.caughtUp();
    expect(batches.flat().toSorted()).toEqual(['a/10', 'b/7']);
    await poller.commit({ a: '10', b: '7' });
    await poller.commit({ a: '9' });
    expect(checkpoints.saved).toEqual({ a: '10', b: '7' });
  });
});

describe('a catch-up', () => {
  test('includes records that were written just before the call', async () => {
    const stream = new ScriptedStream().shard('a');
    const { poller, batches } = poll(stream);
    await poller.caughtUp();
    for (let n = 1; n <= 20; n++) {
      stream.write('a', n);
      await poller.caughtUp();
      expect(batches.at(-1)).toEqual([`a/${n}`]);
    }
  });

  test('includes shards that appeared just before the call', async () => {
    const stream = new ScriptedStream().shard('a');
    const { poller, batches } = poll(stream);
    await poller.caughtUp();
    stream.close('a').shard('b', 'a').shard('c', 'b').write('b', 1).close('b').write('c', 2);
    await poller.caughtUp();
    expect(batches).toEqual([['b/1'], ['c/2']]);
  });
});

describe('requests', () => {
  test('a new iterator at the last record replaces an expired iterator', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1, 2, 3);
    const { poller, batches } = poll(stream, { batchSize: 2 });
    await poller.caughtUp();
    stream.failures.push({ command: 'GetRecordsCommand', kind: 'expired' });
    stream.write('a', 4);
    await poller.caughtUp();
    expect(batches).toEqual([['a/1', 'a/2'], ['a/3'], ['a/4']]);
    expect(stream.requests.filter((command) => command === 'GetShardIteratorCommand')).toHaveLength(2);
  });

  test('a throttled request is retried after doubling waits, without a limit', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1);
    for (let n = 0; n < 10; n++) stream.failures.push({ command: 'GetRecordsCommand', kind: 'throttled' });
    const { poller, batches, time } = poll(stream);
    await poller.caughtUp();
    expect(batches).toEqual([['a/1']]);
    const waits = time.slept.filter((ms) => ms !== 10_000 && ms !== 250);
    expect(waits).toEqual([100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
  });

  test('a gap is reported once, and reading continues with the oldest record', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 5, 6);
    for (const command of ['GetShardIteratorCommand', 'GetRecordsCommand']) {
      stream.failures.push({ command, kind: 'trimmed' });
    }
    const { poller, batches, trimmed } = poll(stream, { committed: { a: '2' } });
    await poller.caughtUp();
    expect(trimmed).toEqual([{ shardId: 'a', afterSequenceNumber: '2' }]);
    expect(batches).toEqual([['a/5', 'a/6']]);
    expect(poller.routed()).toEqual({ a: '6' });
  });

  test('a shard that is dropped unread is reported, and its child is read', async () => {
    const stream = new ScriptedStream().shard('a').shard('b', 'a').write('b', 1);
    stream.failures.push({ command: 'GetShardIteratorCommand', kind: 'missing' });
    const { poller, batches, trimmed } = poll(stream);
    await poller.caughtUp();
    expect(trimmed).toEqual([{ shardId: 'a', afterSequenceNumber: undefined }]);
    expect(batches).toEqual([['b/1']]);
  });

  test('a stream that does not exist ends the run and every catch-up', async () => {
    const stream = new ScriptedStream();
    stream.failures.push({ command: 'DescribeStreamCommand', kind: 'missing' });
    const { poller, ended } = poll(stream);
    const caughtUp = poller.caughtUp();
    await Promise.all([
      expect(ended).rejects.toThrow(ResourceMissingError),
      expect(caughtUp).rejects.toThrow(ResourceMissingError),
    ]);
  });

  test('the run ends after eight attempts to reach the stream', async () => {
    const { client } = new ScriptedStream();
    client.middlewareStack.add(
      () => async () => {
        throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
      },
      { step: 'initialize', priority: 'high' },
    );
    const poller = new StreamPoller({
      client,
      streamArn: 'arn:stream',
      checkpoints: new MemoryCheckpoints(),
      time: new ScriptedTime(),
      handler: async () => ({ batchItemFailures: [] }),
      onDiscard: async () => {},
      onTrimmed: async () => {},
    });
    const error = await poller.run(new AbortController().signal).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(AttemptsExhaustedError);
    expect(error).toMatchObject({ attempts: 8, cause: { code: 'ECONNREFUSED' } });
  });
});

describe('a failing batch', () => {
  test('is retried after doubling waits, then discarded with its place, its records and the cause', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1, 2, 3);
    stream.createdMs = 1_000_000_000_000;
    const { poller, batches, discarded, time } = poll(stream, {
      ...{ retries: 3, batchSize: 1 },
      handler: async ([record]) => {
        if (record?.sequenceNumber === '1') throw new Error('no');
        return { batchItemFailures: [] };
      },
    });
    await poller.caughtUp();
    expect(batches).toEqual([...Array(4).fill(['a/1']), ['a/2'], ['a/3']]);
    expect(time.slept.filter((ms) => ms < 10_000 && ms !== 250)).toEqual([100, 200, 400]);
    expect(discarded).toEqual([
      {
        streamArn: 'arn:stream',
        shardId: 'a',
        records: 1,
        firstSequenceNumber: '1',
        lastSequenceNumber: '1',
        firstCreatedMs: stream.createdMs,
        lastCreatedMs: stream.createdMs,
        attempts: 4,
        cause: new Error('no'),
      },
    ]);
    expect(poller.routed()).toEqual({ a: '3' });
  });

  test('has all of its retries again after a partial success', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1, 2, 3);
    const { poller, batches, discarded } = poll(stream, {
      retries: 1,
      handler: async (records) => ({
        batchItemFailures: records
          .filter((record) => record.sequenceNumber === '2')
          .map((record) => ({ itemIdentifier: record.sequenceNumber })),
      }),
    });
    await poller.caughtUp();
    expect(batches).toEqual([['a/1', 'a/2', 'a/3'], ['a/2', 'a/3'], ['a/2'], ['a/2'], ['a/3']]);
    expect(discarded).toMatchObject([{ records: 1, firstSequenceNumber: '2', attempts: 2 }]);
  });

  test.each(['', '99', 'a/1'])(
    'fails as a whole if the handler reports the unknown record %j',
    async (itemIdentifier) => {
      const stream = new ScriptedStream().shard('a').write('a', 1, 2);
      const { poller, discarded } = poll(stream, {
        ...{ batchSize: 1, retries: 0 },
        handler: async () => ({ batchItemFailures: [{ itemIdentifier: '2' }, { itemIdentifier }] }),
      });
      await poller.caughtUp();
      const wrong = { records: 1, attempts: 1, cause: { code: 'MESSAGE_INVALID' } };
      expect(discarded).toMatchObject([wrong, wrong]);
    },
  );

  test('stays undone if the failure destination fails, which ends the run', async () => {
    const stream = new ScriptedStream().shard('a').write('a', 1);
    const poller = new StreamPoller({
      client: stream.client,
      streamArn: 'arn:stream',
      checkpoints: new MemoryCheckpoints(),
      time: new ScriptedTime(),
      retries: 0,
      handler: async () => {
        throw new Error('no');
      },
      onDiscard: async () => {
        throw new ResourceMissingError('no queue');
      },
      onTrimmed: async () => {},
    });
    await expect(poller.run(new AbortController().signal)).rejects.toThrow('no queue');
    expect(poller.routed()).toEqual({});
  });
});
