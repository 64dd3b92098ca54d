import { LogfoldError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import type { LogId } from '../../ids/log-id.ts';
import { dividedFeed, type FeedWriter } from '../feed/feed-writer.ts';
import { decodeJob, describeJob, type Job } from '../jobs/job.ts';
import { SweptFeed } from '../sweep/feed-ends.ts';
import { type SweepDeps, type SweepOptions, sweep } from '../sweep/sweep.ts';
import { type JobDeps, type JobResult, reportOf, runJob } from './run-job.ts';

/** A pass may make jobs due for the next pass: a snapshot, then an archive, then an expiry. */
const MAX_PASSES = 10;

export interface SweepRunnerDeps
  extends Omit<JobDeps, 'queue' | 'policyOf'>,
    Omit<SweepDeps, 'send' | 'onEnd' | 'onProgress'> {
  readonly tables: JobDeps['tables'];
  /** Receives the ends of all logs; undefined if there is no feed. */
  readonly feed?: Pick<FeedWriter, 'add'> | undefined;
  /** Whether to run no job. */
  readonly dryRun: boolean;
  /** Called for each due job once per pass, before it runs, and once in a dry run. */
  readonly onDue: (job: Job, why: string) => void;
  readonly onResult: (job: Job, result: JobResult) => void;
  /** Called with the number of logs that a pass has looked at. */
  readonly onLogs: (logs: number) => void;
  /** Called after each pass with the number of spans that the feed did not have. */
  readonly onFed: (spans: number) => void;
}

/** Sweeps logs, and runs the due jobs in this process, pass by pass until no job is due. */
export class SweepRunner {
  readonly #deps: SweepRunnerDeps;
  readonly #jobs: JobRunner;
  /** The jobs of this pass; in a dry run those of all passes, because each is due again. */
  readonly #seen = new Set<string>();

  constructor(deps: SweepRunnerDeps) {
    this.#deps = deps;
    this.#jobs = new JobRunner(deps, deps.onResult);
  }

  /** Takes one pass if it rebuilds all snapshots, or collects all logs. */
  async run(options: SweepOptions): Promise<void> {
    const isOnePass = options.rebuild === true || options.collect === true;
    for (let pass = 1; (await this.#pass(options)) && !isOnePass && pass < MAX_PASSES; pass++);
  }

  /** @returns whether more jobs may be due than before */
  async #pass(options: SweepOptions): Promise<boolean> {
    const { dryRun, onFailure } = this.#deps;
    let changed = false;
    if (!dryRun) this.#seen.clear();
    const send = async (job: Job, why: string): Promise<void> => {
      try {
        if (this.#isNew(job, why) && !dryRun && (await this.#jobs.run(job))) changed = true;
      } catch (error) {
        if (!(error instanceof LogfoldError)) throw error;
        onFailure(job.log, error);
      }
    };
    // The next pass finds that the feed must be divided.
    const noteDivision = async (): Promise<void> => {
      changed = true;
    };
    const feed = this.#deps.feed && dividedFeed(this.#deps.feed, { send: noteDivision });
    const swept = feed && new SweptFeed({ ...this.#deps, feed, hasStream: false, onAhead: onFailure });
    await sweep({ ...this.#deps, send, onProgress: this.#deps.onLogs, ...(swept && { onEnd: swept.onEnd }) }, options);
    if (swept !== undefined) await this.#finish(swept);
    for (const job of this.#jobs.takeCollections()) await send(job, 'a segment was archived or expired');
    return changed;
  }

  #isNew(job: Job, why: string): boolean {
    const { dryRun, policyOf, onDue } = this.#deps;
    const name = describeJob(job);
    if (this.#seen.has(name)) return false;
    this.#seen.add(name);
    onDue(job, why);
    // A dry run archives nothing, so no later pass finds the expiry.
    if (dryRun && job.kind === 'archive' && policyOf(job.log).expire !== 'never') {
      this.#isNew({ ...job, kind: 'expire' }, 'the retention policy expires the segment after its archive');
    }
    return true;
  }

  async #finish(swept: SweptFeed): Promise<void> {
    try {
      this.#deps.onFed((await swept.finish()).spans);
    } catch (error) {
      if (!(error instanceof LogfoldError)) throw error;
      this.#deps.onFailure(FEED_LOG, error);
    }
  }
}

/**
 * Runs jobs in this process, each with the jobs that follow from it. Collections that follow are
 * postponed: a collection reads the whole log, so one collection per log serves many jobs.
 */
export class JobRunner {
  readonly #deps: Omit<JobDeps, 'queue'>;
  readonly #onResult: (job: Job, result: JobResult) => void;
  readonly #collections = new Map<LogId, Job>();

  constructor(deps: Omit<JobDeps, 'queue'>, onResult: (job: Job, result: JobResult) => void) {
    this.#deps = deps;
    this.#onResult = onResult;
  }

  /** @returns whether more jobs may be due now than before */
  async run(job: Job): Promise<boolean> {
    const pending = [job];
    const queue: JobDeps['queue'] = {
      send: async ({ body }) => {
        const next = decodeJob(body);
        if (next.kind === 'collect' && job.kind !== 'collect') this.#collections.set(next.log, next);
        else pending.push(next);
      },
    };
    if (job.kind === 'collect') this.#collections.delete(job.log);
    let changed = false;
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      const result = await runJob({ ...this.#deps, queue }, next);
      changed ||= reportOf(next, result).makesDue === true;
      this.#onResult(next, result);
    }
    return changed;
  }

  /** Takes the postponed collections, one per log. */
  takeCollections(): Job[] {
    const jobs = [...this.#collections.values()];
    this.#collections.clear();
    return jobs;
  }
}
