import { copyValue, type Value } from '../codec/value.ts';
import { ItemInvalidError, LogfoldError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import {
  type AttributeValue,
  attributeFromValue,
  checkNative,
  type StoredAttribute,
  valueFromMap,
} from './attribute.ts';
import type { EntryMetadata } from './entry.ts';
import { itemBytes } from './item-size.ts';

/**
 * The most bytes of an entry's metadata, by DynamoDB's rules for an item's size. Every read of the
 * entry also reads its metadata.
 */
export const MAX_METADATA_BYTES = 8 * 1024;

/**
 * The metadata as it is read back after it was stored, so that its writer folds the same values as
 * every reader. Names are in ascending order, and names without a value are left out.
 * @returns undefined if there is no name
 * @throws UsageError if it is not a plain object, or `correlation` or `causation` is not a string
 * @throws ValueUnsupportedError if DynamoDB has no native type for a value, such as a date
 * @throws TooLargeError if it has more than {@link MAX_METADATA_BYTES} bytes
 */
export function storableMetadata(log: LogId, metadata: EntryMetadata | undefined): EntryMetadata | undefined {
  if (metadata === undefined) return undefined;
  checkShape(log, metadata);
  const stored = encodeStorable(log, metadata);
  const bytes = itemBytes({ M: stored });
  if (bytes > MAX_METADATA_BYTES) {
    throw new TooLargeError(`the metadata has ${bytes} bytes, over the limit of ${MAX_METADATA_BYTES}`, {
      log,
      advice: 'Put its largest values into the body',
    });
  }
  return decodeMetadata(stored);
}

function checkShape(log: LogId, metadata: EntryMetadata): void {
  const given: unknown = metadata;
  const prototype: unknown = typeof given === 'object' && given !== null && Object.getPrototypeOf(given);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new UsageError('the metadata is not a plain object', { log, advice: 'Give an object of names and values' });
  }
  if (isMetadata(metadata)) return;
  throw new UsageError("'correlation' or 'causation' of the metadata is not a string", {
    log,
    advice: 'Write these two ids as strings, or give the values other names',
  });
}

function encodeStorable(log: LogId, metadata: EntryMetadata): AttributeValue {
  try {
    const values = present(metadata);
    checkNative('the metadata', values);
    return encodeMetadata(metadata);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log }) : error;
  }
}

/**
 * Encodes metadata as a Map.
 * @throws ValueUnsupportedError if DynamoDB has no native type for a value
 */
export function encodeMetadata(metadata: EntryMetadata): AttributeValue {
  return attributeFromValue(present(metadata));
}

/**
 * The inverse of {@link encodeMetadata}. undefined if there is no metadata. An attribute of another
 * type belongs to another program, and so does a Map with a value that cannot be read, or whose
 * `correlation` or `causation` is not a String.
 */
export function decodeMetadata(attribute: StoredAttribute | undefined): EntryMetadata | undefined {
  if (attribute?.M === undefined) return undefined;
  try {
    const values = valueFromMap(attribute.M);
    return isMetadata(values) && Object.keys(attribute.M).length > 0 ? values : undefined;
  } catch (error) {
    if (error instanceof ItemInvalidError) return undefined;
    throw error;
  }
}

/** A copy that shares no object with the metadata. */
export function copyMetadata(metadata: EntryMetadata): EntryMetadata {
  const copy = { ...metadata };
  for (const [name, value] of Object.entries(copy)) if (value !== undefined) copy[name] = copyValue(value);
  return copy;
}

function present(metadata: EntryMetadata): { readonly [name: string]: Value } {
  const entries = Object.entries(metadata);
  return Object.fromEntries(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

function isMetadata(values: { readonly [name: string]: Value | undefined }): values is EntryMetadata {
  return isIdOrAbsent(values.correlation) && isIdOrAbsent(values.causation);
}

function isIdOrAbsent(id: unknown): boolean {
  return id === undefined || typeof id === 'string';
}
