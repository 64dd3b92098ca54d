import type { WrittenArchive } from '../../archive/frame-list.ts';
import { toHex } from '../../codec/bytes.ts';
import type { PassedOver } from '../../log/guard.ts';
import { archiveSegment, planArchive } from '../../workers/retention/archive-segment.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { countEntries, formatBytes } from '../format.ts';
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
        const archived = [];
        const lines: string[] = [];
        const progress = output.progress('Entries written and verified');
        try {
          for (const segment of numbers) {
            let done = 0;
            const onEntries = (entries: number): void => {
              done = Math.max(done, entries);
              progress.update(done);
            };
            const place = { log, segment };
            if (options.dryRun) {
              const plan = await planArchive({ ...deps, onEntries }, place);
              const outcome = plan === undefined ? 'present' : 'would archive';
              archived.push({ segment, outcome, ...plan, ...hexHash(plan) });
              lines.push(describe(segment, plan, 'would be archived'));
            } else {
              const result = await archiveSegment({ ...deps, onEntries }, place);
              // Without a deadline, a job ends in its first run.
              if (result.outcome === 'archiving') continue;
              archived.push({ ...result, ...hexHash(result) });
              lines.push(describe(segment, result.outcome === 'present' ? undefined : result, 'is archived'));
            }
          }
        } finally {
          progress.stop();
        }
        const none = 'No segment is due. See the policy under --help, or name a segment.';
        output.result(
          { log, dryRun: options.dryRun, segments: archived },
          lines.length === 0 ? none : lines.join('\n'),
        );
      }),
    );
}

function hexHash(written: object | undefined): { readonly hash?: string } {
  return written !== undefined && 'hash' in written && written.hash instanceof Uint8Array
    ? { hash: toHex(written.hash) }
    : {};
}

/** @param written undefined if the segment has an archive already */
function describe(segment: number, written: WrittenArchive | PassedOver<unknown> | undefined, done: string): string {
  if (written === undefined) return `segment ${segment} already has an archive`;
  if ('reason' in written) return `segment ${segment} was not archived: ${written.reason}`;
  const { entries, bytes, stored } = written;
  return `segment ${segment} ${done}: ${countEntries(entries)}, ${formatBytes(bytes)} as ${formatBytes(stored)}`;
}
