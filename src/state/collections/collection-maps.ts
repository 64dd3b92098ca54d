import type { Value } from '../../codec/value.ts';
import type { KeyRange } from '../../tree/read.ts';
import type { DraftMap } from '../draft-map.ts';
import type { ReducerDraft } from '../reducer.ts';

/** Each scalar under its name. */
const SCALARS_MAP = 'scalars';
/** Each item under {@link itemKey}. */
export const ITEMS_MAP = 'items';
/** The version of each collection under its name. */
const COLLECTIONS_MAP = 'logfold:collections';
/** The {@link ItemVersion} of each item, also of a deleted one, under {@link itemKey}. */
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
    items: draft.map(ITEMS_MAP, 'string', { buffers: true }),
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

/** The key of an item, in {@link ITEMS_MAP}. */
export function itemKey(collection: string, id: string): string {
  return collection + SEPARATOR + id;
}

/** The id in the key of an item. */
export function idOf(collection: string, key: string): string {
  return key.slice(collection.length + SEPARATOR.length);
}

export function changeKey(collection: string, version: number): string {
  return itemKey(collection, String(version).padStart(VERSION_DIGITS, '0'));
}

/** The keys of a collection's items from one id up to but not including another one. */
export function itemRange(collection: string, from = '', to?: string): KeyRange {
  return { from: itemKey(collection, from), to: to === undefined ? collection + END : itemKey(collection, to) };
}

/** The keys of a collection's changes after a version. */
export function changeRange(collection: string, version: number): KeyRange {
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

export function readChange(value: Value): ChangeRecord {
  const [id, version, isDeleted] = list(value);
  return { id: String(id), version: Number(version), isDeleted: isDeleted === true };
}

function list(value: Value): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
