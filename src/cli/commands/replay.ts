import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FilesystemBlobStore } from '../../adapters/filesystem-blob-store.ts';
import { formatPosition } from '../../log/position.ts';
import { chunkStore } from '../../snapshot/snapshots.ts';
import { replay } from '../../workers/replay.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { requirePosition } from '../require-position.ts';

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
      inEnvironment(options, async ({ deps }, output) => {
        if (options.at !== undefined) await requirePosition(deps, log, options.at);
        const directory = await mkdtemp(join(tmpdir(), 'logfold-replay-'));
        const progress = output.progress('Entries folded');
        try {
          const scratch = chunkStore(new FilesystemBlobStore(directory, { fsync: false }), log);
          const onProgress = (entries: number) => progress.update(entries);
          const result = await replay({ ...deps, scratch, onProgress }, log, options.at);
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
          await rm(directory, { recursive: true });
        }
      }),
    );
}
