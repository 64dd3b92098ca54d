import { ItemInvalidError, MappingInvalidError } from '../errors.ts';
import { START } from '../ids/position.ts';
import type { StoredItem } from '../log/attribute.ts';
import { indexOfKey, logOfKey } from '../mapping/key-pattern.ts';
import {
  isMappingName,
  MAPPING_NAMES,
  type MappingDocument,
  parseMapping,
  readMapping,
  type SchemaMapping,
} from '../mapping/schema-mapping.ts';
import { toEntryItem } from '../mapping/translate.ts';
import { type AttributeRoles, attributeRoles } from './attribute-roles.ts';
import { describeSort, type ItemKind, itemKinds } from './item-kinds.ts';
import { digitsIn, type Misfit, Misfits, type NumberedItem, numberedItems, numberReader } from './misfits.ts';
import { keyTextOf, shownItemKey, type TableKeys, type TableSample } from './table-sample.ts';

/** A mapping as JSON, with the attributes that the sample shows. */
export type ProposedMapping = MappingDocument & AttributeRoles;

/** Items of a table whose keys have one pattern. */
export interface KindReport {
  readonly partitionKey: string;
  readonly sortKey: string;
  readonly items: number;
  readonly partitions: number;
  /** The key of one of the items. */
  readonly example: string;
  /** Whether the mapping is for this kind. It leaves other kinds alone. */
  readonly isLog: boolean;
}

/** The event logs of a table, as far as a sample shows them. */
export interface Proposal {
  /** The program whose items these are, if it is known. */
  readonly recognized: 'Castore' | "logfold's Entry table" | "logfold's Segment table" | undefined;
  readonly kinds: readonly KindReport[];
  /** Undefined if no kind can be read as logs. */
  readonly mapping: ProposedMapping | undefined;
  /** The name of a ready-made mapping that equals the proposed one; undefined if there is none. */
  readonly readyMade: string | undefined;
  /** Attributes that stay beside the body, where reducers do not see them. */
  readonly beside: readonly string[];
  readonly misfits: readonly Misfit[];
}

const NUMBERED: readonly ItemKind['sort']['form'][] = ['number', 'digits'];
/** The attribute in which the ready-made mappings find metadata. */
const METADATA = 'metadata';
/** The pattern of partition keys that are ids of logs as a whole. */
const ID_ALONE = '{id}';
/** Numbers from here on are times in epoch seconds or milliseconds. */
const EPOCH = 1e9;

/** Groups the items of a sample, and proposes a mapping for the kind that looks like event logs. */
export function propose(sample: TableSample): Proposal {
  const { keys } = sample;
  const items = uniqueItems(sample);
  const kinds = itemKinds(keys, items);
  const own = ownTable(keys, items);
  const log = own === undefined ? eventKind(sample, kinds) : undefined;
  const report = (kind: ItemKind): KindReport => ({
    partitionKey: kind.partition,
    sortKey: describeSort(kind.sort),
    items: kind.items.length,
    partitions: kind.byPartition.size,
    example: kind.items[0] === undefined ? '' : shownItemKey(keys, kind.items[0]),
    isLog: kind === log && mapping !== undefined,
  });
  const misfits = new Misfits(keys);
  const mapping = log && mappingFor(sample, log, misfits);
  if (own === undefined && log === undefined) explainNoMapping(keys, kinds, misfits);
  if (mapping !== undefined && log !== undefined) findOtherForms(kinds, log, misfits);
  const readyMade = mapping && readyMadeName(mapping);
  return {
    recognized: own ?? (mapping !== undefined && isCastore(keys, mapping) ? 'Castore' : undefined),
    kinds: kinds.map(report),
    mapping,
    readyMade,
    beside: mapping === undefined || log === undefined ? [] : attributesBeside(mapping, log.items),
    misfits: misfits.list(),
  };
}

/**
 * The partitions that show most about a sampled table: of the kinds with numbers, those with the
 * most items.
 */
export function partitionsToRead(
  { keys, scanned }: Pick<TableSample, 'keys' | 'scanned'>,
  limit: number,
): StoredItem[] {
  const kinds = itemKinds(keys, scanned).filter(({ sort }) => NUMBERED.includes(sort.form));
  const ranked = kinds.map(({ byPartition }) => [...byPartition.values()].sort((a, b) => b.length - a.length));
  const chosen = new Map<string, StoredItem>();
  // The first partition of each kind, then the second, and so on.
  for (let place = 0; chosen.size < limit && ranked.some((partitions) => partitions.length > place); place++) {
    for (const partitions of ranked) {
      const item = partitions[place]?.[0];
      if (item !== undefined && chosen.size < limit) chosen.set(shownItemKey({ ...keys, sort: undefined }, item), item);
    }
  }
  return [...chosen.values()];
}

function uniqueItems({ keys, scanned, partitions }: TableSample): StoredItem[] {
  const name = (item: StoredItem) =>
    JSON.stringify([keys.partition, keys.sort].map((key) => key && keyAttribute(item, key.name)));
  // The last of equal keys stays: `wholeLogs` finds the items of partitions again.
  const all = [...scanned, ...partitions.flat()];
  return [...new Map(all.map((item) => [name(item), item])).values()];
}

function keyAttribute(item: StoredItem, name: string): unknown {
  const { S, N, B } = item[name] ?? {};
  return S ?? N ?? (B && [...B]);
}

function ownTable({ partition, sort }: TableKeys, items: readonly StoredItem[]): Proposal['recognized'] {
  const isOwn = partition.name === 'S' && partition.type === 'B' && sort?.name === 'N' && sort.type === 'N';
  if (!isOwn) return undefined;
  const isEntry = items.some(({ S, T }) => S?.B?.length === 20 && T !== undefined);
  return isEntry || items.length === 0 ? "logfold's Entry table" : "logfold's Segment table";
}

function isCastore({ partition, sort }: TableKeys, { type, time, body }: ProposedMapping): boolean {
  return (
    partition.name === 'aggregateId' &&
    sort?.name === 'version' &&
    type === 'type' &&
    time?.name === 'timestamp' &&
    body === 'payload'
  );
}

function readyMadeName(mapping: ProposedMapping): string | undefined {
  const proposed = JSON.stringify(parseMapping(mapping));
  const [, parameter] = /^(.+)#\{id\}$/.exec(mapping.partitionKey.pattern ?? '') ?? [];
  const names = MAPPING_NAMES.map((name) => (parameter === undefined ? name : `${name}:${parameter}`));
  return names.filter(isMappingName).find((name) => JSON.stringify(namedMapping(name)) === proposed);
}

/** @returns undefined if the name does not take the parameter */
function namedMapping(name: string): SchemaMapping | undefined {
  try {
    return readMapping(name);
  } catch (error) {
    if (error instanceof MappingInvalidError) return undefined;
    throw error;
  }
}

/** The kind that looks most like event logs: numbered, mostly without gaps, with the most items. */
function eventKind(sample: TableSample, kinds: readonly ItemKind[]): ItemKind | undefined {
  const { keys } = sample;
  if (keys.partition.type === 'N' || keys.sort === undefined || keys.sort.type === 'B') return undefined;
  const weight = (kind: ItemKind): number => {
    const numberOf = numberReader(keys, kind);
    const logs = wholeLogs(sample, kind).map((items) => numberedItems(items, numberOf));
    const steps = logs.flatMap((log) => log.slice(1).map(({ number }, i) => number - (log[i]?.number ?? 0)));
    const even = steps.filter((step) => step === 1).length;
    return kind.items.length * (steps.length === 0 ? 0.5 : (0.1 + even) / steps.length);
  };
  const isLike = (kind: ItemKind): boolean => {
    const numberOf = numberReader(keys, kind);
    if (!NUMBERED.includes(kind.sort.form)) return false;
    const numbers = kind.items.flatMap((item) => numberOf(item) ?? []);
    return numbers.filter((number) => number < EPOCH).length * 2 > numbers.length;
  };
  const [first] = kinds
    .filter(isLike)
    .map((kind) => ({ kind, of: weight(kind) }))
    .sort((a, b) => b.of - a.of);
  return first?.kind;
}

/** The items of one kind in the partitions that were read from their first item on. */
function wholeLogs({ partitions }: TableSample, { items }: ItemKind): StoredItem[][] {
  const own = new Set(items);
  return partitions.map((partition) => partition.filter((item) => own.has(item))).filter((log) => log.length > 0);
}

function mappingFor(sample: TableSample, kind: ItemKind, misfits: Misfits): ProposedMapping | undefined {
  const { keys, ttl } = sample;
  const { partition, sort } = keys;
  if (partition.type === 'N' || sort === undefined || sort.type === 'B') return undefined;
  if (!hasTextIds(keys, kind)) {
    misfits.add(NO_TEXT_IDS, kind.items, { othersGoOn: false });
    return undefined;
  }
  const numberOf = numberReader(keys, kind);
  const constantType = /^[A-Za-z_-]+/.exec(kind.partition)?.[0] ?? 'Event';
  const roles = attributeRoles({ keys, ttl, items: kind.items, numberOf, constantType });
  const pattern = sortPattern(keys, kind, misfits);
  if (pattern === 'unpadded') return undefined;
  const logs = wholeLogs(sample, kind).map((items) => numberedItems(items, numberOf));
  if (hasHeadItems(logs, roles, misfits)) return undefined;
  const first = findNumbering(logs, misfits);
  const stamped = kind.items.filter((item) => ttl !== undefined && Object.hasOwn(item, ttl));
  if (stamped.length > 0) {
    misfits.add(
      `the item has a time in the TTL attribute '${ttl}', at which DynamoDB deletes it, archived or not: name the attribute as "ttl" of the mapping only if logfold wrote this time`,
      stamped,
    );
  }
  if (typeof roles.type === 'object') findCategories(kind, roles.type.constant, keys, misfits);
  const mapping: ProposedMapping = {
    partitionKey: { name: partition.name, type: partition.type, pattern: kind.partition },
    sortKey:
      pattern === undefined ? { name: sort.name, type: 'N', first } : { name: sort.name, type: 'S', first, pattern },
    ...roles,
    ...(roles.body !== METADATA && kind.items.some((item) => item[METADATA]?.M) && { metadata: METADATA }),
    ...(ttl !== undefined && stamped.length === 0 && { ttl }),
  };
  findUnfit(parseMapping(mapping), kind.items, misfits);
  return mapping;
}

const NO_TEXT_IDS =
  'the partition key is Binary and not UTF-8 text, such as the bytes of a UUID; the id of a log is text';

/** Whether the partition keys of most items of a kind are text, which may be the id of a log. */
function hasTextIds({ partition }: TableKeys, { items }: ItemKind): boolean {
  return items.filter((item) => keyTextOf(item[partition.name]) !== undefined).length * 2 > items.length;
}

/**
 * Whether most logs have a head item: number 0, without the type or the time that other items have.
 */
function hasHeadItems(
  logs: readonly (readonly NumberedItem[])[],
  { type, time }: AttributeRoles,
  misfits: Misfits,
): boolean {
  const names = [typeof type === 'string' ? type : undefined, time?.name].filter((name) => name !== undefined);
  const heads = logs.flatMap(([head, next]) => {
    const lacks = (name: string) => head?.item[name] === undefined && next?.item[name] !== undefined;
    return head?.number === 0 && names.some(lacks) ? [head.item] : [];
  });
  if (heads.length === 0 || heads.length * 2 <= logs.length) return false;
  misfits.add(
    `the item has the number 0 and not ${names.map((name) => `'${name}'`).join(' and ')} like the others; a mapping takes every number of a log for an entry, so such a head item needs another sort key`,
    heads,
    { othersGoOn: false },
  );
  return true;
}

/** Says that logs of several categories get one type, if their ids have different prefixes. */
function findCategories(kind: ItemKind, type: string, { partition }: TableKeys, misfits: Misfits): void {
  if (kind.partition !== ID_ALONE) return;
  const examples = new Map<string, StoredItem>();
  for (const [item] of kind.byPartition.values()) {
    const [, category] = /^([A-Za-z][A-Za-z_]*)[^A-Za-z_]/.exec(keyTextOf(item?.[partition.name]) ?? '') ?? [];
    if (category !== undefined && item !== undefined && !examples.has(category)) examples.set(category, item);
  }
  if (examples.size < 2 || examples.size * 2 > kind.byPartition.size) return;
  misfits.add(
    `no attribute has the type, so the items of all categories (${[...examples.keys()].sort().join(', ')}) get the type '${type}'; a mapping for each category has its own "pattern" and "type"`,
    [...examples.values()],
  );
}

/** The pattern of a String sort key, by the number of digits that most items have. */
function sortPattern(
  { sort }: TableKeys,
  kind: ItemKind,
  misfits: Misfits,
): `${string}{n:${number}}${string}` | 'unpadded' | undefined {
  const { sort: form, items } = kind;
  if (form.form !== 'digits' || sort === undefined) return undefined;
  const digitsOf = (item: StoredItem): number => digitsIn(item[sort.name]?.S ?? '', form).length;
  const groups = [...Map.groupBy(items, digitsOf)].sort(([, a], [, b]) => b.length - a.length);
  const [digits = 1] = groups[0] ?? [];
  const padded = items.some((item) => digitsOf(item) > 1 && item[sort.name]?.S?.charAt(form.prefix.length) === '0');
  const others = groups.slice(1).flatMap(([, of]) => of);
  if (others.length > 0 && !padded) {
    misfits.add(
      'the number in the sort key is not padded with zeros, so DynamoDB sorts 10 before 9; a mapping needs a fixed number of digits',
      others,
      { othersGoOn: false },
    );
    return 'unpadded';
  }
  return `${form.prefix}{n:${digits}}${form.suffix}`;
}

/** @returns the first number of most logs */
function findNumbering(logs: readonly (readonly { number: number; item: StoredItem }[])[], misfits: Misfits): 0 | 1 {
  const startingAt = (number: number) => logs.filter(([head]) => head?.number === number).length;
  const first = startingAt(1) > startingAt(0) ? 1 : 0;
  for (const log of logs) {
    const [head] = log;
    if (head !== undefined && head.number !== first) {
      const reason = head.number > 1 ? 'starts at neither 0 nor 1' : `starts at ${head.number}, most logs at ${first}`;
      misfits.add(`the log ${reason}: its first items are missing`, [head.item]);
    }
    for (const [i, { number, item }] of log.entries()) {
      const before = log[i - 1]?.number;
      if (before !== undefined && number > before + 1) misfits.add('there is a gap before the item', [item]);
      if (before === number) misfits.add('another item has the same number', [item]);
    }
  }
  return first;
}

/** Translates each item as logfold will, and collects those that cannot be translated. */
function findUnfit(mapping: SchemaMapping, items: readonly StoredItem[], misfits: Misfits): void {
  for (const item of items) {
    try {
      const log = logOfKey(mapping, item);
      if (log === undefined) continue;
      toEntryItem(mapping, item, { log, position: START, index: indexOfKey(mapping, item) });
    } catch (error) {
      if (!(error instanceof ItemInvalidError)) throw error;
      // The reason ends with the key of the item, which the report shows itself.
      misfits.add(error.reason.replace(/, in the item with .*/s, ''), [item]);
    }
  }
}

/** Kinds that may be entries of the same logs under other keys, or of logs of another category. */
function findOtherForms(kinds: readonly ItemKind[], log: ItemKind, misfits: Misfits): void {
  for (const kind of kinds) {
    if (kind === log || !NUMBERED.includes(kind.sort.form)) continue;
    const other =
      kind.partition === log.partition
        ? `the sort key is ${describeSort(kind.sort)}, while the mapping is for ${describeSort(log.sort)}`
        : `the partition key is ${kind.partition}, while the mapping is for ${log.partition}`;
    if (kind.partition === log.partition || looksLikeLogs(kind)) {
      misfits.add(`${other}: the mapping leaves these items alone`, kind.items);
    }
  }
}

/** Whether items of another kind count up in a partition, as those of a log do. */
function looksLikeLogs({ byPartition }: ItemKind): boolean {
  return [...byPartition.values()].some((items) => items.length > 1);
}

function explainNoMapping(keys: TableKeys, kinds: readonly ItemKind[], misfits: Misfits): void {
  const add = (reason: string, kind: ItemKind) => misfits.add(reason, kind.items, { othersGoOn: false });
  for (const kind of kinds) {
    const { form } = kind.sort;
    if (keys.partition.type === 'N') add('the partition key is a Number; a mapping needs a String or Binary', kind);
    else if (keys.sort === undefined) add('the table has no sort key, so each partition has one item', kind);
    else if (keys.sort.type === 'B') add('the sort key is Binary; a mapping needs a Number or a String', kind);
    else if (form === 'number' || form === 'time') add('the sort key is a time and not a number that counts', kind);
    else if (form === 'ULID' || form === 'UUID') add(`the sort key is a ${form} and not a number that counts`, kind);
    else if (form === 'digits and text')
      add('the texts after the number in the sort key differ; a mapping needs the same text after each number', kind);
    else add('the sort key has no number, so the items have no order without gaps', kind);
  }
}

function attributesBeside(mapping: ProposedMapping, items: readonly StoredItem[]): string[] {
  const { partitionKey, sortKey, type, version, time, body, metadata, ttl } = mapping;
  if (typeof body === 'object' && 'item' in body) return [];
  const named = new Set<unknown>([partitionKey.name, sortKey.name, type, version, time?.name, metadata, ttl]);
  named.add(typeof body === 'string' ? body : body.name);
  return [...new Set(items.flatMap((item) => Object.keys(item)))].filter((name) => !named.has(name)).sort();
}
