import { once } from 'node:events';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import { describeTable } from '../../adapters/dynamodb/table-settings.ts';
import { printable, ReducerForeignError, textOf, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { type PipelineEvent, type RecordedTable, runPipeline } from '../../local/pipeline.ts';
import { divides, REVISIONS_DIVISION } from '../../log/division-policy.ts';
import { segmentSizes } from '../../mapping/item-division.ts';
import { readPolicies } from '../../retention/policies.ts';
import { LOG_KINDS, type SourceTable } from '../../revisions/source-table.ts';
import { contains, type Stop } from '../../snapshot/stop.ts';
import { items } from '../../state/items/reducer.ts';
import type { ReceivedMessage } from '../../store/job-queue.ts';
import { describeJobResult } from '../../workers/dispatch/run-job.ts';
import { decodeJob, describeJob } from '../../workers/jobs/job.ts';
import { count, countEntries, formatBytes } from '../../workers/jobs/report.ts';
import { RevisionLogs, recordedKind } from '../../workers/revisions/revision-logs.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import type { Environment } from '../environment.ts';
import { pastable } from '../next-step.ts';
import { Output } from '../output.ts';
import { openDynamoDb, type Place } from '../place.ts';
import { dividingCommand, divisionFrom, noteRecordedSizes, POLICY_HELP, policyChanges } from '../policy-options.ts';
import { skippedText } from '../reducer.ts';
import { policyEverywhere } from '../retention.ts';
import { endAfterSignal, interrupted, untilInterrupted } from '../signals.ts';
import { outputFailed } from '../write.ts';

export function workCommand() {
  return dividingCommand('work', 'Run the pipeline until interrupted: read the stream, build snapshots.')
    .option('--until-idle', 'end when nothing is left to do; exit code 1 if something failed', false)
    .option('--concurrency <n>', 'logs to work on at the same time, at most 1000', parse.concurrency, 2)
    .option('--revisions-of <table>', 'also record the changes of this plain table, which has a stream of both images')
    .addOption(
      new Option(
        '--per <what>',
        'with --revisions-of: whether an item or a partition key has a log; default: as before, or item',
      ).choices(LOG_KINDS),
    )
    .option('--actor <attribute>', 'with --revisions-of: the attribute that names who changed an item')
    .addHelpText('after', POLICY_HELP)
    .addHelpText(
      'after',
      examples(
        'work --local data',
        'work --until-idle --json',
        'work --local data --revisions-of customers --actor by',
      ),
    )
    .action((options) => {
      const { revisionsOf, per, actor, mapping } = options;
      if (revisionsOf === undefined && (per ?? actor) !== undefined) {
        throw new UsageError('--per and --actor need --revisions-of TABLE');
      }
      if (revisionsOf !== undefined && mapping !== undefined) {
        throw new UsageError('--revisions-of and --mapping exclude each other', { advice: 'Leave out --mapping' });
      }
      // All logs of a deployment have one reducer.
      const reducer = revisionsOf !== undefined && options.reducer === undefined && { reducer: items.name };
      return inEnvironment(
        { ...options, ...reducer, creates: true, endsItself: true },
        async (environment, output, stop) => {
          const { deps, feed, mapped } = environment;
          const policy = policyEverywhere(policyChanges(options));
          const given = divisionFrom(options);
          noteRecordedSizes(options, output);
          const division = revisionsOf !== undefined && !divides(given) ? REVISIONS_DIVISION : given;
          const revisions = revisionsOf && (await recordedTable(environment, { ...options, revisionsOf }));
          const summary = new Summary(output, { hasFeed: feed !== undefined, hasRevisions: revisionsOf !== undefined });
          const noReducer = new AbortController();
          const streamArn = await untilInterrupted(() => environment.streamArn());
          output.note('Working. Interrupt to stop.');
          await runPipeline({
            streams: environment.streams,
            streamArn,
            checkpoints: environment.checkpoints(streamArn),
            jobs: {
              ...environment.deps,
              scheduler: mapped?.registrar,
              otherReducer: environment.otherReducer,
              division,
              policyOf: async (log) => (await readPolicies(deps.blobs, policy, deps.parseLog)).of(log),
            },
            mapping,
            feed,
            endAt: mapped && ((log, index) => mapped.registrar.endAt(log, index, segmentSizes(division))),
            ...(revisions && { revisions }),
            concurrency: options.concurrency,
            untilIdle: options.untilIdle,
            signal: AbortSignal.any([stop, environment.lost, noReducer.signal]),
            onEvent: (event) => {
              // Neither a second try nor another log can help: no log has a reducer.
              if (event.kind === 'failed' && event.error instanceof ReducerForeignError)
                return noReducer.abort(event.error);
              summary.count(event);
            },
            keepDead: async ({ body }) => {
              if (options.local !== undefined) await keepDeadLetter(options.local, body);
            },
          });
          environment.lost.throwIfAborted();
          noReducer.signal.throwIfAborted();
          summary.finish();
          endAfterSignal(stop);
        },
      );
    });
}

/** @throws OutputFailedError if the file cannot be written */
async function keepDeadLetter(directory: string, body: string): Promise<void> {
  const file = join(directory, 'dead-letters.ndjson');
  await appendFile(file, `${body}\n`).catch((cause: unknown) => {
    throw outputFailed(`'${file}'`, cause);
  });
}

/** The job of a message in words, or the message itself if it is not a job. */
function nameOf({ body }: ReceivedMessage): string {
  try {
    return describeJob(decodeJob(body));
  } catch {
    return `the message ${printable(body)}`;
  }
}

/** The kind of an error. Its text may have a time or the name of a temporary file. */
function kindOf(error: unknown): string {
  if (error instanceof Error) return 'code' in error ? String(error.code) : error.name;
  return textOf(error);
}

/** Counts the pipeline's results, and notes each of them immediately. */
class Summary {
  readonly #output: Output;
  readonly #hasFeed: boolean;
  readonly #hasRevisions: boolean;
  #spans = 0;
  #revisions = 0;
  #gaps = 0;
  #built = 0;
  #present = 0;
  #flushes = 0;
  #archived = 0;
  #removed = 0;
  #entries = 0;
  #chunks = 0;
  #bytes = 0;
  readonly #stopped = new Map<string, Stop>();
  /** Logs that were left to another reducer. */
  readonly #skipped = new Map<LogId, ReducerForeignError>();
  readonly #failures: string[] = [];
  /** The kind of error that was noted of each job that is tried again, by the id of its message. */
  readonly #failing = new Map<string, string>();

  constructor(output: Output, parts: { readonly hasFeed: boolean; readonly hasRevisions: boolean }) {
    this.#output = output;
    this.#hasFeed = parts.hasFeed;
    this.#hasRevisions = parts.hasRevisions;
  }

  count(event: PipelineEvent): void {
    switch (event.kind) {
      case 'job':
        return this.#countJob(event);
      case 'failed':
        return this.#countFailure(event);
      case 'dead':
        return this.#giveUp(event);
      case 'record':
        return this.#fail(`stream record ${event.record.sequenceNumber} cannot be routed: ${textOf(event.error)}`);
      case 'fed':
        this.#spans += event.spans;
        return;
      case 'unfed':
        return this.#output.note(`the feed was not written; this will be tried again: ${textOf(event.error)}`);
      case 'recorded':
        this.#revisions += event.recorded;
        this.#gaps += event.gaps;
        return;
      case 'unrecorded':
        return this.#output.note(
          `change ${event.sequence} was not recorded; this will be tried again: ${textOf(event.error)}`,
        );
      case 'discarded':
        return this.#fail(
          `stream records were given up: ${JSON.stringify({ ...event.batch, cause: textOf(event.batch.cause) })}`,
        );
      case 'trimmed':
        return this.#fail(`stream records were trimmed before they were read: ${JSON.stringify(event.trimmed)}`);
    }
  }

  /** Notes each kind of error of a job once, however often the job is tried again. */
  #countFailure({ message, error }: Extract<PipelineEvent, { kind: 'failed' }>): void {
    const kind = kindOf(error);
    if (this.#failing.get(message.id) === kind) return;
    this.#failing.set(message.id, kind);
    this.#output.note(`${nameOf(message)} failed and will be tried again: ${textOf(error)}`);
  }

  #giveUp({ message, tries, error }: Extract<PipelineEvent, { kind: 'dead' }>): void {
    this.#failing.delete(message.id);
    const end = `${nameOf(message)} was given up after ${count(tries, 'try', 'tries')}`;
    this.#failures.push(`${end}: ${textOf(error)}`);
    this.#output.note(`${end}.`);
  }

  #countJob({ job, result, ms, delivery }: Extract<PipelineEvent, { kind: 'job' }>): void {
    const failed = this.#failing.delete(delivery.messageId) ? delivery.receiveCount - 1 : 0;
    switch (result.outcome) {
      case 'built': {
        const stop = this.#stopped.get(job.log);
        if (stop !== undefined && contains(result.position, stop)) this.#stopped.delete(job.log);
        this.#built++;
        this.#entries += result.entries;
        this.#written(result);
        break;
      }
      case 'flushed':
        this.#flushes++;
        this.#written(result);
        break;
      case 'archived':
        this.#archived++;
        break;
      case 'collected':
        this.#removed += result.removed.objects;
        break;
      case 'stopped':
        this.#stopped.set(job.log, result.stop);
        break;
      case 'refused':
        if (result.error instanceof ReducerForeignError) return this.#skip(job.log, result.error);
        return this.#fail(`${job.kind} ${printable(job.log)} was refused: ${result.error.message}`);
      case 'present':
        if (job.kind === 'snapshot') this.#present++;
        break;
      default:
        break;
    }
    const text = describeJobResult(job, result);
    const after = failed === 0 ? '' : `, after ${count(failed, 'failed try', 'failed tries')}`;
    if (text !== undefined) this.#output.note(`${text}, ${Math.round(ms)} ms${after}`);
  }

  /** Notes once that a log is left to another reducer, however many jobs it has. */
  #skip(log: LogId, error: ReducerForeignError): void {
    if (!this.#skipped.has(log)) this.#output.note(skippedText(error));
    this.#skipped.set(log, error);
  }

  #written(result: {
    readonly chunksWritten: number;
    readonly bytesWritten: number;
    readonly rootBytes: number;
  }): void {
    this.#chunks += result.chunksWritten;
    this.#bytes += result.bytesWritten + result.rootBytes;
  }

  #fail(text: string): void {
    this.#failures.push(text);
    this.#output.note(text);
  }

  /** Says why no snapshot was built. */
  #whyNone(): string {
    if (this.#built > 0 || this.#flushes > 0 || this.#failures.length > 0) return '';
    if (this.#stopped.size > 0) return `\n${count(this.#stopped.size, 'log is', 'logs are')} stopped.`;
    if (this.#skipped.size > 0) return `\n${count(this.#skipped.size, 'log was', 'logs were')} skipped.`;
    if (this.#present > 0) return `\n${count(this.#present, 'snapshot was', 'snapshots were')} complete already.`;
    return "\nThe new records of the stream made no snapshot due. 'logfold sweep' looks at all logs, 'logfold status' shows them.";
  }

  finish(): void {
    const stopped = Array.from(this.#stopped, ([log, stop]) => ({ log, ...stop }));
    const skipped = Array.from(this.#skipped, ([log, { code, message }]) => ({ log, code, message }));
    if (stopped.length > 0 || this.#failures.length > 0) process.exitCode = 1;
    const totals = { snapshots: this.#built, present: this.#present, flushes: this.#flushes };
    const retention = { archived: this.#archived, removed: this.#removed };
    const written = { entries: this.#entries, chunks: this.#chunks, bytes: this.#bytes };
    const fed = this.#hasFeed && { spans: this.#spans };
    const built = `${count(this.#built, 'snapshot')} built from ${countEntries(this.#entries)}, ${this.#flushes} flushed`;
    const recorded = this.#hasRevisions && { revisions: this.#revisions, gaps: this.#gaps };
    const recordedText = recorded ? `; ${count(this.#revisions, 'revision')}, ${count(this.#gaps, 'gap')}` : '';
    const fedText = fed ? `; ${count(this.#spans, 'span')} fed` : '';
    this.#output.result(
      { ...totals, ...retention, ...written, ...fed, ...recorded, stopped, skipped, failures: this.#failures },
      `${built}: ${count(this.#chunks, 'chunk')}, ${formatBytes(this.#bytes)}${fedText}${recordedText}${pastable(this.#whyNone())}`,
    );
  }
}

export function engineCommand() {
  return command('engine', 'Run the embedded engine until interrupted, and print the endpoint for your own programs.')
    .addHelpText('after', examples('engine --local data'))
    .action(async ({ local, json }) => {
      if (local === undefined) {
        throw new UsageError('the embedded engine needs a directory for its data', { advice: 'Give --local DIR' });
      }
      const signal = interrupted();
      const { endpoint, lost, close } = await untilInterrupted(() => openDynamoDb({ local, creates: true }));
      try {
        new Output(json).result({ endpoint }, `DynamoDB answers, with any credentials and region, at ${endpoint}`);
        const end = AbortSignal.any([signal, lost]);
        // A signal handler alone does not keep the process alive.
        const alive = setInterval(() => {}, 60_000);
        if (!end.aborted) await once(end, 'abort');
        clearInterval(alive);
        lost.throwIfAborted();
        endAfterSignal(signal);
      } finally {
        await close();
      }
    });
}

/** The plain table that a command names. */
interface NamedTable extends Pick<Place, 'local'> {
  readonly revisionsOf: string;
  /** By default the kind of the logs that exist, or `item` if there are none. */
  readonly per?: SourceTable['per'] | undefined;
  readonly actor?: string | undefined;
}

/**
 * The plain table whose changes a pipeline records.
 * @throws UsageError if the table's stream does not carry both images, or if there are logs of both
 * kinds and none is named
 * @throws ResourceMissingError if the table does not exist
 */
async function recordedTable(
  { logs, deps, checkpoints }: Pick<Environment, 'logs' | 'deps' | 'checkpoints'>,
  { revisionsOf: table, per, actor, local }: NamedTable,
): Promise<RecordedTable> {
  const place = await openDynamoDb(local === undefined ? {} : { local });
  const { keyNames, stream, streamArn } = await describeTable(place.client, table).finally(() => place.close());
  if (stream !== 'NEW_AND_OLD_IMAGES' || streamArn === undefined) {
    throw new UsageError(`table '${table}' has ${stream === undefined ? 'no stream' : `a stream of ${stream}`}`, {
      advice: 'Turn the stream of the table on with the view type NEW_AND_OLD_IMAGES',
    });
  }
  const kind = per ?? (await recordedKind(deps, table)) ?? 'item';
  const source: SourceTable = { table, keyNames, per: kind, actor };
  return {
    streamArn,
    checkpoints: checkpoints(streamArn, 'revisions'),
    logs: new RevisionLogs({ logs, source, platform: deps.platform, reducer: deps.reducer }),
  };
}
