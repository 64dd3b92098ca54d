import { toHex } from '../../codec/bytes.ts';
import { archiveSegment, planArchive } from '../../workers/retention/archive-segment.ts';
import { inEnvironment, parse } from '../command.ts';
import { countEntries, formatBytes } from '../format.ts';
import { POLICY_HELP, policyChanges, policyCommand } from '../policy-options.ts';
import { dueSegments, policyOfLog } from '../retention.ts';

export function archiveCommand() {
  return policyCommand('archive', 'Write archives of segments into the bucket. The entries stay in the table.')
    .argument('<log>', 'the log', parse.log)
    .argument('[segment]', 'the segment; by default, all segments that the policy makes due', parse.number)
    .option('--dry-run', 'write nothing, and print what would be written', false)
    .addHelpText('after', POLICY_HELP)
    .action((log, number, options) =>
      inEnvironment(options, async (environment, output) => {
        const { deps } = environment;
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
              archived.push({
                segment,
                outcome: plan === undefined ? 'present' : 'would archive',
                ...plan,
                ...hexHash(plan),
              });
              lines.push(
                plan === undefined ? hasArchive(segment) : `segment ${segment} would be archived: ${sizes(plan)}`,
              );
            } else {
              const result = await archiveSegment({ ...deps, onEntries }, place);
              // Without a deadline, a job ends in its first run.
              if (result.outcome === 'archiving') continue;
              archived.push({ ...result, ...hexHash(result) });
              lines.push(
                result.outcome === 'present' ? hasArchive(segment) : `segment ${segment} is archived: ${sizes(result)}`,
              );
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

function hasArchive(segment: number): string {
  return `segment ${segment} already has an archive`;
}

function sizes({
  entries,
  bytes,
  stored,
}: {
  readonly entries: number;
  readonly bytes: number;
  readonly stored: number;
}): string {
  return `${countEntries(entries)}, ${formatBytes(bytes)} as ${formatBytes(stored)}`;
}
