import pLimit from 'p-limit';
import { isOfOneLog, printable } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { allLogs, type LogStatus, logStatus, type SegmentStatus, segmentStatuses } from '../../workers/audit/status.ts';
import { count, formatBytes, formatDate } from '../../workers/jobs/report.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { type TableRow, textTable } from '../format.ts';
import type { ProgressBar } from '../progress.ts';

/** Logs that are read at the same time. */
const CONCURRENCY = 16;

export function statusCommand() {
  return command('status', 'Show the status of a log and each of its segments, or of all logs.')
    .argument('[log]', 'the log; by default, all logs', parse.log)
    .addHelpText('after', examples('status', 'status budget', "status --json | jq '.logs[] | select(.stopped)'"))
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const deps = { ...environment.deps, store: environment.deps.tables };
        if (log !== undefined) {
          const segments = await segmentStatuses(deps, log);
          const status = await logStatus(deps, log, segments);
          const text = `${describe([status], [])}\n${describeSegments(segments)}`;
          return output.result({ logs: [status], failures: [], segments }, text);
        }
        const ids = await allLogs(deps.tables);
        let done = 0;
        const limit = pLimit(CONCURRENCY);
        const read = ({ update }: ProgressBar) =>
          limit.map(ids, async (id) => {
            const status = await logStatus(deps, id).catch((error: unknown): Failure => {
              // An error of one log must not hide the other logs.
              if (!isOfOneLog(error)) throw error;
              return { log: id, code: error.code, message: error.message };
            });
            update(++done);
            return status;
          });
        const found = await output.during('Logs', read, ids.length).finally(() => limit.clearQueue());
        const failures = found.filter((each) => 'code' in each);
        const logs = found.filter((each) => 'segments' in each);
        output.result({ logs, failures }, describe(logs, failures));
        if (failures.length > 0) process.exitCode = 1;
      }),
    );
}

interface Failure {
  readonly log: string;
  readonly code: string;
  readonly message: string;
}

const COLUMNS = [
  ...['log', 'segments', 'archived', 'expiring', 'expired', 'entries', 'last snapshot', 'lag', 'chunks', 'bytes'],
  ...['buffered', 'stopped', 'foreign'],
];

function describe(logs: readonly LogStatus[], failures: readonly Failure[]): string {
  if (logs.length + failures.length === 0) return 'There are no logs yet.';
  const rows: TableRow[] = [];
  for (const {
    log,
    segments,
    archived,
    expiring,
    expired,
    entries,
    lastSnapshot,
    lagEntries,
    chunks,
    bytes,
    bufferedEdits,
    stopped,
    foreign,
  } of logs) {
    const last = lastSnapshot === null ? '-' : formatPosition(lastSnapshot);
    const size = formatBytes(bytes);
    rows.push([
      printable(log),
      segments,
      archived,
      expiring,
      expired,
      entries,
      last,
      lagEntries,
      chunks,
      size,
      bufferedEdits ?? '?',
      stopped?.code ?? '-',
      foreign.archives + foreign.pointers + foreign.roots || '-',
    ]);
  }
  const stops = logs.flatMap(({ log, stopped }) =>
    stopped === null ? [] : [`${printable(log)} is stopped: ${stopped.message}`],
  );
  const notes = logs.flatMap(({ log, foreign: { archives, pointers, roots } }) => {
    const found = [
      ...(archives > 0 ? [count(archives, 'archive name')] : []),
      ...(pointers > 0 ? [count(pointers, 'Last Snapshot')] : []),
      ...(roots > 0 ? [count(roots, 'root')] : []),
    ].join(', ');
    return found === '' ? [] : [`${printable(log)}: another program wrote ${found}; logfold passes over them`];
  });
  const failed = failures.map(({ log, code, message }) => `${printable(log)} cannot be read: ${code}: ${message}`);
  return [textTable(COLUMNS, rows), ...stops, ...notes, ...failed].join('\n');
}

function describeSegments(segments: readonly SegmentStatus[]): string {
  const rows: TableRow[] = [];
  for (const { segment, entries, lastSnapshot, archived, foreign, ...expiry } of segments) {
    const others = foreign.join(', ') || '-';
    rows.push([segment, entries, lastSnapshot ?? '-', archived ? 'yes' : '-', describeExpiry(expiry), others]);
  }
  return textTable(['segment', 'entries', 'last snapshot', 'archived', 'expires', 'foreign'], rows);
}

function describeExpiry({ expires, onHold, expired }: Pick<SegmentStatus, 'expires' | 'onHold' | 'expired'>): string {
  if (onHold) return 'on hold';
  if (expires === null) return '-';
  return `${expired ? 'expired since' : 'from'} ${formatDate(expires)}`;
}
