import type { StoredAttribute, StoredItem } from '../log/attribute.ts';

export interface KeyAttribute {
  readonly name: string;
  readonly type: 'S' | 'N' | 'B';
}

export interface TableKeys {
  readonly partition: KeyAttribute;
  /** Undefined if the table has no sort key. */
  readonly sort: KeyAttribute | undefined;
}

/** Items of a table, and what the table says about itself. */
export interface TableSample {
  readonly keys: TableKeys;
  /** The TTL attribute; undefined if TTL is off. */
  readonly ttl: string | undefined;
  /** Items from all over the table, in no order. */
  readonly scanned: readonly StoredItem[];
  /** Partitions from their first item on, each in the order of its sort keys. */
  readonly partitions: readonly (readonly StoredItem[])[];
}

/** A key as people read it: `order#123, 17`. */
export function shownItemKey({ partition, sort }: TableKeys, item: StoredItem): string {
  const texts = [partition, ...(sort === undefined ? [] : [sort])].map(({ name }) => attributeText(item[name]));
  return texts.join(', ');
}

const SHOWN_CHARACTERS = 80;

/** A key attribute as people read it. Binary is text if it is UTF-8, otherwise hexadecimal. */
function attributeText(attribute: StoredAttribute | undefined): string {
  const text = wholeText(attribute);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/** Like {@link attributeText}, however long. */
export function wholeText(attribute: StoredAttribute | undefined): string {
  const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return keyTextOf(attribute) ?? attribute?.N ?? hex(attribute?.B ?? new Uint8Array());
}

/** The text of a String key, or of a Binary key that is UTF-8. */
export function keyTextOf(attribute: StoredAttribute | undefined): string | undefined {
  return attribute?.S ?? (attribute?.B === undefined ? undefined : textOfBytes(attribute.B));
}

function textOfBytes(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return /\p{Cc}/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}
