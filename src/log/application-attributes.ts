import { checkValue, type Value } from '../codec/value.ts';
import { LogfoldError, SegmentClosedError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import {
  type AttributeValue,
  attributeFromValue,
  checkNative,
  isReserved,
  type StoredItem,
  valueFromAttribute,
} from './attribute.ts';
import { retry } from './backoff.ts';
import type { ClientContext } from './client-context.ts';
import type { Entry, EntryAttributes } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import { ItemReader } from './item-reader.ts';
import type { AttributeUpdate, LogReader } from './log-store.ts';
import { checkOptionNames } from './option-names.ts';
import type { RangeReader } from './read-entries.ts';

/** The most attributes that one update names. */
export const MAX_UPDATED_ATTRIBUTES = 100;

/** A change of the application attributes of one entry. */
export interface AttributeChange {
  /** Values of new and existing attributes. */
  readonly set?: EntryAttributes;
  /** Attributes to remove; a missing one is not an error. */
  readonly remove?: readonly string[];
  /** Values that attributes must have before; undefined if an attribute must be absent. */
  readonly if?: { readonly [name: string]: Value | undefined };
}

export const CHANGE_NAMES = ['set', 'remove', 'if'] satisfies (keyof AttributeChange)[];

export type AttributeAnswer =
  | { readonly updated: true }
  /** A value of `if` differs from the current one. Nothing was changed. */
  | { readonly updated: false; readonly attributes: EntryAttributes };

/**
 * Changes application attributes of an entry in the open segment, in one transaction. An archive
 * therefore never lacks a change: a segment is archived only after it was closed.
 *
 * After any other error, such as a lost connection, the attributes may have been changed.
 * @throws UsageError if a name is reserved for logfold or empty, if an attribute is both set and
 * removed, or if there is nothing to change
 * @throws ValueUnsupportedError if DynamoDB has no native type for a value
 * @throws TooLargeError if there are more than {@link MAX_UPDATED_ATTRIBUTES} attributes, or the
 * item becomes larger than DynamoDB allows
 * @throws SegmentClosedError if the entry's segment is closed
 * @throws EntryNotFoundError if the entry does not exist
 * @throws AttemptsExhaustedError if other transactions were faster in every attempt
 */
export async function updateAttributes(
  context: ClientContext,
  log: LogId,
  position: Position,
  change: AttributeChange,
): Promise<AttributeAnswer> {
  const where = { log, ...position };
  let update: AttributeUpdate;
  try {
    update = encodeChange(change);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
  const { tables, now, sleep, random, retries } = context;
  const retryable = (error: unknown) => tables.isRetryable(error);
  const how = { ...retries, now, sleep, random, retryable, failure: 'Updating attributes failed', where };
  const item = await retry(how, () => tables.updateAttributes(log, position, update));
  return item === undefined ? { updated: true } : { updated: false, attributes: decodeAttributes(item, where) };
}

/** The error for an update of an entry whose segment has ended. */
export function segmentClosed(log: LogId, position: Position): SegmentClosedError {
  return new SegmentClosedError("the entry's segment is closed, so its attributes do not change any more", {
    log,
    ...position,
    advice: 'Append an entry that records the change',
  });
}

/** A reader whose entries carry their application attributes. */
export function withAttributes(store: Pick<LogReader, 'newestSegments' | 'newestEntry' | 'items'>): RangeReader {
  return {
    newestSegments: (log, limit, consistency) => store.newestSegments(log, limit, consistency),
    newestEntry: (log, segment, consistency) => store.newestEntry(log, segment, consistency),
    async *entries(log, range, options) {
      for await (const items of store.items(log, range, options)) yield items.map(decodeWithAttributes);
    },
  };
}

function decodeWithAttributes(item: StoredItem): Entry {
  const entry = decodeEntry(item);
  return { ...entry, attributes: decodeAttributes(item, { log: entry.log, ...entry.position }) };
}

function decodeAttributes(item: StoredItem, where: ItemReader['where']): EntryAttributes {
  const reader = new ItemReader(item);
  reader.where = where;
  const names = Object.keys(item).filter((name) => !isReserved(name));
  const read = (name: string) => reader.parsed(name, () => valueFromAttribute(item[name] ?? {}));
  return Object.fromEntries(names.sort().map((name) => [name, read(name)]));
}

function encodeChange(change: AttributeChange): AttributeUpdate {
  checkOptionNames('updateAttributes', change, CHANGE_NAMES);
  const { set = {}, remove = [], if: expected = {} } = change;
  const changed = [...Object.keys(set), ...remove];
  if (changed.length === 0) throw new UsageError('there is no attribute to set or to remove');
  const twice = changed.find((name, i) => changed.indexOf(name) !== i);
  if (twice !== undefined) throw new UsageError(`the update names the attribute '${twice}' twice`);
  const names = new Set([...changed, ...Object.keys(expected)]);
  if (names.size > MAX_UPDATED_ATTRIBUTES) {
    throw new TooLargeError(`${names.size} attributes are more than the ${MAX_UPDATED_ATTRIBUTES} of one update`, {
      advice: 'Change them in several updates',
    });
  }
  for (const name of names) checkName(name);
  return {
    set: Object.fromEntries(Object.entries(set).map(([name, value]) => [name, encodeAttribute(name, value)])),
    remove,
    expected: Object.fromEntries(
      Object.entries(expected).map(([name, value]) => [
        name,
        value === undefined ? value : encodeAttribute(name, value),
      ]),
    ),
  };
}

function checkName(name: string): void {
  checkValue(name);
  if (name === '') throw new UsageError('the name of an attribute is empty');
  if (!isReserved(name)) return;
  throw new UsageError(`logfold reserves '${name}' and every other capital letter as names of attributes`, {
    advice: "Choose another name, such as 'status'",
  });
}

function encodeAttribute(name: string, value: Value): AttributeValue {
  checkNative(`the attribute '${name}'`, value);
  return attributeFromValue(value);
}
