import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { expect, onTestFinished, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import type { CheckpointStore, StreamPosition } from '../../src/local/checkpoint-store.ts';
import { type PipelineEvent, runPipeline } from '../../src/local/pipeline.ts';
import { LogClient } from '../../src/log/client.ts';
import { divisionOf } from '../../src/log/division-policy.ts';
import { type EntryHead, RESERVED_TYPES } from '../../src/log/entry.ts';
import { decodeEntryHead } from '../../src/log/item-codec.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import type { JobDeps } from '../../src/workers/dispatch/run-job.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { newLogId, unarchived } from '../support/logs.ts';
import { startTestEngine } from '../support/stores/engine.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Entries that each of the two writers appends. */
const ENTRIES = 1_000;

/** A divide job, as this test saw it. */
interface Divided {
  readonly outcome: string;
  readonly reason: string | undefined;
  /** The entries since the newest Snapshot entry when the job began, at least. */
  readonly waiting: number;
  readonly writes: number;
}

/** A log in the real engine that two writers fill without a pause, and the pipeline beside them. */
async function fill(every: number) {
  const engine = await startTestEngine();
  onTestFinished(engine.stop);
  const { streamArn, ...names } = await engine.createTables();
  const streams = new DynamoDBStreamsClient(clientConfig(engine.endpoint));
  const blobs = new MemoryBlobStore();
  const stored = new DynamoDbLogStore({ client: engine.client, ...names });
  const deps: Omit<JobDeps, 'queue'> = testDeployment({ tables: stored, blobs, reducer: spreadsheet, now: Date.now });
  const client = () =>
    new LogClient({
      store: unarchived(stored),
      tables: stored,
      blobs,
      now: Date.now,
      random: Math.random,
      sleep: (ms) => sleep(ms),
      newLogId,
      // Writers that never pause.
      retries: { attempts: 1_000, baseMs: 0, capMs: 0 },
    });
  const log = await client().createLog();
  const division = divisionOf({ snapshotEveryEntries: every });
  const jobs: Divided[] = [];
  const failures: PipelineEvent[] = [];
  let newest = 0;
  let lastSnapshot = 0;
  let [writes, waiting] = [0, -1];
  const tables = interceptLogStore(stored, async (operation, effect) => {
    if (waiting === -1) waiting = newest - lastSnapshot;
    if (operation === 'putEntries' || operation === 'putAhead') writes++;
    return effect();
  });
  const onEvent = (event: PipelineEvent): void => {
    if (event.kind === 'failed' || event.kind === 'dead' || event.kind === 'discarded') failures.push(event);
    if (event.kind !== 'job') return;
    const { result, job } = event;
    if (job.kind === 'divide') {
      const reason = result.outcome === 'undivided' ? result.reason : undefined;
      jobs.push({ outcome: result.outcome, reason, waiting, writes });
      if (result.outcome === 'divided') lastSnapshot = result.position.entry;
    }
    [writes, waiting] = [0, -1];
  };
  let place: StreamPosition = {};
  const checkpoints: CheckpointStore = {
    load: async () => place,
    save: async (position) => {
      place = position;
    },
  };
  const run = (untilIdle: boolean, signal: AbortSignal) =>
    runPipeline({
      streams,
      streamArn,
      checkpoints,
      jobs: { ...deps, tables, division },
      // One job at a time, so that each request belongs to the job that ends next.
      concurrency: 1,
      untilIdle,
      signal,
      onEvent,
    });
  const stopping = new AbortController();
  onTestFinished(() => stopping.abort());
  const running = run(false, stopping.signal);
  const write = async (writer: number): Promise<void> => {
    const appending = client();
    for (let i = 0; i < ENTRIES; i++) {
      const body = sheetBody({ type: 'Set', cells: [[i % 50, writer, `entry ${i}`]] });
      const { position } = await appending.addEntry(log, { type: 'Set', version: 1, body });
      newest = Math.max(newest, position.entry);
    }
  };
  await Promise.all([write(0), write(1)]);
  stopping.abort();
  await running;
  await run(true, new AbortController().signal);
  return { deps, stored, log, division, jobs, failures };
}

test.each([20, 100])(
  'a log that two writers fill without a pause is divided after every %i entries and those on the way',
  async (every) => {
    const { deps, stored, log, division, jobs, failures } = await fill(every);
    expect(failures).toEqual([]);
    const heads: EntryHead[] = [];
    const range = { segment: 0, from: 0, to: MAX_NUMBER + 1 };
    for await (const page of stored.items(log, range, { consistent: true })) heads.push(...page.map(decodeEntryHead));
    expect(heads.map(({ position }) => position.entry)).toEqual(heads.map((_, i) => i));
    const snapshots = heads
      .filter(({ type }) => type === RESERVED_TYPES.snapshot)
      .map(({ position }) => position.entry);
    expect(heads.length - snapshots.length).toBe(2 * ENTRIES);
    // A Snapshot entry is due after one and a half times the entries at the latest.
    const divided = jobs.filter(({ outcome }) => outcome === 'divided');
    const busy = jobs.filter(({ reason }) => reason === 'busy');
    expect(Math.max(...jobs.map(({ writes }) => writes))).toBeLessThanOrEqual(20);
    expect(jobs.filter(({ reason, waiting }) => reason === 'not due' && waiting >= 1.5 * every)).toEqual([]);
    expect(busy.length).toBeLessThan(divided.length);
    expect(divided).toHaveLength(snapshots.length - 1);
    const sent: unknown[] = [];
    const send = async (job: unknown): Promise<void> => void sent.push(job);
    const onFailure = (_: unknown, error: unknown): void => {
      throw error;
    };
    await sweep({ ...deps, division, tables: stored, policyOf: () => DEFAULT_POLICY, send, onFailure });
    expect(sent).toEqual([]);
    const last: Position = { segment: 0, entry: snapshots.at(-1) ?? 0 };
    const replayed = await replay({ ...deps, scratch: new MemoryChunks() }, log);
    expect(replayed).toMatchObject({ equal: true, snapshot: last });
  },
);
