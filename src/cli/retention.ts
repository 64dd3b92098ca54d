import { Option } from '@commander-js/extra-typings';
import { UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { querySegments } from '../log/newest.ts';
import { merge, type PolicyChanges, readPolicies } from '../retention/policies.ts';
import {
  checkPolicy,
  DEFAULT_POLICY,
  MIN_GRACE_SECONDS,
  planRetention,
  type RetentionJob,
  type RetentionPolicy,
} from '../retention/retention-policy.ts';
import { RateLimiter } from '../workers/retention/rate-limiter.ts';
import type { Environment } from './environment.ts';
import { formatDuration } from './format.ts';
import type { Output } from './output.ts';

/** The option for the share of the table's write capacity that a command may use. */
export function capacityShareOption() {
  return new Option('--capacity-share <share>', "share of the Entry table's write capacity to use, above 0 up to 1")
    .argParser(parseShare)
    .default(0.25);
}

/**
 * The policy of one log for a command on this log. Options take precedence over the log's own
 * policy.
 */
export async function policyOfLog(
  environment: Environment,
  log: LogId,
  changes: PolicyChanges,
): Promise<RetentionPolicy> {
  const policies = await readPolicies(environment.deps.blobs, DEFAULT_POLICY, environment.deps.parseLog);
  return checkPolicy(merge(policies.of(log), changes), log);
}

/**
 * The segments of a log that have a due job of this kind, oldest first.
 * @throws LogNotFoundError if there is no such log
 */
export async function dueSegments(
  { deps }: Environment,
  log: LogId,
  policy: RetentionPolicy,
  kind: RetentionJob['kind'],
): Promise<number[]> {
  const segments = await querySegments(deps.tables, log, { consistent: true });
  const due = planRetention(segments, policy, deps.now()).filter((job) => job.kind === kind);
  return due.map(({ segment }) => segment);
}

/**
 * The policy of a deployment whose settings are the options. A log's own policy takes precedence.
 */
export function policyEverywhere(changes: PolicyChanges): RetentionPolicy {
  return checkPolicy(merge(DEFAULT_POLICY, changes));
}

/**
 * Warns if the grace period is so short that concurrent work may lose objects or entries it needs.
 */
export function warnOfShortGrace({ graceSeconds }: RetentionPolicy, output: Output): void {
  if (graceSeconds >= MIN_GRACE_SECONDS) return;
  const shortest = formatDuration(MIN_GRACE_SECONDS);
  output.note(`With a grace period under ${shortest}, nothing else may read the log or work on it at the same time.`);
}

/** A rate limiter that leaves the other share of the table's write capacity to others. */
export async function rateLimiterOf(environment: Environment, share: number): Promise<RateLimiter> {
  const perSecond = (await environment.settings.writeCapacity()) * share;
  return new RateLimiter({ perSecond });
}

/**
 * Checks that the Entry table deletes stamped entries. Notes that the embedded engine deletes none.
 * @param log the log whose own policy expires by TTL; undefined for the deployment's policy
 * @throws UsageError if the Entry table has no TTL on attribute `X`
 */
export async function requireTtl(environment: Environment, output: Output, log?: LogId): Promise<void> {
  const { stampedAttribute } = environment.settings;
  if (stampedAttribute === undefined) {
    throw new UsageError('the mapping names no TTL attribute, so no item can be stamped', {
      log,
      advice: "Add 'ttl' to the mapping, or use --expire delete; nothing was changed",
    });
  }
  const attribute = await environment.settings.ttlAttribute();
  if (attribute === stampedAttribute) {
    if (environment.settings.ignoresTtl) {
      output.note(
        'The embedded engine deletes no expired entries. To see entries leave the table, use --expire delete.',
      );
    }
    return;
  }
  const now = attribute === undefined ? 'is off' : `uses attribute '${attribute}'`;
  throw new UsageError(`the TTL of the Entry table ${now}, so stamped entries would stay`, {
    log,
    advice: `Switch TTL on for attribute '${stampedAttribute}', or use --expire delete; nothing was changed`,
  });
}

/** @throws UsageError */
function parseShare(text: string): number {
  const share = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || share <= 0 || share > 1) {
    throw new UsageError(`'${text}' is not a share`, { advice: 'Give a number above 0 up to 1, such as 0.25' });
  }
  return share;
}
