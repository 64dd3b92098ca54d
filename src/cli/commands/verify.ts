import { describeProblem, verify } from '../../workers/verify.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { formatBytes } from '../output.ts';

export function verifyCommand() {
  return command('verify', 'Check that every chunk of every snapshot is there and hashes to its name.')
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ deps }, output) => {
        const progress = output.progress('Chunks checked');
        try {
          const result = await verify({ ...deps, onProgress: (chunks) => progress.update(chunks) }, log);
          progress.stop();
          const { snapshots, chunks, bytes, problems } = result;
          const found = problems.length === 0 ? 'nothing is missing' : `${problems.length} PROBLEMS`;
          const summary = `${snapshots} snapshots, ${chunks} chunks, ${formatBytes(bytes)}: ${found}`;
          output.result({ log, ...result }, [summary, ...problems.map(describeProblem)].join('\n'));
          if (problems.length > 0) process.exitCode = 1;
        } finally {
          progress.stop();
        }
      }),
    );
}
