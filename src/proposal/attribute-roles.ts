import { parseJson } from '../codec/json.ts';
import type { StoredAttribute, StoredItem } from '../log/attribute.ts';
import type { TimeFormat } from '../mapping/schema-mapping.ts';
import type { TableKeys } from './table-sample.ts';

/** The part of a mapping that says what the attributes of an item mean. */
export interface AttributeRoles {
  readonly type: string | { readonly constant: string };
  readonly version: string | { readonly constant: number };
  readonly time?: { readonly name: string; readonly format: TimeFormat };
  readonly body: string | { readonly name: string; readonly format: 'json' } | { readonly item: true };
}

// The names that event logs use, the most usual first. A name matches in any case, with or without
// underscores.
const TYPE_NAMES = ['type', 'eventtype', 'event', 'eventname', 'detailtype', 'messagetype', 'name', 'kind', 'action'];
const VERSION_NAMES = ['schemaversion', 'eventversion', 'typeversion', 'version', 'v', 'revision'];
const TIME_NAMES = [
  'timestamp',
  'ts',
  'time',
  'occurredat',
  'createdat',
  'eventtime',
  'recordedat',
  'insertedat',
  'created',
  'date',
  'at',
];
const BODY_NAMES = ['payload', 'body', 'data', 'detail', 'eventdata', 'eventpayload', 'content', 'message', 'event'];

const TYPE_TEXT = /^[A-Za-z_$][\w.:/$+ -]{0,99}$/;
const ISO_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/;
const MAX_VERSION = 1000;
/** An attribute that so many of the items have is one of the kind; the others do not fit. */
const MOST = 0.5;

/** The items of one kind, and the attributes that have another meaning already. */
export interface RoleQuery {
  readonly keys: TableKeys;
  readonly ttl: string | undefined;
  readonly items: readonly StoredItem[];
  /** The number of an item in its log, if its key has one. */
  readonly numberOf: (item: StoredItem) => number | undefined;
  /** The type of all items, if no attribute has it. */
  readonly constantType: string;
}

/** Finds the attributes with the type, the version, the time and the body of the items. */
export function attributeRoles(query: RoleQuery): AttributeRoles {
  const { items, constantType } = query;
  const columns = new AttributeColumns(query);
  const type = columns.take(TYPE_NAMES, (value) => TYPE_TEXT.test(value.S ?? '')) ?? columns.takeType();
  const version = columns.take(VERSION_NAMES, isVersion, (name) => !columns.isNumber(name));
  const time = columns.takeTime();
  return {
    type: type ?? { constant: constantType },
    version: version ?? { constant: 1 },
    ...(time !== undefined && { time }),
    body: columns.takeBody(items),
  };
}

/** The attributes of the items, by name, that have no role yet. */
class AttributeColumns {
  readonly #query: RoleQuery;
  readonly #left: Map<string, readonly StoredAttribute[]>;

  constructor(query: RoleQuery) {
    this.#query = query;
    const { keys, ttl, items } = query;
    const values = new Map<string, StoredAttribute[]>();
    for (const item of items) {
      for (const [name, value = {}] of Object.entries(item)) {
        const of = values.get(name) ?? [];
        values.set(name, of);
        of.push(value);
      }
    }
    for (const name of [keys.partition.name, keys.sort?.name, ttl]) if (name !== undefined) values.delete(name);
    this.#left = new Map([...values].filter(([, of]) => this.#isMost(of)));
  }

  #isMost(values: readonly StoredAttribute[]): boolean {
    return values.length >= this.#query.items.length * MOST;
  }

  /** Takes the attribute with the most usual of the names that passes in most items. */
  take(
    names: readonly string[],
    fits: (value: StoredAttribute) => boolean,
    also: (name: string) => boolean = () => true,
  ): string | undefined {
    const found = [...this.#left]
      .filter(([name, values]) => names.includes(plain(name)) && this.#isMost(values.filter(fits)) && also(name))
      .sort(([a], [b]) => names.indexOf(plain(a)) - names.indexOf(plain(b)));
    return this.#taken(found[0]?.[0]);
  }

  /** Takes an attribute that all items have, whose few values look like names of types. */
  takeType(): string | undefined {
    const { items } = this.#query;
    const found = [...this.#left].find(([, values]) => {
      const distinct = new Set(values.map((value) => value.S));
      const few = distinct.size > 1 && distinct.size * 5 <= items.length;
      return few && values.length === items.length && values.every((value) => TYPE_TEXT.test(value.S ?? ''));
    });
    return this.#taken(found?.[0]);
  }

  /** Whether an attribute repeats the number of the item. */
  isNumber(name: string): boolean {
    const { items, numberOf } = this.#query;
    const numbers = items.map((item) => [item[name]?.N, numberOf(item)] as const);
    return numbers.length > 1 && numbers.every(([text, number]) => text === undefined || Number(text) === number);
  }

  /** Takes the attribute with the most usual name of a time, or one that is a time in all items. */
  takeTime(): AttributeRoles['time'] {
    const rank = (name: string): number => {
      const place = TIME_NAMES.indexOf(plain(name));
      return place === -1 ? TIME_NAMES.length : place;
    };
    const formats = [...this.#left].flatMap(([name, values]) => {
      const format = timeFormat(values);
      const isUsual = rank(name) < TIME_NAMES.length || values.length === this.#query.items.length;
      return format === undefined || !isUsual ? [] : [{ name, format }];
    });
    const [time] = formats.sort((a, b) => rank(a.name) - rank(b.name));
    this.#taken(time?.name);
    return time;
  }

  /** Takes the attribute with the body; the whole item if no attribute looks like one. */
  takeBody(items: readonly StoredItem[]): AttributeRoles['body'] {
    const nested = (value: StoredAttribute) => (value.M ?? value.L ?? value.B) !== undefined || isJson(value.S);
    const found = this.take(BODY_NAMES, nested) ?? this.#onlyBody(nested) ?? this.take(BODY_NAMES, () => true);
    if (found === undefined) return { item: true };
    const texts = items.flatMap((item) => (item[found] === undefined ? [] : [item[found]?.S]));
    return texts.every(isJson) ? { name: found, format: 'json' } : found;
  }

  #onlyBody(nested: (value: StoredAttribute) => boolean): string | undefined {
    const found = [...this.#left].filter(([name, values]) => plain(name) !== 'metadata' && values.every(nested));
    return found.length === 1 ? this.#taken(found[0]?.[0]) : undefined;
  }

  #taken(name: string | undefined): string | undefined {
    if (name !== undefined) this.#left.delete(name);
    return name;
  }
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '');
}

function isVersion({ N }: StoredAttribute): boolean {
  const version = Number(N);
  return N !== undefined && Number.isInteger(version) && version >= 0 && version <= MAX_VERSION;
}

/** The format of values that are all times. */
function timeFormat(values: readonly StoredAttribute[]): TimeFormat | undefined {
  if (values.every(({ S }) => S !== undefined && ISO_TIME.test(S))) return 'iso';
  // From 2001 to 2100.
  const within = (factor: number) =>
    values.every(({ N }) => N !== undefined && Number(N) >= 1e9 * factor && Number(N) < 4.2e9 * factor);
  if (within(1)) return 's';
  return within(1000) ? 'ms' : undefined;
}

function isJson(text: string | undefined): boolean {
  if (text === undefined || !/^\s*[[{]/.test(text)) return false;
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}
