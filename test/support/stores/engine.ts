import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  CreateTableCommand,
  DynamoDBClient,
  type DynamoDBClientConfig,
  ListTablesCommand,
} from '@aws-sdk/client-dynamodb';
import { entryTableInput, segmentTableInput } from '../../../src/local/tables.ts';

export interface TestEngine {
  readonly client: DynamoDBClient;
  readonly endpoint: string;
  /** Creates a new Entry table and a new Segment table. */
  createTables(): Promise<{ readonly entryTable: string; readonly segmentTable: string; readonly streamArn: string }>;
  stop(): Promise<void>;
}

const BINARY = fileURLToPath(import.meta.resolve('@dynoxide/linux-x64/dynoxide'));

/** A real DynamoDB API in a separate process, in memory, on a free port of 127.0.0.1. */
export async function startTestEngine(): Promise<TestEngine> {
  const port = await freePort();
  const child = spawn(BINARY, ['serve', '--port', String(port)], { stdio: 'ignore' });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const endpoint = `http://127.0.0.1:${port}`;
  const client = testClient(endpoint);
  const stop = async () => {
    client.destroy();
    child.kill();
    await exited;
  };
  try {
    await answering(client);
  } catch (error) {
    await stop();
    throw error;
  }
  let tables = 0;
  const createTables = async () => {
    tables++;
    const names = { entryTable: `entries-${tables}`, segmentTable: `segments-${tables}` };
    const { TableDescription: made } = await client.send(new CreateTableCommand(entryTableInput(names.entryTable)));
    await client.send(new CreateTableCommand(segmentTableInput(names.segmentTable)));
    return { ...names, streamArn: made?.LatestStreamArn ?? '' };
  };
  return { client, endpoint, createTables, stop };
}

/** A client of an engine. The engine needs no credentials, but the SDK insists on some. */
export function testClient(endpoint: string, config: DynamoDBClientConfig = {}): DynamoDBClient {
  return new DynamoDBClient({
    endpoint,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    ...config,
  });
}

async function answering(client: DynamoDBClient): Promise<void> {
  for (let left = 200; ; left--) {
    try {
      await client.send(new ListTablesCommand({}));
      return;
    } catch (error) {
      if (left === 0) throw error;
      await sleep(25);
    }
  }
}

/** A free port of 127.0.0.1. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (typeof address === 'object' && address !== null) resolve(address.port);
        else reject(new Error('no free port'));
      });
    });
  });
}
