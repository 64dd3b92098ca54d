import { withScratch } from '../../adapters/filesystem/scratch.ts';
import { comparePositions, formatPosition } from '../../ids/position.ts';
import { assertPosition } from '../../log/newest.ts';
import { type Replayed, replay } from '../../workers/audit/replay.ts';
import { countEntries } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';

export function replayCommand() {
  return readingCommand(
    'replay',
    'Fold a log from its beginning and compare with the stored snapshot. Exit code 0 only if both are equal.',
  )
    .argument('<log>', 'the log', parse.log)
    .option(
      '--at <position>',
      'replay up to this entry, as SEGMENT/ENTRY; by default up to the newest snapshot',
      parse.position,
    )
    .option(
      '--from <position>',
      'start from the snapshot that is stored at this entry, which is not checked; by default from the beginning',
      parse.position,
    )
    .addHelpText('after', examples('replay budget', 'replay budget --at 4/200 --from 4/0'))
    .action((log, options) =>
      inEnvironment(options, async ({ deps, requireReducer }, output) => {
        await requireReducer(log);
        if (options.at !== undefined) await assertPosition(deps, log, options.at);
        const result = await output.during('Entries folded', ({ update: onProgress }) =>
          withScratch(log, (scratch) => replay({ ...deps, scratch, onProgress }, log, options)),
        );
        output.result({ log, ...result }, describe(result));
        if (result.equal !== true) process.exitCode = 1;
      }),
    );
}

function describe({ from, position, entries, equal, snapshot, replayed, stored }: Replayed): string {
  const since = from === null ? '' : ` since the snapshot at ${formatPosition(from)}`;
  const fold = `The fold of ${countEntries(entries)}${since}`;
  const place = formatPosition(position);
  if (snapshot === null) {
    return `${fold} could not be compared: no snapshot is stored at ${place} or before\n  replayed ${replayed}`;
  }
  const verdict = `${fold} ${equal === true ? 'equals' : 'DIFFERS from'} the stored state at ${place}`;
  const on =
    comparePositions(snapshot, position) === 0
      ? ''
      : `: the snapshot at ${formatPosition(snapshot)} and the entries since`;
  return `${verdict}${on}\n  replayed ${replayed}\n  stored   ${stored}`;
}
