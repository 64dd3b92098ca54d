import type { StoredItem } from '../log/attribute.ts';
import { keyTextOf, type TableKeys, wholeText } from './table-sample.ts';

/** How the sort keys of a kind are made. */
export type SortForm =
  | { readonly form: 'none' }
  | { readonly form: 'number' }
  /** Text that has digits at its end, or before a fixed text. */
  | { readonly form: 'digits'; readonly prefix: string; readonly suffix: string }
  /** Text with digits before texts that differ. */
  | { readonly form: 'digits and text'; readonly prefix: string }
  /** Text that orders items by time: a ULID, a UUID or a time. */
  | { readonly form: 'ULID' | 'UUID' | 'time'; readonly prefix: string }
  | { readonly form: 'text'; readonly prefix: string };

/** Items whose keys have one pattern. */
export interface ItemKind {
  /** The pattern of the partition keys, such as `order#{id}`. */
  readonly partition: string;
  readonly sort: SortForm;
  readonly items: readonly StoredItem[];
  /** The items by partition key, each in the order of the sample. */
  readonly byPartition: ReadonlyMap<string, readonly StoredItem[]>;
}

/** Between the parts of a key. */
const PART_SEPARATOR = /[#|:/~@]/;
const WEAK_SEPARATOR = /[-_.]/;
const LETTERS = /^[A-Za-z][A-Za-z_-]*$/;
const ID = '{id}';
/** So many prefixes of partition keys are ids and not kinds. */
const MANY_PREFIXES = 8;
/** So many keys with one prefix show that a weak separator ends it. */
const MANY_KEYS = 3;

type KeyedItems = Pick<ItemKind, 'partition' | 'sort'> & { readonly items: StoredItem[] };

/** Groups items by the patterns of their keys, the kind with the most items first. */
export function itemKinds(keys: TableKeys, items: readonly StoredItem[]): ItemKind[] {
  const texts = [...new Set(items.map((item) => keyTextOf(item[keys.partition.name]) ?? ''))];
  const patternOf = partitionPatterns(texts);
  const kinds = new Map<string, KeyedItems>();
  for (const item of items) {
    const partition = patternOf(keyTextOf(item[keys.partition.name]) ?? '');
    const sort = sortForm(keys, item);
    const name = JSON.stringify([partition, sort]);
    const kind = kinds.get(name) ?? { partition, sort, items: [] };
    kinds.set(name, kind);
    kind.items.push(item);
  }
  return [...joinSuffixes([...kinds.values()])]
    .map((kind) => ({ ...kind, byPartition: Map.groupBy(kind.items, (item) => wholeText(item[keys.partition.name])) }))
    .sort((a, b) => b.items.length - a.items.length);
}

/** Makes one kind of those that differ only in the text after the number, such as `0001#Placed`. */
function joinSuffixes(kinds: readonly KeyedItems[]): KeyedItems[] {
  const groups = Map.groupBy(kinds, ({ partition, sort }) =>
    JSON.stringify(sort.form === 'digits' && sort.suffix !== '' ? [partition, sort.prefix] : [partition, sort]),
  );
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (group.length === 1 || first?.sort.form !== 'digits') return group;
    const { partition, sort } = first;
    const items = group.flatMap((kind) => kind.items);
    return [{ partition, sort: { form: 'digits and text', prefix: sort.prefix }, items }];
  });
}

/** The pattern of each partition key: a literal prefix that other keys share, then the id. */
function partitionPatterns(texts: readonly string[]): (text: string) => string {
  const prefixes = Map.groupBy(texts, (text) => prefixOf(text) ?? '');
  const named = [...prefixes.keys()].filter((prefix) => prefix !== '');
  // A log's id may come first: `alice#orders`.
  const areIds = named.length > MANY_PREFIXES && texts.length < 2 * named.length;
  const patterns = new Map<string, string>();
  for (const [prefix, group] of prefixes) {
    const literal = areIds || !isLiteral(prefix, group.length, texts.length) ? '' : prefix;
    const common = literal === '' ? '' : longerPrefix(literal, group);
    for (const text of group) patterns.set(text, `${common}${ID}`);
  }
  return (text) => patterns.get(text) ?? ID;
}

/** A partition key up to its first separator; undefined if it has none. */
function prefixOf(text: string): string | undefined {
  const end = text.search(PART_SEPARATOR);
  if (end > 0) return text.slice(0, end + 1);
  const weak = text.search(WEAK_SEPARATOR);
  return weak > 0 && weak < text.length - 1 ? text.slice(0, weak + 1) : undefined;
}

function isLiteral(prefix: string, keys: number, all: number): boolean {
  if (prefix === '') return false;
  if (!PART_SEPARATOR.test(prefix)) return keys >= MANY_KEYS && LETTERS.test(prefix.slice(0, -1));
  return LETTERS.test(prefix.slice(0, -1)) || (keys === all && keys > 1);
}

/** Extends a prefix by further parts that all of several keys share: `tenant#1#order#`. */
function longerPrefix(prefix: string, texts: readonly string[]): string {
  const [first = ''] = texts;
  for (let longer = prefix; texts.length > 1; ) {
    const rest = prefixOf(first.slice(longer.length));
    if (rest === undefined || !PART_SEPARATOR.test(rest)) return longer;
    const next = longer + rest;
    if (!texts.every((text) => text.startsWith(next) && text.length > next.length)) return longer;
    longer = next;
  }
  return prefix;
}

const ULID = /(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const TIME = /\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?$/;
/** Epoch seconds or milliseconds of this century. */
const EPOCH = /(?<!\d)[1-4]\d{9}(?:\d{3})?$/;
const DIGITS = /\d+$/;
/** Digits between separators or the ends of the text, with no digits after them. */
const DIGITS_AND_TEXT = /^((?:.*[#|:/~@_.-])?)\d+([#|:/~@_.-]\D*)$/s;

function sortForm({ sort }: TableKeys, item: StoredItem): SortForm {
  if (sort === undefined) return { form: 'none' };
  if (sort.type === 'N') return { form: 'number' };
  const text = item[sort.name]?.S;
  if (text === undefined) return { form: 'text', prefix: '' };
  const found = (
    [
      ['ULID', ULID],
      ['UUID', UUID],
      ['time', TIME],
      ['time', EPOCH],
      ['digits', DIGITS],
    ] as const
  ).find(([, pattern]) => pattern.test(text));
  if (found !== undefined) {
    const [form, pattern] = found;
    const prefix = text.slice(0, text.search(pattern));
    return form === 'digits' ? { form, prefix, suffix: '' } : { form, prefix };
  }
  const [, prefix, suffix] = DIGITS_AND_TEXT.exec(text) ?? [];
  if (prefix !== undefined && suffix !== undefined) return { form: 'digits', prefix, suffix };
  // A lone word is literal: `META`.
  return { form: 'text', prefix: prefixOf(text) ?? (LETTERS.test(text) ? text : '') };
}

/** The sort keys of a kind for people. */
export function describeSort(sort: SortForm): string {
  switch (sort.form) {
    case 'none':
      return 'none';
    case 'number':
      return 'a number';
    case 'digits':
      return `${sort.prefix}{n}${sort.suffix}`;
    case 'digits and text':
      return `${sort.prefix}{n}…`;
    case 'text':
      return sort.prefix === '' ? 'text' : `${sort.prefix}…`;
    default:
      return `${sort.prefix}{${sort.form}}`;
  }
}
