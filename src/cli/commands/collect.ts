import { type CollectResult, collectLog } from '../../workers/gc/collect.ts';
import { inEnvironment, parse } from '../command.ts';
import { count, formatDuration } from '../format.ts';
import { formatBytes } from '../output.ts';
import { POLICY_HELP, policyChanges, policyCommand } from '../policy-options.ts';
import { policyOfLog, warnOfShortGrace } from '../retention.ts';

export function collectCommand() {
  return policyCommand(
    'collect',
    'Remove what nothing of a log reaches any more: chunks, roots, bodies, unfinished uploads.',
  )
    .argument('<log>', 'the log', parse.log)
    .option('--dry-run', 'remove nothing, and list what would be removed', false)
    .addHelpText(
      'after',
      `${POLICY_HELP}\nWhat is found is removed by a later run, a grace period from now. With --grace 0s it goes at once.`,
    )
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const policy = await policyOfLog(environment, log, policyChanges(options));
        warnOfShortGrace(policy, output);
        const { graceSeconds, keepSnapshots } = policy;
        const dryRunAt = options.dryRun ? environment.deps.now() : undefined;
        const progress = output.progress('Objects looked at');
        try {
          const onProgress = (objects: number): void => progress.update(objects);
          const deps = { ...environment.deps, onProgress };
          const result = await collectLog(deps, { log }, { graceSeconds, keepSnapshots, dryRunAt });
          progress.stop();
          if (result.outcome === 'refused') throw result.error;
          // Without a deadline there is no other outcome.
          if (result.outcome !== 'collected') return;
          output.result({ log, dryRun: options.dryRun, ...result }, describe(result, graceSeconds));
        } finally {
          progress.stop();
        }
      }),
    );
}

function describe(result: Extract<CollectResult, { outcome: 'collected' }>, graceSeconds: number): string {
  const { removed, condemned, kept, aborted, foreign, keys } = result;
  const [would, givenUp] = keys === undefined ? ['removed', 'given up'] : ['would be removed', 'would be given up'];
  const lines = [
    `${count(removed.objects, 'object')} ${would}, ${formatBytes(removed.bytes)}`,
    `${condemned.objects} unreachable, to go in ${formatDuration(graceSeconds)}, ${formatBytes(condemned.bytes)}`,
    `${kept.objects} kept, ${formatBytes(kept.bytes)}`,
  ];
  if (aborted > 0) lines.push(`${count(aborted, 'unfinished upload')} ${givenUp}`);
  if (foreign.length > 0)
    lines.push(`${count(foreign.length, 'object')} not of logfold's making, left alone: ${foreign.join(', ')}`);
  for (const key of keys?.removed ?? []) lines.push(`  would remove ${key}`);
  for (const key of keys?.condemned ?? []) lines.push(`  would condemn ${key}`);
  return lines.join('\n');
}
