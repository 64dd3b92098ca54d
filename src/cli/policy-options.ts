import { Option } from '@commander-js/extra-typings';
import { UsageError } from '../errors.ts';
import type { PolicyChanges } from '../retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../retention/retention-policy.ts';
import { command, parse } from './command.ts';
import { count, formatDuration, parseDuration } from './format.ts';

/** A command with the options of a retention policy. What is left out is the deployment's policy, or the log's own. */
export function policyCommand(name: string, description: string) {
  return command(name, description)
    .addOption(
      new Option('--keep-segments <n>', 'newest segments that stay in the table, the open one among them').argParser(
        parse.count,
      ),
    )
    .addOption(new Option('--keep-days <n>', 'days for which a closed segment stays').argParser(parseDays))
    .option('--archive', 'archive segments that need not stay')
    .option('--no-archive', 'let segments expire without an archive')
    .addOption(
      new Option('--expire <how>', 'how segments that need not stay leave the table').choices([
        'never',
        'ttl',
        'delete',
      ] as const),
    )
    .addOption(
      new Option('--grace <duration>', 'time from the decision that something goes until it goes').argParser(
        parseDuration,
      ),
    )
    .addOption(
      new Option('--keep-snapshots <which>', 'which snapshots of a segment in the table are kept').choices([
        'all',
        'last',
      ] as const),
    );
}

export interface PolicyOptions {
  readonly keepSegments?: number | undefined;
  readonly keepDays?: number | undefined;
  readonly archive?: boolean | undefined;
  readonly expire?: RetentionPolicy['expire'] | undefined;
  readonly grace?: number | undefined;
  readonly keepSnapshots?: RetentionPolicy['keepSnapshots'] | undefined;
}

/** What the options change of a policy. */
export function policyChanges(options: PolicyOptions): PolicyChanges {
  const { keepSegments, keepDays, archive, expire, grace: graceSeconds, keepSnapshots } = options;
  const changes = { keepSegments, keepDays, archive, expire, graceSeconds, keepSnapshots };
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
}

/** One line for a person. */
export function describePolicy(policy: RetentionPolicy): string {
  const { keepSegments, keepDays, archive, expire, graceSeconds, keepSnapshots } = policy;
  const goes = { never: 'never expire', ttl: 'expire by TTL', delete: 'are deleted' }[expire];
  return (
    `keep ${count(keepSegments, 'segment')} and ${count(keepDays, 'day')}; then segments ${archive ? 'are archived' : 'are not archived'} ` +
    `and ${goes}; grace ${formatDuration(graceSeconds)}; ${keepSnapshots === 'all' ? 'all snapshots' : 'the last snapshot'} of a segment kept`
  );
}

/** Without a word about it, a person would have to guess what applies. */
export const POLICY_HELP = `\nBy default: ${describePolicy(DEFAULT_POLICY)}.`;

/** @throws UsageError */
function parseDays(text: string): number {
  const days = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text)) throw new UsageError(`'${text}' is not a number of days from 0`);
  return days;
}
