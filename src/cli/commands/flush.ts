import { SegmentWithoutSnapshotError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { type FlushResult, flushSnapshot } from '../../workers/snapshot/flush-snapshot.ts';
import { newestSnapshot } from '../../workers/snapshot/snapshot-entry.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count } from '../format.ts';
import { formatBytes } from '../output.ts';

export function flushCommand() {
  return command('compact', 'Settle the newest snapshot: write the edits that wait in it, however few they are.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ deps, requireReducer }, output) => {
        await requireReducer(log);
        const position = await newestSnapshot(deps.store, log);
        if (position === undefined) {
          throw new SegmentWithoutSnapshotError('this log has no completed snapshot yet', {
            log,
            advice: "Run 'logfold sweep --log LOG' first, which completes one",
          });
        }
        const result = await output.during('Snapshots settled', () =>
          flushSnapshot(deps, { kind: 'compact', log, position }),
        );
        output.result({ log, ...result }, describe(result));
        // Neither is settled: the one must not be, the other cannot.
        if (result.outcome === 'stopped' || result.outcome === 'foreign') process.exitCode = 1;
      }),
    );
}

function describe(result: FlushResult): string {
  const snapshot = `The snapshot at ${formatPosition(result.position)}`;
  switch (result.outcome) {
    case 'compacted': {
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      return `${snapshot} is settled: ${count(result.waited, 'edit')} waited, ${count(result.chunksWritten, 'chunk')} and the root written, ${size}`;
    }
    case 'settling':
      return `${snapshot} is settled in part`;
    case 'settled':
      return `${snapshot} was settled already`;
    case 'passed':
      return `${snapshot} is no longer the newest: ${formatPosition(result.newest)} is`;
    case 'foreign':
      return `${snapshot} is left as it is: ${result.reason}`;
    case 'stopped':
      return `${snapshot} is left as it is, since the log is stopped: ${result.stop.message}`;
  }
}
