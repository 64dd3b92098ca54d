import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import type { Context, DynamoDBBatchResponse, DynamoDBStreamEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { interceptLocalhostDns } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb-log-store.ts';
import { nativePlatform } from '../../src/adapters/native-platform.ts';
import { S3BlobStore } from '../../src/adapters/s3-blob-store.ts';
import { SqsJobQueue } from '../../src/adapters/sqs-job-queue.ts';
import { LogClient } from '../../src/log/client.ts';
import { parseLogId } from '../../src/log/log-id.ts';
import type { Position } from '../../src/log/position.ts';
import type { Value } from '../../src/log/value.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { listProgress } from '../../src/snapshot/progress.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/rows.ts';
import { encodeJob, type Job } from '../../src/workers/job.ts';
import { logStatus } from '../../src/workers/status.ts';
import { startTestEngine, type TestEngine } from '../support/engine.ts';
import { type LocalAws, startLocalAws } from '../support/fauxqs.ts';
import { sqsEvent, streamEvent } from '../support/lambda-events.ts';

const BUCKET = 'snapshots';

type StreamHandler = (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse>;
type Time = Pick<Context, 'getRemainingTimeInMillis'>;
type QueueHandler = (event: SQSEvent, context: Time) => Promise<SQSBatchResponse>;

const FIFTEEN_MINUTES: Time = { getRemainingTimeInMillis: () => 900_000 };

describe('the Lambda handlers, on a real DynamoDB API, SQS API and S3 API', () => {
  let engine: TestEngine;
  let aws: LocalAws;
  let store: DynamoDbLogStore;
  let blobs: S3BlobStore;
  let queue: SqsJobQueue;
  let restoreDns: () => void;
  let entryTable: string;
  let onStream: StreamHandler;
  let onQueue: QueueHandler;

  beforeAll(async () => {
    engine = await startTestEngine();
    aws = await startLocalAws();
    const tables = await engine.createTables();
    entryTable = tables.entryTable;
    await aws.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const { queueUrl } = aws.server.createQueue('jobs.fifo', { attributes: { FifoQueue: 'true' } });
    // The queue's URL has a host under localhost, which not every resolver knows.
    restoreDns = interceptLocalhostDns();
    store = new DynamoDbLogStore({ client: engine.client, ...tables });
    blobs = new S3BlobStore({ client: aws.s3, bucket: BUCKET });
    queue = new SqsJobQueue({ client: aws.sqs, queueUrl });
    // All that a deployed function knows of the world.
    const environment = {
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
      AWS_ENDPOINT_URL_S3: aws.server.address,
      POWERTOOLS_LOG_LEVEL: 'SILENT',
      ENTRY_TABLE: tables.entryTable,
      SEGMENT_TABLE: tables.segmentTable,
      BUCKET,
      QUEUE_URL: queueUrl,
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    onStream = (await import('../../handlers/stream.ts')).handler;
    onQueue = (await import('../../handlers/snapshot.ts')).handler;
  });

  afterAll(async () => {
    vi.unstubAllEnvs();
    restoreDns();
    await engine.stop();
    await aws.stop();
  });

  function newClient(): LogClient {
    return new LogClient({
      store,
      blobs,
      now: Date.now,
      random: Math.random,
      sleep,
      newLogId: () => parseLogId(randomUUID()),
    });
  }

  /** Does what the event source mapping of the queue does, until the queue is empty. */
  async function drain(context = FIFTEEN_MINUTES): Promise<SQSBatchResponse[]> {
    const answers: SQSBatchResponse[] = [];
    for (;;) {
      const messages = await queue.receive({ max: 1, visibilityMs: 30_000 });
      if (messages.length === 0) return answers;
      const answer = await onQueue(sqsEvent(messages), context);
      answers.push(answer);
      for (const { receipt } of messages) await queue.delete(receipt);
    }
  }

  test('turn the stream into snapshots that clients load', async () => {
    const client = newClient();
    const log = await client.createLog();
    for (let row = 0; row < 30; row++) {
      await client.addEntry(log, { type: 'Set', version: 1, body: [[row, 0, `row ${row}`]] });
    }
    const { position } = await client.addSnapshot(log);
    const event = await streamEvent(engine.client, entryTable, log);
    expect(await onStream(event)).toEqual({ batchItemFailures: [] });
    // A stream gives records again: nothing is done twice for it.
    expect(await onStream(event)).toEqual({ batchItemFailures: [] });
    const answers = await drain();
    expect(answers).toEqual([{ batchItemFailures: [] }, { batchItemFailures: [] }]);
    expect(await logStatus({ store, blobs, platform: nativePlatform }, log)).toMatchObject({
      lastSnapshot: position,
      lagEntries: 0,
      stopped: null,
    });
    const loaded = await loadState({ store, blobs, platform: nativePlatform, reducer: spreadsheet }, log);
    expect(loaded).toMatchObject({ snapshot: position, tailEntries: 1 });
    const rows = await Array.fromAsync(sheetRows(sheetOf(loaded.draft)));
    expect(rows).toEqual(Array.from({ length: 30 }, (_, row) => [`row ${row}`]));
  });

  test('settle a snapshot in which many edits wait, in a job that the snapshot function sends itself', async () => {
    const client = newClient();
    const log = await client.createLog();
    const cells = (nth: number, value: (i: number) => string) =>
      Array.from({ length: 12_000 / nth }, (_, i) => [Math.floor((i * nth) / 10), (i * nth) % 10, value(i)]);
    const work = async (body: Value): Promise<{ position: Position; answers: SQSBatchResponse[] }> => {
      await client.addEntry(log, { type: 'Set', version: 1, body });
      const { position } = await client.addSnapshot(log);
      await onStream(await streamEvent(engine.client, entryTable, log));
      return { position, answers: await drain() };
    };
    await work(cells(1, (i) => `${i} ${randomUUID()}`));
    const { position, answers } = await work(cells(4, () => 'x'));
    // One snapshot, and what follows from it: the queue drops the others' second jobs.
    expect(answers).toEqual([{ batchItemFailures: [] }, { batchItemFailures: [] }]);
    const status = await logStatus({ store, blobs, platform: nativePlatform }, log);
    expect(status).toMatchObject({ lastSnapshot: position, waiting: 0, stopped: null });
  });

  test('report a malformed record and route the others', async () => {
    const log = await newClient().createLog();
    const event = await streamEvent(engine.client, entryTable, log);
    const [good] = event.Records;
    const malformed = { ...good, dynamodb: { ...good?.dynamodb, Keys: {}, SequenceNumber: '7' } };
    const answer = await onStream({ Records: [malformed, ...event.Records] });
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: '7' }] });
    await drain();
    expect(await logStatus({ store, blobs, platform: nativePlatform }, log)).toMatchObject({
      lastSnapshot: { segment: 0, entry: 0 },
    });
  });

  test('give a foreign message back to the queue', async () => {
    const message = { id: 'm1', group: 'g', body: '{"kind":"something else"}', receiveCount: 1, receipt: 'r' };
    expect(await onQueue(sqsEvent([message]), FIFTEEN_MINUTES)).toEqual({
      batchItemFailures: [{ itemIdentifier: 'm1' }],
    });
  });

  test('bring a log that is too long for one invocation to its end in several', async () => {
    const client = newClient();
    const log = await client.createLog();
    const edits = Array.from({ length: 1_200 }, (_, row) => {
      return { type: 'Set', version: 1, body: [[row, 0, `row ${row}`]] };
    });
    for (let from = 0; from < edits.length; from += 100) await client.addEntries(log, edits.slice(from, from + 100));
    const { position } = await client.addSnapshot(log);
    const job: Job = { kind: 'snapshot', log, position };
    await queue.send({ group: log, deduplicationId: 'long', body: encodeJob(job) });
    // Three pages of 500 entries, since in the last minute nothing is begun that can wait.
    const answers = await drain({ getRemainingTimeInMillis: () => 59_000 });
    expect(answers).toEqual(Array(3).fill({ batchItemFailures: [] }));
    expect(await listProgress(blobs, log)).toEqual([]);
    const loaded = await loadState({ store, blobs, platform: nativePlatform, reducer: spreadsheet }, log);
    expect(loaded).toMatchObject({ snapshot: position, tailEntries: 1 });
    const rows = await Array.fromAsync(sheetRows(sheetOf(loaded.draft)));
    expect(rows).toEqual(Array.from({ length: 1_200 }, (_, row) => [`row ${row}`]));
  });
});

test('a function that lacks a setting says at start which one', async () => {
  const { wireSnapshot, wireStream } = await import('../../handlers/wire.ts');
  expect(() => wireSnapshot({ ENTRY_TABLE: 'e', BUCKET: 'b' })).toThrow(/SEGMENT_TABLE/);
  expect(() => wireStream({ QUEUE_URL: 'not a url' })).toThrow(/QUEUE_URL/);
});
