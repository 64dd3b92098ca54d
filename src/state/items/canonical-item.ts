import { equalBytes, plainBytes } from '../../codec/bytes.ts';
import { encodeValue } from '../../codec/canonical.ts';
import { isObject, type Value } from '../../codec/value.ts';
import { ItemInvalidError } from '../../errors.ts';
import {
  type AttributeValue,
  compareBytes,
  type Item,
  plainAttribute,
  type StoredAttribute,
  type StoredItem,
} from '../../log/attribute.ts';

/**
 * An item as revisions hold it: every attribute with its type, numbers as DynamoDB writes them, and
 * the members of sets in order.
 * @throws ItemInvalidError if an attribute has no type
 */
export function canonicalItem(item: StoredItem): Item {
  return Object.fromEntries(Object.entries(item).map(([name, attribute]) => [name, canonical(attribute ?? {})]));
}

function canonical(attribute: StoredAttribute): AttributeValue {
  const { SS, NS, BS, L, M } = attribute;
  if (SS !== undefined) return { SS: [...SS].sort() };
  if (NS !== undefined) return { NS: [...NS].sort() };
  if (BS !== undefined) return { BS: BS.map(plainBytes).sort(compareBytes) };
  if (L !== undefined) return { L: L.map(canonical) };
  if (M !== undefined) return { M: canonicalItem(M) };
  return plainAttribute(attribute);
}

/** Whether two items have the same attributes. Both are canonical; undefined stands for no item. */
export function sameItem(a: Item | undefined, b: Item | undefined): boolean {
  return equalBytes(encodeValue(a ?? null), encodeValue(b ?? null));
}

/**
 * Reads an item in a body or a state, in canonical form.
 * @throws ItemInvalidError if the value is not an item of DynamoDB
 */
export function itemOfValue(value: Value): Item {
  if (!isObject(value)) throw new ItemInvalidError('an item of DynamoDB is not an object');
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, attributeOfValue(name, each)]));
}

function attributeOfValue(name: string, value: Value): AttributeValue {
  const [[type, content] = [], ...others] = isObject(value) ? Object.entries(value) : [];
  const attribute = content === undefined || others.length > 0 ? undefined : canonicalAttribute(name, type, content);
  if (attribute !== undefined) return attribute;
  throw new ItemInvalidError(`'${name}' of an item does not have exactly one type of DynamoDB, and a value of it`);
}

function canonicalAttribute(name: string, type: string | undefined, content: Value): AttributeValue | undefined {
  switch (type) {
    case 'S':
      return isText(content) ? { S: content } : undefined;
    case 'N':
      return isText(content) ? { N: content } : undefined;
    case 'B':
      return isBytes(content) ? { B: content } : undefined;
    case 'BOOL':
      return typeof content === 'boolean' ? { BOOL: content } : undefined;
    case 'NULL':
      return content === true ? { NULL: true } : undefined;
    case 'M':
      return { M: itemOfValue(content) };
    case 'L':
      return isList(content) ? { L: content.map((each) => attributeOfValue(name, each)) } : undefined;
    case 'SS':
      return isList(content) && content.every(isText) ? { SS: content.toSorted() } : undefined;
    case 'NS':
      return isList(content) && content.every(isText) ? { NS: content.toSorted() } : undefined;
    case 'BS':
      return isList(content) && content.every(isBytes) ? { BS: content.toSorted(compareBytes) } : undefined;
    default:
      return undefined;
  }
}

function isText(value: Value): value is string {
  return typeof value === 'string';
}

function isBytes(value: Value): value is Uint8Array {
  return value instanceof Uint8Array;
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}
