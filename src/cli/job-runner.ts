import type { LogId } from '../ids/log-id.ts';
import { type JobDeps, type JobResult, runJob } from '../workers/dispatch/run-job.ts';
import { decodeJob, type Job } from '../workers/jobs/job.ts';

/**
 * Does jobs in this process, each with those that follow from it. Collections that follow are put off, since a collection reads
 * all of a log: so one per log makes up for many jobs.
 */
export class JobRunner {
  readonly #deps: Omit<JobDeps, 'queue'>;
  readonly #onResult: (job: Job, result: JobResult) => void;
  readonly #collections = new Map<LogId, Job>();

  constructor(deps: Omit<JobDeps, 'queue'>, onResult: (job: Job, result: JobResult) => void) {
    this.#deps = deps;
    this.#onResult = onResult;
  }

  /** @returns whether anything was changed */
  async run(job: Job): Promise<boolean> {
    const waiting = [job];
    const queue: JobDeps['queue'] = {
      send: async ({ body }) => {
        const next = decodeJob(body);
        if (next.kind === 'collect' && job.kind !== 'collect') this.#collections.set(next.log, next);
        else waiting.push(next);
      },
    };
    if (job.kind === 'collect') this.#collections.delete(job.log);
    let changed = false;
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await runJob({ ...this.#deps, queue }, next);
      changed ||= CHANGES.has(result.outcome);
      this.#onResult(next, result);
    }
    return changed;
  }

  /** The collections that were put off and are to be done now, one for each log. */
  takeCollections(): Job[] {
    const jobs = [...this.#collections.values()];
    this.#collections.clear();
    return jobs;
  }
}

/** After these, more may be due than before. */
const CHANGES: ReadonlySet<JobResult['outcome']> = new Set(['built', 'archived', 'expired', 'rebuilt']);
