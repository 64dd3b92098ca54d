import * as z from 'zod';
import { DeploymentInvalidError, PolicyInvalidError } from '../src/errors.ts';
import { ReservedTypes } from '../src/log/entry.ts';
import {
  checkPolicy,
  MAX_GRACE_SECONDS,
  MAX_KEEP_DAYS,
  MAX_KEEP_SEGMENTS,
  type RetentionPolicy,
} from '../src/retention/retention-policy.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The template's parameter for each variable. The queue URLs are set by the template itself. */
const PARAMETERS: Readonly<Record<string, string>> = {
  ENTRY_TABLE: 'EntryTableName',
  ENTRY_TABLE_STREAM_ARN: 'EntryTableStreamArn',
  SEGMENT_TABLE: 'SegmentTableName',
  BUCKET: 'BucketName',
  SNAPSHOT_TYPE: 'SnapshotType',
  END_SEGMENT_TYPE: 'EndSegmentType',
  KEEP_SEGMENTS: 'KeepSegments',
  KEEP_DAYS: 'KeepDays',
  ARCHIVE: 'Archive',
  EXPIRE: 'Expire',
  GRACE_SECONDS: 'GraceSeconds',
  KEEP_SNAPSHOTS: 'KeepSnapshots',
  EXPIRE_WRITE_UNITS: 'ExpireWriteUnits',
  REDUCER_MODULE: 'ReducerLayerArn',
};

const types = z.object({ SNAPSHOT_TYPE: z.string().min(1), END_SEGMENT_TYPE: z.string().min(1) });
const stores = z.object({
  ENTRY_TABLE: z.string().min(1),
  ENTRY_TABLE_STREAM_ARN: z.string().min(1),
  SEGMENT_TABLE: z.string().min(1),
  BUCKET: z.string().min(1),
});
const policy = z.object({
  KEEP_SEGMENTS: number({ whole: true, min: 1, max: MAX_KEEP_SEGMENTS }),
  KEEP_DAYS: number({ whole: false, min: 0, max: MAX_KEEP_DAYS }),
  ARCHIVE: z.enum(['true', 'false']).transform((text) => text === 'true'),
  EXPIRE: z.enum(['never', 'ttl', 'delete']),
  GRACE_SECONDS: number({ whole: true, min: 0, max: MAX_GRACE_SECONDS }),
  KEEP_SNAPSHOTS: z.enum(['all', 'last']),
});
// With less, a batch of large entries takes longer than a function has left when its time is up.
const writeUnits = number({ whole: true, min: 10, max: 1_000_000 });
const reducer = z.object({ REDUCER_MODULE: z.string().default('') });

export const streamEnvironment = types.extend({ SNAPSHOT_QUEUE_URL: z.url() });
export const workEnvironment = types
  .extend(stores.shape)
  .extend(policy.shape)
  .extend(reducer.shape)
  .extend({ SNAPSHOT_QUEUE_URL: z.url(), MAINTENANCE_QUEUE_URL: z.url(), EXPIRE_WRITE_UNITS: writeUnits });
export const replayEnvironment = types.extend(stores.shape).extend(reducer.shape);

/** Settings of the tables, the bucket and the reserved types. */
export type StoreEnvironment = z.infer<typeof stores> & z.infer<typeof types>;

/** Settings of the functions snapshot, maintain and sweep. */
export type WorkEnvironment = z.infer<typeof workEnvironment>;

/**
 * A function's settings, from its environment.
 * @throws DeploymentInvalidError if a setting is missing or invalid; it names the template's
 * parameter
 */
export function readEnvironment<T extends z.infer<typeof types>>(schema: z.ZodType<T>, environment: Environment): T {
  const parsed = schema.safeParse(environment);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => {
      const name = path.join('.');
      const value = environment[name];
      return { name, reason: value === undefined ? 'is missing' : `is '${value}': ${message}` };
    });
    const [first, ...others] = problems;
    const more = others.map(({ name, reason }) => `; ${nameOf(name)} ${reason}`).join('');
    throw invalid(first?.name ?? '', `${first?.reason}${more}`);
  }
  if (parsed.data.SNAPSHOT_TYPE === parsed.data.END_SEGMENT_TYPE) {
    throw invalid('END_SEGMENT_TYPE', `is '${parsed.data.END_SEGMENT_TYPE}', the same as SnapshotType`);
  }
  return parsed.data;
}

/** The names of the two entry types that the log itself interprets. */
export function reservedTypes(settings: z.infer<typeof types>): ReservedTypes {
  return new ReservedTypes({ snapshot: settings.SNAPSHOT_TYPE, endSegment: settings.END_SEGMENT_TYPE });
}

/**
 * The policy of logs without their own policy.
 * @throws DeploymentInvalidError if its settings contradict each other
 */
export function policyOf(settings: z.infer<typeof policy>): RetentionPolicy {
  try {
    return checkPolicy({
      keepSegments: settings.KEEP_SEGMENTS,
      keepDays: settings.KEEP_DAYS,
      archive: settings.ARCHIVE,
      expire: settings.EXPIRE,
      graceSeconds: settings.GRACE_SECONDS,
      keepSnapshots: settings.KEEP_SNAPSHOTS,
    });
  } catch (error) {
    if (!(error instanceof PolicyInvalidError)) throw error;
    throw new DeploymentInvalidError('Expire', `is '${settings.EXPIRE}': ${error.reason}`, {
      advice: error.advice,
      cause: error,
    });
  }
}

function invalid(name: string, reason: string): DeploymentInvalidError {
  return new DeploymentInvalidError(nameOf(name), reason, {
    advice: "Correct the template's parameters and deploy again",
  });
}

function nameOf(variable: string): string {
  return PARAMETERS[variable] ?? variable;
}

/** A schema for decimal numbers. `Number` alone would parse an empty string as 0. */
function number({ whole, min, max }: { readonly whole: boolean; readonly min: number; readonly max: number }) {
  const form = whole ? /^\d{1,15}$/ : /^\d{1,15}(\.\d{1,15})?$/;
  const error = `not ${whole ? 'a whole number' : 'a number'} from ${min} to ${max}`;
  return z
    .string()
    .regex(form, { error, abort: true })
    .transform(Number)
    .pipe(z.number().min(min, { error }).max(max, { error }));
}
