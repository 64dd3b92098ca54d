import { sha256 } from '@noble/hashes/sha2.js';
import { toBase64, toHex } from '../../codec/bytes.ts';
import { parseJson } from '../../codec/json.ts';
import { UsageError } from '../../errors.ts';
import { decimalText, type StoredAttribute, type StoredItem } from '../../log/attribute.ts';
import { MAX_STRING_KEY_LENGTH } from '../../tree/key.ts';

/** The names of the attributes that make the primary key of a table: partition key, sort key. */
export type KeyNames = readonly [string] | readonly [string, string];

const utf8 = new TextEncoder();

/**
 * The key of an item in the map `items`: its primary key in DynamoDB JSON, such as
 * `{"id":{"S":"a"}}`, partition key first. Equal keys have equal text, also if their numbers are
 * written differently. A text of more than 1,024 UTF-16 code units is replaced by `sha256:` and its
 * hash.
 * @param keys an item, or only its key
 * @throws UsageError if an attribute of the key is missing, or is not a String, Number or Binary
 */
export function itemKey({ keyNames }: { readonly keyNames: KeyNames }, keys: StoredItem): string {
  const text = keyText(keyNames, keys);
  return text.length <= MAX_STRING_KEY_LENGTH ? text : `sha256:${toHex(sha256(utf8.encode(text)))}`;
}

/**
 * Some attributes of an item in DynamoDB JSON, in the order of their names.
 * @throws UsageError as {@link itemKey}
 */
export function keyText(names: readonly string[], keys: StoredItem): string {
  return `{${names.map((name) => `${JSON.stringify(name)}:${attributeText(name, keys)}`).join()}}`;
}

/**
 * The inverse of {@link itemKey}: the names of the attributes that make the key of an item;
 * undefined if none do.
 */
export function keyNamesOf(key: string, item: StoredItem): KeyNames | undefined {
  // A hash names no attribute, so each of them may be part of the key.
  const all = key.startsWith('{') ? Object.keys(Object(parseJson(key))) : Object.keys(item);
  const names = all.filter((name) => isKeyPart(item, name));
  const isKey = (keyNames: KeyNames) => itemKey({ keyNames }, item) === key;
  for (const partition of names) {
    if (isKey([partition])) return [partition];
    const sort = names.find((name) => name !== partition && isKey([partition, name]));
    if (sort !== undefined) return [partition, sort];
  }
  return undefined;
}

function isKeyPart(item: StoredItem, name: string): boolean {
  const { S, N, B } = keyAttributeOf(item, name);
  return (S ?? N ?? B) !== undefined;
}

/** An attribute, without fields if it is missing. A prototype may have a property of this name. */
function keyAttributeOf(item: StoredItem, name: string): StoredAttribute {
  return (Object.hasOwn(item, name) ? item[name] : undefined) ?? {};
}

function attributeText(name: string, keys: StoredItem): string {
  const { S, N, B } = keyAttributeOf(keys, name);
  if (S !== undefined) return JSON.stringify({ S });
  if (B !== undefined) return JSON.stringify({ B: toBase64(B) });
  const number = N === undefined ? undefined : decimalText(N);
  if (number !== undefined) return JSON.stringify({ N: number });
  throw new UsageError(`the key has no String, Number or Binary '${name}'`, {
    advice: 'Give the primary key in DynamoDB JSON, such as {"id":{"S":"a"}}',
  });
}
