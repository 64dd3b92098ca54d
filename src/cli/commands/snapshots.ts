import { formatPosition } from '../../ids/position.ts';
import { type ListedSnapshot, listSnapshots } from '../../workers/audit/list-snapshots.ts';
import { formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { fittedTable, type TableRow } from '../format.ts';
import { pastable } from '../next-step.ts';

const LIMIT = 20;
/** Characters of a state hash that people see. */
const HASH_LENGTH = 12;

const HELP = `
A snapshot is complete, pending until the pipeline builds it, or dropped by garbage collection. It is foreign if another
program wrote in place of its root, and damaged if it cannot be read: 'logfold verify LOG' says more.`;

export function snapshotsCommand() {
  return readingCommand('snapshots', 'List the snapshots of a log, newest first.')
    .argument('<log>', 'the log', parse.log)
    .option('--limit <n>', 'the most snapshots', parse.count, LIMIT)
    .addHelpText('after', HELP)
    .addHelpText('after', examples('snapshots budget', 'snapshots budget --limit 1000 --json'))
    .action((log, { limit, ...options }) =>
      inEnvironment(options, async ({ deps }, output) => {
        const found = await output.during('Snapshots', async (progress) => {
          const snapshots: ListedSnapshot[] = [];
          for await (const snapshot of listSnapshots(deps, log)) {
            snapshots.push(snapshot);
            progress.update(snapshots.length);
            if (snapshots.length > limit) break;
          }
          return snapshots;
        });
        const hasMore = found.length > limit;
        const snapshots = found.slice(0, limit);
        if (hasMore) output.note('Left out: older snapshots. Raise --limit to show more.');
        output.result({ log, snapshots, hasMore }, describe(snapshots));
      }),
    );
}

function describe(snapshots: readonly ListedSnapshot[]): string {
  const rows: TableRow[] = [];
  const errors: string[] = [];
  for (const { position, created, status, root, error } of snapshots) {
    const place = formatPosition(position);
    const reducer = root === null ? '-' : `${root.reducer.name} v${root.reducer.version}`;
    const hash = root?.stateHash?.slice(0, HASH_LENGTH) ?? '-';
    const date = created === null ? '-' : formatDate(created);
    rows.push([place, date, status, reducer, root?.items ?? '-', root?.bufferedEdits ?? '-', hash]);
    if (error !== null) errors.push(`${place} is damaged: ${error.code}: ${pastable(error.message)}`);
  }
  const head = ['snapshot', 'created', 'status', 'reducer', 'items', 'buffered', 'state hash'];
  return [fittedTable(head, rows, { spare: ['buffered', 'items'], long: { reducer: 0 } }).text, ...errors].join('\n');
}
