import * as z from 'zod';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type JsonObject, readJson, updateJson } from '../store/json-object.ts';
import { POLICIES_KEY } from '../store/keys.ts';
import { checkPolicy, type RetentionPolicy } from './retention-policy.ts';

/** The settings in which a log's policy differs from the deployment's policy. */
export type PolicyChanges = { readonly [K in keyof RetentionPolicy]?: RetentionPolicy[K] | undefined };

const changesSchema = z.strictObject({
  keepSegments: z.int().min(1).optional(),
  keepDays: z.number().min(0).optional(),
  archive: z.boolean().optional(),
  expire: z.enum(['never', 'ttl', 'delete']).optional(),
  graceSeconds: z.int().min(0).optional(),
  keepSnapshots: z.enum(['all', 'last']).optional(),
});
const schema = z.strictObject({ format: z.literal(1), logs: z.record(z.uuid(), changesSchema) });
type Document = z.infer<typeof schema>;

const OBJECT: JsonObject<Document> = {
  key: POLICIES_KEY,
  schema,
  advice: 'Correct it, or remove it: then every log has the policy of the deployment',
  indent: 2,
};

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
 * @throws ObjectInvalidError if the object cannot be read, PolicyInvalidError if the deployment's
 * policy is invalid
 */
export async function readPolicies(blobs: BlobStore, everywhere: RetentionPolicy): Promise<Policies> {
  return new Policies(everywhere, ownPolicies(await readJson(blobs, OBJECT)));
}

/**
 * Changes the settings of a log. Concurrent changes to other logs are kept.
 * @param change called with the log's own settings, possibly several times; returns the settings to
 * write, or undefined to remove all
 * @returns all policies after the change
 * @throws PolicyInvalidError if the new policy is invalid; then nothing is written
 * @throws ObjectInvalidError if the object cannot be read; then nothing is written
 */
export async function writePolicy(
  blobs: BlobStore,
  everywhere: RetentionPolicy,
  { log, change }: { readonly log: LogId; readonly change: (own: PolicyChanges) => PolicyChanges | undefined },
): Promise<Policies> {
  let policies = new Policies(everywhere);
  await updateJson(blobs, OBJECT, (document) => {
    const own = ownPolicies(document);
    const changes = change(own.get(log) ?? {});
    if (changes === undefined || Object.keys(changes).length === 0) own.delete(log);
    else own.set(log, changes);
    policies = new Policies(everywhere, own);
    policies.of(log);
    return { format: 1, logs: Object.fromEntries(own) };
  });
  return policies;
}

function ownPolicies(document: Document | undefined): Map<LogId, PolicyChanges> {
  return new Map(Object.entries(document?.logs ?? {}).map(([log, changes]) => [parseLogId(log), changes]));
}
