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
  const [entry, ...others] = isRecord(parsed) ? Object.entries(parsed) : [];
  if (entry?.[0] !== 'Item' || others.length > 0) throw malformed();
  return decodeItemJson(entry[1], malformed);
}

function malformed(): ArchiveCorruptError {
  return new ArchiveCorruptError('a line is not an item in DynamoDB JSON');
}

/**
 * Decodes an item in DynamoDB JSON. Binaries are in base64, and become bytes.
 * @param invalid makes the error for a value that is not an item, or for an attribute, by its name,
 * that has no type of DynamoDB
 */
export function decodeItemJson(value: unknown, invalid: (attribute?: string) => Error): Item {
  if (!isRecord(value)) throw invalid();
  // `fromEntries` defines keys instead of assigning them, so `__proto__` works as a key.
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, decodeAttribute(each, name, invalid)]));
}

function decodeAttribute(value: unknown, name: string, invalid: (attribute?: string) => Error): AttributeValue {
  const [[type, content] = [], ...others] = isRecord(value) ? Object.entries(value) : [];
  if (type === undefined || others.length > 0) throw invalid(name);
  if (typeof content === 'string') {
    if (type === 'S') return { S: content };
    if (type === 'N') return { N: content };
  }
  if (type === 'BOOL' && typeof content === 'boolean') return { BOOL: content };
  if (type === 'NULL' && content === true) return { NULL: true };
  if (type === 'M' && isRecord(content)) return { M: decodeItemJson(content, invalid) };
  const bytes = type === 'B' ? binary(content) : undefined;
  if (bytes !== undefined) return { B: bytes };
  if (!Array.isArray(content)) throw invalid(name);
  if (type === 'L') return { L: content.map((each) => decodeAttribute(each, name, invalid)) };
  if (type === 'SS' && content.every(isText)) return { SS: content };
  if (type === 'NS' && content.every(isText)) return { NS: content };
  const binaries = type === 'BS' ? content.map(binary) : [undefined];
  if (binaries.every((each) => each !== undefined)) return { BS: binaries };
  throw invalid(name);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function binary(value: unknown): Uint8Array | undefined {
  return typeof value === 'string' ? fromBase64(value) : undefined;
}
