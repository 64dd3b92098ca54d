import { formatPosition } from '../../log/position.ts';
import { clearStop, readStop } from '../../snapshot/stop.ts';
import { command, inEnvironment, parse } from '../command.ts';

export function resumeCommand() {
  return command('resume', 'Let the snapshots of a stopped log go on, once what stopped it is mended.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client, deps }, output) => {
        const stop = await readStop(deps.blobs, log).catch(() => undefined);
        // The entry comes first: it fails where the log does not exist, and the note must not be lost then.
        const { position } = await client.addSnapshot(log);
        await clearStop(deps.blobs, log);
        const was = stop === undefined ? 'was not stopped' : `was stopped by ${stop.code}`;
        output.result(
          { log, position, wasStopped: stop ?? null },
          `${log} ${was}; a snapshot is asked for at ${formatPosition(position)}`,
        );
      }),
    );
}
