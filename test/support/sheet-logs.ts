import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { LogfoldError } from '../../src/errors.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { LogClient } from '../../src/log/client.ts';
import { Policies, type PolicyChanges } from '../../src/retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import type { JobDeps, JobResult } from '../../src/workers/dispatch/run-job.ts';
import { JobRunner } from '../../src/workers/dispatch/sweep-runner.ts';
import type { Job } from '../../src/workers/jobs/job.ts';
import { completeSnapshot, type SnapshotDeps } from '../../src/workers/snapshot/build-snapshot.ts';
import { type SweepDeps, type SweepOptions, type SweepResult, sweep } from '../../src/workers/sweep/sweep.ts';
import { NOON, newLogId, unarchived } from './logs.ts';
import { Random } from './models/random.ts';
import { testDeployment } from './test-deployment.ts';

/** The jobs that a sweep sends, and the logs on which it fails. */
export interface SweepFindings extends SweepResult {
  readonly sent: readonly Job[];
  readonly why: readonly string[];
  readonly failures: readonly { readonly log: LogId | undefined; readonly error: LogfoldError }[];
}

/**
 * Several logs of sheets on the same memory adapters, with a sweep over all of them and one clock.
 */
export class SheetLogs {
  /** Epoch milliseconds. Only tests move it. */
  nowMs = NOON * 1000;
  policy: RetentionPolicy = DEFAULT_POLICY;
  readonly own = new Map<LogId, PolicyChanges>();
  readonly tables: MemoryLogStore;
  readonly blobs = new MemoryBlobStore(() => this.nowMs);
  readonly deps: Omit<JobDeps, 'queue'> & Pick<SweepDeps, 'policyOf'>;
  readonly client: LogClient;

  constructor(tables = new MemoryLogStore(), nodes?: SnapshotDeps['nodes'], newId = newLogId) {
    const random = new Random(1);
    const { blobs } = this;
    this.tables = tables;
    const deployment = testDeployment({
      ...{ tables, blobs, nodes, now: () => this.nowMs, random: () => random.next(), newLogId: newId },
      policyOf: (log: LogId) => new Policies(this.policy, this.own).of(log),
    });
    this.deps = deployment;
    this.client = new LogClient({ ...deployment, store: unarchived(tables), parseLog: textLogId });
  }

  /** Appends an edit. */
  async edit(log: LogId, edit: SheetEdit): Promise<Position> {
    return (await this.client.addEntry(log, { type: edit.type, version: 1, body: sheetBody(edit) })).position;
  }

  /** Appends a Snapshot entry without completing it. */
  async snapshot(log: LogId): Promise<Position> {
    return (await this.client.addSnapshot(log)).position;
  }

  /** Starts a segment without completing its snapshot. */
  async segment(log: LogId): Promise<Position> {
    return (await this.client.startSegment(log)).position;
  }

  async complete(log: LogId, position: Position, deps: Partial<SnapshotDeps> = {}): Promise<void> {
    await completeSnapshot({ ...this.deps, ...deps }, { kind: 'snapshot', log, position });
  }

  /**
   * Creates a log with a complete first snapshot and some more segments. Each segment is covered by
   * the next one.
   */
  async atRest(segments = 1): Promise<LogId> {
    const log = await this.client.createLog();
    await this.complete(log, { segment: 0, entry: 0 });
    for (let segment = 1; segment < segments; segment++) {
      await this.edit(log, { type: 'Set', cells: [[segment, 0, `in segment ${segment}`]] });
      await this.complete(log, await this.segment(log));
    }
    return log;
  }

  /** Sweeps, and returns the sent jobs without running them. */
  async sweep(options: SweepOptions = {}, deps: Partial<SweepDeps> = {}): Promise<SweepFindings> {
    const sent: Job[] = [];
    const why: string[] = [];
    const failures: { log: LogId | undefined; error: LogfoldError }[] = [];
    const send = async (job: Job, reason: string): Promise<void> => {
      sent.push(job);
      why.push(reason);
    };
    const onFailure = (log: LogId | undefined, error: LogfoldError): void => void failures.push({ log, error });
    const result = await sweep({ ...this.deps, send, onFailure, ...deps }, options);
    return { ...result, sent, why, failures };
  }

  /** Runs jobs, each with the jobs that follow from it, and returns their results. */
  async run(...jobs: readonly Job[]): Promise<JobResult[]> {
    return this.runWith(this.deps, jobs);
  }

  /** Runs jobs with other adapters. */
  async runWith(deps: Omit<JobDeps, 'queue'>, jobs: readonly Job[]): Promise<JobResult[]> {
    const results: JobResult[] = [];
    const runner = new JobRunner(deps, (_, result) => results.push(result));
    for (const job of jobs) await runner.run(job);
    for (const job of runner.takeCollections()) await runner.run(job);
    return results;
  }

  /**
   * Sweeps and runs the sent jobs until a sweep sends none. Returns the number of sweeps that sent
   * jobs.
   */
  async sweepToRest(options: SweepOptions = {}): Promise<number> {
    for (let sweeps = 0; sweeps < 10; sweeps++) {
      const { sent, failures } = await this.sweep(options);
      for (const { error } of failures) throw error;
      if (sent.length === 0) return sweeps;
      await this.run(...sent);
    }
    throw new Error('sweeps send jobs after 10 rounds');
  }

  /** Everything that the adapters hold, for comparison. */
  async contents(): Promise<unknown> {
    const segments = await Array.fromAsync(this.tables.allSegments());
    const entries = await Promise.all(
      segments.map(({ log, segment }) => Array.fromAsync(this.tables.items(log, { segment, from: 0, to: 1e9 }))),
    );
    const objects = await Array.fromAsync(this.blobs.list(''));
    return { segments, entries, objects };
  }
}
