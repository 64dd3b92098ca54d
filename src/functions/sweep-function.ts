import * as z from 'zod';
import { UsageError } from '../errors.ts';
import { parseLogId } from '../ids/log-id.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { LogStore } from '../log/log-store.ts';
import { readPolicies } from '../retention/policies.ts';
import type { RetentionPolicy } from '../retention/retention-policy.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { JobQueue } from '../store/job-queue.ts';
import { sweepDeduplicationId } from '../workers/dispatch/run-job.ts';
import { encodeJob, type Job } from '../workers/jobs/job.ts';
import { jobQueues, type QueueName } from '../workers/jobs/job-queues.ts';
import { type SweepDeps, type SweepOptions, type SweepRest, type SweepResult, sweep } from '../workers/sweep/sweep.ts';
import { readSweepNote, sweepRestSchema, writeSweepNote } from '../workers/sweep/sweep-note.ts';
import type { Invocation, SweepEvent } from './function-event.ts';
import { RequestedJobs } from './requested-jobs.ts';

/** What is left of the function's time when parts begin to end: for the logs that they are at, and the note. */
const MARGIN_MS = 60_000;

/** Snapshot entries younger than this, in seconds, are the stream's: their jobs wait in the queue, or are being done. */
const YOUNG_SECONDS = 900;

/** A day, which begins at midnight UTC, or a time with its zone, as epoch seconds. */
export const sinceSchema = z.iso
  .datetime({ offset: true })
  .or(z.iso.date())
  .transform((date) => Math.floor(Date.parse(date) / 1000));

const schema = z.strictObject({
  log: z.uuid().transform(parseLogId).optional(),
  since: sinceSchema.optional(),
  rebuild: z.boolean().optional(),
  collect: z.boolean().optional(),
  from: sweepRestSchema.optional(),
});

export interface SweepFunctionDeps {
  readonly tables: LogStore;
  readonly blobs: BlobStore;
  readonly queues: Readonly<Record<QueueName, Pick<JobQueue, 'send' | 'depth'>>>;
  readonly types?: ReservedTypes | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The policy of every log that has none of its own. */
  readonly policy: RetentionPolicy;
  readonly report: (event: SweepEvent) => void;
}

/**
 * The function that sweeps. Invoked without settings (`{}`), as the schedule does, it looks at all logs. It notes in the
 * bucket which logs it had no time for, and the next such run goes on from there; and which jobs it sent, so that the next
 * runs do not send them again while they wait. A person may give `log`, `since` (a date), `rebuild`, `collect` (as the
 * command's options): such a run sends all that it finds, `rest` in its answer says what is left, and is given back as
 * `from`.
 * @throws UsageError from the function where the event has other settings
 */
export function sweepFunction(
  deps: SweepFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<SweepResult> {
  return async (event, invocation) => {
    const { awsRequestId: run } = invocation;
    const started = performance.now();
    const deadline = deps.now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
    const { blobs, queues, report } = deps;
    const options = parseEvent(event);
    const byHand = Object.values(options).some((setting) => setting !== undefined);
    const policies = await readPolicies(blobs, deps.policy);
    const queue = jobQueues(queues);
    const sendAnd = (noteSent: (job: Job) => void) => async (job: Job, why: string) => {
      await queue.send({ group: job.log, deduplicationId: sweepDeduplicationId(run, job), body: encodeJob(job) });
      noteSent(job);
      report({ kind: 'due', run, job, why });
    };
    const sweepDeps: Omit<SweepDeps, 'send'> = {
      ...deps,
      policyOf: (log) => policies.of(log),
      onFailure: (log, error) => report({ kind: 'unswept', run, log, error }),
    };
    if (byHand) {
      const result = await sweep({ ...sweepDeps, send: sendAnd(() => {}) }, { ...options, deadline });
      report({ kind: 'swept', run, result, ms: performance.now() - started, ages: undefined });
      return result;
    }
    const noted = await readSweepNote(blobs);
    const asked = new RequestedJobs({
      noted: noted?.asked ?? [],
      depths: { snapshot: await queues.snapshot.depth(), maintenance: await queues.maintenance.depth() },
      nowMs: deps.now(),
    });
    const leaveNote = async (rest: SweepRest | undefined, complete: boolean): Promise<void> => {
      await writeSweepNote(blobs, noted, { rest, asked: asked.note(complete) });
    };
    let result: SweepResult;
    try {
      result = await sweep(
        { ...sweepDeps, send: sendAnd((job) => asked.add(job)), holdsBack: (job) => asked.holdsBack(job) },
        { from: noted?.rest, youngSeconds: YOUNG_SECONDS, deadline },
      );
    } catch (error) {
      // The next run begins where this one began: it must know what was sent.
      await leaveNote(noted?.rest, false);
      throw error;
    }
    await leaveNote(result.rest, noted?.rest === undefined && result.rest === undefined);
    const ageOf = (time = Number.POSITIVE_INFINITY) => Math.max(0, deps.now() / 1000 - time);
    // A run that only had to look for leftovers does not know how old the rest is.
    const tells = noted?.rest === undefined || result.logs > 0;
    const ages = { unsnapshottedSeconds: ageOf(result.oldest), dueSeconds: ageOf(result.oldestDue) };
    report({ kind: 'swept', run, result, ms: performance.now() - started, ages: tells ? ages : undefined });
    return result;
  };
}

function parseEvent(event: unknown): SweepOptions {
  const parsed = schema.safeParse(event ?? {});
  if (parsed.success) return parsed.data;
  throw new UsageError(`the sweep does not understand its event: ${z.prettifyError(parsed.error)}`, {
    advice: 'Give {} or some of log, since, rebuild, collect and from',
  });
}
