import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { openEnvironment } from '../../src/cli/environment.ts';
import { DiskFullError } from '../../src/errors.ts';
import { encodeSegmentId, type LogId } from '../../src/ids/log-id.ts';
import { type PipelineOptions, runPipeline } from '../../src/local/pipeline.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { newLogId } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { ScriptedStream } from '../support/stores/scripted-stream.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

/** A busy machine must not fail a test. */
const PATIENT = { timeout: 60_000 };

/** Logs in a real engine, and pipelines that read its stream. */
async function setUp() {
  const local = await temporaryDirectory();
  const { snapshot: snapshotType, endSegment: endSegmentType } = RESERVED_TYPES;
  const environment = await openEnvironment({ local, creates: true, snapshotType, endSegmentType });
  onTestFinished(environment.close);
  const streamArn = await environment.streamArn();
  const checkpoints = environment.checkpoints(streamArn);
  /** The jobs of these logs wait for their promise. */
  const held = new Map<LogId, Promise<void>>();
  const start = (options: Partial<PipelineOptions> = {}) => {
    const begun: LogId[] = [];
    const ended: LogId[] = [];
    const stopping = new AbortController();
    const otherReducer = async (log: LogId): Promise<undefined> => {
      begun.push(log);
      await held.get(log);
    };
    const idle = runPipeline({
      streams: environment.streams,
      streamArn,
      checkpoints,
      jobs: { ...environment.deps, policyOf: () => DEFAULT_POLICY, otherReducer },
      concurrency: 4,
      untilIdle: false,
      signal: stopping.signal,
      onEvent: (event) => {
        if (event.kind === 'job') ended.push(event.job.log);
      },
      ...options,
    });
    onTestFinished(() => stopping.abort());
    const stop = async (): Promise<void> => {
      stopping.abort();
      await idle;
    };
    return { begun, ended, idle, stop };
  };
  const place = async (): Promise<string | undefined> => Object.values(await checkpoints.load())[0];
  return { directory: local, client: environment.logs.client, held, start, place };
}

test('the pipeline saves its place before the oldest unfinished job, although its queue is never empty', async () => {
  const { client, held, start, place } = await setUp();
  const first = start();
  const logs: LogId[] = [];
  const gates: PromiseWithResolvers<void>[] = [];
  const places = [await place()];
  for (let i = 0; i < 3; i++) {
    const gate = Promise.withResolvers<void>();
    const log = newLogId();
    held.set(log, gate.promise);
    await client.createLog(log);
    await expect.poll(() => first.begun, PATIENT).toContain(log);
    // The job of the log before ends only now, so that some job is always unfinished.
    gates.at(-1)?.resolve();
    if (i > 0) await expect.poll(place, PATIENT).not.toBe(places.at(-1));
    places.push(await place());
    logs.push(log);
    gates.push(gate);
  }
  expect(new Set(places).size).toBe(3);

  // The process ends, and its last job has not ended.
  const stopped = first.stop();
  gates.at(-1)?.reject(new Error('the process ended'));
  await stopped;
  expect(await place()).toBe(places.at(-1));
  held.clear();
  const second = start();
  await expect.poll(() => second.ended, PATIENT).toEqual([logs.at(-1)]);
  await second.stop();
});

test('the pipeline ends at a full disk, and its place stays before the job', async () => {
  const { client, start, place, directory } = await setUp();
  const log = await client.createLog();
  const before = await place();
  const database = new DatabaseSync(join(directory, 'dynamodb.sqlite'), { timeout: 60_000 });
  onTestFinished(() => database.close());
  // The words of SQLite when the disk is full. The engine passes them on.
  for (const change of ['INSERT', 'UPDATE']) {
    database.exec(
      `CREATE TRIGGER full_${change} BEFORE ${change} ON "Entry" BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`,
    );
  }
  await expect(client.addSnapshot(log)).rejects.toThrow(DiskFullError);
  const pipeline = start({ untilIdle: true });
  await expect(pipeline.idle).rejects.toThrow(DiskFullError);
  expect(pipeline.begun).toEqual([log]);
  expect(await place()).toBe(before);
  for (const change of ['INSERT', 'UPDATE']) database.exec(`DROP TRIGGER full_${change}`);
  const next = start({ untilIdle: true });
  await next.idle;
  expect(next.ended).toEqual([log]);
});

test('the pipeline does not read on while many jobs wait', async () => {
  const { start } = await setUp();
  const sheets = new SheetLogs();
  const logs: LogId[] = [];
  for (let i = 0; i < 2_500; i++) logs.push(await sheets.client.createLog());
  const stream = new ScriptedStream().shard('a').write('a', ...logs.keys());
  stream.itemOf = (number) => {
    const segment = encodeSegmentId(logs[number] ?? newLogId(), 0);
    return { S: { B: segment }, N: { N: '0' }, T: { S: RESERVED_TYPES.snapshot } };
  };
  const waiting: number[] = [];
  const jobs = { ...sheets.deps, policyOf: () => DEFAULT_POLICY };
  const pipeline = start({ streams: stream.client, jobs, untilIdle: true });
  stream.onRequest = (command) => {
    if (command === 'GetRecordsCommand') waiting.push(stream.given - pipeline.ended.length);
  };
  await pipeline.idle;
  expect(pipeline.ended.toSorted()).toEqual(logs.toSorted());
  // A batch has at most 1,000 records, and as many jobs may wait before the next one is routed.
  expect(Math.max(...waiting)).toBeLessThanOrEqual(2_000);
});
