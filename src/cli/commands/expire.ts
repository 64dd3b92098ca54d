import { UsageError } from '../../errors.ts';
import { checkPolicy } from '../../retention/retention-policy.ts';
import { describeOutcome, type ExpireJob } from '../../workers/jobs/job.ts';
import { countEntries } from '../../workers/jobs/report.ts';
import { type ExpireResult, expireSegment, reportExpiry } from '../../workers/retention/expire-segment.ts';
import { requireSegment } from '../../workers/retention/segment-state.ts';
import { undoExpiry } from '../../workers/retention/undo-expiry.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { POLICY_HELP, policyChanges, policyCommand } from '../policy-options.ts';
import {
  capacityShareOption,
  dueSegments,
  policyOfLog,
  rateLimiterOf,
  requireTtl,
  warnOfShortGrace,
} from '../retention.ts';

export function expireCommand() {
  return policyCommand(
    'expire',
    'Expire segments: their entries leave the table after a grace period. If the policy archives, they must be archived.',
  )
    .argument('<log>', 'the log', parse.log)
    .argument('[segment]', 'the segment; by default, all segments that the policy makes due', parse.number)
    .option('--undo', 'undo the expiry of a segment, while its entries are still in the table', false)
    .addOption(capacityShareOption())
    .option('--dry-run', 'change nothing, and print what would be done', false)
    .addHelpText('after', `${POLICY_HELP}\nIf the policy says never, this command uses --expire ttl.`)
    .addHelpText(
      'after',
      examples('expire budget --keep-segments 10 --expire ttl', 'expire budget 3 --dry-run', 'expire budget 3 --undo'),
    )
    .action((log, number, options) =>
      inEnvironment(options, async (environment, output) => {
        const { dryRun, undo } = options;
        const rateLimiter = await rateLimiterOf(environment, options.capacityShare);
        const deps = { ...environment.deps, rateLimiter };
        if (undo) {
          if (number === undefined) {
            throw new UsageError('--undo needs a segment', {
              log,
              advice: "Name the segment: 'logfold expire LOG SEGMENT --undo'",
            });
          }
          if (Object.keys(policyChanges(options)).length > 0) {
            throw new UsageError('--undo does not use the policy, but policy options are given', {
              advice: 'Leave out the policy options; nothing was changed',
            });
          }
          const { expiry: before } = await requireSegment(deps.tables, { log, segment: number });
          const result = await output.during('Entries checked', (progress) =>
            undoExpiry({ ...deps, onEntries: progress.update }, { log, segment: number }, { dryRun }),
          );
          const would = dryRun ? 'would stay' : 'stays';
          const removed = dryRun ? 'would lose' : result.entries === 1 ? 'loses' : 'lose';
          const expiry = result.entries === 1 ? 'its expiry' : 'their expiry';
          const text = `segment ${number} ${would} in the table: ${countEntries(result.entries)} ${removed} ${expiry}`;
          const none = `segment ${number} does not expire`;
          return output.result({ log, dryRun, ...result }, before === undefined ? none : text);
        }
        const own = await policyOfLog(environment, log, policyChanges(options));
        const policy = checkPolicy({ ...own, expire: own.expire === 'never' ? 'ttl' : own.expire }, log);
        const numbers = number === undefined ? await dueSegments(environment, log, policy, 'expire') : [number];
        if (policy.expire === 'ttl' && numbers.length > 0) await requireTtl(environment, output, log);
        if (numbers.length > 0) warnOfShortGrace(policy, output);
        const results: ExpireResult[] = [];
        await output.during('Entries processed', async (progress) => {
          const onEntries = (entries: number): void => progress.update(entries);
          for (const segment of numbers) {
            const how = { byHand: true, dryRun };
            results.push(await expireSegment({ ...deps, onEntries }, { log, segment }, policy, how));
          }
        });
        const lines = results.map((result) => {
          const job: ExpireJob = { kind: 'expire', log, segment: result.segment };
          return `${describeOutcome(job, reportExpiry(result), options)}${dryRun ? '' : adviceAfter(result)}`;
        });
        const none = 'No segment is due. See the policy under --help, or name a segment.';
        output.result({ log, dryRun, segments: results }, lines.length === 0 ? none : lines.join('\n'));
      }),
    );
}

/** Advice after a result that does not end the expiry. */
function adviceAfter({ outcome }: ExpireResult): string {
  if (outcome === 'waiting') return '. Run the command again then, or let the sweep do it.';
  return outcome === 'progress' ? '. Run the command again.' : '';
}
