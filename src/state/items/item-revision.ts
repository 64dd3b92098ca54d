import { isObject, type Value } from '../../codec/value.ts';
import { ItemInvalidError } from '../../errors.ts';
import type { Item } from '../../log/attribute.ts';
import { itemOfValue } from './canonical-item.ts';

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
