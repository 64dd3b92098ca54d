import type { LogfoldError } from '../../errors.ts';
import type { PassedOver } from '../../log/guard.ts';
import type { Stopped } from '../../snapshot/stop.ts';

/** Says what a result means to people, logs and metrics. The type of a result has it beside it. */
export interface Report {
  /** The result in words, such as `12 entries, 3 chunks, 1.2 kB`. */
  readonly text: string;
  /** `quiet` is `info` in logs, and people need not hear of it. */
  readonly level: 'quiet' | 'info' | 'warn' | 'error';
  readonly metrics?: readonly Metric[];
  /** Whether more jobs of the log may be due now than before. */
  readonly makesDue?: true;
  /** The error that an operator must look at. */
  readonly failure?: Pick<LogfoldError, 'code' | 'message'>;
}

/** The report of a job that had nothing to do. */
export const NOTHING_TO_DO: Report = { text: 'nothing to do', level: 'quiet' };

/** The report of a job whose continuation does the rest. */
export const IN_PART: Report = { text: 'done in part', level: 'quiet' };

/** One value of a metric. */
export interface Metric {
  readonly name: string;
  readonly unit: 'Count' | 'Seconds' | 'Bytes';
  readonly value: number;
}

export function countMetric(name: string, value: number): Metric {
  return { name, unit: 'Count', value };
}

export function secondsMetric(name: string, value: number): Metric {
  return { name, unit: 'Seconds', value };
}

export function bytesMetric(name: string, value: number): Metric {
  return { name, unit: 'Bytes', value };
}

/** A run that one invocation is too short for, or that would harm the log. */
export interface Refused {
  readonly outcome: 'refused';
  readonly error: LogfoldError;
}

/** The report of a job of any kind that did not do its work. */
export function reportUndone(result: Refused | Omit<Stopped, 'position'> | PassedOver<unknown>): Report {
  if (result.outcome === 'foreign') return { text: `passed over: ${result.reason}`, level: 'warn' };
  if (result.outcome === 'refused') {
    const { error } = result;
    return {
      text: `refused: ${error.message}`,
      level: 'error',
      metrics: [countMetric('JobsFailed', 1)],
      failure: error,
    };
  }
  const { stop } = result;
  const metrics = [countMetric('LogsStopped', 1)];
  return { text: `the log is stopped: ${stop.message}`, level: 'error', metrics, failure: stop };
}

/** The chunks and the root that a job wrote. */
export interface Written {
  readonly chunksWritten: number;
  readonly bytesWritten: number;
  readonly rootBytes: number;
}

export function writtenMetrics({ chunksWritten, bytesWritten, rootBytes }: Written): readonly Metric[] {
  return [countMetric('ChunksWritten', chunksWritten), bytesMetric('BytesWritten', bytesWritten + rootBytes)];
}

/** `3 chunks, 1.2 kB`. */
export function writtenText({ chunksWritten, bytesWritten, rootBytes }: Written): string {
  return `${count(chunksWritten, 'chunk')}, ${formatBytes(bytesWritten + rootBytes)}`;
}

/** Names parts that another program wrote, and a job left alone; empty if there is none. */
export function passedOverText(passedOver: readonly string[] = []): string {
  return passedOver.length === 0 ? '' : `; passed over: ${passedOver.join(', ')}`;
}

/** A number and its noun for people: `1 chunk`, `2 chunks`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** `1 entry` or `2 entries`. */
export function countEntries(number: number): string {
  return count(number, 'entry', 'entries');
}

/** Epoch seconds as a date and time in UTC, for people. */
export function formatDate(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace('.000', '');
}

/** A number of bytes for people. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}
