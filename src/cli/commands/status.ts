import pLimit from 'p-limit';
import { isOfOneLog, printable, shellWord } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition } from '../../ids/position.ts';
import { allLogs, type LogStatus, logStatus, type SegmentStatus, segmentStatuses } from '../../workers/audit/status.ts';
import { count, formatBytes, formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { columnWidths, type TableRow, tableWidth, textTable } from '../format.ts';
import { pastable } from '../next-step.ts';
import type { ProgressBar } from '../progress.ts';
import { namesOf, type Settings } from '../settings.ts';

/** Logs that are read at the same time. */
const CONCURRENCY = 16;

const NOTES = `
On a terminal, columns without a value are left out, and so are those for which it is too narrow. Elsewhere the table has
all columns, always the same. "lag" is the number of entries after the last snapshot.`;

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
const SPARE_OF_SEGMENTS = ['foreign', 'expires', 'archived'];
/** The cells that tell nothing. */
const EMPTY: readonly (string | number)[] = ['', '-', 0, '0 B'];

/**
 * A table with all columns, or on a terminal only with those that tell something and that fit.
 * @param spare columns that may go if they are empty or do not fit, the least important first
 * @param last columns that may go after them, if they do not fit
 */
function fittedTable(
  head: readonly string[],
  rows: readonly TableRow[],
  { spare, last = [] }: { readonly spare: readonly string[]; readonly last?: readonly string[] },
): string {
  const { isTTY, columns } = process.stdout;
  // Some terminals say that they have no columns.
  if (!isTTY || !columns) return textTable(head, rows);
  const widths = columnWidths(head, rows);
  const isEmpty = (name: string): boolean => rows.every((row) => EMPTY.includes(row[head.indexOf(name)] ?? ''));
  const shown = new Set(head.filter((name) => !spare.includes(name) || !isEmpty(name)));
  const fits = (): boolean => tableWidth(widths.filter((_, i) => shown.has(head[i] ?? ''))) <= columns;
  const missing = [...spare, ...last].filter((name) => !fits() && shown.delete(name));
  const cellsOf = <T>(row: readonly T[]): T[] => row.filter((_, i) => shown.has(head[i] ?? ''));
  const table = textTable(cellsOf(head), rows.map(cellsOf));
  return missing.length === 0 ? table : `${table}\nFor ${missing.join(', ')}, widen the terminal or give --json.`;
}

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
  // A name is enough to type.
  const hasNames = logs.every(({ log }) => namesOf(settings, log).length > 0);
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
  // A log that is stopped needs a person.
  const stopped = stops.length > 0;
  const columns = {
    spare: [...SPARE, ...(stopped ? [] : ['stopped']), ...(hasNames ? [] : ['name'])],
    last: [...(hasNames ? ['log'] : []), 'last snapshot', 'entries', 'lag', ...(stopped ? ['stopped'] : [])],
  };
  return [fittedTable(COLUMNS, rows, columns), ...[...stops, ...notes, ...failed].map(pastable)].join('\n');
}

/** The last step after a stop, which the message of the stop need not name. */
function resumeText(log: LogId): string {
  return `After that, 'logfold resume ${shellWord(log)}' lets its snapshots continue.`;
}

function describeSegments(segments: readonly SegmentStatus[]): string {
  const rows: TableRow[] = [];
  for (const { segment, entries, lastSnapshot, archived, foreign, ...expiry } of segments) {
    const others = foreign.join(', ') || '-';
    rows.push([segment, entries, lastSnapshot ?? '-', archived ? 'yes' : '-', describeExpiry(expiry), others]);
  }
  const head = ['segment', 'entries', 'last snapshot', 'archived', 'expires', 'foreign'];
  return fittedTable(head, rows, { spare: SPARE_OF_SEGMENTS });
}

function describeExpiry({ expires, onHold, expired }: Pick<SegmentStatus, 'expires' | 'onHold' | 'expired'>): string {
  if (onHold) return 'on hold';
  if (expires === null) return '-';
  return `${expired ? 'expired since' : 'from'} ${formatDate(expires)}`;
}
