import * as z from 'zod';
import { DeploymentInvalidError, MappingInvalidError, PolicyInvalidError } from '../src/errors.ts';
import { DIVISION, type DivisionPolicy, divides, divisionOf, REVISIONS_DIVISION } from '../src/log/division-policy.ts';
import { ReservedTypes } from '../src/log/entry.ts';
import { VIRTUAL_TYPES } from '../src/log/schedule.ts';
import { describeValues, numberIn } from '../src/log/settings.ts';
import { mappedDivisionOf } from '../src/mapping/item-division.ts';
import { readMapping, type SchemaMapping } from '../src/mapping/schema-mapping.ts';
import { checkPolicy, RETENTION, type RetentionPolicy } from '../src/retention/retention-policy.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The settings that all functions need. */
const schema = z.object({
  snapshotType: z.string().min(1),
  endSegmentType: z.string().min(1),
  mapping: z.string().default(''),
});
const division = DIVISION.extend({
  /** Empty if no revisions are recorded. */
  revisionsStreamArn: z.string().default(''),
});
const stores = z.object({
  entryTable: z.string().min(1),
  /** Undefined if no stream starts the stream function. */
  entryTableStreamArn: z.string().transform((arn) => (arn === '' ? undefined : arn)),
  segmentTable: z.string().min(1),
  feedTable: optional(),
  bucket: z.string().min(1),
});
/** With the feed, the stream function and the sweep function also have these settings. */
const feed = z.object({ feedTable: z.string().min(1), feedTopicArn: optional() });
const reducer = z.object({ reducerModule: z.string().default('') });

export const streamEnvironment = schema.extend(division.shape).extend({ snapshotQueueUrl: z.url() });
export const workEnvironment = schema
  .extend(division.shape)
  .extend(stores.shape)
  .extend(RETENTION.shape)
  .extend(reducer.shape)
  .extend({ snapshotQueueUrl: z.url(), maintenanceQueueUrl: z.url() })
  .extend({
    // With less, a batch of large entries takes longer than a function has left when its time is
    // up.
    expireWriteUnits: z.int().min(10).max(1_000_000),
    // With less, a page of each part takes longer than a function has left when its time is up.
    adoptReadUnits: z.int().min(100).max(1_000_000).default(1000),
  });
export const revisionsEnvironment = schema
  .extend(division.shape)
  .extend(stores.shape)
  .extend(reducer.shape)
  .extend({ revisionsPer: z.enum(['item', 'partition']), revisionsActor: z.string() });
export const replayEnvironment = schema.extend(stores.shape).extend(reducer.shape);
export const feedStreamEnvironment = streamEnvironment.extend(stores.shape).extend(feed.shape);
export const feedSweepEnvironment = workEnvironment.extend(feed.shape);

/** Settings of the tables, the bucket and the schema. */
export type StoreEnvironment = z.infer<typeof stores> & z.infer<typeof schema>;

/** Settings of the functions that write to the feed. */
export type FeedEnvironment = z.infer<typeof feed>;

/** Settings of the functions snapshot, maintain and sweep. */
export type WorkEnvironment = z.infer<typeof workEnvironment>;

/** The parameters of the template that are not named like their setting. */
const PARAMETERS: Readonly<Record<string, string>> = {
  entryTable: 'EntryTableName',
  segmentTable: 'SegmentTableName',
  feedTable: 'Feed',
  feedTopicArn: 'Feed',
  bucket: 'BucketName',
  reducerModule: 'ReducerLayerArn',
  // The template itself sets these variables.
  snapshotQueueUrl: 'SNAPSHOT_QUEUE_URL',
  maintenanceQueueUrl: 'MAINTENANCE_QUEUE_URL',
};

/** The variable of a setting: that of `keepDays` is `KEEP_DAYS`. */
export function variableOf(setting: string): string {
  return setting.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** The template's parameter of a setting: that of `keepDays` is `KeepDays`. */
export function parameterOf(setting: string): string {
  return PARAMETERS[setting] ?? setting.charAt(0).toUpperCase() + setting.slice(1);
}

/**
 * A function's settings, from its environment.
 * @throws DeploymentInvalidError if a setting is missing or invalid; it names the template's
 * parameter
 */
export function readEnvironment<T extends typeof schema>(of: T, environment: Environment): z.output<T> {
  const fields: Readonly<Record<string, unknown>> = of.shape;
  const textOf = (setting: string): string | undefined => environment[variableOf(setting)];
  const values = Object.entries(fields).map(([name, field]) => [name, parseText(field, textOf(name))]);
  const parsed = of.safeParse(Object.fromEntries(values));
  if (!parsed.success) {
    const [first, ...others] = parsed.error.issues.map(({ path, message }) => {
      const name = String(path[0]);
      const [text, wanted] = [textOf(name), describeValues(fields[name])];
      const why = wanted === undefined ? message : `not ${wanted}`;
      return { name: parameterOf(name), reason: text === undefined ? 'is missing' : `is '${text}': ${why}` };
    });
    const more = others.map(({ name, reason }) => `; ${name} ${reason}`).join('');
    throw invalid(first?.name ?? '', `${first?.reason}${more}`);
  }
  const { snapshotType, endSegmentType } = parsed.data;
  if (snapshotType === endSegmentType) {
    throw invalid('EndSegmentType', `is '${endSegmentType}', the same as SnapshotType`);
  }
  return parsed.data;
}

export function reservedTypes(settings: z.infer<typeof schema>): ReservedTypes {
  if (settings.mapping !== '') return VIRTUAL_TYPES;
  return new ReservedTypes({ snapshot: settings.snapshotType, endSegment: settings.endSegmentType });
}

/**
 * How the items of the Entry table become entries; undefined if they are logfold's own.
 * @throws DeploymentInvalidError if the mapping is neither JSON nor a known name, or is invalid
 */
export function mappingOf({ mapping: text }: z.infer<typeof schema>): SchemaMapping | undefined {
  return fromParameter('Mapping', 'is invalid', () => readMapping(text));
}

/**
 * The policy by which logfold takes snapshots and starts segments without being asked.
 * @throws DeploymentInvalidError if the numbers do not fit a mapping
 */
export function divisionPolicyOf(settings: z.infer<typeof division> & z.infer<typeof schema>): DivisionPolicy {
  // Each number is in its range. Together they may not fit a mapping.
  const policy = fromParameter('SegmentEveryEntries', `is ${settings.segmentEveryEntries}`, () =>
    (settings.mapping === '' ? divisionOf : mappedDivisionOf)(settings),
  );
  return settings.revisionsStreamArn !== '' && !divides(policy) ? REVISIONS_DIVISION : policy;
}

/**
 * The policy of logs without their own policy.
 * @throws DeploymentInvalidError if its settings contradict each other
 */
export function policyOf(settings: RetentionPolicy): RetentionPolicy {
  return fromParameter('Expire', `is '${settings.expire}'`, () => checkPolicy(RETENTION.parse(settings)));
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
  return new DeploymentInvalidError(name, reason, {
    advice: "Correct the template's parameters and deploy again",
  });
}

/** A schema for a name that may be missing or empty. */
function optional() {
  return z
    .string()
    .transform((name) => (name === '' ? undefined : name))
    .prefault('');
}

/** A text as a value of a setting. The schema refuses a text that is not such a value. */
function parseText(field: unknown, text: string | undefined): unknown {
  if (text !== undefined && numberIn(field) !== undefined)
    return /^\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text;
  if (field instanceof z.ZodBoolean && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}
