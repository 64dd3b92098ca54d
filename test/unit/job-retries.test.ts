import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import type { JobEvent } from '../../src/functions/function-event.ts';
import { jobsFunction } from '../../src/functions/jobs-function.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { JobDeps } from '../../src/workers/dispatch/run-job.ts';
import { encodeJob } from '../../src/workers/jobs/job.ts';
import { deployedFunctions } from '../support/deployed/deployed-functions.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { toSqsEvent } from '../support/deployed/lambda-records.ts';
import { readTemplate } from '../support/deployed/template.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const stack = readTemplate().expand();
const queueSchema = z.object({
  VisibilityTimeout: z.number(),
  RedrivePolicy: z.object({ maxReceiveCount: z.number() }),
});
const { VisibilityTimeout, RedrivePolicy } = queueSchema.parse(stack.resources.get('SnapshotJobs')?.properties);
const { timeoutSeconds = 0 } = deployedFunctions(stack).get('SnapshotFunction') ?? {};

/** The outcome of one delivery. */
type Fate = 'well' | 'outage' | 'dies';

/** The template's queue and its function in virtual time. Its functions take no time. */
class Queue {
  readonly sheets = new SheetLogs();
  readonly messages = new MemoryJobQueue({
    now: () => this.sheets.nowMs,
    maxReceives: RedrivePolicy.maxReceiveCount,
  });
  readonly startedMs = this.sheets.nowMs;
  readonly events: JobEvent[] = [];
  /** When a function died, in milliseconds since the start. */
  readonly deaths: number[] = [];
  /** When a log's job was done, in milliseconds since the start. */
  readonly done = new Map<LogId, number>();

  get ms(): number {
    return this.sheets.nowMs - this.startedMs;
  }

  /** A log whose first snapshot is requested. */
  async add(): Promise<LogId> {
    const log = await this.sheets.client.createLog();
    await this.requestSnapshot(log);
    return log;
  }

  async requestSnapshot(log: LogId): Promise<void> {
    const body = encodeJob({ kind: 'snapshot', log, position: { segment: 0, entry: 0 } });
    await this.messages.send({ group: log, deduplicationId: log, body });
  }

  /** Lets time pass, minute by minute, and delivers what the queue gives out. */
  async pass(ms: number, fateOf: (log: LogId) => Fate): Promise<void> {
    for (const end = this.ms + ms; this.ms < end; this.sheets.nowMs += MINUTE_MS) {
      for (;;) {
        const [message] = await this.messages.receive({ max: 1, visibilityMs: VisibilityTimeout * 1000 });
        if (message === undefined) break;
        const { group, receipt } = message;
        const log = [...this.logs].find((each) => each === group);
        if (log === undefined) throw new Error(`log ${group} is unknown`);
        if (await this.#invoke(message, fateOf(log))) {
          await this.messages.delete(receipt);
          this.done.set(log, this.ms);
        }
      }
    }
  }

  readonly logs = new Set<LogId>();

  /** @returns whether the message is done */
  async #invoke(message: Parameters<typeof toSqsEvent>[0][number], fate: Fate): Promise<boolean> {
    const never = Promise.withResolvers<JobDeps>();
    const begun = Promise.withResolvers<void>();
    const run = jobsFunction({
      jobs: async () => {
        if (fate === 'outage') throw new Error('no answer');
        if (fate === 'well') return { ...this.sheets.deps, queue: this.messages };
        begun.resolve();
        return never.promise;
      },
      report: (event) => this.events.push(event),
      changeVisibility: (receipt, ms) => this.messages.changeVisibility(receipt, ms),
    });
    const answer = run(toSqsEvent([message]), lambdaContext(timeoutSeconds * 1000));
    if (fate === 'dies') {
      await begun.promise;
      this.deaths.push(this.ms);
      return false;
    }
    return (await answer).batchItemFailures.length === 0;
  }
}

async function queueOf(logs: number): Promise<Queue> {
  const queue = new Queue();
  for (let count = 0; count < logs; count++) queue.logs.add(await queue.add());
  return queue;
}

describe('a job', () => {
  test.each([6, 12])(
    'it outlasts an outage of %i hours, and is done within 15 minutes of its end',
    { tags: ['I5'] },
    async (hours) => {
      const queue = await queueOf(10);
      await queue.pass(hours * HOUR_MS, () => 'outage');
      expect(queue.done.size).toBe(0);
      await queue.pass(15 * MINUTE_MS, () => 'well');
      expect(queue.done.size).toBe(10);
      expect(queue.messages.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 0 });
    },
  );

  test('a job that always fails is a dead letter after 14 hours and 26 minutes, and delays no other log', {
    tags: ['I6'],
  }, async () => {
    const queue = await queueOf(2);
    const [poisoned, other] = [...queue.logs];
    const fate = (log: LogId): Fate => (log === poisoned ? 'outage' : 'well');
    await queue.pass(14 * HOUR_MS + 25 * MINUTE_MS, fate);
    expect(queue.messages.stats()).toMatchObject({ inFlight: 1, dead: 0 });
    await queue.pass(2 * MINUTE_MS, fate);
    expect(queue.messages.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 1 });
    expect([...queue.done]).toEqual([[other, 0]]);
    expect(queue.events.filter(({ kind }) => kind === 'failed')).toHaveLength(RedrivePolicy.maxReceiveCount);
  });

  test('a job that kills its function each time runs every 16 minutes, and is a dead letter after 16 hours', async () => {
    const queue = await queueOf(2);
    const [deadly, other] = [...queue.logs];
    const fate = (log: LogId): Fate => (log === deadly ? 'dies' : 'well');
    await queue.pass(16 * HOUR_MS, fate);
    expect(queue.messages.stats()).toMatchObject({ dead: 0 });
    await queue.pass(MINUTE_MS, fate);
    expect(queue.messages.stats()).toEqual({ waiting: 0, inFlight: 0, dead: 1 });
    const expected = Array.from({ length: RedrivePolicy.maxReceiveCount }, (_, i) => i * 16 * MINUTE_MS);
    expect(queue.deaths).toEqual(expected);
    expect([...queue.done]).toEqual([[other, 0]]);
  });

  test('a job that kills its function is delayed by 16 minutes for each death, and then done', async () => {
    const queue = await queueOf(1);
    await queue.pass(MINUTE_MS, () => 'dies');
    await queue.pass(16 * MINUTE_MS, () => 'well');
    expect([...queue.done.values()]).toEqual([16 * MINUTE_MS]);
  });

  test('a job of one log that kills its function each time raises FailingJobs', async () => {
    const alarm = z
      .object({ EvaluationPeriods: z.number(), Threshold: z.literal(0), Metrics: z.array(z.unknown()) })
      .parse(stack.nested('MonitoringStack').resources.get('FailingJobsAlarm')?.properties);
    const periods = [...JSON.stringify(alarm.Metrics).matchAll(/"Period":(\d+)/g)].map(([, seconds]) =>
      Number(seconds),
    );
    expect(new Set(periods).size).toBe(1);
    const periodMs = (periods[0] ?? 0) * 1000;
    const queue = await queueOf(1);
    await queue.pass((alarm.EvaluationPeriods + 1) * periodMs, () => 'dies');
    // AWS/Lambda Errors counts an invocation that ran out of memory or time, at the time when it
    // began.
    for (let offsetMs = 0; offsetMs < periodMs; offsetMs += 5 * MINUTE_MS) {
      for (let period = 0; period < alarm.EvaluationPeriods; period++) {
        const from = offsetMs + period * periodMs;
        expect(queue.deaths.some((ms) => ms >= from && ms < from + periodMs)).toBe(true);
      }
    }
  });
});

test('docs/operations.md says for how long a job is retried', () => {
  const text = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8').replaceAll(/\s+/g, ' ');
  const receives = RedrivePolicy.maxReceiveCount;
  const fixed = 30 + 120 + 480;
  const seconds = fixed + (receives - 3) * 900;
  expect(text).toContain(`30 s + 2 min + 8 min + ${receives - 3} × 15 min`);
  expect(text).toContain(`${Math.floor(seconds / 3600)} hours and ${Math.ceil((seconds % 3600) / 60)} minutes`);
  expect(text).toContain(`${receives} × 16 min = ${(receives * 16) / 60} hours`);
});
