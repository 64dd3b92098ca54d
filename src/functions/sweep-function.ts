import * as z from 'zod';
import { UsageError } from '../errors.ts';
import type { ReservedTypes } from '../log/entry.ts';
import { parseLogId } from '../log/log-id.ts';
import type { LogStore } from '../log/log-store.ts';
import type { RetentionPolicy } from '../snapshot/retention.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { encodeJob } from '../workers/job.ts';
import type { JobSender } from '../workers/job-queues.ts';
import { readPolicies } from '../workers/policies.ts';
import { sweepDeduplicationId } from '../workers/run-job.ts';
import { type SweepOptions, type SweepResult, sweep } from '../workers/sweep.ts';
import { readSweepNote, sweepRestSchema, writeSweepNote } from '../workers/sweep-note.ts';
import type { Invocation, SweepEvent } from './function-event.ts';

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
  readonly queue: JobSender;
  readonly types?: ReservedTypes | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The policy of every log that has none of its own. */
  readonly policy: RetentionPolicy;
  readonly report: (event: SweepEvent) => void;
}

/**
 * The function that sweeps. Invoked without settings (`{}`), as the schedule does, it looks at all logs; what it has
 * no time for it notes in the bucket, and the next such run goes on from there. A person may give `log`, `since` (a
 * date), `rebuild`, `collect` (as the command's options); then `rest` in the answer says what is left, and is given
 * back as `from`.
 * @throws UsageError from the function where the event has other settings
 */
export function sweepFunction(
  deps: SweepFunctionDeps,
): (event: unknown, invocation: Invocation) => Promise<SweepResult> {
  return async (event, invocation) => {
    const { awsRequestId: run } = invocation;
    const started = performance.now();
    const deadline = deps.now() + invocation.getRemainingTimeInMillis() - MARGIN_MS;
    const { blobs, report } = deps;
    const asked = parseEvent(event);
    const byHand = Object.values(asked).some((setting) => setting !== undefined);
    const noted = byHand ? undefined : await readSweepNote(blobs);
    const policies = await readPolicies(blobs, deps.policy);
    const result = await sweep(
      {
        ...deps,
        policyOf: (log) => policies.of(log),
        send: async (job, why) => {
          await deps.queue.send({
            group: job.log,
            deduplicationId: sweepDeduplicationId(run, job),
            body: encodeJob(job),
          });
          report({ kind: 'due', run, job, why });
        },
        onFailure: (log, error) => report({ kind: 'unswept', run, log, error }),
      },
      { ...asked, ...(byHand ? {} : { from: noted, youngSeconds: YOUNG_SECONDS }), deadline },
    );
    if (!byHand && (noted !== undefined || result.rest !== undefined)) await writeSweepNote(blobs, result.rest);
    const oldestSeconds = Math.max(0, deps.now() / 1000 - (result.oldest ?? Number.POSITIVE_INFINITY));
    // A run that only had to look for what is left over says nothing of the logs.
    const tells = !byHand && (noted === undefined || result.logs > 0);
    const ms = performance.now() - started;
    report({ kind: 'swept', run, result, ms, oldestSeconds: tells ? oldestSeconds : undefined });
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
