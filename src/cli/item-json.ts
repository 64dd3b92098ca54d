import { encodeItemLine } from '../archive/item-line.ts';
import { parseJson } from '../codec/json.ts';
import { UsageError } from '../errors.ts';
import type { Item } from '../log/attribute.ts';

/** An item in DynamoDB JSON. */
export function itemJson(item: Item): unknown {
  const line = parseJson(encodeItemLine(item));
  return typeof line === 'object' && line !== null && 'Item' in line ? line.Item : undefined;
}

const KEY_ADVICE = `Write the attributes of the primary key as one JSON object, such as {"id":"a"} or {"id":{"S":"a"}}`;

/**
 * Reads a primary key as people write it: in DynamoDB JSON, or with plain strings and numbers.
 * @throws UsageError
 */
export function parseItemKey(text: string): Item {
  let json: unknown;
  try {
    json = parseJson(text);
  } catch (cause) {
    throw new UsageError(`'${text}' is not JSON`, { advice: KEY_ADVICE, cause });
  }
  const attributes = typeof json === 'object' && json !== null && !Array.isArray(json) ? Object.entries(json) : [];
  if (attributes.length < 1 || attributes.length > 2) {
    throw new UsageError(`'${text}' is not an object with one or two attributes`, { advice: KEY_ADVICE });
  }
  return Object.fromEntries(attributes.map(([name, value]) => [name, keyAttribute(name, value)]));
}

function keyAttribute(name: string, value: unknown): Item[string] {
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'number') {
    if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return { N: String(value) };
    throw new UsageError(`the number of '${name}' has more digits than JSON numbers keep`, {
      advice: `Write it as {"N":"DIGITS"}`,
    });
  }
  const [[type, content] = [], ...others] = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  if (others.length === 0 && typeof content === 'string') {
    if (type === 'S') return { S: content };
    if (type === 'N') return { N: content };
    if (type === 'B') return { B: new Uint8Array(Buffer.from(content, 'base64')) };
  }
  throw new UsageError(`'${name}' is not a text, a number or a binary`, { advice: KEY_ADVICE });
}
