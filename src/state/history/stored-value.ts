import type { Value } from '../../codec/value.ts';

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
