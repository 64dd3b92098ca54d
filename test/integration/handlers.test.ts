import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@aws-lambda-powertools/logger';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import type { Context, DynamoDBBatchResponse, DynamoDBStreamEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { interceptLocalhostDns } from 'fauxqs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { S3BlobStore } from '../../src/adapters/s3/blob-store.ts';
import { SqsJobQueue } from '../../src/adapters/sqs/job-queue.ts';
import type { Value } from '../../src/codec/value.ts';
import type { ReplayAnswer } from '../../src/functions/replay-function.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { LogClient } from '../../src/log/client.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { listProgress } from '../../src/snapshot/progress.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { parseKey } from '../../src/store/keys.ts';
import type { AdoptResult } from '../../src/workers/adopt/adopt-logs.ts';
import { logStatus } from '../../src/workers/audit/status.ts';
import { decodeJob, encodeJob, type Job } from '../../src/workers/jobs/job.ts';
import type { SweepResult } from '../../src/workers/sweep/sweep.ts';
import { lambdaContext, streamEvent } from '../support/deployed/lambda-events.ts';
import { toSqsEvent } from '../support/deployed/lambda-records.ts';
import { unarchived } from '../support/logs.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';

const BUCKET = 'snapshots';

type Handler<Event, Answer> = (event: Event, context: Context) => Promise<Answer>;

/** Settings of all functions that run jobs, without the names of tables, bucket and queues. */
const SETTINGS = {
  SNAPSHOT_TYPE: 'Snapshot',
  END_SEGMENT_TYPE: 'End Segment',
  KEEP_SEGMENTS: '1',
  KEEP_DAYS: '0',
  ARCHIVE: 'true',
  EXPIRE: 'delete',
  GRACE_SECONDS: '0',
  KEEP_SNAPSHOTS: 'last',
  EXPIRE_WRITE_UNITS: '10000',
  REDUCER_MODULE: '',
};

describe('the Lambda handlers, on a real DynamoDB API, SQS API and S3 API', () => {
  let engine: TestEngine;
  let aws: LocalAws;
  let store: DynamoDbLogStore;
  let blobs: S3BlobStore;
  let queues: Record<'snapshot' | 'maintenance', SqsJobQueue>;
  let restoreDns: () => void;
  let entryTable: string;
  let stream: Handler<DynamoDBStreamEvent, DynamoDBBatchResponse>;
  let snapshot: Handler<SQSEvent, SQSBatchResponse>;
  let maintain: Handler<SQSEvent, SQSBatchResponse>;
  let sweep: Handler<unknown, SweepResult | AdoptResult>;
  let replay: Handler<unknown, ReplayAnswer>;

  beforeAll(async () => {
    engine = await startTestEngine();
    aws = await startLocalAws();
    const tables = await engine.createTables();
    entryTable = tables.entryTable;
    await aws.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const [snapshotUrl, maintenanceUrl] = ['snapshot.fifo', 'maintenance.fifo'].map(
      (name) => aws.server.createQueue(name, { attributes: { FifoQueue: 'true' } }).queueUrl,
    );
    // The queue's URL has a host under localhost. Some resolvers do not know such a host.
    restoreDns = interceptLocalhostDns();
    store = new DynamoDbLogStore({ client: engine.client, ...tables });
    blobs = new S3BlobStore({ client: aws.s3, bucket: BUCKET });
    queues = {
      snapshot: new SqsJobQueue({ client: aws.sqs, queueUrl: snapshotUrl ?? '' }),
      maintenance: new SqsJobQueue({ client: aws.sqs, queueUrl: maintenanceUrl ?? '' }),
    };
    // A deployed function has only these variables.
    const environment = {
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
      AWS_ENDPOINT_URL_S3: aws.server.address,
      POWERTOOLS_LOG_LEVEL: 'SILENT',
      POWERTOOLS_METRICS_DISABLED: 'true',
      ENTRY_TABLE: tables.entryTable,
      ENTRY_TABLE_STREAM_ARN: tables.streamArn,
      SEGMENT_TABLE: tables.segmentTable,
      BUCKET,
      SNAPSHOT_QUEUE_URL: snapshotUrl,
      MAINTENANCE_QUEUE_URL: maintenanceUrl,
      ...SETTINGS,
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    stream = (await import('../../handlers/stream.ts')).handler;
    snapshot = (await import('../../handlers/snapshot.ts')).handler;
    maintain = (await import('../../handlers/maintain.ts')).handler;
    sweep = (await import('../../handlers/sweep.ts')).handler;
    replay = (await import('../../handlers/replay.ts')).handler;
  });

  afterAll(async () => {
    vi.unstubAllEnvs();
    restoreDns();
    await engine.stop();
    await aws.stop();
  });

  function newClient(): LogClient {
    return new LogClient({
      store: unarchived(store),
      tables: store,
      blobs,
      now: Date.now,
      random: Math.random,
      sleep,
      newLogId: () => parseLogId(randomUUID()),
    });
  }

  /**
   * Passes messages to the functions, as event source mappings do, until both queues are empty.
   * @returns the kinds of the jobs
   */
  async function drain(remainingMs?: number): Promise<string[]> {
    const done: string[] = [];
    for (;;) {
      const before = done.length;
      for (const [queue, handler] of [
        [queues.snapshot, snapshot],
        [queues.maintenance, maintain],
      ] as const) {
        for (const message of await queue.receive({ max: 1, visibilityMs: 30_000 })) {
          const answer = await handler(toSqsEvent([message]), lambdaContext(remainingMs));
          expect(answer).toEqual({ batchItemFailures: [] });
          await queue.delete(message.receipt);
          done.push(decodeJob(message.body).kind);
        }
      }
      if (done.length === before) return done;
    }
  }

  test('they turn the stream into snapshots that clients load', async () => {
    const client = newClient();
    const log = await client.createLog();
    for (let row = 0; row < 30; row++) {
      await client.addEntry(log, { type: 'Set', version: 1, body: [[row, 0, `row ${row}`]] });
    }
    const { position } = await client.addSnapshot(log);
    const event = await streamEvent(engine.client, entryTable, log);
    expect(await stream(event, lambdaContext())).toEqual({ batchItemFailures: [] });
    // A stream may deliver records again. The queue drops the duplicates.
    expect(await stream(event, lambdaContext())).toEqual({ batchItemFailures: [] });
    expect(await drain()).toEqual(['snapshot', 'snapshot']);
    expect(
      await logStatus({ tables: store, blobs, platform: nativePlatform, types: RESERVED_TYPES, now: Date.now }, log),
    ).toMatchObject({
      lastSnapshot: position,
      lagEntries: 0,
      stopped: null,
    });
    const loaded = await loadState(
      { store: unarchived(store), blobs, platform: nativePlatform, types: RESERVED_TYPES, reducer: spreadsheet },
      log,
    );
    expect(loaded).toMatchObject({ base: { position }, tailEntries: 1 });
    const rows = await Array.fromAsync(sheetRows(sheetOf(loaded.draft)));
    expect(rows).toEqual(Array.from({ length: 30 }, (_, row) => [`row ${row}`]));
  });

  test('they flush a snapshot with many buffered edits, in a job that the snapshot function sends', async () => {
    const client = newClient();
    const log = await client.createLog();
    const cells = (nth: number, value: (i: number) => string) =>
      Array.from({ length: 12_000 / nth }, (_, i) => [Math.floor((i * nth) / 10), (i * nth) % 10, value(i)]);
    const work = async (body: Value): Promise<{ position: Position; jobs: string[] }> => {
      await client.addEntry(log, { type: 'Set', version: 1, body });
      const { position } = await client.addSnapshot(log);
      await stream(await streamEvent(engine.client, entryTable, log), lambdaContext());
      return { position, jobs: await drain() };
    };
    await work(cells(1, (i) => `${i} ${randomUUID()}`));
    const { position, jobs } = await work(cells(4, () => 'x'));
    // The queue drops the second jobs of the earlier snapshots.
    expect(jobs).toEqual(['snapshot', 'flush']);
    const status = await logStatus(
      { tables: store, blobs, platform: nativePlatform, types: RESERVED_TYPES, now: Date.now },
      log,
    );
    expect(status).toMatchObject({ lastSnapshot: position, bufferedEdits: 0, stopped: null });
  });

  test('a warm snapshot function downloads no chunk that it has written', async () => {
    const client = newClient();
    const log = await client.createLog();
    const get = vi.spyOn(S3BlobStore.prototype, 'get');
    for (const rows of [1_200, 300]) {
      const cells = Array.from({ length: rows * 10 }, (_, i) => [Math.floor(i / 10), i % 10, `${i} ${randomUUID()}`]);
      await client.addEntry(log, { type: 'Set', version: 1, body: cells });
      const { position } = await client.addSnapshot(log);
      get.mockClear();
      await queues.snapshot.send({
        group: log,
        deduplicationId: `${rows} ${log}`,
        body: encodeJob({ kind: 'snapshot', log, position }),
      });
      expect(await drain()).toEqual(['snapshot']);
    }
    const chunks = (await Array.fromAsync(blobs.list(''))).filter(({ key }) => key.includes(log));
    expect(chunks.length).toBeGreaterThan(4);
    const fetched = get.mock.calls.map(([key]) => key).filter((key) => parseKey(key)?.kind === 'chunk');
    get.mockRestore();
    expect(fetched).toEqual([]);
  });

  test('they report a malformed record and route the others', async () => {
    const log = await newClient().createLog();
    const event = await streamEvent(engine.client, entryTable, log);
    const [good] = event.Records;
    const malformed = { ...good, dynamodb: { ...good?.dynamodb, Keys: {}, SequenceNumber: '7' } };
    const answer = await stream({ Records: [malformed, ...event.Records] }, lambdaContext());
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: '7' }] });
    await drain();
    expect(
      await logStatus({ tables: store, blobs, platform: nativePlatform, types: RESERVED_TYPES, now: Date.now }, log),
    ).toMatchObject({
      lastSnapshot: { segment: 0, entry: 0 },
    });
  });

  test('they return a foreign message to the queue immediately, each time that it comes', async () => {
    await queues.maintenance.send({ group: 'g', deduplicationId: 'foreign', body: '{"kind":"something else"}' });
    for (const receiveCount of [1, 2, 3]) {
      const messages = await queues.maintenance.receive({ max: 1, visibilityMs: 30_000 });
      expect(messages).toMatchObject([{ receiveCount }]);
      const answer = await maintain(toSqsEvent(messages), lambdaContext());
      expect(answer).toEqual({ batchItemFailures: messages.map(({ id }) => ({ itemIdentifier: id })) });
    }
    for (const { receipt } of await queues.maintenance.receive({ max: 1, visibilityMs: 0 })) {
      await queues.maintenance.delete(receipt);
    }
  });

  test('they delay a failed job before its next delivery', async () => {
    const job: Job = { kind: 'archive', log: parseLogId(randomUUID()), segment: 0 };
    await queues.maintenance.send({ group: job.log, deduplicationId: 'failing', body: encodeJob(job) });
    const messages = await queues.maintenance.receive({ max: 1, visibilityMs: 0 });
    const answer = await maintain(toSqsEvent(messages), lambdaContext());
    expect(answer.batchItemFailures).toHaveLength(1);
    expect(await queues.maintenance.receive({ max: 1, visibilityMs: 0 })).toEqual([]);
    for (const { receipt } of messages) await queues.maintenance.delete(receipt);
  });

  test('they hide a message from others until a minute after their end', async () => {
    const job: Job = { kind: 'collect', log: await newClient().createLog() };
    await queues.maintenance.send({ group: job.log, deduplicationId: job.log, body: encodeJob(job) });
    const messages = await queues.maintenance.receive({ max: 1, visibilityMs: 10_000 });
    expect(await maintain(toSqsEvent(messages), lambdaContext(30_000))).toEqual({ batchItemFailures: [] });
    // The message stays hidden after the 10 seconds of the receive: the function has hidden it
    // until its own end.
    const [receipt = ''] = messages.map((message) => message.receipt);
    await sleep(10_000);
    expect(await queues.maintenance.receive({ max: 1, visibilityMs: 0 })).toEqual([]);
    await queues.maintenance.delete(receipt);
  });

  test('they fail a job while the deployment is wrong, and run it after that was fixed', async () => {
    vi.resetModules();
    vi.stubEnv('BUCKET', 'forgotten');
    const { handler } = await import('../../handlers/snapshot.ts');
    vi.stubEnv('BUCKET', BUCKET);
    const log = await newClient().createLog();
    const job: Job = { kind: 'snapshot', log, position: { segment: 0, entry: 0 } };
    await queues.snapshot.send({ group: log, deduplicationId: log, body: encodeJob(job) });
    const messages = await queues.snapshot.receive({ max: 1, visibilityMs: 30_000 });
    const failed = { batchItemFailures: messages.map(({ id }) => ({ itemIdentifier: id })) };
    expect(failed.batchItemFailures).toHaveLength(1);
    expect(await handler(toSqsEvent(messages), lambdaContext())).toEqual(failed);
    await aws.s3.send(new CreateBucketCommand({ Bucket: 'forgotten' }));
    expect(await handler(toSqsEvent(messages), lambdaContext())).toEqual({ batchItemFailures: [] });
    for (const { receipt } of messages) await queues.snapshot.delete(receipt);
    const status = await logStatus(
      { tables: store, blobs, platform: nativePlatform, types: RESERVED_TYPES, now: Date.now },
      log,
    );
    expect(status).toMatchObject({ lastSnapshot: { segment: 0, entry: 0 } });
  });

  test('they retry a job while the function is deployed with invalid settings', async () => {
    vi.resetModules();
    vi.stubEnv('KEEP_SEGMENTS', '1.5');
    const { handler } = await import('../../handlers/maintain.ts');
    const job: Job = { kind: 'archive', log: parseLogId(randomUUID()), segment: 0 };
    await queues.maintenance.send({ group: job.log, deduplicationId: job.log, body: encodeJob(job) });
    const messages = await queues.maintenance.receive({ max: 1, visibilityMs: 0 });
    const failed = { batchItemFailures: messages.map(({ id }) => ({ itemIdentifier: id })) };
    expect(failed.batchItemFailures).toHaveLength(1);
    expect(await handler(toSqsEvent(messages), lambdaContext())).toEqual(failed);
    expect(await queues.maintenance.receive({ max: 1, visibilityMs: 0 })).toEqual([]);
    for (const { receipt } of messages) await queues.maintenance.delete(receipt);
    vi.stubEnv('KEEP_SEGMENTS', SETTINGS.KEEP_SEGMENTS);
  });

  test('several invocations complete a log that is too long for one', { tags: ['I5'] }, async () => {
    const client = newClient();
    const log = await client.createLog();
    const edits = Array.from({ length: 1_200 }, (_, row) => {
      return { type: 'Set', version: 1, body: [[row, 0, `row ${row}`]] };
    });
    for (let from = 0; from < edits.length; from += 100) await client.addEntries(log, edits.slice(from, from + 100));
    const { position } = await client.addSnapshot(log);
    const job: Job = { kind: 'snapshot', log, position };
    await queues.snapshot.send({ group: log, deduplicationId: 'long', body: encodeJob(job) });
    // In its last minute a function starts no work that can wait, so each run folds one page of
    // 500 entries.
    expect(await drain(59_000)).toEqual(['snapshot', 'snapshot', 'snapshot']);
    expect(await listProgress(blobs, log)).toEqual([]);
    const loaded = await loadState(
      { store: unarchived(store), blobs, platform: nativePlatform, types: RESERVED_TYPES, reducer: spreadsheet },
      log,
    );
    expect(loaded).toMatchObject({ base: { position }, tailEntries: 1 });
    const rows = await Array.fromAsync(sheetRows(sheetOf(loaded.draft)));
    expect(rows).toEqual(Array.from({ length: 1_200 }, (_, row) => [`row ${row}`]));
  });

  test('they sweep a log until its old segment is archived and expired, and replay it from the archive', async () => {
    const client = newClient();
    const log = await client.createLog();
    for (let row = 0; row < 40; row++) {
      await client.addEntry(log, { type: 'Set', version: 1, body: [[row, 0, `row ${row}`]] });
    }
    // The stream function gets no record. The sweep of one log also finds young Snapshot entries.
    expect(await sweep({ log }, lambdaContext())).toMatchObject({ logs: 1, jobs: 1, failed: 0 });
    expect(await drain()).toEqual(['snapshot']);
    const { position } = await client.startSegment(log);
    expect(position).toEqual({ segment: 1, entry: 0 });
    const kinds: string[] = [];
    for (let times = 0; times < 6; times++) {
      await sweep({ log }, lambdaContext());
      kinds.push(...(await drain()));
    }
    expect(kinds).toEqual(['snapshot', 'archive', 'collect', 'expire']);
    expect(await Array.fromAsync(store.items(log, { segment: 0, from: 0, to: 100 }, { consistent: true }))).toEqual([]);
    expect(await store.getSegment(log, 0, { consistent: true })).toMatchObject({
      expiry: { state: 'expired', entries: 42 },
    });
    expect(await replay({ log }, lambdaContext())).toMatchObject({ log, equal: true, entries: 42, position });
    await expect(replay({ log, at: '7/1' }, lambdaContext())).rejects.toThrow('the log has no position 7/1');
  });
});

describe('a function with a wrong environment reports the error at its start', () => {
  const environment = {
    AWS_REGION: 'us-east-1',
    POWERTOOLS_LOG_LEVEL: 'SILENT',
    ENTRY_TABLE: 'entries',
    ENTRY_TABLE_STREAM_ARN: 'arn:aws:dynamodb:us-east-1:123456789012:table/entries/stream/2026-02-03T04:05:06.789',
    SEGMENT_TABLE: 'segments',
    BUCKET: 'bucket',
    SNAPSHOT_QUEUE_URL: 'https://sqs.us-east-1.amazonaws.com/1/s.fifo',
    MAINTENANCE_QUEUE_URL: 'https://sqs.us-east-1.amazonaws.com/1/m.fifo',
    ...SETTINGS,
  };
  const ALL = ['stream', 'snapshot', 'maintain', 'sweep', 'replay'];
  const OF_JOBS = ['snapshot', 'maintain', 'sweep'];
  /** These functions start with a wrong environment, to return their messages to the queue. */
  const STARTING = ['snapshot', 'maintain'];

  test.each<[what: string, changes: Record<string, string | undefined>, handlers: string[], says: RegExp]>([
    ['no table', { SEGMENT_TABLE: '' }, [...OF_JOBS, 'replay'], /parameter SegmentTableName is ''/],
    [
      'no stream',
      { ENTRY_TABLE_STREAM_ARN: undefined },
      [...OF_JOBS, 'replay'],
      /parameter EntryTableStreamArn is missing/,
    ],
    ['no bucket', { BUCKET: undefined }, [...OF_JOBS, 'replay'], /parameter BucketName is missing/],
    ['no queue', { SNAPSHOT_QUEUE_URL: 'jobs' }, [...OF_JOBS, 'stream'], /SNAPSHOT_QUEUE_URL is 'jobs'/],
    ['one name for both types', { END_SEGMENT_TYPE: 'Snapshot' }, ALL, /parameter EndSegmentType is 'Snapshot'/],
    ['no segment to keep', { KEEP_SEGMENTS: '0' }, OF_JOBS, /parameter KeepSegments is '0': not a whole number from 1/],
    ['a part of a segment', { KEEP_SEGMENTS: '1.5' }, OF_JOBS, /parameter KeepSegments is '1.5'/],
    ['millennia', { KEEP_DAYS: '999999' }, OF_JOBS, /parameter KeepDays is '999999': not a number from 0 to 36600/],
    ['no days at all', { KEEP_DAYS: '' }, OF_JOBS, /parameter KeepDays is ''/],
    ['negative grace', { GRACE_SECONDS: '-1' }, OF_JOBS, /parameter GraceSeconds is '-1'/],
    ['endless grace', { GRACE_SECONDS: '1e99' }, OF_JOBS, /parameter GraceSeconds is '1e99'/],
    ['no writes', { EXPIRE_WRITE_UNITS: '0' }, OF_JOBS, /parameter ExpireWriteUnits is '0'/],
    ['neither yes nor no', { ARCHIVE: 'maybe' }, OF_JOBS, /parameter Archive is 'maybe'/],
    ['several', { KEEP_DAYS: 'NaN', EXPIRE: 'soon' }, OF_JOBS, /parameter KeepDays is 'NaN': .*; Expire is 'soon'/],
    ['a contradiction', { ARCHIVE: 'false' }, OF_JOBS, /parameter Expire is 'delete': .*without an archive/],
    [
      'no such reducer',
      { REDUCER_MODULE: '/nowhere/r.mjs' },
      ['snapshot', 'maintain', 'replay'],
      /ReducerLayerArn names a layer without a reducer/,
    ],
  ])('%s', async (_what, changes, handlers, says) => {
    for (const name of handlers) {
      vi.resetModules();
      for (const [variable, value] of Object.entries({ ...environment, ...changes })) vi.stubEnv(variable, value);
      const logged = vi.spyOn(Logger.prototype, 'error');
      const started = import(`../../handlers/${name}.ts`);
      const invalid = { code: 'DEPLOYMENT_INVALID', message: expect.stringMatching(says) };
      if (STARTING.includes(name)) {
        await started;
        expect(logged.mock.calls, name).toMatchObject([['the function cannot work', { error: invalid }]]);
      } else {
        await expect(started, name).rejects.toMatchObject(invalid);
      }
      logged.mockRestore();
    }
    vi.unstubAllEnvs();
  });
});
