import { fromBase64, toBase64 } from '../codec/bytes.ts';
import { parseJson } from '../codec/json.ts';
import { ArchiveCorruptError } from '../errors.ts';
import type { AttributeValue, Item, StoredAttribute, StoredItem } from '../log/attribute.ts';

/**
 * An item as one line of DynamoDB JSON, without the line end, as DynamoDB's import from S3 accepts
 * it. Attributes, keys of maps and members of sets are in ascending order of UTF-16 code units, so
 * that equal items give equal lines. Every attribute is included, and numbers keep their text.
 */
export function encodeItemLine(item: StoredItem): string {
  return `{"Item":${encodeItem(item)}}`;
}

function encodeItem(item: StoredItem): string {
  const parts: string[] = [];
  for (const name of Object.keys(item).sort()) {
    const attribute = item[name];
    if (attribute !== undefined) parts.push(`${JSON.stringify(name)}:${encodeAttribute(attribute)}`);
  }
  return `{${parts.join(',')}}`;
}

function encodeAttribute(attribute: StoredAttribute): string {
  if (attribute.S !== undefined) return `{"S":${JSON.stringify(attribute.S)}}`;
  if (attribute.N !== undefined) return `{"N":${JSON.stringify(attribute.N)}}`;
  if (attribute.B !== undefined) return `{"B":"${toBase64(attribute.B)}"}`;
  if (attribute.BOOL !== undefined) return `{"BOOL":${attribute.BOOL}}`;
  if (attribute.NULL !== undefined) return '{"NULL":true}';
  if (attribute.M !== undefined) return `{"M":${encodeItem(attribute.M)}}`;
  if (attribute.L !== undefined) return `{"L":[${attribute.L.map(encodeAttribute).join(',')}]}`;
  if (attribute.SS !== undefined) return `{"SS":${JSON.stringify([...attribute.SS].sort())}}`;
  if (attribute.NS !== undefined) return `{"NS":${JSON.stringify([...attribute.NS].sort())}}`;
  if (attribute.BS !== undefined) return `{"BS":${JSON.stringify(attribute.BS.map(toBase64).sort())}}`;
  throw new ArchiveCorruptError('an attribute has no DynamoDB type');
}

/**
 * The inverse of {@link encodeItemLine}.
 * @throws ArchiveCorruptError, without place, if the line is not an item
 */
export function decodeItemLine(line: string): Item {
  let parsed: unknown;
  try {
    parsed = parseJson(line);
  } catch (cause) {
    throw new ArchiveCorruptError('a line is not JSON', { cause });
  }
  return decodeItem(only(parsed, 'Item'));
}

function decodeItem(value: unknown): Item {
  // `fromEntries` defines keys instead of assigning them, so `__proto__` works as a key.
  return Object.fromEntries(Object.entries(record(value)).map(([name, item]) => [name, decodeAttribute(item)]));
}

function decodeAttribute(value: unknown): AttributeValue {
  const [entry, ...others] = Object.entries(record(value));
  if (entry === undefined || others.length > 0) throw malformed();
  const [type, content] = entry;
  if (type === 'S') return { S: text(content) };
  if (type === 'N') return { N: text(content) };
  if (type === 'B') return { B: binary(content) };
  if (type === 'BOOL' && typeof content === 'boolean') return { BOOL: content };
  if (type === 'NULL' && content === true) return { NULL: true };
  if (type === 'M') return { M: decodeItem(content) };
  if (type === 'L') return { L: list(content).map(decodeAttribute) };
  if (type === 'SS') return { SS: list(content).map(text) };
  if (type === 'NS') return { NS: list(content).map(text) };
  if (type === 'BS') return { BS: list(content).map(binary) };
  throw malformed();
}

function only(value: unknown, name: string): unknown {
  const [entry, ...others] = Object.entries(record(value));
  if (entry?.[0] !== name || others.length > 0) throw malformed();
  return entry[1];
}

function record(value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformed();
  return value;
}

function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw malformed();
  return value;
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw malformed();
  return value;
}

function binary(value: unknown): Uint8Array {
  return fromBase64(text(value)) ?? fail();
}

function fail(): never {
  throw malformed();
}

function malformed(): ArchiveCorruptError {
  return new ArchiveCorruptError('a line is not an item in DynamoDB JSON');
}
