import { isObject, type Value } from '../../codec/value.ts';
import { ItemInvalidError, isLogfoldError } from '../../errors.ts';
import type { Item } from '../../log/attribute.ts';
import { MAX_STRING_KEY_LENGTH } from '../../tree/key.ts';
import { bodyInvalid } from '../reducer.ts';
import { itemOfValue } from './canonical-item.ts';

/**
 * The entry types that the reducer for items folds, each with the highest version of its body.
 */
export const ITEMS_ENTRY_VERSIONS = { Put: 1, Delete: 1, Expire: 1, Gap: 1 } as const satisfies Record<
  RevisionChange,
  number
>;

/** One entry of a log of revisions. */
export interface ItemEdit extends Omit<ItemRevision, 'created'> {
  /** Name of the source table. */
  readonly table: string;
  /** The key of the item in the map `items`; see {@link itemKey}. */
  readonly key: string;
}

/** The longest text of the fields beside the key, in UTF-16 code units. */
export const MAX_TEXT = 2048;

/** The body of an entry, in version 1. */
export function itemBody({ table, key, revision, item, actor, stream, sequence }: ItemEdit): Value {
  return {
    table,
    key,
    revision,
    ...(item !== undefined && { item }),
    ...(actor !== undefined && { actor }),
    ...(stream !== undefined && { stream }),
    ...(sequence !== undefined && { sequence }),
  };
}

/**
 * Reads the body of an entry in version 1.
 * @throws BodyInvalidError if the body has another form
 */
export function parseItemEdit(change: RevisionChange, body: Value): ItemEdit {
  if (!isObject(body)) throw bodyInvalid(change, 'its body is not an object');
  const { table, key, revision, item, actor, stream, sequence, ...others } = body;
  const unknown = Object.keys(others);
  if (unknown.length > 0) throw bodyInvalid(change, `its body has the unknown field '${unknown[0]}'`);
  if (typeof revision !== 'number' || !Number.isSafeInteger(revision) || revision < 1) {
    throw bodyInvalid(change, `'revision' is not a whole number of at least 1`);
  }
  if ((stream === undefined) !== (sequence === undefined)) {
    throw bodyInvalid(change, `its body has only one of 'stream' and 'sequence'`);
  }
  const needsItem = change === 'Put';
  if (change !== 'Gap' && needsItem !== (item !== undefined)) {
    throw bodyInvalid(change, `its body ${needsItem ? 'has no' : 'has an'} 'item'`);
  }
  return {
    table: textField(change, 'table', table),
    key: textField(change, 'key', key, MAX_STRING_KEY_LENGTH),
    change,
    revision,
    ...(item !== undefined && { item: readItem(change, item) }),
    ...(actor !== undefined && { actor: textField(change, 'actor', actor) }),
    ...(stream !== undefined && { stream: textField(change, 'stream', stream) }),
    ...(sequence !== undefined && { sequence: textField(change, 'sequence', sequence) }),
  };
}

function textField(type: string, field: string, text: Value | undefined, most = MAX_TEXT): string {
  if (typeof text === 'string' && text !== '' && text.length <= most) return text;
  throw bodyInvalid(type, `'${field}' is not text of 1 to ${most} UTF-16 code units`);
}

function readItem(type: string, item: Value): ItemRevision['item'] & {} {
  try {
    return itemOfValue(item);
  } catch (error) {
    if (isLogfoldError(error)) throw bodyInvalid(type, error.reason);
    throw error;
  }
}

/**
 * How an item changed. A `Gap` stands for changes that are lost: only the item after them is known.
 */
export type RevisionChange = 'Put' | 'Delete' | 'Expire' | 'Gap';

/** The place of a record in the streams of a table. */
export interface StreamPlace {
  /** The label of the stream: the time when it was enabled, as its ARN has it. */
  readonly stream: string;
  readonly sequence: string;
}

/** One revision of an item of a plain table. */
export interface ItemRevision extends Partial<StreamPlace> {
  /** From 1, without gaps. Goes on if the item is deleted and put again. */
  readonly revision: number;
  readonly change: RevisionChange;
  /** The time of the change, in epoch seconds. For a gap, the time when it was found. */
  readonly created: number;
  /** The item after the change; absent if there is none. */
  readonly item?: Item;
  /** Who made the change, if the item says so. */
  readonly actor?: string;
}

/** A revision as a value of the map `items`. */
export function itemRevisionValue({ revision, change, created, ...rest }: ItemRevision): Value {
  const { item, actor, stream, sequence } = rest;
  return {
    revision,
    change,
    created,
    ...(item !== undefined && { item }),
    ...(actor !== undefined && { actor }),
    ...(stream !== undefined && { stream }),
    ...(sequence !== undefined && { sequence }),
  };
}

/**
 * Reads a value of the map `items`. Its field `stream` and `sequence` name the newest record of a
 * stream that gave this revision or one before it.
 * @throws ItemInvalidError if the value is not a revision
 */
export function readItemRevision(value: Value): ItemRevision {
  const { revision, change, created, item, actor, stream, sequence } = isObject(value) ? value : {};
  if (typeof revision !== 'number' || typeof created !== 'number' || !isChange(change)) {
    throw new ItemInvalidError('a value is not a revision of an item');
  }
  return {
    revision,
    change,
    created,
    ...(item !== undefined && { item: itemOfValue(item) }),
    ...(typeof actor === 'string' && { actor }),
    ...(typeof stream === 'string' && { stream }),
    ...(typeof sequence === 'string' && { sequence }),
  };
}

function isChange(value: Value | undefined): value is RevisionChange {
  return value === 'Put' || value === 'Delete' || value === 'Expire' || value === 'Gap';
}
