import * as z from 'zod';
import { type LogId, type ParseLog, parseLogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { JsonObject } from '../store/json-object.ts';
import { POLICIES_KEY } from '../store/keys.ts';
import { logIdSchema } from '../store/log-id-schema.ts';
import { checkPolicy, RETENTION, type RetentionPolicy } from './retention-policy.ts';

// Strict: a setting that this release does not know may forbid what this release would remove.
const changes = RETENTION.partial().strict();

/** The settings in which a log's policy differs from the deployment's policy. */
export type PolicyChanges = Readonly<z.infer<typeof changes>>;

/** Lets a number above its range pass: only the policy of that log is then invalid. */
const changesSchema = z.custom<PolicyChanges>().check(({ value: input, issues }) => {
  for (const { code, path, message } of changes.safeParse(input).error?.issues ?? []) {
    if (code !== 'too_big') issues.push({ code: 'custom', path, message, input });
  }
});

function objectOf(parseLog: ParseLog) {
  // A record would lose a log with the id `__proto__`.
  const logs = z.preprocess(
    (given) => (typeof given === 'object' && given !== null ? new Map(Object.entries(given)) : given),
    z.map(logIdSchema(parseLog), changesSchema),
  );
  return new JsonObject({
    key: POLICIES_KEY,
    schema: z.strictObject({ format: z.literal(1), logs }),
    advice: 'Correct it, or remove it: then every log has the policy of the deployment',
    indent: 2,
  });
}

/** The retention policies of a deployment: one for all logs, and the differences of single logs. */
export class Policies {
  readonly #everywhere: RetentionPolicy;
  readonly #own: ReadonlyMap<LogId, PolicyChanges>;

  /** @throws PolicyInvalidError if the deployment's policy is invalid */
  constructor(everywhere: RetentionPolicy, own: ReadonlyMap<LogId, PolicyChanges> = new Map()) {
    this.#everywhere = checkPolicy(everywhere);
    this.#own = own;
  }

  /**
   * The policy of a log.
   * @throws PolicyInvalidError if it is invalid, alone or combined with the deployment's policy
   */
  of(log: LogId): RetentionPolicy {
    return checkPolicy(merge(this.#everywhere, this.ownOf(log)), log);
  }

  /** The log's own settings. */
  ownOf(log: LogId): PolicyChanges {
    return this.#own.get(log) ?? {};
  }

  /** The logs that have their own settings. */
  logs(): LogId[] {
    return [...this.#own.keys()].sort();
  }
}

/** Applies changes to a policy. */
export function merge(policy: RetentionPolicy, changes: PolicyChanges): RetentionPolicy {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  return { ...policy, ...Object.fromEntries(given) };
}

/**
 * Reads the policies of all logs, in one request.
 * @param parseLog reads the ids of logs in the object
 * @throws ObjectInvalidError if the object cannot be read, PolicyInvalidError if the deployment's
 * policy is invalid
 */
export async function readPolicies(
  blobs: BlobStore,
  everywhere: RetentionPolicy,
  parseLog: ParseLog = parseLogId,
): Promise<Policies> {
  return new Policies(everywhere, (await objectOf(parseLog).read(blobs))?.logs);
}

export interface PolicyUpdate {
  readonly log: LogId;
  /**
   * Called with the log's own settings, possibly several times. Returns the settings to write, or
   * undefined to remove all.
   */
  readonly change: (own: PolicyChanges) => PolicyChanges | undefined;
  /** Reads the ids of logs in the object; {@link parseLogId} by default. */
  readonly parseLog?: ParseLog | undefined;
}

/**
 * Changes the settings of a log. Concurrent changes to other logs are kept.
 * @returns all policies after the change
 * @throws PolicyInvalidError if the new policy is invalid; then nothing is written
 * @throws ObjectInvalidError if the object cannot be read; then nothing is written
 */
export async function writePolicy(
  blobs: BlobStore,
  everywhere: RetentionPolicy,
  { log, change, parseLog = parseLogId }: PolicyUpdate,
): Promise<Policies> {
  let policies = new Policies(everywhere);
  await objectOf(parseLog).update(blobs, (document) => {
    const own = new Map(document?.logs);
    const changes = change(own.get(log) ?? {});
    if (changes === undefined || Object.keys(changes).length === 0) own.delete(log);
    else own.set(log, changes);
    policies = new Policies(everywhere, own);
    policies.of(log);
    return { format: 1, logs: Object.fromEntries(own) };
  });
  return policies;
}
