import { describeProblem, verify } from '../../workers/inspect/verify.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count } from '../format.ts';
import { formatBytes } from '../output.ts';

export function verifyCommand() {
  return command(
    'verify',
    'Check that all of a log is there: its entries, its archives, and every chunk of every snapshot that is kept.',
  )
    .argument('<log>', 'the log', parse.log)
    .action((log, options) =>
      inEnvironment(options, async ({ deps }, output) => {
        const progress = output.progress('Chunks checked');
        try {
          const result = await verify({ ...deps, onProgress: (chunks) => progress.update(chunks) }, log);
          progress.stop();
          const { snapshots, archived, expired, chunks, bytes, problems } = result;
          const found = problems.length === 0 ? 'nothing is missing' : count(problems.length, 'PROBLEM', 'PROBLEMS');
          const gone =
            expired === 0 ? '' : `, ${count(expired, 'segment')} of which entries are gone and in no archive`;
          const what = `${count(snapshots, 'snapshot')}, ${count(chunks, 'chunk')}, ${formatBytes(bytes)}, ${count(archived, 'archive')}${gone}`;
          const summary = `${what}: ${found}`;
          output.result({ log, ...result }, [summary, ...problems.map(describeProblem)].join('\n'));
          if (problems.length > 0) process.exitCode = 1;
        } finally {
          progress.stop();
        }
      }),
    );
}
