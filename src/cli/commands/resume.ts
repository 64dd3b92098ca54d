import { ObjectInvalidError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { clearStop, readStop } from '../../snapshot/stop.ts';
import { command, inEnvironment, parse } from '../command.ts';

export function resumeCommand() {
  return command('resume', 'Let the snapshots of a stopped log go on, once what stopped it is mended.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client, deps }, output) => {
        await queryNewestSegments(deps.store, log, { consistent: true });
        const stop = await readStop(deps.blobs, log).catch((error: unknown) => {
          // Removing a note that cannot be read is what its error advises.
          if (error instanceof ObjectInvalidError) return undefined;
          throw error;
        });
        // The note goes first: a pipeline that runs beside would refuse the snapshot that is asked for next.
        await clearStop(deps.blobs, log);
        const { position } = await client.addSnapshot(log);
        const was = stop === undefined ? 'was not stopped' : `was stopped by ${stop.code}`;
        output.result(
          { log, position, wasStopped: stop ?? null },
          `${log} ${was}; a snapshot is asked for at ${formatPosition(position)}`,
        );
      }),
    );
}
