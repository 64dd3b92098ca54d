import type { Value } from '../../../src/codec/value.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { type AttributeValue, attributeFromValue, type Item } from '../../../src/log/attribute.ts';
import type { Random } from '../models/random.ts';

/**
 * A schema mapping in the form of its JSON document. Tests build keys and items from it with the
 * plain code of this file.
 */
export interface ApplicationSchema {
  readonly partitionKey: { readonly name: string; readonly type: 'S' | 'B'; readonly pattern?: string };
  readonly sortKey: {
    readonly name: string;
    readonly type: 'N' | 'S';
    readonly first: 0 | 1;
    readonly pattern?: string;
  };
  readonly type: string | { readonly constant: string };
  readonly version: string | { readonly constant: number };
  readonly time?: { readonly name: string; readonly format: 'iso' | 's' | 'ms' };
  readonly body: string | { readonly name: string; readonly format: 'native' | 'json' } | { readonly item: true };
  readonly ttl?: string;
}

/** A mapping with a random choice for everything that a mapping can say. */
export function anySchema(random: Random): ApplicationSchema {
  const type = random.pick(['S', 'B'] as const);
  const pattern = random.pick([{}, { pattern: 'order#{id}' }, { pattern: '{id}/events' }]);
  const first = random.pick([0, 1] as const);
  const sortKey = random.chance(0.5)
    ? { name: 'sk', type: 'N' as const, first }
    : { name: 'sk', type: 'S' as const, first, pattern: random.pick(['event#{n:6}', '{n:4}']) };
  const format = random.pick(['iso', 's', 'ms', undefined] as const);
  return {
    partitionKey: { name: 'pk', type, ...pattern },
    sortKey,
    type: random.chance(0.7) ? 'type' : { constant: 'Edited' },
    version: random.chance(0.5) ? 'v' : { constant: 1 },
    ...(format !== undefined && { time: { name: 'at', format } }),
    body: random.pick<ApplicationSchema['body']>(['payload', { name: 'payload', format: 'json' }, { item: true }]),
    ...(random.chance(0.7) && { ttl: 'expiresAt' }),
  };
}

/** The primary key of an item, by its index from 0. */
export function applicationKey({ partitionKey, sortKey }: ApplicationSchema, log: LogId, index: number): Item {
  const text = (partitionKey.pattern ?? '{id}').replace('{id}', () => log);
  const number = index + sortKey.first;
  const padded = (sortKey.pattern ?? '').replace(/\{n:(\d)\}/, (_, digits) =>
    String(number).padStart(Number(digits), '0'),
  );
  return {
    [partitionKey.name]: partitionKey.type === 'S' ? { S: text } : { B: new TextEncoder().encode(text) },
    [sortKey.name]: sortKey.type === 'N' ? { N: String(number) } : { S: padded },
  };
}

/** The content of an application's item. */
export interface NewItem {
  readonly type: string;
  readonly version: number;
  readonly body: Value;
  /** Identifies the item. No mapping names this attribute. */
  readonly serial: number;
  /** Epoch milliseconds. */
  readonly nowMs: number;
}

/**
 * An item as an application of this schema writes it. If the schema has a constant type, the body
 * says the type.
 */
export function applicationItem(schema: ApplicationSchema, log: LogId, index: number, from: NewItem): Item {
  const { type, version, body, serial, nowMs } = from;
  const item: Item = { ...applicationKey(schema, log, index), serial: { N: String(serial) }, Z: { S: 'one letter' } };
  if (typeof schema.type === 'string') item[schema.type] = { S: type };
  if (typeof schema.version === 'string') item[schema.version] = { N: String(version) };
  if (schema.time !== undefined) item[schema.time.name] = applicationTime(schema.time.format, nowMs);
  const content = typeof schema.type === 'string' ? body : { kind: type, edit: body };
  if (typeof schema.body === 'string') item[schema.body] = attributeFromValue(content);
  else if ('item' in schema.body) Object.assign(item, { kind: { S: type }, edit: attributeFromValue(body) });
  else item[schema.body.name] = { S: JSON.stringify(content) };
  return item;
}

/** The edit in the body of an entry, as {@link applicationItem} wrote it. */
export function editOf<Entry extends { readonly type: string; readonly body: Value }>(entry: Entry): Entry {
  const { body } = entry;
  if (typeof body !== 'object' || body === null || !('edit' in body) || typeof body.kind !== 'string') return entry;
  return { ...entry, type: body.kind, body: body.edit };
}

function applicationTime(format: 'iso' | 's' | 'ms', nowMs: number): AttributeValue {
  if (format === 'iso') return { S: new Date(nowMs).toISOString() };
  return { N: String(format === 's' ? Math.floor(nowMs / 1000) : nowMs) };
}
