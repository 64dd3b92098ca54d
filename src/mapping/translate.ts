import { plainBytes } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { parseJson, parseJsonString } from '../codec/json.ts';
import { decodeValue } from '../codec/message-pack.ts';
import { setKey } from '../codec/value.ts';
import { LogfoldError, textOf } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import {
  type AttributeValue,
  type Item,
  isReserved,
  type StoredAttribute,
  type StoredItem,
  valueFromAttribute,
  wholeNumber,
} from '../log/attribute.ts';
import { type Entry, type MutableEntry, partOfSecond, type StoredBody } from '../log/entry.ts';
import { decodeStoredBody, entryKey, entryPlace } from '../log/item-codec.ts';
import { ItemReader } from '../log/item-reader.ts';
import type { ItemTime } from '../log/meaning.ts';
import { decodeMetadata } from '../log/metadata.ts';
import { VIRTUAL_TYPES } from '../log/schedule.ts';
import { itemMilliseconds, itemSeconds } from './item-time.ts';
import {
  attributeOf,
  hasKey,
  keyOf,
  type MappingPart,
  partitionKeyOf,
  refuse,
  shownAttribute,
  sortKeyOf,
} from './key-pattern.ts';
import type { SchemaMapping } from './schema-mapping.ts';

/** The place of an item of the application in its log, as an item and as an entry. */
export interface MappedItemPlace {
  readonly log: LogId;
  readonly position: Position;
  /** Index of the item in its log. */
  readonly index: number;
}

/** Attributes of one item, in the making. */
type Attributes = Record<string, StoredAttribute>;

/**
 * Translates an item of the application into the item of an entry, in logfold's own schema.
 *
 * - Key, type, version, metadata, TTL and body move to logfold's attributes.
 * - The time becomes `C` and `P`, and stays under its own name too.
 * - Every other attribute keeps its name, except one that has a meaning in logfold's schema: it
 *   moves into the Map `O`. If the body is the whole item, it moves into the body instead.
 * @throws ItemInvalidError if the item is not at this place, or an attribute does not fit the
 * mapping
 */
export function toEntryItem(mapping: SchemaMapping, item: StoredItem, place: MappedItemPlace): StoredItem {
  const fail = failAt(mapping, item, place);
  checkItemKey(mapping, item, place, fail);
  const translated: Attributes = {};
  const reserved: Attributes = {};
  for (const name of Object.keys(item)) {
    const attribute = item[name];
    if (attribute === undefined || !keepsName(mapping, name)) continue;
    setKey(isReserved(name) ? reserved : translated, name, attribute);
  }
  const { S, N } = entryKey(place.log, place.position);
  const body = bodyOf(mapping, item, fail);
  translated.S = S;
  translated.N = N;
  translated.C = { N: String(secondsOf(mapping, item, fail)) };
  translated.T = typeOf(mapping, item, fail);
  translated.V = versionOf(mapping, item, fail);
  if (body !== undefined) translated.B = body;
  const milliseconds = millisecondsOf(mapping, item);
  if (milliseconds !== undefined) translated.P = { N: String(milliseconds) };
  translated.Q = { N: String(place.index + 1) };
  const metadata = metadataOf(mapping, item);
  if (metadata !== undefined) translated.M = metadata;
  const expires = expiryOf(mapping, item, fail);
  if (expires !== undefined) translated.X = expires;
  if (Object.keys(reserved).length > 0) translated.O = { M: reserved };
  return translated;
}

/**
 * Translates an item of the application into an entry, as `decodeEntry` does with the item of
 * {@link toEntryItem}.
 * @throws ItemInvalidError as {@link toEntryItem} does, and if the body cannot be read
 */
export function toEntry(mapping: SchemaMapping, item: StoredItem, place: MappedItemPlace): Entry {
  const fail = failAt(mapping, item, place);
  checkItemKey(mapping, item, place, fail);
  const { log, position, index } = place;
  const body = storedBodyOf(mapping, item, fail);
  const created = secondsOf(mapping, item, fail);
  const type = typeOf(mapping, item, fail).S ?? '';
  const version = Number(versionOf(mapping, item, fail).N);
  const expires = expiryOf(mapping, item, fail);
  const entry: MutableEntry = { log, position, created, type, version };
  const milliseconds = millisecondsOf(mapping, item);
  if (milliseconds !== undefined) entry.milliseconds = milliseconds;
  if (body !== undefined) entry.body = body;
  const metadata = decodeMetadata(metadataOf(mapping, item));
  if (metadata !== undefined) entry.metadata = metadata;
  if (Number.isSafeInteger(index + 1)) entry.number = index + 1;
  if (expires !== undefined) entry.expires = Number(expires.N);
  return entry;
}

/**
 * Whether the translation of an item has an attribute under its own name, or in `O`. Other
 * attributes move to those of logfold or, if the body is the whole item, into the body.
 */
function keepsName({ names, time, body }: SchemaMapping, name: string): boolean {
  return name === time?.attribute || (body !== 'whole item' && !names.has(name));
}

/**
 * The exact inverse of {@link toEntryItem}.
 * @throws ItemInvalidError if the item is not a translation of an item of the application
 */
export function toApplicationItem(mapping: SchemaMapping, item: Item): Item {
  const { log, position } = entryPlace(item);
  const reader = new ItemReader(item);
  reader.where = { log, ...position };
  const number = reader.integer('Q');
  if (number === 0) reader.fail('Q', "is '0', but items of the application count from 1");
  if (VIRTUAL_TYPES.includes(reader.string('T'))) reader.fail('T', 'is that of a virtual entry');
  const { type, version, metadata, ttl, body } = mapping;
  const moved: [string, AttributeValue | undefined][] = [];
  if ('attribute' in type) moved.push([type.attribute, item.T]);
  if ('attribute' in version) moved.push([version.attribute, item.V]);
  if (metadata !== undefined) moved.push([metadata, item.M]);
  if (ttl !== undefined) moved.push([ttl, item.X]);
  if (body !== 'whole item' && item.B !== undefined) {
    const { B } = item;
    const original = body.format === 'json' ? B : reader.parsed('B', () => fromBody(B));
    moved.push([body.attribute, original ?? reader.fail('B', 'is not a body that logfold translated')]);
  }
  return {
    ...present(Object.entries(item).filter(([name]) => !isReserved(name))),
    ...(body === 'whole item' && mapOf(item.B)),
    ...mapOf(item.O),
    ...present(moved),
    ...keyOf(mapping, log, number - 1),
  };
}

/**
 * The time of an item as an attribute of logfold's own schema.
 * @throws ItemInvalidError as {@link toEntryItem} does
 */
export function timeOf(mapping: SchemaMapping, item: StoredItem, place: MappedItemPlace): AttributeValue {
  return { N: String(secondsOf(mapping, item, failAt(mapping, item, place))) };
}

/** Refuses the item that is translated. */
type Fail = (part: MappingPart, name: string, problem: string, cause?: unknown) => never;

function failAt(mapping: SchemaMapping, item: StoredItem, { log, position }: MappedItemPlace): Fail {
  return (part, name, problem, cause) =>
    refuse(mapping, item, { part, name, problem, where: { log, ...position }, cause });
}

/** The translation has no keys of the application: log and index give them back exactly. */
function checkItemKey(mapping: SchemaMapping, item: StoredItem, { log, index }: MappedItemPlace, fail: Fail): void {
  const { partitionKey, sortKey } = mapping;
  if (!hasKey(attributeOf(item, partitionKey.name), partitionKeyOf(mapping, log))) {
    fail('partitionKey', partitionKey.name, `is not the key of log '${log}'`);
  }
  if (!hasKey(attributeOf(item, sortKey.name), sortKeyOf(mapping, index))) {
    fail('sortKey', sortKey.name, `is not the key of item ${index} of the log, counted from 0`);
  }
}

function secondsOf({ time }: SchemaMapping, item: StoredItem, fail: Fail): number {
  if (time === undefined) return 0;
  const found = attributeOf(item, time.attribute);
  if (found === undefined) return fail('time', time.attribute, 'is missing');
  return (
    itemSeconds(found, time.format) ??
    fail(
      'time',
      time.attribute,
      `is ${shownAttribute(found)}, not a time in 1970 or later in ${TIME_FORMATS[time.format]}`,
    )
  );
}

const TIME_FORMATS = {
  iso: 'ISO 8601 (a String)',
  s: 'epoch seconds (a Number)',
  ms: 'epoch milliseconds (a Number)',
} as const;

/** The time of a mapping's items; undefined if they have none. */
export function itemTime({ time }: Pick<SchemaMapping, 'time'>): ItemTime | undefined {
  if (time === undefined) return undefined;
  return { name: time.attribute, milliseconds: (found) => partOfSecond(itemMilliseconds(found, time.format)) };
}

function millisecondsOf({ time }: SchemaMapping, item: StoredItem): number | undefined {
  const found = time && attributeOf(item, time.attribute);
  return found && partOfSecond(itemMilliseconds(found, time.format));
}

/** The attribute as it is: an entry has metadata only if it has the form of logfold's. */
function metadataOf({ metadata }: SchemaMapping, item: StoredItem): StoredAttribute | undefined {
  return metadata === undefined ? undefined : attributeOf(item, metadata);
}

function typeOf({ type }: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute {
  if ('constant' in type) return { S: type.constant };
  const { attribute } = type;
  const found = attributeOf(item, attribute);
  if (found === undefined) return fail('type', attribute, 'is missing');
  if (found.S === undefined || found.S === '')
    return fail('type', attribute, `is ${shownAttribute(found)}, not a type`);
  return VIRTUAL_TYPES.includes(found.S) ? fail('type', attribute, `is '${found.S}', a type that logfold uses`) : found;
}

function versionOf({ version }: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute {
  if ('constant' in version) return { N: String(version.constant) };
  return wholeNumberIn('version', version.attribute, item, fail);
}

/** The value of the TTL attribute; undefined if the item does not have it. */
function expiryOf({ ttl }: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute | undefined {
  return ttl === undefined || attributeOf(item, ttl) === undefined ? undefined : wholeNumberIn('ttl', ttl, item, fail);
}

function wholeNumberIn(part: MappingPart, name: string, item: StoredItem, fail: Fail): StoredAttribute {
  const found = attributeOf(item, name);
  if (found === undefined) return fail(part, name, 'is missing');
  return Number.isSafeInteger(wholeNumber(found.N ?? ''))
    ? found
    : fail(part, name, `is ${shownAttribute(found)}, not a whole Number from 0`);
}

/** In logfold's schema a String is JSON text, and Binary is MessagePack. */
function bodyOf(mapping: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute | undefined {
  if (mapping.body === 'whole item') return { M: unnamedAttributes(mapping, item) };
  const { attribute, format } = mapping.body;
  const found = attributeOf(item, attribute);
  if (found === undefined) return undefined;
  if (format === 'json') return jsonText(found, attribute, fail);
  if (found.S !== undefined) return { S: JSON.stringify(found.S) };
  if (found.B !== undefined) return { B: encodeValue(plainBytes(found.B)) };
  return found;
}

/** The body of an entry. An error names the attribute of the application. */
function storedBodyOf(mapping: SchemaMapping, item: StoredItem, fail: Fail): StoredBody | undefined {
  const body = bodyOf(mapping, item, fail);
  try {
    return decodeStoredBody(body);
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    const names = mapping.body === 'whole item' ? Object.keys(body?.M ?? {}) : [mapping.body.attribute];
    const name = names.find((each) => !isReadable(attributeOf(item, each))) ?? names[0] ?? '';
    return fail('body', name, `cannot be read: ${error.reason}`, error);
  }
}

function isReadable(attribute: StoredAttribute | undefined): boolean {
  try {
    return valueFromAttribute(attribute ?? {}) !== undefined;
  } catch (error) {
    if (error instanceof LogfoldError) return false;
    throw error;
  }
}

function unnamedAttributes({ names }: SchemaMapping, item: StoredItem): Attributes {
  const unnamed: Attributes = {};
  for (const name of Object.keys(item)) {
    const attribute = item[name];
    if (attribute !== undefined && !names.has(name)) setKey(unnamed, name, attribute);
  }
  return unnamed;
}

function jsonText(found: StoredAttribute, attribute: string, fail: Fail): StoredAttribute {
  if (found.S === undefined) return fail('body', attribute, `is ${shownAttribute(found)}, not a String with JSON`);
  try {
    parseJson(found.S);
  } catch (cause) {
    return fail('body', attribute, `is ${shownAttribute(found)}, which is not JSON: ${textOf(cause)}`, cause);
  }
  return found;
}

/** The inverse of {@link bodyOf} for native bodies; undefined if it gives no such body. */
function fromBody(body: AttributeValue): AttributeValue | undefined {
  if ('S' in body) {
    const text = parseString(body.S);
    return text === undefined ? undefined : { S: text };
  }
  if (!('B' in body)) return body;
  const value = decodeValue(body.B);
  return value instanceof Uint8Array ? { B: value } : undefined;
}

function parseString(json: string): string | undefined {
  try {
    return parseJsonString(json);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function mapOf(attribute: AttributeValue | undefined): Item {
  return attribute !== undefined && 'M' in attribute ? attribute.M : {};
}

/** The attributes that are present, by name. */
function present(entries: readonly (readonly [string, AttributeValue | undefined])[]): Item {
  return Object.fromEntries(
    entries.flatMap(([name, attribute]) => (attribute === undefined ? [] : [[name, attribute]])),
  );
}
