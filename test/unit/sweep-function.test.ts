import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory-job-queue.ts';
import { ObjectInvalidError, UsageError } from '../../src/errors.ts';
import type { SweepEvent } from '../../src/functions/function-event.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import type { LogId } from '../../src/log/log-id.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/snapshot/retention.ts';
import { condemnedKey, SWEEP_KEY } from '../../src/store/keys.ts';
import { decodeJob, type Job } from '../../src/workers/job.ts';
import { writePolicy } from '../../src/workers/policies.ts';
import type { SweepResult } from '../../src/workers/sweep.ts';
import { readSweepNote } from '../../src/workers/sweep-note.ts';
import { aroundLogStore } from '../support/around.ts';
import { lambdaContext } from '../support/lambda-events.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

const DAY = 24 * 3600;
const EAGER: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0 };

/** Several logs, the sweep function over them, and the queue that it sends to. */
class Swept {
  readonly sheets = new SheetLogs();
  readonly queue = new MemoryJobQueue({ now: () => this.sheets.nowMs });
  readonly events: SweepEvent[] = [];
  policy = DEFAULT_POLICY;
  /** Milliseconds that each request for a log's entries takes. */
  slowMs = 0;

  async run(event: unknown = {}, { remainingMs = 900_000, id = 'a'.repeat(36) } = {}): Promise<SweepResult> {
    const { sheets, queue, policy } = this;
    const tables = aroundLogStore(sheets.tables, (name, effect) => {
      if (name === 'items') sheets.nowMs += this.slowMs;
      return effect();
    });
    const report = (each: SweepEvent): void => void this.events.push(each);
    const run = sweepFunction({ ...sheets.deps, tables, queue, policy, report });
    return run(event, lambdaContext(remainingMs, id));
  }

  /** The jobs in the queue, each taken out. */
  async jobs(): Promise<Job[]> {
    const jobs: Job[] = [];
    for (;;) {
      const messages = await this.queue.receive({ max: 10, visibilityMs: 60_000 });
      if (messages.length === 0) return jobs;
      for (const { body, receipt } of messages) {
        jobs.push(decodeJob(body));
        await this.queue.delete(receipt);
      }
    }
  }

  /** Logs whose first snapshot nobody completed. */
  async newLogs(count: number): Promise<[LogId, ...LogId[]]> {
    const first = await this.sheets.client.createLog();
    return [first, ...(await Promise.all(Array.from({ length: count - 1 }, () => this.sheets.client.createLog())))];
  }
}

describe('the sweep function', () => {
  test('sends what is due to the queue, and says what it was', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(1);
    swept.sheets.nowMs += 3600_000;
    expect(await swept.run()).toMatchObject({ logs: 1, jobs: 1, failed: 0, rest: undefined });
    expect(await swept.jobs()).toMatchObject([{ kind: 'snapshot', log, position: { segment: 0, entry: 0 } }]);
    expect(swept.events).toMatchObject([
      { kind: 'due', run: 'a'.repeat(36), job: { log }, why: 'nobody completed this snapshot' },
      { kind: 'swept', result: { logs: 1, jobs: 1 }, oldestSeconds: 3600 },
    ]);
    expect(await swept.sheets.blobs.get(SWEEP_KEY)).toBeUndefined();
  });

  test('leaves a young Snapshot entry to the stream, yet counts how long it waits', async () => {
    const swept = new Swept();
    const [log] = await swept.newLogs(1);
    swept.sheets.nowMs += 899_000;
    expect(await swept.run()).toMatchObject({ jobs: 0 });
    expect(swept.events).toMatchObject([{ kind: 'swept', oldestSeconds: 899 }]);
    expect(await swept.run({ log })).toMatchObject({ jobs: 1 });
    // Of one log only: that would hide how long others wait.
    expect(swept.events.at(-1)).toMatchObject({ kind: 'swept', oldestSeconds: undefined });
    await swept.sheets.complete(log, { segment: 0, entry: 0 });
    await swept.run();
    expect(swept.events.at(-1)).toMatchObject({ kind: 'swept', oldestSeconds: 0 });
  });

  test('goes by the policy of the deployment, and by what a log has of its own', async () => {
    const swept = new Swept();
    const [log, kept] = [await swept.sheets.atRest(3), await swept.sheets.atRest(3)];
    swept.policy = EAGER;
    await writePolicy(swept.sheets.blobs, EAGER, { log: kept, changes: { keepSegments: 9 } });
    await swept.run();
    expect(await swept.jobs()).toEqual([
      { kind: 'archive', log, segment: 0 },
      { kind: 'archive', log, segment: 1 },
    ]);
  });

  test('sends nothing twice where Lambda gives it the same event again, but with the next event', async () => {
    const swept = new Swept();
    await swept.newLogs(1);
    swept.sheets.nowMs += 3600_000;
    for (let times = 0; times < 3; times++) await swept.run();
    expect(await swept.jobs()).toHaveLength(1);
    await swept.run({}, { id: 'b'.repeat(36) });
    expect(await swept.jobs()).toHaveLength(1);
  });

  test('notes where its time was up, and the next runs come to the end: no log is left out, and none is looked at twice', async () => {
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
      expect(await readSweepNote(swept.sheets.blobs)).toEqual(rest);
      found.push(...(await swept.jobs()));
      expect(runs).toBeLessThan(10);
    }
    expect(runs).toBeGreaterThan(3);
    const snapshots = found.filter(({ kind }) => kind === 'snapshot').map(({ log }) => log);
    expect(snapshots.toSorted()).toEqual(logs.toSorted());
    // What collections have left over is looked for once, in a last run of its own, which tells nothing of the logs.
    expect(swept.events.findLast(({ kind }) => kind === 'swept')).toMatchObject({
      result: { logs: 0 },
      oldestSeconds: undefined,
    });
    expect(found.filter(({ kind }) => kind === 'collect')).toEqual([{ kind: 'collect', log: first }]);
    expect(await swept.sheets.blobs.get(SWEEP_KEY)).toBeUndefined();
    // From then on it begins at the beginning.
    swept.slowMs = 0;
    expect(await swept.run({}, { id: 'last' })).toMatchObject({ logs: 100 });
  });

  test('comes further even where its time is up before it begins', async () => {
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

  test('gives a person who asks for more what is left, to be given back, and leaves the note alone', async () => {
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

  test('goes on where one log cannot be looked at, and counts it', async () => {
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
    ['no log', { log: 'mine' }],
    ['no date', { since: 'yesterday' }],
    ['a rest of another form', { from: ['somewhere'] }],
  ])('refuses %s for an event, and says what it takes', async (_what, event) => {
    const swept = new Swept();
    await expect(swept.run(event)).rejects.toThrow(UsageError);
    await expect(swept.run(event)).rejects.toThrow('log, since, rebuild, collect and from');
  });

  test('says what to do where its note cannot be read', async () => {
    const swept = new Swept();
    await swept.sheets.blobs.put(SWEEP_KEY, new TextEncoder().encode('{"format":2}'));
    await expect(swept.run()).rejects.toThrow(ObjectInvalidError);
    await expect(swept.run()).rejects.toThrow('Remove it');
  });
});
