import * as z from 'zod';
import { parseJson } from '../codec/json.ts';
import { MappingInvalidError, textOf } from '../errors.ts';
import { VIRTUAL_TYPES } from '../log/schedule.ts';

/**
 * How the items of an application's table become entries, without defaults and shorthands. Absent
 * (undefined) where a log has logfold's own schema, which needs no translation.
 */
export interface SchemaMapping {
  readonly partitionKey: PartitionKeyMapping;
  readonly sortKey: SortKeyMapping;
  readonly type: { readonly attribute: string } | { readonly constant: string };
  readonly version: { readonly attribute: string } | { readonly constant: number };
  /** Undefined if items have no time. Then their entries have the time 0. */
  readonly time: { readonly attribute: string; readonly format: TimeFormat } | undefined;
  /** The attribute with the metadata of entries; undefined if items have none. */
  readonly metadata: string | undefined;
  /** `whole item`: all attributes that the mapping does not name. */
  readonly body: 'whole item' | { readonly attribute: string; readonly format: BodyFormat };
  /** The table's TTL attribute; undefined if logfold may not stamp items. */
  readonly ttl: string | undefined;
  /** All attributes that the mapping names. */
  readonly names: ReadonlySet<string>;
}

export interface PartitionKeyMapping {
  readonly name: string;
  readonly type: 'S' | 'B';
  /** Texts of the key before and after the log's id. */
  readonly prefix: string;
  readonly suffix: string;
}

export interface SortKeyMapping {
  readonly name: string;
  /** Number of a log's first item. */
  readonly first: 0 | 1;
  /** `N`: the number itself. Otherwise a String that has the number in exactly this many digits. */
  readonly form: 'N' | { readonly prefix: string; readonly digits: number; readonly suffix: string };
}

/** ISO 8601, epoch seconds or epoch milliseconds. */
export type TimeFormat = 'iso' | 's' | 'ms';

/** Native values of DynamoDB, or a String that holds JSON text. */
export type BodyFormat = 'native' | 'json';

/** The most bytes of the texts around a log's id: they leave room for an id in the key. */
const MAX_AROUND_ID_BYTES = 1024;
/** More digits than any number needs. */
const MAX_DIGITS = 32;

const Name = z.string().min(1);
const Pattern = z.string().refine((text) => text.isWellFormed(), 'has a lone surrogate');
const documentSchema = z.strictObject({
  partitionKey: z.strictObject({ name: Name, type: z.enum(['S', 'B']), pattern: Pattern.default('{id}') }),
  sortKey: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('N'), name: Name, first: z.literal([0, 1]) }),
    z.strictObject({ type: z.literal('S'), name: Name, first: z.literal([0, 1]), pattern: Pattern }),
  ]),
  type: z.union([Name, z.strictObject({ constant: Name })], 'expected the name of an attribute, or {"constant": TYPE}'),
  version: z.union(
    [Name, z.strictObject({ constant: z.int().min(0) })],
    'expected the name of an attribute, or {"constant": NUMBER} with a whole number of at least 0',
  ),
  time: z.strictObject({ name: Name, format: z.enum(['iso', 's', 'ms']) }).optional(),
  body: z.union(
    [
      Name,
      z.strictObject({ name: Name, format: z.enum(['native', 'json']).default('native') }),
      z.strictObject({ item: z.literal(true) }),
    ],
    'expected the name of an attribute, {"name": NAME, "format": "native" or "json"}, or {"item": true}',
  ),
  metadata: Name.optional(),
  ttl: Name.optional(),
});

/** A schema mapping as JSON, as docs/format.md describes it. */
export type MappingDocument = z.input<typeof documentSchema>;

/**
 * Checks a schema mapping.
 * @param document a {@link MappingDocument}
 * @throws MappingInvalidError if it is none, or contradicts itself; it names the path
 */
export function parseMapping(document: unknown): SchemaMapping {
  const parsed = documentSchema.safeParse(document);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(issue?.path.map(String).join('.') ?? '', `is wrong (${issue?.message ?? ''})`);
  }
  const { partitionKey, sortKey, type, version, time, body, metadata, ttl } = parsed.data;
  const mapping: Omit<SchemaMapping, 'names'> = {
    partitionKey: { name: partitionKey.name, type: partitionKey.type, ...aroundId(partitionKey.pattern) },
    sortKey: {
      name: sortKey.name,
      first: sortKey.first,
      form: sortKey.type === 'N' ? 'N' : aroundNumber(sortKey.pattern),
    },
    type: typeof type === 'string' ? { attribute: type } : type,
    version: typeof version === 'string' ? { attribute: version } : version,
    time: time && { attribute: time.name, format: time.format },
    body: bodyOf(body),
    metadata,
    ttl,
  };
  const names = attributeNames(mapping);
  if ('constant' in mapping.type && VIRTUAL_TYPES.includes(mapping.type.constant)) {
    throw invalid('type.constant', `is '${mapping.type.constant}', a type that logfold uses`);
  }
  return { ...mapping, names };
}

/** @throws MappingInvalidError if two parts name the same attribute */
function attributeNames(mapping: Omit<SchemaMapping, 'names'>) {
  const { partitionKey, sortKey, type, version, time, body, metadata, ttl } = mapping;
  const paths = new Map([[partitionKey.name, 'partitionKey.name']]);
  const add = (path: string, name: string) => {
    const other = paths.get(name);
    if (other !== undefined) throw invalid(path, `names the attribute '${name}', which '${other}' names too`);
    paths.set(name, path);
  };
  add('sortKey.name', sortKey.name);
  if ('attribute' in type) add('type', type.attribute);
  if ('attribute' in version) add('version', version.attribute);
  if (time !== undefined) add('time.name', time.attribute);
  if (body !== 'whole item') add('body', body.attribute);
  if (metadata !== undefined) add('metadata', metadata);
  if (ttl !== undefined) add('ttl', ttl);
  return new Set(paths.keys());
}

function bodyOf(body: z.output<typeof documentSchema>['body']): SchemaMapping['body'] {
  if (typeof body === 'string') return { attribute: body, format: 'native' };
  return 'item' in body ? 'whole item' : { attribute: body.name, format: body.format };
}

function aroundId(pattern: string): { readonly prefix: string; readonly suffix: string } {
  const [prefix = '', suffix, ...more] = pattern.split('{id}');
  if (suffix === undefined || more.length > 0 || /[{}]/.test(prefix + suffix)) {
    throw invalid('partitionKey.pattern', `is '${pattern}', which does not have exactly one {id} and no other braces`);
  }
  const bytes = new TextEncoder().encode(prefix + suffix).length;
  if (bytes <= MAX_AROUND_ID_BYTES) return { prefix, suffix };
  throw invalid('partitionKey.pattern', `has ${bytes} bytes around {id}, over the limit of ${MAX_AROUND_ID_BYTES}`);
}

function aroundNumber(pattern: string): Exclude<SortKeyMapping['form'], 'N'> {
  const path = 'sortKey.pattern';
  const [, prefix, digits, suffix] = /^([^{}]*)\{n(?::(\d+))?\}([^{}]*)$/.exec(pattern) ?? [];
  if (prefix === undefined || suffix === undefined) {
    throw invalid(path, `is '${pattern}', which does not have exactly one {n:DIGITS} and no other braces`);
  }
  if (digits === undefined) {
    throw invalid(path, `is '${pattern}' without digits: as a String, 10 sorts before 9. Write {n:6} for 6 digits`);
  }
  const count = Number(digits);
  if (count < 1 || count > MAX_DIGITS) throw invalid(path, `has ${digits} digits, not 1 to ${MAX_DIGITS}`);
  const bytes = new TextEncoder().encode(prefix + suffix).length + count;
  // DynamoDB stores sort keys of up to 1,024 bytes.
  if (bytes > 1024) throw invalid(path, `gives keys of ${bytes} bytes, over the limit of 1024`);
  return { prefix, digits: count, suffix };
}

function invalid(path: string, problem: string): MappingInvalidError {
  const place = path === '' ? '' : ` is wrong: '${path}'`;
  return new MappingInvalidError(`the schema mapping${place} ${problem}`, {
    advice: 'Correct it as docs/format.md describes schema mappings',
  });
}

/** The name of logfold's own schema, whose items need no translation. */
const OWN_SCHEMA = 'logfold';

/** Mappings of well-known items, by name. Their partition key is the log's id. */
const KNOWN_ITEMS = {
  /**
   * Items of `DynamoDBSingleTableEventStorageAdapter`, from version 2 of the package
   * `@castore/event-storage-adapter-dynamodb`. A log's id is `STORE#AGGREGATE`. `castore:STORE`
   * reads one event store, whose logs have the ids of its aggregates.
   */
  castore: {
    partitionKey: { name: 'aggregateId', type: 'S' },
    sortKey: { name: 'version', type: 'N', first: 1 },
    type: 'type',
    version: { constant: 1 },
    time: { name: 'timestamp', format: 'iso' },
    body: 'payload',
  },
  /** A log by hand. */
  'pk-sk': {
    partitionKey: { name: 'pk', type: 'S' },
    sortKey: { name: 'sk', type: 'N', first: 0 },
    type: 'type',
    version: { constant: 1 },
    time: { name: 'ts', format: 'iso' },
    body: 'payload',
  },
} satisfies Record<string, MappingDocument>;

/**
 * Mappings that need no file, by name. A name never gets another meaning, because buckets have it:
 * `castore` gives no metadata, as in earlier releases, and `castore+metadata` does.
 */
const READY_MADE: Readonly<Record<string, MappingDocument>> = Object.fromEntries(
  Object.entries(KNOWN_ITEMS).flatMap(([name, document]) => [
    [name, document],
    [`${name}+metadata`, { ...document, metadata: 'metadata' }],
  ]),
);

/**
 * The names that {@link readMapping} knows. All except `logfold` take a parameter: `castore:STORE`
 * has the partition keys `STORE#{id}`.
 */
export const MAPPING_NAMES: readonly string[] = [OWN_SCHEMA, ...Object.keys(READY_MADE)];

/** Whether a text names a ready-made mapping, with or without a parameter. */
export function isMappingName(text: string): boolean {
  const [name = ''] = text.split(':');
  return MAPPING_NAMES.includes(name);
}

/**
 * Reads a schema mapping.
 * @param text the name of a ready-made mapping, or a mapping as JSON
 * @returns undefined for logfold's own schema: an empty text or `logfold`
 * @throws MappingInvalidError if the text is neither a name nor a valid mapping
 */
export function readMapping(text: string): SchemaMapping | undefined {
  if (text === '' || text === OWN_SCHEMA) return undefined;
  return parseMapping(isMappingName(text) ? readyMade(text) : parseDocument(text));
}

function readyMade(text: string): MappingDocument {
  const [, name, parameter] = /^([^:]*)(?::(.*))?$/s.exec(text) ?? [];
  const document = Object.entries(READY_MADE).find(([each]) => each === name)?.[1];
  if (document === undefined || parameter === '') {
    throw new MappingInvalidError(`'${text}' is not a ready-made schema mapping`, {
      advice: `Name one of ${MAPPING_NAMES.join(', ')}, or for example 'castore:STORE' for one event store`,
    });
  }
  if (parameter === undefined) return document;
  return { ...document, partitionKey: { ...document.partitionKey, pattern: `${parameter}#{id}` } };
}

function parseDocument(text: string): unknown {
  try {
    return parseJson(text);
  } catch (cause) {
    throw new MappingInvalidError(`the schema mapping is not JSON: ${textOf(cause)}`, {
      advice: `Give a JSON document as docs/format.md describes it, or one of the names ${MAPPING_NAMES.join(', ')}`,
      cause,
    });
  }
}
