import { MAX_VALUE_DEPTH, type Value } from '../codec/value.ts';
import { ValueUnsupportedError } from '../errors.ts';

/** A value as JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

const NUMBERS = new Map([Number.NaN, Infinity, -Infinity, -0].map((number) => [numberToText(number), number]));

/**
 * Values that JSON cannot hold, and how each is written: an object with one name. An object of the
 * application with one name that starts with `$` is written as `{"$object": …}`.
 */
const FORMS = {
  $bytes: (text: string) => {
    const bytes = Buffer.from(text, 'base64');
    return bytes.toString('base64') === text ? new Uint8Array(bytes) : undefined;
  },
  $date: (text: string) => {
    const date = new Date(text);
    return !Number.isNaN(date.getTime()) && date.toISOString() === text ? date : undefined;
  },
  $integer: (text: string) => (/^-?\d{1,20}$/.test(text) ? BigInt(text) : undefined),
  $number: (text: string) => NUMBERS.get(text),
} as const satisfies Record<string, (text: string) => Value | undefined>;

/** Writes a value as JSON, so that {@link valueFromJson} reads the same value. */
export function jsonFromValue(value: Value): Json {
  if (typeof value === 'bigint') return { $integer: String(value) };
  if (typeof value === 'number') {
    const text = numberToText(value);
    return NUMBERS.has(text) ? { $number: text } : value;
  }
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Date) return { $date: value.toISOString() };
  if (isList(value)) return value.map(jsonFromValue);
  const written = Object.fromEntries(Object.entries(value).map(([name, item]) => [name, jsonFromValue(item)]));
  return onlyForm(value) === undefined ? written : { $object: written };
}

/** Named values as JSON, without those that are undefined. */
export function jsonFromValues(values: Iterable<readonly [name: string, value: Value | undefined]>): {
  readonly [name: string]: Json;
} {
  const given: [string, Json][] = [];
  for (const [name, value] of values) if (value !== undefined) given.push([name, jsonFromValue(value)]);
  return Object.fromEntries(given);
}

/**
 * Reads a value that {@link jsonFromValue} wrote, or any other JSON.
 * @param json what `parseJson` returned
 * @throws ValueUnsupportedError if an object's only name starts with `$` and has no such meaning,
 * or the value is nested deeper than a value may be
 */
export function valueFromJson(json: Json): Value {
  return read(json, 0);
}

function read(json: Json, depth: number): Value {
  if (typeof json !== 'object' || json === null) return json;
  if (depth >= MAX_VALUE_DEPTH) {
    throw new ValueUnsupportedError(`a value is nested deeper than ${MAX_VALUE_DEPTH} levels`);
  }
  if (isList(json)) return json.map((item) => read(item, depth + 1));
  const form = onlyForm(json);
  if (form === undefined) return plainFrom(json, depth);
  const [content] = Object.values(json);
  if (form === '$object' && typeof content === 'object' && content !== null && !isList(content))
    return plainFrom(content, depth);
  const value = isForm(form) && typeof content === 'string' ? FORMS[form](content) : undefined;
  if (value !== undefined) return value;
  // A text of the whole object may be too deep to make.
  const shown = typeof content === 'object' ? '…' : JSON.stringify(content).slice(0, 100);
  throw new ValueUnsupportedError(`{${JSON.stringify(form)}:${shown}} is not a value`, {
    advice: `Write an object whose only name starts with $ as {"$object":{…}}; ${Object.keys(FORMS).join(', ')} have a meaning`,
  });
}

function numberToText(number: number): string {
  return Object.is(number, -0) ? '-0' : String(number);
}

function plainFrom(json: { readonly [name: string]: Json }, depth: number): Value {
  return Object.fromEntries(Object.entries(json).map(([name, item]) => [name, read(item, depth + 1)]));
}

/** The only name of an object, if it starts with `$`. */
function onlyForm(value: object): string | undefined {
  const [name, ...others] = Object.keys(value);
  return others.length === 0 && name?.startsWith('$') === true ? name : undefined;
}

function isForm(name: string): name is keyof typeof FORMS {
  return Object.hasOwn(FORMS, name);
}

function isList<T>(value: readonly T[] | object): value is readonly T[] {
  return Array.isArray(value);
}
