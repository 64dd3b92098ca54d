import { describeProblem, verify } from '../../workers/audit/verify.ts';
import { count, formatBytes } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';

const HELP = `
Archives are compared with the entries that are still in the table, so a change after archival is found before the
entries leave. Exit code 1 says that something is missing or differs. The command changes nothing.`;

export function verifyCommand() {
  return readingCommand(
    'verify',
    'Check that a log is complete: its entries, its archives, and every chunk of every kept snapshot.',
  )
    .argument('<log>', 'the log', parse.log)
    .addHelpText('after', HELP)
    .addHelpText('after', examples('verify budget'))
    .action((log, options) =>
      inEnvironment(options, async ({ deps }, output) => {
        const result = await output.during('Chunks checked', ({ update: onProgress }) =>
          verify({ ...deps, onProgress }, log),
        );
        const { snapshots, archived, left, expired, chunks, bytes, problems } = result;
        const found = problems.length === 0 ? 'nothing is missing' : count(problems.length, 'PROBLEM', 'PROBLEMS');
        const unarchived = expired === 0 ? '' : `, ${count(expired, 'segment')} expired without an archive`;
        const checked = `${count(snapshots, 'snapshot')}, ${count(chunks, 'chunk')}, ${formatBytes(bytes)}, ${count(archived, 'archive')}${unarchived}`;
        const summary = `${checked}: ${found}`;
        const note =
          left === 0
            ? []
            : [`${count(left, 'segment')} left the table: changes of other programs after archival are not known`];
        output.result({ log, ...result }, [summary, ...note, ...problems.map(describeProblem)].join('\n'));
        if (problems.length > 0) process.exitCode = 1;
      }),
    );
}
