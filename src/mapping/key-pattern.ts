import { equalBytes, toHex } from '../codec/bytes.ts';
import { ItemInvalidError, LogfoldError, LogIdInvalidError, PositionInvalidError, type Where } from '../errors.ts';
import { type LogId, textLogId } from '../ids/log-id.ts';
import {
  type AttributeValue,
  type Item,
  type StoredAttribute,
  type StoredItem,
  wholeNumber,
} from '../log/attribute.ts';
import type { SchemaMapping, SortKeyMapping } from './schema-mapping.ts';

/** The most bytes of a partition key in DynamoDB. */
const MAX_PARTITION_KEY_BYTES = 2048;

const utf8 = new TextEncoder();
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The log that an item belongs to, by its primary key.
 * @param key the item, or only its primary key
 * @returns undefined if a key does not have the texts around the id or the number: then the item is
 * something else
 * @throws ItemInvalidError if a key is missing or has another type, or the id is empty, too long or
 * no text
 */
export function logOfKey(mapping: SchemaMapping, key: StoredItem): LogId | undefined {
  const { partitionKey, sortKey } = mapping;
  const id = partitionId(mapping, key);
  if (id === undefined) return undefined;
  if (sortKey.form !== 'N' && between(sortText(mapping, key), sortKey.form) === undefined) return undefined;
  try {
    return textLogId(id);
  } catch (cause) {
    if (!(cause instanceof LogfoldError)) throw cause;
    return refuse(mapping, key, {
      part: 'partitionKey',
      name: partitionKey.name,
      problem: `has no log id of 1 to 2000 bytes${id === '' ? ', but an empty one' : ''}`,
      cause,
    });
  }
}

/**
 * The index of an item in its log: the number in its sort key, without the number of the first
 * item.
 * @param key the item, or only its primary key
 * @throws ItemInvalidError if the sort key is missing, has another type, or has no number in
 * exactly the form of the mapping
 */
export function indexOfKey(mapping: SchemaMapping, key: StoredItem): number {
  const { name, first, form } = mapping.sortKey;
  const fail = (problem: string) =>
    refuse(mapping, key, { part: 'sortKey', name, problem, where: { log: findLog(mapping, key) } });
  const text = sortText(mapping, key);
  const digits =
    form === 'N' ? text : (between(text, form) ?? fail(`is '${text}' and has other texts around a number`));
  const number = wholeNumber(digits);
  const hasForm = form === 'N' ? digits === '0' || !digits.startsWith('0') : digits.length === form.digits;
  if (number === undefined || !hasForm) {
    return fail(
      form === 'N'
        ? `is '${digits}', not a whole number of at least 0`
        : `is '${text}', whose number does not have exactly ${form.digits} digits`,
    );
  }
  if (!Number.isSafeInteger(number)) return fail(`is '${text}', a number above ${Number.MAX_SAFE_INTEGER}`);
  if (number < first) return fail(`is '${text}', a number below ${first}, the first one of a log`);
  return number - first;
}

/** The highest index that an item of a log can have. */
export function maxIndex({ sortKey: { first, form } }: SchemaMapping): number {
  const max = form === 'N' ? Number.MAX_SAFE_INTEGER : Math.min(10 ** form.digits - 1, Number.MAX_SAFE_INTEGER);
  return max - first;
}

/**
 * The primary key of an item.
 * @throws PositionInvalidError if the index is above {@link maxIndex}
 */
export function keyOf(mapping: SchemaMapping, log: LogId, index: number): Item {
  const { partitionKey, sortKey } = mapping;
  return { [partitionKey.name]: partitionKeyOf(mapping, log), [sortKey.name]: sortKeyOf(mapping, index) };
}

/** The value of the partition key of all items of a log. */
export function partitionKeyOf({ partitionKey }: SchemaMapping, log: LogId): AttributeValue {
  const text = `${partitionKey.prefix}${log}${partitionKey.suffix}`;
  return partitionKey.type === 'S' ? { S: text } : { B: utf8.encode(text) };
}

/**
 * The value of the sort key of the item with an index.
 * @throws PositionInvalidError if the index is above {@link maxIndex}
 */
export function sortKeyOf(mapping: SchemaMapping, index: number): AttributeValue {
  const { first, form } = mapping.sortKey;
  if (index > maxIndex(mapping)) {
    throw new PositionInvalidError(`no sort key of the mapping has the number ${index + first}`);
  }
  if (form === 'N') return { N: String(index + first) };
  return { S: `${form.prefix}${String(index + first).padStart(form.digits, '0')}${form.suffix}` };
}

/**
 * Takes a text as the id of a log of a mapping.
 * @throws LogIdInvalidError if no partition key of the mapping can hold it
 */
export function parseMappedLog({ partitionKey }: SchemaMapping, text: string): LogId {
  const log = textLogId(text);
  const { name, prefix, suffix } = partitionKey;
  const bytes = utf8.encode(`${prefix}${log}${suffix}`).length;
  if (bytes <= MAX_PARTITION_KEY_BYTES) return log;
  throw new LogIdInvalidError(
    `'${text.slice(0, 100)}' is too long for a log id: its key '${name}' would have ${bytes} bytes`,
    { advice: `Give the id of a log whose key has at most ${MAX_PARTITION_KEY_BYTES} bytes` },
  );
}

/** The longest filter pattern that Lambda takes. */
const MAX_FILTER_LENGTH = 4096;

/**
 * The filter pattern for Lambda's event source, as JSON: inserted items whose String keys begin as
 * the mapping says. AWS documents no filter for Binary keys, so the pattern ignores them. The
 * stream function checks each item again.
 */
export function streamFilterOf({ partitionKey, sortKey }: SchemaMapping): string {
  const prefixes = [
    [partitionKey.name, partitionKey.type === 'S' ? partitionKey.prefix : ''],
    [sortKey.name, sortKey.form === 'N' ? '' : sortKey.form.prefix],
  ];
  const keys = prefixes.filter(([, prefix]) => prefix !== '').map(([name, prefix]) => [name, { S: [{ prefix }] }]);
  const inserts = { eventName: ['INSERT'] };
  const filter = JSON.stringify({ ...inserts, dynamodb: { Keys: Object.fromEntries(keys) } });
  return keys.length === 0 || filter.length > MAX_FILTER_LENGTH ? JSON.stringify(inserts) : filter;
}

/** An attribute of an item; undefined if it is missing, even if all objects have its name. */
export function attributeOf(item: StoredItem, name: string): StoredAttribute | undefined {
  return Object.hasOwn(item, name) ? item[name] : undefined;
}

/** Whether a key of an item has a value. */
export function hasKey(found: StoredAttribute | undefined, key: AttributeValue): boolean {
  if ('S' in key) return found?.S === key.S;
  if ('N' in key) return found?.N === key.N;
  return 'B' in key && found?.B !== undefined && equalBytes(found.B, key.B);
}

/** The part of a mapping that names the attribute of an error. */
export type MappingPart = Exclude<keyof SchemaMapping, 'names'>;

/**
 * Refuses an item that does not fit a mapping.
 * @throws ItemInvalidError always; it names the item by its key
 */
export function refuse(
  mapping: SchemaMapping,
  item: StoredItem,
  error: {
    /** The part of the mapping that the attribute does not fit. */
    readonly part: MappingPart;
    readonly name: string;
    readonly problem: string;
    readonly where?: Where;
    readonly cause?: unknown;
  },
): never {
  throw new ItemInvalidError(`attribute '${error.name}' ${error.problem}, in ${namedByKey(mapping, item)}`, {
    ...error.where,
    advice: `Correct the item, or change '${error.part}' of the mapping`,
    cause: error.cause,
  });
}

/** Names an item by its key, for messages. */
export function namedByKey({ partitionKey, sortKey }: SchemaMapping, item: StoredItem): string {
  const keys = [partitionKey.name, sortKey.name].map((name) => `${name} ${shownAttribute(attributeOf(item, name))}`);
  return `the item with ${keys.join(', ')}`;
}

/** A value as text for an error; undefined is a missing attribute. */
export function shownAttribute(attribute: StoredAttribute | undefined): string {
  if (attribute === undefined) return '(missing)';
  const { S, N, B } = attribute;
  const text = S ?? N ?? (B && toHex(B.subarray(0, 50)));
  return text === undefined ? `of type ${Object.keys(attribute)[0]}` : `'${text.slice(0, 100)}'`;
}

/** The log of an item, for an error; undefined if its key is malformed too. */
function findLog(mapping: SchemaMapping, key: StoredItem): LogId | undefined {
  try {
    return logOfKey(mapping, key);
  } catch (error) {
    if (error instanceof ItemInvalidError) return undefined;
    throw error;
  }
}

/** The text between the fixed texts of the partition key; undefined if it does not have them. */
function partitionId(mapping: SchemaMapping, key: StoredItem): string | undefined {
  const { partitionKey } = mapping;
  const { name, type } = partitionKey;
  const fail = (problem: string) => refuse(mapping, key, { part: 'partitionKey', name, problem });
  if (type === 'S') return between(attributeOf(key, name)?.S ?? fail('is not a String'), partitionKey);
  const bytes = attributeOf(key, name)?.B ?? fail('is not Binary');
  try {
    return between(strictUtf8.decode(bytes), partitionKey);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  const prefix = utf8.encode(partitionKey.prefix);
  const suffix = utf8.encode(partitionKey.suffix);
  const isOther =
    !equalBytes(bytes.subarray(0, prefix.length), prefix) ||
    !equalBytes(bytes.subarray(Math.max(0, bytes.length - suffix.length)), suffix);
  return isOther ? undefined : fail('is not text in UTF-8');
}

function sortText(mapping: SchemaMapping, key: StoredItem): string {
  const { name, form }: SortKeyMapping = mapping.sortKey;
  const text = form === 'N' ? attributeOf(key, name)?.N : attributeOf(key, name)?.S;
  if (text !== undefined) return text;
  return refuse(mapping, key, {
    part: 'sortKey',
    name,
    problem: form === 'N' ? 'is not a Number' : 'is not a String',
  });
}

function between(text: string, { prefix, suffix }: { readonly prefix: string; readonly suffix: string }) {
  if (text.length < prefix.length + suffix.length || !text.startsWith(prefix) || !text.endsWith(suffix)) {
    return undefined;
  }
  return text.slice(prefix.length, text.length - suffix.length);
}
