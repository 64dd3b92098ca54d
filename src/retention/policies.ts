import * as z from 'zod';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type JsonObject, readJson, updateJson } from '../store/json-object.ts';
import { POLICIES_KEY } from '../store/keys.ts';
import { checkPolicy, type RetentionPolicy } from './retention-policy.ts';

/** The settings of a policy that a log has of its own; the others are the deployment's. */
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

/** The retention policies of a deployment: one for all logs, and what single logs have of their own. */
export class Policies {
  readonly #everywhere: RetentionPolicy;
  readonly #own: ReadonlyMap<LogId, PolicyChanges>;

  /** @throws PolicyInvalidError where the deployment's makes no sense */
  constructor(everywhere: RetentionPolicy, own: ReadonlyMap<LogId, PolicyChanges> = new Map()) {
    this.#everywhere = checkPolicy(everywhere);
    this.#own = own;
  }

  /**
   * The policy of a log.
   * @throws PolicyInvalidError where it makes no sense, be it only together with the deployment's
   */
  of(log: LogId): RetentionPolicy {
    return checkPolicy(merge(this.#everywhere, this.ownOf(log)), log);
  }

  /** What a log has of its own. */
  ownOf(log: LogId): PolicyChanges {
    return this.#own.get(log) ?? {};
  }

  /** The logs that have a policy of their own. */
  logs(): LogId[] {
    return [...this.#own.keys()].sort();
  }
}

/** A policy with some settings changed. */
export function merge(policy: RetentionPolicy, changes: PolicyChanges): RetentionPolicy {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  return { ...policy, ...Object.fromEntries(given) };
}

/**
 * Reads which logs have policies of their own, in one request.
 * @throws ObjectInvalidError where the object cannot be read, PolicyInvalidError where the deployment's makes no sense
 */
export async function readPolicies(blobs: BlobStore, everywhere: RetentionPolicy): Promise<Policies> {
  return new Policies(everywhere, ownPolicies(await readJson(blobs, OBJECT)));
}

/**
 * Changes the policy that a log has of its own. Policies that others change at the same moment stay changed.
 * @param change called with the log's own settings; returns those to write, or undefined to leave the log none. May be
 *   called several times.
 * @returns all policies after the change
 * @throws PolicyInvalidError if the policy makes no sense; then nothing is written
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
