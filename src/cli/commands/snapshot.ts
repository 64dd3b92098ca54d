import { ObjectInvalidError, printable, SegmentWithoutSnapshotError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { newestSnapshot } from '../../log/last-snapshot.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { clearStop, readStop } from '../../snapshot/stop.ts';
import { describeOutcome, type FlushJob } from '../../workers/jobs/job.ts';
import { flushSnapshot, reportFlush } from '../../workers/snapshot/flush-snapshot.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { requireOwnSchema } from '../mapping.ts';
import { pastable } from '../next-step.ts';
import { manualTime } from '../reducer.ts';

export function snapshotCommand() {
  return command('snapshot', 'Append a Snapshot entry, which asks for a snapshot of all entries before it.')
    .argument('<log>', 'the log', parse.log)
    .addHelpText('after', examples('snapshot budget'))
    .action((log, options) => {
      requireOwnSchema(options, log);
      return inEnvironment(options, async ({ logs, deps }, output) => {
        const { position } = await logs.client.addSnapshot(log, await manualTime(deps, log));
        output.result({ log, position }, `Snapshot entry at ${formatPosition(position)}`);
      });
    });
}

export function flushCommand() {
  return command('flush', 'Flush the newest snapshot: write its buffered edits into the tree, however few they are.')
    .argument('<log>', 'the log', parse.log)
    .addHelpText('after', examples('flush budget'))
    .action((log, options) =>
      inEnvironment(options, async ({ deps, requireReducer }, output) => {
        await requireReducer(log);
        const position = await newestSnapshot(deps.store, log);
        if (position === undefined) {
          throw new SegmentWithoutSnapshotError('this log has no complete snapshot yet', {
            log,
            advice: "Run 'logfold sweep --log LOG' first, which completes one that is due",
          });
        }
        const job: FlushJob = { kind: 'flush', log, position };
        const result = await output.during('Snapshots flushed', () => flushSnapshot(deps, job));
        const report = reportFlush(result);
        output.result({ log, ...result }, describeOutcome(job, report));
        // The snapshot still has its buffered edits.
        if (report.level === 'warn' || report.level === 'error') process.exitCode = 1;
      }),
    );
}

export function resumeCommand() {
  return command(
    'resume',
    'Resume a stopped log once the cause of the stop is fixed: remove the stop note and ask for a snapshot.',
  )
    .argument('<log>', 'the log', parse.log)
    .addHelpText('after', examples('resume budget'))
    .action((log, options) =>
      inEnvironment(options, async ({ logs, deps, mapped }, output) => {
        await queryNewestSegments(deps.store, log, { consistent: true });
        const stop = await readStop(deps.blobs, log).catch((error: unknown) => {
          // The error of an unreadable note advises to run this command.
          if (error instanceof ObjectInvalidError) return undefined;
          throw error;
        });
        // The note goes first. Otherwise a running pipeline refuses the job of the new Snapshot
        // entry.
        await clearStop(deps.blobs, log);
        const was = stop === undefined ? 'was not stopped' : `was stopped by ${stop.code}`;
        // Nobody but the application appends to a mapped log, whose Snapshot entries are virtual.
        const position =
          mapped === undefined ? (await logs.client.addSnapshot(log, await manualTime(deps, log))).position : null;
        const next =
          position === null
            ? "'logfold sweep' builds the snapshot that is due"
            : `Snapshot entry at ${formatPosition(position)}`;
        output.result({ log, position, wasStopped: stop ?? null }, `${printable(log)} ${was}; ${pastable(next)}`);
      }),
    );
}
