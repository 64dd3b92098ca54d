import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { interceptLocalhostDns } from 'fauxqs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { S3BlobStore } from '../../src/adapters/s3/blob-store.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { LogClient } from '../../src/log/client.ts';
import { queryNewestSegments } from '../../src/log/newest.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { encodeJob } from '../../src/workers/jobs/job.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace, expectNoTrace } from '../support/cli-place.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { toSqsEvent } from '../support/deployed/lambda-records.ts';
import { unarchived } from '../support/logs.ts';
import { startTestEngine } from '../support/stores/engine.ts';
import { startLocalAws } from '../support/stores/fauxqs.ts';

/** A reducer that folds `Count` entries and misbehaves on every other type. */
const REDUCER = `
export default {
  name: 'hanging',
  version: 1,
  async fold(draft, { type }) {
    const map = draft.map('numbers', 'number');
    switch (type) {
      case 'Count': return void draft.meta.set('count', (draft.meta.get('count') ?? 0) + 1);
      case 'Loop': for (;;) {}
      case 'Loop later': await map.get(1); for (;;) { try { for (;;) {} } catch {} }
      case 'Turn for ever': for (;;) await null;
      case 'Read for ever': for (;;) await map.get(1);
      case 'Match for ever': return void /^(a+)+$/.test('a'.repeat(60) + 'b');
      case 'Wait for ever': return new Promise(() => {});
      case 'Leave': { void map.items().next(); return; }
      case 'Throw an object': throw Object.create(null);
      case 'Throw a proxy': { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy; }
    }
  },
};`;
const TYPES = [...REDUCER.matchAll(/case '([^']+)'/g)].map(([, type]) => type ?? '').filter((type) => type !== 'Count');

let place: CliPlace;
let reducer: string;

beforeAll(async () => {
  place = await CliPlace.open();
  reducer = join(place.directory, 'reducer.mjs');
  await writeFile(reducer, REDUCER);
});
afterAll(() => place.close());

async function log(type: string): Promise<LogId> {
  const id = await place.log();
  await place.client.addEntry(id, { type, version: 1, body: null });
  await place.client.addSnapshot(id);
  return id;
}

test('a reducer that hangs or misbehaves stops its own log within a time limit, and the pipeline goes on', {
  tags: ['I6'],
}, async () => {
  const logs = new Map<string, LogId>();
  for (const type of TYPES) logs.set(type, await log(type));
  const healthy = await log('Count');
  const words = ['work', '--until-idle', '--json', '--reducer', reducer, ...place.words];
  const answer = await runCli(words, { environment: { LOGFOLD_FOLD_SECONDS: '1' } });
  expectNoTrace(answer);
  const { stopped, failures } = JSON.parse(answer.stdout);
  expect(failures).toEqual([]);
  const codes = new Map(stopped.map((each: { log: string }) => [each.log, each]));
  for (const [type, id] of logs) {
    expect([type, codes.get(id)]).toMatchObject([type, { code: 'FOLD_FAILED', segment: 0, entry: 1 }]);
  }
  expect(codes.has(healthy)).toBe(false);
  const { logs: all } = await place.json('status');
  const status = (all as { log: string; lagEntries: number }[]).find((each) => each.log === healthy);
  expect(status).toMatchObject({ lagEntries: 0 });
});

test('an invalid limit is refused', async () => {
  const { code, stderr } = await runCli(['status', ...place.words], { environment: { LOGFOLD_FOLD_SECONDS: '0' } });
  expect([code, stderr]).toEqual([2, expect.stringContaining('LOGFOLD_FOLD_SECONDS')]);
});

test('the snapshot function interrupts an endless loop, stops the log, and runs the next job', async () => {
  const engine = await startTestEngine();
  const aws = await startLocalAws();
  const restoreDns = interceptLocalhostDns();
  try {
    const tables = await engine.createTables();
    await aws.s3.send(new CreateBucketCommand({ Bucket: 'snapshots' }));
    const { queueUrl } = aws.server.createQueue('jobs.fifo', { attributes: { FifoQueue: 'true' } });
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
      BUCKET: 'snapshots',
      SNAPSHOT_QUEUE_URL: queueUrl,
      MAINTENANCE_QUEUE_URL: queueUrl,
      SNAPSHOT_TYPE: 'Snapshot',
      END_SEGMENT_TYPE: 'End Segment',
      KEEP_SEGMENTS: '2',
      KEEP_DAYS: '30',
      ARCHIVE: 'true',
      EXPIRE: 'never',
      GRACE_SECONDS: '86400',
      KEEP_SNAPSHOTS: 'all',
      EXPIRE_WRITE_UNITS: '100',
      REDUCER_MODULE: reducer,
      LOGFOLD_FOLD_SECONDS: '1',
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    const { handler } = await import('../../handlers/snapshot.ts');
    const store = new DynamoDbLogStore({ client: engine.client, ...tables });
    const blobs = new S3BlobStore({ client: aws.s3, bucket: 'snapshots' });
    const newLogId = () => parseLogId(randomUUID());
    const client = new LogClient({
      store: unarchived(store),
      tables: store,
      blobs,
      now: Date.now,
      random: Math.random,
      sleep,
      newLogId,
    });
    const complete = async (type: string): Promise<LogId> => {
      const id = await client.createLog();
      await client.addEntry(id, { type, version: 1, body: null });
      const { position } = await client.addSnapshot(id);
      const body = encodeJob({ kind: 'snapshot', log: id, position });
      const message = { id: randomUUID(), group: id, body, receipt: 'r', receiveCount: 1, sentMs: 0 };
      expect(await handler(toSqsEvent([message]), lambdaContext())).toEqual({ batchItemFailures: [] });
      return id;
    };
    const looping = await complete('Loop later');
    expect(await readStop(blobs, looping)).toMatchObject({ code: 'FOLD_FAILED', segment: 0, entry: 1 });
    const healthy = await complete('Count');
    expect(await readStop(blobs, healthy)).toBeUndefined();
    const [{ lastSnapshot }] = await queryNewestSegments(store, healthy, { consistent: true });
    expect(lastSnapshot?.position.entry).toBe(2);
  } finally {
    vi.unstubAllEnvs();
    restoreDns();
    await engine.stop();
    await aws.stop();
  }
});
