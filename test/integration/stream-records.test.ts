import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import {
  DescribeStreamCommand,
  DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import { expect, onTestFinished, test } from 'vitest';
import { FileCheckpointStore } from '../../src/local/checkpoint-store.ts';
import { joinEngine } from '../../src/local/engine.ts';
import { dataPath } from '../../src/local/engine-program.ts';
import { trimStreamRecords } from '../../src/local/stream-records.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const DAY_MS = 24 * 3600 * 1000;

interface Stream {
  readonly dir: string;
  readonly arn: string;
  readonly shard: string;
  put(count: number): Promise<void>;
  /** Sequence numbers, oldest first. */
  read(): Promise<string[]>;
  leave(): Promise<void>;
}

/** The stream of an Entry table in a data directory. */
async function openStream(dir: string): Promise<Stream> {
  const engine = await joinEngine(dir);
  const config = clientConfig(engine.endpoint);
  const client = new DynamoDBClient(config);
  const streams = new DynamoDBStreamsClient(config);
  const arn = await ensureTables(client, { entryTable: 'Entry', segmentTable: 'Segment' });
  const described = await streams.send(new DescribeStreamCommand({ StreamArn: arn }));
  const shard = described.StreamDescription?.Shards?.[0]?.ShardId ?? '';
  let items = 0;
  return {
    dir,
    arn,
    shard,
    async put(count) {
      for (const last = items + count; items < last; items++) {
        const Item = { S: { B: Uint8Array.of(1) }, N: { N: `${items}` } };
        await client.send(new PutItemCommand({ TableName: 'Entry', Item }));
      }
    },
    async read() {
      const from = { StreamArn: arn, ShardId: shard, ShardIteratorType: 'TRIM_HORIZON' } as const;
      const { ShardIterator } = await streams.send(new GetShardIteratorCommand(from));
      const { Records = [] } = await streams.send(new GetRecordsCommand({ ShardIterator, Limit: 1000 }));
      return Records.map((record) => record.dynamodb?.SequenceNumber ?? '');
    },
    leave: () => engine.leave(),
  };
}

async function temporaryDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'logfold-stream-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  return dir;
}

test('a trim deletes records that are a day old and done, and keeps the newest record', async () => {
  const stream = await openStream(await temporaryDirectory());
  try {
    const path = dataPath('dynoxide', stream.dir);
    const trim = (upTo: string | undefined, now: number, streamArn = stream.arn) =>
      trimStreamRecords(path, { streamArn, position: { [stream.shard]: upTo ?? '' } }, now);
    await stream.put(10);
    const records = await stream.read();
    const tomorrow = Date.now() + DAY_MS + 60_000;
    expect(trim(records[9], Date.now())).toBe(0);
    expect(trim(records[9], tomorrow, `${stream.arn}0`)).toBe(0);
    expect(trim(records[3], tomorrow)).toBe(4);
    expect(await stream.read()).toEqual(records.slice(4));
    expect(trim(records[9], tomorrow)).toBe(5);
    expect(await stream.read()).toEqual(records.slice(9));
    await stream.put(2);
    const numbers = (await stream.read()).map(Number);
    expect(numbers).toHaveLength(3);
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  } finally {
    await stream.leave();
  }
});

test('a start of the engine trims records that the pipeline has done', async () => {
  const dir = await temporaryDirectory();
  const first = await openStream(dir);
  await first.put(6);
  const records = await first.read();
  await new FileCheckpointStore(dir, first.arn).save({ [first.shard]: records[2] ?? '' });
  await first.leave();
  const database = new DatabaseSync(dataPath('dynoxide', dir));
  database.exec(`UPDATE _stream_records SET created_at = created_at - ${2 * 24 * 3600}`);
  database.close();
  const second = await openStream(dir);
  try {
    expect(await second.read()).toEqual(records.slice(3));
  } finally {
    await second.leave();
  }
});

test('a start of the engine gives the space of deleted data back, and keeps the rest', async () => {
  const dir = await temporaryDirectory();
  const first = await openStream(dir);
  await first.put(3);
  const records = await first.read();
  await first.leave();
  const path = dataPath('dynoxide', dir);
  const database = new DatabaseSync(path);
  database.exec(
    'CREATE TABLE deleted (bytes BLOB); INSERT INTO deleted VALUES (zeroblob(20000000)); DROP TABLE deleted',
  );
  database.close();
  expect((await stat(path)).size).toBeGreaterThan(20_000_000);
  const second = await openStream(dir);
  try {
    expect((await stat(path)).size).toBeLessThan(1_000_000);
    expect(await second.read()).toEqual(records);
  } finally {
    await second.leave();
  }
});
