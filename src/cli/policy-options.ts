import { Option } from '@commander-js/extra-typings';
import { UsageError } from '../errors.ts';
import type { PolicyChanges } from '../retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../retention/retention-policy.ts';
import { count } from '../workers/jobs/report.ts';
import { command, parse } from './command.ts';
import { formatDuration, parseDuration } from './format.ts';

/**
 * A command with the options of a retention policy. Missing options come from the log's own policy
 * or the deployment.
 */
export function policyCommand(name: string, description: string) {
  return command(name, description)
    .addOption(
      new Option('--keep-segments <n>', 'newest segments that stay in the table, including the open one').argParser(
        parse.count,
      ),
    )
    .addOption(new Option('--keep-days <n>', 'days that a closed segment stays in the table').argParser(parseDays))
    .option('--archive', 'archive segments that need not stay in the table')
    .option('--no-archive', 'expire segments without an archive')
    .addOption(new Option('--expire <how>', 'how entries leave the table').choices(['never', 'ttl', 'delete'] as const))
    .addOption(
      new Option('--grace <duration>', 'time between the decision to remove something and its removal').argParser(
        parseDuration,
      ),
    )
    .addOption(
      new Option('--keep-snapshots <which>', 'which snapshots to keep of a segment in the table').choices([
        'all',
        'last',
      ] as const),
    );
}

export interface PolicyOptions {
  readonly keepSegments?: number;
  readonly keepDays?: number;
  readonly archive?: boolean;
  readonly expire?: RetentionPolicy['expire'];
  readonly grace?: number;
  readonly keepSnapshots?: RetentionPolicy['keepSnapshots'];
}

/** The settings of a policy that the options change. */
export function policyChanges(options: PolicyOptions): PolicyChanges {
  const { keepSegments, keepDays, archive, expire, grace: graceSeconds, keepSnapshots } = options;
  const changes = { keepSegments, keepDays, archive, expire, graceSeconds, keepSnapshots };
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
}

/** A policy as one line of text. */
function describePolicy(policy: RetentionPolicy): string {
  const { keepSegments, keepDays, archive, expire, graceSeconds, keepSnapshots } = policy;
  const expiry = { never: 'never expire', ttl: 'expire by TTL', delete: 'expire by deletion' }[expire];
  return (
    `keep ${count(keepSegments, 'segment')} and ${count(keepDays, 'day')}, ${archive ? 'then archive' : 'do not archive'}; ` +
    `${expiry}; grace period ${formatDuration(graceSeconds)}; keep ${keepSnapshots === 'all' ? 'all snapshots' : 'the last snapshot'} of a segment`
  );
}

/** Help text with the default policy. */
export const POLICY_HELP = `\nBy default: ${describePolicy(DEFAULT_POLICY)}.`;

/** @throws UsageError */
function parseDays(text: string): number {
  const days = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text)) throw new UsageError(`'${text}' is not a number of days, such as 30 or 0.5`);
  return days;
}
