import { toHex } from '../../codec/bytes.ts';
import { type ArchiveJob, describeOutcome } from '../../workers/jobs/job.ts';
import { archiveSegment, planArchive, reportArchive } from '../../workers/retention/archive-segment.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { POLICY_HELP, policyChanges, policyCommand } from '../policy-options.ts';
import { dueSegments, policyOfLog } from '../retention.ts';

const REPLACE_ARCHIVES =
  'replace archive names that another program wrote, after the new archive was compared with the table';

export function archiveCommand() {
  return policyCommand('archive', 'Write archives of segments into the bucket. The entries stay in the table.')
    .argument('<log>', 'the log', parse.log)
    .argument('[segment]', 'the segment; by default, all segments that the policy makes due', parse.number)
    .option('--dry-run', 'write nothing, and print what would be written', false)
    .option('--replace-foreign', REPLACE_ARCHIVES, false)
    .addHelpText('after', POLICY_HELP)
    .addHelpText('after', examples('archive budget', 'archive budget 3 --dry-run'))
    .action((log, number, options) =>
      inEnvironment(options, async (environment, output) => {
        const { replaceForeign } = options;
        const deps = { ...environment.deps, replaceForeign };
        const policy = await policyOfLog(environment, log, { ...policyChanges(options), archive: true });
        const numbers = number === undefined ? await dueSegments(environment, log, policy, 'archive') : [number];
        const archived: object[] = [];
        const lines: string[] = [];
        await output.during('Entries written and verified', async (progress) => {
          for (const segment of numbers) {
            let done = 0;
            const onEntries = (entries: number): void => {
              done = Math.max(done, entries);
              progress.update(done);
            };
            const job: ArchiveJob = { kind: 'archive', log, segment };
            const work = options.dryRun ? planArchive : archiveSegment;
            const result = await work({ ...deps, onEntries }, job);
            archived.push({ ...result, ...('hash' in result && { hash: toHex(result.hash) }) });
            lines.push(describeOutcome(job, reportArchive(result), options));
          }
        });
        const none = 'No segment is due. See the policy under --help, or name a segment.';
        output.result(
          { log, dryRun: options.dryRun, segments: archived },
          lines.length === 0 ? none : lines.join('\n'),
        );
      }),
    );
}
