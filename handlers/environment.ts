import * as z from 'zod';
import { DeploymentInvalidError, MappingInvalidError, PolicyInvalidError } from '../src/errors.ts';
import {
  type DivisionPolicy,
  divides,
  divisionOf,
  MAX_DIVISION,
  MIN_DIVISION_BYTES,
  REVISIONS_DIVISION,
} from '../src/log/division-policy.ts';
import { ReservedTypes } from '../src/log/entry.ts';
import { MAPPED_TYPES } from '../src/log/schedule.ts';
import { mappedDivisionOf } from '../src/mapping/mapped-division.ts';
import { readMapping } from '../src/mapping/ready-made.ts';
import type { SchemaMapping } from '../src/mapping/schema-mapping.ts';
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
  FEED_TABLE: 'Feed',
  FEED_TOPIC_ARN: 'Feed',
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
  ADOPT_READ_UNITS: 'AdoptReadUnits',
  REDUCER_MODULE: 'ReducerLayerArn',
  MAPPING: 'Mapping',
  SNAPSHOT_EVERY_ENTRIES: 'SnapshotEveryEntries',
  SNAPSHOT_EVERY_BYTES: 'SnapshotEveryBytes',
  SNAPSHOT_EVERY_MINUTES: 'SnapshotEveryMinutes',
  SEGMENT_EVERY_ENTRIES: 'SegmentEveryEntries',
  SEGMENT_EVERY_BYTES: 'SegmentEveryBytes',
  REVISIONS_STREAM_ARN: 'RevisionsStreamArn',
  REVISIONS_PER: 'RevisionsPer',
  REVISIONS_ACTOR: 'RevisionsActor',
};

/** The settings that all functions need. */
const schema = z.object({
  SNAPSHOT_TYPE: z.string().min(1),
  END_SEGMENT_TYPE: z.string().min(1),
  MAPPING: z.string().default(''),
});
const division = z.object({
  SNAPSHOT_EVERY_ENTRIES: limit({ min: 1, max: MAX_DIVISION.snapshotEveryEntries }),
  SNAPSHOT_EVERY_BYTES: limit({ min: MIN_DIVISION_BYTES, max: MAX_DIVISION.snapshotEveryBytes }),
  SNAPSHOT_EVERY_MINUTES: limit({ min: 1, max: MAX_DIVISION.snapshotEveryMinutes }),
  SEGMENT_EVERY_ENTRIES: limit({ min: 1, max: MAX_DIVISION.segmentEveryEntries }),
  SEGMENT_EVERY_BYTES: limit({ min: MIN_DIVISION_BYTES, max: MAX_DIVISION.segmentEveryBytes }),
  // Empty if no revisions are recorded.
  REVISIONS_STREAM_ARN: z.string().default(''),
});
const stores = z.object({
  ENTRY_TABLE: z.string().min(1),
  // Empty if no stream starts the stream function.
  ENTRY_TABLE_STREAM_ARN: z.string().transform((arn) => (arn === '' ? undefined : arn)),
  SEGMENT_TABLE: z.string().min(1),
  FEED_TABLE: optional(),
  BUCKET: z.string().min(1),
});
/** With the feed, the stream function and the sweep function also have these settings. */
const feed = z.object({ FEED_TABLE: z.string().min(1), FEED_TOPIC_ARN: optional() });
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
// With less, a page of each part takes longer than a function has left when its time is up.
const readUnits = number({ whole: true, min: 100, max: 1_000_000 }).prefault('1000');
const reducer = z.object({ REDUCER_MODULE: z.string().default('') });

export const streamEnvironment = schema.extend(division.shape).extend({ SNAPSHOT_QUEUE_URL: z.url() });
export const workEnvironment = schema
  .extend(division.shape)
  .extend(stores.shape)
  .extend(policy.shape)
  .extend(reducer.shape)
  .extend({ SNAPSHOT_QUEUE_URL: z.url(), MAINTENANCE_QUEUE_URL: z.url() })
  .extend({ EXPIRE_WRITE_UNITS: writeUnits, ADOPT_READ_UNITS: readUnits });
export const revisionsEnvironment = schema
  .extend(division.shape)
  .extend(stores.shape)
  .extend(reducer.shape)
  .extend({ REVISIONS_PER: z.enum(['item', 'partition']), REVISIONS_ACTOR: z.string() });
export const replayEnvironment = schema.extend(stores.shape).extend(reducer.shape);
export const feedStreamEnvironment = streamEnvironment.extend(stores.shape).extend(feed.shape);
export const feedSweepEnvironment = workEnvironment.extend(feed.shape);

/** Settings of the tables, the bucket and the schema. */
export type StoreEnvironment = z.infer<typeof stores> & z.infer<typeof schema>;

/** Settings of the functions that write to the feed. */
export type FeedEnvironment = StoreEnvironment & z.infer<typeof feed>;

/** Settings of the revisions function. */
export type RevisionsEnvironment = z.infer<typeof revisionsEnvironment>;

/** Settings of the functions snapshot, maintain and sweep. */
export type WorkEnvironment = z.infer<typeof workEnvironment>;

/**
 * A function's settings, from its environment.
 * @throws DeploymentInvalidError if a setting is missing or invalid; it names the template's
 * parameter
 */
export function readEnvironment<T extends z.infer<typeof schema>>(of: z.ZodType<T>, environment: Environment): T {
  const parsed = of.safeParse(environment);
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

/**
 * The names of the two entry types that the log itself interprets. With a mapping they are
 * logfold's own.
 */
export function reservedTypes(settings: z.infer<typeof schema>): ReservedTypes {
  if (settings.MAPPING !== '') return MAPPED_TYPES;
  return new ReservedTypes({ snapshot: settings.SNAPSHOT_TYPE, endSegment: settings.END_SEGMENT_TYPE });
}

/**
 * How the items of the Entry table become entries; undefined if they are logfold's own.
 * @throws DeploymentInvalidError if the mapping is neither JSON nor a known name, or is invalid
 */
export function mappingOf({ MAPPING: text }: z.infer<typeof schema>): SchemaMapping | undefined {
  return fromParameter('Mapping', 'is invalid', () => readMapping(text));
}

/**
 * The policy by which logfold takes snapshots and starts segments without being asked.
 * @throws DeploymentInvalidError if the numbers do not fit a mapping
 */
export function divisionPolicyOf(settings: z.infer<typeof division> & z.infer<typeof schema>): DivisionPolicy {
  // Each number is in its range. Together they may not fit a mapping.
  const policy = fromParameter('SegmentEveryEntries', `is ${settings.SEGMENT_EVERY_ENTRIES}`, () =>
    (settings.MAPPING === '' ? divisionOf : mappedDivisionOf)({
      snapshotEveryEntries: settings.SNAPSHOT_EVERY_ENTRIES,
      snapshotEveryBytes: settings.SNAPSHOT_EVERY_BYTES,
      snapshotEveryMinutes: settings.SNAPSHOT_EVERY_MINUTES,
      segmentEveryEntries: settings.SEGMENT_EVERY_ENTRIES,
      segmentEveryBytes: settings.SEGMENT_EVERY_BYTES,
    }),
  );
  return settings.REVISIONS_STREAM_ARN !== '' && !divides(policy) ? REVISIONS_DIVISION : policy;
}

/**
 * The policy of logs without their own policy.
 * @throws DeploymentInvalidError if its settings contradict each other
 */
export function policyOf(settings: z.infer<typeof policy>): RetentionPolicy {
  return fromParameter('Expire', `is '${settings.EXPIRE}'`, () =>
    checkPolicy({
      keepSegments: settings.KEEP_SEGMENTS,
      keepDays: settings.KEEP_DAYS,
      archive: settings.ARCHIVE,
      expire: settings.EXPIRE,
      graceSeconds: settings.GRACE_SECONDS,
      keepSnapshots: settings.KEEP_SNAPSHOTS,
    }),
  );
}

/** Runs a check of parameters. Its error names one of them. */
function fromParameter<T>(parameter: string, is: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof PolicyInvalidError || error instanceof MappingInvalidError)) throw error;
    throw new DeploymentInvalidError(parameter, `${is}: ${error.reason}`, { advice: error.advice, cause: error });
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

/** A schema for a name that may be missing or empty. */
function optional() {
  return z
    .string()
    .transform((name) => (name === '' ? undefined : name))
    .prefault('');
}

/** A schema for a limit of the division policy; 0 is off. */
function limit({ min, max }: { readonly min: number; readonly max: number }) {
  const isLimit = (value: number): boolean => value === 0 || value >= min;
  return number({ whole: true, min: 0, max })
    .refine(isLimit, { error: `neither 0 nor from ${min} to ${max}` })
    .prefault('0');
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
