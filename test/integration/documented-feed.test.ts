import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { CreateTableCommand } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBucket } from '../../src/adapters/platform/open-bucket.ts';
import { openStores } from '../../src/adapters/platform/open-stores.ts';
import type { Logs } from '../../src/client/logs.ts';
import { openLogs } from '../../src/exports/aws.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { entryTableInput, segmentTableInput } from '../../src/local/tables.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { codeBlocks } from '../support/code-blocks.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

const run = promisify(execFile);

/** The names in the guides. */
const NAMES = { entryTable: 'Entry', segmentTable: 'Segment', feedTable: 'Feed', bucket: 'my-snapshots' };
const ENTRY = pathToFileURL(join(import.meta.dirname, '../../src/exports/aws.ts')).href;

const counting: Reducer = {
  name: 'counting',
  version: 1,
  fold({ meta }) {
    meta.set('entries', Number(meta.get('entries') ?? 0) + 1);
  },
};

let engine: TestEngine;
let aws: LocalAws;
let logs: Logs;
let log: LogId;

beforeAll(async () => {
  [engine, aws] = await Promise.all([startTestEngine(), startLocalAws()]);
  await aws.s3.send(new CreateBucketCommand({ Bucket: NAMES.bucket }));
  const tables = [entryTableInput(NAMES.entryTable), ...[NAMES.segmentTable, NAMES.feedTable].map(segmentTableInput)];
  for (const table of tables) await engine.client.send(new CreateTableCommand(table));
  logs = openLogs({ ...NAMES, dynamodb: engine.client, s3: aws.s3 });
  log = await fedLog();
});
afterAll(async () => {
  await logs.close();
  await Promise.all([engine.stop(), aws.stop()]);
});

/**
 * A log with complete snapshots, whose first segment is only in its archive. The feed has all its
 * entries.
 */
async function fedLog(): Promise<LogId> {
  const { client } = engine;
  const blobs = openBucket(NAMES.bucket, { s3: aws.s3 });
  const { mapped: _, ...stores } = openStores({ dynamodb: client, ...NAMES, blobs });
  const { tables } = stores;
  const deps: JobDeps = {
    ...stores,
    reducer: counting,
    now: Date.now,
    random: Math.random,
    policyOf: () => ({ ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'delete', graceSeconds: 0 }),
    queue: { send: async () => undefined },
  };
  const made = await logs.create();
  const add = (body: string) => logs.client.addEntry(made, { type: 'Set', version: 1, body });
  const divide = async (how: 'addSnapshot' | 'startSegment') => {
    const { position } = await logs.client[how](made);
    await runJob(deps, { kind: 'snapshot', log: made, position });
  };
  await add('one');
  await divide('addSnapshot');
  await add('x'.repeat(30_000));
  await divide('startSegment');
  await add('three');
  await divide('addSnapshot');
  await runJob(deps, { kind: 'archive', log: made, segment: 0 });
  await runJob(deps, { kind: 'expire', log: made, segment: 0 });
  expect(await tables.newestEntry(made, 0, { consistent: true })).toBeUndefined();
  const { position } = await add('four');
  const sleep = async (): Promise<void> => undefined;
  await new FeedWriter({ logs, sleep, random: Math.random }).add([{ log: made, position }]);
  return made;
}

/** Runs a program of a guide, and lines after it that use what it exports. @returns its output */
async function runProgram(name: string, program: string, use: string): Promise<string> {
  const path = join(await temporaryDirectory(), name);
  await writeFile(path, `${program.replace("'logfold/aws'", `'${ENTRY}'`)}\n${use}`);
  const env = {
    PATH: process.env.PATH,
    AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
    AWS_ENDPOINT_URL_S3: aws.server.address,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    ENTRY_TABLE: NAMES.entryTable,
    SEGMENT_TABLE: NAMES.segmentTable,
    FEED_TABLE: NAMES.feedTable,
    BUCKET: NAMES.bucket,
  };
  return (await run(process.execPath, [path], { env })).stdout;
}

test('the loop of the guide reads a log with snapshots and archives to its end', async () => {
  const [program = ''] = codeBlocks('docs/library.md', 'ts', 'Read every append of all logs');
  const lines = await runProgram(
    'index.ts',
    program,
    'await index(async (log, type, body) => console.log(JSON.stringify([log, type, String(body).length])));',
  );
  expect(
    lines
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual([
    [log, 'Snapshot', 4],
    [log, 'Set', 3],
    [log, 'Snapshot', 4],
    [log, 'Set', 30_000],
    [log, 'End Segment', 4],
    [log, 'Snapshot', 4],
    [log, 'Set', 5],
    [log, 'Snapshot', 4],
    [log, 'Set', 4],
  ]);
  expect(await logs.feed.groups()).toMatchObject([{ name: 'search', checkpoint: 2, lagSeconds: 0 }]);
});

test('the function of the operations guide reads the same entries', async () => {
  const [program = ''] = codeBlocks('docs/operations.md', 'ts', 'The feed of all appends');
  const sent = await runProgram(
    'mailer.ts',
    `const sendMail = async (log, { position, type }) => console.log(position.segment, position.entry, type);\n${program}`,
    'await handler({}, { getRemainingTimeInMillis: () => 300_000 }); process.exit();',
  );
  expect(sent.trimEnd().split('\n')).toHaveLength(9);
});
