import { decodeJob, type Job } from '../workers/job.ts';
import { type JobDeps, type JobResult, runJob } from '../workers/run-job.ts';

/** Does jobs in this process, each with those that follow from it. */
export class JobRunner {
  readonly #deps: Omit<JobDeps, 'queue'>;
  readonly #onResult: (job: Job, result: JobResult) => void;

  constructor(deps: Omit<JobDeps, 'queue'>, onResult: (job: Job, result: JobResult) => void) {
    this.#deps = deps;
    this.#onResult = onResult;
  }

  /** @returns whether anything was changed */
  async run(job: Job): Promise<boolean> {
    const waiting = [job];
    const queue: JobDeps['queue'] = {
      send: async ({ body }) => {
        waiting.push(decodeJob(body));
      },
    };
    let changed = false;
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await runJob({ ...this.#deps, queue }, next);
      changed ||= CHANGES.has(result.outcome);
      this.#onResult(next, result);
    }
    return changed;
  }
}

/** After these, more may be due than before. */
const CHANGES: ReadonlySet<JobResult['outcome']> = new Set(['built', 'archived', 'expired', 'rebuilt']);
