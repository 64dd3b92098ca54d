import Table from 'cli-table3';
import { isOfOneLog } from '../../errors.ts';
import { formatPosition } from '../../log/position.ts';
import { allLogs, type LogStatus, logStatus } from '../../workers/status.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { formatBytes } from '../output.ts';

export function statusCommand() {
  return command('status', 'Show how a log stands, or all of them.')
    .argument('[log]', 'the log; all of them where it is left out', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ deps }, output) => {
        const logs: LogStatus[] = [];
        const failures: Failure[] = [];
        const ids = log === undefined ? await allLogs(deps.store) : [log];
        const progress = output.progress('Logs', ids.length);
        try {
          for (const id of ids) {
            try {
              logs.push(await logStatus(deps, id));
            } catch (error) {
              // What is wrong with one log must not hide the others. Of one that was asked for, it is the answer.
              if (log !== undefined || !isOfOneLog(error)) throw error;
              failures.push({ log: id, code: error.code, message: error.message });
            }
            progress.update(logs.length + failures.length);
          }
        } finally {
          progress.stop();
        }
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

function describe(logs: readonly LogStatus[], failures: readonly Failure[]): string {
  if (logs.length + failures.length === 0) return 'There are no logs yet.';
  const table = new Table({
    head: [
      'log',
      'segments',
      'archived',
      'expiring',
      'entries',
      'last snapshot',
      'lag',
      'chunks',
      'bytes',
      'waiting',
      'stopped',
    ],
  });
  for (const {
    log,
    segments,
    archived,
    expiring,
    entries,
    lastSnapshot,
    lagEntries,
    chunks,
    bytes,
    waiting,
    stopped,
  } of logs) {
    const last = lastSnapshot === null ? '-' : formatPosition(lastSnapshot);
    const size = formatBytes(bytes);
    table.push([
      log,
      segments,
      archived,
      expiring,
      entries,
      last,
      lagEntries,
      chunks,
      size,
      waiting ?? '?',
      stopped?.code ?? '-',
    ]);
  }
  const stops = logs.flatMap(({ log, stopped }) => (stopped === null ? [] : [`${log} is stopped: ${stopped.message}`]));
  const failed = failures.map(({ log, code, message }) => `${log} cannot be looked at: ${code}: ${message}`);
  return [table.toString(), ...stops, ...failed].join('\n');
}
