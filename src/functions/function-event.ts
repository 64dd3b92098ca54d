import { toHex } from '../codec/bytes.ts';
import { LogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition } from '../ids/position.ts';
import { type AdoptResult, reportAdoption } from '../workers/adopt/adopt-logs.ts';
import { type PartlyReplayed, type Replayed, reportReplay } from '../workers/audit/replay.ts';
import type { RoutedJob, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { type JobResult, reportOf } from '../workers/dispatch/run-job.ts';
import type { Job } from '../workers/jobs/job.ts';
import { countMetric, type Metric, type Report } from '../workers/jobs/report.ts';
import { type CompareResult, reportComparison } from '../workers/revisions/compare-table.ts';
import { reportRecorded } from '../workers/revisions/record-revisions.ts';
import type { SnapshotRun } from '../workers/snapshot/build-snapshot.ts';
import { reportSweep, type SweepResult, type SweptAges } from '../workers/sweep/sweep.ts';

export interface Delivery {
  readonly messageId: string;
  /** How often the message was delivered, this time included. */
  readonly receiveCount: number;
}

export type StreamEvent =
  /** A record was turned into a job. */
  | { readonly kind: 'routed'; readonly record: StreamRecord; readonly job: RoutedJob }
  /**
   * A record was malformed, or its job could not be sent. Lambda delivers the record again, unless
   * it is skipped.
   */
  | { readonly kind: 'record'; readonly record: StreamRecord; readonly error: unknown; readonly isSkipped?: true }
  | FeedEvent;

/** An event of a feed. `run` is the id of the request, or of the first stream record. */
export type FeedEvent =
  | {
      readonly kind: 'fed';
      readonly run: string;
      /** Spans that the feed did not have. */
      readonly spans: number;
      /** The end of the feed. */
      readonly checkpoint: number;
      /** The spans that the stream should have fed, if a sweep did. */
      readonly missed?: number;
    }
  /**
   * The feed could not be written, or its end not published. The stream delivers its records again;
   * the next sweep finds the ends again.
   */
  | { readonly kind: 'unfed'; readonly run: string; readonly error: unknown };

/** An event of a function that runs jobs. */
export type JobEvent =
  | (SnapshotRun & {
      readonly kind: 'job';
      readonly delivery: Delivery;
      readonly job: Job;
      readonly result: JobResult;
    })
  /**
   * A message is not a job, or its job failed. SQS delivers it again or moves it to the dead-letter
   * queue.
   */
  | {
      readonly kind: 'failed';
      readonly delivery: Delivery;
      /** Undefined if the message is not a job. */
      readonly job: Job | undefined;
      readonly error: unknown;
    }
  /** A request to change a visibility timeout failed. The message keeps the timeout that it has. */
  | { readonly kind: 'visibility unchanged'; readonly delivery: Delivery; readonly error: unknown };

/** An event of the sweep function. `run` is the id of the request. */
export type SweepEvent =
  | { readonly kind: 'due'; readonly run: string; readonly job: Job; readonly why: string }
  /** The sweep failed for a log, or an operator must look at one of its segments. */
  | { readonly kind: 'unswept'; readonly run: string; readonly log: LogId | undefined; readonly error: unknown }
  /** New entries do not come through the stream any more. Sweeps find them later. */
  | { readonly kind: 'unusable stream'; readonly run: string; readonly error: unknown }
  | {
      readonly kind: 'swept';
      readonly run: string;
      readonly result: SweepResult;
      readonly ms: number;
      /** Absent for partial sweeps. */
      readonly ages: SweptAges | undefined;
      /**
       * 1 if the stream does not bring new entries. Absent for manual sweeps, and without a stream.
       */
      readonly unusableStreams?: number | undefined;
    }
  /** A log ends before the last of its entries that the feed has. */
  | { readonly kind: 'ahead'; readonly run: string; readonly log: LogId; readonly error: LogfoldError }
  /** An item does not fit the mapping, or the log of the error could not be registered. */
  | { readonly kind: 'not adopted'; readonly run: string; readonly error: LogfoldError }
  | { readonly kind: 'adopted'; readonly run: string; readonly result: AdoptResult; readonly ms: number }
  | FeedEvent;

export interface ReplayEvent {
  readonly kind: 'replayed';
  readonly run: string;
  readonly log: LogId;
  readonly replayed: Replayed | PartlyReplayed;
}

/** An event of the revisions function. `run` is the id of the request. */
export type RevisionsEvent =
  /** A record was malformed, or its change could not be recorded. Lambda delivers it again. */
  | { readonly kind: 'unrecorded'; readonly run: string; readonly sequence: string; readonly error: unknown }
  | {
      readonly kind: 'recorded';
      readonly run: string;
      /** Changes that became revisions. */
      readonly recorded: number;
      /** `Gap` revisions. */
      readonly gaps: number;
      /** Records that Lambda delivers again. */
      readonly failed: number;
      readonly ms: number;
    }
  /** A log, or the whole table if it is undefined, could not be compared. */
  | { readonly kind: 'uncompared'; readonly run: string; readonly log: LogId | undefined; readonly error: unknown }
  | { readonly kind: 'compared'; readonly run: string; readonly result: CompareResult; readonly ms: number };

/** An event of a function, for logs and metrics. */
export type FunctionEvent = StreamEvent | JobEvent | SweepEvent | ReplayEvent | RevisionsEvent;

/** The line of a function's log that describes an event, and the metric values that it adds. */
export interface EventReport {
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
  /**
   * `correlationId` is the id of the message, the stream record or the request. If they are known,
   * there are also `log`, `position` or `segment`, and `job` (the job's kind).
   */
  readonly fields: Readonly<Record<string, unknown>> & { readonly correlationId: string };
  readonly metrics: readonly Metric[];
}

/** Reports an event to the function's log and to metrics. */
export function reportEvent(event: FunctionEvent): EventReport {
  switch (event.kind) {
    case 'routed': {
      const { record, job } = event;
      return line('info', 'a stream record became a job', { correlationId: record.eventId, ...placeOf(job) });
    }
    case 'record': {
      const { eventId: correlationId, sequenceNumber } = event.record;
      const message = event.isSkipped
        ? 'a stream record was skipped, because its item does not fit the mapping'
        : 'a stream record failed; Lambda delivers it again';
      return line('error', message, { correlationId, sequenceNumber, ...errorFields(event) }, [
        countMetric('RecordsFailed', 1),
      ]);
    }
    case 'fed': {
      const { run, spans, missed, checkpoint } = event;
      const metrics = [countMetric('FeedSpans', spans)];
      if (missed !== undefined) metrics.push(countMetric('FeedSpansMissed', missed));
      return line('info', 'new entries were fed', { correlationId: run, spans, missed, checkpoint }, metrics);
    }
    case 'unfed': {
      const { run, error } = event;
      const message = 'the feed was not written or not published; this is tried again';
      return line('error', message, { correlationId: run, error }, [countMetric('FeedFailures', 1)]);
    }
    case 'job': {
      const { delivery, job, result, ms, lag } = event;
      const { level, metrics = [] } = reportOf(job, result, event);
      const fields = { ...correlationOf(delivery), ...placeOf(job), ms: Math.round(ms), lag, ...plain(result) };
      return line(level, `${job.kind}: ${result.outcome}`, fields, [...metrics, ...retries(delivery)]);
    }
    case 'failed': {
      const { delivery, job, error } = event;
      const place = job === undefined ? placeOfError(error) : placeOf(job);
      const message = job === undefined ? 'a message is not a job' : 'a job failed; SQS delivers it again';
      const metrics = [countMetric('JobsFailed', 1), ...retries(delivery)];
      return line('error', message, { ...correlationOf(delivery), ...place, error }, metrics);
    }
    case 'visibility unchanged': {
      const { delivery, error } = event;
      const message = 'a visibility timeout was not changed; a retry of this message may come late';
      return line('warn', message, { ...correlationOf(delivery), error });
    }
    case 'due':
      return line('info', `the sweep requests a job: ${event.why}`, {
        correlationId: event.run,
        ...placeOf(event.job),
      });
    case 'unswept':
      return line('error', 'the sweep failed for a log', troubleFields(event));
    case 'unusable stream': {
      const { run, error } = event;
      const message = 'the stream does not start the stream function any more; sweeps find the new entries later';
      return line('error', message, { correlationId: run, error });
    }
    case 'ahead':
      return line('error', 'the feed has entries that a log lacks', troubleFields(event));
    case 'swept': {
      const { run, result, ms, ages, unusableStreams } = event;
      const { rest, ...counts } = result;
      const { metrics = [], ...report } = reportSweep(result, ages);
      const unusable = unusableStreams === undefined ? [] : [countMetric('UnusableStreams', unusableStreams)];
      return timed(
        { ...report, metrics: [...metrics, ...unusable] },
        { run, ms },
        { ...ages, ...counts, unusableStreams, rest },
      );
    }
    case 'not adopted': {
      const fields = { correlationId: event.run, ...errorFields(event) };
      return line('error', 'an item or a log does not fit the mapping', fields);
    }
    case 'adopted':
      return timed(reportAdoption(event.result), event, event.result);
    case 'unrecorded': {
      const fields = { correlationId: event.run, sequenceNumber: event.sequence, ...errorFields(event) };
      const message = 'a change of the plain table was not recorded; Lambda delivers it again';
      return line('error', message, fields, [countMetric('RecordsFailed', 1)]);
    }
    case 'recorded': {
      const { recorded, gaps, failed } = event;
      return timed(reportRecorded(event), event, { recorded, gaps, failed });
    }
    case 'uncompared': {
      const message = `${event.log === undefined ? 'the plain table' : 'a log of the plain table'} could not be compared`;
      return line('error', message, troubleFields(event), [countMetric('LogsFailed', 1)]);
    }
    case 'compared':
      return timed(reportComparison(event.result), event, event.result);
    case 'replayed': {
      const { run, log, replayed } = event;
      const { text, level, metrics } = reportReplay(replayed);
      const position = formatPosition(replayed.position);
      const from = replayed.from && formatPosition(replayed.from);
      const compared =
        replayed.outcome === 'partial'
          ? { equalUpTo: formatPosition(replayed.equalUpTo) }
          : { snapshot: replayed.snapshot && formatPosition(replayed.snapshot) };
      return line(level, text, { correlationId: run, log, ...replayed, from, position, ...compared }, metrics);
    }
  }
}

function line(
  level: Report['level'],
  message: string,
  fields: EventReport['fields'],
  metrics: readonly Metric[] = [],
): EventReport {
  return { level: level === 'quiet' ? 'info' : level, message, fields, metrics };
}

/** The report of a run, with its time in milliseconds. */
function timed(
  { text, level, metrics }: Report,
  { run, ms }: { readonly run: string; readonly ms: number },
  fields: object,
): EventReport {
  return line(level, text, { correlationId: run, ms: Math.round(ms), ...fields }, metrics);
}

function retries({ receiveCount }: Delivery): readonly Metric[] {
  return receiveCount > 1 ? [countMetric('JobRetries', 1)] : [];
}

function correlationOf({ messageId, receiveCount }: Delivery) {
  return { correlationId: messageId, receiveCount };
}

/** An error, and the place that it names. */
function errorFields({ error }: { readonly error: unknown }) {
  return { ...placeOfError(error), error };
}

/** The error of a log in a run. */
function troubleFields({
  run,
  log,
  error,
}: {
  readonly run: string;
  readonly log: LogId | undefined;
  readonly error: unknown;
}) {
  return { correlationId: run, ...placeOfError(error), log, error };
}

function placeOf(job: Job): Readonly<Record<string, unknown>> {
  const { kind, log } = job;
  if ('position' in job) return { job: kind, log, position: formatPosition(job.position) };
  return 'segment' in job ? { job: kind, log, segment: job.segment } : { job: kind, log };
}

function placeOfError(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof LogfoldError)) return {};
  const { log, segment, entry } = error;
  if (segment === undefined || entry === undefined) return { log, segment };
  return { log, position: formatPosition({ segment, entry }) };
}

/**
 * The fields of a result that neither the line nor the next message has, with hashes in hexadecimal
 * digits.
 */
function plain(result: JobResult): Readonly<Record<string, unknown>> {
  // The message of a divide job names no position.
  if (result.outcome === 'divided') return { ...result, position: formatPosition(result.position) };
  const { outcome, ...rest } = result;
  const fields = Object.entries(rest)
    .filter(([name]) => name !== 'segment' && name !== 'position' && name !== 'parts')
    .map(([name, value]) => [name, value instanceof Uint8Array ? toHex(value) : value]);
  return { outcome, ...Object.fromEntries(fields) };
}
