import { type CollectResult, collectLog } from '../../workers/gc/collect.ts';
import { count, formatBytes } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { formatDuration } from '../format.ts';
import { POLICY_HELP, policyChanges, policyCommand } from '../policy-options.ts';
import { policyOfLog, warnOfShortGrace } from '../retention.ts';

export function collectCommand() {
  return policyCommand(
    'collect',
    'Collect garbage of a log: chunks, roots and bodies that nothing reaches, and unfinished uploads.',
  )
    .argument('<log>', 'the log', parse.log)
    .option('--dry-run', 'remove nothing, and list what would be removed', false)
    .addHelpText(
      'after',
      `${POLICY_HELP}\nThe first run lists the garbage. A run after the grace period removes it. With --grace 0s, the first run removes it.`,
    )
    .addHelpText('after', examples('collect budget --dry-run', 'collect budget --grace 0s'))
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const policy = await policyOfLog(environment, log, policyChanges(options));
        warnOfShortGrace(policy, output);
        const { graceSeconds, keepSnapshots } = policy;
        const dryRunAt = options.dryRun ? environment.deps.now() : undefined;
        const result = await output.during('Objects checked', ({ update: onProgress }) =>
          collectLog({ ...environment.deps, onProgress }, { log }, { graceSeconds, keepSnapshots, dryRunAt }),
        );
        if (result.outcome === 'refused') throw result.error;
        // Without a deadline, there is no other outcome.
        if (result.outcome !== 'collected') return;
        output.result({ log, dryRun: options.dryRun, ...result }, describe(result, graceSeconds));
      }),
    );
}

function describe(result: Extract<CollectResult, { outcome: 'collected' }>, graceSeconds: number): string {
  const { removed, condemned, kept, locked, aborted, foreign, keys } = result;
  const [removes, aborts] = keys === undefined ? ['removed', 'aborted'] : ['would be removed', 'would be aborted'];
  const lines = [
    `${count(removed.objects, 'object')} ${removes}, ${formatBytes(removed.bytes)}`,
    `${condemned.objects} unreachable, removable in ${formatDuration(graceSeconds)}, ${formatBytes(condemned.bytes)}`,
    `${kept.objects} kept, ${formatBytes(kept.bytes)}`,
  ];
  if (locked !== undefined) {
    lines.push(`${count(locked.objects, 'object')} locked by the bucket, ${formatBytes(locked.bytes)}`);
  }
  if (aborted > 0) lines.push(`${count(aborted, 'unfinished upload')} ${aborts}`);
  if (foreign.length > 0)
    lines.push(`${count(foreign.length, 'object')} that logfold did not write, kept: ${foreign.join(', ')}`);
  for (const key of keys?.removed ?? []) lines.push(`  would remove ${key}`);
  for (const key of keys?.condemned ?? []) lines.push(`  would condemn ${key}`);
  return lines.join('\n');
}
