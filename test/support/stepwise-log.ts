import { expect } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { listProgress, type Progress } from '../../src/snapshot/progress.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { verify } from '../../src/workers/inspect/verify.ts';
import { decodeJob, encodeJob, type Job } from '../../src/workers/jobs/job.ts';
import type { SnapshotDeps } from '../../src/workers/snapshot/build-snapshot.ts';
import { MemoryChunks, SMALL_SHAPE } from './chunks.ts';
import { LOG, NOON } from './logs.ts';
import { flushedHash } from './models/flushed-hash.ts';
import { interceptPorts, SheetLog } from './sheet-log.ts';
import { type Interceptor, interceptJobQueue } from './stores/interceptor.ts';

/** Makes each run fold one page of ten entries: its deadline is over before it begins. */
export const ONE_PAGE = { rangeEntries: 10, deadline: 0 };

/** A log and its job queue. Each run of a job does the least possible work. */
export class StepwiseLog {
  nowMs = NOON * 1000;
  readonly sheet: SheetLog;
  readonly queue = new MemoryJobQueue({ now: () => this.nowMs });

  private constructor(sheet: SheetLog) {
    this.sheet = sheet;
  }

  static async create(): Promise<StepwiseLog> {
    return new StepwiseLog(await SheetLog.create({ shape: SMALL_SHAPE }));
  }

  /** Appends edits of all kinds. */
  async edits(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const cells = Array.from({ length: 4 }, (_, j) => [(i * 7 + j * 3) % 40, (i + j) % 5, `${i} and ${j}`] as const);
      if (i % 6 === 5) await this.sheet.edit({ type: 'Insert Rows', position: i % 9, count: 1 });
      else await this.sheet.edit({ type: 'Set', cells });
    }
  }

  /** Appends a Snapshot entry, unless a position is given, and sends the snapshot job. */
  async requestSnapshot(position?: Position): Promise<Position> {
    const target = position ?? (await this.sheet.snapshot());
    const job: Job = { kind: 'snapshot', log: LOG, position: target };
    await this.queue.send({ group: LOG, deduplicationId: `${target.segment}/${target.entry}`, body: encodeJob(job) });
    return target;
  }

  /** Runs the next job once; undefined if the queue is empty. */
  async runNext(deps: Partial<JobDeps> = {}): Promise<JobResult | undefined> {
    const [message] = await this.queue.receive({ max: 1, visibilityMs: 1_000 });
    if (message === undefined) return undefined;
    const job = decodeJob(message.body);
    const result = await runJob({ ...this.sheet.deps, ...ONE_PAGE, queue: this.queue, ...deps }, job);
    await this.queue.delete(message.receipt);
    return result;
  }

  /** Runs jobs until the queue is empty. */
  async drain(deps?: Partial<JobDeps>): Promise<JobResult[]> {
    const results: JobResult[] = [];
    for (let result = await this.runNext(deps); result !== undefined; result = await this.runNext(deps)) {
      results.push(result);
      if (results.length > 200) throw new Error('the jobs do not end after 200 runs');
    }
    return results;
  }

  /** Like {@link drain}, with an interceptor for each operation of a port. */
  drainIntercepted(intercept: Interceptor): Promise<JobResult[]> {
    return this.drain({ ...interceptPorts(this.sheet, intercept), queue: interceptJobQueue(this.queue, intercept) });
  }

  progress(): Promise<Progress[]> {
    return listProgress(this.sheet.blobs, LOG);
  }

  /**
   * Expects that a snapshot equals a build from the beginning in one run, and that no progress
   * objects are left.
   */
  async expectRight(position: Position, deps?: Partial<SnapshotDeps>): Promise<void> {
    const chunks = new MemoryChunks();
    const alone = { ...this.sheet.deps, ...deps, chunks };
    const { root } = await buildState(alone, LOG, { at: position, only: 'beginning' });
    expect(await this.sheet.stateHash(position)).toBe(await flushedHash(chunks, root.state, alone.nodes));
    expect((await verify(this.sheet.deps, LOG)).problems).toEqual([]);
    expect(await this.progress()).toEqual([]);
  }
}

/** The first and last entry of each run of a snapshot job. */
export function steps(results: readonly JobResult[], target: Position): (readonly [from: number, to: number])[] {
  return results.flatMap((result) => {
    if (!('position' in result) || comparePositions(result.position, target) !== 0) return [];
    if (result.outcome === 'progress') return [[result.base?.entry ?? 0, result.reached.entry] as const];
    return result.outcome === 'built' ? [[result.base?.entry ?? 0, target.entry] as const] : [];
  });
}
