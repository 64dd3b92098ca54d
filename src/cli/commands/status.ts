import Table from 'cli-table3';
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
        const ids = log === undefined ? await allLogs(deps.store) : [log];
        const progress = output.progress('Logs', ids.length);
        try {
          for (const id of ids) {
            logs.push(await logStatus(deps, id));
            progress.update(logs.length);
          }
        } finally {
          progress.stop();
        }
        output.result({ logs }, describe(logs));
      }),
    );
}

function describe(logs: readonly LogStatus[]): string {
  if (logs.length === 0) return 'There are no logs yet.';
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
  return [table.toString(), ...stops].join('\n');
}
