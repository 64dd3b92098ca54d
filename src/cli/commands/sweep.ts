import { Option } from '@commander-js/extra-typings';
import { type LogfoldError, printable, ReducerForeignError, UsageError } from '../../errors.ts';
import { sinceSchema } from '../../functions/sweep-function.ts';
import type { LogId } from '../../ids/log-id.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { readPolicies } from '../../retention/policies.ts';
import { logsByAge } from '../../workers/audit/status.ts';
import { describeJobResult, type JobResult, reportOf } from '../../workers/dispatch/run-job.ts';
import { SweepRunner } from '../../workers/dispatch/sweep-runner.ts';
import { describeJob, type Job } from '../../workers/jobs/job.ts';
import { count } from '../../workers/jobs/report.ts';
import { RateLimiter } from '../../workers/retention/rate-limiter.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { parseTypedLog } from '../mapping.ts';
import { pastable } from '../next-step.ts';
import type { Output } from '../output.ts';
import type { Place } from '../place.ts';
import { dividingCommand, divisionFrom, noteRecordedSizes, POLICY_HELP, policyChanges } from '../policy-options.ts';
import { skippedText } from '../reducer.ts';
import { capacityShareOption, policyEverywhere, rateLimiterOf, requireTtl, warnOfShortGrace } from '../retention.ts';

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
        const feed = dryRun ? undefined : environment.feed;
        const summary = new Summary(output, { dryRun, hasFeed: feed !== undefined, only: log });
        const runner = new SweepRunner({
          ...environment.deps,
          scheduler: environment.mapped?.registrar,
          otherReducer: environment.otherReducer,
          rateLimiter: await rateLimiterOf(environment, options.capacityShare),
          policyOf: (of) => policies.of(of),
          division,
          replaceForeign,
          feed,
          dryRun,
          onDue: (job, why) => summary.due(job, why),
          onResult: (job, result) => summary.done(job, result),
          onFed: (spans) => summary.fed(spans),
          onFailure: (id, error) => summary.failed(id, error),
          onLogs: summary.onLogs,
        });
        try {
          if (options.rate !== undefined) {
            const logRate = new RateLimiter({ perSecond: options.rate / 60 });
            for (const one of await logsByAge(environment.deps.tables, (error) => summary.failed(undefined, error))) {
              await logRate.take(1);
              await runner.run({ log: one, since, gcCandidates: false });
              summary.endOfLogs();
            }
          } else {
            await runner.run({ log, since, rebuild });
            if (options.collect) await runner.run({ log, collect: true });
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

class Summary {
  readonly #output: Output;
  readonly #dryRun: boolean;
  readonly #hasFeed: boolean;
  /** The log that somebody asked for. */
  readonly #only: LogId | undefined;
  /** Logs that were left to another reducer. */
  readonly #skipped = new Map<LogId, ReducerForeignError>();
  #spans = 0;
  readonly #jobs: { readonly job: Job; readonly why: string; outcome?: string; text?: string | undefined }[] = [];
  readonly #failures: { readonly log: LogId | null; readonly code: string; readonly message: string }[] = [];
  #logs = 0;
  /** Logs of earlier sweeps of this command. */
  #before = 0;
  readonly #progress: ReturnType<Output['progress']>;

  constructor(
    output: Output,
    {
      dryRun,
      hasFeed,
      only,
    }: { readonly dryRun: boolean; readonly hasFeed: boolean; readonly only: LogId | undefined },
  ) {
    this.#output = output;
    this.#dryRun = dryRun;
    this.#hasFeed = hasFeed;
    this.#only = only;
    this.#progress = output.progress('Logs');
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
    this.#progress.update(this.#logs, `${count(this.#jobs.length, 'job')} ${this.#dryRun ? 'to do' : 'done'}`);
  }

  /** Ends the sweep of some logs. The next sweep checks other logs. */
  endOfLogs(): void {
    this.#before = this.#logs;
  }

  end(): void {
    this.#progress.stop();
  }

  /** Notes a due job. */
  due(job: Job, why: string): void {
    if (this.#dryRun) this.#jobs.push({ job, why });
    this.#show();
  }

  done(job: Job, result: JobResult): void {
    if (result.outcome === 'refused' && result.error instanceof ReducerForeignError) {
      if (this.#only === undefined) this.#skipped.set(job.log, result.error);
      else this.failed(job.log, result.error);
      return;
    }
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
    const skipped = Array.from(this.#skipped, ([log, { code, message }]) => ({ log, code, message }));
    const notices = Array.from(this.#skipped.values(), skippedText);
    const skips = skipped.length === 0 ? '' : `, ${skipped.length} skipped`;
    const summary = `${count(this.#logs, 'log')} checked, ${done}${fedText}, ${failures.length} failed${skips}`;
    const document = { logs: this.#logs, dryRun: this.#dryRun, jobs, ...fed, skipped, failures: this.#failures };
    this.#output.result(document, pastable([...lines, ...notices, ...failures, summary].join('\n')));
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
