import type { DynamoDBRecord, SQSBatchResponse } from 'aws-lambda';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { once } from '../../handlers/once.ts';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { DeploymentInvalidError } from '../../src/errors.ts';
import type { FunctionEvent, JobEvent } from '../../src/functions/function-event.ts';
import { jobsFunction } from '../../src/functions/jobs-function.ts';
import { fromLambdaRecord, streamFunction } from '../../src/functions/stream-function.ts';
import type { Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import type { NewMessage } from '../../src/store/job-queue.ts';
import { route, type StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import type { JobDeps } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, encodeJob, type Job, jobQueues } from '../../src/workers/jobs/job.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { toLambdaRecord, toSqsEvent } from '../support/deployed/lambda-records.ts';
import { LOG, NOON, newLogId } from '../support/logs.ts';
import { FAULTY } from '../support/models/versioned-sheet.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

const START: Position = { segment: 0, entry: 0 };
const MAX_RECEIVES = 5;

/** A record of the Lambda event for a Snapshot entry, as the stream carries it. */
function snapshotRecord(entry: number, log = LOG): DynamoDBRecord {
  const position = { segment: 0, entry };
  return toLambdaRecord({
    eventId: `event-${log}-${entry}`,
    eventName: 'INSERT',
    sequenceNumber: String(1000 + entry),
    createdMs: NOON * 1000,
    keys: entryKey(log, position),
    newImage: encodeEntry({ log, position, created: NOON, type: 'Snapshot', version: 1 }),
  });
}

/**
 * A log on memory adapters, its two queues, and the functions around them, called as Lambda calls
 * them.
 */
class Deployment {
  readonly sheet: SheetLog;
  readonly events: FunctionEvent[] = [];
  readonly queues: Record<'snapshot' | 'maintenance', MemoryJobQueue>;
  /** How long each message that failed is to wait, in milliseconds, in order. */
  readonly waits: number[] = [];
  /** How long messages were hidden before any work was done, in milliseconds, in order. */
  readonly hidden: number[] = [];
  deps: Partial<JobDeps> = {};
  check: (() => Promise<void>) | undefined;
  report = (event: FunctionEvent): void => void this.events.push(event);

  private constructor(sheet: SheetLog) {
    this.sheet = sheet;
    const options = { now: () => sheet.nowMs, maxReceives: MAX_RECEIVES };
    this.queues = { snapshot: new MemoryJobQueue(options), maintenance: new MemoryJobQueue(options) };
  }

  static async create(): Promise<Deployment> {
    return new Deployment(await SheetLog.create());
  }

  stream(records: readonly unknown[]): Promise<{ readonly batchItemFailures: readonly unknown[] }> {
    const { report, queues } = this;
    // Lambda passes JSON.
    const event = JSON.parse(JSON.stringify({ Records: records }));
    return streamFunction({ queue: queues.snapshot, types: RESERVED_TYPES, report })(event);
  }

  /** Hands a batch of one queue to its function. Undefined where there is none. */
  async deliver(name: 'snapshot' | 'maintenance', { max = 1, remainingMs = 900_000 } = {}) {
    const { sheet, deps, report, check } = this;
    const queue = this.queues[name];
    const messages = await queue.receive({ max, visibilityMs: 60_000 });
    if (messages.length === 0) return undefined;
    const jobs = async (): Promise<JobDeps> => {
      await check?.();
      return { ...sheet.deps, queue: jobQueues(this.queues), ...deps };
    };
    const changeVisibility = async (receipt: string, ms: number): Promise<void> => {
      (ms === remainingMs + 60_000 ? this.hidden : this.waits).push(ms);
      await queue.changeVisibility(receipt, ms);
    };
    const run = jobsFunction({ jobs, report, changeVisibility });
    const answer = await run(toSqsEvent(messages), lambdaContext(remainingMs));
    const failed = new Set(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    for (const { id, receipt } of messages) if (!failed.has(id)) await queue.delete(receipt);
    return answer;
  }

  /** Hands over messages, one by one, until both queues are empty and nothing waits any more. */
  async drain(): Promise<SQSBatchResponse[]> {
    const answers: SQSBatchResponse[] = [];
    for (let idle = 0; idle < 3; ) {
      const before = answers.length;
      for (const name of ['snapshot', 'maintenance'] as const) {
        const answer = await this.deliver(name);
        if (answer !== undefined) answers.push(answer);
      }
      idle = answers.length === before ? idle + 1 : 0;
      this.sheet.nowMs += idle > 0 ? 3600_000 : 0;
      if (answers.length > 100) throw new Error('this never ends');
    }
    return answers;
  }

  async dead(name: 'snapshot' | 'maintenance'): Promise<string[]> {
    const messages = await this.queues[name].deadLetters?.receive({ max: 10, visibilityMs: 0 });
    return (messages ?? []).map(({ body }) => body);
  }

  jobEvents(): JobEvent[] {
    return this.events.filter((event) => event.kind === 'job' || event.kind === 'failed');
  }

  send(job: Job, deduplicationId: string): Promise<void> {
    return jobQueues(this.queues).send({ group: job.log, deduplicationId, body: encodeJob(job) });
  }
}

describe('the stream function', () => {
  test('it turns records into jobs, and reports each', async () => {
    const deployment = await Deployment.create();
    expect(await deployment.stream([snapshotRecord(0), snapshotRecord(7)])).toEqual({ batchItemFailures: [] });
    expect(deployment.events).toMatchObject([
      { kind: 'routed', record: { eventId: `event-${LOG}-0` }, job: { kind: 'snapshot', log: LOG, position: START } },
      { kind: 'routed', record: { eventId: `event-${LOG}-7` }, job: { position: { segment: 0, entry: 7 } } },
    ]);
  });

  test('it converts a record for the workers and back, without its body', () => {
    const record: StreamRecord = {
      eventId: 'e',
      eventName: 'INSERT',
      sequenceNumber: '17',
      createdMs: NOON * 1000,
      keys: entryKey(LOG, START),
      newImage: { ...entryKey(LOG, START), T: { S: 'Snapshot' }, C: { N: '1' } },
    };
    expect(fromLambdaRecord(toLambdaRecord(record))).toEqual(record);
    const withBody = { ...record, newImage: { ...record.newImage, B: { M: { deep: { S: 'body' } } } } };
    expect(fromLambdaRecord(toLambdaRecord(withBody))).toEqual(record);
  });

  test('it reads only the type of an item whose size it knows, and asks for the same jobs', async () => {
    const records = Array.from({ length: 20 }, (_, i): StreamRecord => {
      const keys = entryKey(LOG, { segment: i, entry: i });
      const type = { S: i % 5 === 0 ? 'Snapshot' : 'Set' };
      const newImage = { ...keys, T: type, C: { N: '1' }, B: { B: new Uint8Array(100) } };
      const rest = { eventId: `e${i}`, sequenceNumber: String(i), createdMs: NOON * 1000, bytes: 130 };
      return { ...rest, eventName: 'INSERT', keys, newImage };
    });
    const read = records.map((record) => fromLambdaRecord(toLambdaRecord(record)));
    expect(read.map(({ newImage }) => newImage)).toEqual(records.map(({ newImage }) => ({ T: newImage?.T })));

    const division = { snapshotEvery: { entries: 3, bytes: 1_000 }, segmentEvery: {} };
    const jobsOf = async (given: readonly StreamRecord[]): Promise<NewMessage[]> => {
      const jobs: NewMessage[] = [];
      const queue = { send: async (job: NewMessage) => void jobs.push(job) };
      // A call asks for at most one divide job of a log, so each record gets its own.
      for (const each of given) await route({ queue, types: RESERVED_TYPES, division, report: () => {} }, [each]);
      return jobs;
    };
    const jobs = await jobsOf(records);
    expect(jobs.length).toBeGreaterThan(6);
    expect(await jobsOf(read)).toEqual(jobs);
  });

  test('it fails every malformed record alone, and routes the others', async () => {
    const anything = fc.oneof(
      fc.jsonValue(),
      fc.record({
        eventID: fc.jsonValue(),
        dynamodb: fc.record({ SequenceNumber: fc.constant('7'), Keys: fc.jsonValue(), NewImage: fc.jsonValue() }),
      }),
      fc.record({
        eventID: fc.constant('e'),
        eventName: fc.constant('INSERT'),
        dynamodb: fc.record({
          SequenceNumber: fc.constant('7'),
          Keys: fc.record({ S: fc.record({ B: fc.jsonValue() }), N: fc.record({ N: fc.jsonValue() }) }),
          NewImage: fc.constant({ T: { S: 'Snapshot' } }),
        }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(anything, async (malformed) => {
        const deployment = await Deployment.create();
        const answer = await deployment.stream([snapshotRecord(0), malformed, snapshotRecord(9)]);
        expect(answer.batchItemFailures).toHaveLength(1);
        expect(deployment.events.map(({ kind }) => kind)).toEqual(['routed', 'record', 'routed']);
        expect(deployment.queues.snapshot.stats().waiting).toBe(2);
      }),
      { numRuns: 200 },
    );
  });
});

describe('jobs go to one of two queues', () => {
  test('the kind of a job selects its queue', async () => {
    const { queues, send } = await Deployment.create().then((deployment) => ({
      queues: deployment.queues,
      send: deployment.send.bind(deployment),
    }));
    const jobs: Job[] = [
      { kind: 'snapshot', log: LOG, position: START },
      { kind: 'divide', log: LOG },
      { kind: 'rebuild', log: LOG },
      { kind: 'flush', log: LOG, position: START },
      { kind: 'archive', log: LOG, segment: 0 },
      { kind: 'expire', log: LOG, segment: 0 },
      { kind: 'collect', log: LOG },
    ];
    for (const job of jobs) await send(job, job.kind);
    const kinds = async (queue: MemoryJobQueue) =>
      (await queue.receive({ max: 10, visibilityMs: 1 })).map(({ body }) => decodeJob(body).kind);
    expect(await kinds(queues.snapshot)).toEqual(['snapshot', 'divide', 'rebuild']);
    expect(await kinds(queues.maintenance)).toEqual(['flush', 'archive', 'expire', 'collect']);
    const foreign = { group: 'g', deduplicationId: 'd', body: '{}' };
    await expect(jobQueues(queues).send(foreign)).rejects.toMatchObject({ code: 'MESSAGE_INVALID' });
  });

  test('the function of either queue runs all kinds', async () => {
    const deployment = await Deployment.create();
    await deployment.queues.maintenance.send({
      group: LOG,
      deduplicationId: 'd',
      body: encodeJob({ kind: 'snapshot', log: LOG, position: START }),
    });
    await deployment.drain();
    expect(deployment.jobEvents()).toMatchObject([{ kind: 'job', result: { outcome: 'built' } }]);
  });
});

describe('a function that runs jobs', () => {
  test('it runs duplicate and reordered jobs once', async () => {
    const deployment = await Deployment.create();
    const { sheet } = deployment;
    const records = [snapshotRecord(0)];
    for (let i = 0; i < 4; i++) {
      await sheet.edit(set(i, 0, `row ${i}`));
      records.push(snapshotRecord((await sheet.snapshot()).entry));
    }
    await deployment.stream(records.toReversed());
    await deployment.drain();
    // The queue has forgotten by now that it had them.
    sheet.nowMs += 3600_000;
    await deployment.stream([...records, ...records]);
    await deployment.drain();
    const outcomes = deployment.jobEvents().map((event) => (event.kind === 'job' ? event.result.outcome : event.kind));
    expect(outcomes.toSorted()).toEqual([...Array(5).fill('built'), ...Array(5).fill('present')]);
    expect(await sheet.rows({ segment: 0, entry: 8 })).toEqual([['row 0'], ['row 1'], ['row 2'], ['row 3']]);
  });

  test('it returns the failed message and all after it, and no more', async () => {
    const deployment = await Deployment.create();
    const [good, missing, next] = [START, { segment: 0, entry: 99 }, START].map(
      (position): Job => ({ kind: 'snapshot', log: LOG, position }),
    );
    if (good === undefined || missing === undefined || next === undefined) throw new Error('unreachable');
    for (const [i, job] of [good, missing, next].entries()) await deployment.send(job, String(i));
    const messages = await deployment.queues.snapshot.receive({ max: 10, visibilityMs: 0 });
    const answer = await deployment.deliver('snapshot', { max: 10 });
    const failures = messages.slice(1).map(({ id }) => ({ itemIdentifier: id }));
    expect(answer).toEqual({ batchItemFailures: failures });
    expect(deployment.jobEvents()).toMatchObject([
      { kind: 'job', job: good },
      { kind: 'failed', job: missing, error: { code: 'ENTRY_NOT_FOUND' } },
    ]);
    // The second delivery: it waits longer each time; the next job is not to blame.
    expect(deployment.waits).toEqual([120_000, 0]);
  });

  test('it waits four times as long after each failure, then leaves the job to the dead-letter queue', async () => {
    const deployment = await Deployment.create();
    const job: Job = { kind: 'snapshot', log: LOG, position: { segment: 3, entry: 1 } };
    await deployment.send(job, 'd');
    await deployment.drain();
    expect(deployment.waits).toEqual([30_000, 120_000, 480_000, 900_000, 900_000]);
    expect(await deployment.dead('snapshot')).toEqual([encodeJob(job)]);
  });

  test.each([
    ['malformed', 'no JSON'],
    ['foreign', '{"Records":[]}'],
    ['without a kind', JSON.stringify({ format: 2, log: LOG })],
    ['without the segment of its kind', JSON.stringify({ format: 2, kind: 'archive', log: LOG })],
  ])('a message that is %s ends in the dead-letter queue with the reason, and the log goes on', async (_what, body) => {
    const deployment = await Deployment.create();
    await deployment.queues.snapshot.send({ group: LOG, deduplicationId: 'bad', body });
    await deployment.send({ kind: 'snapshot', log: LOG, position: START }, 'good');
    await deployment.drain();
    const failed = { kind: 'failed', job: undefined, error: { code: 'MESSAGE_INVALID' } };
    expect(deployment.jobEvents()).toMatchObject([
      ...Array.from({ length: MAX_RECEIVES }, (_, i) => ({ ...failed, delivery: { receiveCount: i + 1 } })),
      { kind: 'job', result: { outcome: 'built' } },
    ]);
    expect(deployment.waits).toEqual(Array(MAX_RECEIVES).fill(0));
    expect(await deployment.dead('snapshot')).toEqual([body]);
  });

  test.each([
    ['format', JSON.stringify({ format: 3, kind: 'snapshot', log: LOG, segment: 0, entry: 0 })],
    ['kind of job', JSON.stringify({ format: 2, kind: 'polish', log: LOG })],
  ])('it retries a message of a newer %s, because the newer version may be on its way', async (_what, body) => {
    const deployment = await Deployment.create();
    await deployment.queues.snapshot.send({ group: LOG, deduplicationId: 'newer', body });
    await deployment.drain();
    const failed = { kind: 'failed', job: undefined, error: { code: 'MESSAGE_NEWER' } };
    expect(deployment.jobEvents()).toMatchObject(Array(MAX_RECEIVES).fill(failed));
    expect(deployment.waits.slice(0, 2)).toEqual([30_000, 120_000]);
    expect(await deployment.dead('snapshot')).toEqual([body]);
  });

  test('it understands a message with only the fields that every sender gives', async () => {
    const deployment = await Deployment.create();
    const body = JSON.stringify({ format: 2, kind: 'snapshot', log: LOG, position: { segment: 0, entry: 0 } });
    await deployment.queues.snapshot.send({ group: LOG, deduplicationId: 'old', body });
    await deployment.drain();
    expect(deployment.jobEvents()).toMatchObject([{ kind: 'job', result: { outcome: 'built' } }]);
  });

  test('it ignores a field that a newer sender added to a job', async () => {
    const deployment = await Deployment.create();
    const body = JSON.stringify({
      format: 2,
      kind: 'snapshot',
      log: LOG,
      position: { segment: 0, entry: 0 },
      gently: true,
    });
    await deployment.queues.snapshot.send({ group: LOG, deduplicationId: 'newer', body });
    await deployment.drain();
    expect(deployment.jobEvents()).toMatchObject([{ kind: 'job', result: { outcome: 'built' } }]);
  });

  test('it ends a minute before its limit, and another invocation goes on', async () => {
    const deployment = await Deployment.create();
    const { sheet } = deployment;
    for (let i = 0; i < 5; i++) await sheet.edit(set(i, 0, `row ${i}`));
    const position = await sheet.snapshot();
    deployment.deps = { rangeEntries: 2 };
    await deployment.send({ kind: 'snapshot', log: LOG, position }, 'd');
    await deployment.deliver('snapshot', { remainingMs: 60_000 });
    await deployment.deliver('snapshot', { remainingMs: 60_001 });
    expect(deployment.jobEvents()).toMatchObject([
      { result: { outcome: 'progress', reached: { entry: 2 } } },
      { result: { outcome: 'built', entries: 4 } },
    ]);
  });

  test('it reports how far a snapshot was behind when it was completed', async () => {
    const deployment = await Deployment.create();
    const { sheet } = deployment;
    for (let i = 0; i < 3; i++) await sheet.edit(set(i, 0, 'x'));
    sheet.nowMs += 90_000;
    await deployment.send({ kind: 'snapshot', log: LOG, position: START }, 'd');
    await deployment.drain();
    expect(deployment.jobEvents()).toMatchObject([{ lag: { entries: 3, seconds: 90 } }]);
  });

  test('its jobs fail and wait while its check fails, and it checks no more after success', async () => {
    const deployment = await Deployment.create();
    const job: Job = { kind: 'snapshot', log: LOG, position: START };
    let checks = 0;
    deployment.check = once(async () => {
      checks += 1;
      if (checks <= 2) throw new DeploymentInvalidError('EntryTableName', "is 'nowhere'");
    });
    await deployment.send(job, 'd');
    await deployment.drain();
    await deployment.sheet.edit(set(0, 0, 'x'));
    await deployment.send({ ...job, position: await deployment.sheet.snapshot() }, 'next');
    await deployment.drain();
    expect(deployment.jobEvents()).toMatchObject([
      { kind: 'failed', job, delivery: { receiveCount: 1 }, error: { code: 'DEPLOYMENT_INVALID' } },
      { kind: 'failed', job, delivery: { receiveCount: 2 }, error: { code: 'DEPLOYMENT_INVALID' } },
      { kind: 'job', job, result: { outcome: 'built' } },
      { kind: 'job', result: { outcome: 'built' } },
    ]);
    expect(deployment.waits).toEqual([30_000, 120_000]);
    expect(checks).toBe(3);
  });

  test('it does not blame its check if a message is not a job', async () => {
    const deployment = await Deployment.create();
    deployment.check = () => Promise.reject(new Error('the bucket is missing'));
    await deployment.queues.snapshot.send({ group: 'g', deduplicationId: 'bad', body: 'no JSON' });
    await deployment.deliver('snapshot');
    expect(deployment.jobEvents()).toMatchObject([{ kind: 'failed', error: { code: 'MESSAGE_INVALID' } }]);
    expect(deployment.waits).toEqual([0]);
  });

  test('it loses nothing if the queue cannot change the visibility of a message', async () => {
    const deployment = await Deployment.create();
    await deployment.send({ kind: 'snapshot', log: newLogId(), position: START }, 'd');
    deployment.queues.snapshot.changeVisibility = () => Promise.reject(new Error('no answer'));
    expect(await deployment.deliver('snapshot')).toMatchObject({ batchItemFailures: [{}] });
    expect(deployment.events.map(({ kind }) => kind)).toEqual([
      'visibility unchanged',
      'failed',
      'visibility unchanged',
    ]);
  });

  test('it runs a job although its message cannot be hidden for so long', async () => {
    const deployment = await Deployment.create();
    await deployment.send({ kind: 'snapshot', log: LOG, position: START }, 'd');
    deployment.queues.snapshot.changeVisibility = () => Promise.reject(new Error('throttled'));
    expect(await deployment.deliver('snapshot')).toEqual({ batchItemFailures: [] });
    expect(deployment.events).toMatchObject([
      { kind: 'visibility unchanged', delivery: { receiveCount: 1 } },
      { kind: 'job', result: { outcome: 'built' } },
    ]);
  });

  test('it hides all messages of its batch until a minute after its end, before it begins', async () => {
    const deployment = await Deployment.create();
    const log = newLogId();
    for (const segment of [0, 1]) await deployment.send({ kind: 'archive', log, segment }, String(segment));
    let begun: readonly number[] = [];
    deployment.check = async () => {
      begun = [...deployment.hidden];
      throw new Error('not today');
    };
    await deployment.deliver('maintenance', { max: 2, remainingMs: 500_000 });
    expect(begun).toEqual([560_000, 560_000]);
    expect(deployment.waits).toEqual([30_000, 0]);
  });
});

describe('a deployed function writes', () => {
  let instrumented: typeof import('../../handlers/instrument.ts').instrumented;
  let lines: Record<string, unknown>[] = [];

  beforeAll(async () => {
    // Otherwise the libraries write past the console.
    vi.stubEnv('POWERTOOLS_DEV', 'true');
    vi.stubEnv('POWERTOOLS_METRICS_DISABLED', 'false');
    vi.stubEnv('POWERTOOLS_METRICS_NAMESPACE', 'logfold');
    vi.stubEnv('POWERTOOLS_SERVICE_NAME', 'of-test');
    for (const method of ['log', 'info', 'warn', 'error'] as const) {
      vi.spyOn(console, method).mockImplementation((text: unknown) => void lines.push(JSON.parse(String(text))));
    }
    // Another file may have loaded it with another environment.
    vi.resetModules();
    ({ instrumented } = await import('../../handlers/instrument.ts'));
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });
  beforeEach(() => {
    lines = [];
  });

  /**
   * Works through a deployment with what the functions report written as a deployed one writes it.
   */
  async function written(work: (deployment: Deployment) => Promise<unknown>) {
    const deployment = await Deployment.create();
    const run = instrumented((report) => async () => {
      deployment.report = report;
      await work(deployment);
    });
    await run(undefined, lambdaContext());
    const isMetric = (line: Record<string, unknown>): boolean => '_aws' in line;
    return { logs: lines.filter((line) => !isMetric(line)), metrics: lines.filter(isMetric) };
  }

  test('it writes a line for each record and each job, with log, place, kind and correlation id', async () => {
    const { logs } = await written(async (deployment) => {
      await deployment.stream([snapshotRecord(0), { ...snapshotRecord(3), dynamodb: { SequenceNumber: '9' } }]);
      await deployment.send({ kind: 'archive', log: LOG, segment: 0 }, 'd');
      await deployment.queues.snapshot.send({ group: 'g', deduplicationId: 'bad', body: '?' });
      await deployment.deliver('snapshot', { max: 10 });
      await deployment.deliver('maintenance');
    });
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/);
    expect(logs).toMatchObject([
      { level: 'INFO', correlationId: `event-${LOG}-0`, log: LOG, position: '0/0', job: 'snapshot' },
      { level: 'ERROR', correlationId: `event-${LOG}-3`, sequenceNumber: '9', error: { code: 'ITEM_INVALID' } },
      { level: 'INFO', correlationId: id, log: LOG, position: '0/0', job: 'snapshot', outcome: 'built' },
      { level: 'ERROR', correlationId: id, message: 'a message is not a job', error: { code: 'MESSAGE_INVALID' } },
      { level: 'ERROR', correlationId: id, log: LOG, segment: 0, job: 'archive', error: { code: 'SEGMENT_STATE' } },
    ]);
    for (const line of logs) expect(line).toMatchObject({ service: 'of-test', function_request_id: id });
  });

  test('it writes its metrics once, at the end of an invocation, in the embedded format', async () => {
    const { metrics } = await written(async (deployment) => {
      const { sheet } = deployment;
      await deployment.stream([snapshotRecord(0), {}]);
      await deployment.drain();
      await sheet.fill(200, 5);
      const position = await sheet.snapshot();
      sheet.nowMs += 7_000;
      await deployment.send({ kind: 'snapshot', log: LOG, position }, 'd');
      await deployment.drain();
      await deployment.send({ kind: 'archive', log: LOG, segment: 5 }, 'failing');
      await deployment.drain();
    });
    expect(metrics).toHaveLength(1);
    expect(metrics[0]).toMatchObject({
      service: 'of-test',
      SnapshotLagEntries: [0, 0],
      SnapshotLagSeconds: [0, 7],
      BuildSeconds: [expect.any(Number), expect.any(Number)],
      EntriesFolded: [0, 2],
      ChunksWritten: [0, expect.any(Number)],
      ChunksReused: [0, 0],
      BytesWritten: [expect.any(Number), expect.any(Number)],
      JobsFailed: Array(5).fill(1),
      JobRetries: Array(4).fill(1),
      RecordsFailed: 1,
      _aws: { CloudWatchMetrics: [{ Namespace: 'logfold', Dimensions: [['service']] }] },
    });
  });

  test('it reports a stopped log as an error and as a metric', async () => {
    const { logs, metrics } = await written(async (deployment) => {
      await deployment.sheet.append({ type: FAULTY, version: 1 });
      const position = await deployment.sheet.snapshot();
      await deployment.send({ kind: 'snapshot', log: LOG, position }, 'd');
      await deployment.drain();
    });
    expect(logs).toMatchObject([{ level: 'ERROR', log: LOG, outcome: 'stopped', stop: { code: expect.any(String) } }]);
    expect(metrics).toMatchObject([{ LogsStopped: 1 }]);
  });

  test('it reports what its check found, fails, and checks again with the next invocation but not after success', async () => {
    const checks: string[] = [];
    const run = instrumented(
      () => async () => 'done',
      async () => {
        checks.push('checked');
        if (checks.length === 1) throw new Error('the table is missing');
      },
    );
    await expect(run(undefined, lambdaContext())).rejects.toThrow('the table is missing');
    expect(lines).toMatchObject([{ level: 'ERROR', correlationId: expect.any(String) }]);
    expect(await run(undefined, lambdaContext())).toBe('done');
    expect(await run(undefined, lambdaContext())).toBe('done');
    expect(checks).toHaveLength(2);
  });
});
