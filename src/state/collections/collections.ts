import { setKey, type Value } from '../../codec/value.ts';
import { UsageError } from '../../errors.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { inAdvance, type KeyRange, READ_AHEAD } from '../../tree/read.ts';
import type { DraftMap } from '../draft-map.ts';
import type { ReducerDraft } from '../reducer.ts';

export interface CollectionItem {
  readonly id: string;
  /** Number of its changes, from 1. Goes on if the item is deleted and put again. */
  readonly version: number;
  readonly value: Value;
}

/** The newest change of an item. */
export interface CollectionItemChange {
  readonly id: string;
  /** The item's version. A deletion counts. */
  readonly version: number;
  /** The current value; undefined if the item is deleted. */
  readonly value: Value | undefined;
}

/** Ids from `from` up to but not including `to`, in order of UTF-16 code units. */
export interface IdRange {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** The most items; no limit if absent. */
  readonly limit?: number | undefined;
  /** From the last item of the range to the first. */
  readonly reverse?: boolean | undefined;
}

/**
 * The scalars and collections of a state that the reducer `collections` folded. Reads fetch only
 * what they need.
 * @param from a document's state, or the draft of a reducer
 */
export function collectionsOf(from: ReducerDraft | { readonly draft: ReducerDraft }): Collections {
  return new Collections(collectionMaps('draft' in from ? from.draft : from));
}

/** The scalars and collections of a state. */
export class Collections {
  readonly #maps: CollectionMaps;

  constructor(maps: CollectionMaps) {
    this.#maps = maps;
  }

  /** The value of a scalar; undefined if there is none. */
  scalar(name: string): Promise<Value | undefined> {
    return this.#maps.scalars.get(name);
  }

  /** All scalars by name. */
  async scalars(): Promise<{ readonly [name: string]: Value }> {
    const scalars: Record<string, Value> = {};
    for await (const { key, value } of this.#maps.scalars.items()) setKey(scalars, String(key), value);
    return scalars;
  }

  /** The names of all collections that ever had an item, in order of UTF-16 code units. */
  async names(): Promise<readonly string[]> {
    const items = await Array.fromAsync(this.#maps.collections.items());
    return items.map(({ key }) => String(key));
  }

  /** The collection with a name. It is empty if no entry put an item into it. */
  collection(name: string): Collection {
    return new Collection(this.#maps, name);
  }
}

export class Collection {
  readonly name: string;
  readonly #maps: CollectionMaps;

  constructor(maps: CollectionMaps, name: string) {
    this.#maps = maps;
    this.name = name;
  }

  /** Number of changes of the collection's items; 0 for a collection that never had an item. */
  async version(): Promise<number> {
    return Number((await this.#maps.collections.get(this.name)) ?? 0);
  }

  /** The item with an id; undefined if there is none. */
  async get(id: string): Promise<CollectionItem | undefined> {
    const key = collectionItemKey(this.name, id);
    const [value, stored] = await Promise.all([this.#maps.items.get(key), this.#maps.versions.get(key)]);
    const version = readItemVersion(stored)?.version;
    return value === undefined || version === undefined ? undefined : { id, version, value };
  }

  /**
   * The items in order of id, or those of a range of ids.
   * `items({ reverse: true, limit: 1 })` reads the last item.
   * @throws UsageError if the limit is not a whole number of at least 0, or a name is wrong
   */
  async *items(ids: IdRange = {}): AsyncGenerator<CollectionItem> {
    checkOptionNames('a range', ids, ['from', 'to', 'limit', 'reverse'] satisfies (keyof IdRange)[]);
    const { from, to, limit = Number.POSITIVE_INFINITY, reverse } = ids;
    if (limit !== Number.POSITIVE_INFINITY) checkNatural('the limit of a range', limit);
    if (limit === 0) return;
    const range = { ...itemRange(this.name, from, to), reverse, ahead: READ_AHEAD };
    const versions = this.#maps.versions.items({ ...range, wanted: limit });
    try {
      for await (const { key, value } of this.#maps.items.items({ ...range, limit })) {
        // Deleted items have a version and no value.
        let stored = (await versions.next()).value;
        while (stored !== undefined && stored.key !== key) stored = (await versions.next()).value;
        const version = readItemVersion(stored?.value)?.version ?? 0;
        yield { id: idOf(this.name, String(key)), version, value };
      }
    } finally {
      await versions.return(undefined);
    }
  }

  /**
   * The items that changed after a version of the collection, in order of their newest change, each
   * once. Reads the changes after that version and the values of these items, and nothing else. A
   * reader that has them all is at {@link version}.
   * @param version the version up to which the caller knows the collection; 0 for nothing
   * @throws UsageError if the version is not a whole number of at least 0
   */
  async *changesSince(version: number): AsyncGenerator<CollectionItemChange> {
    checkNatural('a version', version);
    const range = { ...changeRange(this.name, version), ahead: READ_AHEAD };
    yield* inAdvance(this.#maps.changes.items(range), READ_AHEAD, ({ value }) => this.#load(readChange(value)));
  }

  async #load({ id, version, isDeleted }: ChangeRecord): Promise<CollectionItemChange> {
    const value = isDeleted ? undefined : await this.#maps.items.get(collectionItemKey(this.name, id));
    return { id, version, value };
  }
}

function checkNatural(what: string, number: number): void {
  if (Number.isSafeInteger(number) && number >= 0) return;
  throw new UsageError(`${what} is ${String(number)}, not a whole number of at least 0`);
}

/** Each scalar under its name. */
const SCALARS_MAP = 'scalars';
/** Each item under {@link collectionItemKey}. */
export const COLLECTION_ITEMS_MAP = 'items';
/** The version of each collection under its name. */
const COLLECTIONS_MAP = 'logfold:collections';
/** The {@link ItemVersion} of each item, also of a deleted one, under {@link collectionItemKey}. */
const VERSIONS_MAP = 'logfold:versions';
/** The newest change of each item, also of a deleted one, under {@link changeKey}. */
const CHANGES_MAP = 'logfold:changes';

export interface CollectionMaps {
  readonly scalars: DraftMap;
  readonly items: DraftMap;
  readonly collections: DraftMap;
  readonly versions: DraftMap;
  readonly changes: DraftMap;
}

export function collectionMaps(draft: ReducerDraft): CollectionMaps {
  return {
    scalars: draft.map(SCALARS_MAP, 'string'),
    items: draft.map(COLLECTION_ITEMS_MAP, 'string', { buffers: true }),
    collections: draft.map(COLLECTIONS_MAP, 'string'),
    versions: draft.map(VERSIONS_MAP, 'string', { buffers: true }),
    changes: draft.map(CHANGES_MAP, 'string', { buffers: true }),
  };
}

/** Separates a collection's name, which cannot contain it, from the rest of a key. */
export const SEPARATOR = '/';
/** The character after the separator: no key of a collection comes after `name + END`. */
const END = '0';
/** Digits of 2^53, so that keys are in order of version. */
const VERSION_DIGITS = 16;

/** The key of an item, in {@link COLLECTION_ITEMS_MAP}. */
export function collectionItemKey(collection: string, id: string): string {
  return collection + SEPARATOR + id;
}

/** The id in the key of an item. */
function idOf(collection: string, key: string): string {
  return key.slice(collection.length + SEPARATOR.length);
}

export function changeKey(collection: string, version: number): string {
  return collectionItemKey(collection, String(version).padStart(VERSION_DIGITS, '0'));
}

/** The keys of a collection's items from one id up to but not including another one. */
function itemRange(collection: string, from = '', to?: string): KeyRange {
  return {
    from: collectionItemKey(collection, from),
    to: to === undefined ? collection + END : collectionItemKey(collection, to),
  };
}

/** The keys of a collection's changes after a version. */
function changeRange(collection: string, version: number): KeyRange {
  return { from: changeKey(collection, version + 1), to: collection + END };
}

/** The part of an item's state beside its value. */
export interface ItemVersion {
  /** Number of its changes. Goes on if the item is deleted and put again. */
  readonly version: number;
  /** The version of the collection that its newest change made. */
  readonly change: number;
  readonly isDeleted: boolean;
}

/** The newest change of an item. */
export interface ChangeRecord {
  readonly id: string;
  /** The item's version. */
  readonly version: number;
  readonly isDeleted: boolean;
}

export function itemVersionValue({ version, change, isDeleted }: ItemVersion): Value {
  return [version, change, isDeleted];
}

/** @returns undefined if the collection never had the item */
export function readItemVersion(value: Value | undefined): ItemVersion | undefined {
  if (value === undefined) return undefined;
  const [version, change, isDeleted] = list(value);
  return { version: Number(version), change: Number(change), isDeleted: isDeleted === true };
}

export function changeValue({ id, version, isDeleted }: ChangeRecord): Value {
  return [id, version, isDeleted];
}

function readChange(value: Value): ChangeRecord {
  const [id, version, isDeleted] = list(value);
  return { id: String(id), version: Number(version), isDeleted: isDeleted === true };
}

function list(value: Value): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
