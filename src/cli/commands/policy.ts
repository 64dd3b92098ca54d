import { UsageError } from '../../errors.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { type PolicyChanges, readPolicies, writePolicy } from '../../retention/policies.ts';
import { DEFAULT_POLICY } from '../../retention/retention-policy.ts';
import { inEnvironment, parse } from '../command.ts';
import { policyChanges, policyCommand } from '../policy-options.ts';
import { requireTtl } from '../retention.ts';

const OWN_HELP =
  "\nOnly what a log has of its own is known here; all else is the deployment's, whose settings sweep and work take as options." +
  '\nA sweep says which policies contradict those.';

export function policyCommandOfLogs() {
  return policyCommand('policy', 'Show the retention policies of single logs, or give one to a log.')
    .argument('[log]', 'the log; all that have a policy of their own where it is left out', parse.log)
    .option('--clear', 'let the log have the policy of the deployment again', false)
    .addHelpText('after', OWN_HELP)
    .action((log, options) =>
      inEnvironment(options, async (environment, output) => {
        const { deps } = environment;
        const changes = policyChanges(options);
        const sets = Object.keys(changes).length > 0;
        if (log === undefined && (sets || options.clear)) throw new UsageError('it is not said for which log');
        if (sets && options.clear) throw new UsageError('--clear takes a policy away, and cannot set one');
        if (log !== undefined) await queryNewestSegments(deps.store, log, { consistent: true });
        if (log !== undefined && (sets || options.clear)) {
          const change = (own: PolicyChanges) => (options.clear ? undefined : { ...own, ...changes });
          const before = (await readPolicies(deps.blobs, DEFAULT_POLICY)).ownOf(log);
          if (change(before)?.expire === 'ttl') await requireTtl(environment, output, log);
          await writePolicy(deps.blobs, DEFAULT_POLICY, { log, change });
        }
        const policies = await readPolicies(deps.blobs, DEFAULT_POLICY);
        const shown = (log === undefined ? policies.logs() : [log]).map((each) => ({
          log: each,
          own: policies.ownOf(each),
        }));
        const lines = shown.map(({ log: each, own }) => `${each}: ${describeOwn(own)}`);
        const none = 'No log has a policy of its own.';
        output.result({ policies: shown }, lines.length === 0 ? none : lines.join('\n'));
      }),
    );
}

function describeOwn(own: PolicyChanges): string {
  const settings = Object.entries(own).map(([name, value]) => `${name} ${value}`);
  if (settings.length === 0) return "nothing of its own: all is the deployment's";
  return `its own: ${settings.join(', ')}; all else is the deployment's`;
}
