import { SegmentWithoutSnapshotError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { type FlushResult, flushSnapshot } from '../../workers/snapshot/flush-snapshot.ts';
import { newestSnapshot } from '../../workers/snapshot/snapshot-entry.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count } from '../format.ts';
import { formatBytes } from '../output.ts';

export function flushCommand() {
  return command('flush', 'Flush the newest snapshot: write its buffered edits into the tree, however few they are.')
    .alias('compact')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ deps, requireReducer }, output) => {
        await requireReducer(log);
        const position = await newestSnapshot(deps.store, log);
        if (position === undefined) {
          throw new SegmentWithoutSnapshotError('this log has no complete snapshot yet', {
            log,
            advice: "Run 'logfold sweep --log LOG' first, which completes one",
          });
        }
        const result = await output.during('Snapshots flushed', () =>
          flushSnapshot(deps, { kind: 'flush', log, position }),
        );
        output.result({ log, ...result }, describe(result));
        // In both cases the snapshot still has its buffered edits.
        if (result.outcome === 'stopped' || result.outcome === 'foreign') process.exitCode = 1;
      }),
    );
}

function describe(result: FlushResult): string {
  const snapshot = `The snapshot at ${formatPosition(result.position)}`;
  switch (result.outcome) {
    case 'flushed': {
      const size = formatBytes(result.bytesWritten + result.rootBytes);
      return `${snapshot} is flushed: ${count(result.flushedEdits, 'edit')} from its buffers; ${count(result.chunksWritten, 'chunk')} and the root written, ${size}`;
    }
    case 'flushing':
      return `${snapshot} is flushed in part`;
    case 'empty':
      return `${snapshot} has no buffered edits`;
    case 'passed':
      return `${snapshot} is not the newest any more: the snapshot at ${formatPosition(result.newest)} is newer`;
    case 'foreign':
      return `${snapshot} was not flushed: ${result.reason}`;
    case 'stopped':
      return `${snapshot} was not flushed, because the log is stopped: ${result.stop.message}`;
  }
}
