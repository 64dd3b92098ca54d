import { plainBytes } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { decodeValue } from '../codec/message-pack.ts';
import { textOf } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { AttributeValue, Item, StoredAttribute, StoredItem } from '../log/attribute.ts';
import { entryKey, entryPlace } from '../log/item-codec.ts';
import { ItemReader } from '../log/item-reader.ts';
import { itemSeconds } from './item-time.ts';
import {
  attributeOf,
  hasKey,
  keyOf,
  type MappingPart,
  partitionKeyOf,
  refuse,
  shown,
  sortKeyOf,
} from './key-pattern.ts';
import { MAPPED_TYPES } from './layout.ts';
import type { BodyFormat, SchemaMapping } from './schema-mapping.ts';

/** The place of an item of the application in its log, as an item and as an entry. */
export interface ItemPlace {
  readonly log: LogId;
  readonly position: Position;
  /** Index of the item in its log. */
  readonly index: number;
}

// fromEntries defines keys instead of assigning them, so the name `__proto__` needs no special
// case.
type NamedAttribute = readonly [name: string, attribute: StoredAttribute];

/** Names that have a meaning in logfold's own schema. */
const ONE_CAPITAL_LETTER = /^[A-Z]$/;

/**
 * Translates an item of the application into the item of an entry, in logfold's own schema.
 *
 * - Key, type, version, TTL and body move to logfold's attributes.
 * - The time becomes `C`, and stays under its own name too.
 * - Every other attribute keeps its name, except one that has a meaning in logfold's schema: it
 *   moves into the Map `O`. If the body is the whole item, it moves into the body instead.
 * @throws ItemInvalidError if the item is not at this place, or an attribute does not fit the
 * mapping
 */
export function toEntryItem(mapping: SchemaMapping, item: StoredItem, place: ItemPlace): StoredItem {
  const { log, position, index } = place;
  const fail: Fail = (part, name, problem, cause) =>
    refuse(mapping, item, { part, name, problem, where: { log, ...position }, cause });
  checkKey(mapping, item, place, fail);
  const { time, ttl, body } = mapping;
  const stays: NamedAttribute[] = [];
  const reserved: NamedAttribute[] = [];
  const inBody: NamedAttribute[] = [];
  for (const [name, attribute] of Object.entries(item)) {
    if (attribute === undefined || (mapping.names.has(name) && name !== time?.attribute)) continue;
    if (body === 'whole item' && name !== time?.attribute) inBody.push([name, attribute]);
    else if (ONE_CAPITAL_LETTER.test(name)) reserved.push([name, attribute]);
    else stays.push([name, attribute]);
  }
  const bodyAttribute =
    body === 'whole item' ? { M: Object.fromEntries(inBody) } : bodyOf(attributeOf(item, body.attribute), body, fail);
  const expires = ttl === undefined || attributeOf(item, ttl) === undefined ? undefined : ttl;
  return {
    ...(stays.length > 0 && Object.fromEntries(stays)),
    ...entryKey(log, position),
    C: { N: String(secondsOf(mapping, item, fail)) },
    T: typeOf(mapping, item, fail),
    V: versionOf(mapping, item, fail),
    ...(bodyAttribute !== undefined && { B: bodyAttribute }),
    Q: { N: String(index + 1) },
    ...(expires !== undefined && { X: wholeNumber('ttl', expires, item, fail) }),
    ...(reserved.length > 0 && { O: { M: Object.fromEntries(reserved) } }),
  };
}

/**
 * The exact inverse of {@link toEntryItem}.
 * @throws ItemInvalidError if the item is no translation of an item of the application
 */
export function toApplicationItem(mapping: SchemaMapping, item: Item): Item {
  const { log, position } = entryPlace(item);
  const reader = new ItemReader(item);
  reader.where = { log, ...position };
  const number = reader.integer('Q');
  if (number === 0) reader.fail('Q', "is '0', but items of the application count from 1");
  if (MAPPED_TYPES.includes(reader.string('T'))) reader.fail('T', 'is that of a virtual entry');
  const { type, version, ttl, body } = mapping;
  const moved: [string, AttributeValue | undefined][] = [];
  if ('attribute' in type) moved.push([type.attribute, item.T]);
  if ('attribute' in version) moved.push([version.attribute, item.V]);
  if (ttl !== undefined) moved.push([ttl, item.X]);
  if (body !== 'whole item' && item.B !== undefined) {
    const { B } = item;
    const original = body.format === 'json' ? B : reader.parsed('B', () => fromBody(B));
    moved.push([body.attribute, original ?? reader.fail('B', 'is no body that logfold translated')]);
  }
  return {
    ...present(Object.entries(item).filter(([name]) => !ONE_CAPITAL_LETTER.test(name))),
    ...(body === 'whole item' && mapOf(item.B)),
    ...mapOf(item.O),
    ...present(moved),
    ...keyOf(mapping, log, number - 1),
  };
}

/** Refuses the item that is translated. */
type Fail = (part: MappingPart, name: string, problem: string, cause?: unknown) => never;

/** The translation has no keys of the application: log and index give them back exactly. */
function checkKey(mapping: SchemaMapping, item: StoredItem, { log, index }: ItemPlace, fail: Fail): void {
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
    fail('time', time.attribute, `is ${shown(found)}, not a time from 1970 on in ${TIME_FORMATS[time.format]}`)
  );
}

const TIME_FORMATS = {
  iso: 'ISO 8601 (a String)',
  s: 'epoch seconds (a Number)',
  ms: 'epoch milliseconds (a Number)',
} as const;

function typeOf({ type }: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute {
  if ('constant' in type) return { S: type.constant };
  const { attribute } = type;
  const found = attributeOf(item, attribute);
  if (found === undefined) return fail('type', attribute, 'is missing');
  if (found.S === undefined || found.S === '') return fail('type', attribute, `is ${shown(found)}, not a type`);
  return MAPPED_TYPES.includes(found.S) ? fail('type', attribute, `is '${found.S}', a type that logfold uses`) : found;
}

function versionOf({ version }: SchemaMapping, item: StoredItem, fail: Fail): StoredAttribute {
  if ('constant' in version) return { N: String(version.constant) };
  return wholeNumber('version', version.attribute, item, fail);
}

function wholeNumber(part: MappingPart, name: string, item: StoredItem, fail: Fail): StoredAttribute {
  const found = attributeOf(item, name);
  if (found === undefined) return fail(part, name, 'is missing');
  const isWhole = /^\d+$/.test(found.N ?? '') && Number.isSafeInteger(Number(found.N));
  return isWhole ? found : fail(part, name, `is ${shown(found)}, not a whole Number from 0`);
}

/** In logfold's schema a String is JSON text, and Binary is MessagePack. */
function bodyOf(
  found: StoredAttribute | undefined,
  { attribute, format }: { readonly attribute: string; readonly format: BodyFormat },
  fail: Fail,
): StoredAttribute | undefined {
  if (found === undefined) return undefined;
  if (format === 'json') return jsonText(found, attribute, fail);
  if (found.S !== undefined) return { S: JSON.stringify(found.S) };
  if (found.B !== undefined) return { B: encodeValue(plainBytes(found.B)) };
  return found;
}

function jsonText(found: StoredAttribute, attribute: string, fail: Fail): StoredAttribute {
  if (found.S === undefined) return fail('body', attribute, `is ${shown(found)}, not a String with JSON`);
  try {
    JSON.parse(found.S);
  } catch (cause) {
    return fail('body', attribute, `is ${shown(found)}, which is not JSON: ${textOf(cause)}`, cause);
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
    const value: unknown = JSON.parse(json);
    return typeof value === 'string' ? value : undefined;
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
