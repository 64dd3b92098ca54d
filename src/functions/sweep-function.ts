import * as z from 'zod';
import { type LogfoldError, UsageError } from '../errors.ts';
import { type ParseLog, parseLogId } from '../ids/log-id.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { TableReader } from '../log/log-store.ts';
import { readPolicies } from '../retention/policies.ts';
import type { RetentionPolicy } from '../retention/retention-policy.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { JobQueue } from '../store/job-queue.ts';
import { logIdSchema } from '../store/log-id-schema.ts';
import { type AdoptDeps, type AdoptOptions, type AdoptResult, adoptLogs } from '../workers/adopt/adopt-logs.ts';
import type { FeedWriter } from '../workers/feed/feed-writer.ts';
import { type Job, jobMessage, jobQueues, type QueueName, sweepDeduplicationId } from '../workers/jobs/job.ts';
import { SweptFeed } from '../workers/sweep/feed-ends.ts';
import { type SweepDeps, type SweepOptions, type SweepResult, sweep } from '../workers/sweep/sweep.ts';
import {
  RequestedJobs,
  readSweepNote,
  type SweepRest,
  sweepRestSchema,
  writeSweepNote,
} from '../workers/sweep/sweep-note.ts';
import type { SweepEvent } from './function-event.ts';
import { deadlineOf, type Invocation, parseEvent } from './invocation.ts';

/**
 * Snapshot entries younger than this, in seconds, are left to the stream: their jobs are queued or
 * running.
 */
const YOUNG_SECONDS = 900;

/** A date (its midnight in UTC) or a time with its zone, as epoch seconds. */
export const sinceSchema = z.iso
  .datetime({ offset: true })
  .or(z.iso.date())
  .transform((date) => Math.floor(Date.parse(date) / 1000));

const settings = {
  adopt: z.literal(true).optional(),
  since: sinceSchema.optional(),
  rebuild: z.boolean().optional(),
  collect: z.boolean().optional(),
  from: sweepRestSchema.optional(),
};

const SWEEP_EVENT = {
  name: 'sweep',
  advice: 'Give {}, {"adopt": true}, or some of log, since, rebuild, collect and from',
};

export interface SweepFunctionDeps {
  readonly tables: TableReader;
  readonly blobs: BlobStore;
  readonly queues: Readonly<Record<QueueName, Pick<JobQueue, 'send' | 'depth'>>>;
  readonly types: ReservedTypes;
  /** Reads the id of a log in an event; {@link parseLogId} by default. */
  readonly parseLog?: ParseLog | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The policy of logs without their own policy. */
  readonly policy: RetentionPolicy;
  /** {@link NO_DIVISION} by default. */
  readonly division?: DivisionPolicy | undefined;
  /**
   * Whether a stream brings new entries, so that a sweep leaves young ones to it; true by default.
   */
  readonly hasTrigger?: boolean | undefined;
  /** Rejects if that stream does not bring them any more; by default nobody looks. */
  readonly checkStream?: (() => Promise<void>) | undefined;
  /**
   * Receives the ends of logs that the stream did not feed; the tables must have the feed too.
   * Undefined if there is no feed.
   */
  readonly feed?: Pick<FeedWriter, 'add'> | undefined;
  /** Tells consumers where the feed ends; by default nobody is told. */
  readonly publish?: ((checkpoint: number) => Promise<void>) | undefined;
  /** The application's table; undefined if logs are in logfold's own schema. */
  readonly adopt?: (Pick<AdoptDeps, 'items' | 'register' | 'onPage'> & Pick<AdoptOptions, 'source'>) | undefined;
  readonly report: (event: SweepEvent) => void;
}

/**
 * Makes the function that sweeps. The schedule invokes it without settings (`{}`) to look at all
 * logs. It leaves a note in the bucket for the next such run. The note has the logs that it had no
 * time for, and the jobs that it sent. The next run does not send these jobs again while they wait.
 *
 * Such a run also reports a stream that does not bring new entries any more.
 *
 * An operator may give `log`, `since` (a date), `rebuild` and `collect`, the options of the
 * command. Such a run sends every job that it finds. If its time is up, its answer has `rest`; give
 * this back as `from` to continue.
 *
 * With a feed, the function feeds the ends that it finds, and publishes once. If this fails, the
 * next run finds them again.
 *
 * With `adopt`, the function registers the logs that are already in the application's table, as far
 * as its time goes; the next such run continues.
 * @throws UsageError from the function if the event has other settings
 */
export function sweepFunction(
  deps: SweepFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<SweepResult | AdoptResult> {
  const schema = z.strictObject({ log: logIdSchema(deps.parseLog ?? parseLogId).optional(), ...settings });
  return async (event, invocation) => {
    const { awsRequestId: run } = invocation;
    const started = performance.now();
    const deadline = deadlineOf(invocation, deps);
    const { blobs, queues, hasTrigger = true, report } = deps;
    const { adopt, ...options } = parseEvent(schema, event ?? {}, SWEEP_EVENT);
    if (adopt === true) return adoptFor(deps, options, { run, deadline });
    const isManual = Object.values(options).some((setting) => setting !== undefined);
    const policies = await readPolicies(blobs, deps.policy, deps.parseLog);
    const queue = jobQueues(queues);
    const sender = (onSent: (job: Job) => void) => async (job: Job, why: string) => {
      await queue.send(jobMessage(job, sweepDeduplicationId(run, job)));
      onSent(job);
      report({ kind: 'due', run, job, why });
    };
    const hasStream = hasTrigger && !isManual;
    const swept =
      deps.feed &&
      new SweptFeed({
        ...deps,
        feed: deps.feed,
        hasStream,
        onAhead: (log, error) => report({ kind: 'ahead', run, log, error }),
      });
    const sweepDeps: Omit<SweepDeps, 'send'> = {
      ...deps,
      ...(swept && { onEnd: swept.onEnd }),
      policyOf: (log) => policies.of(log),
      onFailure: (log, error) => report({ kind: 'unswept', run, log, error }),
    };
    if (isManual) {
      const result = await sweep({ ...sweepDeps, send: sender(() => {}) }, { ...options, deadline });
      const feedAhead = await finishFeed(deps, swept, run);
      const ms = performance.now() - started;
      report({ kind: 'swept', run, result: { ...result, feedAhead }, ms, ages: undefined });
      return result;
    }
    const unusableStreams = await countUnusableStreams(deps, run);
    const noted = await readSweepNote(blobs);
    const requested = new RequestedJobs({
      noted: noted?.requested ?? [],
      depths: { snapshot: await queues.snapshot.depth(), maintenance: await queues.maintenance.depth() },
      nowMs: deps.now(),
    });
    const leaveNote = async (rest: SweepRest | undefined, complete: boolean): Promise<void> => {
      await writeSweepNote(blobs, noted, { rest, requested: requested.note(complete) });
    };
    let result: SweepResult;
    let feedAhead: number | undefined;
    try {
      result = await sweep(
        { ...sweepDeps, send: sender((job) => requested.add(job)), holdsBack: (job) => requested.holdsBack(job) },
        { from: noted?.rest, youngSeconds: hasTrigger ? YOUNG_SECONDS : 0, deadline },
      );
    } catch (error) {
      // The next run starts where this one started, and must know what this one sent.
      await leaveNote(noted?.rest, false);
      throw error;
    } finally {
      feedAhead = await finishFeed(deps, swept, run);
    }
    result = { ...result, feedAhead };
    await leaveNote(result.rest, noted?.rest === undefined && result.rest === undefined);
    const ageOf = (time = Number.POSITIVE_INFINITY) => Math.max(0, deps.now() / 1000 - time);
    // A run that only looked for gc candidates does not know these ages.
    const knowsAges = noted?.rest === undefined || result.logs > 0;
    const ages = { unsnapshottedSeconds: ageOf(result.oldest), dueSeconds: ageOf(result.oldestDue) };
    const ms = performance.now() - started;
    report({ kind: 'swept', run, result, ms, ages: knowsAges ? ages : undefined, unusableStreams });
    return result;
  };
}

/** @returns undefined if nobody looks */
async function countUnusableStreams({ checkStream, report }: SweepFunctionDeps, run: string) {
  if (checkStream === undefined) return undefined;
  try {
    await checkStream();
    return 0;
  } catch (error) {
    // The sweep finds what the stream does not bring.
    report({ kind: 'unusable stream', run, error });
    return 1;
  }
}

/** @returns `SweepResult.feedAhead` */
async function finishFeed(
  { publish, report }: SweepFunctionDeps,
  swept: SweptFeed | undefined,
  run: string,
): Promise<number | undefined> {
  if (swept === undefined) return undefined;
  try {
    const { spans, missed, ahead, checkpoint } = await swept.finish();
    if (checkpoint === undefined) return ahead;
    await publish?.(checkpoint);
    report({ kind: 'fed', run, spans, missed, checkpoint });
    return ahead;
  } catch (error) {
    report({ kind: 'unfed', run, error });
    return undefined;
  }
}

async function adoptFor(
  { adopt, blobs, now, report }: SweepFunctionDeps,
  options: SweepOptions,
  { run, deadline }: { readonly run: string; readonly deadline: number },
): Promise<AdoptResult> {
  if (adopt === undefined) {
    throw new UsageError('the event says adopt, but this deployment has no mapping', {
      advice: 'Deploy with the parameter Mapping, or leave out adopt',
    });
  }
  if (Object.values(options).some((setting) => setting !== undefined)) {
    throw new UsageError('adopt excludes the other settings of the sweep function', {
      advice: 'Give {"adopt": true} alone',
    });
  }
  const started = performance.now();
  const onFailure = (error: LogfoldError): void => report({ kind: 'not adopted', run, error });
  const result = await adoptLogs({ ...adopt, blobs, now, onFailure }, { source: adopt.source, deadline });
  report({ kind: 'adopted', run, result, ms: performance.now() - started });
  return result;
}
