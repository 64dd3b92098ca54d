import { withScratch } from '../../adapters/scratch.ts';
import { formatPosition } from '../../log/position.ts';
import { replay } from '../../workers/replay.ts';
import { requirePosition } from '../../workers/require-position.ts';
import { command, inEnvironment, parse } from '../command.ts';

export function replayCommand() {
  return command(
    'replay',
    'Fold a log from its beginning and compare with the stored snapshot; exit code 1 where they differ.',
  )
    .argument('<log>', 'the log', parse.log)
    .option(
      '--at <position>',
      'replay up to this entry, as SEGMENT/ENTRY; to the newest snapshot by default',
      parse.position,
    )
    .action((log, options) =>
      inEnvironment(options, async ({ deps, requireReducer }, output) => {
        await requireReducer(log);
        if (options.at !== undefined) await requirePosition(deps, log, options.at);
        const progress = output.progress('Entries folded');
        try {
          const onProgress = (entries: number) => progress.update(entries);
          const result = await withScratch(log, (scratch) => replay({ ...deps, scratch, onProgress }, log, options.at));
          progress.stop();
          const verdict = result.equal ? 'equals' : 'DIFFERS from';
          const place = formatPosition(result.position);
          output.result(
            { log, ...result, snapshot: result.snapshot ?? null },
            `The fold of ${result.entries} entries ${verdict} what is stored at ${place}\n` +
              `  replayed ${result.replayed}\n  stored   ${result.stored}`,
          );
          if (!result.equal) process.exitCode = 1;
        } finally {
          progress.stop();
        }
      }),
    );
}
