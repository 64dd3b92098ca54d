import { Option } from '@commander-js/extra-typings';
import { LogfoldError, printable, UsageError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import { sinceSchema } from '../../functions/sweep-function.ts';
import type { LogId } from '../../ids/log-id.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { readPolicies } from '../../retention/policies.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { JobRunner } from '../../workers/dispatch/job-runner.ts';
import { describeJobResult, type JobResult, reportOf } from '../../workers/dispatch/run-job.ts';
import { dividedFeed } from '../../workers/feed/divided-feed.ts';
import { logsByAge } from '../../workers/inspect/status.ts';
import type { Job } from '../../workers/jobs/job.ts';
import { describeJob } from '../../workers/jobs/job.ts';
import { count } from '../../workers/jobs/report.ts';
import { RateLimiter } from '../../workers/retention/rate-limiter.ts';
import { SweptFeed } from '../../workers/sweep/feed-ends.ts';
import { type SweepOptions, sweep } from '../../workers/sweep/sweep.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { parseTypedLog } from '../mapping.ts';
import type { Output } from '../output.ts';
import type { Place } from '../place.ts';
import { dividingCommand, divisionFrom, noteRecordedSizes, POLICY_HELP, policyChanges } from '../policy-options.ts';
import { capacityShareOption, policyEverywhere, rateLimiterOf, requireTtl, warnOfShortGrace } from '../retention.ts';

/** A pass may make jobs due for the next pass: a snapshot, then an archive, then an expiry. */
const MAX_PASSES = 10;

export function sweepCommand() {
  return dividingCommand('sweep', 'Find and do what the stream missed and what is due, in all logs.')
    .option('--log <log>', 'only this log')
    .addOption(
      new Option(
        '--since <date>',
        'check every Snapshot entry of segments that were open at this time or later',
      ).argParser(parseDate),
    )
    .option('--rebuild', 'build every snapshot again from the entries of the log', false)
    .option('--rate <n>', 'check the logs one by one, the oldest first, at most N per minute', parse.count)
    .option('--collect', 'collect every log, not only gc candidates', false)
    .addOption(capacityShareOption())
    .option(
      '--replace-foreign',
      'replace roots, Last Snapshots and archive names that another program wrote; by default they are passed over',
      false,
    )
    .option('--dry-run', 'change nothing, and list what would be done', false)
    .addHelpText('after', POLICY_HELP)
    .addHelpText(
      'after',
      examples(
        'sweep --dry-run',
        'sweep --log budget',
        'sweep --snapshot-every-entries 200 --segment-every-entries 1000',
      ),
    )
    .action((options) => {
      const log = optionalLog(options);
      return inEnvironment({ ...options, createsFeed: !options.dryRun }, async (environment, output) => {
        const { rebuild, dryRun, since, replaceForeign } = options;
        if (rebuild && (options.collect || since !== undefined)) {
          throw new UsageError('--rebuild checks everything and excludes --since and --collect');
        }
        if (options.rate !== undefined && (rebuild || options.collect || log !== undefined)) {
          throw new UsageError('--rate excludes --log, --rebuild and --collect');
        }
        if (log !== undefined) await queryNewestSegments(environment.deps.store, log, { consistent: true });
        const everywhere = policyEverywhere(policyChanges(options));
        const division = divisionFrom(options);
        noteRecordedSizes(options, output);
        const policies = await readPolicies(environment.deps.blobs, everywhere, environment.deps.parseLog);
        if (everywhere.expire === 'ttl') await requireTtl(environment, output);
        const byTtl = (log === undefined ? policies.logs() : [log]).find((of) => policies.ownOf(of).expire === 'ttl');
        if (byTtl !== undefined) await requireTtl(environment, output, byTtl);
        if (!dryRun) warnOfShortGrace(everywhere, output);
        const policyOf = (of: LogId) => policies.of(of);
        const rateLimiter = await rateLimiterOf(environment, options.capacityShare);
        const { requireReducer } = environment;
        const feed = dryRun ? undefined : environment.feed;
        const summary = new Summary(output, { dryRun, hasFeed: feed !== undefined });
        const scheduler = environment.mapped?.registrar;
        const jobDeps = {
          ...environment.deps,
          scheduler,
          requireReducer,
          rateLimiter,
          policyOf,
          division,
          replaceForeign,
        };
        const runner = new JobRunner(jobDeps, (job, result) => summary.done(job, result));
        const pass = async (how: SweepOptions): Promise<boolean> => {
          let changed = false;
          summary.begin();
          const send = async (job: Job, why: string): Promise<void> => {
            if (!summary.isNew(job, why)) return;
            if (dryRun) return noteExpiry(job, policyOf, summary);
            try {
              if (await runner.run(job)) changed = true;
            } catch (error) {
              if (!(error instanceof LogfoldError)) throw error;
              summary.failed(job.log, error);
            }
          };
          const { deps } = environment;
          // The next pass finds that the feed must be divided.
          const noteDivision = async (): Promise<void> => {
            changed = true;
          };
          const dividing = feed && dividedFeed(feed, { send: noteDivision });
          const swept =
            dividing &&
            new SweptFeed({
              feed: dividing,
              now: Date.now,
              hasStream: false,
              tables: environment.deps.tables,
              types: environment.deps.types,
              onAhead: (id, error) => summary.failed(id, error),
            });
          await sweep(
            {
              ...deps,
              policyOf,
              division,
              replaceForeign,
              send,
              onFailure: (id, error) => summary.failed(id, error),
              onProgress: summary.onLogs,
              ...(swept && { onEnd: swept.onEnd }),
            },
            how,
          );
          if (swept !== undefined) {
            try {
              summary.fed((await swept.finish()).spans);
            } catch (error) {
              if (!(error instanceof LogfoldError)) throw error;
              summary.failed(FEED_LOG, error);
            }
          }
          for (const job of runner.takeCollections()) await send(job, 'a segment was archived or expired');
          return changed;
        };
        const passes = async (how: SweepOptions): Promise<void> => {
          let again = await pass(how);
          for (let done = 1; again && how.rebuild !== true && done < MAX_PASSES; done++) again = await pass(how);
        };
        try {
          if (options.rate !== undefined) {
            const logRate = new RateLimiter({ perSecond: options.rate / 60 });
            for (const one of await logsByAge(environment.deps.tables, (error) => summary.failed(undefined, error))) {
              await logRate.take(1);
              await passes({ log: one, since, gcCandidates: false });
              summary.endOfLogs();
            }
          } else {
            await passes({ log, since, rebuild });
            if (options.collect) await pass({ log, collect: true });
          }
        } finally {
          summary.end();
        }
        summary.report();
      });
    });
}

/** The option `--log`. It may come before `--mapping`, so it is parsed after all options. */
function optionalLog({ log, mapping }: Pick<Place, 'mapping'> & { readonly log?: string }): LogId | undefined {
  try {
    return log === undefined ? undefined : parseTypedLog(mapping, log);
  } catch (error) {
    if (error instanceof UsageError) error.message = `--log: ${error.message}`;
    throw error;
  }
}

/**
 * Notes the expiry that follows an archive: a dry run archives nothing, so no later pass finds it.
 */
function noteExpiry(job: Job, policyOf: (log: LogId) => RetentionPolicy, summary: Summary): void {
  if (job.kind !== 'archive' || policyOf(job.log).expire === 'never') return;
  summary.isNew({ ...job, kind: 'expire' }, 'the retention policy expires the segment after its archive');
}

class Summary {
  readonly #output: Output;
  readonly #dryRun: boolean;
  readonly #hasFeed: boolean;
  #spans = 0;
  readonly #jobs: { readonly job: Job; readonly why: string; outcome?: string; text?: string | undefined }[] = [];
  readonly #failures: { readonly log: LogId | null; readonly code: string; readonly message: string }[] = [];
  #seen = new Set<string>();
  #logs = 0;
  /** Logs of earlier sweeps of this command. */
  #before = 0;
  #progress: ReturnType<Output['progress']> | undefined;

  constructor(output: Output, { dryRun, hasFeed }: { readonly dryRun: boolean; readonly hasFeed: boolean }) {
    this.#output = output;
    this.#dryRun = dryRun;
    this.#hasFeed = hasFeed;
  }

  /** Counts spans that the feed did not have. */
  fed(spans: number): void {
    this.#spans += spans;
  }

  readonly onLogs = (logs: number): void => {
    this.#logs = Math.max(this.#logs, this.#before + logs);
    this.#show();
  };

  #show(): void {
    this.#progress?.update(this.#logs, `${count(this.#jobs.length, 'job')} ${this.#dryRun ? 'to do' : 'done'}`);
  }

  /** Ends the sweep of some logs. The next sweep checks other logs. */
  endOfLogs(): void {
    this.#before = this.#logs;
  }

  begin(): void {
    // A dry run does no job, so a job that is due again is the same job.
    if (!this.#dryRun) this.#seen = new Set();
    this.#progress ??= this.#output.progress('Logs');
  }

  end(): void {
    this.#progress?.stop();
  }

  /** Notes a requested job. @returns false for a job of this pass, or in a dry run of any pass */
  isNew(job: Job, why: string): boolean {
    const text = describeJob(job);
    if (this.#seen.has(text)) return false;
    this.#seen.add(text);
    if (this.#dryRun) this.#jobs.push({ job, why });
    this.#show();
    return true;
  }

  done(job: Job, result: JobResult): void {
    const text = describeJobResult(job, result);
    this.#jobs.push({ job, why: '', outcome: result.outcome, text });
    this.#show();
    const { failure } = reportOf(job, result);
    if (failure !== undefined) this.#failures.push({ log: job.log, code: failure.code, message: failure.message });
  }

  /** Notes a failure once, although each pass meets it again. */
  failed(log: LogId | undefined, { code, message }: LogfoldError): void {
    if (this.#failures.some((known) => known.log === (log ?? null) && known.message === message)) return;
    this.#failures.push({ log: log ?? null, code, message });
  }

  report(): void {
    const jobs = this.#jobs.map(({ job, why, outcome }) => ({ ...job, ...(this.#dryRun ? { why } : { outcome }) }));
    const lines = this.#jobs.flatMap(({ job, why, text }) => {
      if (this.#dryRun) return [`would do: ${describeJob(job)}, because ${why}`];
      return text === undefined ? [] : [text];
    });
    const failures = this.#failures.map(
      ({ log, code, message }) => `FAILED ${log === null ? 'a segment' : printable(log)}: ${code}: ${message}`,
    );
    const done = `${count(jobs.length, 'job')} ${this.#dryRun ? 'to do' : 'done'}`;
    const fed = this.#hasFeed && { spans: this.#spans };
    const fedText = fed ? `, ${count(this.#spans, 'span')} fed` : '';
    const summary = `${count(this.#logs, 'log')} checked, ${done}${fedText}, ${failures.length} failed`;
    const document = { logs: this.#logs, dryRun: this.#dryRun, jobs, ...fed, failures: this.#failures };
    this.#output.result(document, [...lines, ...failures, summary].join('\n'));
    if (failures.length > 0) process.exitCode = 1;
  }
}

/** @throws UsageError */
function parseDate(text: string): number {
  const parsed = sinceSchema.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new UsageError(`'${text}' is not a date`, {
    advice: 'Write a date such as 2026-01-31 or 2026-01-31T12:00:00Z',
  });
}
