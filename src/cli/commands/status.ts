import pLimit from 'p-limit';
import { isOfOneLog, printable, shellWord } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition } from '../../ids/position.ts';
import { allLogs, type LogStatus, logStatus, type SegmentStatus, segmentStatuses } from '../../workers/audit/status.ts';
import { count, formatBytes, formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { fittedTable, type TableRow } from '../format.ts';
import { pastable } from '../next-step.ts';
import type { ProgressBar } from '../progress.ts';
import { namesOf, type Settings } from '../settings.ts';

/** Logs that are read at the same time. */
const CONCURRENCY = 16;

const NOTES = `
On a terminal that is too narrow, a log has its name, or else its id, which … may shorten. Columns without a value are left
out, and so are those that still do not fit. Elsewhere the table has all columns, always the same. "lag" is the number of entries after the last snapshot.`;

/** @param settings reads the settings file, if there is one */
export function statusCommand(settings: () => Settings | undefined) {
  return readingCommand('status', 'Show the status of a log and each of its segments, or of all logs.')
    .argument('[log]', 'the log; by default, all logs', parse.log)
    .addHelpText('after', NOTES)
    .addHelpText('after', examples('status', 'status budget', "status --json | jq '.logs[] | select(.stopped)'"))
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const deps = { ...environment.deps, store: environment.deps.tables };
        if (log !== undefined) {
          const segments = await segmentStatuses(deps, log);
          const status = await logStatus(deps, log, segments);
          const text = `${describe([status], [], settings())}\n${describeSegments(segments)}`;
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
        output.result({ logs, failures }, describe(logs, failures, settings()));
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
  ...['name', 'log', 'entries', 'last snapshot', 'lag', 'stopped', 'segments', 'archived', 'expiring', 'expired'],
  ...['chunks', 'bytes', 'buffered', 'foreign'],
];
/** Columns that a terminal may lack if they are empty or do not fit, the least important first. */
const SPARE = ['buffered', 'chunks', 'bytes', 'expiring', 'expired', 'archived', 'segments', 'foreign'];
/** Columns that it may lack after them. A log that is stopped needs a person. */
const LAST = ['last snapshot', 'entries', 'lag'];
/** A UUID keeps all its characters before a column goes. */
const WHOLE_ID = 36;
const SPARE_OF_SEGMENTS = ['foreign', 'expires', 'archived'];
function describe(logs: readonly LogStatus[], failures: readonly Failure[], settings: Settings | undefined): string {
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
      namesOf(settings, log).join(' '),
      printable(log),
      entries,
      last,
      lagEntries,
      stopped?.code ?? '-',
      segments,
      archived,
      expiring,
      expired,
      chunks,
      size,
      bufferedEdits ?? '?',
      foreign.archives + foreign.pointers + foreign.roots || '-',
    ]);
  }
  const stops = logs.flatMap(({ log, stopped }) =>
    stopped === null ? [] : [`${printable(log)} is stopped: ${stopped.message} ${resumeText(log)}`],
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
  const spare = [...SPARE, ...(stops.length > 0 ? [] : ['stopped'])];
  return [tableOfLogs(rows, spare), ...[...stops, ...notes, ...failed].map(pastable)].join('\n');
}

/** A table with ids and names. If it does not fit, names replace ids: commands take both. */
function tableOfLogs(rows: readonly TableRow[], spare: readonly string[]): string {
  const whole = fittedTable(COLUMNS, rows, { spare: ['name', ...spare], long: {} });
  if (whole.isWhole) return whole.text;
  const brief = rows.map(([name = '', log = '', ...rest]): TableRow => [name || log, ...rest]);
  return fittedTable(COLUMNS.slice(1), brief, { spare, last: LAST, long: { log: WHOLE_ID } }).text;
}

/** The last step after a stop, which the message of the stop need not name. */
function resumeText(log: LogId): string {
  return `After that, 'logfold resume ${shellWord(log)}' lets its snapshots continue.`;
}

function describeSegments(segments: readonly SegmentStatus[]): string {
  const rows: TableRow[] = [];
  for (const { segment, entries, lastSnapshot, archived, foreign, ...expiry } of segments) {
    const others = foreign.join(', ') || '-';
    const last = lastSnapshot === null ? '-' : formatPosition({ segment, entry: lastSnapshot });
    rows.push([segment, entries, last, archived ? 'yes' : '-', describeExpiry(expiry), others]);
  }
  const head = ['segment', 'entries', 'last snapshot', 'archived', 'expires', 'foreign'];
  return fittedTable(head, rows, { spare: SPARE_OF_SEGMENTS, long: {} }).text;
}

function describeExpiry({ expires, onHold, expired }: Pick<SegmentStatus, 'expires' | 'onHold' | 'expired'>): string {
  if (onHold) return 'on hold';
  if (expires === null) return '-';
  return `${expired ? 'expired since' : 'from'} ${formatDate(expires)}`;
}
