import type { LogId } from '../../ids/log-id.ts';
import { decodeJob, type Job } from '../jobs/job.ts';
import { type JobDeps, type JobResult, reportOf, runJob } from './run-job.ts';

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
