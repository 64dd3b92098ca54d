import { UsageError } from '../../errors.ts';
import { checkPolicy } from '../../retention/retention-policy.ts';
import { type ExpireResult, expireSegment } from '../../workers/retention/expire-segment.ts';
import { requireSegment } from '../../workers/retention/segment-state.ts';
import { undoExpiry } from '../../workers/retention/undo-expiry.ts';
import { inEnvironment, parse } from '../command.ts';
import { countEntries, formatDate } from '../format.ts';
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
  return policyCommand('expire', 'Let the entries of archived segments leave the table, after a grace period.')
    .argument('<log>', 'the log', parse.log)
    .argument('[segment]', 'its segment; all that are due by the policy where it is left out', parse.number)
    .option('--undo', 'take it back, while the entries are still there', false)
    .addOption(capacityShareOption())
    .option('--dry-run', 'change nothing, and say what would be done', false)
    .addHelpText('after', `${POLICY_HELP}\nWhere the policy is never to expire, --expire is ttl here.`)
    .action((log, number, options) =>
      inEnvironment(options, async (environment, output) => {
        const { dryRun, undo } = options;
        const pace = await rateLimiterOf(environment, options.capacityShare);
        const deps = { ...environment.deps, pace };
        if (undo) {
          if (number === undefined) {
            throw new UsageError('it is not said for which segment', {
              log,
              advice: "Name the segment: 'logfold expire LOG SEGMENT --undo'",
            });
          }
          if (Object.keys(policyChanges(options)).length > 0) {
            throw new UsageError('--undo takes back that a segment expires, and no policy has a say in that', {
              advice: 'Leave out what the policy would be; nothing was changed',
            });
          }
          const { expires } = await requireSegment(deps.tables, { log, segment: number });
          const result = await output.during('Entries looked at', (progress) =>
            undoExpiry(
              { ...deps, onEntries: (entries) => progress.update(entries) },
              { log, segment: number },
              { dryRun },
            ),
          );
          const would = dryRun ? 'would stay: from' : 'stays: from';
          const text = `segment ${number} ${would} ${countEntries(result.entries)} ${result.entries === 1 ? 'its' : 'their'} expiry is taken away`;
          const none = `segment ${number} does not expire`;
          return output.result({ log, dryRun, ...result }, expires === undefined ? none : text);
        }
        const own = await policyOfLog(environment, log, policyChanges(options));
        const policy = checkPolicy({ ...own, expire: own.expire === 'never' ? 'ttl' : own.expire }, log);
        const numbers = number === undefined ? await dueSegments(environment, log, policy, 'expire') : [number];
        if (policy.expire === 'ttl' && numbers.length > 0) await requireTtl(environment, output, log);
        if (numbers.length > 0) warnOfShortGrace(policy, output);
        const results: ExpireResult[] = [];
        await output.during('Entries done', async (progress) => {
          const onEntries = (entries: number): void => progress.update(entries);
          for (const segment of numbers) {
            const how = { byHand: true, dryRun };
            results.push(await expireSegment({ ...deps, onEntries }, { log, segment }, policy, how));
          }
        });
        const lines = results.map((result) => describe(result, { dryRun, deletes: policy.expire === 'delete' }));
        const none = 'No segment is due: see the policy under --help, or name a segment.';
        output.result({ log, dryRun, segments: results }, lines.length === 0 ? none : lines.join('\n'));
      }),
    );
}

function describe(result: ExpireResult, how: { readonly dryRun: boolean; readonly deletes: boolean }): string {
  const segment = `segment ${result.segment}`;
  switch (result.outcome) {
    case 'expired': {
      const done = result.entries === 1 ? ['is deleted', 'expires'] : ['are deleted', 'expire'];
      const [deleted, stamped] = how.dryRun ? ['would be deleted', 'would expire'] : done;
      return `${segment}: ${countEntries(result.entries)} ${how.deletes ? deleted : `${stamped} on ${formatDate(result.expires)}`}`;
    }
    case 'waiting': {
      const on = formatDate(result.expires);
      return how.dryRun
        ? `${segment}: the entries would be deleted from ${on} on`
        : `${segment}: the entries may be deleted from ${on} on: run this again then, or leave it to the sweep`;
    }
    case 'progress':
      return `${segment}: done up to entry ${result.reached}; run this again`;
    case 'present':
      return `${segment}: it is done already`;
    case 'kept':
      return `${segment}: the policy keeps it`;
  }
}
