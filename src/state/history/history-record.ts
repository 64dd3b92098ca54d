import type { Value } from '../../codec/value.ts';
import type { Position } from '../../ids/position.ts';
import { type Key, type KeyKind, numberText, readNumber } from '../../tree/key.ts';
import type { RangeDelete } from '../../tree/range-delete.ts';

/** Ends a text in a key. Escaped texts do not contain it. */
const END = '\0';
/** Stands for itself and for {@link END} in a text, followed by a digit that says which. */
const ESCAPE = '\x01';
/** Marks of the kinds of keys. The kind of an empty map may change. */
const KINDS = { number: 'n', string: 's' } as const;

/** A text so that it can be followed by others. Keeps the order of texts. */
function escaped(text: string): string {
  return text.replaceAll(ESCAPE, `${ESCAPE}1`).replaceAll(END, `${ESCAPE}0`);
}

/** The beginning of the keys of all records of a map with one kind of keys. */
function mapPrefix(map: string, kind: KeyKind): string {
  return escaped(map) + END + KINDS[kind];
}

/** The beginning of the keys of all records of one key. No other records have it. */
export function keyPrefix(map: string, key: Key): string {
  return typeof key === 'number'
    ? mapPrefix(map, 'number') + numberText(key)
    : mapPrefix(map, 'string') + escaped(key) + END;
}

/** The range of keys with a prefix, up to but not including `to`. Numbers follow the prefix. */
export function prefixRange(prefix: string): { readonly from: string; readonly to: string } {
  return { from: prefix, to: `${prefix}\x7f` };
}

/** The entry that a record is of. */
export interface RecordEntry {
  readonly position: Position;
  /** Epoch seconds. */
  readonly created: number;
}

/** The end of a record's key. Later entries come later. */
export function entrySuffix({ position, created }: RecordEntry): string {
  return numberText(position.segment) + numberText(position.entry) + numberText(created);
}

/** Reads the {@link entrySuffix} at an index of a record's key. */
export function readEntrySuffix(key: string, start: number): RecordEntry {
  const segment = readNumber(key, start);
  const entry = readNumber(key, segment.end);
  const created = readNumber(key, entry.end);
  return { position: { segment: segment.number, entry: entry.number }, created: created.number };
}

/** The number that a record is about, and the entry of the record. */
export function readNumberRecord(map: string, key: string): RecordEntry & { readonly number: number } {
  const { number, end } = readNumber(key, mapPrefix(map, 'number').length);
  return { number, ...readEntrySuffix(key, end) };
}

/** The records of the keys that a range delete removes from a map. */
export function recordsOf(map: string, kind: KeyKind, { from, to, every }: RangeDelete): RangeDelete {
  const prefix = mapPrefix(map, kind);
  if (kind === 'number') return { from, to, every, after: prefix };
  return { from: prefix + escaped(String(from)), to: prefix + escaped(String(to)) };
}

/**
 * Stands for a removal in a record. The same text as a value, with any number of pads after it, is
 * stored with one more {@link PAD}, so that it differs.
 */
const REMOVED = '\0logfold:removed';
const PAD = '\0';

/**
 * The value of a record. It is the value itself, so that a record shares the chunk of a large value
 * with the state.
 * @param value undefined for a removal
 */
export function storedValue(value: Value | undefined): Value {
  if (value === undefined) return REMOVED;
  return isPadded(value) ? value + PAD : value;
}

/** The inverse of {@link storedValue}. */
export function valueOfRecord(stored: Value): Value | undefined {
  if (stored === REMOVED) return undefined;
  return isPadded(stored) ? stored.slice(0, -PAD.length) : stored;
}

/** Whether only pads follow the mark, if anything does. */
function isPadded(value: Value): value is string {
  return (
    typeof value === 'string' && value.startsWith(REMOVED) && value.slice(REMOVED.length).replaceAll(PAD, '') === ''
  );
}
