import { CreateBucketCommand, ListBucketsCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { openLogs } from '../../src/exports/aws.ts';
import { spreadsheet as reducer } from '../../src/state/spreadsheet/reducer.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';

const NAMES = { entryTable: 'Entry', segmentTable: 'Segment', bucket: 'chunks' };

let engine: TestEngine;
let aws: LocalAws;

beforeAll(async () => {
  [engine, aws] = await Promise.all([startTestEngine(), startLocalAws()]);
});
afterAll(() => Promise.all([engine.stop(), aws.stop()]));

test('logs on given clients store entries and large bodies, and close leaves the clients open', async () => {
  const { entryTable, segmentTable } = await engine.createTables();
  await aws.s3.send(new CreateBucketCommand({ Bucket: NAMES.bucket }));
  const options = { entryTable, segmentTable, bucket: NAMES.bucket, dynamodb: engine.client, s3: aws.s3 };
  const logs = openLogs(options);
  const log = await logs.create();
  const large = 'x'.repeat(500_000);
  await (await logs.open(log, { reducer })).append({ type: 'Set', version: 1, body: [[0, 0, large]] });
  await logs.close();

  const corner = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };
  const document = await openLogs(options).open(log, { reducer });
  expect(await document.view(corner)).toEqual([[large]]);
  expect((await aws.s3.send(new ListBucketsCommand())).Buckets).toHaveLength(1);
});

test.each([
  { ...NAMES, entryTable: '' },
  { ...NAMES, bucket: '' },
  { ...NAMES, region: '' },
  { ...NAMES, cacheBytes: Number.NaN },
])('openLogs refuses %o', (options) => {
  expect(() => openLogs(options)).toThrow(UsageError);
});
