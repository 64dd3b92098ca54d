import { toHex } from '../codec/bytes.ts';
import { LogfoldError } from '../errors.ts';
import { formatPosition } from '../ids/position.ts';
import type { JobResult } from '../workers/dispatch/run-job.ts';
import type { Job } from '../workers/jobs/job.ts';
import type { FunctionEvent } from './function-event.ts';

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
  /**
   * `correlationId` is the id of the message, the stream record or the request. If they are known,
   * there are also `log`, `position` or `segment`, and `job` (the job's kind).
   */
  readonly fields: Readonly<Record<string, unknown>> & { readonly correlationId: string };
}

/** The line of the function's log that describes an event. */
export function logLine(event: FunctionEvent): LogLine {
  switch (event.kind) {
    case 'routed': {
      const { record, job } = event;
      return line('info', 'a stream record became a job', { correlationId: record.eventId, ...placeOf(job) });
    }
    case 'record': {
      const { eventId: correlationId, sequenceNumber } = event.record;
      const fields = { correlationId, sequenceNumber, ...placeOfError(event.error), error: event.error };
      const message = event.isSkipped
        ? 'a stream record was skipped, because its item does not fit the mapping'
        : 'a stream record failed; Lambda delivers it again';
      return line('error', message, fields);
    }
    case 'fed': {
      const { run, spans, missed, checkpoint } = event;
      return line('info', 'new entries were fed', { correlationId: run, spans, missed, checkpoint });
    }
    case 'unfed':
      return line('error', 'the feed was not written or not published; this is tried again', {
        correlationId: event.run,
        error: event.error,
      });
    case 'job': {
      const { delivery, job, result, ms, lag } = event;
      const fields = { ...correlationOf(delivery), ...placeOf(job), ms: Math.round(ms), lag, ...plain(result) };
      return line(levelOf(result), `${job.kind}: ${result.outcome}`, fields);
    }
    case 'failed': {
      const { delivery, job, error } = event;
      const place = job === undefined ? placeOfError(error) : placeOf(job);
      return line('error', job === undefined ? 'a message is not a job' : 'a job failed; SQS delivers it again', {
        ...correlationOf(delivery),
        ...place,
        error,
      });
    }
    case 'visibility unchanged':
      return line('warn', 'a visibility timeout was not changed; a retry of this message may come late', {
        ...correlationOf(event.delivery),
        error: event.error,
      });
    case 'due':
      return line('info', `the sweep requests a job: ${event.why}`, {
        correlationId: event.run,
        ...placeOf(event.job),
      });
    case 'unswept': {
      const { run, log, error } = event;
      return line('error', 'the sweep failed for a log', {
        correlationId: run,
        ...placeOfError(error),
        log,
        error,
      });
    }
    case 'unusable stream': {
      const { run, error } = event;
      const message = 'the stream does not start the stream function any more; sweeps find the new entries later';
      return line('error', message, { correlationId: run, error });
    }
    case 'ahead': {
      const { run, log, error } = event;
      return line('error', 'the feed has entries that a log lacks', {
        correlationId: run,
        ...placeOfError(error),
        log,
        error,
      });
    }
    case 'swept': {
      const { run, result, ms, ages, unusableStreams } = event;
      const { rest, ...counts } = result;
      const message = rest === undefined ? 'swept' : 'swept a part; the next run continues from there';
      const fields = { correlationId: run, ms: Math.round(ms), ...ages, ...counts, unusableStreams, rest };
      return line('info', message, fields);
    }
    case 'not adopted': {
      const { run, error } = event;
      return line('error', 'an item or a log does not fit the mapping', {
        correlationId: run,
        ...placeOfError(error),
        error,
      });
    }
    case 'adopted': {
      const { run, result, ms } = event;
      const message = result.complete
        ? 'looked for logs in the whole table'
        : 'looked for logs in a part of the table; the next run continues from there';
      return line('info', message, { correlationId: run, ms: Math.round(ms), ...result });
    }
    case 'unrecorded': {
      const { run, sequence: sequenceNumber, error } = event;
      const fields = { correlationId: run, sequenceNumber, ...placeOfError(error), error };
      return line('error', 'a change of the plain table was not recorded; Lambda delivers it again', fields);
    }
    case 'recorded': {
      const { kind: _, run: correlationId, ms, ...counts } = event;
      const message = 'recorded changes of the plain table';
      return line(counts.gaps > 0 ? 'warn' : 'info', message, { correlationId, ms: Math.round(ms), ...counts });
    }
    case 'uncompared': {
      const { run, log, error } = event;
      const message = `${log === undefined ? 'the plain table' : 'a log of the plain table'} could not be compared`;
      return line('error', message, { correlationId: run, ...placeOfError(error), log, error });
    }
    case 'compared': {
      const { run, result, ms } = event;
      const message = result.complete
        ? 'compared the plain table with its revisions'
        : 'compared a part of the plain table with its revisions; the next run continues from there';
      const level = result.gaps > 0 || result.failed > 0 ? 'warn' : 'info';
      return line(level, message, { correlationId: run, ms: Math.round(ms), ...result });
    }
    case 'replayed': {
      const { run, log, replayed } = event;
      const from = replayed.from && formatPosition(replayed.from);
      if (replayed.outcome === 'partial') {
        const { position, equalUpTo, ...rest } = replayed;
        const positions = { from, position: formatPosition(position), equalUpTo: formatPosition(equalUpTo) };
        const fields = { correlationId: run, log, ...rest, ...positions };
        return line('info', 'a replay equals the stored snapshots so far; its time was up', fields);
      }
      const { position, snapshot, ...rest } = replayed;
      const positions = { from, position: formatPosition(position), snapshot: snapshot && formatPosition(snapshot) };
      const fields = { correlationId: run, log, ...rest, ...positions };
      if (replayed.equal === null) return line('warn', 'a replay found no stored snapshot to compare with', fields);
      const message = replayed.equal
        ? 'a replay equals the stored snapshot'
        : 'a replay DIFFERS from the stored snapshot';
      return line(replayed.equal ? 'info' : 'error', message, fields);
    }
  }
}

function line(level: LogLine['level'], message: string, fields: LogLine['fields']): LogLine {
  return { level, message, fields };
}

function correlationOf({ messageId, receiveCount }: { readonly messageId: string; readonly receiveCount: number }) {
  return { correlationId: messageId, receiveCount };
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

function levelOf({ outcome }: JobResult): LogLine['level'] {
  if (outcome === 'foreign') return 'warn';
  return outcome === 'stopped' || outcome === 'refused' ? 'error' : 'info';
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
