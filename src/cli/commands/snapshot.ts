import { formatPosition } from '../../log/position.ts';
import { command, inEnvironment, parse } from '../command.ts';

export function snapshotCommand() {
  return command('snapshot', 'Append a Snapshot entry, which asks for a snapshot of everything before it.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client }, output) => {
        const { position } = await client.addSnapshot(log);
        output.result({ log, position }, `Snapshot entry at ${formatPosition(position)}`);
      }),
    );
}
