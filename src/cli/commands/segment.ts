import { formatPosition } from '../../log/position.ts';
import { command, inEnvironment, parse } from '../command.ts';

export function segmentCommand() {
  return command('segment', 'End the newest segment and start the next. Refused until the newest has a snapshot.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ client }, output) => {
        const { position, segment } = await client.startSegment(log);
        output.result({ log, segment, position }, `Segment ${segment} starts at ${formatPosition(position)}`);
      }),
    );
}
