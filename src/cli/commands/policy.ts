import { printable, UsageError } from '../../errors.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { type PolicyChanges, readPolicies, writePolicy } from '../../retention/policies.ts';
import { DEFAULT_POLICY } from '../../retention/retention-policy.ts';
import { examples, inEnvironment, parse } from '../command.ts';
import { policyChanges, policyCommand } from '../policy-options.ts';
import { requireTtl } from '../retention.ts';
import { changesNothing } from '../signals.ts';

const OWN_HELP =
  "\nThis command knows only a log's own settings. Other settings come from the deployment; sweep and work take them as options." +
  '\nA sweep reports policies that contradict the deployment.';

export function policyCommandOfLogs() {
  return policyCommand('policy', 'Show the retention policies of single logs, or set the policy of one log.')
    .argument('[log]', 'the log; by default, all logs that have their own policy', parse.log)
    .option('--clear', "remove the log's own policy, so that the policy of the deployment applies", false)
    .addHelpText('after', OWN_HELP)
    .addHelpText('after', examples('policy', 'policy budget --keep-days 30 --expire ttl', 'policy budget --clear'))
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const { deps } = environment;
        const changes = policyChanges(options);
        const sets = Object.keys(changes).length > 0;
        if (!sets && !options.clear) changesNothing();
        if (log === undefined && (sets || options.clear)) throw new UsageError('a change of a policy needs a log');
        if (sets && options.clear) throw new UsageError('--clear removes a policy and cannot set one');
        if (log !== undefined) await queryNewestSegments(deps.store, log, { consistent: true });
        if (log !== undefined && (sets || options.clear)) {
          const change = (own: PolicyChanges) => (options.clear ? undefined : { ...own, ...changes });
          const before = (await readPolicies(deps.blobs, DEFAULT_POLICY, deps.parseLog)).ownOf(log);
          if (change(before)?.expire === 'ttl') await requireTtl(environment, output, log);
          await writePolicy(deps.blobs, DEFAULT_POLICY, { log, change, parseLog: deps.parseLog });
        }
        const policies = await readPolicies(deps.blobs, DEFAULT_POLICY, deps.parseLog);
        const shown = (log === undefined ? policies.logs() : [log]).map((each) => ({
          log: each,
          own: policies.ownOf(each),
        }));
        const lines = shown.map(({ log: each, own }) => `${printable(each)}: ${describeOwn(own)}`);
        const none = 'No log has its own policy.';
        output.result({ policies: shown }, lines.length === 0 ? none : lines.join('\n'));
      }),
    );
}

function describeOwn(own: PolicyChanges): string {
  const settings = Object.entries(own).map(([name, value]) => `${name} ${value}`);
  if (settings.length === 0) return 'no settings; the policy of the deployment applies';
  return `own settings: ${settings.join(', ')}; other settings come from the deployment`;
}
