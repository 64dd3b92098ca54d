import { isObject, setKey, type Value } from '../../codec/value.ts';

/**
 * Applies a JSON Merge Patch (RFC 7396): fields of the patch replace those of the target, null
 * removes a field, and objects merge field by field. Anything else replaces the target. Dates,
 * bytes and bigints are replaced as a whole, as numbers are. Changes neither argument; the result
 * may share parts with both.
 */
export function mergePatch(target: Value | undefined, patch: Value): Value {
  if (!isObject(patch)) return patch;
  const merged: Record<string, Value> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else setKey(merged, key, mergePatch(Object.hasOwn(merged, key) ? merged[key] : undefined, value));
  }
  return merged;
}
