import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { FoldFailedError, ObjectInvalidError, UsageError } from '../../src/errors.ts';
import { reportEvent, type SweepEvent } from '../../src/functions/function-event.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { writePolicy } from '../../src/retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { clearStop, writeStop } from '../../src/snapshot/stop.ts';
import { condemnedKey, SWEEP_KEY } from '../../src/store/keys.ts';
import { runJob } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, encodeJob, type Job, jobQueues } from '../../src/workers/jobs/job.ts';
import type { SweepResult } from '../../src/workers/sweep/sweep.ts';
import {
  RequestedJobs,
  type RequestedJobsNote,
  readSweepNote,
  type SweepRest,
  writeSweepNote,
} from '../../src/workers/sweep/sweep-note.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { newLogId } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';

const DAY = 24 * 3600;
const HOUR_MS = 3600_000;
const EAGER: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0 };

/** Several logs, the sweep function over them, and the queues that it sends to. */
class Swept {
  readonly sheets = new SheetLogs();
  readonly queues = {
    snapshot: new MemoryJobQueue({ now: () => this.sheets.nowMs }),
    maintenance: new MemoryJobQueue({ now: () => this.sheets.nowMs }),
  };
  readonly events: SweepEvent[] = [];
  policy = DEFAULT_POLICY;
  /** Milliseconds that each request for a log's entries takes. */
  slowMs = 0;
  hasTrigger = true;

  async run(event: unknown = {}, { remainingMs = 900_000, id = 'a'.repeat(36) } = {}): Promise<SweepResult> {
    const { sheets, queues, policy, hasTrigger } = this;
    const tables = interceptLogStore(sheets.tables, (name, effect) => {
      if (name === 'items') sheets.nowMs += this.slowMs;
      return effect();
    });
    const report = (each: SweepEvent): void => void this.events.push(each);
    const run = sweepFunction({ ...sheets.deps, tables, queues, policy, hasTrigger, report });
    const result = await run(event, lambdaContext(remainingMs, id));
    if ('complete' in result) throw new Error('the function looked for logs instead');
    return result;
  }

  /** The jobs in the queues, each taken out. */
  async jobs(): Promise<Job[]> {
    const jobs: Job[] = [];
    for (const queue of [this.queues.snapshot, this.queues.maintenance]) {
      for (let messages = await this.take(queue, 10); messages.length > 0; messages = await this.take(queue, 10)) {
        jobs.push(...messages);
      }
    }
    return jobs;
  }

  /** So many jobs of a queue, or fewer, each taken out. */
  async take(queue: MemoryJobQueue, max: number): Promise<Job[]> {
    const messages = await queue.receive({ max, visibilityMs: 60_000 });
    for (const { receipt } of messages) await queue.delete(receipt);
    return messages.map(({ body }) => decodeJob(body));
  }

  /** How many jobs each sweep so far sent, and how many it found waiting. */
  sweeps(): Pick<SweepResult, 'jobs' | 'waiting'>[] {
    return this.events.flatMap((event) =>
      event.kind === 'swept' ? [{ jobs: event.result.jobs, waiting: event.result.waiting }] : [],
    );
  }

  /** Logs whose first snapshot is pending. */
  async newLogs(count: number): Promise<[LogId, ...LogId[]]> {
    const first = await this.sheets.client.createLog();
    return [first, ...(await Promise.all(Array.from({ length: count - 1 }, () => this.sheets.client.createLog())))];
  }
}

describe('the sweep function', () => {
  test('it sends due jobs to the queue, and reports each', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(1);
    swept.sheets.nowMs += 3600_000;
    expect(await swept.run()).toMatchObject({ logs: 1, jobs: 1, failed: 0, rest: undefined });
    expect(await swept.jobs()).toMatchObject([{ kind: 'snapshot', log, position: { segment: 0, entry: 0 } }]);
    expect(swept.events).toMatchObject([
      { kind: 'due', run: 'a'.repeat(36), job: { log }, why: 'the snapshot is pending' },
      { kind: 'swept', result: { logs: 1, jobs: 1 }, ages: { unsnapshottedSeconds: 3600, dueSeconds: 0 } },
    ]);
  });

  test('it leaves a young Snapshot entry to the stream, but counts its age', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(1);
    swept.sheets.nowMs += 899_000;
    expect(await swept.run()).toMatchObject({ jobs: 0 });
    expect(swept.events).toMatchObject([{ kind: 'swept', ages: { unsnapshottedSeconds: 899 } }]);
    expect(await swept.run({ log })).toMatchObject({ jobs: 1 });
    // A sweep of one log reports no ages, because they would hide those of other logs.
    expect(swept.events.at(-1)).toMatchObject({ kind: 'swept', ages: undefined });
    await swept.sheets.complete(log, { segment: 0, entry: 0 });
    await swept.run();
    expect(swept.events.at(-1)).toMatchObject({ kind: 'swept', ages: { unsnapshottedSeconds: 0 } });
  });

  test('without a stream it finds an entry however young, and sends its job once', async () => {
    const swept = new Swept();
    swept.hasTrigger = false;
    const [log] = await swept.newLogs(1);
    expect(await swept.run()).toMatchObject({ jobs: 1, missed: 0 });
    swept.sheets.nowMs += 60_000;
    expect(await swept.run()).toMatchObject({ jobs: 0, waiting: 1 });
    expect(await swept.jobs()).toMatchObject([{ kind: 'snapshot', log, position: { segment: 0, entry: 0 } }]);
  });

  test("it uses the policy of the deployment and the log's own policy", async () => {
    const swept = new Swept();
    const [log, kept] = [await swept.sheets.atRest(3), await swept.sheets.atRest(3)];
    swept.policy = EAGER;
    await writePolicy(swept.sheets.blobs, EAGER, { log: kept, change: () => ({ keepSegments: 9 }) });
    await swept.run();
    expect(await swept.jobs()).toEqual([
      { kind: 'archive', log, segment: 0 },
      { kind: 'archive', log, segment: 1 },
    ]);
  });

  test('it sends nothing twice if Lambda delivers the same event again, even without a note', async () => {
    const swept = new Swept();
    await swept.newLogs(1);
    swept.sheets.nowMs += HOUR_MS;
    for (let times = 0; times < 3; times++) {
      await swept.run();
      await swept.sheets.blobs.delete([SWEEP_KEY]);
    }
    expect(await swept.jobs()).toHaveLength(1);
  });

  test('it requests a due job once, however many sweeps find it while its message waits', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    for (let count = 0; count < 20; count++) await swept.sheets.atRest(2);
    for (let hour = 0; hour < 12; hour++) {
      await swept.run({}, { id: String(hour) });
      swept.sheets.nowMs += HOUR_MS;
    }
    expect(swept.queues.maintenance.size).toBe(20);
    expect(swept.sweeps()).toEqual([
      { jobs: 20, waiting: 0 },
      ...Array.from({ length: 11 }, () => ({ jobs: 0, waiting: 20 })),
    ]);
  });

  test('it requests a due job once if each sweep takes several runs', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    for (let count = 0; count < 40; count++) await swept.sheets.atRest(2);
    for (let run = 0; run < 40; run++) {
      await swept.run({}, { id: String(run), remainingMs: 0 });
      swept.sheets.nowMs += HOUR_MS / 2;
    }
    expect(swept.queues.maintenance.size).toBe(40);
  });

  test('a worker that is slower than the sweeps does everything, nothing twice, and starves no log', {
    tags: ['I6'],
  }, async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    const logs: LogId[] = [];
    for (let count = 0; count < 20; count++) logs.push(await swept.sheets.atRest(3));
    const done: string[] = [];
    const firstDone = new Map<LogId, number>();
    for (let hour = 0; hour < 40; hour++) {
      await swept.run({}, { id: String(hour) });
      for (const job of await swept.take(swept.queues.maintenance, 1)) {
        await swept.sheets.run(job);
        done.push(JSON.stringify(job));
        if (!firstDone.has(job.log)) firstDone.set(job.log, hour);
      }
      swept.sheets.nowMs += HOUR_MS;
    }
    expect(new Set(done).size).toBe(40);
    expect(done).toHaveLength(40);
    // By turns: each log's first job comes before the second one of any other.
    expect(Math.max(...firstDone.values())).toBe(19);
    expect([...firstDone.keys()].toSorted()).toEqual(logs.toSorted());
    for (const log of logs) expect(await swept.sheets.tables.getSegment(log, 1)).toHaveProperty('archive');
  });

  test('it requests a lost job again: at the next sweep if the queue is empty, else a day later', {
    tags: ['I5'],
  }, async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    const [lost, waits] = [await swept.sheets.atRest(2), await swept.sheets.atRest(2)];
    await swept.run({}, { id: 'first' });
    const jobs = await swept.take(swept.queues.maintenance, 1);
    expect(await swept.queues.maintenance.depth()).toBe(1);
    for (let hour = 1; hour < 24; hour++) {
      swept.sheets.nowMs += HOUR_MS;
      expect(await swept.run({}, { id: String(hour) })).toMatchObject({ jobs: 0, waiting: 2 });
    }
    swept.sheets.nowMs += HOUR_MS;
    expect(await swept.run({}, { id: 'a day later' })).toMatchObject({ jobs: 2 });
    jobs.push(...(await swept.jobs()));
    expect(jobs.map(({ log }) => log).toSorted()).toEqual([lost, lost, waits, waits].toSorted());
    swept.sheets.nowMs += HOUR_MS;
    expect(await swept.run({}, { id: 'the queue is empty' })).toMatchObject({ jobs: 2, waiting: 0 });
  });

  test('it requests nothing again while a queue is long, until no message can be left in it', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    await swept.sheets.atRest(2);
    const fill = async (to: number): Promise<void> => {
      for (let i = await swept.queues.maintenance.depth(); i < to; i++) {
        const body = encodeJob({ kind: 'collect', log: newLogId() });
        await swept.queues.maintenance.send({ group: String(i), deduplicationId: `${i} ${swept.sheets.nowMs}`, body });
      }
    };
    await fill(1_000);
    await swept.run({}, { id: 'first' });
    for (let day = 1; day < 14; day++) {
      swept.sheets.nowMs += DAY * 1000;
      expect(await swept.run({}, { id: `day ${day}` })).toMatchObject({ jobs: 0, waiting: 1 });
    }
    swept.sheets.nowMs += DAY * 1000;
    expect(await swept.run({}, { id: 'day 14' })).toMatchObject({ jobs: 1, waiting: 0 });
  });

  test('it fills no queue beyond the limit of SQS, and sends the rest when there is room', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    for (let count = 0; count < 5; count++) await swept.sheets.atRest(2);
    let others = 99_997;
    swept.queues.maintenance.depth = async () => swept.queues.maintenance.size + others;
    const run = async (): Promise<Pick<SweepResult, 'jobs' | 'waiting'> | undefined> => {
      swept.sheets.nowMs += HOUR_MS;
      await swept.run({}, { id: String(swept.sheets.nowMs) });
      return swept.sweeps().at(-1);
    };
    expect(await run()).toEqual({ jobs: 3, waiting: 2 });
    expect(await run()).toEqual({ jobs: 0, waiting: 5 });
    others = 0;
    expect(await run()).toEqual({ jobs: 2, waiting: 3 });
    expect(new Set((await swept.jobs()).map(({ log }) => log)).size).toBe(5);
  });

  test('it sends at most a thousand jobs of one log, oldest first, and more as they are done', () => {
    const log = newLogId();
    let due = Array.from({ length: 1_200 }, (_, segment): Job => ({ kind: 'archive', log, segment }));
    let noted: readonly RequestedJobsNote[] = [];
    const run = (nowMs: number): number[] => {
      const requested = new RequestedJobs({ noted, depths: { snapshot: 0, maintenance: 1_000 }, nowMs });
      const sent = due.filter((job) => !requested.holdsBack(job));
      for (const job of sent) requested.add(job);
      noted = requested.note(true);
      return sent.map((job) => (job.kind === 'archive' ? job.segment : -1));
    };
    expect(run(0)).toEqual(Array.from({ length: 1_000 }, (_, segment) => segment));
    expect(run(HOUR_MS)).toEqual([]);
    due = due.slice(10);
    expect(run(2 * HOUR_MS)).toEqual(Array.from({ length: 10 }, (_, i) => 1_000 + i));
  });

  test.each([
    ['2 seconds each', 2_000, 1],
    ['20 seconds each', 20_000, 5],
  ])('it archives 60 segments of a log, %s, and collects at most every five minutes', async (_what, ms, most) => {
    const swept = new Swept();
    swept.policy = EAGER;
    const { sheets, queues } = swept;
    await sheets.atRest(61);
    await swept.run();
    const done: string[] = [];
    for (let jobs = await swept.take(queues.maintenance, 1); jobs.length > 0; ) {
      for (const job of jobs) {
        await runJob({ ...sheets.deps, policyOf: () => EAGER, queue: jobQueues(queues) }, job);
        done.push(job.kind);
        sheets.nowMs += ms;
      }
      jobs = await swept.take(queues.maintenance, 1);
    }
    expect(done.slice(0, 60)).toEqual(Array(60).fill('archive'));
    expect(done.slice(60).every((kind) => kind === 'collect')).toBe(true);
    expect(done.length - 60).toBeGreaterThan(0);
    expect(done.length - 60).toBeLessThanOrEqual(most);
  });

  test('it remembers the jobs that it sent if it fails later', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    for (let count = 0; count < 5; count++) await swept.sheets.atRest(2);
    swept.sheets.blobs.uploads = () => {
      throw new Error('no answer');
    };
    for (let hour = 0; hour < 5; hour++) {
      await expect(swept.run({}, { id: String(hour) })).rejects.toThrow('no answer');
      swept.sheets.nowMs += HOUR_MS;
    }
    expect(swept.queues.maintenance.size).toBe(5);
  });

  test('it sends all jobs that an operator requests, and does not change the note of scheduled runs', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    const log = await swept.sheets.atRest(2);
    await swept.run({}, { id: 'scheduled' });
    const note = await swept.sheets.blobs.get(SWEEP_KEY);
    expect(await swept.run({ log }, { id: 'by hand' })).toMatchObject({ jobs: 1, waiting: 0 });
    expect(await swept.sheets.blobs.get(SWEEP_KEY)).toEqual(note);
  });

  test('it forgets jobs that are done, so that the note is empty if nothing is due', async () => {
    const swept = new Swept();
    swept.policy = EAGER;
    await swept.sheets.atRest(2);
    await swept.run({}, { id: 'first' });
    expect(await readSweepNote(swept.sheets.blobs)).toBeDefined();
    await swept.sheets.run(...(await swept.take(swept.queues.maintenance, 1)));
    swept.sheets.nowMs += HOUR_MS;
    await swept.run({}, { id: 'second' });
    expect(await readSweepNote(swept.sheets.blobs)).toBeUndefined();
  });

  test('each run counts stopped logs until they are resumed, and none of their entries as missed', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(2);
    const reducer = { name: 'spreadsheet', version: 1 };
    await writeStop(swept.sheets.blobs, log, { error: new FoldFailedError('no'), reducer, since: 0 });
    swept.sheets.nowMs += HOUR_MS;
    expect(await swept.run({}, { id: 'first' })).toMatchObject({ stopped: 1, missed: 1 });
    expect(await swept.run({}, { id: 'second' })).toMatchObject({ stopped: 1, missed: 0, waiting: 2 });
    await clearStop(swept.sheets.blobs, log);
    expect(await swept.run({}, { id: 'third' })).toMatchObject({ stopped: 0, missed: 0 });
  });

  test('its metrics report no trouble only if the run looked at all logs', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(1);
    const reported = (): string[] => {
      const event = swept.events.at(-1);
      return event === undefined ? [] : reportEvent(event).metrics.map(({ name }) => name);
    };
    const trouble = ['LogsFailed', 'LogsStopped', 'RecordsMissed'];
    await swept.run();
    expect(reported()).toEqual(expect.arrayContaining(trouble));
    await swept.run({ log });
    expect(reported().filter((name) => trouble.includes(name))).toEqual([]);
    const reducer = { name: 'spreadsheet', version: 1 };
    await writeStop(swept.sheets.blobs, log, { error: new FoldFailedError('no'), reducer, since: 0 });
    await swept.run({ log });
    expect(reported().filter((name) => trouble.includes(name))).toEqual(['LogsStopped']);
  });

  test('it counts snapshots that the stream missed, while the stream may have had them', async () => {
    const swept = new Swept();
    await swept.newLogs(1);
    swept.sheets.nowMs += 23 * HOUR_MS;
    await swept.newLogs(1);
    expect(await swept.run({}, { id: 'one is young' })).toMatchObject({ jobs: 1, missed: 1 });
    const late = new Swept();
    await late.newLogs(1);
    late.sheets.nowMs += 25 * HOUR_MS;
    expect(await late.run()).toMatchObject({ jobs: 1, missed: 0 });
  });

  test('a sweep that ends beside another one keeps the requested jobs of both', async () => {
    const blobs = new MemoryBlobStore();
    const note = (job: string, rest?: SweepRest) => ({
      rest,
      requested: [{ queue: 'snapshot' as const, at: 1, jobs: [job] }],
    });
    await writeSweepNote(blobs, undefined, note('first', ['beginning']));
    const before = await readSweepNote(blobs);
    await writeSweepNote(blobs, before, note('second', ['end']));
    expect(await readSweepNote(blobs)).toEqual(note('second', ['end']));
    // This one began with the first note, and looked at all logs.
    await writeSweepNote(blobs, before, note('third'));
    const kept = { rest: undefined, requested: [...note('second').requested, ...note('third').requested] };
    expect(await readSweepNote(blobs)).toEqual(kept);
    await writeSweepNote(blobs, await readSweepNote(blobs), { rest: undefined });
    expect(await readSweepNote(blobs)).toBeUndefined();
  });

  test('it reports for how long the oldest job has been due, whether it waits or not', async () => {
    const swept = new Swept();
    swept.policy = { ...EAGER, keepDays: 3 };
    await swept.sheets.atRest(2);
    swept.sheets.nowMs += HOUR_MS;
    await swept.sheets.atRest(2);
    const tell = async (id: string): Promise<SweepEvent | undefined> => {
      await swept.run({}, { id });
      return swept.events.at(-1);
    };
    expect(await tell('none is due')).toMatchObject({ kind: 'swept', ages: { dueSeconds: 0 } });
    swept.sheets.nowMs += 3 * DAY * 1000;
    expect(await tell('both are due')).toMatchObject({ kind: 'swept', ages: { dueSeconds: 3600 } });
    swept.sheets.nowMs += HOUR_MS;
    expect(await tell('both wait')).toMatchObject({ result: { waiting: 2 }, ages: { dueSeconds: 7200 } });
  });

  test('it reports for how long a gc candidate has been due', async () => {
    const swept = new Swept();
    const log = await swept.sheets.atRest(1);
    await swept.sheets.blobs.put(condemnedKey(log), Uint8Array.of(1));
    swept.sheets.nowMs += (swept.policy.graceSeconds + 60) * 1000;
    await swept.run();
    expect(swept.events.at(-1)).toMatchObject({ result: { jobs: 1 }, ages: { dueSeconds: 60 } });
  });

  test('if its time is up, the next runs look at the other logs: none is left out or visited twice', async () => {
    const swept = new Swept();
    const logs = await swept.newLogs(100);
    const [first] = logs;
    await swept.sheets.blobs.put(condemnedKey(first), Uint8Array.of(1));
    swept.sheets.nowMs += 2 * DAY * 1000;
    // Each log takes a second, and there is time for about twenty of them.
    swept.slowMs = 1_000;
    const found: Job[] = [];
    let runs = 0;
    for (let unfinished = true; unfinished; runs++) {
      const { rest } = await swept.run({}, { remainingMs: 80_000, id: String(runs) });
      unfinished = rest !== undefined;
      expect((await readSweepNote(swept.sheets.blobs))?.rest).toEqual(rest);
      found.push(...(await swept.jobs()));
      expect(runs).toBeLessThan(10);
    }
    expect(runs).toBeGreaterThan(3);
    const snapshots = found.filter(({ kind }) => kind === 'snapshot').map(({ log }) => log);
    expect(snapshots.toSorted()).toEqual(logs.toSorted());
    // One last run looks for gc candidates only, and reports nothing about logs.
    expect(swept.events.findLast(({ kind }) => kind === 'swept')).toMatchObject({
      result: { logs: 0 },
      ages: undefined,
    });
    expect(found.filter(({ kind }) => kind === 'collect')).toEqual([{ kind: 'collect', log: first }]);
    // Later sweeps start at the beginning.
    swept.slowMs = 0;
    expect(await swept.run({}, { id: 'last' })).toMatchObject({ logs: 100 });
  });

  test('it makes progress even if its time is up before it begins', async () => {
    const swept = new Swept();
    await swept.newLogs(40);
    let logs = 0;
    for (let runs = 0; runs < 40; runs++) {
      const result = await swept.run({}, { remainingMs: 0, id: String(runs) });
      logs += result.logs;
      if (result.rest === undefined) break;
    }
    expect(logs).toBe(40);
  });

  test('an operator gets the rest to pass back, and the note does not change', async () => {
    const swept = new Swept();
    const logs = await swept.newLogs(30);
    const rebuilt: LogId[] = [];
    let from: SweepResult['rest'];
    do {
      const event = JSON.parse(JSON.stringify({ rebuild: true, from }));
      from = (await swept.run(event, { remainingMs: 0, id: String(rebuilt.length) })).rest;
      rebuilt.push(...(await swept.jobs()).map(({ log }) => log));
    } while (from !== undefined);
    expect(rebuilt.toSorted()).toEqual(logs.toSorted());
    expect(await swept.sheets.blobs.get(SWEEP_KEY)).toBeUndefined();
  });

  test('it goes on if one log cannot be read, and counts it', async () => {
    const swept = new Swept();
    const [broken, whole] = await swept.newLogs(2);
    swept.sheets.nowMs += 3600_000;
    // Contradicts itself only together with what the deployment says.
    swept.policy = { ...EAGER, keepDays: 1, archive: false, expire: 'delete' };
    const own = { format: 1, logs: { [broken]: { keepDays: 0 } } };
    await swept.sheets.blobs.put('policies.json', new TextEncoder().encode(JSON.stringify(own)));
    expect(await swept.run()).toMatchObject({ logs: 2, failed: 1 });
    expect(swept.events).toContainEqual(
      expect.objectContaining({
        kind: 'unswept',
        log: broken,
        error: expect.objectContaining({ code: 'POLICY_INVALID' }),
      }),
    );
    expect((await swept.jobs()).map((job) => job.log)).toContain(whole);
  });

  test.each([
    ['a word', '"all"'],
    ['another setting', { sinse: '2026-01-01' }],
    ['no log', { log: 'x'.repeat(257) }],
    ['no date', { since: 'yesterday' }],
    ['a rest of another form', { from: ['somewhere'] }],
  ])('it refuses %s for an event, and says which settings it accepts', async (_what, event) => {
    const swept = new Swept();
    await expect(swept.run(event)).rejects.toThrow(UsageError);
    await expect(swept.run(event)).rejects.toThrow('log, since, rebuild, collect and from');
  });

  test('it gives advice if its note cannot be read', async () => {
    const swept = new Swept();
    await swept.sheets.blobs.put(SWEEP_KEY, new TextEncoder().encode('{"format":2}'));
    await expect(swept.run()).rejects.toThrow(ObjectInvalidError);
    await expect(swept.run()).rejects.toThrow('Remove it');
  });
});
