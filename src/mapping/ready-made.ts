import { parseJson } from '../codec/json.ts';
import { MappingInvalidError, textOf } from '../errors.ts';
import { type MappingDocument, parseMapping, type SchemaMapping } from './schema-mapping.ts';

/** The name of logfold's own schema, whose items need no translation. */
const OWN_SCHEMA = 'logfold';

/** Mappings that need no file, by name. Their partition key is the log's id. */
const READY_MADE = {
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
